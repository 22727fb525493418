"""Training on a Spark cluster, with the bytes of one machine.

:func:`fit` is :func:`lsparse.exchange.fit` with the work done by Spark's tasks: batches are worked out where their rows are,
and this process folds them in, in their order. ``pip install lsparse[spark]`` has what it takes, besides a Java.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

try:
    from py4j.protocol import Py4JError
    from pyspark import RDD, Broadcast, SparkContext, StorageLevel
    from pyspark.errors import PySparkException
    from pyspark.sql import DataFrame
except ImportError as error:
    raise ImportError("lsparse.spark needs PySpark; pip install lsparse[spark]") from error

from ._errors import LsparseError
from ._pieces import AnyEstimator, Call, stored, told, trained

__all__ = ["fit"]


def _joined(partition: Iterator[Any]) -> Iterator[Any]:
    """The rows of a partition as one part; none are no columns either."""
    parts = list(partition) or [np.empty((0, 0))]
    if len(parts) > 1:
        parts = [sp.vstack(parts, format="csr") if sp.issparse(parts[0]) else np.concatenate(parts)]
    yield from parts


def _framed(rows: Iterator[Any], columns: list[str]) -> Iterator[Any]:
    from pandas import DataFrame as Frame

    yield Frame.from_records(list(rows), columns=columns)


def _run(number: int, part: Iterator[Any], told_all: Broadcast[Any]) -> Iterator[tuple[int, tuple[Any, Any]]]:
    """What came of every call for a part, by its place among all, and what `told` takes of an error, which Spark would take
    for a reason to try again."""
    calls, shared = told_all.value
    before = () if shared is None else (shared,)
    # All of it is read, or Spark would start a new process for the next task.
    rows = next(iter(list(part)), None)
    for place, function, arguments in calls[number]:
        try:
            yield place, (function(rows, *before, *arguments), None)
        except Exception as error:  # noqa: BLE001
            yield place, (None, (type(error).__name__, str(error), isinstance(error, LsparseError)))


def _reason(error: Any) -> str:
    """What Spark says in one line: what a task raised, or why there is none."""
    java = getattr(error, "java_exception", None)
    lines = [line for line in str(error if java is None else java.getMessage()).splitlines() if line.strip()]
    return lines[-1 if any(line.startswith("Traceback") for line in lines) else 0]


class _Workers:
    """Runs functions as tasks, which Spark runs again when workers die."""

    def __init__(self, parts: RDD[Any]) -> None:
        self._parts = parts

    def run(self, calls: Sequence[Call], shared: tuple[bytes, bytes] | None = None) -> Iterator[Any]:
        """What came of each call, in their order, once all is there: a round is a job of Spark."""
        of_part: dict[int, list[tuple[int, Any, tuple[Any, ...]]]] = {}
        for place, call in enumerate(calls):
            of_part.setdefault(call.part, []).append((place, call.function, call.arguments))
        context = self._parts.context
        context.setJobDescription(f"{calls[0].key[0]}, {len(calls)} of them")
        told_all = context.broadcast((of_part, shared))
        work = self._parts.mapPartitionsWithIndex(lambda number, part: _run(number, part, told_all))
        try:
            found: dict[int, tuple[Any, Any]] = dict(context.runJob(work, lambda done: done, sorted(of_part)))
        except (Py4JError, PySparkException) as error:
            names = calls[0].name if len(calls) == 1 else f"{calls[0].name} to {calls[-1].name}"
            raise LsparseError(f"{names}: Spark gave up: {_reason(error)}") from error
        finally:
            told_all.unpersist()
        for place, call in enumerate(calls):
            if found[place][1] is not None:
                raise told(call, *found[place][1])
        yield from (found[place][0] for place in range(len(calls)))


def _parts_of(data: Any, context: SparkContext | None) -> RDD[Any]:
    """Data as one part in each partition."""
    files = stored(data)
    if files is not None:
        return (context or SparkContext.getOrCreate()).parallelize(files, len(files))
    if isinstance(data, DataFrame):
        columns = data.columns
        return data.rdd.mapPartitions(lambda rows: _framed(rows, columns))
    if isinstance(data, RDD):
        return data.mapPartitions(_joined)
    raise LsparseError(
        f"data is a {type(data).__name__}; give an RDD of arrays or CSR matrices, a data frame of Spark, or paths that every "
        "worker can read"
    )


def fit(
    model: AnyEstimator, data: Any, *, batches_per_round: int = 8, context: SparkContext | None = None, **around: Any
) -> AnyEstimator:
    """Train on a Spark cluster.

    Parameters
    ----------
    model : estimator
        One of :mod:`lsparse`; its parameters say what is trained.
    data : RDD, DataFrame, path or list of paths
        An RDD of arrays or CSR matrices; a data frame of numbers; or ``.npy`` files and corpus folders that
        every worker can read. A partition or file is a batch, or is cut into batches of ``batch_size`` rows.
    batches_per_round : int, default=8
        Batches under the same parameters, worked out at the same time where they are of several partitions; the model
        depends on it, and not on the number of workers.
    context : SparkContext, default=None
        Where files are read; that of an RDD or data frame is its own.
    **around
        ``X_val``, ``checkpoint``, ``callback`` and what else ``fit`` of the estimator takes; ``lengths`` of sequences, of
        which every partition has whole ones.

    Returns
    -------
    fitted : estimator
        A copy of it with the model that was trained.

    Examples
    --------
    >>> import lsparse, lsparse.spark
    >>> from pyspark.sql import SparkSession
    >>> frame = SparkSession.builder.getOrCreate().createDataFrame([(0.0,), (0.1,), (9.0,), (9.1,)], ["a"])
    >>> lsparse.spark.fit(lsparse.GaussianMixture(n_components=2, random_state=0), frame).weights_.round(1)
    array([0.5, 0.5])
    """
    # Kept between rounds, and computed again where a worker that held it has died.
    parts = _parts_of(data, context).persist(StorageLevel.MEMORY_AND_DISK)
    try:
        return trained(_Workers(parts), parts.getNumPartitions(), model, batches_per_round, around)
    finally:
        parts.unpersist()
