"""Hidden Markov models, in the manner of hmmlearn."""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from numbers import Integral
from typing import Any, ClassVar, Literal, TypeVar

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, check_non_negative

from . import _core
from ._base import (
    FLOATS,
    INTEGERS,
    PATH,
    Callback,
    Estimator,
    checked,
    checked_lengths,
    float_type,
    readable,
    threads_of,
)
from ._errors import LsparseError
from ._mixtures import COVARIANCE_TYPES, INIT_PARAMS
from ._parameters import COUNT, POSITIVE, choice, described, parameter, setting

_Self = TypeVar("_Self", bound="HMM")

#: Emissions that are no Gaussians, and the library's families.
EMISSIONS: dict[str, str] = {
    "categorical": "multinomial",
    "multinomial": "multinomial",
    "poisson": "poisson",
    "bernoulli": "bernoulli",
}

#: What columns of symbols are called in model files, before the number.
_CALLED = "symbol "


def is_of_symbols(model: Any) -> bool:
    """Whether the columns of a trained model are symbols."""
    return len(model.columns) > 0 and all(name.startswith(_CALLED) for name in model.columns)


def symbols_of(model: Any) -> INTEGERS:
    """The symbols of its columns."""
    return np.array([int(name.removeprefix(_CALLED)) for name in model.columns] or range(model.dim), dtype=np.int64)


@dataclass(frozen=True)
class Monitor:
    """How a fit went, by hmmlearn's names."""

    #: Whether it came to rest.
    converged: bool
    #: Laps.
    iter: int
    #: The objective after every lap, of all steps; hmmlearn's is the log likelihood. Empty of a model from a file.
    history: list[float]


