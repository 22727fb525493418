"""Pictures of models and of their training, with matplotlib (``pip install lsparse[plot]``)."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, isqrt
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from ._mixtures import BernoulliMixture, GaussianMixture, MultinomialMixture, PoissonMixture
from ._sequences import HMM
from ._topics import TopicModel

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["clusters", "durations", "mass", "states", "topics", "trace", "transitions"]


def _pyplot() -> Any:
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("lsparse.plot needs matplotlib; pip install lsparse[plot]") from error
    return plt


def _axes(ax: Axes | None) -> Axes:
    """These axes, or new ones whose labels have the room that they need."""
    return _pyplot().subplots(layout="constrained")[1] if ax is None else ax


def trace(model: Any, *, x: str = "lap", y: str = "objective", ax: Axes | None = None) -> Axes:
    """Draw how training went.

    Parameters
    ----------
    model : estimator
        A fitted one.
    x : str, default="lap"
        A column of ``model.trace_``, such as "seconds".
    y : str, default="objective"
        A column of ``model.trace_``.
    ax : Axes, default=None
        Where to draw; on new axes if not given.

    Returns
    -------
    ax : Axes
        One line a run.

    Examples
    --------
    >>> import lsparse, lsparse.plot
    >>> gm = lsparse.GaussianMixture(n_components=2, random_state=0).fit([[0.0], [0.2], [9.0], [9.2]])
    >>> lsparse.plot.trace(gm).get_ylabel()
    'objective'
    """
    check_is_fitted(model)
    if not model.trace_:
        raise ValueError("the model has no trace, since it was loaded from a file; fit it to have one")
    for name in (x, y):
        if name not in model.trace_:
            raise ValueError(f"there is no {name!r} in the trace; it has {', '.join(model.trace_)}")
    ax = _axes(ax)
    runs = np.unique(model.trace_["run"])
    for run in runs:
        of_run = model.trace_["run"] == run
        known = of_run & ~np.isnan(np.asarray(model.trace_[y], dtype=float))
        ax.plot(model.trace_[x][known], model.trace_[y][known], marker=".", label=f"run {run}")
    ax.set_xlabel(x)
    ax.set_ylabel(y)
    # Whole numbers rather than differences from a number that stands in a corner.
    ax.ticklabel_format(axis="y", useOffset=False)
    if len(runs) > 1:
        ax.legend()
    return ax


def topics(model: TopicModel, *, n_topics: int = 12, n_words: int = 8) -> Figure:
    """Draw the top words of the most prominent topics as bars.

    Parameters
    ----------
    model : TopicModel
        A fitted one.
    n_topics : int, default=12
        Topics at most, those with the largest shares.
    n_words : int, default=8
        Words a topic.

    Returns
    -------
    figure : Figure
        One panel a topic.

    Examples
    --------
    >>> import lsparse, lsparse.plot
    >>> model = lsparse.TopicModel(n_components=2, random_state=0).fit([[5, 5, 0, 0], [0, 0, 5, 5]] * 10)
    >>> len(lsparse.plot.topics(model, n_words=2).axes)
    2
    """
    check_is_fitted(model)
    chosen = np.argsort(-model.weights_, kind="stable")[:n_topics]
    columns = min(4, len(chosen))
    rows = ceil(len(chosen) / columns)
    figure, axes = _pyplot().subplots(
        rows, columns, figsize=(3 * columns, (0.8 + 0.22 * n_words) * rows), squeeze=False, layout="constrained"
    )
    for ax, k in zip(axes.ravel(), chosen, strict=False):
        words = np.argsort(-model.topics_[k], kind="stable")[:n_words]
        ax.barh([str(model.vocabulary_[word]) for word in words], model.topics_[k, words])
        ax.invert_yaxis()
        ax.set_title(f"topic {k}: {100 * model.weights_[k]:.1f} %", fontsize="small")
        ax.tick_params(labelsize="small")
        ax.locator_params(axis="x", nbins=3)
    for ax in axes.ravel()[len(chosen) :]:
        ax.remove()
    return figure  # type: ignore[no-any-return]


#: Fewest columns that are taken for a square image without being told so.
_LEAST_PIXELS = 9


def _patch_shape(dim: int, patch_shape: tuple[int, int] | None) -> tuple[int, int] | None:
    """Height and width of rows as images; none where they are none."""
    if patch_shape is None:
        side = isqrt(dim)
        return (side, side) if side * side == dim and dim >= _LEAST_PIXELS else None
    if patch_shape[0] * patch_shape[1] != dim:
        raise ValueError(f"patches of {patch_shape} do not have {dim} pixels")
    return patch_shape


def clusters(
    model: GaussianMixture | MultinomialMixture | PoissonMixture | BernoulliMixture,
    *,
    n_clusters: int = 8,
    n_samples: int = 6,
    patch_shape: tuple[int, int] | None = None,
) -> Figure:
    """Draw the largest components: for Gaussians mean, covariance and samples, else probabilities or rates.

    Rows that are images are drawn as such, others as lines over their columns, the means of Gaussians with a standard
    deviation about them and correlations in the place of covariances.

    Parameters
    ----------
    model : mixture estimator
        A fitted one.
    n_clusters : int, default=8
        Components at most, those with the largest weights.
    n_samples : int, default=6
        Samples of each Gaussian.
    patch_shape : (int, int), default=None
        Height and width of a row as an image. If not given, rows of 9, 16, 25 ... columns are square images, and others
        are none.

    Returns
    -------
    figure : Figure
        One row a component.

    Examples
    --------
    >>> import numpy as np
    >>> import lsparse, lsparse.plot
    >>> X = np.random.default_rng(0).normal(size=(100, 4))
    >>> gm = lsparse.GaussianMixture(2, covariance_type="zero-mean", tol=1e-3, random_state=0).fit(X)
    >>> len(lsparse.plot.clusters(gm, n_samples=3).axes)  # a covariance and three samples each
    8
    """
    check_is_fitted(model)
    shape = _patch_shape(model.n_features_in_, patch_shape)
    chosen = np.argsort(-model.weights_, kind="stable")[:n_clusters]
    panels = [_panels(model, int(k), n_samples, images=shape is not None) for k in chosen]
    width = 1.1 if shape is not None else 1.7
    figure, axes = _pyplot().subplots(
        len(panels),
        len(panels[0]),
        figsize=(width * len(panels[0]) + 0.8, 1.1 * len(panels) + 0.4),
        squeeze=False,
        layout="constrained",
    )
    for at, (k, row) in enumerate(zip(chosen, panels, strict=True)):
        for ax, (title, values, spread) in zip(axes[at], row, strict=True):
            _draw_panel(ax, values, spread, shape, last=at + 1 == len(panels))
            if at == 0:
                ax.set_title(title, fontsize="small")
        axes[at, 0].set_ylabel(f"{k}: {100 * model.weights_[k]:.1f} %", fontsize="small")
    return figure  # type: ignore[no-any-return]


def _draw_panel(
    ax: Axes, values: NDArray[Any], spread: NDArray[Any] | None, shape: tuple[int, int] | None, *, last: bool
) -> None:
    """A covariance or an image, or a row as a line over its columns."""
    if values.ndim == 2 or shape is not None:
        ax.imshow(values if values.ndim == 2 else values.reshape(shape), cmap="gray", aspect="equal")
        ax.set_xticks([])
        ax.set_yticks([])
        return
    columns = np.arange(values.size)
    if spread is not None:
        ax.fill_between(columns, values - spread, values + spread, alpha=0.3, linewidth=0)
    ax.plot(columns, values, marker="." if values.size <= 30 else None, linewidth=1)
    ax.locator_params(axis="x", nbins=3, integer=True)
    ax.locator_params(axis="y", nbins=3)
    ax.tick_params(labelsize="x-small", labelbottom=last)


def _panels(model: Any, k: int, n_samples: int, *, images: bool) -> list[tuple[str, NDArray[Any], NDArray[Any] | None]]:
    """What is drawn of one component, each with its title and, of means, the standard deviations."""
    if not isinstance(model, GaussianMixture):
        return [("rates" if isinstance(model, PoissonMixture) else "probabilities", model.components_[k], None)]
    covariance = model.covariances_ if model._fitted_type() == "tied" else model.covariances_[k]
    full = covariance if covariance.ndim == 2 else np.diag(np.broadcast_to(covariance, model.n_features_in_))
    noise = np.random.default_rng(k).standard_normal((n_samples, full.shape[0]))
    samples = model.means_[k] + noise @ np.linalg.cholesky(full).T
    panels: list[tuple[str, NDArray[Any], NDArray[Any] | None]] = []
    if model._fitted_type() != "zero-mean":
        panels.append(("mean", model.means_[k], np.sqrt(np.diag(full))))
    deviation = np.sqrt(np.diag(full))
    # Columns that are no pixels may have scales of their own, of which the largest would be all there is to see.
    panels.append(("covariance", full, None) if images else ("correlation", full / np.outer(deviation, deviation), None))
    return panels + [(f"sample {n + 1}", sample, None) for n, sample in enumerate(samples)]


def mass(
    model: Any,
    X: Any,
    *,
    sparsity: Sequence[int] = (1, 2, 4, 8, 16),
    n_rows: int = 2000,
    ax: Axes | None = None,
) -> Axes:
    """Draw how little responsibility is lost by keeping L components: Fig. 1d of Hughes and Sudderth (2016).

    A line for each L: the share of rows (of words of documents, for topics) whose L-sparse responsibilities are no
    farther than x from the dense ones in variational distance, which is the mass that the L largest do not capture. The
    axis of x is logarithmic; what is below a millionth is drawn there.

    Parameters
    ----------
    model : estimator
        A fitted one.
    X : array-like or CSR matrix of shape (n_samples, n_features)
        Rows or documents.
    sparsity : sequence of int, default=(1, 2, 4, 8, 16)
        The L to compare; those above ``n_components`` are left out.
    n_rows : int, default=2000
        Rows or documents to look at, the first ones.
    ax : Axes, default=None
        Where to draw; on new axes if not given.

    Returns
    -------
    ax : Axes
        One line for each L.

    Examples
    --------
    >>> import numpy as np
    >>> import lsparse, lsparse.plot
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> gm = lsparse.GaussianMixture(n_components=8, max_iter=5, tol=0, random_state=0).fit(X)
    >>> [line.get_label() for line in lsparse.plot.mass(gm, X, sparsity=(1, 4)).lines]
    ['L = 1, 19.5 % lost', 'L = 4, 0.165 % lost']
    """
    check_is_fitted(model)
    X = X[:n_rows] if hasattr(X, "shape") else np.asarray(X)[:n_rows]
    captured = _captured(model, X)
    ax = _axes(ax)
    for kept in sparsity:
        if kept <= captured.shape[1]:
            distance = np.sort(np.clip(1.0 - captured[:, kept - 1], 0.0, 1.0))
            share = np.arange(1, distance.size + 1) / distance.size
            # Up from zero at the left edge, so that what is lost nowhere is seen as well, and on to the right one.
            places = np.concatenate([[_LEAST_LOSS], np.maximum(distance, _LEAST_LOSS), [1.0]])
            lost = 100 * distance.mean()
            label = f"L = {kept}, {lost if lost > 1e-3 else 0:.3g} % lost"
            ax.step(places, np.concatenate([[0.0], share, [1.0]]), where="post", label=label)
    ax.set_xlabel("mass not captured (variational distance)")
    ax.set_ylabel("share of words" if isinstance(model, TopicModel) else "share of rows")
    ax.set_xscale("log")
    ax.set_xlim(_LEAST_LOSS, 1)
    ax.set_ylim(0, 1.02)
    ax.legend(loc="lower right")
    return ax


#: What is lost less than this is lost nowhere.
_LEAST_LOSS = 1e-6


def _captured(model: Any, X: Any) -> NDArray[Any]:
    """For each row or word the responsibility of its 1, 2, ... K largest components."""
    if not isinstance(model, TopicModel):
        return np.cumsum(-np.sort(-model.predict_proba(X), axis=1), axis=1)
    X = sp.csr_array(X)
    shares = model.transform(X)
    document = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
    weights = shares[document] * model.topics_.T[X.indices]
    weights /= weights.sum(axis=1, keepdims=True)
    return np.cumsum(-np.sort(-weights, axis=1), axis=1)


def states(model: HMM, X: Any, lengths: Any = None, *, n_states: int = 12, ax: Axes | None = None) -> Axes:
    """Draw the probabilities of states over time, the sequences one after the other.

    Parameters
    ----------
    model : HMM
        A fitted one.
    X : array-like or CSR matrix of shape (n_samples, n_features)
        Rows of all sequences.
    lengths : array-like of int, default=None
        Rows of each sequence.
    n_states : int, default=12
        States at most, those that most steps are in.
    ax : Axes, default=None
        Where to draw; on new axes if not given.

    Returns
    -------
    ax : Axes
        A row a state, dark where it is probable; lines where sequences begin.

    Examples
    --------
    >>> import lsparse, lsparse.plot
    >>> X = [[0.0], [0.2], [9.0], [9.2]] * 10
    >>> hmm = lsparse.HMM(n_components=2, random_state=0).fit(X, [16, 24])
    >>> lsparse.plot.states(hmm, X, [16, 24]).images[0].get_array().shape
    (2, 40)
    """
    shares = model.predict_sparse(X, lengths)
    weights = np.asarray(shares.sum(axis=0)).ravel()
    chosen = np.argsort(-weights, kind="stable")[:n_states]
    ax = _axes(ax)
    drawn = np.asarray(shares[:, chosen].todense()).T
    ax.imshow(drawn, aspect="auto", cmap="Greys", vmin=0.0, vmax=1.0, interpolation="nearest")
    ax.set_yticks(range(len(chosen)), [str(k) for k in chosen])
    if lengths is not None:
        for begin in np.cumsum(lengths)[:-1]:
            ax.axvline(begin - 0.5, color="tab:red", linewidth=0.8)
    ax.set_xlabel("step")
    ax.set_ylabel("state")
    return ax


def transitions(model: HMM, *, n_states: int = 20, least: float = 0.02, ax: Axes | None = None) -> Axes:
    """Draw the graph of a chain: states on a circle, arrows where one follows another.

    Parameters
    ----------
    model : HMM
        A fitted one.
    n_states : int, default=20
        States at most, those that are most often visited in the long run.
    least : float, default=0.02
        Probability from which a transition is drawn.
    ax : Axes, default=None
        Where to draw; on new axes if not given.

    Returns
    -------
    ax : Axes
        Points as large as their state is frequent, arrows as wide as their transition is probable.

    Examples
    --------
    >>> import lsparse, lsparse.plot
    >>> hmm = lsparse.HMM(n_components=2, random_state=0).fit([[0.0], [0.2], [9.0], [9.2]] * 10)
    >>> len(lsparse.plot.transitions(hmm).texts) >= 2
    True
    """
    check_is_fitted(model)
    frequency = _stationary(model.transmat_)
    chosen = np.argsort(-frequency, kind="stable")[:n_states]
    angle = 2 * np.pi * np.arange(len(chosen)) / len(chosen)
    places = np.column_stack([np.cos(angle), np.sin(angle)])
    ax = _axes(ax)
    for place, j in zip(places, chosen, strict=True):
        for other, k in zip(places, chosen, strict=True):
            share = model.transmat_[j, k]
            if j != k and share >= least:
                how = {"arrowstyle": "-|>", "connectionstyle": "arc3,rad=0.15", "color": "0.4", "shrinkA": 9, "shrinkB": 9}
                ax.annotate("", xy=other, xytext=place, arrowprops={**how, "linewidth": 0.5 + 4 * share})
    ax.scatter(places[:, 0], places[:, 1], s=80 + 900 * frequency[chosen], color="tab:blue", zorder=3)
    for place, k in zip(places, chosen, strict=True):
        ax.text(place[0], place[1], str(k), ha="center", va="center", color="white", fontsize=8, zorder=4)
    ax.set_aspect("equal")
    ax.margins(0.15)
    ax.set_axis_off()
    return ax


def durations(model: HMM, X: Any, lengths: Any = None, *, n_states: int = 12, ax: Axes | None = None) -> Axes:
    """Draw how long states last on the best paths, beside what their probability of staying expects.

    Parameters
    ----------
    model : HMM
        A fitted one.
    X : array-like or CSR matrix of shape (n_samples, n_features)
        Rows of all sequences.
    lengths : array-like of int, default=None
        Rows of each sequence.
    n_states : int, default=12
        States at most, those that most steps are in.
    ax : Axes, default=None
        Where to draw; on new axes if not given.

    Returns
    -------
    ax : Axes
        A box a state, and a point where 1 / (1 - staying) is.

    Examples
    --------
    >>> import lsparse, lsparse.plot
    >>> X = [[0.0], [0.2], [9.0], [9.2]] * 10
    >>> hmm = lsparse.HMM(n_components=2, random_state=0).fit(X)
    >>> lsparse.plot.durations(hmm, X).get_ylabel()
    'steps'
    """
    path = model.predict(X, lengths)
    ends = np.array([len(path)]) if lengths is None else np.cumsum(lengths)
    # A visit ends where the state changes, and where the sequence does.
    last = np.ones(len(path), dtype=bool)
    last[:-1] = path[1:] != path[:-1]
    last[ends[ends > 0] - 1] = True
    at = np.flatnonzero(last)
    lasted = np.diff(at, prepend=-1)
    visited = path[at]
    chosen = np.argsort(-np.bincount(path, minlength=len(model.startprob_)), kind="stable")[:n_states]
    ax = _axes(ax)
    ax.boxplot([lasted[visited == k] if (visited == k).any() else [0] for k in chosen], positions=range(len(chosen)))
    stay = np.minimum(np.diag(model.transmat_)[chosen], 1 - 1e-9)
    ax.plot(range(len(chosen)), 1 / (1 - stay), linestyle="", marker="o", color="tab:red", label="expected")
    ax.set_xticks(range(len(chosen)), [str(k) for k in chosen])
    ax.set_xlabel("state")
    ax.set_ylabel("steps")
    ax.legend()
    return ax


def _stationary(transitions: NDArray[np.float64]) -> NDArray[np.float64]:
    """The shares of states in the long run."""
    shares = np.full(len(transitions), 1 / len(transitions))
    for _ in range(200):
        # Half a step stays, so that chains that go round come to rest too.
        shares = 0.5 * (shares + shares @ transitions)
    return shares
