"""Mixtures of Gaussians, multinomials, Poissons and Bernoullis."""

from __future__ import annotations

import json
import warnings
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, TypeVar

import numpy as np
import scipy.sparse as sp
from sklearn.base import DensityMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_array
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, check_non_negative

from . import _core
from ._base import FLOATS, INTEGERS, PATH, Callback, GrowingEstimator, checked, float_type, threads_of
from ._errors import LsparseError
from ._parameters import NOT_NEGATIVE, POSITIVE, choice, described, parameter, setting

_Self = TypeVar("_Self", bound="_MixtureBase")

#: scikit-learn's names for ways to start, and the library's settings.
INIT_PARAMS: dict[str, dict[str, Any]] = {
    "auto": {"init": "auto"},
    "bregman": {"init": "bregman"},
    "kmeans": {"init": "kmeans", "init-lloyd": 20},
    "k-means++": {"init": "kmeans"},
    "random_from_data": {"init": "examples"},
    "random": {"init": "responsibilities"},
}

#: scikit-learn's names for covariances, and the library's families.
COVARIANCE_TYPES: dict[str, str] = {
    "full": "gauss",
    "diag": "diag-gauss",
    "spherical": "spherical-gauss",
    "tied": "tied-gauss",
    "zero-mean": "zero-mean-gauss",
}

#: Ways to train that need no centres.
METHODS = ("lsparse", "sparse-em", "truncation", "hard-em")


