"""What scikit-learn's mixtures and topics have: starts and priors that are given, and what a fit leaves behind."""

import numpy as np
import pytest
from lsparse import BernoulliMixture, GaussianMixture, LsparseError, MultinomialMixture, TopicModel
from scipy.stats import multivariate_normal
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV

KINDS = ["full", "diag", "spherical", "tied", "zero-mean"]


def shapes(kind, components=4, columns=3):
    rng = np.random.default_rng(5)
    factors = rng.normal(size=(components, columns, columns))
    full = factors @ factors.swapaxes(1, 2) + np.eye(columns)
    return {
        "full": full,
        "zero-mean": full,
        "tied": full[0],
        "diag": rng.uniform(0.5, 2.0, (components, columns)),
        "spherical": rng.uniform(0.5, 2.0, components),
    }[kind]


@pytest.mark.parametrize("kind", KINDS)
def test_a_given_start_is_where_training_starts(kind, blobs):
    X, _ = blobs
    rng = np.random.default_rng(1)
    covariances = shapes(kind)
    given = {
        "weights_init": rng.dirichlet(np.ones(4)),
        "means_init": None if kind == "zero-mean" else rng.normal(size=(4, 3)) * 5,
        "precisions_init": 1 / covariances if kind in ("diag", "spherical") else np.linalg.inv(covariances),
    }
    start = GaussianMixture(4, covariance_type=kind, estimate="ml", max_iter=0, random_state=0, **given).fit(X)
    np.testing.assert_allclose(start.weights_, given["weights_init"])
    np.testing.assert_allclose(start.covariances_, covariances, rtol=1e-9)
    np.testing.assert_allclose(start.precisions_, given["precisions_init"], rtol=1e-9)
    if kind != "zero-mean":
        np.testing.assert_allclose(start.means_, given["means_init"], rtol=1e-9)
    assert start.n_iter_ == 0
    # One lap from there is one step of EM.
    one = GaussianMixture(4, covariance_type=kind, estimate="ml", sparsity=4, schedule="full", max_iter=1, tol=0, **given)
    one.fit(X)
    full = covariances
    if kind == "diag":
        full = np.stack([np.diag(row) for row in covariances])
    elif kind == "spherical":
        full = covariances[:, None, None] * np.eye(3)
    elif kind == "tied":
        full = np.stack([covariances] * 4)
    means = np.zeros((4, 3)) if kind == "zero-mean" else given["means_init"]
    weigh = [w * multivariate_normal(m, c).pdf(X) for w, m, c in zip(given["weights_init"], means, full, strict=True)]
    shares = np.stack(weigh, axis=1)
    shares /= shares.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(one.weights_, shares.mean(axis=0), rtol=1e-6)
    if kind != "zero-mean":
        np.testing.assert_allclose(one.means_, shares.T @ X / shares.sum(axis=0)[:, None], rtol=1e-6)


def test_a_part_of_a_start_is_given(blobs):
    X, _ = blobs
    means = np.array([[-9.0, 0, 3], [9, 0, 1], [0, 9, -3], [0, -9, 0]])
    model = GaussianMixture(4, means_init=means, random_state=0).fit(X)
    np.testing.assert_allclose(model.means_, means, atol=0.2)
    start = GaussianMixture(4, means_init=means, estimate="ml", max_iter=0, random_state=0).fit(X)
    np.testing.assert_allclose(start.means_, means, atol=1e-12)
    resumed = GaussianMixture(4, means_init=means + 1, random_state=0)
    with pytest.raises(ValueError, match=r"The parameter 'means' should have the shape of \(4, 3\), but got \(3, 3\)"):
        resumed.set_params(means_init=means[:3]).fit(X)


def test_a_checkpoint_knows_the_start_that_was_given(blobs, tmp_path):
    X, _ = blobs
    means = np.array([[-9.0, 0, 3], [9, 0, 1], [0, 9, -3], [0, -9, 0]])
    GaussianMixture(4, means_init=means, random_state=0).fit(X, checkpoint=tmp_path / "c")
    with pytest.raises(LsparseError, match="it is of another run: given clusters was"):
        GaussianMixture(4, means_init=means + 1, random_state=0).fit(X, checkpoint=tmp_path / "c", resume=True)


@pytest.mark.parametrize("kind", KINDS)
def test_precisions_are_inverses(kind, blobs):
    model = GaussianMixture(4, covariance_type=kind, random_state=0).fit(blobs[0])
    if kind in ("diag", "spherical"):
        np.testing.assert_allclose(model.precisions_ * model.covariances_, 1.0)
        np.testing.assert_allclose(model.precisions_cholesky_**2, model.precisions_)
    else:
        np.testing.assert_allclose(model.precisions_ @ model.covariances_, np.broadcast_to(np.eye(3), model.covariances_.shape), atol=1e-9)
        upper = model.precisions_cholesky_
        np.testing.assert_allclose(upper @ np.swapaxes(upper, -1, -2), model.precisions_, rtol=1e-9)
        np.testing.assert_array_equal(np.tril(upper, -1), 0.0)


