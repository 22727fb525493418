"""What a fit has around it: held-out rows, checkpoints, traces, memory, and other processes."""

import json
import pickle
import subprocess
import sys
import urllib.error
import urllib.request

import lsparse
import numpy as np
import pytest
from lsparse import BernoulliMixture, GaussianMixture, LsparseError, TopicModel, exchange


@pytest.fixture(scope="module")
def few():
    """Rows that many components learn by heart, and others of the same kind."""
    rng = np.random.default_rng(0)
    centers = 6 * rng.normal(size=(3, 4))
    X = centers[rng.integers(3, size=500)] + rng.normal(size=(500, 4))
    return X[:200], X[200:]


OVERFITTING = GaussianMixture(
    25, covariance_type="diag", estimate="ml", init_params="random", sparsity=25, batch_size=100, tol=0, max_iter=60
)


def overfitting(**parameters):
    return GaussianMixture(**(OVERFITTING.get_params() | {"random_state": 0} | parameters))


def laps_of(trace):
    """Held-out scores at the ends of laps."""
    return trace["heldout"][~np.isnan(trace["heldout"])]


def test_early_stopping_keeps_the_lap_that_scored_best(few, command, tmp_path):
    X, X_val = few
    whole = overfitting().fit(X, X_val=X_val)
    scores = laps_of(whole.trace_)
    assert len(scores) == 60 and 0 < scores.argmax() < 50
    stopped = overfitting(early_stopping=5).fit(X, X_val=X_val)
    seen = laps_of(stopped.trace_)
    assert stopped.n_iter_ == seen.argmax() + 1 == len(seen) - 5 and stopped.converged_
    np.testing.assert_allclose(stopped.score(X_val), seen.max(), rtol=1e-12)
    assert stopped.score(X_val) > whole.score(X_val)
    # The command's, bit for bit.
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "val.npy", X_val)
    settings = "--likelihood diag-gauss --estimate ml --init responsibilities -l 25 --rows-per-batch 100 --tolerance none"
    run = f"{command} fit mixture x.npy -k 25 {settings} --laps 60 --heldout val.npy --early-stopping 5 -q --out m.st"
    subprocess.run(run.split(), check=True, cwd=tmp_path)
    lsparse.save(stopped, tmp_path / "ours.st")
    assert (tmp_path / "ours.st").read_bytes() == (tmp_path / "m.st").read_bytes()
    assert lsparse.load(tmp_path / "m.st").early_stopping == 5


def test_early_stopping_of_topics(documents):
    X, _ = documents
    model = TopicModel(20, early_stopping=2, tol=0, max_iter=40, random_state=0).fit(X[:200], X_val=X[200:])
    seen = laps_of(model.trace_)
    assert model.n_iter_ == seen.argmax() + 1
    np.testing.assert_allclose(model.score(X[200:]), seen.max(), rtol=1e-6)


def saved(model, path):
    lsparse.save(model, path)
    return path.read_bytes()


@pytest.mark.parametrize("kind", ["mixture", "topics", "sampler"])
def test_a_fit_that_was_ended_goes_on_with_the_same_bits(kind, few, documents, tmp_path):
    if kind == "mixture":
        model, X, X_val = overfitting(early_stopping=5), *few
    else:
        method = "lsparse" if kind == "topics" else "sparse-lda"
        model = TopicModel(5, method=method, max_iter=8, tol=0, early_stopping=3, random_state=0)
        X, X_val = documents[0][:200], documents[0][200:]
    whole = saved(model.fit(X, X_val=X_val, trace=tmp_path / "whole.jsonl"), tmp_path / "whole.st")
    files = {"checkpoint": tmp_path / "run.ckpt", "checkpoint_every": 0.0, "trace": tmp_path / "run.jsonl"}
    # The callback ends the first part somewhere on the way; the last part may find nothing left to be done.
    for part in range(3):
        last = part == 2
        model.fit(X, X_val=X_val, resume=True, callback=None if last else lambda step: step["lap"] > 0.5, **files)
    assert saved(model, tmp_path / "pieces.st") == whole
    one, other = (lsparse.read_trace(tmp_path / name) for name in ("whole.jsonl", "run.jsonl"))
    for name in ("step", "batch", "lap", "objective", "heldout"):
        # Where a fit was ended in the middle of a lap more is known.
        known = ~np.isnan(one.steps[name])
        np.testing.assert_array_equal(one.steps[name][known], other.steps[name][known])
    assert one.beginning == other.beginning and one.endings[-1] == other.endings[-1]


