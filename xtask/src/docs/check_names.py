"""Whether what texts name is there: `check_names.py TEXTS REFERENCE BENCHMARKS`.

TEXTS is JSON, a list of `{"page", "line", "language", "text"}`: what stands between backticks, and blocks of code that are not
run. Commands of lsparse must have the options that they are given, and Python the names and keywords. REFERENCE is the
folder that `lsparse manual --markdown` wrote, BENCHMARKS the names that `cargo xtask bench` knows, by commas. What is wrong
is printed, a line each.
"""

import ast
import inspect
import json
import re
import shlex
import sys
from pathlib import Path

import api  # noqa: F401  (engines that are not installed have a stand-in there)
import lsparse

#: Pages that speak of options of other programs as well, and those outside docs of options of `cargo xtask`.
OTHERS = {"docs/migrating/mallet.md"}

#: Commands that are there, and not shown to users.
HIDDEN = {"manual": {"--man", "--markdown"}}

OPTION = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]*")


def commands(reference: Path) -> dict[str, set[str]]:
    """Options by command, `fit topics`, as the reference has them."""
    found = {}
    for page in reference.glob("*.md"):
        text = page.read_text()
        name = text.splitlines()[0].removeprefix("# lsparse ")
        found[name] = {option for line in text.splitlines() if line.startswith("### `") for option in OPTION.findall(line)}
        found[name] |= {"--help"}
    return found | HIDDEN


def wrong_commands(text: str, known: dict[str, set[str]], benchmarks: set[str], strict: bool):
    """What is wrong with commands in a text; `strict`: an option that stands alone is one of ours."""
    for line in re.split(r"\n|&&|\|", text.replace("\\\n", " ")):
        try:
            words = shlex.split(line, comments=True)
        except ValueError:
            continue
        while words and re.fullmatch(r"[A-Z_]+=\S*", words[0]):
            words.pop(0)
        if words[:3] == ["cargo", "xtask", "bench"] and len(words) > 3 and words[3].islower() and words[3] not in benchmarks:
            yield f"there is no benchmark {words[3]}"
        if words[:1] == ["lsparse"] and len(words) > 1 and not words[1].startswith("-"):
            name = next((" ".join(words[1:n]) for n in (3, 2) if " ".join(words[1:n]) in known), None)
            family = [each for each in known if each.split()[0] == words[1]]
            if name is None and not family:
                yield f"there is no command lsparse {words[1]}"
            options = known[name] if name else set().union(*(known[each] for each in family))
            for word in words[1:]:
                for option in OPTION.findall(word.partition("=")[0]):
                    if option not in options:
                        yield f"lsparse {name or words[1]} has no {option}"
        elif strict and words and words[0].startswith("--") and not any(words[0].partition("=")[0] in each for each in known.values()):
            yield f"no command has {words[0]}"


def resolve(node: ast.expr):
    """What a dotted name of lsparse is, and its name; none where it is another's."""
    if isinstance(node, ast.Name):
        if node.id == "lsparse":
            return lsparse, "lsparse"
        return (getattr(lsparse, node.id), node.id) if node.id in lsparse.__all__ else None
    if isinstance(node, ast.Attribute) and (found := resolve(node.value)) is not None:
        thing, name = found
        name = f"{name}.{node.attr}"
        if not hasattr(thing, node.attr):
            # Attributes of what is fitted are not there yet.
            if inspect.isclass(thing) and (node.attr.endswith("_") or node.attr in (inspect.getdoc(thing) or "")):
                return None
            raise NameError(f"there is no {name}")
        return getattr(thing, node.attr), name
    return None


def wrong_python(text: str, is_python: bool, others: bool):
    """What is wrong with Python in a text, which may be no Python at all; `others`: names are those of other packages too."""
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        if is_python:
            yield str(error)
        return
    for node in ast.walk(tree):
        try:
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "lsparse":
                module = lsparse
                for part in node.module.split(".")[1:]:
                    module = getattr(module, part)
                yield from (f"there is no {node.module}.{each.name}" for each in node.names if not hasattr(module, each.name))
            elif isinstance(node, ast.Attribute):
                resolve(node)
            elif isinstance(node, ast.Call) and (found := resolve(node.func)) is not None:
                thing, name = found
                if others and "." not in name:
                    continue
                parameters = inspect.signature(thing).parameters
                if not any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters.values()):
                    yield from (f"{name} has no {key.arg}" for key in node.keywords if key.arg and key.arg not in parameters)
        except (AttributeError, NameError) as error:
            yield str(error)


def main() -> None:
    texts, known = json.loads(Path(sys.argv[1]).read_text()), commands(Path(sys.argv[2]))
    benchmarks = set(sys.argv[3].split(","))
    for each in texts:
        others = each["page"].startswith("docs/migrating")
        strict = each["page"].startswith("docs/") and each["page"] not in OTHERS
        found = []
        if each["language"] != "python":
            found += wrong_commands(each["text"], known, benchmarks, strict)
        if each["language"] != "sh":
            found += wrong_python(each["text"], each["language"] == "python", others)
        for problem in dict.fromkeys(found):
            print(f"{each['page']}:{each['line']}: {problem}")


if __name__ == "__main__":
    main()