def test_priors_and_posteriors(blobs):
    X, _ = blobs
    model = GaussianMixture(4, weight_concentration_prior=0.7, mean_precision_prior=0.5, random_state=0).fit(X)
    assert model.weight_concentration_prior_ == pytest.approx(0.7)
    np.testing.assert_allclose(model.weight_concentration_ / model.weight_concentration_.sum(), model.weights_)
    counts = model.weight_concentration_ - 0.7
    np.testing.assert_allclose(counts.sum(), len(X))
    np.testing.assert_allclose(model.mean_precision_, counts + 0.5)
    np.testing.assert_allclose(model.degrees_of_freedom_, counts + model.degrees_of_freedom_prior_)
    np.testing.assert_allclose(model.mean_prior_, X.mean(axis=0))
    # Given ones are those that are used.
    mean, scale = np.array([1.0, 2.0, 3.0]), np.array([0.5, 1.0, 2.0])
    for kind in KINDS:
        prior = {"diag": scale, "spherical": 0.8}.get(kind, np.diag(scale))
        given = {} if kind == "zero-mean" else {"mean_prior": mean}
        model = GaussianMixture(4, covariance_type=kind, covariance_prior=prior, degrees_of_freedom_prior=9.0, random_state=0, **given).fit(X)
        np.testing.assert_allclose(model.covariance_prior_, prior)
        np.testing.assert_allclose(model.mean_prior_, np.zeros(3) if kind == "zero-mean" else mean)
        assert model.degrees_of_freedom_prior_ == 9.0
    # A prior that is worth more than the data decides.
    strong = GaussianMixture(1, mean_prior=mean, mean_precision_prior=1e9, random_state=0).fit(X)
    np.testing.assert_allclose(strong.means_[0], mean, atol=1e-4)
    one_for_all = GaussianMixture(2, covariance_prior=0.5, random_state=0).fit(X)
    np.testing.assert_allclose(one_for_all.covariance_prior_, 0.5 * np.eye(3))
    with pytest.raises(LsparseError, match="mean_prior: the means are zero"):
        GaussianMixture(2, covariance_type="zero-mean", mean_prior=mean).fit(X)
    with pytest.raises(ValueError, match="'full covariance_prior' should be diagonal"):
        GaussianMixture(2, covariance_prior=np.ones((3, 3))).fit(X)


def test_reg_covar_is_the_smallest_variance(blobs):
    X = np.concatenate([blobs[0][:, :2], np.zeros((len(blobs[0]), 1))], axis=1)
    for kind in ("full", "diag"):
        model = GaussianMixture(2, covariance_type=kind, estimate="ml", reg_covar=0.25, random_state=0).fit(X)
        variances = model.covariances_ if kind == "diag" else np.diagonal(model.covariances_, axis1=1, axis2=2)
        np.testing.assert_allclose(variances[:, 2], 0.25)
        assert (variances[:, :2] > 0.25).all()


def test_results_have_the_type_of_the_rows(blobs, documents):
    for dtype in (np.float32, np.float64):
        X = blobs[0].astype(dtype)
        model = GaussianMixture(4, random_state=0).fit(X)
        attributes = (model.weights_, model.means_, model.covariances_, model.precisions_, model.precisions_cholesky_)
        results = (model.predict_proba(X), model.transform(X), model.score_samples(X), model.predict_sparse(X))
        assert {result.dtype for result in (*attributes, *results)} == {np.dtype(dtype)}
        assert isinstance(model.score(X), float)
        bits = BernoulliMixture(2, random_state=0).fit(X)
        assert bits.components_.dtype == bits.predict_proba(X).dtype == dtype
        counts = documents[0].astype(dtype)
        topics = TopicModel(3, random_state=0).fit(counts)
        assert topics.components_.dtype == topics.topics_.dtype == topics.transform(counts).dtype == dtype
    assert TopicModel(3, random_state=0).fit(documents[0]).components_.dtype == np.float64


def test_bounds_and_labels(blobs):
    X, labels = blobs
    model = GaussianMixture(4, random_state=0, compute_labels=True).fit(X)
    assert model.lower_bound_ == pytest.approx(model.objective_ / len(X))
    assert len(model.lower_bounds_) == model.n_iter_ and model.lower_bounds_[-1] == pytest.approx(model.lower_bound_)
    np.testing.assert_array_equal(model.labels_, model.predict(X))
    model.set_params(compute_labels=False).fit(X)
    with pytest.raises(AttributeError, match="give compute_labels=True before fit"):
        model.labels_
    # Under maximum likelihood with all components it is the mean log likelihood, once at rest.
    em = GaussianMixture(4, estimate="ml", sparsity=4, tol=1e-9, max_iter=500, random_state=0).fit(X)
    assert em.lower_bound_ == pytest.approx(em.score(X), abs=1e-6)


