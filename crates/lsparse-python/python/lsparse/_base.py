"""What all estimators share: reading arrays in place, settings for the library, and what a fit leaves behind."""

from __future__ import annotations

import json
import os
import re
import warnings
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from numbers import Integral, Real
from typing import Any, ClassVar, Literal, TypeVar

import joblib
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin, _fit_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils._openmp_helpers import _openmp_effective_n_threads
from sklearn.utils._param_validation import InvalidParameterError
from sklearn.utils.validation import check_is_fitted, validate_data

from . import _core
from ._page import Page
from ._parameters import COUNT, POSITIVE, parameter, setting, wanted
from ._progress import Progress

FLOATS = NDArray[np.float64]
INTEGERS = NDArray[np.int64]
PATH = str | os.PathLike[str]
#: Told of a step by the names of ``trace_``; true ends the fit after the current batch.
Callback = Callable[[dict[str, Any]], object]
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
    arrays = X.data, X.indices, X.indptr
    if not all(array.flags.aligned and array.flags.c_contiguous for array in arrays):
        # What came from another process may lie anywhere.
        arrays = tuple(np.require(array, requirements=["C_CONTIGUOUS", "ALIGNED"]) for array in arrays)
        X = sp.csr_array(arrays, shape=X.shape)
    return X


def threads_of(n_jobs: int | None) -> int:
    """Threads for ``n_jobs``: so many if given, else as many as scikit-learn's own parallel loops would take.

    These heed ``OMP_NUM_THREADS``, which joblib sets in its worker processes, the limits of threadpoolctl and the
    processors that the process may use.
    """
    if n_jobs is not None:
        return int(joblib.effective_n_jobs(n_jobs))
    backend, _ = joblib.parallel.get_active_backend()
    if (backend.nesting_level or 0) > 0 and not os.environ.get("OMP_NUM_THREADS"):
        # One of joblib's own threads, which are as many as there are processors.
        return 1
    with warnings.catch_warnings():
        # Threads are no processes, which joblib says that workers of Dask may not have.
        warnings.filterwarnings("ignore", message=".*setting n_jobs=1")
        most = joblib.effective_n_jobs(-1)
    return int(min(_openmp_effective_n_threads(only_physical_cores=False), most))


def checked_lengths(lengths: Any) -> list[int]:
    """Lengths of sequences as whole numbers."""
    found = np.asarray(lengths)
    if found.ndim != 1 or not np.array_equal(found, found.astype(np.int64)) or (found < 0).any():
        raise ValueError("lengths are whole numbers, zero or more, one for each sequence")
    return [int(length) for length in found]


def float_type(X: Any) -> np.dtype[Any]:
    """The type of what is made of these rows: 32 bits where they are of 32 bits."""
    return np.dtype(np.float32 if X.dtype == np.float32 else np.float64)


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
    _dtype: np.dtype[Any] = np.dtype(np.float64)


