"""What mixtures find, and that their results mean what they say."""

import json
import subprocess
import warnings
from pathlib import Path

import lsparse
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from conftest import agreement
from lsparse import BernoulliMixture, GaussianMixture, MultinomialMixture
from scipy.stats import multivariate_normal, t
from sklearn.base import clone


@pytest.mark.parametrize("covariance_type", ["full", "diag", "spherical", "tied"])
@pytest.mark.parametrize("estimate", ["vb", "map", "ml"])
@pytest.mark.parametrize("schedule", ["memoized", "full", "stochastic", "streaming"])
def test_groups_are_found(blobs, covariance_type, estimate, schedule):
    X, labels = blobs
    batch_size = None if schedule == "full" else 500
    model = GaussianMixture(
        4,
        covariance_type=covariance_type,
        estimate=estimate,
        schedule=schedule,
        batch_size=batch_size,
        max_iter=20,
        tol=1e-6,
        random_state=0,
    )
    found = model.fit_predict(X)
    # One pass does not get to the very end.
    assert agreement(found, labels) > (0.95 if schedule == "streaming" else 0.99)
    shapes = {"full": (4, 3, 3), "diag": (4, 3), "spherical": (4,), "tied": (3, 3)}
    assert model.covariances_.shape == shapes[covariance_type]


@pytest.mark.parametrize("init_params", ["auto", "bregman", "kmeans", "k-means++", "random_from_data", "random"])
def test_every_way_to_start(blobs, init_params, tmp_path):
    X, labels = blobs
    model = GaussianMixture(4, init_params=init_params, n_init=5, max_iter=200, tol=1e-7, random_state=0).fit(X)
    # Rows at random may be two of one group and none of another.
    assert agreement(model.predict(X), labels) > (0.7 if init_params == "random_from_data" else 0.99)
    lsparse.save(model, tmp_path / "m.safetensors")
    assert lsparse.load(tmp_path / "m.safetensors").init_params == init_params


def test_every_search(tmp_path):
    rng = np.random.default_rng(0)
    X = (rng.normal(size=(60, 5)) * 6)[rng.integers(60, size=6000)] + rng.normal(size=(6000, 5))
    kept = dict(n_components=60, sparsity=4, batch_size=1500, max_iter=6, tol=0, random_state=0)
    models = {search: GaussianMixture(search=search, **kept).fit(X) for search in ("dense", "exact", "neighbours")}
    # The bound rules out what does not matter; candidates may miss a little.
    assert models["exact"].objective_ == models["dense"].objective_
    assert models["neighbours"].score(X) == pytest.approx(models["dense"].score(X), abs=0.05)
    assert not np.array_equal(models["neighbours"].means_, models["dense"].means_)
    lsparse.save(models["neighbours"], tmp_path / "m.safetensors")
    assert lsparse.load(tmp_path / "m.safetensors").search == "neighbours"


def test_scores_are_densities(blobs):
    X, _ = blobs
    model = GaussianMixture(4, estimate="map", random_state=0).fit(X)
    parts = [
        np.log(w) + multivariate_normal(m, c).logpdf(X)
        for w, m, c in zip(model.weights_, model.means_, model.covariances_, strict=True)
    ]
    expected = np.logaddexp.reduce(parts, axis=0)
    np.testing.assert_allclose(model.score_samples(X), expected, rtol=1e-9)
    assert model.score(X) == pytest.approx(expected.mean())
    parameters = 3 + 4 * (3 + 6)
    assert model.bic(X) == pytest.approx(parameters * np.log(len(X)) - 2 * expected.sum())
    assert model.aic(X) == pytest.approx(2 * parameters - 2 * expected.sum())


