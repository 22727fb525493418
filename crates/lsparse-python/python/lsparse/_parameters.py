"""Parameters of estimators, declared once: default, type, what scikit-learn checks them by, and documentation."""

from __future__ import annotations

import inspect
import json
import textwrap
from dataclasses import field, fields
from numbers import Integral, Real
from typing import Any, TypeVar

from sklearn.utils._param_validation import Interval, StrOptions, make_constraint

_Class = TypeVar("_Class", bound=type)

COUNT = Interval(Integral, 1, None, closed="left")
POSITIVE = Interval(Real, 0.0, None, closed="neither")
NOT_NEGATIVE = Interval(Real, 0.0, None, closed="left")


def parameter(default: Any, kind: str, check: Any, text: str) -> Any:
    """A parameter of this default; None may be given where it is the default or the kind says so."""
    checks = ["array-like", Interval(Real, 0.0, None, closed="neither")] if check == "array-like or number" else [check]
    # A random state may be None as it is.
    if (default is None or kind.endswith("or None")) and check != "random_state":
        checks.append(None)
    if kind.endswith('or "auto"'):
        checks.append(StrOptions({"auto"}))
    return field(default=default, metadata={"kind": kind, "checks": checks, "text": text})


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
    declared = {each.name: each for each in fields(estimator)}
    checks = {name: each.metadata["checks"] for name, each in declared.items()}
    setattr(estimator, "_parameter_constraints", checks)
    # What the estimator itself has comes before what all have, but after K and L.
    own = [name for base in estimator.__mro__ for name in inspect.get_annotations(base) if name in declared]
    lines = []
    for each in map(declared.__getitem__, dict.fromkeys(["n_components", "sparsity", *own])):
        default = json.dumps(each.default) if isinstance(each.default, str) else each.default
        lines.append(f"{each.name} : {each.metadata['kind']}, default={default}")
        lines += textwrap.wrap(each.metadata["text"], 110, initial_indent="    ", subsequent_indent="    ")
    estimator.__doc__ = inspect.cleandoc(estimator.__doc__ or "").replace("{parameters}", "\n".join(lines))
    return estimator