@dataclass(eq=False, repr=False)
class Estimator(_Fitted):
    """Base of all estimators, with the parameters of all."""

    #: Which sparse matrices are read.
    _accept_sparse: ClassVar[str | bool] = "csr"
    #: What shows fits as they go.
    _page: ClassVar[Page | None] = None
    #: What the library calls K.
    _components_setting: ClassVar[str] = "clusters"
    #: What NaN is where values may be missing.
    _nan: ClassVar[str] = "NaN is a value that is missing"
    #: What it calls the size of a batch.
    _batch_setting: ClassVar[str] = "rows-per-batch"

    n_components: int | Literal["auto"] = parameter(
        10,
        'int or "auto"',
        COUNT,
        'K, the number of components; "auto" finds it while training: components are split, merged and given up at the '
        "end of laps, whatever raises the objective of a Dirichlet process mixture. The fitted one is the length of "
        "``weights_``.",
    )
    _: KW_ONLY
    sparsity: int | Literal["auto"] | None = parameter(
        None,
        'int or "auto"',
        COUNT,
        "L, the number of components that a row keeps, K (with a warning) if that is smaller; 8 if not given, or K if there are "
        'at most 16. "auto" is as few as lose less than a hundredth of a row on average. '
        "``sparsity=n_components`` is the ordinary dense algorithm, ``sparsity=1`` hard assignment.",
    )
    schedule: str = setting("mixture", "schedule")
    batch_size: int | None = parameter(
        None,
        "int",
        COUNT,
        "Rows a batch; if not given 2,000, or ten times ``n_components`` if that is more, in at most 20 batches.",
    )
    max_iter: int | None = setting("mixture", "laps")
    early_stopping: int | None = setting("mixture", "early-stopping")
    tol: float | None = setting("mixture", "tolerance", more="0 is none too: no gain is less.")
    max_seconds: float | None = setting("mixture", "max-seconds")
    n_init: int = setting("mixture", "runs")
    learning_offset: float = setting("mixture", "delay")
    learning_decay: float = setting("mixture", "decay")
    random_state: Any = parameter(
        None,
        "int, RandomState instance or None",
        "random_state",
        "Seed of all randomness. An integer is the command's ``--seed``: the same model, bit for bit.",
    )
    warm_start: bool = parameter(False, "bool", "boolean", "Go on from the components of the last fit.")
    verbose: int = parameter(0, "int", "verbose", "1 for a progress bar on standard error.")
    n_jobs: int | None = parameter(
        None,
        "int",
        Integral,
        "Threads; -1 for all cores, None for as many as scikit-learn's own loops take, which heed joblib, threadpoolctl "
        "and ``OMP_NUM_THREADS``. The result is the same with any number.",
    )
    memo_memory: int | None = parameter(
        None,
        "int",
        COUNT,
        "Bytes of memory for what is remembered of batches and rows; the rest goes to a file. No limit if not given.",
    )

    def _rows(self, X: Any, *, reset: bool, min_samples: int = 1) -> Any:
        """Checked as scikit-learn does, and read in place where that is possible; rows elsewhere as they are."""
        if hasattr(X, "batches_per_round"):
            self.n_features_in_ = X.columns
            self.__dict__.pop("feature_names_in_", None)
            if X.names is not None:
                self.feature_names_in_ = np.asarray(X.names, dtype=object)
            return X
        sparse = sp.issparse(X)
        if sparse and X.format == "csr":
            # SciPy itself goes astray over row pointers that point nowhere.
            X.check_format(full_check=True)
        try:
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
        except ValueError as error:
            if "contains NaN" in str(error) and "missing" in self._parameter_constraints:
                # scikit-learn goes on about other estimators.
                first = str(error).split("\n", maxsplit=1)[0]
                raise ValueError(f"{first}\nGive missing=True, and {self._nan}.") from None
            raise
        return readable(X)

    def _heldout_rows(self, X_val: Any) -> Any:
        """The same for held-out rows, which scikit-learn would call X."""
        try:
            return self._rows(X_val, reset=False)
        except (TypeError, ValueError) as error:
            text = re.sub(r"\bX\b", "X_val", str(error))
            text = text if "X_val" in text else f"X_val: {text}"
            raise (TypeError if isinstance(error, TypeError) else ValueError)(text) from error

    @property
    def _schedule(self) -> str:
        """When statistics enter the total."""
        return str(self.schedule)

    def _batching(self, X: Any) -> dict[str, Any]:
        """Settings of batches for rows that lie in pieces, which are the batches."""
        if not hasattr(X, "cuts"):
            return {}
        return {"batches": None if self._schedule == "full" else len(X.cuts), self._batch_setting: None}

    def _allows_nan(self) -> bool:
        """Whether values may be missing."""
        return False

    def watch(self, port: int | None = None) -> Page:
        """Serve a page that shows the fits of this estimator as they go, and can stop them.

        Parameters
        ----------
        port : int, default=None
            Port of the page, which this machine alone can ask; any that is free if not given.

        Returns
        -------
        page : Page
            Its ``url`` is to be opened in a browser; ``close`` ends it.

        Examples
        --------
        >>> from lsparse import GaussianMixture
        >>> gm = GaussianMixture(2, random_state=0)
        >>> with gm.watch() as page:
        ...     gm = gm.fit([[0.0], [0.2], [9.0], [9.2]])
        >>> page
        Page(closed)
        """
        if self._page is not None:
            self._page.close()
        page = Page([], port)
        # What is no parameter is no field.
        self.__dict__["_page"] = page
        return page

    def __getstate__(self) -> dict[str, Any]:
        # A page is this process's.
        return {name: value for name, value in super().__getstate__().items() if name != "_page"}

    def _resumed(self, checkpoint: PATH | None, resume: bool) -> dict[str, Any]:
        """The seed of the fit to go on from, where none is given."""
        if self.random_state is not None or not resume or checkpoint is None:
            return {}
        seed = _core.checkpoint_seed(os.fspath(checkpoint))
        return {} if seed is None else {"seed": seed}

    def _validate_params(self) -> None:
        """As scikit-learn does; and True is no number."""
        super()._validate_params()
        for name, value in self.get_params(deep=False).items():
            checks = self._parameter_constraints.get(name, ["boolean"])
            if isinstance(value, bool | np.bool_) and not {"boolean", "verbose"} & {c for c in checks if isinstance(c, str)}:
                raise InvalidParameterError(
                    f"The {name!r} parameter of {type(self).__name__} must be {wanted(checks)}. Got {value} instead."
                )

    def _seed(self) -> int:
        """An integer is the seed itself, the same as the command's ``--seed``."""
        if isinstance(self.random_state, Integral):
            return int(self.random_state)
        return int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))

    def _finds_components(self) -> bool:
        """Whether K is to be found."""
        return isinstance(self.n_components, str)

    def _laps(self) -> int | None:
        """Laps at most."""
        return self.max_iter

    def _shared_config(self, **overrides: Any) -> dict[str, Any]:
        """The settings that all models have, by the names of the library.

        What is None is left to its default, but for rules that end a run, of which there is none then.
        """
        config = {
            "sparsity": self.sparsity,
            "schedule": self._schedule,
            "delay": float(self.learning_offset),
            "decay": float(self.learning_decay),
            "runs": int(self.n_init),
            "seed": self._seed(),
            "laps": self._laps(),
            "tolerance": self.tol or None,
            "max-seconds": self.max_seconds,
            "early-stopping": self.early_stopping,
            **overrides,
        }
        numbers = {name: value.item() if isinstance(value, np.generic) else value for name, value in config.items()}
        return {name: value for name, value in numbers.items() if value is not None or name in ("tolerance", "laps")}

    def _around(
        self,
        X_val: Any = None,
        checkpoint: PATH | None = None,
        checkpoint_every: float = 60.0,
        resume: bool = False,
        trace: PATH | None = None,
        callback: Callback | None = None,
    ) -> dict[str, Any]:
        """What a fit has around it, as the library takes it."""
        if resume and checkpoint is None:
            raise ValueError("resume: there is no checkpoint to go on from; give checkpoint too")
        if checkpoint is not None and os.path.isdir(checkpoint):
            raise ValueError(f"checkpoint: {os.fspath(checkpoint)} is a folder; give a file")
        if not (isinstance(checkpoint_every, Real) and checkpoint_every >= 0):
            raise ValueError(f"checkpoint_every: {checkpoint_every!r} is no number of seconds; give zero or more")
        if callback is not None and not callable(callback):
            raise TypeError(f"callback: a {type(callback).__name__} cannot be called; give a function of a dict")
        progress = Progress(self._laps(), self.n_init) if self.verbose else None
        return {
            "heldout": None if X_val is None else self._heldout_rows(X_val),
            "checkpoint": None if checkpoint is None else os.fspath(checkpoint),
            "checkpoint_every": float(checkpoint_every),
            "resume": bool(resume),
            "memo_memory": self.memo_memory,
            "trace": None if trace is None else os.fspath(trace),
            "threads": threads_of(self.n_jobs),
            "watch": None if progress is None and callback is None else _Watch(progress, callback),
            "waits": callback is not None,
            "page": None if self._page is None else self._page._page,
        }

    def _settle(self, model: Any, report: dict[str, Any], around: dict[str, Any], dtype: np.dtype[Any]) -> None:
        """Keep what a fit gave, and then raise what was raised meanwhile: Ctrl-C, say."""
        if around["watch"] is not None:
            around["watch"].close(report["reason"])
        self._dtype = dtype
        self._take(model)
        self.converged_ = report["converged"]
        self.trace_ = report["trace"]
        self.fit_seconds_ = report["seconds"]
        for note in report["notes"]:
            warnings.warn(note, UserWarning, stacklevel=4)
        if report.get("reached") is not None:
            warnings.warn(
                f"all of the {report['reached']} components that n_components_max allows are in use, and more were not tried: "
                "raise it",
                ConvergenceWarning,
                stacklevel=4,
            )
        if report["raised"] is not None:
            raise report["raised"]

    def _take(self, model: Any) -> None:
        """Take over a trained model."""
        self.model_ = model
        training = json.loads(model.training)
        self.n_iter_ = training["laps"]
        self.objective_ = training["objective"]
        self.converged_ = training["stopped_by"] in ("tolerance", "count-tolerance")

    @property
    def _n_features_out(self) -> int:
        # Only a fitted one has it, which is how scikit-learn knows.
        if not hasattr(self, "model_"):
            raise AttributeError("_n_features_out")
        return int(json.loads(self.model_.config)[self._components_setting])

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    def _fitted(self, X: Any) -> Any:
        """Rows to apply a fitted model to."""
        check_is_fitted(self)
        return self._rows(X, reset=False)