def test_sparse_and_dense_responsibilities_agree(blobs):
    X, _ = blobs
    model = GaussianMixture(10, sparsity=3, max_iter=5, tol=0, random_state=0).fit(X)
    sparse, dense = model.predict_sparse(X), model.predict_proba(X)
    assert sparse.format == "csr" and sparse.nnz == 3 * len(X) and sparse.has_sorted_indices
    np.testing.assert_allclose(sparse.sum(axis=1), 1.0)
    np.testing.assert_allclose(dense.sum(axis=1), 1.0)
    largest = np.sort(dense, axis=1)[:, -3:]
    kept = np.sort(sparse.data.reshape(-1, 3), axis=1)
    np.testing.assert_allclose(kept, largest / largest.sum(axis=1, keepdims=True), rtol=1e-9)
    np.testing.assert_array_equal(model.predict(X), dense.argmax(axis=1))
    assert model.predict_sparse(X, sparsity=10).nnz == 10 * len(X)


def test_as_few_responsibilities_as_matter(blobs, command, tmp_path):
    X, _ = blobs
    np.save(tmp_path / "rows.npy", X)
    model = GaussianMixture(40, sparsity="auto", max_iter=5, tol=0, random_state=0).fit(X)
    kept = model.predict_sparse(X).nnz / len(X)
    assert 1 <= kept < 20, "far fewer than all"
    run = [command, "fit", "mixture", "rows.npy", "-k", "40", "--sparsity", "auto", "--laps", "5", "--tolerance", "none"]
    subprocess.run([*run, "--quiet", "--out", "m.safetensors"], check=True, cwd=tmp_path)
    theirs = lsparse.load(tmp_path / "m.safetensors")
    assert theirs.sparsity == kept
    np.testing.assert_array_equal(theirs.means_, model.means_)
    with pytest.raises(ValueError, match="among {'auto'}"):
        GaussianMixture(4, sparsity="all").fit(X)


def test_zero_mean_patches():
    rng = np.random.default_rng(0)
    scales = np.array([[5.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 5.0]])[rng.integers(2, size=3000)]
    X = (rng.normal(size=(3000, 4)) * scales).astype(np.float32)
    model = GaussianMixture(2, covariance_type="zero-mean", random_state=0).fit(X)
    assert (model.means_ == 0).all()
    variances = np.sort(np.diagonal(model.covariances_, axis1=1, axis2=2)[:, 0])
    np.testing.assert_allclose(variances, [1.0, 25.0], rtol=0.15)


def test_counts_and_bits_dense_and_sparse_of_every_type():
    rng = np.random.default_rng(0)
    probabilities = np.array([[0.7, 0.1, 0.1, 0.1], [0.1, 0.1, 0.1, 0.7]])
    labels = rng.integers(2, size=500)
    X = np.stack([rng.multinomial(20, probabilities[k]) for k in labels])
    models = [MultinomialMixture(2, random_state=0).fit(X.astype(np.float64))]
    assert agreement(models[0].predict(X), labels) > 0.99
    np.testing.assert_allclose(np.sort(models[0].components_[:, 0]), [0.1, 0.7], atol=0.03)
    for dtype in ["f8", "i4", "i8", "u4", "u8"]:
        for index in [np.int32, np.int64]:
            matrix = sp.csr_array(X.astype(dtype))
            matrix.indices, matrix.indptr = matrix.indices.astype(index), matrix.indptr.astype(index)
            models.append(MultinomialMixture(2, random_state=0).fit(matrix))
    for model in models[1:]:
        np.testing.assert_array_equal(model.components_, models[0].components_)
    # What fits into 32 bits is worked on in 32.
    for dtype in ["f4", "i1", "u1", "i2", "u2", "f2"]:
        model = MultinomialMixture(2, random_state=0).fit(sp.csr_array(X.astype("f4")).astype(dtype) if dtype != "f2" else X.astype("f2"))
        np.testing.assert_allclose(model.components_, models[0].components_, rtol=1e-4)
    bits = BernoulliMixture(2, random_state=0).fit(X > 6)
    sparse_bits = BernoulliMixture(2, binarize=None, random_state=0).fit(sp.csr_array(X > 6).astype(np.float64))
    np.testing.assert_allclose(bits.components_, sparse_bits.components_)
    by_threshold = BernoulliMixture(2, binarize=6, random_state=0).fit(X)
    np.testing.assert_allclose(bits.components_, by_threshold.components_)
    assert BernoulliMixture(2, random_state=0).fit(sp.csr_array(X > 6)).n_features_in_ == 4


