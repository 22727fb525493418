"""Training on a Spark cluster: the same bytes as in one process."""

import doctest
import os
import shutil
import signal
import sys
import threading

import lsparse
import numpy as np
import pandas as pd
import pytest
from lsparse import LsparseError, exchange
from processes import children_of

if not os.environ.get("LSPARSE_LONG"):
    pytest.skip("PySpark is installed by cargo xtask test --long alone", allow_module_level=True)
if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
    pytest.skip("Spark needs a Java, and there is none; apt install default-jre-headless", allow_module_level=True)
pyspark = pytest.importorskip("pyspark", reason="PySpark is not installed; pip install pyspark")
import lsparse.spark  # noqa: E402
from pyspark.sql import SparkSession  # noqa: E402


@pytest.fixture(scope="module")
def session():
    """Two workers, and tasks that are tried four times."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    built = SparkSession.builder.master("local[2,4]").appName("lsparse").config("spark.ui.enabled", "false")
    session = built.config("spark.driver.host", "127.0.0.1").config("spark.log.level", "OFF").getOrCreate()
    yield session
    session.stop()


def contents(model):
    return model.model_.__reduce__()[1][0]


def test_mixtures_and_topics_give_the_bytes_of_one_process(session, blobs, documents):
    X, counts = blobs[0], documents[0]
    mixture = lsparse.GaussianMixture(6, sparsity=2, max_iter=2, tol=0, random_state=0, batch_size=300)
    topics = lsparse.TopicModel(4, max_iter=2, tol=0, random_state=0)
    for model, parts in [(mixture, np.array_split(X, 5)), (topics, [counts[:90], counts[90:200], counts[200:]])]:
        here = exchange.fit(model, parts, batches_per_round=3)
        rdd = session.sparkContext.parallelize(parts, len(parts))
        assert contents(lsparse.spark.fit(model, rdd, batches_per_round=3)) == contents(here)


def test_frames_files_and_partitions_of_any_kind(session, blobs, tmp_path):
    X = blobs[0][:900]
    model = lsparse.GaussianMixture(4, max_iter=2, tol=0, random_state=0)
    parts = np.array_split(X, 3)
    here = contents(exchange.fit(model, parts, batches_per_round=2))
    for number, part in enumerate(parts):
        np.save(tmp_path / f"{number}.npy", part)
    paths = [tmp_path / f"{number}.npy" for number in range(3)]
    assert contents(lsparse.spark.fit(model, paths, batches_per_round=2)) == here
    # Some partitions are empty, and some have their rows in several arrays.
    cut = [[], [parts[0][:100], parts[0][100:]], [parts[1]], [], [parts[2][:1], parts[2][1:]]]
    rdd = session.sparkContext.parallelize(range(5), 5).flatMap(lambda number: cut[number])
    assert contents(lsparse.spark.fit(model, rdd, batches_per_round=2)) == here
    frame = session.createDataFrame(pd.DataFrame(X, columns=["a", "b", "c"])).coalesce(1)
    fitted = lsparse.spark.fit(model, frame, batches_per_round=2)
    assert contents(fitted) == contents(exchange.fit(model, [pd.DataFrame(X, columns=["a", "b", "c"])]))
    assert fitted.feature_names_in_.tolist() == ["a", "b", "c"]


def test_what_is_wrong_is_said_with_its_place(session, blobs):
    X = blobs[0].copy()
    X[900, 2] = np.nan
    with pytest.raises(LsparseError, match=r"partition 1: X row 401, column 3: NaN"):
        lsparse.spark.fit(lsparse.GaussianMixture(2), session.sparkContext.parallelize([X[:500], X[500:]], 2))
    with pytest.raises(LsparseError, match="data is a ndarray; give an RDD"):
        lsparse.spark.fit(lsparse.GaussianMixture(2), X)

    def deadly(part):
        os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(LsparseError, match=r"partition 0 to partition 1: Spark gave up: .*failed 4 times"):
        lsparse.spark.fit(lsparse.GaussianMixture(2), session.sparkContext.parallelize([1, 2], 2).map(deadly))


def test_workers_that_die_change_nothing(session, blobs):
    X = np.tile(blobs[0], (10, 1))
    model = lsparse.GaussianMixture(40, sparsity=8, max_iter=3, tol=0, random_state=0)
    parts = np.array_split(X, 8)
    here = contents(exchange.fit(model, parts, batches_per_round=4))
    rdd = session.sparkContext.parallelize(parts, 8)
    done, killed = threading.Event(), []

    def shoot():
        while not done.wait(1.0) and len(killed) < 3:
            # Each worker is a child of a process that makes more of them.
            workers = [pid for pid, words in children_of(os.getpid()) if "pyspark.daemon" in words]
            some = workers[1:] or workers
            if some:
                os.kill(some[-1], signal.SIGKILL)
                killed.append(some[-1])

    gun = threading.Thread(target=shoot)
    gun.start()
    fitted = lsparse.spark.fit(model, rdd, batches_per_round=4)
    done.set()
    gun.join()
    assert contents(fitted) == here and killed


def test_the_example_runs(session):
    assert doctest.testmod(lsparse.spark).failed == 0
