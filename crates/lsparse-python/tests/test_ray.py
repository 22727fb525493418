"""Training on a Ray cluster: the same bytes as in one process."""

import os

import lsparse
import numpy as np
import pytest
from lsparse import LsparseError, exchange

if not os.environ.get("LSPARSE_LONG"):
    pytest.skip("Ray is installed by cargo xtask test --long alone", allow_module_level=True)
ray = pytest.importorskip("ray", reason="Ray is not installed; pip install ray")
import lsparse.ray  # noqa: E402


@pytest.fixture(scope="module", autouse=True)
def cluster():
    """Two workers."""
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
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
