"""What all estimators share: reading arrays in place, settings for the library, and what a fit leaves behind."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from numbers import Integral, Real
from typing import Any, ClassVar, TypeVar

import joblib
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin, _fit_context
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted, validate_data

from ._errors import InterruptedWarning
from ._parameters import COUNT, NOT_NEGATIVE, POSITIVE, choice, parameter
from ._progress import Progress

FLOATS = NDArray[np.float64]
INTEGERS = NDArray[np.int64]
_Method = TypeVar("_Method", bound=Callable[..., Any])

#: Sparse values that are read as they are.
_SPARSE_TYPES = tuple(
    np.dtype(name) for name in ("f4", "f8", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8")
)


def readable(X: Any) -> Any:
    """The same rows in a form that the library reads in place; a copy only of what has no such form."""
    if not sp.issparse(X):
        return np.require(X, requirements=["C_CONTIGUOUS", "ALIGNED"])
    if X.dtype.kind not in "fiub":
        raise ValueError(f"Complex data not supported\n{X!r}")
    if X.dtype.kind == "b":
        X = sp.csr_array((X.data.view(np.uint8), X.indices, X.indptr), shape=X.shape)
    elif X.dtype not in _SPARSE_TYPES:
        X = X.astype(np.float64)
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    return X


def threads_of(n_jobs: int | None) -> int:
    """Threads for ``n_jobs`` in scikit-learn's sense, except that ``None`` is all cores as well."""
    return int(joblib.effective_n_jobs(-1 if n_jobs is None else n_jobs))


def checked(method: _Method) -> _Method:
    """Check the parameters of the estimator before the method runs, as scikit-learn does."""
    return _fit_context(prefer_skip_nested_validation=True)(method)  # type: ignore[no-any-return]