@described
@dataclass(eq=False, repr=False)
class HMM(Estimator):
    """A hidden Markov model whose steps keep at most L states.

    A step of a sequence is in one of K states, of which few are probable once the steps around it are known. With
    ``sparsity=4``, say, of 200, paths go through the four states a step that matter, and what a step costs does not grow
    with K squared. ``sparsity=n_components`` is the ordinary forward-backward algorithm, ``sparsity=1`` Viterbi training.

    The manner is that of hmmlearn: ``lengths`` are the numbers of rows of the sequences in ``X``, which lie one after the
    other; without them ``X`` is one sequence.

    Parameters
    ----------
    {parameters}

    Attributes
    ----------
    startprob_ : ndarray of shape (n_components,)
        Probabilities of the first state; their expectation under a posterior.
    transmat_ : ndarray of shape (n_components, n_components)
        Probabilities of the state that follows, a row for each state.
    means_ : ndarray of shape (n_components, n_features)
        Means of Gaussian states.
    covars_ : ndarray of shape (n_components, n_features, n_features)
        Covariances of Gaussian states.
    emissionprob_ : ndarray of shape (n_components, n_features)
        Probabilities of categories (categorical, multinomial) or of ones (bernoulli).
    symbols_ : ndarray of shape (n_symbols,)
        The symbols of categorical states, one for each column of ``emissionprob_``: all numbers up to the largest, or those
        that were there where they are far apart.
    lambdas_ : ndarray of shape (n_components, n_features)
        Rates of Poisson states.
    monitor_ : Monitor
        ``converged``, ``iter`` and ``history``, the objective after every lap, by hmmlearn's names.
    objective_, n_iter_, converged_, trace_, fit_seconds_, model_
        As those of the mixtures.

    Examples
    --------
    >>> import numpy as np
    >>> from lsparse import HMM
    >>> rng = np.random.default_rng(0)
    >>> states = np.arange(600) // 20 % 2
    >>> X = rng.normal(np.where(states, 5.0, -5.0), 1.0)[:, None]
    >>> hmm = HMM(n_components=2, random_state=0).fit(X, lengths=[200, 400])
    >>> np.diag(hmm.transmat_).round(2)
    array([0.95, 0.95])
    """

    _accept_sparse: ClassVar[str | bool] = "csr"
    _components_setting: ClassVar[str] = "states"
    _nan: ClassVar[str] = "a row of NaN is a step that nothing is known of"

    n_components: int = parameter(10, "int", COUNT, "K, the number of states.")
    _: KW_ONLY
    sparsity: int | Literal["auto"] | None = parameter(
        None,
        'int or "auto"',
        COUNT,
        'L, the number of states that a step keeps, K if that is smaller; 8 if not given, or K if there are at most 16. "auto" '
        "is as few as lose less than a hundredth of a step on average. ``sparsity=n_components`` is the ordinary "
        "forward-backward algorithm, ``sparsity=1`` Viterbi training.",
    )
    emission: str = choice(
        "gaussian",
        ("gaussian", *EMISSIONS),
        "What a state gives: Gaussian rows; one symbol a step, as a whole number from 0 in a single column; counts of "
        "categories; counts column by column; zeros and ones.",
    )
    covariance_type: str = choice(
        "full", tuple(COVARIANCE_TYPES), "Covariances of Gaussian states; hmmlearn's default is diag."
    )
    method: str = setting("sequence", "method")
    search: str = setting("sequence", "search")
    estimate: str = setting("sequence", "estimate")
    missing: bool = parameter(
        False,
        "bool",
        "boolean",
        "Whether steps may be missing: a row of NaN is a step that nothing is known of, and so is a symbol that is NaN, or of "
        "sparse counts a row of nothing. Rows that lack some values are for full and diagonal Gaussians. It may be given after "
        "the fit, too.",
    )
    transmat_prior: float | None = parameter(
        None,
        "float",
        POSITIVE,
        "Dirichlet concentration of each state as the first one and in every row of transitions; 1 / K if not given.",
    )
    stickiness: float = setting("sequence", "stickiness")
    smoothing: float = setting("sequence", "lambda")
    mean_precision_prior: float | None = setting("sequence", "kappa", default=None)
    degrees_of_freedom_prior: float | None = setting("sequence", "nu")
    prior_scale: float | None = setting("sequence", "prior-scale")
    prior_shape: str = setting("sequence", "prior-shape")
    variance_floor: float = setting("sequence", "variance-floor")
    cut: int | None = setting("sequence", "cut")
    overlap: int = setting("sequence", "overlap")
    precision: str = setting("sequence", "precision")
    tol: float | None = setting("sequence", "tolerance", more="0 is none too: no gain is less.")
    init_params: str = choice(
        "auto",
        tuple(INIT_PARAMS),
        'How the first states are found. "auto" gives several starts a few laps over a part of the sequences each, and takes '
        "the one that foretells other sequences best; the others find states by rows whatever their order, as for mixtures.",
    )

    def _allows_nan(self) -> bool:
        return self.missing

    def _stretches(self, lengths: list[int]) -> int:
        """How many there are of whole sequences and of stretches of long ones."""
        longest = [int(self.cut or (5_000 if steps > 50_000 else max(steps, 1))) for steps in lengths]
        return sum(-(-steps // most) for steps, most in zip(lengths, longest, strict=True))

    def _config(self, rows: int | None = None, lengths: list[int] | None = None, **overrides: Any) -> str:
        gaussian = self.emission == "gaussian"
        batches = overrides.pop("batches", None)
        if batches is None and self.batch_size is not None and rows is not None and self.schedule != "full":
            batches = max(min(-(-rows // int(self.batch_size)), self._stretches(lengths or [rows])), 1)
        prior = self.transmat_prior
        return json.dumps(
            self._shared_config(
                **{
                    "method": self.method,
                    "search": self.search,
                    "likelihood": COVARIANCE_TYPES[self.covariance_type] if gaussian else EMISSIONS[self.emission],
                    "missing": bool(self.missing),
                    "states": int(self.n_components),
                    "estimate": self.estimate,
                    "alpha": None if prior is None else prior * int(self.n_components),
                    "stickiness": float(self.stickiness),
                    "lambda": float(self.smoothing),
                    "kappa": self.mean_precision_prior,
                    "nu": self.degrees_of_freedom_prior,
                    "prior-scale": self.prior_scale,
                    "prior-shape": self.prior_shape,
                    "variance-floor": float(self.variance_floor),
                    "precision": self.precision,
                    "cut": self.cut,
                    "overlap": int(self.overlap),
                    "batches": batches,
                    **INIT_PARAMS[self.init_params],
                    **overrides,
                }
            )
        )

    def _rows(self, X: Any, *, reset: bool, min_samples: int = 1) -> Any:
        X = super()._rows(X, reset=reset, min_samples=min_samples)
        if self.emission != "gaussian" and not hasattr(X, "cuts"):
            check_non_negative(X, type(self).__name__)
        return X

    def _steps(self, X: Any, *, reset: bool, min_samples: int = 1) -> Any:
        """Rows as the library takes them: symbols become rows with a single one, which cost nothing."""
        _check_one_after_the_other(X)
        if self.emission != "categorical" or hasattr(X, "cuts"):
            return self._rows(X, reset=reset, min_samples=min_samples)
        symbols = np.asarray(X)
        if symbols.ndim != 2 or symbols.shape[1] != 1:
            raise ValueError(f"symbols are a single column, of shape (n_samples, 1), not {symbols.shape}")
        if len(symbols) < min_samples:
            raise ValueError(f"Found array with {len(symbols)} sample(s) while a minimum of {min_samples} is required.")
        if symbols.dtype.kind in "OUS" and any(isinstance(symbol, str | bytes) for symbol in symbols[:, 0]):
            raise ValueError("symbols are whole numbers; np.unique(X, return_inverse=True) numbers them")
        found = symbols[:, 0].astype(np.float64)
        there = ~np.isnan(found)
        if not there.all() and not self.missing:
            raise ValueError("Input X contains NaN.\nGive missing=True, and NaN is a symbol that is missing.")
        found = found[there]
        if (found < 0).any() or (found > 9e15).any() or (found != np.floor(found)).any():
            raise ValueError("symbols are whole numbers, zero or more")
        whole = found.astype(np.int64)
        if reset:
            if len(whole) == 0:
                raise ValueError("Input X has no symbol that is there.")
            self.n_features_in_ = 1
            seen = np.unique(whole)
            # Numbers that are far apart would be paid for by all that lie between.
            self.symbols_: INTEGERS = np.arange(seen[-1] + 1) if seen[-1] < 1000 + 10 * len(seen) else seen
        columns = np.searchsorted(self.symbols_, whole)
        unknown = whole[self.symbols_[np.minimum(columns, len(self.symbols_) - 1)] != whole]
        if len(unknown):
            raise ValueError(f"symbol {unknown.max()} was not there in the fit, which had {len(self.symbols_)}")
        ends = np.concatenate([[0], np.cumsum(there)]).astype(np.int32)
        rows = sp.csr_array((np.ones(len(whole)), columns.astype(np.int32), ends), shape=(len(symbols), len(self.symbols_)))
        return readable(rows)

    @staticmethod
    def _lengths(lengths: Any, steps: int | None = None) -> list[int] | None:
        found = None if lengths is None else checked_lengths(lengths)
        # One for every row that are no lengths: classes, as scikit-learn's fit(X, y) has them.
        if found is not None and len(found) == steps and sum(found) != steps:
            raise ValueError(
                f"lengths: {steps} numbers for {steps} rows add up to {sum(found)}; give the rows of each sequence. Classes "
                "(y) have no part in an HMM: leave them out."
            )
        return found

    @checked
    def fit(
        self: _Self,
        X: Any,
        lengths: Any = None,
        *,
        X_val: Any = None,
        lengths_val: Any = None,
        checkpoint: PATH | None = None,
        checkpoint_every: float = 60.0,
        resume: bool = False,
        trace: PATH | None = None,
        callback: Callback | None = None,
    ) -> _Self:
        """Fit the model.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Rows of all sequences, one after the other.
        lengths : array-like of int of shape (n_sequences,), default=None
            Rows of each sequence, which sum to ``n_samples``; all rows are one sequence if not given.
        X_val, lengths_val : default=None
            Sequences that are scored at the end of every lap.
        checkpoint, checkpoint_every, resume, trace, callback
            As in :meth:`GaussianMixture.fit`.

        Returns
        -------
        self
            The fitted estimator.

        Examples
        --------
        >>> from lsparse import HMM
        >>> hmm = HMM(n_components=2, emission="categorical", random_state=0)
        >>> hmm.fit([[0], [0], [0], [1], [1], [1]] * 20).emissionprob_.shape
        (2, 2)
        """
        X = self._steps(X, reset=True, min_samples=2)
        of_batches = getattr(X, "lengths", None)
        # Rows elsewhere know where their sequences end.
        if of_batches is None:
            lengths = self._lengths(lengths, X.shape[0])
        else:
            lengths = [each for own in of_batches for each in own]
        if int(self.n_components) > X.shape[0]:
            raise LsparseError(
                f"Expected n_samples >= n_components but got n_components = {self.n_components}, "
                f"n_samples = {X.shape[0]}; ask for at most {X.shape[0]}"
            )
        start = self.model_ if self.warm_start and hasattr(self, "model_") else None
        around = self._around(None, checkpoint, checkpoint_every, resume, trace, callback)
        around["heldout"] = None if X_val is None else self._steps(X_val, reset=False)
        names = getattr(self, "feature_names_in_", None)
        if self.emission == "categorical":
            names = [f"{_CALLED}{symbol}" for symbol in self.symbols_]
        model, report = _core.fit_sequence(
            X,
            self._config(X.shape[0], lengths, **self._batching(X), **self._resumed(checkpoint, resume)),
            around,
            lengths=lengths,
            heldout_lengths=self._lengths(lengths_val),
            columns=None if names is None else [str(name) for name in names],
            start=start,
        )
        self._settle(model, report, around, float_type(X))
        rule_is_exact = self.schedule in ("full", "memoized") and self.tol and self.max_seconds is None
        if rule_is_exact and not self.converged_:
            warnings.warn(
                f"The fit did not converge; increase max_iter or tol. ({report['reason']}, and a step still gains more "
                f"than tol={self.tol} a lap)",
                ConvergenceWarning,
                stacklevel=3,
            )
        return self

    def _given(self, X: Any) -> Any:
        check_is_fitted(self)
        return self._steps(X, reset=False)

    @property
    def _judge(self) -> Any:
        """The model, for steps that may be missing where that is said after the fit."""
        return self.model_.allowing_missing() if self.missing else self.model_

    @property
    def monitor_(self) -> Monitor:
        """How the fit went, by hmmlearn's names."""
        if not hasattr(self, "model_"):
            raise AttributeError("monitor_")
        steps = self.trace_ if "objective" in self.trace_ else {"lap": np.array([]), "objective": np.array([])}
        # Some steps have no objective; laps end where theirs is whole.
        ends = (steps["lap"] == np.floor(steps["lap"])) & ~np.isnan(steps["objective"])
        return Monitor(bool(self.converged_), int(self.n_iter_), [float(each) for each in steps["objective"][ends]])

    def get_stationary_distribution(self) -> FLOATS:
        """How often the chain is in each state in the long run, whatever it started from.

        Returns
        -------
        shares : ndarray of shape (n_components,)
            They sum to one; where the chain falls apart, one of the distributions that it stays in.

        Examples
        --------
        >>> from lsparse import HMM
        >>> hmm = HMM(n_components=2, random_state=0).fit([[0.0], [0.2], [9.0], [9.2]] * 10)
        >>> shares = hmm.get_stationary_distribution()
        >>> bool(abs(shares @ hmm.transmat_ - shares).max() < 1e-9)
        True
        """
        check_is_fitted(self)
        states = len(self.startprob_)
        # shares (A - 1) = 0 and sum(shares) = 1
        equations = np.vstack([self.transmat_.T - np.eye(states), np.ones(states)])
        shares = np.linalg.lstsq(equations, np.append(np.zeros(states), 1.0), rcond=None)[0].clip(0.0)
        return np.asarray(shares / shares.sum(), dtype=np.float64)

    def _assign(self, X: Any, lengths: Any, sparsity: int) -> tuple[Any, FLOATS]:
        X = self._given(X)
        found: tuple[Any, FLOATS]
        found = self._judge.assign(X, self._lengths(lengths, X.shape[0]), sparsity, threads=threads_of(self.n_jobs))
        return found

    def decode(self, X: Any, lengths: Any = None, algorithm: str = "viterbi") -> tuple[float, INTEGERS]:
        """The most probable states.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Rows of all sequences.
        lengths : array-like of int, default=None
            Rows of each sequence.
        algorithm : {"viterbi", "map"}, default="viterbi"
            The most probable path, or the most probable state of every step by itself.

        Returns
        -------
        log_prob : float
            Log probability of the paths with their rows, or the sum of the probabilities of the states, as hmmlearn has it.
        states : ndarray of shape (n_samples,)
            States, from 0.

        Examples
        --------
        >>> from lsparse import HMM
        >>> X = [[0.0], [0.2], [9.0], [9.2]] * 10
        >>> log_prob, states = HMM(n_components=2, random_state=0).fit(X).decode(X)
        >>> bool(states[0] == states[1] != states[2])
        True
        """
        check_is_fitted(self)
        if algorithm == "map":
            index, value = self._assign(X, lengths, len(self.startprob_))
            return float(value[:, 0].sum()), np.asarray(index[:, 0], dtype=np.int64)
        if algorithm != "viterbi":
            raise ValueError(f"algorithm is viterbi or map, not {algorithm!r}")
        X = self._given(X)
        states, weight = self._judge.best_paths(X, self._lengths(lengths, X.shape[0]), threads=threads_of(self.n_jobs))
        return float(weight), states

    def predict(self, X: Any, lengths: Any = None) -> INTEGERS:
        """The most probable path through every sequence.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Rows of all sequences.
        lengths : array-like of int, default=None
            Rows of each sequence.

        Returns
        -------
        states : ndarray of shape (n_samples,)
            States, from 0.

        Examples
        --------
        >>> from lsparse import HMM
        >>> X = [[0.0], [0.2], [9.0], [9.2]] * 10
        >>> HMM(n_components=2, random_state=0).fit(X).predict(X).shape
        (40,)
        """
        return self.decode(X, lengths)[1]

    def predict_proba(self, X: Any, lengths: Any = None) -> FLOATS:
        """The probability of every state at every step given its whole sequence, none left out.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Rows of all sequences.
        lengths : array-like of int, default=None
            Rows of each sequence.

        Returns
        -------
        posteriors : ndarray of shape (n_samples, n_components)
            Rows sum to one.

        Examples
        --------
        >>> from lsparse import HMM
        >>> X = [[0.0], [0.2], [9.0], [9.2]] * 10
        >>> HMM(n_components=2, random_state=0).fit(X).predict_proba(X).sum(axis=1).round(6).max()
        np.float64(1.0)
        """
        check_is_fitted(self)
        index, value = self._assign(X, lengths, len(self.startprob_))
        dense = np.empty_like(value)
        np.put_along_axis(dense, index.astype(np.int64), value, axis=1)
        return dense

    def predict_sparse(self, X: Any, lengths: Any = None, *, sparsity: int | None = None) -> Any:
        """The L most probable states of every step and their responsibilities, as training has them.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Rows of all sequences.
        lengths : array-like of int, default=None
            Rows of each sequence.
        sparsity : int, default=None
            L, K if that is smaller; that of the fit if not given.

        Returns
        -------
        responsibilities : csr_array of shape (n_samples, n_components)
            L entries a row at most, which sum to one.

        Examples
        --------
        >>> import numpy as np
        >>> from lsparse import HMM
        >>> X = np.random.default_rng(0).normal(size=(500, 2))
        >>> hmm = HMM(n_components=20, sparsity=4, max_iter=5, tol=0, random_state=0).fit(X)
        >>> hmm.predict_sparse(X).shape
        (500, 20)
        """
        check_is_fitted(self)
        states = len(self.startprob_)
        if sparsity is None:
            sparsity = int(json.loads(self.model_.config)["sparsity"])
        if not isinstance(sparsity, Integral) or sparsity < 1:
            raise ValueError(f"sparsity is a whole number from 1 on, not {sparsity!r}")
        sparsity = min(int(sparsity), states)
        index, value = self._assign(X, lengths, sparsity)
        rows = np.repeat(np.arange(len(index)), sparsity)
        there = value.ravel() > 0
        entries = (value.ravel()[there], (rows[there], index.ravel()[there]))
        return sp.csr_array(sp.coo_array(entries, shape=(len(index), states)))

    def transform(self, X: Any, lengths: Any = None) -> FLOATS:
        """Posteriors as features: the same as ``predict_proba``.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Rows of all sequences.
        lengths : array-like of int, default=None
            Rows of each sequence.

        Returns
        -------
        posteriors : ndarray of shape (n_samples, n_components)
            Rows sum to one.

        Examples
        --------
        >>> from lsparse import HMM
        >>> X = [[0.0], [0.2], [9.0], [9.2]] * 10
        >>> HMM(n_components=2, random_state=0).fit(X).transform(X).shape
        (40, 2)
        """
        return self.predict_proba(X, lengths)

    def score(self, X: Any, lengths: Any = None) -> float:
        """The log likelihood of all sequences, as hmmlearn has it: not divided by their number.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Rows of all sequences.
        lengths : array-like of int, default=None
            Rows of each sequence.

        Returns
        -------
        log_prob : float
            Under point estimates; of a posterior, under its predictive densities and expected transitions.

        Examples
        --------
        >>> from lsparse import HMM
        >>> X = [[0.0], [0.2], [9.0], [9.2]] * 10
        >>> hmm = HMM(n_components=2, random_state=0).fit(X)
        >>> bool(hmm.score(X) == hmm.score_steps(X).sum())
        True
        """
        return float(self.score_steps(X, lengths).sum())

    def score_steps(self, X: Any, lengths: Any = None) -> FLOATS:
        """The log likelihood of every step given those before it in its sequence: what is low was not foreseen.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Rows of all sequences.
        lengths : array-like of int, default=None
            Rows of each sequence.

        Returns
        -------
        log_prob : ndarray of shape (n_samples,)
            0 for missing steps.

        Examples
        --------
        >>> from lsparse import HMM
        >>> X = [[0.0], [0.2], [9.0], [9.2]] * 10
        >>> HMM(n_components=2, random_state=0).fit(X).score_steps(X).shape
        (40,)
        """
        X = self._given(X)
        scores: FLOATS = self._judge.score(X, self._lengths(lengths, X.shape[0]), threads=threads_of(self.n_jobs))
        return scores

    def score_samples(self, X: Any, lengths: Any = None) -> tuple[float, FLOATS]:
        """The log likelihood of all sequences and the posteriors of all steps, as hmmlearn has them.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Rows of all sequences.
        lengths : array-like of int, default=None
            Rows of each sequence.

        Returns
        -------
        log_prob : float
            As :meth:`score`.
        posteriors : ndarray of shape (n_samples, n_components)
            As :meth:`predict_proba`.

        Examples
        --------
        >>> from lsparse import HMM
        >>> X = [[0.0], [0.2], [9.0], [9.2]] * 10
        >>> log_prob, posteriors = HMM(n_components=2, random_state=0).fit(X).score_samples(X)
        >>> posteriors.shape
        (40, 2)
        """
        return self.score(X, lengths), self.predict_proba(X, lengths)

    def sample(
        self, n_samples: int = 1, random_state: Any = None, currstate: int | None = None
    ) -> tuple[FLOATS, INTEGERS]:
        """Draw a sequence.

        Parameters
        ----------
        n_samples : int, default=1
            Steps.
        random_state : int, RandomState instance or None, default=None
            Seed; the estimator's if not given.
        currstate : int, default=None
            The state before the first step (hmmlearn: that of the first step); the sequence begins if not given.

        Returns
        -------
        X : ndarray of shape (n_samples, n_features)
            Rows; symbols of categorical states.
        states : ndarray of shape (n_samples,)
            The state of each step.

        Examples
        --------
        >>> from lsparse import HMM
        >>> hmm = HMM(n_components=2, random_state=0).fit([[0.0], [0.2], [9.0], [9.2]] * 10)
        >>> X, states = hmm.sample(10)
        >>> X.shape, states.shape
        ((10, 1), (10,))
        """
        check_is_fitted(self)
        if not isinstance(n_samples, Integral) or n_samples < 1:
            raise ValueError(f"n_samples is a whole number from 1 on, not {n_samples!r}")
        if currstate is not None and (not isinstance(currstate, Integral) or not 0 <= currstate < len(self.startprob_)):
            raise ValueError(f"currstate is a state, from 0 to {len(self.startprob_) - 1}, not {currstate!r}")
        if random_state is None:
            seed = self._seed()
        elif isinstance(random_state, Integral):
            seed = int(random_state)
        else:
            seed = int(check_random_state(random_state).randint(np.iinfo(np.int32).max))
        symbols = self.emission == "categorical"
        X, states = self.model_.sample(int(n_samples), currstate, 1 if symbols else None, seed)
        return (self.symbols_[X.argmax(axis=1)][:, None] if symbols else X), states

    def aic(self, X: Any, lengths: Any = None) -> float:
        """Akaike information criterion: lower is better.

        It is made for point estimates (``estimate="ml"``); of a posterior it takes the predictive density.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Rows of all sequences.
        lengths : array-like of int, default=None
            Rows of each sequence.

        Returns
        -------
        aic : float
            2 p - 2 log likelihood, with p the free parameters.

        Examples
        --------
        >>> from lsparse import HMM
        >>> X = [[0.0], [0.2], [9.0], [9.2]] * 10
        >>> hmm = HMM(n_components=2, estimate="map", random_state=0).fit(X)
        >>> hmm.aic(X) < hmm.bic(X)
        True
        """
        return float(2.0 * self.model_.num_parameters - 2.0 * self.score(X, lengths))

    def bic(self, X: Any, lengths: Any = None) -> float:
        """Bayesian information criterion: lower is better.

        It is made for point estimates (``estimate="ml"``); of a posterior it takes the predictive density. Choose the K of
        posteriors by ``objective_``, or by steps that were held out.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Rows of all sequences.
        lengths : array-like of int, default=None
            Rows of each sequence.

        Returns
        -------
        bic : float
            p log(n) - 2 log likelihood, with p the free parameters and n the steps that are there.

        Examples
        --------
        >>> from lsparse import HMM
        >>> X = [[0.0], [0.2], [9.0], [9.2]] * 10
        >>> HMM(n_components=2, estimate="map", random_state=0).fit(X).bic(X) > 0
        True
        """
        steps = self._given(X)
        there = np.diff(steps.indptr) > 0 if sp.issparse(steps) else ~np.isnan(steps).all(axis=1)
        observed = there.sum() if self.missing else len(there)
        return float(self.model_.num_parameters * np.log(max(observed, 1)) - 2.0 * self.score(X, lengths))

    def _take(self, model: Any) -> None:
        super()._take(model)
        arrays = model.arrays()
        if self.emission == "categorical":
            self.symbols_ = symbols_of(model)
        self.startprob_: FLOATS = arrays["start"]
        self.transmat_: FLOATS = arrays["transitions"]
        states, columns = len(self.startprob_), int(model.dim)
        if "means" in arrays:
            self.means_: FLOATS = arrays["means"]
        if "probabilities" in arrays:
            self.emissionprob_: FLOATS = arrays["probabilities"]
        if "rates" in arrays:
            self.lambdas_: FLOATS = arrays["rates"]
        covariances, variances = arrays.get("covariances"), arrays.get("variances")
        if covariances is not None:
            self.covars_: FLOATS = np.broadcast_to(covariances, (states, columns, columns)).copy()
        elif variances is not None:
            wide = np.broadcast_to(variances.reshape(states, -1), (states, columns))
            self.covars_ = wide[:, :, None] * np.eye(columns)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.emission != "categorical"
        tags.input_tags.positive_only = self.emission != "gaussian"
        tags.input_tags.allow_nan = bool(self.missing)
        return tags


def _check_one_after_the_other(X: Any) -> None:
    """Refuse sequences that lie side by side."""
    if isinstance(X, Sequence) and any(np.ndim(each) == 2 for each in X if hasattr(each, "ndim")):
        raise ValueError(
            "X is a list of sequences; give their rows one after the other, np.concatenate(X), and "
            "lengths=[len(x) for x in X]"
        )
    if getattr(X, "ndim", 2) == 3:
        raise ValueError(
            f"X has the shape {X.shape}; give the rows of sequences one after the other, X.reshape(-1, X.shape[-1]), and "
            "lengths=[X.shape[1]] * len(X)"
        )
