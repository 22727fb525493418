"""Training on a Dask cluster: the same bytes as in one process, however many workers there are and whatever becomes of them."""

import os
import signal
import subprocess
import sys
import threading
import time

import dask
import dask.array as da
import dask.bag
import dask.dataframe as dd
import lsparse
import lsparse.dask
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from dask.distributed import Client, LocalCluster
from lsparse import LsparseError, exchange
from sklearn.exceptions import NotFittedError

LONG = bool(os.environ.get("LSPARSE_LONG"))
FAST = {"max_iter": 3, "tol": 0, "random_state": 0}
#: Chunks that do not divide, of which one is empty.
CHUNKS = (700, 1, 0, 499, 800)


@pytest.fixture(scope="module")
def client():
    """Two workers that are processes, and are started again when they die."""
    with LocalCluster(n_workers=2, processes=True, threads_per_worker=1, dashboard_address=":0") as cluster, Client(cluster) as client:
        yield client


def threads(number):
    """So many workers in this process."""
    cluster = LocalCluster(n_workers=number, processes=False, threads_per_worker=1, dashboard_address=":0")
    return Client(cluster, set_as_default=False), cluster


def contents(model):
    """The bytes of the model file."""
    return model.model_.__reduce__()[1][0]


def parts_of(X, chunks=CHUNKS):
    ends = np.cumsum(chunks)
    return [X[end - rows : end] for end, rows in zip(ends, chunks, strict=True)]


def lazy(X, chunks=CHUNKS):
    return da.from_array(X, chunks=(chunks, -1))


def delayed(X, chunks):
    return [dask.delayed(part) for part in parts_of(X, chunks)]


SCHEDULES = ["memoized", "stochastic", "streaming", "full"]


def test_one_two_four_and_eight_workers_give_the_bytes_of_one_process(client, blobs, documents):
    X, counts, chunks = blobs[0], documents[0], (90, 0, 30, 80, 100)
    pairs = []
    for schedule in SCHEDULES:
        settings = {"schedule": schedule, "sparsity": 2, **FAST}
        mixture = exchange.fit(lsparse.GaussianMixture(6, **settings), parts_of(X), batches_per_round=2)
        topics = exchange.fit(lsparse.TopicModel(4, **settings), parts_of(counts, chunks), batches_per_round=2)
        pairs.append((mixture, lsparse.dask.GaussianMixture(6, batches_per_round=2, **settings), lambda: lazy(X)))
        pairs.append((topics, lsparse.dask.TopicModel(4, batches_per_round=2, **settings), lambda: delayed(counts, chunks)))

    def compare(client):
        for here, there, data in pairs:
            assert contents(there.fit(data(), client=client)) == contents(here), (type(here).__name__, here.schedule)

    compare(client)
    for number in (1, 4, 8):
        other, cluster = threads(number)
        with cluster, other:
            compare(other)
    # Rounds and batches are what the model depends on.
    here = pairs[0][0]
    assert contents(exchange.fit(here, parts_of(X), batches_per_round=1)) != contents(here)
    assert len({contents(here) for here, _, _ in pairs}) == len(pairs)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_every_schedule_gives_the_same_bytes(client, blobs, schedule):
    X = blobs[0].astype(np.float32)
    settings = {"n_components": 5, "schedule": schedule, "batch_size": 300, **FAST}
    here = exchange.fit(lsparse.GaussianMixture(**settings), parts_of(X), batches_per_round=3)
    there = lsparse.dask.GaussianMixture(batches_per_round=3, **settings).fit(lazy(X), client=client)
    assert contents(there) == contents(here)
    assert there.n_iter_ == (1 if schedule == "streaming" else 3) and there.means_.dtype == here.means_.dtype


def test_all_rows_in_one_round_are_the_full_schedule(blobs):
    X = blobs[0]
    settings = {"n_components": 5, "schedule": "full", "init_params": "bregman", "standardize": False, **FAST}
    parts = exchange.fit(lsparse.GaussianMixture(**settings), parts_of(X))
    assert np.allclose(parts.objective_, lsparse.GaussianMixture(**settings).fit(X).objective_, rtol=1e-9)


