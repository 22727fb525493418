"""Training on a Ray cluster, with the bytes of one machine.

:func:`fit` is :func:`lsparse.exchange.fit` with the work done by Ray's tasks: batches are worked out where their rows are,
and this process folds them in, in their order. ``pip install lsparse[ray]`` has what it takes. How to go about it:
"Ray and Spark" in the documentation.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

try:
    import ray
    from ray.exceptions import RayError, RayTaskError, WorkerCrashedError
except ImportError as error:
    raise ImportError("lsparse.ray needs Ray; pip install lsparse[ray]") from error

from ._errors import LsparseError
from ._pieces import AnyEstimator, Call, died, stored, told, trained

__all__ = ["fit"]

#: Workers that may die of a task before it is given up.
_DEATHS = 3


class _Workers:
    """Runs functions as tasks, which Ray runs again when workers die."""

    def __init__(self, parts: Sequence[Any]) -> None:
        self._parts = parts

    def run(self, calls: Sequence[Call], shared: tuple[bytes, bytes] | None = None) -> Iterator[Any]:
        """What came of each call, in their order, as soon as it is there."""
        before = () if shared is None else (ray.put(shared),)
        waiting = [
            ray.remote(call.function)
            .options(name=f"{call.key[0]}-{call.key[1]}", num_cpus=1, max_retries=_DEATHS)
            .remote(self._parts[call.part], *before, *call.arguments)
            for call in calls
        ]
        for call, each in zip(calls, waiting, strict=True):
            try:
                done = ray.get(each)
            except RayError as error:
                for other in waiting:
                    ray.cancel(other)
                if isinstance(error, WorkerCrashedError):
                    raise died(call, _DEATHS + 1) from error
                own = error.cause if isinstance(error, RayTaskError) else error
                raise told(call, type(own).__name__, str(own), isinstance(own, LsparseError)) from error
            yield done


def fit(model: AnyEstimator, parts: Any, *, batches_per_round: int = 8, **around: Any) -> AnyEstimator:
    """Train on a Ray cluster.

    Parameters
    ----------
    model : estimator
        One of :mod:`lsparse`; its parameters say what is trained.
    parts : sequence of ray.ObjectRef, path or list of paths
        Arrays, CSR matrices or data frames; or ``.npy`` files and corpus folders that every worker can read. Each is a
        batch, or is cut into batches of ``batch_size`` rows. Let them be results of tasks, which Ray can have again when
        a node is lost.
    batches_per_round : int, default=8
        Batches that are worked out at the same time, under the same parameters; the model depends on it, and not on the
        number of workers.
    **around
        ``X_val``, ``checkpoint``, ``callback`` and what else ``fit`` of the estimator takes; ``lengths`` of sequences, of
        which every part has whole ones.

    Returns
    -------
    fitted : estimator
        A copy of it with the model that was trained.

    Examples
    --------
    >>> import numpy as np, ray
    >>> import lsparse, lsparse.ray
    >>> cluster = ray.init(num_cpus=1, include_dashboard=False, ignore_reinit_error=True)
    >>> parts = [ray.put(np.arange(100.0).reshape(50, 2) + 1000 * number) for number in range(2)]
    >>> model = lsparse.GaussianMixture(n_components=2, random_state=0)
    >>> lsparse.ray.fit(model, parts, batches_per_round=2).weights_.round(1)
    array([0.5, 0.5])
    """
    parts = list(stored(parts) or parts)
    return trained(_Workers(parts), len(parts), model, batches_per_round, around)