def test_a_grid_over_components_with_one_sparsity(blobs):
    grid = GridSearchCV(GaussianMixture(sparsity=8, random_state=0), {"n_components": [2, 4, 12]}, cv=2).fit(blobs[0])
    assert np.isfinite(grid.cv_results_["mean_test_score"]).all()
    few = GaussianMixture(4, sparsity=4, random_state=0).fit(blobs[0])
    with pytest.warns(UserWarning, match="sparsity=40 is more than K = 4: all 4 are kept"):
        all_of_them = GaussianMixture(4, sparsity=40, random_state=0).fit(blobs[0])
    np.testing.assert_array_equal(few.means_, all_of_them.means_)
    assert few.predict_sparse(blobs[0], sparsity=50).nnz == 4 * len(blobs[0])
    assert GridSearchCV(TopicModel(sparsity=8, random_state=0), {"n_components": [2, 3]}, cv=2).fit(
        np.ones((20, 5))
    ).best_score_ < 0


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_warm_starts_come_to_rest_lap_by_lap(blobs, documents):
    model = GaussianMixture(4, warm_start=True, max_iter=1, random_state=0)
    topics = TopicModel(3, warm_start=True, max_iter=1, random_state=0)
    for estimator, X in ((model, blobs[0]), (topics, documents[0])):
        assert not estimator.fit(X).converged_
        assert any(estimator.fit(X).converged_ for _ in range(50))


def test_names_of_features_are_those_of_fitted_ones(blobs):
    for estimator in (GaussianMixture(3), TopicModel(3)):
        with pytest.raises(NotFittedError):
            estimator.get_feature_names_out()
    model = GaussianMixture(3, random_state=0).fit(blobs[0]).set_params(n_components=5)
    assert len(model.get_feature_names_out()) == 3


def test_priors_of_topics_number_by_number(documents):
    X, _ = documents
    alpha = np.array([0.1, 0.2, 3.0])
    model = TopicModel(3, doc_topic_prior=alpha, random_state=0).fit(X)
    np.testing.assert_allclose(model.doc_topic_prior_, alpha, rtol=1e-6)
    empty = model.transform(np.zeros((1, 60)))
    np.testing.assert_allclose(empty[0], alpha / alpha.sum(), rtol=1e-6)
    np.testing.assert_allclose(model.transform(X, normalize=False).sum(axis=1), X.sum(axis=1) + alpha.sum(), rtol=1e-6)
    # One number a word, one a word and topic.
    by_word = np.linspace(0.1, 2.0, 60)
    words = TopicModel(3, topic_word_prior=by_word, max_iter=2, tol=0, random_state=0).fit(X)
    same = TopicModel(3, topic_word_prior=np.tile(by_word, (3, 1)), max_iter=2, tol=0, random_state=0).fit(X)
    np.testing.assert_array_equal(words.components_, same.components_)
    np.testing.assert_allclose((words.components_ - by_word).sum(), X.sum(), rtol=1e-5)
    flat = TopicModel(3, topic_word_prior=np.full(60, 0.3), max_iter=2, tol=0, random_state=0).fit(X)
    np.testing.assert_array_equal(flat.topics_, TopicModel(3, topic_word_prior=0.3, max_iter=2, tol=0, random_state=0).fit(X).topics_)
    for name, wrong in (("doc_topic_prior", [0.1, 0.2]), ("topic_word_prior", np.ones((2, 2))), ("doc_topic_prior", [0.0, 1, 1])):
        with pytest.raises(LsparseError, match=f"{name}: "):
            TopicModel(3, **{name: wrong}).fit(X)
    with pytest.raises(LsparseError, match="has the same prior for all topics and words"):
        TopicModel(3, doc_topic_prior=alpha, method="sparse-lda").fit(X)


def test_seed_words_pull_topics(documents):
    X, _ = documents
    words = [f"w{v}" for v in range(60)]
    seeds = [[], ["w25", "w31"], ["w2"]]
    model = TopicModel(3, vocabulary=words, seed_words=seeds, random_state=0).fit(X)
    own = model.topics_.reshape(3, 3, 20).sum(axis=2).argmax(axis=1)
    assert own[1] == 1 and own[2] == 0
    by_column = TopicModel(3, seed_words=[[], [25, 31], [2]], random_state=0).fit(X)
    np.testing.assert_array_equal(by_column.topics_, model.topics_)
    with pytest.raises(LsparseError, match="seed_words: 'w99' is not in the vocabulary"):
        TopicModel(3, vocabulary=words, seed_words=[["w99"]]).fit(X)
    with pytest.raises(LsparseError, match="4 lists for 3 topics"):
        TopicModel(3, vocabulary=words, seed_words=[["w1"]] * 4).fit(X)


def test_scores_of_documents_are_those_of_each_alone(documents):
    X, _ = documents
    model = TopicModel(3, random_state=0).fit(X)
    scores = model.score_samples(X)
    assert scores.shape == (300,) and np.isfinite(scores).all()
    np.testing.assert_array_equal(model.score_samples(X[:7]), scores[:7])
    # The first document is completed as score does it.
    assert scores[0] == pytest.approx(model.score(X[:1]), rel=1e-12)
    assert scores.mean() == pytest.approx(model.score(X), abs=0.1)
    assert np.isnan(model.score_samples(np.eye(60))).all()


def test_given_starts_are_for_gaussians():
    with pytest.raises(TypeError):
        MultinomialMixture(2, means_init=[[1.0]])
