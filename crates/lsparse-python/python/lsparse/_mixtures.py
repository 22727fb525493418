"""Mixtures of Gaussians, multinomials and Bernoullis."""

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
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, check_non_negative

from . import _core
from ._base import FLOATS, INTEGERS, Estimator, checked, threads_of
from ._parameters import POSITIVE, choice, described, parameter

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


@dataclass(eq=False, repr=False, kw_only=True)
class _MixtureBase(DensityMixin, Estimator):  # type: ignore[misc]
    """What the mixtures share."""

    estimate: str = choice(
        "vb", ("vb", "map", "ml"), "A full posterior (variational Bayes), its mode, or maximum likelihood (EM)."
    )
    init_params: str = choice(
        "auto",
        tuple(INIT_PARAMS),
        "How the first components are found, on a sample of the rows: the best of k-means, k-means with columns in "
        'units of their standard deviations and "bregman", judged after a step of training by rows that were left out '
        '("bregman" alone where components have no means); k-means++ under the likelihood\'s own divergence; k-means '
        "(20 passes after k-means++) or k-means++ alone with Euclidean distance; rows at random; responsibilities at "
        "random.",
    )
    search: str = choice(
        "auto",
        ("auto", "dense", "exact", "neighbours"),
        "How the L components of a row are found: by the weights of all; by those that a bound does not rule out, "
        "which gives the same model (Gaussians have such bounds, for others it is \"dense\"); among the row's last "
        "components, those near them and a few random ones, so that the cost of a row does not grow with K. \"auto\" "
        'is "exact" where that is faster. With a thousand components or more "neighbours" is many times faster, for '
        "next to no loss.",
    )
    weight_concentration_prior: float | None = parameter(
        None, "float", POSITIVE, "Dirichlet concentration of each component's weight; 10 / K if not given."
    )

    def _likelihood(self) -> str:
        raise NotImplementedError

    def _prior_config(self) -> dict[str, Any]:
        raise NotImplementedError

    def _threshold(self) -> float | None:
        """Values above it are ones; none where values are taken as they are."""
        return None

    def _config(self, **overrides: Any) -> str:
        concentration = self.weight_concentration_prior
        return json.dumps(
            self._shared_config(
                **{
                    "likelihood": self._likelihood(),
                    "clusters": int(self.n_components),
                    "rows-per-batch": self.batch_size,
                    "estimate": self.estimate,
                    "search": self.search,
                    **INIT_PARAMS[self.init_params],
                    # scikit-learn's is that of one component.
                    "alpha": None if concentration is None else concentration * self.n_components,
                    **self._prior_config(),
                    **overrides,
                }
            )
        )

    @checked
    def fit(self: _Self, X: Any, y: Any = None, sample_weight: Any = None) -> _Self:
        """Fit the mixture.

        float32 and float64 arrays in C order and CSR matrices are read where they are, memory maps from disk; they
        must not be written to meanwhile. Other Python threads go on. Ctrl-C ends the fit after the current batch: the
        estimator then holds the model so far, and an ``InterruptedWarning`` says so.

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
        >>> from lsparse import GaussianMixture
        >>> gm = GaussianMixture(n_components=2, random_state=0).fit([[0.0], [0.2], [9.0], [9.2]])
        >>> sorted(gm.means_.ravel().round(1).tolist())
        [0.1, 9.1]
        """
        self._check_method()
        X = self._rows(X, reset=True, min_samples=2)
        weights = None if sample_weight is None else _check_sample_weight(sample_weight, X, dtype=np.float64)
        start = self.model_ if self.warm_start and hasattr(self, "model_") else None
        progress = self._progress()
        model, report = _core.fit_mixture(
            X,
            self._config(),
            binarize=self._threshold(),
            sample_weight=weights,
            start=start,
            threads=threads_of(self.n_jobs),
            progress=progress,
        )
        self._settle(model, report, progress)
        rule_is_exact = self.schedule in ("full", "memoized") and self.tol > 0 and self.max_seconds is None
        if rule_is_exact and not self.converged_ and not report["interrupted"]:
            warnings.warn(
                f"{report['reason']} and the objective still changes by more than tol={self.tol} a lap; "
                "raise max_iter or tol",
                ConvergenceWarning,
                stacklevel=3,
            )
        return self

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
        threads = threads_of(self.n_jobs)
        if first:
            progress = self._progress()
            model, report = _core.fit_mixture(
                X,
                self._config(**{"schedule": "streaming", "laps": 1}),
                binarize=self._threshold(),
                sample_weight=weights,
                threads=threads,
                progress=progress,
            )
            self._settle(model, report, progress)
            return self
        update = self.model_.update(
            X, binarize=self._threshold(), sample_weight=weights, threads=threads, **self._rate()
        )
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
        return self.fit(X, sample_weight=sample_weight).predict(X)

    def _assign(self, X: Any, sparsity: int) -> tuple[Any, FLOATS]:
        X = self._fitted(X)
        return self.model_.assign(X, sparsity, binarize=self._threshold(), threads=threads_of(self.n_jobs))

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
            L; that of the fit if not given.

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
        return self._scores(X)[0]

    def _scores(self, X: Any) -> tuple[FLOATS, int]:
        X = self._fitted(X)
        return self.model_.score(X, binarize=self._threshold(), threads=threads_of(self.n_jobs))

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
        return float(self.score_samples(X).mean())

    def bic(self, X: Any) -> float:
        """The Bayesian information criterion; lower is better.

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
        scores, parameters = self._scores(X)
        return float(parameters * np.log(scores.size) - 2.0 * scores.sum())

    def aic(self, X: Any) -> float:
        """Akaike's information criterion; lower is better.

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
        scores, parameters = self._scores(X)
        return float(2.0 * parameters - 2.0 * scores.sum())

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
        self.weights_: FLOATS = arrays["weights"]

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
    covariances_ : ndarray of shape (n_components, n_features, n_features), or (n_components, n_features) for "diag", \
            (n_components,) for "spherical", (n_features, n_features) for "tied"
        Covariances (their expectation under a posterior). With ``standardize`` "spherical" has (n_components,
        n_features), since one variance in the units of the columns is none in those of the data.
    degrees_of_freedom_ : ndarray of shape (n_components,), or (n_components, n_features) for "diag" with missing values
        Degrees of freedom of each covariance; only under ``estimate="vb"``. With ``mean_precision_`` what the Student t
        densities are made of that rows are scored by (the package's README has the formula).
    mean_precision_ : ndarray of the same shape
        Pseudo-counts of the means; only under ``estimate="vb"``, and infinite for ``covariance_type="zero-mean"``.
    converged_ : bool
        Whether the objective came to rest.
    n_iter_ : int
        Laps done.
    objective_ : float
        The objective at the end: the evidence lower bound under ``estimate="vb"``.
    trace_ : dict of ndarrays
        One entry a step: run, step, batch, lap, seconds, objective and its terms, rows a second, empty components.
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
    mean_precision_prior: float | None = parameter(
        None, "float", POSITIVE, "Pseudo-count of the prior mean; 1e-4 if not given."
    )
    degrees_of_freedom_prior: float | None = parameter(
        None,
        "float",
        POSITIVE,
        'Degrees of freedom of the covariance prior, more than n_features + 1, or 2 for "diag"; one more than that if '
        "not given.",
    )
    prior_scale: float | None = parameter(
        None,
        "float",
        POSITIVE,
        "Variance that the prior expects of a component, in units of the variance that the data has; if not given, 0.1 "
        "where components have as many rows as columns or fewer, less where they have more, down to 0.001.",
    )
    prior_shape: str | None = choice(
        None,
        ("columns", "isotropic"),
        "Which variance of the data that is: each column's own, or the average over the columns, the same for all; "
        '"columns" if not given.',
    )
    variance_floor: float | None = parameter(
        None,
        "float",
        POSITIVE,
        'Smallest variance under ``estimate="ml"``, in the same units; 1e-6 if not given.',
    )
    precision: str = choice(
        "auto",
        ("auto", "f32", "f64"),
        "In which precision rows are worked on: that of the data, or this one. Sums are always 64 bits.",
    )
    missing: bool = parameter(
        False,
        "bool",
        "boolean",
        "Whether rows may have missing values (NaN), in ``fit`` and everywhere else. They are integrated out: a row "
        'counts by the columns that it has. For "full" and "diag" covariances.',
    )
    standardize: bool = parameter(
        False,
        "bool",
        "boolean",
        "Whether columns are worked on about their means in units of their standard deviations (root mean squares for "
        '"zero-mean"): "spherical" takes all columns alike, so that those of large numbers would decide alone. '
        "Attributes, scores and drawn rows are in the units of the data.",
    )

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
        }

    def _allows_nan(self) -> bool:
        return bool(self.missing)

    def _take_arrays(self, arrays: dict[str, FLOATS]) -> None:
        super()._take_arrays(arrays)
        self.covariances_: FLOATS = arrays["variances"] if "variances" in arrays else arrays["covariances"]
        self.means_: FLOATS = arrays["means"] if "means" in arrays else np.zeros(self.covariances_.shape[:2])
        if "degrees" in arrays:
            self.degrees_of_freedom_: FLOATS = arrays["degrees"]
            known = np.full(len(self.means_), np.inf)
            self.mean_precision_: FLOATS = arrays.get("mean_counts", known)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = False
        tags.input_tags.allow_nan = bool(self.missing)
        return tags