def test_a_killed_process_goes_on_with_the_same_bits(tmp_path):
    program = """
import sys, os
import numpy as np, lsparse
X = np.random.default_rng(0).normal(size=(5000, 6))
killed = sys.argv[1] == "killed"
def kill(step):
    if killed and step["lap"] > 2:
        os._exit(9)
model = lsparse.GaussianMixture(20, batch_size=500, max_iter=8, tol=0, random_state=0)
model.fit(X, checkpoint="run.ckpt", checkpoint_every=0.0, resume=True, callback=kill)
lsparse.save(model, sys.argv[1] + ".st")
"""
    run = [sys.executable, "-c", program]
    assert subprocess.run([*run, "killed"], cwd=tmp_path).returncode == 9
    assert (tmp_path / "run.ckpt").exists()
    subprocess.run([*run, "resumed"], cwd=tmp_path, check=True)
    (tmp_path / "run.ckpt").unlink()
    subprocess.run([*run, "whole"], cwd=tmp_path, check=True)
    assert (tmp_path / "resumed.st").read_bytes() == (tmp_path / "whole.st").read_bytes()


def test_traces_are_read_whoever_wrote_them(blobs, command, tmp_path):
    X, _ = blobs
    model = GaussianMixture(4, n_init=2, max_iter=5, tol=0, random_state=0).fit(X, trace=tmp_path / "ours.jsonl")
    ours = lsparse.read_trace(tmp_path / "ours.jsonl")
    assert ours.steps.keys() == model.trace_.keys()
    for name, column in model.trace_.items():
        np.testing.assert_array_equal(ours.steps[name], column)
    assert ours.beginning["model"] == "mixture" and ours.beginning["settings"]["clusters"] == 4
    assert [end["run"] for end in ours.endings] == [0, 1]
    np.save(tmp_path / "x.npy", X)
    run = f"{command} fit mixture x.npy -k 4 --runs 2 --laps 5 --tolerance none --trace theirs.jsonl -q"
    subprocess.run(run.split(), check=True, cwd=tmp_path)
    theirs = lsparse.read_trace(tmp_path / "theirs.jsonl")
    assert theirs.beginning == ours.beginning
    np.testing.assert_array_equal(theirs.steps["objective"], ours.steps["objective"])
    with pytest.raises(lsparse.LsparseError, match="line 1 is not one of a trace"):
        (tmp_path / "no.jsonl").write_text('{"x": 1}\n')
        lsparse.read_trace(tmp_path / "no.jsonl")


def test_a_limit_on_memory_changes_nothing(blobs, tmp_path):
    X, _ = blobs
    model = GaussianMixture(10, batch_size=200, max_iter=4, tol=0, search="neighbours", random_state=0)
    free = saved(model.fit(X), tmp_path / "free.st")
    assert saved(model.set_params(memo_memory=1000).fit(X), tmp_path / "tight.st") == free


@pytest.mark.parametrize("kind", ["mixture", "bits", "topics"])
def test_processes_that_exchange_bytes_train_the_same_model(kind, blobs, documents):
    X = documents[0] if kind == "topics" else blobs[0]
    model = {
        "mixture": GaussianMixture(5, batch_size=500, max_iter=3, tol=0, random_state=0),
        "bits": BernoulliMixture(5, batch_size=500, max_iter=3, tol=0, random_state=0),
        "topics": TopicModel(5, max_iter=3, tol=0, random_state=0),
    }[kind]
    settled, session = exchange.begin(model, X)
    laps = 0
    while laps < 3:
        params, tickets = exchange.hand_out(settled, session, X)
        (done,) = [exchange.summarize(settled, X, params, ticket, n_jobs=1) for ticket in tickets]
        assert exchange.summarize(settled, X, params, tickets[0], n_jobs=2) == done or kind == "topics"
        session, laps = exchange.fold(settled, session, X, [done])
    found = exchange.finish(settled, session, X, model)
    model.fit(X)
    name = "topics_" if kind == "topics" else "weights_"
    np.testing.assert_array_equal(getattr(found, name), getattr(model, name))
    assert found.objective_ == model.objective_ and found.n_iter_ == 3
    # What is damaged is refused.
    with pytest.raises(lsparse.LsparseError):
        exchange.fold(settled, session, X, [done[:-1]])
    if kind == "topics":
        with pytest.raises(lsparse.LsparseError, match="draws every token given all others"):
            exchange.begin(TopicModel(2, method="sparse-lda"), X)