def test_columns_out_of_order_are_sorted_in_a_copy():
    matrix = sp.csr_array(([5.0, 1.0, 1.0, 7.0], [1, 0, 0, 1], [0, 2, 4]), shape=(2, 2))
    data = matrix.data.copy()
    MultinomialMixture(1, random_state=0).fit(matrix)
    np.testing.assert_array_equal(matrix.data, data)
    assert not matrix.has_sorted_indices


def test_weights_of_rows(blobs):
    X, labels = blobs
    weights = np.where(labels == 0, 3.0, 1.0)
    plain, weighted = (
        GaussianMixture(4, estimate="ml", random_state=0).fit(X, sample_weight=w) for w in (None, weights)
    )
    share = (labels == 0).mean()
    left = [model.weights_[model.means_[:, 0].argmin()] for model in (plain, weighted)]
    np.testing.assert_allclose(left, [share, 3 * share / (1 + 2 * share)], rtol=0.02)
    with pytest.raises(ValueError, match="zero or more"):
        GaussianMixture(4).fit(X, sample_weight=-weights)


def test_what_a_fit_leaves_behind(blobs):
    X, _ = blobs
    model = GaussianMixture(4, batch_size=500, n_init=2, random_state=0).fit(X)
    frame = pd.DataFrame(model.trace_)
    assert {"run", "step", "lap", "seconds", "objective", "empty_components"} <= set(frame)
    assert sorted(frame["run"].unique()) == [0, 1]
    assert model.converged_ and model.n_iter_ >= 2
    ends = frame.groupby("run")["objective"].last()
    assert model.objective_ == ends.max()
    run = frame[frame["run"] == 0]
    assert (np.diff(run["objective"].to_numpy()[4:]) > -1e-9 * abs(model.objective_)).all()


def test_warm_start_goes_on(blobs):
    X, _ = blobs
    model = GaussianMixture(12, max_iter=1, tol=0, warm_start=True, random_state=0)
    objectives = [model.fit(X).objective_ for _ in range(4)]
    assert objectives == sorted(objectives) and objectives[0] < objectives[-1]


@pytest.mark.parametrize("schedule", ["streaming", "stochastic"])
def test_partial_fit(blobs, schedule):
    X, labels = blobs
    model = GaussianMixture(4, schedule=schedule, random_state=0, total_samples=2000)
    for start in range(0, 2000, 400):
        assert model.partial_fit(X[start : start + 400]) is model
    assert agreement(model.predict(X), labels) > 0.99
    assert model.n_iter_ == 5 and len(model.trace_["step"]) == 5
    np.testing.assert_allclose(model.weights_.sum(), 1.0)
    if schedule == "streaming":
        # Every row once: the means are nearly those of the groups, old rows as much as new ones.
        np.testing.assert_allclose(np.sort(model.weights_), np.sort(np.bincount(labels) / 2000), atol=0.01)


def test_stochastic_partial_fit_forgets(blobs):
    X, _ = blobs
    model = GaussianMixture(1, schedule="stochastic", learning_decay=0.6, random_state=0).partial_fit(X)
    for _ in range(30):
        model.partial_fit(X + 100.0)
    assert model.means_.min() > 85.0
    streaming = GaussianMixture(1, random_state=0).partial_fit(X).partial_fit(X + 100.0)
    np.testing.assert_allclose(streaming.means_[0], X.mean(axis=0) + 50.0, atol=0.1)


