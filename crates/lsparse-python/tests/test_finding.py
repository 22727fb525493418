"""A number of components that is found."""

import pickle
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_blobs
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score

import lsparse
from lsparse import BernoulliMixture, GaussianMixture, LsparseError, MultinomialMixture, PoissonMixture, TopicModel


@pytest.fixture(scope="module")
def blobs():
    return make_blobs(3000, n_features=6, centers=7, random_state=1)


@pytest.mark.parametrize("covariance_type", ["full", "diag", "spherical", "tied"])
@pytest.mark.parametrize("start", [None, 1, 40])
def test_blobs_are_found(blobs, covariance_type, start):
    X, y = blobs
    model = GaussianMixture("auto", n_components_start=start, covariance_type=covariance_type, random_state=0).fit(X)
    assert len(model.weights_) == len(model.means_) == 7
    assert adjusted_rand_score(y, model.predict(X)) > 0.99
    assert model.predict_proba(X[:5]).shape == (5, 7)
    assert model.converged_ and np.isfinite(model.bic(X))


@pytest.mark.parametrize("kind", [BernoulliMixture, MultinomialMixture, PoissonMixture])
def test_counts_and_bits_are_found(kind):
    rng = np.random.default_rng(0)
    labels = rng.integers(4, size=2000)
    if kind is BernoulliMixture:
        X = rng.random((2000, 40)) < rng.choice([0.1, 0.9], size=(4, 40))[labels]
    else:
        X = rng.poisson(rng.choice([0.5, 6.0], size=(4, 40))[labels])
    model = kind("auto", random_state=0).fit(X.astype(float))
    assert len(model.weights_) == 4
    assert adjusted_rand_score(labels, model.predict(X.astype(float))) > 0.95


def test_a_found_model_is_a_model(blobs, tmp_path):
    X, _ = blobs
    path = tmp_path / "trace.jsonl"
    model = GaussianMixture(n_components="auto", random_state=0).fit(X, trace=path)
    trace = lsparse.read_trace(path)
    assert trace.steps["clusters"][-1] == 7
    assert trace.moves and {move["kind"] for move in trace.moves} <= {"birth", "merge", "delete"}
    born = sum(move["kind"] == "birth" for move in trace.moves)
    assert 10 + born - (len(trace.moves) - born) == 7
    told = [move for moves in model.trace_["moves"] for move in moves]
    assert told == [{name: move[name] for name in ("kind", "from", "to", "gain")} for move in trace.moves]
    assert len(model.trace_["moves"]) == len(model.trace_["step"]) and len(trace.steps["moves"]) == len(trace.steps["step"])
    lsparse.save(model, tmp_path / "m.safetensors")
    again = lsparse.load(tmp_path / "m.safetensors")
    for other in (again, pickle.loads(pickle.dumps(model))):
        assert np.array_equal(other.predict(X), model.predict(X))
    assert clone(model).n_components == "auto"
    assert "moves" not in GaussianMixture(3, random_state=0).fit(X).trace_
    model.partial_fit(X[:100])
    assert model.trace_["moves"][-1] == []


def test_a_number_that_is_the_most_allowed_is_warned_of(blobs):
    X, _ = blobs
    with pytest.warns(ConvergenceWarning, match="all of the 3 components that n_components_max allows"):
        most = GaussianMixture("auto", n_components_max=3, random_state=0).fit(X)
        assert len(most.weights_) == 3 and most.trace_["k_max_reached"][-1] == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = GaussianMixture("auto", n_components_max=30, random_state=0).fit(X)
        assert found.trace_["k_max_reached"][-1] == 0


def test_columns_that_mislead_are_warned_of(blobs):
    X, _ = blobs
    counts = np.random.default_rng(0).integers(4, size=(500, 3)).astype(float)
    with pytest.warns(UserWarning, match="columns 1, 2, 3 are of 4 different values or fewer"):
        GaussianMixture("auto", n_components_max=30, max_iter=2, tol=0, random_state=0).fit(counts)
    with pytest.warns(UserWarning, match="column 7 is another column once more"):
        GaussianMixture("auto", random_state=0).fit(np.column_stack([X, X[:, 2]]))


def test_what_cannot_be_found_is_refused(blobs):
    X, _ = blobs
    for parameters, said in [
        ({"estimate": "ml"}, "gains with every cluster"),
        ({"schedule": "stochastic"}, 'schedule="memoized"'),
        ({"means_init": X[:3]}, "leave it out"),
        ({"n_components_start": 20, "n_components_max": 10}, "n_components_start"),
        ({"n_components": 3, "n_components_max": 9}, 'n_components="auto"'),
    ]:
        with pytest.raises(LsparseError, match=said):
            GaussianMixture(**{"n_components": "auto", **parameters}).fit(X)
    with pytest.raises(ValueError, match="n_components"):
        GaussianMixture("many").fit(X)


@pytest.mark.parametrize("start", [1, 25])
def test_topics_are_found(start):
    rng = np.random.default_rng(0)
    topics = rng.dirichlet(np.full(300, 0.05), 5)
    shares = rng.dirichlet(np.full(5, 0.1), 600)
    X = np.array([rng.multinomial(80, share @ topics) for share in shares])
    model = TopicModel("auto", n_components_start=start, max_iter=40, random_state=0).fit(X)
    assert len(model.weights_) == len(model.topics_) == 5
    assert model.transform(X[:3]).shape == (3, 5)
    with pytest.raises(LsparseError, match="names topics by number"):
        TopicModel("auto", seed_words=[[0]]).fit(X)
    with pytest.raises(LsparseError, match="left out"):
        TopicModel("auto", leave_out=False).fit(X)
