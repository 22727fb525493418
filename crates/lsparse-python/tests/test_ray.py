"""Training on a Ray cluster: the same bytes as in one process."""

import doctest
import os
import signal
import threading

import lsparse
import numpy as np
import pytest
from lsparse import LsparseError, exchange
from processes import children_of

if not os.environ.get("LSPARSE_LONG"):
    pytest.skip("Ray is installed by cargo xtask test --long alone", allow_module_level=True)
ray = pytest.importorskip("ray", reason="Ray is not installed; pip install ray")
import lsparse.ray  # noqa: E402


@pytest.fixture(scope="module", autouse=True)
def cluster():
    """Two workers. One that is killed before it has begun is missed by Ray after a minute, unless told otherwise."""
    patience = {"worker_register_timeout_seconds": 15}
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, _system_config=patience)
    yield
    ray.shutdown()


def contents(model):
    return model.model_.__reduce__()[1][0]


def test_mixtures_and_topics_give_the_bytes_of_one_process(blobs, documents):
    X, counts = blobs[0], documents[0]
    mixture = lsparse.GaussianMixture(6, sparsity=2, max_iter=3, tol=0, random_state=0, batch_size=300)
    topics = lsparse.TopicModel(4, max_iter=3, tol=0, random_state=0)
    for model, parts in [(mixture, np.array_split(X, 5)), (topics, [counts[:90], counts[90:200], counts[200:]])]:
        here = exchange.fit(model, parts, batches_per_round=3)
        there = lsparse.ray.fit(model, [ray.put(part) for part in parts], batches_per_round=3)
        assert contents(there) == contents(here)


def test_what_is_wrong_is_said_with_its_place(blobs):
    X = blobs[0].copy()
    X[900, 2] = np.nan
    with pytest.raises(LsparseError, match=r"partition 1: X row 401, column 3: NaN"):
        lsparse.ray.fit(lsparse.GaussianMixture(2), [ray.put(X[:500]), ray.put(X[500:])])


def test_workers_that_die_change_nothing(blobs):
    X = np.tile(blobs[0], (20, 1))
    model = lsparse.GaussianMixture(40, sparsity=8, max_iter=8, tol=0, random_state=0)
    parts = np.array_split(X, 8)
    here = contents(exchange.fit(model, parts, batches_per_round=4))
    done, killed = threading.Event(), []

    def shoot():
        while not done.wait(0.01) and len(killed) < 3:
            busy = [pid for pid, words in children_of(os.getpid()) if words.startswith("ray::lsparse-batch")]
            if busy and done.wait(0.5 * len(killed)) is False:
                os.kill(busy[0], signal.SIGKILL)
                killed.append(busy[0])

    gun = threading.Thread(target=shoot)
    gun.start()
    fitted = lsparse.ray.fit(model, [ray.put(part) for part in parts], batches_per_round=4)
    done.set()
    gun.join()
    assert contents(fitted) == here and killed


def test_a_partition_that_kills_every_worker_is_named(blobs):
    parts = [ray.put(blobs[0]), ray.remote(lambda: os._exit(1)).remote()]
    with pytest.raises(LsparseError, match="partition 1: 4 workers died of it; give smaller batches"):
        lsparse.ray.fit(lsparse.GaussianMixture(4), parts)


def test_the_example_runs():
    assert doctest.testmod(lsparse.ray).failed == 0