def test_sample(blobs):
    X, labels = blobs
    model = GaussianMixture(4, random_state=0).fit(X)
    drawn, components = model.sample(4000)
    np.testing.assert_array_equal(drawn, model.sample(4000)[0])
    assert agreement(model.predict(drawn), components) > 0.99
    np.testing.assert_allclose(drawn.mean(axis=0), X.mean(axis=0), atol=0.5)
    with pytest.raises(ValueError, match="at least one sample"):
        model.sample(0)
    bits = BernoulliMixture(2, random_state=0).fit(X).sample(50)[0]
    assert set(np.unique(bits)) <= {0.0, 1.0}


def test_the_number_of_threads_changes_nothing(blobs):
    X, _ = blobs
    one, two, all_cores = (GaussianMixture(8, random_state=1, n_jobs=n).fit(X) for n in (1, 2, -1))
    np.testing.assert_array_equal(one.means_, two.means_)
    np.testing.assert_array_equal(one.means_, all_cores.means_)


def test_seeds(blobs):
    X, _ = blobs
    fit = lambda state: GaussianMixture(8, max_iter=2, tol=0, random_state=state).fit(X).means_
    np.testing.assert_array_equal(fit(5), fit(5))
    np.testing.assert_array_equal(fit(np.random.RandomState(5)), fit(np.random.RandomState(5)))
    assert not np.array_equal(fit(5), fit(6))
    assert not np.array_equal(fit(None), fit(None))


@pytest.mark.parametrize("covariance_type", ["full", "diag"])
def test_missing_values_are_integrated_out(covariance_type):
    rng = np.random.default_rng(0)
    group = rng.integers(3, size=900)
    X = rng.normal(size=(900, 4)) + 8.0 * rng.normal(size=(3, 4))[group]
    holes = np.where(rng.random(X.shape) < 0.2, np.nan, X)
    model = GaussianMixture(3, covariance_type=covariance_type, missing=True, n_init=5, random_state=0)
    with pytest.raises(ValueError, match="NaN"):
        clone(model).set_params(missing=False).fit(holes)
    model.fit(holes)
    labels = model.predict(holes)
    found = sum(np.bincount(group[labels == k]).max() for k in np.unique(labels))
    assert found > 0.95 * len(X)
    # The density of a row is that of the columns that it has.
    point = clone(model).set_params(estimate="map").fit(holes)
    if covariance_type == "full":
        seen = [0, 3]
        logs = [
            np.log(w) + multivariate_normal(m[seen], c[np.ix_(seen, seen)]).logpdf(X[:5][:, seen])
            for w, m, c in zip(point.weights_, point.means_, point.covariances_, strict=True)
        ]
        rows = X[:5].copy()
        rows[:, [1, 2]] = np.nan
        np.testing.assert_allclose(point.score_samples(rows), np.logaddexp.reduce(logs, axis=0), rtol=1e-9)
    # With nothing missing the option changes nothing.
    plain = clone(model).set_params(missing=False).fit(X)
    np.testing.assert_array_equal(clone(model).fit(X).means_, plain.means_)


def student_t_scores():
    """The function that the documentation gives to NumPy users."""
    page = (Path(__file__).parents[3] / "docs/python.md").read_text()
    code = next(part for part in page.split("```python\n")[1:] if "def student_t_scores" in part).split("```")[0]
    names = {"np": np}
    exec(code, names)
    return names["student_t_scores"]


@pytest.mark.parametrize("covariance_type", ["full", "zero-mean"])
def test_scores_of_a_posterior_are_student_t(blobs, covariance_type):
    X, far = blobs[0][:40], 50 * blobs[0][:5]
    model = GaussianMixture(3, covariance_type=covariance_type, random_state=0).fit(X)
    for rows in (blobs[0], far):
        np.testing.assert_allclose(model.score_samples(rows), student_t_scores()(model, rows), rtol=1e-9)
    # Far away such a density is much higher than that of a Gaussian.
    point = GaussianMixture(3, covariance_type=covariance_type, estimate="map", random_state=0).fit(X)
    assert not hasattr(point, "degrees_of_freedom_")
    assert model.score_samples(far).min() > point.score_samples(far).max()


