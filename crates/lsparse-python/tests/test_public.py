"""What is public is listed in public.txt: a name or parameter that goes, or another default, fails here until the list says so.

New names and new parameters with defaults may come; ``LSPARSE_GOLDEN=write`` lists them, as is to be done before a release.
"""

import inspect
import os
from pathlib import Path

import lsparse
import lsparse.dask
import lsparse.exchange
import lsparse.plot

LIST = Path(__file__).with_name("public.txt")


def shown(parameter):
    """A parameter with its default and, by a star, whether it goes by name alone."""
    kinds = inspect.Parameter
    star = {kinds.KEYWORD_ONLY: "*", kinds.VAR_POSITIONAL: "*", kinds.VAR_KEYWORD: "**"}.get(parameter.kind, "")
    return f"{star}{parameter.name}" + ("" if parameter.default is kinds.empty else f"={parameter.default!r}")


def described(thing):
    try:
        return [shown(each) for name, each in inspect.signature(thing).parameters.items() if name != "self"]
    except (TypeError, ValueError):
        return []


def public():
    """Names and what they are called with."""
    found = {}
    for module in (lsparse, lsparse.dask, lsparse.exchange, lsparse.plot):
        for name in module.__all__:
            thing = getattr(module, name)
            found[f"{module.__name__}.{name}"] = described(thing)
            if inspect.isclass(thing):
                for method, member in inspect.getmembers(thing, inspect.isfunction):
                    if not method.startswith("_") and member.__module__.startswith("lsparse"):
                        found[f"{module.__name__}.{name}.{method}"] = described(member)
    return found


def test_nothing_public_goes_without_a_word():
    found = public()
    assert len(found) > 60
    if os.environ.get("LSPARSE_GOLDEN") == "write":
        LIST.write_text("".join(f"{name}({'; '.join(parameters)})\n" for name, parameters in sorted(found.items())))
    wrong = []
    for line in LIST.read_text().splitlines():
        name, _, rest = line.removesuffix(")").partition("(")
        parameters = [each for each in rest.split("; ") if each]
        now = found.get(name)
        if now is None:
            wrong.append(f"{name} is gone")
            continue
        by_place = [each for each in parameters if not each.startswith("*")]
        new = set(now) - set(parameters)
        if now[: len(by_place)] != by_place or not set(parameters) <= set(now) or any("=" not in each for each in new):
            wrong.append(f"{name}: ({rest}) became ({'; '.join(now)})")
    assert not wrong, "\n".join(wrong)
