"""Training on a Dask cluster, with the bytes of one machine whatever becomes of its workers.

The estimators are those of :mod:`lsparse` with the same parameters, for data that lies in partitions: dask arrays, data
frames of numbers, delayed CSR matrices, bags of texts, and ``.npy`` files or corpus folders that every worker can read. A
batch is a partition (or a piece of one, with ``batch_size``); batches are worked out where their rows are, and the client
folds them in, in their order. So the model is the same, byte for byte, with any number of workers, and when workers die and
their work is done again. ``pip install lsparse[dask]`` has what it takes.

Examples
--------
>>> import dask.array as da
>>> from dask.distributed import Client
>>> from lsparse.dask import GaussianMixture
>>> client = Client(processes=False, n_workers=1, threads_per_worker=1, dashboard_address=":0")
>>> X = da.random.RandomState(0).normal(size=(1000, 2), chunks=(250, 2))
>>> gm = GaussianMixture(n_components=3, max_iter=5, tol=0, random_state=0).fit(X)
>>> gm.predict(X).compute().shape
(1000,)
>>> client.close()
"""

from __future__ import annotations

import json
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

try:
    import dask
    import dask.array as da
    from dask.bag import Bag
    from dask.delayed import Delayed
    from distributed import Client, Future, KilledWorker, default_client, wait
except ImportError as error:
    raise ImportError("lsparse.dask needs Dask; pip install lsparse[dask]") from error

from . import _mixtures, _sequences, _topics
from ._base import PATH, Callback, Estimator, checked_lengths
from ._corpus import Corpus, Vocabulary, build_corpus as build_corpus_here, counts_by, counts_of
from ._errors import LsparseError
from ._parameters import COUNT, POSITIVE, described, parameter
from ._pieces import (
    Call,
    Pieces,
    Stored,
    died,
    lengths_of_parts,
    prepare,
    rows_of,
    sizes_of,
    stored,
    told,
)

__all__ = [
    "BernoulliMixture",
    "GaussianMixture",
    "HMM",
    "MultinomialMixture",
    "PoissonMixture",
    "TopicModel",
    "build_corpus",
]

#: Values of a file that are a batch where nothing else is said: some seconds of work.
_VALUES_A_BATCH = 1 << 24

#: Seconds between two looks at a cluster that is at work.
_LOOK = 1.0


class _Workers:
    """Runs functions on the workers that have the data, and runs them again when workers die."""

    def __init__(self, client: Client, parts: Sequence[Any], timeout: float) -> None:
        self._client = client
        self._parts = parts
        self._timeout = timeout
        # Two fits on one cluster have nothing in common.
        self._token = uuid.uuid4().hex
        self._rounds = 0

    def run(self, calls: Sequence[Call], shared: tuple[bytes, bytes] | None = None) -> Iterator[Any]:
        """What came of each call, in their order, as soon as it is there: others are still at work meanwhile."""
        futures = self.begin(calls, shared)
        taken = 0
        try:
            while taken < len(futures):
                done = self.wait(futures, calls, taken)
                found = self._client.gather(futures[taken:done])
                # What is here need not be worked out again when the worker that has it dies.
                for future in futures[taken:done]:
                    future.release()
                taken = done
                yield from found
        finally:
            self._client.cancel([future for future in futures[taken:] if not future.done()])

    def begin(self, calls: Sequence[Call], shared: tuple[bytes, bytes] | None = None) -> list[Future]:
        """Calls under way."""
        client, before = self._client, []
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "100GB"}):
            if shared is not None:
                # The result of a task can be had again when the worker that holds it dies; scattered data cannot.
                self._rounds += 1
                key = f"lsparse-parameters-{self._token}-{self._rounds}"
                before.append(client.submit(_same, shared, key=key))
            return [
                client.submit(
                    call.function,
                    self._parts[call.part],
                    *before,
                    *call.arguments,
                    key=f"{call.key[0]}-{self._token}-{call.key[1]}",
                    # In this order they are taken: what comes late holds up all behind it.
                    priority=-place,
                )
                for place, call in enumerate(calls)
            ]

    def wait(self, futures: list[Future], calls: Sequence[Call], taken: int = 0) -> int:
        """Wait for the next after so many; how many are done by then, without a gap. Raises the first that went wrong, with
        its name. A cluster without workers is not waited for."""
        left = None
        while True:
            for future, call in zip(futures[taken:], calls[taken:], strict=True):
                if future.status in ("error", "cancelled"):
                    raise _told(call, future)
            try:
                with self._client.as_current():
                    wait(futures[taken], timeout=_LOOK)
                if futures[taken].status == "finished":
                    going = (n for n in range(taken, len(futures)) if futures[n].status != "finished")
                    return next(going, len(futures))
            except TimeoutError:
                alone = not self._client.nthreads()
                left = (left or time.monotonic()) if alone else None
                if left is not None and time.monotonic() - left > self._timeout:
                    raise _no_workers(self._timeout) from None

    def wait_for_all(self, futures: list[Future], calls: Sequence[Call]) -> None:
        """Wait until nothing is left to be done."""
        taken = 0
        while taken < len(futures):
            taken = self.wait(futures, calls, taken)