def test_scores_of_a_diagonal_posterior_are_products_of_student_t(blobs):
    X, _ = blobs
    model = GaussianMixture(3, covariance_type="diag", random_state=0).fit(X[:40])
    nu, kappa = model.degrees_of_freedom_[:, None], model.mean_precision_[:, None]
    scale = np.sqrt(model.covariances_ * (nu - 2) / nu * (1 + 1 / kappa))
    parts = np.log(model.weights_) + t.logpdf(X[:, None, :], nu, model.means_, scale).sum(axis=2)
    np.testing.assert_allclose(model.score_samples(X), np.logaddexp.reduce(parts, axis=1), rtol=1e-9)


def test_stochastic_partial_fit_takes_the_rate_and_the_scale_of_the_library(blobs):
    X, _ = blobs
    model = GaussianMixture(1, schedule="stochastic", estimate="ml", learning_decay=1.0, random_state=0).partial_fit(X)
    steps = json.loads(model.model_.training)["steps"]
    before, rate = model.means_.copy(), 1.0 / (1.0 + steps + 1.0)
    model.partial_fit(X + 100.0)
    np.testing.assert_allclose(model.means_, before + rate * (X.mean(0) + 100.0 - before), rtol=1e-5)

    # Rows that weigh little are few: weights are added to weights.
    weights = np.full(len(X), 0.01)
    model = GaussianMixture(1, schedule="stochastic", estimate="vb", mean_precision_prior=1e-4, random_state=0)
    model.partial_fit(X, sample_weight=weights).partial_fit(X, sample_weight=weights)
    counts = model.model_.arrays()["mean_counts"] - model.mean_precision_prior
    np.testing.assert_allclose(counts, 2 * weights.sum(), rtol=1e-5)


@pytest.mark.parametrize("covariance_type", ["full", "diag", "spherical", "tied"])
def test_columns_may_be_in_any_units(blobs, covariance_type, tmp_path):
    """Standardized columns give the same components in any units, and all that is shown is in those of the data."""
    X, labels = blobs
    scale, shift = np.geomspace(1e-4, 1e3, X.shape[1]), np.linspace(-5.0, 300.0, X.shape[1])
    other = X * scale + shift
    model = GaussianMixture(4, covariance_type=covariance_type, standardize=True, n_init=3, random_state=0)
    a, b = clone(model).fit(X), clone(model).fit(other)
    assert (a.predict(X) == b.predict(other)).all()
    np.testing.assert_allclose((b.means_ - shift) / scale, a.means_, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(b.score(other), a.score(X) - np.log(scale).sum(), rtol=1e-6)
    drawn, _ = b.sample(2000)
    assert (np.abs(drawn.mean(axis=0) - other.mean(axis=0)) < 0.2 * other.std(axis=0)).all()
    assert b.covariances_.shape == ((4, X.shape[1]) if covariance_type == "spherical" else a.covariances_.shape)
    # Files keep the units, and going on does too.
    lsparse.save(b, tmp_path / "m.safetensors")
    again = lsparse.load(tmp_path / "m.safetensors")
    assert again.standardize and (again.predict(other) == b.predict(other)).all()
    assert clone(b).set_params(max_iter=2).fit(other).partial_fit(other).score(other) > -np.inf


def test_scales_far_apart_are_warned_of(blobs):
    X, _ = blobs
    other = X * np.geomspace(1e-4, 1e3, X.shape[1])
    with pytest.warns(UserWarning, match="standardize=True"):
        GaussianMixture(4, covariance_type="spherical", random_state=0).fit(other)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        GaussianMixture(4, covariance_type="spherical", standardize=True, random_state=0).fit(other)
        GaussianMixture(4, covariance_type="full", random_state=0).fit(other)