@dataclass(eq=False, repr=False, kw_only=True)
class GrowingEstimator(Estimator):
    """Estimators that take more rows step by step, and whose rows GPUs may work on."""

    total_samples: float | None = parameter(
        None,
        "float",
        POSITIVE,
        "Rows that there will be, for stochastic ``partial_fit``; those seen so far if not given.",
    )
    device: str = setting("mixture", "device")

    def _validate_params(self) -> None:
        super()._validate_params()
        if not re.fullmatch(r"auto|cpu|cuda(:\d+)?", self.device):
            raise InvalidParameterError(
                f"The 'device' parameter of {type(self).__name__} must be 'auto', 'cpu', 'cuda', or 'cuda:1' for the second "
                f"GPU and so on. Got {self.device!r} instead."
            )

    def _shared_config(self, **overrides: Any) -> dict[str, Any]:
        return super()._shared_config(**{"device": None if self.device == "auto" else self.device, **overrides})

    def _rate(self) -> dict[str, float]:
        """How new rows enter the total in ``partial_fit``: nothing for adding them, a rate for blending them in."""
        if self._schedule != "stochastic":
            return {}
        # As in stochastic training, the step that is to be taken counts.
        step = json.loads(self.model_.training)["steps"] + 1
        how = {"rate": min((self.learning_offset + step) ** -self.learning_decay, 1.0)}
        return how if self.total_samples is None else {**how, "population": float(self.total_samples)}

    def _note_step(self) -> None:
        """Add the step that a ``partial_fit`` took to the trace; what it did not measure is NaN."""
        training = json.loads(self.model_.training)
        known = {"run": 0, "step": training["steps"], "batch": 0, "lap": float(training["laps"])}
        known |= {name: training[name] for name in training if name.startswith("objective")}
        for name, column in self.trace_.items():
            value = known.get(name, {"f": np.nan, "O": []}.get(column.dtype.kind, -1))
            step = np.empty(1, dtype=column.dtype)
            step[0] = value
            self.trace_[name] = np.append(column, step)


class _Watch:
    """Told of the steps of a fit while it runs: draws the progress bar and calls the callback."""

    def __init__(self, progress: Progress | None, callback: Callback | None) -> None:
        self._progress = progress
        self._callback = callback
        self._objective: float | None = None

    def __call__(self, lines: list[str]) -> bool:
        ends = False
        for step in map(json.loads, lines):
            # Not every step has an objective: the latest that is known.
            self._objective = step.get("objective", self._objective)
            if self._callback is not None:
                ends = bool(self._callback(step)) or ends
        if self._progress is not None:
            self._progress(step["run"], step["lap"], step["seconds"], self._objective)
        return ends

    def close(self, reason: str) -> None:
        if self._progress is not None:
            self._progress.close(reason)
