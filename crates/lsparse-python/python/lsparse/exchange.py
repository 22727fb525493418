"""Training by processes that exchange nothing but bytes.

One process holds the session; any number work batches out. :func:`summarize` and :func:`fold` are pure functions of bytes
and rows, so work that is lost is simply done again, and the model has the same bytes however many processes took part.
All processes have the same rows (a memory map of one file, say) and the same version of lsparse.

Examples
--------
>>> import numpy as np
>>> import lsparse
>>> from lsparse import exchange
>>> X = np.random.default_rng(0).normal(size=(600, 2)) + 9.0 * np.arange(600)[:, None] % 2
>>> gm = lsparse.GaussianMixture(2, batch_size=200, max_iter=2, tol=0.0, random_state=0)
>>> settled, session = exchange.begin(gm, X)
>>> laps = 0
>>> while laps < 2:
...     params, tickets = exchange.hand_out(settled, session, X)
...     done = [exchange.summarize(settled, X, params, ticket) for ticket in tickets]  # anywhere
...     session, laps = exchange.fold(settled, session, X, done)
>>> fitted = exchange.finish(settled, session, X, gm)
>>> bool((fitted.means_ == gm.fit(X).means_).all())
True
"""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from typing import Any

from . import _core
from ._base import Estimator, float_type, threads_of
from ._mixtures import _MixtureBase
from ._pieces import AnyEstimator, InProcess, trained
from ._topics import TopicModel

__all__ = ["begin", "finish", "fit", "fold", "hand_out", "summarize"]


def begin(model: Estimator, X: Any) -> tuple[str, bytes]:
    """Begin a training: find where it starts from.

    Parameters
    ----------
    model : estimator
        Its parameters say what is trained; rows have no weights, and nothing is given to start from.
    X : array-like or CSR matrix of shape (n_samples, n_features)
        Rows.

    Returns
    -------
    settled : str
        What every process needs to know.
    session : bytes
        The training, before its first batch.

    Examples
    --------
    >>> import lsparse
    >>> from lsparse import exchange
    >>> settled, session = exchange.begin(lsparse.GaussianMixture(1, random_state=0), [[0.0], [1.0], [2.0]])
    >>> type(session)
    <class 'bytes'>
    """
    rows = model._rows(X, reset=True)
    kind = "topics" if isinstance(model, TopicModel) else "mixture"
    return _core.begin_session(rows, kind, model._config(), threads=threads_of(model.n_jobs))


class _AnyRows(_MixtureBase):
    """Reads the rows of all mixtures; what is wrong with them was said when the training began."""

    def _allows_nan(self) -> bool:
        return True


def _readable(X: Any, settled: str) -> Any:
    model: Estimator = TopicModel() if "Topics" in json.loads(settled) else _AnyRows()
    return model._rows(X, reset=True)


def hand_out(settled: str, session: bytes, X: Any, n_batches: int = 1) -> tuple[bytes, list[bytes]]:
    """The next batches to be worked out.

    Parameters
    ----------
    settled : str
        From :func:`begin`.
    session : bytes
        The training.
    X : array-like or CSR matrix of shape (n_samples, n_features)
        Rows.
    n_batches : int, default=1
        Batches under the same parameters at most; fewer where a lap ends. How many there are changes the model, so choose
        and keep it, whatever the number of processes.

    Returns
    -------
    params : bytes
        The parameters that they are worked out under.
    tickets : list of bytes
        One a batch.

    Examples
    --------
    >>> import lsparse
    >>> from lsparse import exchange
    >>> X = [[0.0], [1.0], [2.0], [3.0]]
    >>> settled, session = exchange.begin(lsparse.GaussianMixture(1, batch_size=2, random_state=0), X)
    >>> params, tickets = exchange.hand_out(settled, session, X, n_batches=2)
    >>> len(tickets)
    2
    """
    return _core.hand_out_batches(_readable(X, settled), settled, session, int(n_batches))