@pytest.mark.parametrize(
    "model",
    [
        lsparse.dask.GaussianMixture(4, covariance_type="diag", standardize=True, **FAST),
        lsparse.dask.GaussianMixture(4, covariance_type="tied", search="neighbours", **FAST),
        lsparse.dask.GaussianMixture(4, missing=True, **FAST),
        lsparse.dask.GaussianMixture(4, method="kmeans", covariance_type="spherical", **FAST),
        lsparse.dask.PoissonMixture(4, **FAST),
        lsparse.dask.MultinomialMixture(4, **FAST),
        lsparse.dask.BernoulliMixture(4, **FAST),
    ],
    ids=["diag", "tied", "missing", "kmeans", "poisson", "multinomial", "bernoulli"],
)
def test_every_mixture_gives_the_same_bytes(client, blobs, model):
    X = blobs[0].copy()
    if "missing" in model.get_params() and model.missing:
        X[::17, 1] = np.nan
    if "Gaussian" not in type(model).__name__:
        X = np.abs(X).round() if "Bernoulli" not in type(model).__name__ else (X > 0).astype(np.float64)
    model.fit(lazy(X), client=client)
    assert contents(model) == contents(exchange.fit(model.to_local(), parts_of(X), batches_per_round=8))


@pytest.mark.parametrize("leave_out", [True, False])
def test_topics_give_the_same_bytes(client, documents, leave_out):
    X, chunks = documents[0], (90, 0, 30, 80, 100)
    settings = {"n_components": 4, "sparsity": 2, "leave_out": leave_out, **FAST}
    here = exchange.fit(lsparse.TopicModel(**settings), parts_of(X, chunks), batches_per_round=2)
    model = lsparse.dask.TopicModel(batches_per_round=2, **settings)
    assert contents(model.fit(delayed(X, chunks), client=client)) == contents(here)
    # Batches that are left out are left out together.
    one = exchange.fit(lsparse.TopicModel(**settings), parts_of(X, chunks), batches_per_round=1)
    assert contents(one) != contents(here)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_sequences_give_the_same_bytes(client, blobs, schedule):
    X, lengths = blobs[0].copy(), [300, 0, 401, 99, 1, 700, 499]
    X[[5, 720], :] = np.nan
    settings = {"n_components": 4, "sparsity": 2, "missing": True, "schedule": schedule, "cut": 250, "overlap": 40, **FAST}
    # Chunks that sequences do not end at, of which whole sequences are made.
    model = lsparse.dask.HMM(batches_per_round=2, **settings).fit(lazy(X), lengths, client=client)
    chunks = (701, 800, 499)
    here = exchange.fit(lsparse.HMM(**settings), parts_of(X, chunks), batches_per_round=2, lengths=lengths)
    assert contents(model) == contents(here) and len(here.trace_["step"]) == 3 * (1 if schedule == "streaming" else 3)
    local = model.to_local()
    assert type(local) is lsparse.HMM
    X[[5, 720], :] = 0.0
    assert (model.predict(lazy(X), lengths).compute() == local.predict(X, lengths)).all()
    assert np.allclose(model.predict_proba(lazy(X), lengths), local.predict_proba(X, lengths))
    assert np.allclose(model.score_steps(lazy(X), lengths), local.score_steps(X, lengths))
    assert model.score(lazy(X), lengths).compute() == pytest.approx(local.score(X, lengths), rel=1e-12)
    found = sp.vstack(dask.compute(*model.predict_sparse(lazy(X), lengths)))
    assert (found != local.predict_sparse(X, lengths)).nnz == 0
    assert isinstance(model.predict(X, lengths), np.ndarray) and isinstance(model.score(X, lengths), float)