@dataclass(eq=False, repr=False, kw_only=True)
class _ProbabilityMixture(_MixtureBase):
    """What the mixtures over categories and outcomes share."""

    smoothing: float = parameter(0.1, "float", POSITIVE, "Pseudo-count of every category in every component.")

    def _prior_config(self) -> dict[str, Any]:
        return {"lambda": float(self.smoothing)}

    def _take_arrays(self, arrays: dict[str, FLOATS]) -> None:
        super()._take_arrays(arrays)
        self.components_: FLOATS = arrays["probabilities"]


class _CountMixture(_ProbabilityMixture):
    """What the mixtures over rows of counts share."""

    def _rows(self, X: Any, *, reset: bool, min_samples: int = 1) -> Any:
        X = super()._rows(X, reset=reset, min_samples=min_samples)
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

    smoothing: float = parameter(
        0.1, "float", POSITIVE, "Rows of average counts that every component has beforehand."
    )

    def _likelihood(self) -> str:
        return "poisson"

    def _take_arrays(self, arrays: dict[str, FLOATS]) -> None:
        _MixtureBase._take_arrays(self, arrays)
        self.components_ = arrays["rates"]


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
        Real,
        "Values above it are ones, all others zeros; the data is not copied for it. None for data that must be zeros "
        "and ones already.",
    )
    smoothing: float = parameter(
        0.1, "float", POSITIVE, "Pseudo-count of either outcome of every column in every component."
    )

    def _likelihood(self) -> str:
        return "bernoulli"

    def _threshold(self) -> float | None:
        return None if self.binarize is None else float(self.binarize)