def _told(call: Call, future: Future) -> LsparseError:
    """What a worker says, with the name of what it was doing."""
    if future.status != "error":
        return LsparseError(f"{call.name}: the cluster has {future.status} it; fit again")
    error = future.exception()
    if isinstance(error, KilledWorker):
        return died(call, error.allowed_failures + 1)
    own = told(call, type(error).__name__, str(error), isinstance(error, LsparseError))
    own.__cause__ = error
    return own


def _no_workers(timeout: float) -> LsparseError:
    return LsparseError(f"the cluster has had no worker for {timeout:g} s; start some, or give a longer worker_timeout")


def _same(value: Any) -> Any:
    return value


def _client(client: Client | None, timeout: float) -> Client:
    """The client to work with, and some worker behind it."""
    if client is None:
        try:
            client = default_client()
        except ValueError:
            problem = "there is no Dask client; make one: client = dask.distributed.Client(...)"
            raise LsparseError(problem) from None
    try:
        client.wait_for_workers(1, timeout=timeout)
    except TimeoutError:
        raise _no_workers(timeout) from None
    return client


def _is_lazy(X: Any) -> bool:
    """Whether this is data that a cluster has."""
    several = isinstance(X, list | tuple) and bool(X) and all(isinstance(each, Delayed | Future) for each in X)
    return several or isinstance(X, Future | Pieces) or dask.is_dask_collection(X)


def _delayed_parts(X: Any) -> list[Any]:
    """The partitions of data that a cluster has, as it has them."""
    if isinstance(X, Delayed | Future):
        return [X]
    if isinstance(X, list | tuple):
        return list(X)
    if isinstance(X, da.Array):
        if X.ndim != 2:
            raise LsparseError(f"X has {X.ndim} dimensions, not rows and columns; reshape it")
        # A row is whole.
        X = X.rechunk({1: -1}) if X.numblocks[1] > 1 else X
        return list(X.to_delayed().ravel())
    return list(X.to_delayed())


def _parts(X: Any, client: Client) -> list[Any]:
    """The partitions as futures, which stay where they are, or as files."""
    files = stored(X)
    if files is not None:
        return list(files)
    if not _is_lazy(X):
        raise LsparseError(
            f"X is a {type(X).__name__}; give a dask array or data frame, delayed matrices, a bag of texts, or paths that "
            "every worker can read (lsparse itself takes arrays)"
        )
    parts = _delayed_parts(X)
    delayed = iter(client.compute([part for part in parts if isinstance(part, Delayed)]))
    return [part if isinstance(part, Future) else next(delayed) for part in parts]