def test_a_partition_has_whole_sequences(client, blobs):
    X = blobs[0]
    one = lsparse.dask.HMM(3, **FAST).fit(delayed(X, CHUNKS), client=client)
    assert contents(one) == contents(exchange.fit(one.to_local(), parts_of(X), batches_per_round=8))
    nested = lsparse.dask.HMM(3, **FAST).fit(delayed(X, (1000, 1000)), [[400, 600], [1000]], client=client)
    small = lsparse.dask.HMM(3, batch_size=600, **FAST).fit(delayed(X, (1000, 1000)), [400, 600, 1000], client=client)
    assert [len(model.trace_["step"]) for model in (nested, small)] == [6, 9]
    with pytest.raises(LsparseError, match="sequences of partition 0 have 400 rows, and it has 1000"):
        lsparse.dask.HMM(3).fit(delayed(X, (1000, 1000)), [400, 800, 800], client=client)
    with pytest.raises(LsparseError, match="add up to 3, and X has 2000 rows"):
        lsparse.dask.HMM(3).fit(lazy(X), [3], client=client)
    with pytest.raises(LsparseError, match="symbols are for one machine"):
        lsparse.dask.HMM(3, emission="categorical").fit(lazy(X), client=client)
    X = X.copy()
    X[1200, 1] = np.nan
    with pytest.raises(LsparseError, match=r"partition 1: .*row 201, column 2"):
        lsparse.dask.HMM(3).fit(delayed(X, (1000, 1000)), client=client)


def test_parameters_and_statistics_of_topics_travel_as_what_is_not_zero(documents):
    """Ten collections that share no word: most topics have none of most words."""
    X = sp.block_diag([documents[0]] * 10, format="csr")
    dense = 30 * X.shape[1] * 8
    model = lsparse.TopicModel(30, max_iter=2, random_state=0, batch_size=300)
    settled, session = exchange.begin(model, X)
    for _ in range(3):
        params, tickets = exchange.hand_out(settled, session, X, 5)
        done = [exchange.summarize(settled, X, params, ticket) for ticket in tickets]
        session, _ = exchange.fold(settled, session, X, done)
        assert len(params) < 0.4 * dense and max(map(len, done)) < 0.2 * dense, (len(params), list(map(len, done)), dense)


def test_what_is_given_beside_the_rows_counts(client, blobs):
    X, weights = blobs[0], np.arange(2000) % 3.0
    model = lsparse.dask.GaussianMixture(4, **FAST).fit(lazy(X), sample_weight=da.from_array(weights), client=client)
    here = exchange.fit(model.to_local(), parts_of(X), batches_per_round=8, sample_weight=weights)
    assert contents(model) == contents(here)
    assert model.weights_.sum() == pytest.approx(1) and contents(model.fit(lazy(X), client=client)) != contents(here)
    model = lsparse.dask.GaussianMixture(4, means_init=X[:4], weights_init=[0.25] * 4, n_init=2, **FAST)
    model.fit(lazy(X), client=client)
    assert contents(model) == contents(exchange.fit(model.to_local(), parts_of(X), batches_per_round=8))


def test_early_stopping_scores_traces_and_callbacks(client, blobs, tmp_path):
    X, rows = blobs[0], []
    model = lsparse.dask.GaussianMixture(20, estimate="ml", early_stopping=2, max_iter=30, tol=0, random_state=0)
    held = da.from_array(X[1500:], chunks=(100, 3))
    model.fit(lazy(X[:1500], (500, 500, 500)), X_val=held, trace=tmp_path / "t", callback=rows.append, client=client)
    here = exchange.fit(model.to_local(), parts_of(X[:1500], (500, 500, 500)), batches_per_round=8, X_val=X[1500:])
    assert contents(model) == contents(here)
    assert len(rows) == len(model.trace_["step"]) == len(lsparse.read_trace(tmp_path / "t").steps["step"])
    assert model.n_iter_ == np.nanargmax(model.trace_["heldout"]) // 3 + 1


def test_predictions_are_lazy_and_those_of_one_machine(client, blobs):
    X = blobs[0]
    model = lsparse.dask.GaussianMixture(4, **FAST).fit(lazy(X), client=client)
    local = model.to_local()
    assert type(local) is lsparse.GaussianMixture
    labels = model.predict(lazy(X))
    assert isinstance(labels, da.Array) and labels.chunks == (tuple(rows for rows in CHUNKS if rows),)
    assert (labels.compute() == local.predict(X)).all()
    assert np.allclose(model.transform(lazy(X)).compute(), local.transform(X))
    assert np.allclose(model.score_samples(lazy(X)), local.score_samples(X))
    assert model.score(lazy(X)).compute() == pytest.approx(local.score(X), rel=1e-12)
    found = sp.vstack(dask.compute(*model.predict_sparse(lazy(X), sparsity=2)))
    assert (found != local.predict_sparse(X, sparsity=2)).nnz == 0
    # What is here is predicted here.
    assert isinstance(model.predict(X), np.ndarray) and isinstance(model.score(X), float)