class _Fitted(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """What all estimators have after a fit."""

    n_features_in_: int
    converged_: bool
    n_iter_: int
    objective_: float
    trace_: dict[str, NDArray[Any]]
    fit_seconds_: float
    model_: Any


@dataclass(eq=False, repr=False)
class Estimator(_Fitted):
    """Base of all estimators, with the parameters of all."""

    #: Which sparse matrices are read.
    _accept_sparse: ClassVar[str | bool] = "csr"

    n_components: int = parameter(10, "int", COUNT, "K, the number of components.")
    _: KW_ONLY
    sparsity: int | None = parameter(
        None,
        "int",
        COUNT,
        "L, the number of components that a row keeps; 8 if not given, or K if that is smaller. "
        "``sparsity=n_components`` is the ordinary dense algorithm, ``sparsity=1`` hard assignment.",
    )
    schedule: str = choice(
        "memoized",
        ("memoized", "full", "stochastic", "streaming"),
        "When statistics enter the total: after every batch, replacing what the batch gave before; after all rows; "
        "after every batch at a falling rate; in one pass.",
    )
    batch_size: int | None = parameter(
        None,
        "int",
        COUNT,
        "Rows a batch; if not given 2,000, or ten times ``n_components`` if that is more, in at most 20 batches.",
    )
    max_iter: int = parameter(100, "int", COUNT, "Laps (passes over the rows) at most.")
    tol: float = parameter(
        1e-3, "float", NOT_NEGATIVE, "Stop when a row gains less than this in objective over a lap, in nats."
    )
    max_seconds: float | None = parameter(None, "float", POSITIVE, "Stop after so many seconds of training.")
    n_init: int = parameter(
        1, "int", COUNT, "Runs from different starts, of which the one with the best objective is kept."
    )
    learning_offset: float = parameter(
        1.0, "float", NOT_NEGATIVE, "Delay of the stochastic rate ``(offset + step) ** -decay``."
    )
    learning_decay: float = parameter(
        0.55,
        "float",
        Interval(Real, 0.5, 1.0, closed="right"),
        "Decay of the stochastic rate, above 0.5 and at most 1.",
    )
    total_samples: float | None = parameter(
        None,
        "float",
        POSITIVE,
        "Rows that there will be, for stochastic ``partial_fit``; those seen so far if not given.",
    )
    random_state: Any = parameter(
        None,
        "int, RandomState instance or None",
        "random_state",
        "Seed of all randomness. An integer is the command's ``--seed``: the same model, bit for bit.",
    )
    warm_start: bool = parameter(False, "bool", "boolean", "Go on from the components of the last fit.")
    verbose: int = parameter(0, "int", "verbose", "1 for a progress bar on standard error.")
    n_jobs: int | None = parameter(
        None, "int", Integral, "Threads; all cores for None and -1. The result is the same with any number."
    )

    def _rows(self, X: Any, *, reset: bool, min_samples: int = 1) -> Any:
        """Checked as scikit-learn does, and read in place where that is possible."""
        sparse = sp.issparse(X)
        if sparse and X.format == "csr":
            # SciPy itself goes astray over row pointers that point nowhere.
            X.check_format(full_check=True)
        X = validate_data(
            self,
            X,
            reset=reset,
            accept_sparse=self._accept_sparse,
            # Sparse integers are read as they are; everything else as floats.
            dtype=None if sparse and self._accept_sparse else [np.float64, np.float32],
            order="C",
            ensure_min_samples=min_samples,
            ensure_all_finite="allow-nan" if self._allows_nan() else True,
        )
        return readable(X)

    def _allows_nan(self) -> bool:
        """Whether values may be missing."""
        return False

    def _seed(self) -> int:
        """An integer is the seed itself, the same as the command's ``--seed``."""
        if isinstance(self.random_state, Integral):
            return int(self.random_state)
        return int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))

    def _shared_config(self, **overrides: Any) -> dict[str, Any]:
        """The settings that all models have, by the names of the library; what is None is left to its default."""
        config = {
            "sparsity": self.sparsity,
            "schedule": self.schedule,
            "delay": float(self.learning_offset),
            "decay": float(self.learning_decay),
            "runs": int(self.n_init),
            "seed": self._seed(),
            "laps": int(self.max_iter),
            "tolerance": float(self.tol),
            "max-seconds": self.max_seconds,
            **overrides,
        }
        numbers = {name: value.item() if isinstance(value, np.generic) else value for name, value in config.items()}
        return {name: value for name, value in numbers.items() if value is not None}

    def _progress(self) -> Progress | None:
        return Progress(self.max_iter, self.n_init) if self.verbose else None

    def _settle(self, model: Any, report: dict[str, Any], progress: Progress | None) -> None:
        """Keep what a fit gave."""
        if progress is not None:
            trace = report["trace"]
            if len(trace["step"]):
                progress(*(trace[name][-1] for name in ("run", "lap", "seconds", "objective")))
            progress.close(report["reason"])
        self._take(model)
        self.converged_ = report["converged"]
        self.trace_ = report["trace"]
        self.fit_seconds_ = report["seconds"]
        for remark in report["remarks"]:
            warnings.warn(remark, UserWarning, stacklevel=4)
        if report["interrupted"]:
            warnings.warn(
                f"{type(self).__name__} was interrupted after {len(self.trace_['step'])} batches; "
                "it holds the model so far",
                InterruptedWarning,
                stacklevel=4,
            )

    def _take(self, model: Any) -> None:
        """Take over a trained model."""
        self.model_ = model
        training = json.loads(model.training)
        self.n_iter_ = training["laps"]
        self.objective_ = training["objective"]
        self.converged_ = training["stopped_by"] in ("tolerance", "count-tolerance")

    def _rate(self) -> dict[str, float]:
        """How new rows enter the total in ``partial_fit``: nothing for adding them, a rate for blending them in."""
        if self.schedule != "stochastic":
            return {}
        # As in stochastic training, the step that is to be taken counts.
        step = json.loads(self.model_.training)["steps"] + 1
        how = {"rate": min((self.learning_offset + step) ** -self.learning_decay, 1.0)}
        return how if self.total_samples is None else {**how, "population": float(self.total_samples)}

    def _check_method(self) -> None:
        """Refuse to train a model from a file by another method than it was trained by."""
        method = getattr(self, "_method", "lsparse")
        if method not in ("lsparse", "hard-em"):
            raise ValueError(
                f"this model was trained by {method}, which fit would not do; make a new {type(self).__name__} to train"
            )

    def _note_step(self) -> None:
        """Add the step that a ``partial_fit`` took to the trace; what it did not measure is NaN."""
        training = json.loads(self.model_.training)
        known = {"run": 0, "step": training["steps"], "batch": 0, "lap": float(training["laps"])}
        known |= {name: training[name] for name in training if name.startswith("objective")}
        for name, column in self.trace_.items():
            value = known.get(name, np.nan if column.dtype.kind == "f" else -1)
            self.trace_[name] = np.append(column, np.asarray(value, dtype=column.dtype))

    @property
    def _n_features_out(self) -> int:
        return self.n_components

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    def _fitted(self, X: Any) -> Any:
        """Rows to apply a fitted model to."""
        check_is_fitted(self)
        return self._rows(X, reset=False)