@dataclass(eq=False, repr=False, kw_only=True)
class _MixtureBase(DensityMixin, GrowingEstimator):  # type: ignore[misc]
    """What the mixtures share."""

    method: str = setting("mixture", "method", names=METHODS)
    refresh: int | None = setting("mixture", "refresh", default=None)
    threshold: float | None = setting("mixture", "threshold", default=None)
    selection_function: str | None = setting("mixture", "selection-function", default=None)
    max_iter: int | None = setting(
        "mixture", "laps", least=0, more="0 leaves the components that training would start from."
    )
    compute_labels: bool = parameter(
        False, "bool", "boolean", "Whether ``fit`` leaves ``labels_`` behind, which takes one more pass over the rows."
    )
    estimate: str = setting("mixture", "estimate")
    init_params: str = choice(
        "auto",
        tuple(INIT_PARAMS),
        "How the first components are found, on a sample of the rows: the best of k-means, k-means with columns in "
        'units of their standard deviations and "bregman", judged after some steps of training by rows that were left out '
        '("bregman" alone where components have no means); k-means++ under the likelihood\'s own divergence; k-means '
        "(20 passes after k-means++) or k-means++ alone with Euclidean distance; rows at random; responsibilities at "
        "random.",
    )
    search: str = setting("mixture", "search")
    weight_concentration_prior: float | None = parameter(
        None,
        "float",
        POSITIVE,
        "Dirichlet concentration of each component's weight; 10 / K if not given. With ``n_components=\"auto\"`` that of the "
        "Dirichlet process, learned if not given.",
    )

    trades: bool = setting("mixture", "trades")
    n_components_start: int | None = setting("mixture", "k-start")
    n_components_max: int | None = setting("mixture", "k-max")

    def _likelihood(self) -> str:
        raise NotImplementedError

    def _prior_config(self) -> dict[str, Any]:
        raise NotImplementedError

    def _given(self, X: Any) -> dict[str, Any] | None:
        """Components to start from and numbers of the prior that are given, as the library takes them."""
        return None

    def _config(self, **overrides: Any) -> str:
        concentration, finds = self.weight_concentration_prior, self._finds_components()
        return json.dumps(
            self._shared_config(
                **{
                    "likelihood": self._likelihood(),
                    "clusters": None if finds else int(self.n_components),
                    "find-k": True if finds else None,
                    "k-start": self.n_components_start,
                    "k-max": self.n_components_max,
                    "rows-per-batch": self.batch_size,
                    "estimate": self.estimate,
                    "trades": None if self.trades else False,
                    "method": self.method,
                    "refresh": self.refresh,
                    "threshold": self.threshold,
                    "selection-function": self.selection_function,
                    "search": self.search,
                    **INIT_PARAMS[self.init_params],
                    # scikit-learn's is that of one component, or of the process.
                    "gamma": concentration if finds else None,
                    "alpha": None if concentration is None or finds else concentration * int(self.n_components),
                    **self._prior_config(),
                    **overrides,
                }
            )
        )

    @checked
    def fit(
        self: _Self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        X_val: Any = None,
        checkpoint: PATH | None = None,
        checkpoint_every: float = 60.0,
        resume: bool = False,
        trace: PATH | None = None,
        callback: Callback | None = None,
    ) -> _Self:
        """Fit the mixture.

        float32 and float64 arrays in C order and CSR matrices are read where they are, memory maps from disk; they
        must not be written to meanwhile. Other Python threads go on. Ctrl-C ends the fit after the current batch and is
        raised as ``KeyboardInterrupt``; the estimator then holds the model so far.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Rows.
        y : None
            Ignored.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows, zero or more.
        X_val : array-like or CSR matrix of shape (n_val_samples, n_features), default=None
            Rows that are scored at the end of every lap: ``trace_["heldout"]``, and what ``early_stopping`` goes by.
        checkpoint : path, default=None
            Write here, now and then, all that is needed to go on after the process was ended; removed by nobody.
        checkpoint_every : float, default=60.0
            Seconds between two checkpoints.
        resume : bool, default=False
            Go on from the checkpoint, or start if there is none; the result is that of a fit that was never ended. Data
            and parameters must be the same, but for ``max_iter``, ``tol``, ``max_seconds`` and ``early_stopping``.
        trace : path, default=None
            Write a line of JSON a step here; :func:`lsparse.read_trace` reads it.
        callback : callable, default=None
            Called with a dict for every step (``run``, ``lap``, ``step``, ``seconds``, ``objective``, ``heldout`` and what
            else is known), before the next one; if it returns something true the fit ends with the next batch.

        Returns
        -------
        self
            The fitted estimator.

        Examples
        --------
        >>> from lsparse import GaussianMixture
        >>> gm = GaussianMixture(n_components=2, random_state=0).fit([[0.0], [0.2], [9.0], [9.2]])
        >>> sorted(gm.means_.ravel().round(1).tolist())
        [0.1, 9.1]

        Stopped by held-out rows:

        >>> import numpy as np
        >>> X = np.random.default_rng(0).normal(size=(120, 3))
        >>> gm = GaussianMixture(20, estimate="ml", covariance_type="diag", early_stopping=3, tol=0, random_state=0)
        >>> gm = gm.fit(X[:60], X_val=X[60:])
        >>> bool(gm.n_iter_ == np.nanargmax(gm.trace_["heldout"]) + 1)
        True
        """
        X = self._rows(X, reset=True, min_samples=2)
        self._check_number(X)
        weights = None if sample_weight is None else _check_sample_weight(sample_weight, X, dtype=np.float64)
        if hasattr(X, "cuts"):
            X.weights = weights
        start = self.model_ if self.warm_start and hasattr(self, "model_") else None
        before = None if start is None else self.lower_bound_
        around = self._around(X_val, checkpoint, checkpoint_every, resume, trace, callback)
        laps = self.max_iter != 0
        model, report = _core.fit_mixture(
            X,
            self._config(
                **self._batching(X), **({} if laps else {"laps": 1}), **self._resumed(checkpoint, resume)
            ),
            around,
            columns=self._columns(),
            sample_weight=weights,
            start=start,
            given=self._given(X),
            laps=laps,
        )
        self._settle(model, report, around, float_type(X))
        if before is not None and abs(self.lower_bound_ - before) < (self.tol or 0.0):
            # What one lap gains shows against the fit before, however few laps each has.
            self.converged_ = True
        self.__dict__.pop("_labels", None)
        if self.compute_labels:
            self.labels_ = self.predict(X)
        rule_is_exact = self._schedule in ("full", "memoized") and self.tol and self.max_seconds is None
        if rule_is_exact and laps and not self.converged_:
            warnings.warn(
                "Best performing initialization did not converge. Try different init parameters, or increase max_iter, "
                f"tol, or check for degenerate data. ({report['reason']}, and a row still gains more than "
                f"tol={self.tol} a lap)",
                ConvergenceWarning,
                stacklevel=3,
            )
        return self

    def _check_number(self, X: Any) -> None:
        """Rows enough to start components from."""
        if self._finds_components() or self.method == "dp-means":
            return
        if int(self.n_components) > X.shape[0]:
            raise LsparseError(
                f"Expected n_samples >= n_components but got n_components = {self.n_components}, "
                f"n_samples = {X.shape[0]}; ask for at most {X.shape[0]}"
            )

    def _columns(self) -> list[str] | None:
        """The names of the columns, where they have some."""
        names = getattr(self, "feature_names_in_", None)
        return None if names is None else [str(name) for name in names]

    @checked
    def partial_fit(self: _Self, X: Any, y: Any = None, sample_weight: Any = None) -> _Self:
        """Go on with rows that were not seen before, in one step.

        The first call starts the components from its rows, of which there should be many. With
        ``schedule="stochastic"`` later rows are blended in at a falling rate, so that old ones fade; with any other
        schedule they are added to those seen before, as in streaming.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Rows.
        y : None
            Ignored.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows, zero or more.

        Returns
        -------
        self
            The fitted estimator.

        Examples
        --------
        >>> import numpy as np
        >>> from lsparse import GaussianMixture
        >>> rng = np.random.default_rng(0)
        >>> gm = GaussianMixture(n_components=2, random_state=0)
        >>> for _ in range(5):
        ...     X = rng.normal([[-5], [5]], 1, (2, 100)).reshape(-1, 1)
        ...     gm = gm.partial_fit(X)
        >>> np.sort(gm.means_.ravel()).round()
        array([-5.,  5.])
        """
        first = not hasattr(self, "model_")
        X = self._rows(X, reset=first)
        weights = None if sample_weight is None else _check_sample_weight(sample_weight, X, dtype=np.float64)
        if first:
            self._check_number(X)
            around = self._around()
            model, report = _core.fit_mixture(
                X,
                self._config(**{"schedule": "streaming", "laps": 1, "early-stopping": None}),
                around,
                columns=self._columns(),
                sample_weight=weights,
                given=self._given(X),
            )
            self._settle(model, report, around, float_type(X))
            return self
        update = self.model_.update(X, sample_weight=weights, threads=threads_of(self.n_jobs), **self._rate())
        self._take(update)
        self._note_step()
        return self

    def fit_predict(self, X: Any, y: Any = None, sample_weight: Any = None) -> INTEGERS:
        """Fit, and give the most probable component of every row.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Rows.
        y : None
            Ignored.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
            Components, from 0.

        Examples
        --------
        >>> from lsparse import GaussianMixture
        >>> labels = GaussianMixture(n_components=2, random_state=0).fit_predict([[0.0], [0.2], [9.0], [9.2]])
        >>> bool(labels[0] == labels[1] != labels[2])
        True
        """
        self.fit(X, sample_weight=sample_weight)
        return self.labels_ if self.compute_labels else self.predict(X)

    def _assign(self, X: Any, sparsity: int) -> tuple[Any, FLOATS]:
        X = self._fitted(X)
        index, value = self.model_.assign(X, sparsity, threads=threads_of(self.n_jobs), device=self.device)
        return index, value.astype(float_type(X), copy=False)

    def predict(self, X: Any) -> INTEGERS:
        """The most probable component of every row.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
            Components, from 0.

        Examples
        --------
        >>> from lsparse import MultinomialMixture
        >>> X = [[9, 0], [8, 1], [0, 9], [1, 8]]
        >>> labels = MultinomialMixture(n_components=2, random_state=0).fit(X).predict(X)
        >>> bool(labels[0] == labels[1] != labels[2] == labels[3])
        True
        """
        index, _ = self._assign(X, 1)
        return np.asarray(index[:, 0], dtype=np.int64)

    def predict_proba(self, X: Any) -> FLOATS:
        """The probability of every component for every row, none left out.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        probabilities : ndarray of shape (n_samples, n_components)
            Rows sum to one.

        Examples
        --------
        >>> from lsparse import BernoulliMixture
        >>> X = [[1, 1, 0], [1, 1, 0], [0, 0, 1], [0, 0, 1]]
        >>> BernoulliMixture(n_components=2, random_state=0).fit(X).predict_proba(X).shape
        (4, 2)
        """
        check_is_fitted(self)
        index, value = self._assign(X, self.weights_.shape[0])
        dense = np.empty_like(value)
        np.put_along_axis(dense, index, value, axis=1)
        return dense

    def predict_sparse(self, X: Any, *, sparsity: int | None = None) -> Any:
        """The L most probable components of every row and their responsibilities, as training has them.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Rows.
        sparsity : int, default=None
            L, K if that is smaller; that of the fit if not given.

        Returns
        -------
        responsibilities : csr_array of shape (n_samples, n_components)
            L entries a row, which sum to one.

        Examples
        --------
        >>> import numpy as np
        >>> from lsparse import GaussianMixture
        >>> X = np.random.default_rng(0).normal(size=(500, 2))
        >>> gm = GaussianMixture(n_components=20, sparsity=4, max_iter=5, tol=0, random_state=0).fit(X)
        >>> r = gm.predict_sparse(X)
        >>> r.shape, r.nnz
        ((500, 20), 2000)
        """
        check_is_fitted(self)
        kept = json.loads(self.model_.config)["sparsity"] if sparsity is None else int(sparsity)
        kept = min(kept, self.weights_.shape[0])
        index, value = self._assign(X, kept)
        indptr = np.arange(0, value.size + 1, value.shape[1], dtype=np.int64)
        shape = (value.shape[0], self.weights_.shape[0])
        found = sp.csr_array((value.ravel(), index.ravel(), indptr), shape=shape)
        found.sort_indices()
        return found

    def transform(self, X: Any) -> FLOATS:
        """Responsibilities as features: the same as ``predict_proba``.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        probabilities : ndarray of shape (n_samples, n_components)
            Rows sum to one.

        Examples
        --------
        >>> from lsparse import GaussianMixture
        >>> X = [[0.0], [0.2], [9.0], [9.2]]
        >>> GaussianMixture(n_components=2, random_state=0).fit(X).transform(X).round(2).max(axis=1)
        array([1., 1., 1., 1.])
        """
        return self.predict_proba(X)

    def score_samples(self, X: Any) -> FLOATS:
        """The log density of every row under the point estimates.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        log_density : ndarray of shape (n_samples,)
            log sum_k weights_k F(x | component k).

        Examples
        --------
        >>> from lsparse import GaussianMixture
        >>> gm = GaussianMixture(n_components=2, random_state=0).fit([[0.0], [0.2], [9.0], [9.2]])
        >>> near, far = gm.score_samples([[0.1], [100.0]])
        >>> bool(near > far)
        True
        """
        X = self._fitted(X)
        scores = self.model_.score(X, threads=threads_of(self.n_jobs), device=self.device)
        return scores.astype(float_type(X), copy=False)

    def _scores(self, X: Any) -> FLOATS:
        """In 64 bits."""
        X = self._fitted(X)
        return self.model_.score(X, threads=threads_of(self.n_jobs), device=self.device)

    def _score_parts(self, X: Any) -> tuple[float, float]:
        """The sum of all scores, and what it is to be divided by."""
        scores = self._scores(X)
        return float(scores.sum()), float(scores.size)

    def _n_parameters(self) -> int:
        """Free parameters."""
        return self.model_.num_parameters

    def score(self, X: Any, y: Any = None) -> float:
        """The mean log density of the rows.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Rows.
        y : None
            Ignored.

        Returns
        -------
        score : float
            Higher is better.

        Examples
        --------
        >>> from lsparse import GaussianMixture
        >>> X = [[0.0], [0.2], [9.0], [9.2]]
        >>> one, two = (GaussianMixture(n_components=k, random_state=0).fit(X) for k in (1, 2))
        >>> two.score(X) > one.score(X)
        True
        """
        return float(self._scores(X).mean())

    def bic(self, X: Any) -> float:
        """The Bayesian information criterion; lower is better.

        It is made for point estimates (``estimate="ml"``); of a posterior it takes the predictive density.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        bic : float
            p log n - 2 log likelihood, with p the free parameters.

        Examples
        --------
        >>> import numpy as np
        >>> from lsparse import GaussianMixture
        >>> X = np.random.default_rng(0).normal(size=(300, 2))
        >>> one, five = (GaussianMixture(n_components=k, tol=1e-3, random_state=0).fit(X) for k in (1, 5))
        >>> one.bic(X) < five.bic(X)
        True
        """
        scores = self._scores(X)
        return float(self._n_parameters() * np.log(scores.size) - 2.0 * scores.sum())

    def aic(self, X: Any) -> float:
        """Akaike's information criterion; lower is better.

        It is made for point estimates (``estimate="ml"``); of a posterior it takes the predictive density.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        aic : float
            2 p - 2 log likelihood, with p the free parameters.

        Examples
        --------
        >>> import numpy as np
        >>> from lsparse import GaussianMixture
        >>> X = np.random.default_rng(0).normal(size=(300, 2))
        >>> gm = GaussianMixture(n_components=1, random_state=0).fit(X)
        >>> gm.aic(X) < gm.bic(X)
        True
        """
        return float(2.0 * self._n_parameters() - 2.0 * self._scores(X).sum())

    def _sample(self, n_samples: int, trials: int | None) -> tuple[FLOATS, INTEGERS]:
        check_is_fitted(self)
        if not isinstance(n_samples, Integral) or n_samples < 1:
            raise ValueError(
                f"Invalid value for 'n_samples': {n_samples} . The sampling requires at least one sample."
            )
        return self.model_.sample(int(n_samples), trials, self._seed())

    def sample(self, n_samples: int = 1) -> tuple[FLOATS, INTEGERS]:
        """Draw rows from the mixture.

        Parameters
        ----------
        n_samples : int, default=1
            Rows.

        Returns
        -------
        X : ndarray of shape (n_samples, n_features)
            Rows; the same ones for the same ``random_state``.
        y : ndarray of shape (n_samples,)
            The component that each was drawn from.

        Examples
        --------
        >>> from lsparse import GaussianMixture
        >>> gm = GaussianMixture(n_components=2, random_state=0).fit([[0.0], [0.2], [9.0], [9.2]])
        >>> X, y = gm.sample(10)
        >>> X.shape, y.shape
        ((10, 1), (10,))
        """
        return self._sample(n_samples, None)

    def _take(self, model: Any) -> None:
        super()._take(model)
        self.model_: _core.Mixture = model
        self._take_arrays(model.arrays())

    def _take_arrays(self, arrays: dict[str, FLOATS]) -> None:
        self.weights_: FLOATS = arrays["weights"].astype(self._dtype, copy=False)
        self._counts: FLOATS = arrays["counts"]
        config = json.loads(self.model_.config)
        if config["estimate"] == "vb":
            #: alpha of each component, of the prior and of the posterior.
            self.weight_concentration_prior_: float = config["alpha"] / config["clusters"]
            self.weight_concentration_: FLOATS = arrays["counts"] + self.weight_concentration_prior_

    @property
    def lower_bound_(self) -> float:
        """The objective a row."""
        check_is_fitted(self)
        return float(self.objective_ / max(self._counts.sum(), np.finfo(float).tiny))

    @property
    def lower_bounds_(self) -> list[float]:
        """The objective a row at the end of every lap, of all runs; empty for a model that was loaded."""
        check_is_fitted(self)
        if not self.trace_:
            return []
        known = self.trace_["objective"][self.trace_["lap"] % 1 == 0]
        return (known / max(self._counts.sum(), np.finfo(float).tiny)).tolist()  # type: ignore[no-any-return]

    @property
    def labels_(self) -> INTEGERS:
        """The component of every row of the fit, where ``compute_labels`` asked for it."""
        if not hasattr(self, "_labels"):
            raise AttributeError("there are no labels_; give compute_labels=True before fit, or call fit_predict")
        return self._labels

    @labels_.setter
    def labels_(self, labels: INTEGERS) -> None:
        self._labels = labels

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