def test_data_frames_keep_the_names_of_their_columns(client, blobs):
    frame = pd.DataFrame(blobs[0], columns=["a", "b", "c"])
    model = lsparse.dask.GaussianMixture(3, **FAST).fit(dd.from_pandas(frame, npartitions=3), client=client)
    assert model.to_local().feature_names_in_.tolist() == ["a", "b", "c"] == model.model_.columns
    assert (model.predict(dd.from_pandas(frame, npartitions=2)).compute() == model.to_local().predict(frame)).all()


def test_workers_read_files_themselves(client, blobs, documents, tmp_path):
    X = blobs[0]
    for number, part in enumerate(parts_of(X, (900, 1100))):
        np.save(tmp_path / f"{number}.npy", part)
    paths = [tmp_path / "0.npy", tmp_path / "1.npy"]
    model = lsparse.dask.GaussianMixture(4, batch_size=500, **FAST).fit(paths, client=client)
    here = exchange.fit(model.to_local(), parts_of(X, (900, 1100)), batches_per_round=8)
    assert contents(model) == contents(here)
    assert (model.predict(paths).compute() == here.predict(X)).all()
    with pytest.raises(LsparseError, match=r"partition 0: .*missing.npy is not there; every worker"):
        lsparse.dask.GaussianMixture(4).fit(str(tmp_path / "missing.npy"), client=client)
    texts = ["red apple green", "green apple", "red sea blue", "blue sea"] * 6
    corpus = lsparse.build_corpus(texts, min_df=1, max_df=1.0, out=tmp_path / "corpus")
    topics = lsparse.dask.TopicModel(2, **FAST).fit(tmp_path / "corpus", client=client)
    assert topics.vocabulary_.tolist() == corpus.vocabulary and len(topics.trace_["step"]) > 3
    assert topics.to_local().model_.tokenizer is not None


def test_a_bag_of_texts_has_the_vocabulary_of_all(client):
    rng = np.random.default_rng(0)
    words = np.array(["apple", "pear", "plum", "sun", "moon", "star", "zebra", "Ägypten"])
    texts = [" ".join(rng.choice(words[:4] if n % 2 else words[3:], size=9)) for n in range(60)] + ["", "the"]
    bag = dask.bag.from_sequence(texts, npartitions=11)
    found, expected = lsparse.dask.build_corpus(bag, client=client), lsparse.build_corpus(texts)
    assert found.vocabulary == expected.vocabulary and found.vocabulary.tokenizer == expected.vocabulary.tokenizer
    counts = sp.vstack(client.gather(found.counts))
    assert (counts != expected.counts).nnz == 0
    few = lsparse.dask.build_corpus(bag, min_df=1, max_df=0.4, max_features=3, stop_words=None, client=client)
    assert few.vocabulary == lsparse.build_corpus(texts, min_df=1, max_df=0.4, max_features=3, stop_words=None).vocabulary
    model = lsparse.dask.TopicModel(2, **FAST).fit(bag, client=client)
    assert model.vocabulary_.tolist() == expected.vocabulary
    # Other texts, by the words of the model.
    others = ["apple pear unheard", "", "moon star Ägypten", "the sun"]
    split = [text.lower().split() for text in others]
    counts = sp.csr_array([[words.count(word) for word in expected.vocabulary] for words in split])
    bag_of_others, local = dask.bag.from_sequence(others, npartitions=3), model.to_local()
    for method in ["transform", "predict", "predict_proba", "score_samples"]:
        found = getattr(model, method)(bag_of_others)
        assert isinstance(found, da.Array)
        np.testing.assert_array_equal(found.compute(), getattr(local, method)(counts), method)
    sparse = sp.vstack([part.compute() for part in model.predict_sparse(bag_of_others)])
    assert (sparse != local.predict_sparse(counts)).nnz == 0
    sizes = bag.map_partitions(lambda part: [len(part)]).compute()
    assert model.score(bag).compute() == model.score(delayed(expected.counts, sizes)).compute()
    without = lsparse.dask.TopicModel(2, **FAST).fit(delayed(expected.counts, (30, 32)), client=client)
    with pytest.raises(LsparseError, match="does not know how text becomes words; fit it on texts"):
        without.transform(bag)
    with pytest.raises(LsparseError, match="X is a bag; give a dask array"):
        lsparse.dask.GaussianMixture(2, **FAST).fit(lazy(np.eye(9), (4, 5)), client=client).predict(bag)
    with pytest.raises(LsparseError, match="phrases: not for texts on a cluster"):
        lsparse.dask.build_corpus(bag, phrases=True, client=client)


