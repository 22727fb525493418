"""Write the reference of the Python package from its docstrings: `api.py FOLDER`, a page of Markdown a module or estimator.

Docstrings are numpydoc: sections underlined with dashes, parameters as `name : type` with an indented text. Their examples
are run by the doctests of the package, so here they are shown as they are.
"""

import inspect
import re
import sys
import textwrap
from importlib.util import find_spec
from pathlib import Path
from unittest.mock import MagicMock

import lsparse
import lsparse.dask
import lsparse.exchange
import lsparse.plot

# Engines are large, and what is read here of the modules that use them is their docstrings.
for _engine, _parts in {"ray": ["exceptions"], "py4j": ["protocol"], "pyspark": ["errors", "sql"]}.items():
    if find_spec(_engine) is None:
        sys.modules.update({name: MagicMock() for name in [_engine, *(f"{_engine}.{part}" for part in _parts)]})

import lsparse.ray  # noqa: E402
import lsparse.spark  # noqa: E402

ESTIMATORS = ["GaussianMixture", "MultinomialMixture", "PoissonMixture", "BernoulliMixture", "TopicModel", "HMM"]


def words(text: str) -> str:
    """Plain text of a docstring as Markdown."""
    text = re.sub(r":(?:class|func|meth|mod|attr):`~?([^`]+)`", r"`\1`", text)
    text = re.sub(r"``([^`]+)``", r"`\1`", text)
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(part if part.startswith("`") else re.sub(r"([<*_\[\]|])", r"\\\1", part) for part in parts)


def sections(doc: str) -> list[tuple[str, str]]:
    """The opening text under no name, and each section under its own."""
    parts = re.split(r"^(.+)\n-{3,}\n", doc, flags=re.MULTILINE)
    return [("", parts[0].strip()), *zip(parts[1::2], (part.rstrip() for part in parts[2::2]))]


def entries(text: str) -> str:
    """`name : type` and its text, as a list."""
    out = []
    for line in text.splitlines():
        if not line.strip():
            continue
        if not line.startswith(" "):
            name, _, kind = line.partition(" : ")
            out.append(f"- **{words(name) if ' ' in name and ',' not in name else '`' + name + '`'}**" + (f" ({words(kind)})" if kind else ""))
            out.append("")
        else:
            out[-1] += " " + words(line.strip())
    lines = []
    for head, body in zip(out[::2], out[1::2]):
        lines.append(f"{head}:{body.rstrip()}" if body.strip() else head)
    return "\n".join(lines)


def described(thing: object, depth: int) -> str:
    """A docstring as Markdown, its sections `depth` signs deep."""
    out = []
    for name, text in sections(inspect.getdoc(thing) or ""):
        if not name:
            out.append(words(text))
        elif name == "Examples":
            out.append(f"**Examples**\n\n```pycon\n{text.strip()}\n```")
        elif name in ("Parameters", "Attributes", "Returns", "Yields", "Raises"):
            out.append(f"**{name}**\n\n{entries(text)}")
        else:
            out.append(f"**{name}**\n\n{words(text)}")
    return "\n\n".join(out)


def signature(name: str, thing: object) -> str:
    """How it is called: names and defaults; the docstring says the types."""
    try:
        found = inspect.signature(thing)
    except (TypeError, ValueError):
        return name
    empty = inspect.Parameter.empty
    plain = [each.replace(annotation=empty) for key, each in found.parameters.items() if key not in ("self", "cls")]
    plain = str(found.replace(parameters=plain, return_annotation=empty))
    text = f"{name}{plain}"
    if len(text) <= 96:
        return text
    return f"{name}(\n" + textwrap.fill(plain[1:-1], 92, initial_indent="    ", subsequent_indent="    ") + ",\n)"


def entry(name: str, thing: object, depth: int) -> str:
    return f"{'#' * depth} {name}\n\n```pycon\n{signature(name, thing)}\n```\n\n{described(thing, depth)}\n"


def estimator_page(name: str, cls: type) -> str:
    out = [f"# {name}\n\n```pycon\n{signature('lsparse.' + name, cls)}\n```\n\n{described(cls, 2)}\n\n## Methods\n"]
    for method, member in inspect.getmembers(cls, inspect.isfunction):
        if not method.startswith("_") and member.__module__.startswith("lsparse"):
            out.append(entry(method, member, 3))
    return "\n".join(out)


def module_page(title: str, module: object, names: list[str]) -> str:
    text = [f"# {title}\n\n{described(module, 2)}\n"]
    for name in names:
        thing = getattr(module, name)
        text.append(entry(name, thing, 2))
        if inspect.isclass(thing) and not issubclass(thing, BaseException):
            for method, member in inspect.getmembers(thing, inspect.isfunction):
                if not method.startswith("_") and member.__module__.startswith("lsparse") and member.__doc__:
                    text.append(entry(f"{name}.{method}", member, 3))
    return "\n".join(text)


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True)
    there = [name for name in ESTIMATORS if name in lsparse.__all__]
    for name in there:
        (folder / f"{name}.md").write_text(estimator_page(name, getattr(lsparse, name)))
    others = [name for name in lsparse.__all__ if name not in there]
    (folder / "functions.md").write_text(module_page("Functions and classes of lsparse", lsparse, others))
    for module in (lsparse.plot, lsparse.dask, lsparse.ray, lsparse.spark, lsparse.exchange):
        name = module.__name__
        names = [each for each in module.__all__ if each not in ESTIMATORS]
        (folder / f"{name.rpartition('.')[2]}.md").write_text(module_page(name, module, names))


if __name__ == "__main__":
    main()