@described
@dataclass(eq=False, repr=False, kw_only=True)
class GaussianMixture(_MixtureBase):
    """A mixture of Gaussians.

    Parameters
    ----------
    {parameters}

    Attributes
    ----------
    weights_ : ndarray of shape (n_components,)
        Frequencies of the components (their expectation under a posterior).
    means_ : ndarray of shape (n_components, n_features)
        Means; zeros for ``covariance_type="zero-mean"``.
    covariances_, precisions_, precisions_cholesky_ : ndarrays of shape (n_components, n_features, n_features), or (n_components, n_features) for "diag", \
            (n_components,) for "spherical", (n_features, n_features) for "tied"
        Covariances (their expectation under a posterior), their inverses, and factors of these. With ``standardize``
        "spherical" has (n_components, n_features), since one variance in the units of the columns is none in those of
        the data.
    weight_concentration_, weight_concentration_prior_ : ndarray of shape (n_components,) and float
        Dirichlet concentration of the weights, as learned and beforehand; only under ``estimate="vb"``.
    mean_prior_, mean_precision_prior_, degrees_of_freedom_prior_, covariance_prior_ : floats and ndarrays
        The prior as it was used, in scikit-learn's sense; not under ``estimate="ml"``.
    degrees_of_freedom_ : ndarray of shape (n_components,), or (n_components, n_features) for "diag" with missing values
        Degrees of freedom of each covariance; only under ``estimate="vb"``. With ``mean_precision_`` what the Student t
        densities are made of that rows are scored by (the package's README has the formula).
    mean_precision_ : ndarray of the same shape
        Pseudo-counts of the means; only under ``estimate="vb"``, and infinite for ``covariance_type="zero-mean"``.
    labels_ : ndarray of shape (n_samples,)
        The component of every row of the fit, where ``compute_labels`` asked for it.
    converged_ : bool
        Whether the objective came to rest, or the held-out score did.
    n_iter_ : int
        Laps that the model has seen: with ``early_stopping``, up to the best one.
    objective_ : float
        The objective at the end: the evidence lower bound under ``estimate="vb"``.
    lower_bound_, lower_bounds_ : float and list of floats
        The objective a row, at the end and at the end of every lap.
    trace_ : dict of ndarrays
        One entry a step: run, step, batch, lap, seconds, objective and its terms, rows a second, empty components, and
        the score of ``X_val`` where there is one. Where K is found also the components, and ``"moves"``: of every step a
        list of the changes that were made, each a dict with its kind ("birth", "merge" or "delete"), ``from``, ``to`` and
        gain, as in :func:`lsparse.read_trace`; ``"k_max_reached"`` is 1 at the end of laps with as many components as
        ``n_components_max`` allows.
        ``pandas.DataFrame(gm.trace_)`` makes a data frame of it. Empty for a model that was loaded.
    n_features_in_ : int
        Columns of the data.

    Examples
    --------
    >>> import numpy as np
    >>> from lsparse import GaussianMixture
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(1000, 3)) + rng.choice([-8.0, 1.0, 8.0], size=(1000, 1))
    >>> gm = GaussianMixture(n_components=3, sparsity=2, random_state=0).fit(X)
    >>> np.sort(gm.means_[:, 0]).round()
    array([-8.,  1.,  8.])
    >>> gm.predict_sparse(X).nnz
    2000
    """

    covariance_type: str = choice(
        "full",
        tuple(COVARIANCE_TYPES),
        "A full covariance, one variance a column, one variance for all columns, one full covariance for all "
        "components, or a full covariance about a mean fixed at zero.",
    )
    method: str = setting("mixture", "method")
    penalty: float | None = setting("mixture", "penalty")
    weights_init: Any = parameter(
        None, "array-like of shape (n_components,)", "array-like", "Weights to start from; found if not given."
    )
    means_init: Any = parameter(
        None, "array-like of shape (n_components, n_features)", "array-like", "Means to start from; found if not given."
    )
    precisions_init: Any = parameter(
        None,
        "array-like of the shape of ``precisions_``",
        "array-like",
        "Inverses of the covariances to start from; found if not given.",
    )
    mean_prior: Any = parameter(
        None, "array-like of shape (n_features,)", "array-like", "The prior mean; that of the data if not given."
    )
    covariance_prior: Any = parameter(
        None,
        "float or array-like of the shape of one covariance",
        "array-like or number",
        "Scale of the covariance prior, as scikit-learn's: with the degrees of freedom that are the default, the "
        "covariance that is expected. The matrix of full covariances must be diagonal. If not given, ``prior_scale`` says.",
    )
    reg_covar: float | None = parameter(
        None,
        "float",
        NOT_NEGATIVE,
        'Smallest variance under ``estimate="ml"`` in the units of the data, in place of ``variance_floor``. (It is met '
        "where it is needed, not added: adding makes the objective fall.)",
    )
    mean_precision_prior: float | None = setting("mixture", "kappa", default=None)
    degrees_of_freedom_prior: float | None = setting("mixture", "nu")
    prior_scale: float | None = setting("mixture", "prior-scale")
    prior_shape: str | None = setting("mixture", "prior-shape", default=None)
    variance_floor: float | None = setting("mixture", "variance-floor", default=None)
    precision: str = setting("mixture", "precision")
    missing: bool = parameter(
        False,
        "bool",
        "boolean",
        "Whether rows may have missing values (NaN), in ``fit`` and everywhere else. They are integrated out: a row "
        'counts by the columns that it has. For "full" and "diag" covariances.',
    )
    standardize: bool = setting("mixture", "standardize")

    # As scikit-learn's: a Gaussian about sparse rows is dense all the same.
    _accept_sparse = False

    def _likelihood(self) -> str:
        return COVARIANCE_TYPES[self.covariance_type]

    def _prior_config(self) -> dict[str, Any]:
        return {
            "kappa": self.mean_precision_prior,
            "nu": self.degrees_of_freedom_prior,
            "prior-scale": self.prior_scale,
            "prior-shape": self.prior_shape,
            "variance-floor": self.variance_floor,
            "precision": self.precision,
            "missing": bool(self.missing) or None,
            "standardize": bool(self.standardize) or None,
            "penalty": self.penalty,
        }

    def _given(self, X: Any) -> dict[str, Any]:
        if self.covariance_type == "zero-mean":
            for name in ("means_init", "mean_prior"):
                if getattr(self, name) is not None:
                    raise LsparseError(f'{name}: the means are zero under covariance_type="zero-mean"; leave it out')
        starts = ("weights_init", "means_init", "precisions_init")
        if self._finds_components() and any(getattr(self, name) is not None for name in starts):
            given = ", ".join(name for name in starts if getattr(self, name) is not None)
            raise LsparseError(f'{given}: n_components="auto" finds the components that it starts from; leave it out')
        rows, columns = 0 if self._finds_components() else int(self.n_components), int(X.shape[1])
        arrays = {}
        if self.means_init is not None:
            arrays["means"] = _shaped("means", self.means_init, (rows, columns))
        if self.precisions_init is not None:
            arrays |= _covariances_of(self.precisions_init, self.covariance_type, rows, columns)
        variance = None
        if self.covariance_prior is not None:
            variance = _prior_variance(self.covariance_prior, self.covariance_type, self.degrees_of_freedom_prior, columns)
        return {
            "weights": None if self.weights_init is None else _checked_weights(self.weights_init, rows),
            "arrays": arrays,
            "prior_mean": None if self.mean_prior is None else _shaped("means", self.mean_prior, (columns,)),
            "prior_variance": variance,
            "variance_floor": None if self.reg_covar is None else float(self.reg_covar),
        }

    def _allows_nan(self) -> bool:
        return bool(self.missing)

    def _take_arrays(self, arrays: dict[str, FLOATS]) -> None:
        super()._take_arrays(arrays)
        covariances = arrays["variances"] if "variances" in arrays else arrays["covariances"]
        means = arrays["means"] if "means" in arrays else np.zeros(covariances.shape[:2])
        self.covariances_: FLOATS = covariances.astype(self._dtype, copy=False)
        self.means_: FLOATS = means.astype(self._dtype, copy=False)
        if "degrees" in arrays:
            self.degrees_of_freedom_: FLOATS = arrays["degrees"]
            known = np.full(len(self.means_), np.inf)
            self.mean_precision_: FLOATS = arrays.get("mean_counts", known)
        if json.loads(self.model_.config)["estimate"] != "ml":
            self._take_prior(json.loads(self.model_.prior))

    def _take_prior(self, prior: dict[str, Any]) -> None:
        kind = self._fitted_type()
        columns, variance = prior["dim"], np.asarray(prior["variance"])
        self.mean_precision_prior_: float = prior["kappa"]
        self.degrees_of_freedom_prior_: float = prior["nu"]
        self.mean_prior_: FLOATS = np.asarray(prior["center"]) if prior["center"] else np.zeros(columns)
        scale = variance * (prior["nu"] - _excess(kind, columns))
        self.covariance_prior_: Any = {"diag": scale, "spherical": float(scale.mean())}.get(kind, np.diag(scale))

    def _fitted_type(self) -> str:
        """The ``covariance_type`` of the fitted components, which methods with centres alone choose."""
        family = json.loads(self.model_.config)["likelihood"]
        return next(name for name, known in COVARIANCE_TYPES.items() if known == family)

    @property
    def precisions_cholesky_(self) -> FLOATS:
        """Factors of the precisions: upper triangular U with U U^T the inverse of a covariance."""
        check_is_fitted(self)
        arrays = self.model_.arrays()
        if "variances" in arrays:
            factors = 1.0 / np.sqrt(arrays["variances"])
        else:
            lower = np.linalg.inv(np.linalg.cholesky(arrays["covariances"]))
            factors = np.swapaxes(lower, -1, -2)
        return factors.astype(self._dtype, copy=False)

    @property
    def precisions_(self) -> FLOATS:
        """The inverses of the covariances."""
        check_is_fitted(self)
        arrays = self.model_.arrays()
        inverses: Any = 1.0 / arrays["variances"] if "variances" in arrays else np.linalg.inv(arrays["covariances"])
        return inverses.astype(self._dtype, copy=False)  # type: ignore[no-any-return]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = False
        tags.input_tags.allow_nan = bool(self.missing)
        return tags