def test_what_is_wrong_is_said_with_its_place(client, blobs):
    X = blobs[0].copy()
    X[900, 2] = np.nan
    fit = lambda X, **settings: lsparse.dask.GaussianMixture(4, **FAST, **settings).fit(X, client=client)  # noqa: E731
    with pytest.raises(LsparseError, match=r"partition 3: X row 200, column 3: NaN"):
        fit(lazy(X))
    with pytest.raises(LsparseError, match=r"partition 3: X row 200, column 3: NaN"):
        fit(lazy(X), batch_size=100)
    with pytest.raises(LsparseError, match="partition 1 has 2 columns, partition 0 has 3"):
        fit([dask.delayed(X[:10]), dask.delayed(X[:10, :2])])
    with pytest.raises(LsparseError, match="give a dask array"):
        fit(X)
    with pytest.raises(LsparseError, match='method: "dp-means" looks at everything in turn'):
        fit(lazy(X), method="dp-means")
    with pytest.raises(LsparseError, match="X has no rows"):
        fit(da.zeros((0, 3)))

    def broken():
        raise RuntimeError("the disk is gone")

    with pytest.raises(LsparseError, match="partition 1: RuntimeError: the disk is gone"):
        fit([dask.delayed(X[:10]), dask.delayed(broken)()])


def test_an_error_of_a_batch_has_its_name(client, blobs):
    class Fading:
        """Rows that are there for a while."""

        shape, ndim, dtype = blobs[0].shape, 2, blobs[0].dtype

        def __init__(self):
            self.rows = blobs[0]

        def to_numpy(self):
            import traceback

            if any(frame.name == "_work" for frame in traceback.extract_stack()):
                raise MemoryError("no room for 12 GB")
            return self.rows

    parts = [dask.delayed(blobs[0]), dask.delayed(Fading())]
    with pytest.raises(LsparseError, match=r"^batch 1, partition 1, visit \d+: MemoryError: no room for 12 GB") as caught:
        lsparse.dask.GaussianMixture(4, **FAST).fit(parts, client=client)
    assert isinstance(caught.value.__cause__, MemoryError)


def test_what_is_not_fitted_is_no_model():
    with pytest.raises(NotFittedError):
        lsparse.dask.GaussianMixture(4).to_local()


def test_partitions_of_several_types_are_read_in_double_precision(client, blobs):
    parts = parts_of(blobs[0], (800, 600, 600))
    parts[1], parts[2] = parts[1].astype(np.float32), parts[2].round().astype(np.int32)
    model = lsparse.dask.GaussianMixture(4, **FAST).fit([dask.delayed(part) for part in parts], client=client)
    assert contents(model) == contents(exchange.fit(model.to_local(), parts, batches_per_round=8))


def test_a_cluster_without_workers_is_not_waited_for():
    with LocalCluster(n_workers=0, processes=False, threads_per_worker=1, dashboard_address=":0") as cluster:
        with Client(cluster, set_as_default=False) as lonely:
            began = time.monotonic()
            with pytest.raises(LsparseError, match="has had no worker for 0.5 s; start some"):
                lsparse.dask.GaussianMixture(2, worker_timeout=0.5).fit(da.zeros((10, 2)), client=lonely)
            assert time.monotonic() - began < 10