def test_rounds_of_several_batches_do_not_ask_who_is_first(blobs):
    X, _ = blobs
    model = GaussianMixture(5, batch_size=250, random_state=0)
    settled, session = exchange.begin(model, X)
    params, tickets = exchange.hand_out(settled, session, X, n_batches=4)
    done = [exchange.summarize(settled, X, params, ticket) for ticket in tickets]
    assert len(done) == 4
    after = [exchange.fold(settled, session, X, each)[0] for each in (done, done[::-1])]
    # Sessions know the time that was spent; parameters do not.
    one, other = (exchange.hand_out(settled, each, X)[0] for each in after)
    assert one == other


def test_a_fit_without_a_seed_goes_on_from_its_checkpoint(tmp_path):
    X = np.random.default_rng(0).normal(size=(300, 2))
    file = tmp_path / "run.ckpt"
    first = GaussianMixture(4, max_iter=3, tol=0).fit(X, checkpoint=file)
    again = GaussianMixture(4, max_iter=5, tol=0).fit(X, checkpoint=file, resume=True)
    assert list(again.trace_["lap"]) == [4.0, 5.0] and again.objective_ >= first.objective_
    with pytest.raises(LsparseError, match="seed was"):
        GaussianMixture(4, max_iter=5, tol=0, random_state=2**31).fit(X, checkpoint=file, resume=True)
    counts = np.random.default_rng(0).poisson(1, size=(60, 20))
    topics = TopicModel(3, max_iter=2, tol=0).fit(counts, checkpoint=tmp_path / "topics.ckpt")
    topics = TopicModel(3, max_iter=3, tol=0).fit(counts, checkpoint=tmp_path / "topics.ckpt", resume=True)
    assert topics.trace_["lap"][-1] == 3.0 and topics.trace_["lap"][0] > 2.0


def asked(page, path="", method="GET"):
    """What a page answers, with the header that browsers send with every request that is no plain reading."""
    origin = page.url.split("/", 3)
    request = urllib.request.Request(page.url + path, method=method, headers={"Origin": "/".join(origin[:3])})
    with urllib.request.urlopen(request, timeout=10) as answer:
        return answer.read().decode()


def test_a_page_shows_fits_and_stops_them(tmp_path):
    X = np.random.default_rng(0).normal(size=(2000, 3))
    model = GaussianMixture(5, max_iter=10**6, tol=0, random_state=0)
    with model.watch() as page:
        assert "<html" in asked(page) and pickle.loads(pickle.dumps(model))._page is None
        seen = []

        def stop(step):
            seen.append(json.loads(asked(page, "state"))["traces"][0]["lines"])
            if len(seen) == 3:
                asked(page, "stop", "POST")

        model.fit(X, callback=stop)
        assert model.n_iter_ == 4 and [len(lines) for lines in seen] == [2, 3, 4, 5], "with the next batch"
        # A fit that begins has not been asked to stop.
        model.set_params(max_iter=2).fit(X)
        traces = json.loads(asked(page, "state"))["traces"]
        assert len(traces) == 2 and traces[1]["lines"][-1]["event"] == "end"
    assert page.url is None
    path = tmp_path / "run.jsonl"
    for port in (65536, -1):
        with pytest.raises(ValueError, match="is no port; give a number from 1 to 65535"):
            lsparse.watch(path, port=port)
    model.fit(X, trace=path)
    with lsparse.watch(path) as page:
        lines = []
        while len(lines) < len(model.trace_["step"]) + 2:
            lines = json.loads(asked(page, "state"))["traces"][0]["lines"]
        with pytest.raises(urllib.error.HTTPError, match="409"):
            asked(page, "stop", "POST")