def _excess(kind: str, columns: int) -> float:
    """How many degrees of freedom a prior needs to expect a covariance."""
    return 2.0 if kind in ("diag", "spherical") else columns + 1.0


def _shaped(name: str, values: Any, shape: tuple[int, ...]) -> FLOATS:
    """An array of this shape; an error in scikit-learn's words if it has another."""
    found: FLOATS = check_array(values, dtype=np.float64, order="C", ensure_2d=False, allow_nd=True)
    if found.shape != shape:
        raise ValueError(f"The parameter '{name}' should have the shape of {shape}, but got {found.shape}")
    return found


def _checked_weights(values: Any, components: int) -> list[float]:
    weights = _shaped("weights", values, (components,))
    if (weights < 0.0).any() or (weights > 1.0).any():
        raise ValueError(
            "The parameter 'weights' should be in the range [0, 1], but got max value "
            f"{weights.min():.5f}, min value {weights.max():.5f}"
        )
    if not np.isclose(weights.sum(), 1.0, atol=1e-6):
        raise ValueError(f"The parameter 'weights' should be normalized, but got sum(weights) = {weights.sum():.5f}")
    return (weights / weights.sum()).tolist()  # type: ignore[no-any-return]


def _covariances_of(precisions: Any, kind: str, components: int, columns: int) -> dict[str, FLOATS]:
    """The covariances with these inverses, by the name that the library has for them."""
    name = f"{kind} precision"
    full = (components, columns, columns)
    shapes = {"diag": (components, columns), "spherical": (components,), "tied": (columns, columns)}
    found = _shaped(name, precisions, shapes.get(kind, full))
    if kind in ("diag", "spherical"):
        if (found <= 0.0).any():
            raise ValueError(f"'{name}' should be positive")
        return {"variances": 1.0 / found}
    symmetric = np.allclose(found, np.swapaxes(found, -1, -2))
    if not symmetric or (np.linalg.eigvalsh(found) <= 0.0).any():
        raise ValueError(f"'{name}' should be symmetric, positive-definite")
    inverse = np.linalg.inv(found)
    return {"covariances": np.ascontiguousarray((inverse + np.swapaxes(inverse, -1, -2)) / 2.0)}