def test_two_fits_at_once_on_one_client(client, blobs):
    X, fitted = blobs[0], {}

    def fit(components):
        fitted[components] = lsparse.dask.GaussianMixture(components, **FAST).fit(lazy(X), client=client)

    fits = [threading.Thread(target=fit, args=(components,)) for components in (3, 4)]
    for each in fits:
        each.start()
    for each in fits:
        each.join()
    for components, model in fitted.items():
        here = exchange.fit(lsparse.GaussianMixture(components, **FAST), parts_of(X), batches_per_round=8)
        assert contents(model) == contents(here)


#: A client that is killed, and one that goes on from what it left.
PROGRAM = """
import os, sys
import dask.array as da, numpy as np, lsparse.dask
from dask.distributed import Client

def end(step):
    if len(sys.argv) > 4 and step["lap"] >= 3:
        os._exit(9)

X = np.random.default_rng(0).normal(size=(3000, 3)) + 9.0 * (np.arange(3000) % 4)[:, None]
gm = lsparse.dask.GaussianMixture(6, max_iter=6, tol=0, random_state=0, batches_per_round=2)
gm.fit(da.from_array(X, chunks=(400, 3)), client=Client(sys.argv[1]), checkpoint=sys.argv[2], checkpoint_every=0, resume=True, callback=end)
open(sys.argv[3], "wb").write(gm.model_.__reduce__()[1][0])
"""


def test_a_checkpoint_is_of_its_rounds_and_batches(client, blobs, tmp_path):
    X, path = lazy(blobs[0]), tmp_path / "a.ckpt"
    fit = lambda X, rounds: lsparse.dask.GaussianMixture(4, batches_per_round=rounds, **FAST).fit(  # noqa: E731
        X, client=client, checkpoint=path, resume=True
    )
    whole = contents(fit(X, 2))
    assert contents(fit(X, 2)) == whole
    for other, rounds in [(X, 3), (lazy(blobs[0], (1000, 1000)), 2), (X + 1, 2)]:
        with pytest.raises(LsparseError, match="checkpoint"):
            fit(other, rounds)


def test_a_client_that_was_killed_goes_on_with_the_same_bytes(client, tmp_path):
    address, outputs = client.scheduler.address, [tmp_path / name for name in ("whole", "killed")]
    run = lambda *words: subprocess.run([sys.executable, "-c", PROGRAM, address, *map(str, words)], check=False).returncode  # noqa: E731
    assert run(tmp_path / "a.ckpt", outputs[0]) == 0
    assert run(tmp_path / "b.ckpt", outputs[1], "end") == 9
    assert (tmp_path / "b.ckpt").exists() and not outputs[1].exists()
    assert run(tmp_path / "b.ckpt", outputs[1]) == 0
    assert outputs[0].read_bytes() == outputs[1].read_bytes()


class Crew:
    """Workers that are processes, and somebody who starts another for each that dies."""

    def __init__(self, number):
        self._cluster = LocalCluster(n_workers=0, processes=True, threads_per_worker=1, dashboard_address=":0")
        self.client = Client(self._cluster, set_as_default=False)
        self._workers = [self._start() for _ in range(number)]
        self._open = True
        self._keeper = threading.Thread(target=self._keep)
        self._keeper.start()

    def _start(self):
        words = ["-m", "distributed.cli.dask_worker", self._cluster.scheduler_address, "--nthreads", "1", "--no-nanny"]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        return subprocess.Popen([sys.executable, *words, "--no-dashboard"], **quiet)

    def _keep(self):
        while self._open:
            self._workers = [self._start() if each.poll() is not None else each for each in self._workers]
            time.sleep(0.1)

    def kill(self, number, rng):
        """End some of them as an operator would not."""
        for at in rng.permutation(len(self._workers))[:number]:
            self._workers[at].kill()

    def __enter__(self):
        self.client.wait_for_workers(len(self._workers), timeout=120)
        return self

    def __exit__(self, *_):
        self._open = False
        self._keeper.join()
        for each in self._workers:
            each.kill()
            each.wait()
        self.client.close()
        self._cluster.close()


def fit_under_fire(crew, model, X, moments, number, rng):
    """Fit while workers are killed, after these seconds each; gives how many died before the fit was done."""
    fitting, died = threading.Event(), []

    def shoot():
        for moment in moments:
            time.sleep(moment)
            if fitting.is_set():
                crew.kill(number, rng)
                died.append(number)

    fitting.set()
    gun = threading.Thread(target=shoot)
    gun.start()
    fitted = model.set_params(worker_timeout=300).fit(X, client=crew.client)
    fitting.clear()
    gun.join()
    return fitted, sum(died)


