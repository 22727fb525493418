"""Parameters of estimators: those that are settings of the library as it declares them, the others declared once here."""

from __future__ import annotations

import inspect
import json
import re
import textwrap
from dataclasses import field, fields
from functools import cache
from numbers import Integral, Real
from typing import Any, TypeVar

from sklearn.utils._param_validation import Interval, StrOptions, make_constraint

from . import _core

_Class = TypeVar("_Class", bound=type)

COUNT = Interval(Integral, 1, None, closed="left")
POSITIVE = Interval(Real, 0.0, None, closed="neither")
NOT_NEGATIVE = Interval(Real, 0.0, None, closed="left")


def parameter(
    default: Any, kind: str, check: Any, text: str, *, setting: str | None = None, optional: bool = False
) -> Any:
    """A parameter of this default; None may be given where it is optional, the default, or the kind says so."""
    checks = ["array-like", Interval(Real, 0.0, None, closed="neither")] if check == "array-like or number" else [check]
    # A random state may be None as it is.
    if (optional or default is None or kind.endswith("or None")) and check != "random_state":
        checks.append(None)
    if kind.endswith('or "auto"'):
        checks.append(StrOptions({"auto"}))
    return field(default=default, metadata={"kind": kind, "checks": checks, "text": text, "setting": setting})


@cache
def declared(kind: str) -> dict[str, dict[str, Any]]:
    """All that the library declares of the settings of a kind of model, by name."""
    return json.loads(_core.settings(kind))  # type: ignore[no-any-return]


def setting(
    kind: str, name: str, *, default: Any = ..., least: int | None = None, names: tuple[str, ...] = (), more: str = ""
) -> Any:
    """A parameter that is a setting of the library: default, type, range and documentation are those declared there.

    Python may have another default (None where what the library has is to hold if nothing is given), another least number,
    some of the names alone, and more to say.
    """
    found = declared(kind)[name]
    default = found["default"] if default is ... else default
    text, form = found["about"], found["kind"]
    offered = {each: about for each, about in found["names"] if not names or each in names}
    if offered:
        form = f"{{{', '.join(map(json.dumps, offered))}}}"
        text = " ".join([text, *(f'"{each}": {_as_clause(about)}' for each, about in offered.items())])
    if default is None and found["otherwise"] != "none":
        text = f"{text.rstrip('.')}; {found['otherwise']} if not given."
    # As scikit-learn calls them.
    text = re.sub(r"\b([a-z-]+)-gauss\b", r'"\1"', text)
    text = text.replace("cluster", "component") if kind == "mixture" else text
    checks = {"bool": "boolean", "str": str, "names": StrOptions(set(offered))}
    check = checks.get(found["kind"]) or _numbers(found, least)
    if found["optional"] and default is not None:
        text = f"{text.rstrip('.')}; None for no such rule."
    return parameter(default, form, check, f"{text} {more}".strip(), setting=name, optional=found["optional"])


def _as_clause(about: str) -> str:
    """What a name stands for, as it is said behind a colon."""
    about = about.strip()
    return about[0].lower() + about[1:] if about[1:2].islower() or about.startswith("A ") else about


def _numbers(found: dict[str, Any], least: int | None) -> Interval:
    """The numbers that a setting may be."""
    whole = found["kind"] == "int"
    bounds = ("above", "least", "below", "most")
    above, lowest, below, most = (int(found[of]) if whole and found[of] is not None else found[of] for of in bounds)
    lowest = (0 if whole and lowest is None else lowest) if least is None else least
    closed = (above is None and lowest is not None, most is not None)
    sides = {(True, True): "both", (True, False): "left", (False, True): "right", (False, False): "neither"}
    low, high = lowest if above is None else above, below if most is None else most
    return Interval(Integral if whole else Real, low, high, closed=sides[closed])


def choice(default: str | None, names: tuple[str, ...], text: str) -> Any:
    """A parameter that is one of these names."""
    kind = ", ".join(json.dumps(name) for name in names)
    return parameter(default, f"{{{kind}}}", StrOptions(set(names)), text)


def wanted(checks: list[Any]) -> str:
    """What a parameter must be, as scikit-learn says it."""
    texts = [str(make_constraint(check)) for check in checks]
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} or {texts[-1]}"


def described(estimator: _Class) -> _Class:
    """Give a dataclass what its parameters say: scikit-learn's checks, and documentation in place of {parameters}."""
    known = {each.name: each for each in fields(estimator)}
    checks = {name: each.metadata["checks"] for name, each in known.items()}
    setattr(estimator, "_parameter_constraints", checks)
    # What the estimator itself has comes before what all have, but after K and L.
    own = [name for base in estimator.__mro__ for name in inspect.get_annotations(base) if name in known]
    lines = []
    for each in map(known.__getitem__, dict.fromkeys(["n_components", "sparsity", *own])):
        default = json.dumps(each.default) if isinstance(each.default, str) else each.default
        lines.append(f"{each.name} : {each.metadata['kind']}, default={default}")
        lines += textwrap.wrap(each.metadata["text"], 110, initial_indent="    ", subsequent_indent="    ")
    estimator.__doc__ = inspect.cleandoc(estimator.__doc__ or "").replace("{parameters}", "\n".join(lines))
    return estimator