def _prior_variance(given: Any, kind: str, degrees: float | None, columns: int) -> list[float]:
    """The variance of each column that a prior of this scale expects."""
    shapes: dict[str, tuple[int, ...]] = {"diag": (columns,), "spherical": ()}
    name = f"{kind} covariance_prior"
    scale: Any
    if np.ndim(given) == 0:
        scale = np.full(columns, float(given))
    else:
        scale = _shaped(name, given, shapes.get(kind, (columns, columns)))
    if scale.ndim == 2:
        if np.abs(scale - np.diag(np.diag(scale))).max() > 0.0:
            raise ValueError(f"'{name}' should be diagonal: columns are independent under the prior; give its diagonal alone")
        scale = np.diag(scale)
    if (scale <= 0.0).any():
        raise ValueError(f"'{name}' should be positive")
    excess = _excess(kind, columns)
    return (scale / ((excess + 1.0 if degrees is None else degrees) - excess)).tolist()  # type: ignore[no-any-return]


@dataclass(eq=False, repr=False, kw_only=True)
class _ProbabilityMixture(_MixtureBase):
    """What the mixtures over categories and outcomes share."""

    smoothing: float = setting("mixture", "lambda")

    def _prior_config(self) -> dict[str, Any]:
        return {"lambda": float(self.smoothing)}

    def _take_arrays(self, arrays: dict[str, FLOATS]) -> None:
        super()._take_arrays(arrays)
        self.components_: FLOATS = arrays["probabilities"].astype(self._dtype, copy=False)