def test_workers_that_die_change_nothing(blobs):
    X = np.tile(blobs[0], (20, 1))
    settings = {"sparsity": 8, "max_iter": 12, "tol": 0, "random_state": 0}
    model = lsparse.dask.GaussianMixture(40, batches_per_round=4, **settings)
    here = exchange.fit(lsparse.GaussianMixture(40, **settings), np.array_split(X, 8), batches_per_round=4)
    X = [dask.delayed(part) for part in np.array_split(X, 8)]
    with Crew(2) as crew:
        fitted, died = fit_under_fire(crew, model, X, [0.4, 1.0], 1, np.random.default_rng(0))
    assert contents(fitted) == contents(here) and died > 0


@pytest.mark.skipif(not LONG, reason="a hundred fits: cargo xtask test --long")
def test_a_hundred_fits_with_deaths_end_with_the_same_bytes(blobs, documents):
    rng = np.random.default_rng(1)
    X = np.tile(blobs[0], (20, 1))
    settings = {"max_iter": 8, "tol": 0, "random_state": 0}
    mixture = lsparse.dask.GaussianMixture(40, sparsity=8, batches_per_round=4, **settings)
    mixture_here = lsparse.GaussianMixture(40, sparsity=8, **settings)
    rows = [dask.delayed(part) for part in np.array_split(X, 8)]
    counts = sp.vstack([documents[0]] * 10, format="csr")
    topics = lsparse.dask.TopicModel(20, max_iter=5, tol=0, random_state=0, batches_per_round=2)
    topics_here = lsparse.TopicModel(20, max_iter=5, tol=0, random_state=0)
    expected = {
        id(mixture): contents(exchange.fit(mixture_here, np.array_split(X, 8), batches_per_round=4)),
        id(topics): contents(exchange.fit(topics_here, parts_of(counts, (375,) * 8), batches_per_round=2)),
    }
    fits, deaths = 0, 0
    with Crew(2) as crew:
        for trial in range(200):
            model, data = (mixture, rows) if trial % 2 else (topics, delayed(counts, (375,) * 8))
            # In every tenth all of them die at once.
            number = 2 if trial % 10 == 0 else 1
            moments = rng.uniform(0.1, 1.0, size=rng.integers(1, 4))
            fitted, died = fit_under_fire(crew, model, data, moments, number, rng)
            assert contents(fitted) == expected[id(model)], f"trial {trial}"
            # One that was done before the first shot shows nothing.
            fits, deaths = fits + (died > 0), deaths + died
            print(f"trial {trial}: {died} died, {deaths} in {fits} fits", flush=True)
            if fits == 100:
                break
    assert fits == 100


@pytest.mark.skipif(not LONG, reason="workers are started over and over: cargo xtask test --long")
def test_a_partition_that_kills_every_worker_is_named(blobs):
    parts = [dask.delayed(blobs[0]), dask.delayed(os._exit)(1)]
    with Crew(2) as crew, pytest.raises(LsparseError, match="partition 1: 4 workers died of it; give smaller batches"):
        lsparse.dask.GaussianMixture(4, worker_timeout=300, **FAST).fit(parts, client=crew.client)


@pytest.mark.skipif(not LONG, reason="workers are started over and over: cargo xtask test --long")
def test_a_partition_that_fits_no_worker_is_named(blobs):
    def hungry():
        held = []
        for _ in range(200):
            held.append(np.ones(2_000_000))
            time.sleep(0.02)
        return held

    parts = [dask.delayed(blobs[0]), dask.delayed(hungry)()]
    limits = {"processes": True, "threads_per_worker": 1, "memory_limit": "700MB", "dashboard_address": ":0"}
    with LocalCluster(n_workers=2, **limits) as cluster, Client(cluster, set_as_default=False) as client:
        with pytest.raises(LsparseError, match="partition 1: 4 workers died of it; give smaller batches"):
            lsparse.dask.GaussianMixture(4, worker_timeout=300, **FAST).fit(parts, client=client)
