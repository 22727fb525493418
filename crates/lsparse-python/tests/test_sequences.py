"""Hidden Markov models: the same as hmmlearn's where that has them, and sparse where it has not."""

import pickle
import warnings

import numpy as np
import pytest
from scipy.special import gammaln
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import lsparse
from lsparse import HMM, LsparseError

hmmlearn = pytest.importorskip("hmmlearn.hmm")

LENGTHS = [60, 1, 80, 40, 119]


def chain(states, stay=0.8, seed=0):
    """A path through a chain."""
    rng = np.random.default_rng(seed)
    path = [0]
    for _ in range(sum(LENGTHS) - 1):
        path.append(path[-1] if rng.random() < stay else int(rng.integers(states)))
    return np.array(path), rng


def rows(kind):
    path, rng = chain(3)
    if kind in ("full", "diag"):
        return rng.normal(np.array([[0.0, 0.0], [2.0, -1.0], [-1.5, 2.5]])[path], [[0.7, 1.2]])
    if kind == "poisson":
        return rng.poisson(np.array([[1.0, 8.0], [6.0, 2.0], [3.0, 3.0]])[path]).astype(float)
    shares = np.array([[0.7, 0.1, 0.1, 0.1], [0.1, 0.6, 0.2, 0.1], [0.1, 0.1, 0.3, 0.5]])
    if kind == "categorical":
        return np.array([[rng.choice(4, p=shares[k])] for k in path])
    return np.array([rng.multinomial(12, shares[k]) for k in path])


def ours(kind, **more):
    emission = {"full": "gaussian", "diag": "gaussian"}.get(kind, kind)
    covariance_type = kind if emission == "gaussian" else "full"
    given = {"estimate": "ml", "schedule": "full", "tol": 0, "random_state": 0, "max_iter": 3} | more
    return HMM(3, emission=emission, covariance_type=covariance_type, **given)


def theirs(kind, model):
    """The same model as hmmlearn has it, to take one step."""
    shared = {"n_components": 3, "n_iter": 1, "init_params": ""}
    if kind in ("full", "diag"):
        other = hmmlearn.GaussianHMM(covariance_type=kind, covars_prior=0.0, **shared)
        other.means_ = model.means_.copy()
        other.covars_ = model.covars_ if kind == "full" else np.diagonal(model.covars_, axis1=1, axis2=2)
    elif kind == "poisson":
        other = hmmlearn.PoissonHMM(**shared)
        other.lambdas_ = model.lambdas_.copy()
    else:
        other = hmmlearn.CategoricalHMM(**shared) if kind == "categorical" else hmmlearn.MultinomialHMM(**shared)
        other.emissionprob_ = model.emissionprob_.copy()
        if kind == "multinomial":
            other.n_trials = 12
        other.n_features = 4
    other.startprob_, other.transmat_ = model.startprob_.copy(), model.transmat_.copy()
    return other