class _CountMixture(_ProbabilityMixture):
    """What the mixtures over rows of counts share."""

    def _rows(self, X: Any, *, reset: bool, min_samples: int = 1) -> Any:
        X = super()._rows(X, reset=reset, min_samples=min_samples)
        if not hasattr(X, "cuts"):
            check_non_negative(X, type(self).__name__)
        return X

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True
        return tags


@described
@dataclass(eq=False, repr=False, kw_only=True)
class MultinomialMixture(_CountMixture):
    """A mixture of multinomials, for rows of counts.

    Parameters
    ----------
    {parameters}

    Attributes
    ----------
    weights_ : ndarray of shape (n_components,)
        Frequencies of the components.
    components_ : ndarray of shape (n_components, n_features)
        Probabilities of the categories; rows sum to one.
    converged_, n_iter_, objective_, trace_, n_features_in_
        See :class:`GaussianMixture`.

    Examples
    --------
    >>> import numpy as np
    >>> from lsparse import MultinomialMixture
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.multinomial(30, p, 100) for p in ([0.8, 0.1, 0.1], [0.1, 0.1, 0.8])])
    >>> mm = MultinomialMixture(n_components=2, random_state=0).fit(X)
    >>> np.sort(mm.components_[:, 0]).round(1)
    array([0.1, 0.8])
    """

    def _likelihood(self) -> str:
        return "multinomial"

    def sample(self, n_samples: int = 1, *, n_trials: int | None = None) -> tuple[FLOATS, INTEGERS]:
        """Draw rows from the mixture.

        Parameters
        ----------
        n_samples : int, default=1
            Rows.
        n_trials : int, default=None
            Counts of a row; as many as the rows of the training data had on average if not given.

        Returns
        -------
        X : ndarray of shape (n_samples, n_features)
            Rows of counts; the same ones for the same ``random_state``.
        y : ndarray of shape (n_samples,)
            The component that each was drawn from.

        Examples
        --------
        >>> from lsparse import MultinomialMixture
        >>> mm = MultinomialMixture(n_components=2, random_state=0).fit([[9, 0], [8, 1], [0, 9], [1, 8]])
        >>> X, y = mm.sample(3)
        >>> X.sum(axis=1)
        array([9., 9., 9.])
        """
        return self._sample(n_samples, n_trials)