def summarize(settled: str, X: Any, params: bytes, ticket: bytes, *, n_jobs: int | None = None) -> bytes:
    """Work a batch out. Pure: the same bytes give the same statistics, wherever and however often.

    Parameters
    ----------
    settled : str
        From :func:`begin`.
    X : array-like or CSR matrix of shape (n_samples, n_features)
        Rows, the same for all.
    params : bytes
        From :func:`hand_out`.
    ticket : bytes
        From :func:`hand_out`.
    n_jobs : int, default=None
        Threads, as for estimators.

    Returns
    -------
    done : bytes
        Statistics of the batch, for :func:`fold`.

    Examples
    --------
    >>> import lsparse
    >>> from lsparse import exchange
    >>> X = [[0.0], [1.0], [2.0], [3.0]]
    >>> settled, session = exchange.begin(lsparse.GaussianMixture(1, random_state=0), X)
    >>> params, (ticket,) = exchange.hand_out(settled, session, X)
    >>> exchange.summarize(settled, X, params, ticket) == exchange.summarize(settled, X, params, ticket)
    True
    """
    return _core.summarize_batch(_readable(X, settled), settled, params, ticket, threads=threads_of(n_jobs))


def fold(settled: str, session: bytes, X: Any, done: Sequence[bytes]) -> tuple[bytes, int]:
    """Take what came of all tickets of a round into the training, in whatever order it comes.

    Parameters
    ----------
    settled : str
        From :func:`begin`.
    session : bytes
        The training that handed the tickets out.
    X : array-like or CSR matrix of shape (n_samples, n_features)
        Rows.
    done : sequence of bytes
        From :func:`summarize`, one for each ticket.

    Returns
    -------
    session : bytes
        The training after it.
    laps : int
        Laps that are done.

    Examples
    --------
    >>> import lsparse
    >>> from lsparse import exchange
    >>> X = [[0.0], [1.0], [2.0], [3.0]]
    >>> settled, session = exchange.begin(lsparse.GaussianMixture(1, random_state=0), X)
    >>> params, (ticket,) = exchange.hand_out(settled, session, X)
    >>> exchange.fold(settled, session, X, [exchange.summarize(settled, X, params, ticket)])[1]
    1
    """
    session, report = _core.fold_batches(_readable(X, settled), settled, session, [bytes(each) for each in done])
    return session, int(json.loads(report)["laps"])


def finish(settled: str, session: bytes, X: Any, model: AnyEstimator) -> AnyEstimator:
    """The trained model.

    Parameters
    ----------
    settled : str
        From :func:`begin`.
    session : bytes
        The training.
    X : array-like or CSR matrix of shape (n_samples, n_features)
        Rows.
    model : estimator
        The one that the training began with.

    Returns
    -------
    fitted : estimator
        A copy of it with the model that was trained.

    Examples
    --------
    >>> import lsparse
    >>> from lsparse import exchange
    >>> X = [[0.0], [1.0], [2.0], [3.0]]
    >>> gm = lsparse.GaussianMixture(1, random_state=0)
    >>> settled, session = exchange.begin(gm, X)
    >>> exchange.finish(settled, session, X, gm).n_iter_
    0
    """
    fitted = copy.deepcopy(model)
    rows = fitted._rows(X, reset=True)
    kind = _core.Topics if isinstance(model, TopicModel) else _core.Mixture
    fitted._dtype = float_type(rows)
    fitted._take(kind.from_bytes(_core.model_of_session(rows, settled, session)))
    fitted.trace_ = {}
    return fitted


def fit(model: AnyEstimator, parts: Sequence[Any], *, batches_per_round: int = 1, **around: Any) -> AnyEstimator:
    """Train in this process as others do who have a part of the rows each: the model has the same bytes.

    Parameters
    ----------
    model : estimator
        Its parameters say what is trained.
    parts : sequence of arrays, CSR matrices or data frames
        Rows; each part is a batch, or is cut into batches of ``batch_size`` rows.
    batches_per_round : int, default=1
        Batches under the same parameters, as :mod:`lsparse.dask` has them.
    **around
        ``X_val``, ``checkpoint``, ``callback`` and what else ``fit`` of the estimator takes; ``lengths`` of sequences, of
        which every part has whole ones.

    Returns
    -------
    fitted : estimator
        A copy of it with the model that was trained.

    Examples
    --------
    >>> import numpy as np
    >>> import lsparse
    >>> from lsparse import exchange
    >>> X = np.random.default_rng(0).normal(size=(600, 2)) + 9.0 * np.arange(600)[:, None] % 2
    >>> gm = exchange.fit(lsparse.GaussianMixture(2, random_state=0), [X[:200], X[200:]], batches_per_round=2)
    >>> gm.means_.shape
    (2, 2)
    """
    return trained(InProcess(parts), len(parts), model, batches_per_round, around)