def _pieces_of(
    X: Any, client: Client, timeout: float, batch_size: int | None, documents: bool, lengths: Any = None
) -> Pieces:
    """Data in batches, of whole sequences where their ``lengths`` are given (``...`` for one a partition)."""
    source, words = X, None
    if isinstance(X, Bag):
        corpus = build_corpus(X, client=client, worker_timeout=timeout)
        X, words = corpus.counts, (list(corpus.vocabulary), corpus.vocabulary.tokenizer)
    parts = _parts(X, client)
    workers = _Workers(client, parts, timeout)
    calls = [Call(("lsparse-sizes", n), f"partition {n}", sizes_of, n) for n in range(len(parts))]
    sizes = list(workers.run(calls))
    if lengths is not None:
        own = lengths_of_parts(None if lengths is ... else lengths, sizes)
        return Pieces(workers, sizes, batch_size, own)
    if batch_size is None and isinstance(parts[0], Stored):
        rows = sum(size.rows for size in sizes)
        batch_size = -(-rows // 10) if documents else max(1, _VALUES_A_BATCH // max(size.columns for size in sizes))
    pieces = Pieces(workers, sizes, batch_size)
    pieces.source = source
    pieces.words = words or pieces.words
    return pieces


_Method = TypeVar("_Method", bound=Callable[..., Any])

#: Examples of methods: all begin and end alike.
_EXAMPLE = """

        Examples
        --------
        >>> import dask.array as da
        >>> from dask.distributed import Client
        >>> from lsparse.dask import {estimator}
        >>> client = Client(processes=False, n_workers=1, threads_per_worker=1, dashboard_address=":0")
        >>> X = da.random.RandomState(0).normal(size=(8, 1), chunks=(4, 1))
        >>> model = {estimator}(n_components=2, random_state=0).fit(X)
        >>> {line}
        {printed}
        >>> client.close()
        """


def _example(line: str, printed: str, estimator: str = "GaussianMixture") -> Callable[[_Method], _Method]:
    """Add a line that is run, and what it prints, to the docstring of a method."""

    def add(method: _Method) -> _Method:
        text = _EXAMPLE.format(estimator=estimator, line=line, printed=printed)
        method.__doc__ = (method.__doc__ or "").rstrip() + text
        return method

    return add


# Fields of a base class that is a dataclass would take the place of what other bases make of them.
_Base: Any = Estimator if TYPE_CHECKING else object


@dataclass(eq=False, repr=False)
class _OnDask(_Base):  # type: ignore[misc]
    """What estimators on a cluster have besides those on one machine."""

    _: KW_ONLY
    batches_per_round: int = parameter(
        8,
        "int",
        COUNT,
        "Batches that are worked out at the same time, under the same parameters; a lap of more takes several rounds. "
        "The model depends on it, and not on the number of workers: choose it so that all have work. "
        '``schedule="full"`` has all batches in one round; where ``leave_out`` is on, at most half of them are.',
    )
    worker_timeout: float = parameter(
        30.0, "float", POSITIVE, "Seconds to wait for a worker while there is none, at the start and after deaths."
    )

    #: Methods that visit rows or tokens one after the other.
    _in_turn: ClassVar[tuple[str, ...]] = ("dp-means", "sparse-lda", "alias-lda", "light-lda")

    @_example("model.converged_", "True")
    def fit(
        self: Any,
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
        client: Client | None = None,
    ) -> Any:
        """Fit on the workers of a cluster.

        Rows stay where they are; a sample to start from, parameters and statistics travel. Workers may come, go and die
        meanwhile: what is lost is done again, and the model is the same. The client holds the training; killed, it goes on
        from its ``checkpoint``.

        Parameters
        ----------
        X : dask array or data frame, delayed arrays or CSR matrices, path or list of paths
            Rows in partitions, some of which may be empty. Paths are of ``.npy`` files or corpus folders, and are read by
            the workers. Data frames are of numbers.
        y : None
            Ignored.
        sample_weight : array-like or dask array of shape (n_samples,), default=None
            Weights of the rows of a mixture, zero or more; the client holds them.
        X_val : array-like, CSR matrix or dask collection, default=None
            Rows that the client scores at the end of every lap: ``trace_["heldout"]``, and what ``early_stopping`` goes by.
        checkpoint : path, default=None
            Write here, now and then, all that the client needs to go on after it was ended.
        checkpoint_every : float, default=60.0
            Seconds between two checkpoints, which are written between rounds.
        resume : bool, default=False
            Go on from the checkpoint, or start if there is none; the result is that of a fit that was never ended.
        trace : path, default=None
            Write a line of JSON a step here; :func:`lsparse.read_trace` reads it.
        callback : callable, default=None
            Called with a dict for every step; if it returns something true the fit ends after the current round.
        client : distributed.Client, default=None
            The cluster; that of the client made last if not given.

        Returns
        -------
        self
            The fitted estimator; :meth:`to_local` gives one for a single machine.
        """
        self._validate_params()
        if self.method in self._in_turn:
            raise LsparseError(
                f'method: "{self.method}" looks at everything in turn; choose another, or fit on one machine'
            )
        if sample_weight is not None and isinstance(self, _topics.TopicModel):
            raise LsparseError("sample_weight: documents have none; leave it out")
        client = _client(client, self.worker_timeout)
        documents = isinstance(self, _topics.TopicModel)
        pieces = _pieces_of(X, client, self.worker_timeout, self.batch_size, documents)
        prepare(pieces, self, self.batches_per_round)
        if _is_lazy(X_val):
            X_val = _gathered(X_val, client)
        around: dict[str, Any] = {"checkpoint": checkpoint, "checkpoint_every": checkpoint_every, "resume": resume}
        if sample_weight is not None:
            weights = client.compute(sample_weight).result() if _is_lazy(sample_weight) else sample_weight
            # What came from another process may lie anywhere.
            around["sample_weight"] = np.array(weights, dtype=np.float64)
        return super().fit(pieces, X_val=X_val, trace=trace, callback=callback, **around)

    def to_local(self) -> Any:
        """The fitted estimator for one machine: to predict, save and pickle.

        Returns
        -------
        model : estimator
            One of :mod:`lsparse`.

        Examples
        --------
        >>> import dask.array as da
        >>> import lsparse.dask
        >>> from dask.distributed import Client
        >>> client = Client(processes=False, n_workers=1, threads_per_worker=1, dashboard_address=":0")
        >>> gm = lsparse.dask.GaussianMixture(n_components=3, max_iter=2, tol=0, random_state=0)
        >>> gm.fit(da.random.RandomState(0).normal(size=(100, 2), chunks=(50, 2))).to_local()
        GaussianMixture(max_iter=2, n_components=3, random_state=0, tol=0)
        >>> client.close()
        """
        check_is_fitted(self)
        modules = (_mixtures.__name__, _sequences.__name__, _topics.__name__)
        plain = next(base for base in type(self).__mro__ if base.__module__ in modules)
        names = [field.name for field in fields(plain)]
        local = plain(**{name: getattr(self, name) for name in names})
        own = {field.name for field in fields(self)}
        local.__dict__.update({name: value for name, value in self.__dict__.items() if name not in own})
        return local

    def _lazily(self, method: str, X: Any, **options: Any) -> list[Any]:
        """What a method gives for every partition, when somebody asks for it."""
        check_is_fitted(self)
        token = uuid.uuid4().hex
        model = dask.delayed(self.to_local(), name=f"lsparse-model-{token}", traverse=False)
        X = X.source if isinstance(X, Pieces) else X
        kind = f"lsparse-{method.strip('_').replace('_', '-')}-{token}"
        apply = dask.delayed(_apply, pure=False)
        parts = list(stored(X) or _delayed_parts(X))
        if isinstance(X, Bag):
            words = self._vocabulary_of_texts()
            count = dask.delayed(_counts_of, pure=False)
            parts = [count(part, words, dask_key_name=f"lsparse-count-{token}-{n}") for n, part in enumerate(parts)]
        return [apply(model, method, part, options, dask_key_name=f"{kind}-{n}") for n, part in enumerate(parts)]

    def _vocabulary_of_texts(self: Any) -> Any:
        """The words of the model and how text became them, delayed."""
        if not isinstance(self, _topics.TopicModel):
            raise LsparseError("X is a bag; give a dask array or data frame, or delayed matrices")
        if self.model_.tokenizer is None:
            raise LsparseError(
                "X is a bag of texts, and this model does not know how text becomes words; fit it on texts, or give counts"
            )
        known = (self.vocabulary_.tolist(), json.loads(self.model_.tokenizer))
        return dask.delayed(known, name=f"lsparse-vocabulary-{uuid.uuid4().hex}", traverse=False)

    def _array(self, method: str, X: Any, columns: int | None, kind: Any, **options: Any) -> Any:
        """The same as a dask array, a chunk a partition; of what is here, at once."""
        if not (_is_lazy(X) or stored(X)):
            return getattr(super(), method)(X, **options)
        rows = X.chunks[0] if isinstance(X, da.Array) else None
        wide = () if columns is None else (columns,)
        found = self._lazily(method, X, **options)
        blocks = [
            da.from_delayed(each, shape=(np.nan if rows is None else rows[n], *wide), dtype=kind)
            for n, each in enumerate(found)
        ]
        return da.concatenate(blocks, allow_unknown_chunksizes=True)

    @_example(
        "model.predict(X)",
        "dask.array<concatenate, shape=(8,), dtype=int64, chunksize=(4,), chunktype=numpy.ndarray>",
    )
    def predict(self, X: Any) -> Any:
        """The most probable component of every row: a lazy dask array, or an ndarray for what is here.

        Parameters
        ----------
        X : dask collection, path, or array-like
            Rows.

        Returns
        -------
        labels : dask array of shape (n_samples,)
            Components, from 0.
        """
        return self._array("predict", X, None, np.int64)

    @_example("model.predict_proba(X).sum(axis=1).compute()", "array([1., 1., 1., 1., 1., 1., 1., 1.])")
    def predict_proba(self, X: Any) -> Any:
        """The probability of every component for every row: a lazy dask array, or an ndarray for what is here.

        Parameters
        ----------
        X : dask collection, path, or array-like
            Rows.

        Returns
        -------
        probabilities : dask array of shape (n_samples, n_components)
            Rows sum to one.
        """
        return self._array("predict_proba", X, len(self.weights_), self._dtype)

    @_example("model.transform(X).shape", "(8, 2)")
    def transform(self, X: Any, **options: Any) -> Any:
        """What the estimator makes of every row: a lazy dask array, or an ndarray for what is here.

        Parameters
        ----------
        X : dask collection, path, or array-like
            Rows.
        **options
            As for the estimator of one machine.

        Returns
        -------
        shares : dask array of shape (n_samples, n_components)
            Probabilities of components, or shares of topics.
        """
        return self._array("transform", X, len(self.weights_), self._dtype, **options)

    @_example("model.score_samples(X).compute().shape", "(8,)")
    def score_samples(self, X: Any) -> Any:
        """The score of every row: a lazy dask array, or an ndarray for what is here.

        Parameters
        ----------
        X : dask collection, path, or array-like
            Rows.

        Returns
        -------
        scores : dask array of shape (n_samples,)
            Log densities, or for topics the mean log probability of held-back words.
        """
        return self._array("score_samples", X, None, np.float64)

    @_example("[part.compute().shape for part in model.predict_sparse(X)]", "[(4, 2), (4, 2)]")
    def predict_sparse(self: Any, X: Any, **options: Any) -> Any:
        """The L most probable components of every row: delayed CSR matrices, or one for what is here.

        Parameters
        ----------
        X : dask collection, path, or array-like
            Rows.
        **options
            As for the estimator of one machine.

        Returns
        -------
        responsibilities : list of delayed csr_array
            One a partition.
        """
        if not (_is_lazy(X) or stored(X)):
            return super().predict_sparse(X, **options)
        return self._lazily("predict_sparse", X, **options)

    @_example("model.score(X).compute() > -5", "True")
    def score(self: Any, X: Any, y: Any = None) -> Any:
        """The mean score: delayed, or a number for what is here.

        Parameters
        ----------
        X : dask collection, path, or array-like
            Rows.
        y : None
            Ignored.

        Returns
        -------
        score : delayed float
            Mean log density of a row, or mean log probability of a held-back word.
        """
        if not (_is_lazy(X) or stored(X)):
            return super().score(X)
        return dask.delayed(_mean, pure=False)(self._lazily("_score_parts", X))


def _mean(parts: list[tuple[float, float]]) -> float:
    return float(sum(total for total, _ in parts) / sum(count for _, count in parts))


def _gathered(X: Any, client: Client) -> Any:
    """Data that a cluster has, brought here."""
    parts = [rows_of(part) for part in client.gather(_parts(X, client))]
    return sp.vstack(parts, format="csr") if sp.issparse(parts[0]) else np.concatenate(parts)


def _counts_of(texts: Any, words: tuple[list[str], dict[str, Any]]) -> Any:
    """Counts of the texts of a partition by the words of a model."""
    return counts_of(texts, *words)


def _apply(model: Any, method: str, part: Any, options: dict[str, Any]) -> Any:
    """What a method gives for a partition."""
    rows = rows_of(part)
    if method == "_score_parts":
        return model._score_parts(rows) if rows.shape[0] else (0.0, 0.0)
    if rows.shape[0] == 0:
        options = {**options, "lengths": None} if "lengths" in options else options
        if method == "score":
            return 0.0
        # One row, of which nothing is left: the empty result has the right form.
        blank = sp.csr_array((1, rows.shape[1]), dtype=rows.dtype) if sp.issparse(rows) else np.zeros((1, rows.shape[1]))
        return getattr(model, method)(blank, **options)[:0]
    return getattr(model, method)(rows, **options)


@described
@dataclass(eq=False, repr=False)
class GaussianMixture(_OnDask, _mixtures.GaussianMixture):
    """:class:`lsparse.GaussianMixture` on a Dask cluster.

    Parameters
    ----------
    {parameters}

    Attributes
    ----------
    model_ : object
        And all others of :class:`lsparse.GaussianMixture`.

    Examples
    --------
    >>> from lsparse.dask import GaussianMixture
    >>> GaussianMixture(n_components=1000, sparsity=8, batches_per_round=32)
    GaussianMixture(batches_per_round=32, n_components=1000, sparsity=8)
    """


@described
@dataclass(eq=False, repr=False)
class MultinomialMixture(_OnDask, _mixtures.MultinomialMixture):
    """:class:`lsparse.MultinomialMixture` on a Dask cluster.

    Parameters
    ----------
    {parameters}

    Attributes
    ----------
    model_ : object
        And all others of :class:`lsparse.MultinomialMixture`.

    Examples
    --------
    >>> from lsparse.dask import MultinomialMixture
    >>> MultinomialMixture(n_components=50)
    MultinomialMixture(n_components=50)
    """


@described
@dataclass(eq=False, repr=False)
class PoissonMixture(_OnDask, _mixtures.PoissonMixture):
    """:class:`lsparse.PoissonMixture` on a Dask cluster.

    Parameters
    ----------
    {parameters}

    Attributes
    ----------
    model_ : object
        And all others of :class:`lsparse.PoissonMixture`.

    Examples
    --------
    >>> from lsparse.dask import PoissonMixture
    >>> PoissonMixture(n_components=50)
    PoissonMixture(n_components=50)
    """


@described
@dataclass(eq=False, repr=False)
class BernoulliMixture(_OnDask, _mixtures.BernoulliMixture):
    """:class:`lsparse.BernoulliMixture` on a Dask cluster.

    Parameters
    ----------
    {parameters}

    Attributes
    ----------
    model_ : object
        And all others of :class:`lsparse.BernoulliMixture`.

    Examples
    --------
    >>> from lsparse.dask import BernoulliMixture
    >>> BernoulliMixture(n_components=50)
    BernoulliMixture(n_components=50)
    """


@described
@dataclass(eq=False, repr=False)
class HMM(_OnDask, _sequences.HMM):
    """:class:`lsparse.HMM` on a Dask cluster.

    A partition holds whole sequences. Those of a dask array need not end where its chunks do: it is cut anew, where they end.
    Without ``lengths`` every partition is one sequence. Symbols (``emission="categorical"``) are for one machine; on a cluster
    give them as rows with a single one, and ``emission="multinomial"``.

    Parameters
    ----------
    {parameters}

    Attributes
    ----------
    model_ : object
        And all others of :class:`lsparse.HMM`.

    Examples
    --------
    >>> import dask.array as da
    >>> from dask.distributed import Client
    >>> from lsparse.dask import HMM
    >>> client = Client(processes=False, n_workers=1, threads_per_worker=1, dashboard_address=":0")
    >>> X = da.random.RandomState(0).normal(size=(1000, 2), chunks=(300, 2))
    >>> hmm = HMM(n_components=3, max_iter=5, tol=0, random_state=0).fit(X, lengths=[100] * 10)
    >>> hmm.predict(X, lengths=[100] * 10).compute().shape
    (1000,)
    >>> client.close()
    """

    @_example("model.converged_", "True", "HMM")
    def fit(  # type: ignore[override]
        self: Any,
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
        client: Client | None = None,
    ) -> Any:
        """Fit on the workers of a cluster.

        Parameters
        ----------
        X : dask array or data frame, delayed arrays or CSR matrices, path or list of paths
            Rows in partitions, each of whole sequences.
        lengths : array-like of int, or a list of such for every partition, default=None
            Rows of each sequence; every partition is one sequence if not given.
        X_val, lengths_val : default=None
            Sequences that the client scores at the end of every lap.
        checkpoint, checkpoint_every, resume, trace, callback, client
            As in :meth:`GaussianMixture.fit`.

        Returns
        -------
        self
            The fitted estimator; :meth:`to_local` gives one for a single machine.
        """
        self._validate_params()
        if self.emission == "categorical":
            raise LsparseError(
                'emission: symbols are for one machine; give rows with a single one and emission="multinomial"'
            )
        client = _client(client, self.worker_timeout)
        X = _at_sequences(X, lengths)
        given = ... if lengths is None else lengths
        pieces = _pieces_of(X, client, self.worker_timeout, self.batch_size, False, given)
        pieces.source = X
        prepare(pieces, self, self.batches_per_round)
        X_val = _gathered(X_val, client) if _is_lazy(X_val) else X_val
        around: dict[str, Any] = {"checkpoint": checkpoint, "checkpoint_every": checkpoint_every, "resume": resume}
        held = {"X_val": X_val, "lengths_val": lengths_val}
        return _sequences.HMM.fit(self, pieces, trace=trace, callback=callback, **held, **around)

    def _of_sequences(self, method: str, X: Any, lengths: Any, **options: Any) -> tuple[list[Any], list[Any]]:
        """What a method gives for the sequences of every partition, when somebody asks for it, and the rows of each as far as
        they are known."""
        check_is_fitted(self)
        token = uuid.uuid4().hex
        model = dask.delayed(self.to_local(), name=f"lsparse-model-{token}", traverse=False)
        X = _at_sequences(X.source if isinstance(X, Pieces) else X, lengths)
        parts = list(stored(X) or _delayed_parts(X))
        own: list[Any] = [None] * len(parts)
        rows: list[Any] = list(X.chunks[0]) if isinstance(X, da.Array) else [np.nan] * len(parts)
        if lengths is not None:
            count = dask.delayed(sizes_of, pure=False)
            own = lengths_of_parts(lengths, dask.compute(*[count(part) for part in parts]))
            rows = [sum(each) for each in own]
        kind = f"lsparse-{method.strip('_').replace('_', '-')}-{token}"
        apply = dask.delayed(_apply, pure=False)
        found = [
            apply(model, method, part, {**options, "lengths": each}, dask_key_name=f"{kind}-{n}")
            for n, (part, each) in enumerate(zip(parts, own, strict=True))
        ]
        return found, rows

    def _as_array(self, method: str, X: Any, lengths: Any, columns: int | None, kind: Any) -> Any:
        """The same as a dask array, a chunk a partition; of what is here, at once."""
        if not (_is_lazy(X) or stored(X)):
            return getattr(_sequences.HMM, method)(self, X, lengths)
        wide = () if columns is None else (columns,)
        found, rows = self._of_sequences(method, X, lengths)
        blocks = [
            da.from_delayed(each, shape=(number, *wide), dtype=kind) for each, number in zip(found, rows, strict=True)
        ]
        return da.concatenate(blocks, allow_unknown_chunksizes=True)

    @_example(
        "model.predict(X)",
        "dask.array<concatenate, shape=(8,), dtype=int64, chunksize=(4,), chunktype=numpy.ndarray>",
        "HMM",
    )
    def predict(self, X: Any, lengths: Any = None) -> Any:
        """The most probable path through every sequence: a lazy dask array, or an ndarray for what is here.

        Parameters
        ----------
        X : dask collection, path, or array-like
            Rows of sequences.
        lengths : array-like of int, or a list of such for every partition, default=None
            Rows of each sequence.

        Returns
        -------
        states : dask array of shape (n_samples,)
            States, from 0.
        """
        return self._as_array("predict", X, lengths, None, np.int64)

    @_example("model.predict_proba(X).sum(axis=1).compute()", "array([1., 1., 1., 1., 1., 1., 1., 1.])", "HMM")
    def predict_proba(self, X: Any, lengths: Any = None) -> Any:
        """The probability of every state at every step: a lazy dask array, or an ndarray for what is here.

        Parameters
        ----------
        X : dask collection, path, or array-like
            Rows of sequences.
        lengths : array-like of int, or a list of such for every partition, default=None
            Rows of each sequence.

        Returns
        -------
        posteriors : dask array of shape (n_samples, n_components)
            Rows sum to one.
        """
        return self._as_array("predict_proba", X, lengths, len(self.startprob_), self._dtype)

    @_example("model.transform(X).shape", "(8, 2)", "HMM")
    def transform(self, X: Any, lengths: Any = None) -> Any:  # type: ignore[override]
        """Posteriors as features: the same as ``predict_proba``.

        Parameters
        ----------
        X : dask collection, path, or array-like
            Rows of sequences.
        lengths : array-like of int, or a list of such for every partition, default=None
            Rows of each sequence.

        Returns
        -------
        posteriors : dask array of shape (n_samples, n_components)
            Rows sum to one.
        """
        return self.predict_proba(X, lengths)

    @_example("[part.compute().shape for part in model.predict_sparse(X)]", "[(4, 2), (4, 2)]", "HMM")
    def predict_sparse(self: Any, X: Any, lengths: Any = None, **options: Any) -> Any:
        """The L most probable states of every step: delayed CSR matrices, or one for what is here.

        Parameters
        ----------
        X : dask collection, path, or array-like
            Rows of sequences.
        lengths : array-like of int, or a list of such for every partition, default=None
            Rows of each sequence.
        **options
            As for the estimator of one machine.

        Returns
        -------
        responsibilities : list of delayed csr_array
            One a partition.
        """
        if not (_is_lazy(X) or stored(X)):
            return _sequences.HMM.predict_sparse(self, X, lengths, **options)
        return self._of_sequences("predict_sparse", X, lengths, **options)[0]

    @_example("model.score_steps(X).compute().shape", "(8,)", "HMM")
    def score_steps(self, X: Any, lengths: Any = None) -> Any:
        """The log likelihood of every step given those before it: a lazy dask array, or an ndarray for what is here.

        Parameters
        ----------
        X : dask collection, path, or array-like
            Rows of sequences.
        lengths : array-like of int, or a list of such for every partition, default=None
            Rows of each sequence.

        Returns
        -------
        log_prob : dask array of shape (n_samples,)
            0 for missing steps.
        """
        return self._as_array("score_steps", X, lengths, None, np.float64)

    @_example("model.score_samples(X.compute())[1].shape", "(8, 2)", "HMM")
    def score_samples(self, X: Any, lengths: Any = None) -> Any:
        """The log likelihood of all sequences and the posteriors of all steps, as hmmlearn has them, of rows that are here.

        Parameters
        ----------
        X : array-like
            Rows of sequences.
        lengths : array-like of int, default=None
            Rows of each sequence.

        Returns
        -------
        log_prob, posteriors : float and ndarray
            On a cluster there are :meth:`score` and :meth:`predict_proba`.
        """
        return _sequences.HMM.score_samples(self.to_local(), X, lengths)

    @_example("model.score(X).compute() > -50", "True", "HMM")
    def score(self: Any, X: Any, lengths: Any = None) -> Any:
        """The log likelihood of all sequences: delayed, or a number for what is here.

        Parameters
        ----------
        X : dask collection, path, or array-like
            Rows of sequences.
        lengths : array-like of int, or a list of such for every partition, default=None
            Rows of each sequence.

        Returns
        -------
        log_prob : delayed float
            Not divided by their number, as hmmlearn has it.
        """
        if not (_is_lazy(X) or stored(X)):
            return _sequences.HMM.score(self.to_local(), X, lengths)
        return dask.delayed(sum, pure=False)(self._of_sequences("score", X, lengths)[0])


def _at_sequences(X: Any, lengths: Any) -> Any:
    """A dask array cut where sequences end, at those ends that are next to its own cuts; other data as it is."""
    if not isinstance(X, da.Array) or lengths is None or any(np.isnan(rows) for rows in X.chunks[0]):
        return X
    if any(np.ndim(each) for each in lengths):
        return X
    ends = np.cumsum(checked_lengths(lengths))
    if len(ends) == 0 or ends[-1] != X.shape[0]:
        raise LsparseError(f"lengths: they add up to {ends[-1] if len(ends) else 0}, and X has {X.shape[0]} rows")
    wanted = np.cumsum(X.chunks[0])
    cuts = np.unique(ends[np.minimum(np.searchsorted(ends, wanted), len(ends) - 1)])
    cuts = cuts[cuts > 0]
    return X.rechunk({0: tuple(np.diff(cuts, prepend=0).tolist())})


@described
@dataclass(eq=False, repr=False)
class TopicModel(_OnDask, _topics.TopicModel):
    """:class:`lsparse.TopicModel` on a Dask cluster.

    Documents are delayed CSR matrices of word counts, corpus folders that every worker can read, or a bag of texts, which
    :func:`build_corpus` makes into counts with its defaults. A model that was fitted on texts takes bags of others in
    ``predict``, ``transform`` and so on, by its own words.

    Parameters
    ----------
    {parameters}

    Attributes
    ----------
    model_ : object
        And all others of :class:`lsparse.TopicModel`.

    Examples
    --------
    >>> from lsparse.dask import TopicModel
    >>> TopicModel(n_components=500)
    TopicModel(n_components=500)
    """


def build_corpus(
    texts: Bag,
    *,
    min_df: int = 2,
    max_df: float = 0.5,
    max_features: int = 100_000,
    client: Client | None = None,
    worker_timeout: float = 30.0,
    **tokenizer: Any,
) -> Corpus:
    """Turn a bag of texts into word counts, on the workers that have them.

    Words are told apart and counted partition by partition; in how many documents they are is added up in a tree, and what
    the filters leave is the vocabulary: the same as :func:`lsparse.build_corpus` has of all texts.

    Parameters
    ----------
    texts : dask bag of str
        Documents.
    min_df : int, default=2
        Documents that a word is in at least.
    max_df : float, default=0.5
        Share of the documents that a word is in at most.
    max_features : int, default=100_000
        Words at most, those in most documents.
    client : distributed.Client, default=None
        The cluster; that of the client made last if not given.
    worker_timeout : float, default=30.0
        Seconds to wait for a worker while there is none.
    **tokenizer
        ``lowercase``, ``stop_words``, ``stem``, ``min_length``, ``numbers`` and ``segment`` of
        :func:`lsparse.build_corpus`.

    Returns
    -------
    corpus : Corpus
        Its counts are futures of CSR matrices, one a partition, for :class:`TopicModel`; its documents have no names.

    Examples
    --------
    >>> import dask.bag
    >>> from dask.distributed import Client
    >>> from lsparse.dask import build_corpus
    >>> client = Client(processes=False, n_workers=1, threads_per_worker=1, dashboard_address=":0")
    >>> texts = dask.bag.from_sequence(["The cat sleeps.", "A dog barks.", "Cat and bird.", "Bird and dog."], npartitions=2)
    >>> corpus = build_corpus(texts)
    >>> corpus.vocabulary, corpus.counts[0].result().shape
    (['bird', 'cat', 'dog'], (2, 3))
    >>> client.close()
    """
    unknown = set(tokenizer) - {"lowercase", "stop_words", "stem", "min_length", "numbers", "segment"}
    if unknown:
        raise LsparseError(f"{', '.join(sorted(unknown))}: not for texts on a cluster; leave it out")
    client = _client(client, worker_timeout)
    parts = client.compute(texts.to_delayed())
    workers = _Workers(client, parts, worker_timeout)
    calls = [Call(("lsparse-count", n), f"partition {n}", _count, n, (tokenizer,)) for n in range(len(parts))]
    counted = workers.begin(calls)
    token = uuid.uuid4().hex
    level = [
        client.submit(_frequencies, each, key=f"lsparse-words-{token}-{n}-0") for n, each in enumerate(counted)
    ]
    height = 0
    while len(level) > 1:
        height += 1
        groups = [level[first : first + _WORDS_AT_ONCE] for first in range(0, len(level), _WORDS_AT_ONCE)]
        level = [client.submit(_merged, group, key=f"lsparse-words-{token}-{n}-{height}") for n, group in enumerate(groups)]
    workers.wait_for_all(counted, calls)
    root = Call(("lsparse-words", 0), "the vocabulary", _merged, 0)
    workers.wait_for_all(level, [root])
    documents, frequencies = level[0].result()
    most = int(max_df * documents + 1e-9)
    kept = [word for word, number in frequencies.items() if min_df <= number <= most]
    # Those in most documents, the first in the alphabet of equals.
    kept = sorted(kept, key=lambda word: (-frequencies[word], word))[:max_features]
    if not kept:
        raise LsparseError(
            f"no word is left of {len(frequencies)} in {documents} documents; give a smaller min_df or a larger max_df"
        )
    words = sorted(kept)
    table = client.submit(_same, words, key=f"lsparse-vocabulary-{token}")
    counts = [
        client.submit(_columns, each, table, key=f"lsparse-counts-{token}-{n}") for n, each in enumerate(counted)
    ]
    workers.wait_for_all(counts, calls)
    how = next((settings for settings in client.gather([client.submit(_how, each) for each in counted]) if settings), None)
    return Corpus(counts, Vocabulary(words, how), [])


#: Tables of words that are merged at a time.
_WORDS_AT_ONCE = 8

#: Counts, words, and how text became them.
_Counted = tuple[Any, list[str], Any]


def _count(texts: Any, tokenizer: dict[str, Any]) -> _Counted:
    """The words of the texts of a partition."""
    texts = list(texts)
    try:
        corpus = build_corpus_here(texts, min_df=1, max_df=1.0, max_features=sys.maxsize, **tokenizer)
    except LsparseError:
        # Texts without words, unless there is something wrong with more than these.
        build_corpus_here(["plain words"], min_df=1, max_df=1.0, max_features=sys.maxsize, **tokenizer)
        return sp.csr_array((len(texts), 0), dtype=np.int32), [], None
    return corpus.counts, list(corpus.vocabulary), corpus.vocabulary.tokenizer


def _frequencies(counted: _Counted) -> tuple[int, dict[str, int]]:
    """Documents, and how many of them have each word."""
    counts, words, _ = counted
    return counts.shape[0], dict(zip(words, np.bincount(counts.indices, minlength=len(words)).tolist(), strict=True))


def _merged(parts: list[tuple[int, dict[str, int]]]) -> tuple[int, dict[str, int]]:
    total: dict[str, int] = {}
    for _, frequencies in parts:
        for word, number in frequencies.items():
            total[word] = total.get(word, 0) + number
    return sum(documents for documents, _ in parts), total


def _columns(counted: _Counted, words: list[str]) -> Any:
    """Counts by the columns of the vocabulary of all."""
    counts, own, _ = counted
    return counts_by(words, counts, own)


def _how(counted: _Counted) -> Any:
    return counted[2]