@pytest.mark.parametrize("kind", ["full", "diag", "poisson", "categorical", "multinomial"])
def test_dense_is_what_hmmlearn_has(kind):
    X = rows(kind)
    model = ours(kind, warm_start=True).fit(X, LENGTHS)
    other = theirs(kind, model)
    # hmmlearn counts the orders in which counts may come.
    orders = (gammaln(13) - gammaln(X + 1).sum(axis=1)).sum() if kind == "multinomial" else 0.0
    log_prob, posteriors = other.score_samples(X, LENGTHS)
    found, shares = model.score_samples(X, LENGTHS)
    assert found + orders == pytest.approx(log_prob, rel=1e-10)
    np.testing.assert_allclose(shares, posteriors, atol=1e-8)
    np.testing.assert_allclose(model.predict_sparse(X, LENGTHS, sparsity=3).toarray(), posteriors, atol=1e-8)
    path_prob, path = other.decode(X, LENGTHS)
    found, states = model.decode(X, LENGTHS)
    assert found + orders == pytest.approx(path_prob, rel=1e-10)
    np.testing.assert_array_equal(states, path)
    np.testing.assert_array_equal(model.predict(X, LENGTHS), path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        other.fit(X, LENGTHS)
    model.set_params(max_iter=1).fit(X, LENGTHS)
    for name in ("startprob_", "transmat_", "means_", "covars_", "lambdas_", "emissionprob_"):
        if hasattr(model, name) and hasattr(other, name):
            np.testing.assert_allclose(getattr(model, name), getattr(other, name), atol=1e-8, err_msg=name)


@pytest.mark.parametrize("kind", ["full", "diag", "poisson", "categorical", "multinomial"])
@pytest.mark.parametrize("sparsity", [1, 2, 3])
def test_models_are_saved_and_pickled(kind, sparsity, tmp_path):
    X = rows(kind)
    model = ours(kind, sparsity=sparsity, estimate="map").fit(X, LENGTHS)
    lsparse.save(model, tmp_path / "h.safetensors")
    again = lsparse.load(tmp_path / "h.safetensors")
    copied = pickle.loads(pickle.dumps(model))
    assert again.emission == model.emission and again.n_features_in_ == model.n_features_in_
    for other in (again, copied):
        assert type(other) is HMM
        np.testing.assert_array_equal(other.transmat_, model.transmat_)
        assert other.score(X, LENGTHS) == model.score(X, LENGTHS)
        np.testing.assert_array_equal(other.predict(X, LENGTHS), model.predict(X, LENGTHS))


def test_estimators_are_scikit_learns():
    model = HMM(4, sparsity=2, stickiness=3.0)
    assert clone(model).get_params() == model.get_params()
    X = rows("diag")
    with pytest.raises(NotFittedError):
        model.predict(X)
    with pytest.warns(ConvergenceWarning):
        HMM(4, max_iter=1, random_state=0).fit(X)
    model = HMM(4, random_state=0, tol=0.1).fit(X)
    with pytest.raises(ValueError, match="features"):
        model.predict(X[:, :1])
    with pytest.raises(ValueError, match="NaN"):
        HMM(2).fit(np.full((10, 2), np.nan))
    with pytest.raises(ValueError, match="stickiness"):
        HMM(2, stickiness=-1.0).fit(X)
    assert model.transform(X).shape == (300, 4)
    assert list(model.get_feature_names_out()) == ["hmm0", "hmm1", "hmm2", "hmm3"]


def test_lengths_that_do_not_add_up_are_refused_with_the_numbers():
    X = rows("diag")
    with pytest.raises(LsparseError, match="lengths: .* add up to 299, and there are 300 rows"):
        HMM(2).fit(X, [200, 99])
    for lengths in ([1.5, 298.5], [-1, 301], [[300]]):
        with pytest.raises(ValueError, match="lengths"):
            HMM(2).fit(X, lengths)
    model = HMM(2, random_state=0, tol=0.1).fit(X, [0, 1, 299])
    assert model.predict(X, [300]).shape == (300,)


def test_missing_steps_are_steps_that_nothing_is_known_of():
    X = rows("diag")
    X[5:8] = np.nan
    model = HMM(3, covariance_type="diag", missing=True, random_state=0).fit(X, LENGTHS)
    # What is missing is certain, but for rounding.
    np.testing.assert_allclose(model.score_steps(X, LENGTHS)[5:8], 0, atol=1e-12)
    assert model.predict_proba(X, LENGTHS)[6].sum() == pytest.approx(1.0)


def test_symbols_are_whole_numbers_of_the_fit():
    X = rows("categorical")
    model = HMM(3, emission="categorical", random_state=0, tol=0.1).fit(X, LENGTHS)
    assert model.emissionprob_.shape == (3, 4)
    drawn, states = model.sample(50, random_state=1)
    assert drawn.shape == (50, 1) and set(np.unique(drawn)) <= set(range(4)) and states.shape == (50,)
    with pytest.raises(ValueError, match="symbol 4"):
        model.predict([[4]])
    with pytest.raises(ValueError, match="whole numbers"):
        model.predict([[0.5]])
    with pytest.raises(ValueError, match="np.unique"):
        model.predict([["a"], ["b"]])


def test_symbols_that_are_far_apart_cost_what_is_there(tmp_path):
    far = np.array([7, 5_000, 2_000_000_000_000])
    X = far[rows("categorical") % 3]
    model = HMM(3, emission="categorical", random_state=0, tol=0.1).fit(X, LENGTHS)
    assert model.emissionprob_.shape == (3, 3) and model.symbols_.tolist() == far.tolist()
    near = HMM(3, emission="categorical", random_state=0, tol=0.1).fit(rows("categorical") % 3, LENGTHS)
    np.testing.assert_array_equal(model.predict(X, LENGTHS), near.predict(rows("categorical") % 3, LENGTHS))
    assert set(np.unique(model.sample(50, random_state=1)[0])) <= set(far.tolist())
    with pytest.raises(ValueError, match="symbol 8 "):
        model.predict([[8]])
    lsparse.save(model, tmp_path / "h.safetensors")
    again = lsparse.load(tmp_path / "h.safetensors")
    assert again.symbols_.tolist() == far.tolist() and again.score(X, LENGTHS) == model.score(X, LENGTHS)
    assert lsparse.explore(again, X, lengths=LENGTHS).report["columns"] == 3


def test_symbols_may_be_missing():
    X = rows("categorical").astype(float)
    X[5:8] = np.nan
    with pytest.raises(ValueError, match="contains NaN.\n.*missing=True"):
        HMM(3, emission="categorical").fit(X, LENGTHS)
    model = HMM(3, emission="categorical", missing=True, random_state=0, tol=0.01).fit(X, LENGTHS)
    assert model.emissionprob_.shape == (3, 4)
    # What is missing is certain, but for rounding.
    np.testing.assert_allclose(model.score_steps(X, LENGTHS)[5:8], 0, atol=1e-12)
    np.testing.assert_allclose(model.predict_proba(X, LENGTHS).sum(axis=1), 1.0)
    for bad in (np.inf, 0.5, -1.0, 1e20):
        with pytest.raises(ValueError, match="whole numbers"):
            model.predict([[bad]])
    with pytest.raises(ValueError, match="no symbol"):
        HMM(1, emission="categorical", missing=True).fit([[np.nan], [np.nan]])


def test_defaults_find_states_that_symbols_do_not_tell():
    rng = np.random.default_rng(0)
    truth = hmmlearn.CategoricalHMM(2)
    truth.startprob_, truth.transmat_ = np.array([0.5, 0.5]), np.array([[0.95, 0.05], [0.1, 0.9]])
    truth.emissionprob_ = np.array([[0.4, 0.3, 0.2, 0.1], [0.1, 0.2, 0.3, 0.4]])
    truth.n_features = 4
    X, held = (truth.sample(3000, random_state=int(rng.integers(1000)))[0] for _ in range(2))
    model = HMM(2, emission="categorical", random_state=0).fit(X, [300] * 10)
    assert model.score(held) / 3000 > truth.score(held) / 3000 - 0.01


def test_states_are_not_found_but_how_many_a_step_keeps_is():
    X = rows("diag")
    with pytest.raises(ValueError, match="n_components"):
        HMM("auto").fit(X)
    assert '"auto"' not in HMM.__doc__.split("n_components :")[1].split("sparsity :")[0]
    model = HMM(5, sparsity="auto", covariance_type="diag", random_state=0, tol=0.1).fit(X, LENGTHS)
    assert 2 <= np.diff(model.predict_sparse(X, LENGTHS).indptr).max() <= 5


def test_few_states_a_step_and_held_out_sequences():
    path, rng = chain(20, stay=0.9)
    centers = rng.normal(0, 4, (20, 3))
    X, X_val = rng.normal(centers[path]), rng.normal(centers[path])
    model = HMM(20, sparsity=4, covariance_type="diag", random_state=0, max_iter=20, tol=0, batch_size=100)
    model.fit(X, LENGTHS, X_val=X_val, lengths_val=LENGTHS)
    sparse = model.predict_sparse(X, LENGTHS)
    assert sparse.shape == (300, 20) and np.diff(sparse.indptr).max() <= 4
    np.testing.assert_allclose(sparse.sum(axis=1), 1.0)
    objective = model.trace_["objective"][model.trace_["lap"] >= 1]
    assert (np.diff(objective) >= -1e-9 * np.abs(objective[:-1])).all()
    held = model.trace_["heldout"]
    last = model.score(X_val, LENGTHS) / 300
    assert held[~np.isnan(held)][-1] == pytest.approx(last, rel=1e-9)


def test_long_sequences_are_worked_on_in_stretches():
    rng = np.random.default_rng(0)
    states = rng.integers(3, size=60).repeat(100)
    X = rng.normal(3.0 * states, 1.0)[:, None]
    whole = lsparse.HMM(3, random_state=0, max_iter=5, tol=0).fit(X)
    cut = lsparse.HMM(3, random_state=0, max_iter=5, tol=0, cut=700, overlap=100, batch_size=1000).fit(X)
    assert len(cut.trace_["step"]) == 30 and len(whole.trace_["step"]) == 5
    assert np.abs(cut.predict_proba(X) - whole.predict_proba(X)).max() < 0.05
    assert cut.score(X) == pytest.approx(whole.score(X), rel=1e-4)
    # Long without being asked, which is said.
    with pytest.warns(UserWarning, match="worked on in 12 stretches, each with 250 steps"):
        lsparse.HMM(2, random_state=0, max_iter=1, tol=0).fit(np.tile(X, (10, 1)))


def test_symbols_that_may_be_missing_stay_so_in_files(tmp_path):
    X = rows("categorical").astype(float)
    X[5:8] = np.nan
    model = HMM(3, emission="categorical", missing=True, random_state=0, tol=0.01).fit(X, LENGTHS)
    lsparse.save(model, tmp_path / "h.safetensors")
    again = lsparse.load(tmp_path / "h.safetensors")
    assert again.missing and again.emission == "categorical"
    assert again.score(X, LENGTHS) == model.score(X, LENGTHS)
    assert pickle.loads(pickle.dumps(model)).score(X, LENGTHS) == model.score(X, LENGTHS)
    assert lsparse.explore(again, X, lengths=LENGTHS).report["rows"] == 300
    # Steps that are missing are none that BIC counts.
    expected = model.model_.num_parameters * np.log(297) - 2 * model.score(X, LENGTHS)
    assert model.bic(X, LENGTHS) == pytest.approx(expected)


@pytest.mark.parametrize("kind", ["full", "diag", "poisson", "categorical", "multinomial"])
def test_steps_may_be_missing_after_the_fit(kind):
    X = rows(kind)
    model = ours(kind, estimate="vb").fit(X, LENGTHS)
    before = model.score(X, LENGTHS)
    holed = X.astype(float)
    holed[5:8] = np.nan
    with pytest.raises(ValueError, match="missing=True"):
        model.score(holed, LENGTHS)
    model.set_params(missing=True)
    assert model.score(X, LENGTHS) == pytest.approx(before, rel=1e-9)
    np.testing.assert_allclose(model.score_steps(holed, LENGTHS)[5:8], 0, atol=1e-12)
    assert model.predict(holed, LENGTHS).shape == (300,)
    np.testing.assert_allclose(model.predict_proba(holed, LENGTHS).sum(axis=1), 1.0)
    assert model.predict_proba(holed, LENGTHS).max() <= 1.0


def test_what_hmmlearn_has_besides():
    X = rows("diag")
    model = ours("diag", max_iter=20, estimate="vb", schedule="memoized", batch_size=60).fit(X, LENGTHS)
    monitor = model.monitor_
    assert (monitor.converged, monitor.iter, len(monitor.history)) == (model.converged_, 20, 20)
    assert monitor.history[-1] == model.objective_ and (np.diff(monitor.history[1:]) >= -1e-9).all()
    assert not hasattr(HMM(2), "monitor_")
    other = theirs("diag", model)
    np.testing.assert_allclose(model.get_stationary_distribution(), other.get_stationary_distribution(), atol=1e-10)
    with pytest.raises(NotFittedError):
        HMM(2).get_stationary_distribution()
    # What has no effect is no parameter.
    assert not {"device", "total_samples"} & set(HMM().get_params())


def test_rows_that_are_no_rows_are_refused_with_what_to_give():
    X = rows("diag")
    with pytest.raises(ValueError, match=r"X.reshape\(-1, X.shape\[-1\]\), and lengths="):
        HMM(2).fit(X.reshape(3, 100, 2))
    with pytest.raises(ValueError, match=r"np.concatenate\(X\), and lengths="):
        HMM(2).fit([X[:100], X[100:]])
    with pytest.raises(ValueError, match="Classes \\(y\\) have no part in an HMM"):
        HMM(2).fit(X, np.arange(300) % 4)
    with pytest.raises(ValueError, match="row of NaN is a step"):
        HMM(2, emission="poisson").fit(np.full((10, 2), np.nan))
    # Nothing but steps of their own is a thing to ask for, and so is a pipeline, which passes None.
    HMM(2, random_state=0, tol=0.1).fit(X, np.ones(300, int))
    make_pipeline(StandardScaler(), HMM(2, random_state=0, tol=0.1)).fit(X).predict(X)


class WithClasses(HMM):
    """An HMM whose second argument is y, as scikit-learn's checks call it: hmmlearn's is lengths."""

    def fit(self, X, y=None):
        return super().fit(X)

    def score(self, X, y=None):
        return super().score(X)

    def fit_transform(self, X, y=None):
        return self.fit(X).transform(X)


#: scikit-learn's checks that cannot apply, and why.
NOT_APPLICABLE = {
    "check_methods_subset_invariance": "the state of a step depends on the steps around it",
    "check_methods_sample_order_invariance": "the order of steps is what a chain is about",
    "check_estimator_sparse_array": "the check takes whatever has predict_proba and reads sparse data for a classifier",
    "check_estimator_sparse_matrix": "the check takes whatever has predict_proba and reads sparse data for a classifier",
}


@parametrize_with_checks(
    [WithClasses(2, random_state=0), WithClasses(2, emission="poisson", random_state=0)],
    expected_failed_checks=lambda _: NOT_APPLICABLE,
)
def test_check_estimator(estimator, check):
    check(estimator)