@described
@dataclass(eq=False, repr=False, kw_only=True)
class PoissonMixture(_CountMixture):
    """A mixture of Poissons, for rows of counts that are no text: every column has a rate of its own.

    Parameters
    ----------
    {parameters}

    Attributes
    ----------
    weights_ : ndarray of shape (n_components,)
        Frequencies of the components.
    components_ : ndarray of shape (n_components, n_features)
        Rates of the columns.
    converged_, n_iter_, objective_, trace_, n_features_in_
        See :class:`GaussianMixture`.

    Examples
    --------
    >>> import numpy as np
    >>> from lsparse import PoissonMixture
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.poisson(rates, (200, 3)) for rates in ([2, 20, 5], [20, 2, 5])])
    >>> pm = PoissonMixture(n_components=2, random_state=0).fit(X)
    >>> np.sort(pm.components_[:, 0]).round()
    array([ 2., 20.])
    """

    def _likelihood(self) -> str:
        return "poisson"

    def _take_arrays(self, arrays: dict[str, FLOATS]) -> None:
        _MixtureBase._take_arrays(self, arrays)
        self.components_ = arrays["rates"].astype(self._dtype, copy=False)


@described
@dataclass(eq=False, repr=False, kw_only=True)
class BernoulliMixture(_ProbabilityMixture):
    """A mixture of Bernoullis, for rows of zeros and ones.

    Parameters
    ----------
    {parameters}

    Attributes
    ----------
    weights_ : ndarray of shape (n_components,)
        Frequencies of the components.
    components_ : ndarray of shape (n_components, n_features)
        Probabilities of ones.
    converged_, n_iter_, objective_, trace_, n_features_in_
        See :class:`GaussianMixture`.

    Examples
    --------
    >>> import numpy as np
    >>> from lsparse import BernoulliMixture
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.random((500, 10)) < p for p in (5 * [0.9, 0.1], 5 * [0.1, 0.9])])
    >>> bm = BernoulliMixture(n_components=2, random_state=0).fit(X)
    >>> np.sort(bm.components_[:, 0]).round(1)
    array([0.1, 0.9])
    """

    binarize: float | None = parameter(
        0.0,
        "float or None",
        Interval(Real, None, None, closed="neither"),
        "Values above it are ones, all others zeros; the data is not copied for it. None for data that must be zeros "
        "and ones already.",
    )
    def _likelihood(self) -> str:
        return "bernoulli"

    def _prior_config(self) -> dict[str, Any]:
        return {**super()._prior_config(), "binarize": None if self.binarize is None else float(self.binarize)}
