"""The estimators are scikit-learn's in manner."""

import pickle

import joblib
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from lsparse import BernoulliMixture, GaussianMixture, MultinomialMixture, PoissonMixture, TopicModel
from sklearn.base import clone
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

ESTIMATORS = [
    GaussianMixture(n_components=2),
    GaussianMixture(n_components=2, covariance_type="diag", estimate="ml"),
    MultinomialMixture(n_components=2),
    PoissonMixture(n_components=2),
    BernoulliMixture(n_components=2),
    TopicModel(n_components=2),
]


def known_failures(estimator):
    """Checks that cannot apply, and why."""
    checks = {}
    if not isinstance(estimator, TopicModel):
        # As for scikit-learn's own KMeans.
        seeds = "seeds are drawn from the rows at random, and a row of weight two is another draw than two rows"
        checks["check_sample_weight_equivalence_on_dense_data"] = seeds
    if not isinstance(estimator, GaussianMixture | TopicModel):
        checks["check_sample_weight_equivalence_on_sparse_data"] = seeds
    if not isinstance(estimator, GaussianMixture):
        classifier = "the check takes whatever has predict_proba and reads sparse data for a classifier"
        checks["check_estimator_sparse_array"] = classifier
        checks["check_estimator_sparse_matrix"] = classifier
    return checks


@parametrize_with_checks([type(estimator)() for estimator in ESTIMATORS[1:]], expected_failed_checks=known_failures)
def test_check_estimator(estimator, check):
    check(estimator)


@pytest.mark.parametrize("estimator", ESTIMATORS[2:], ids=lambda e: type(e).__name__)
def test_sparse_input_of_every_format(estimator):
    """What the check that is passed over would look at."""
    X = np.random.default_rng(0).uniform(size=(40, 3))
    X[X < 0.6] = 0
    expected = clone(estimator).set_params(random_state=0).fit(X).predict_proba(X)
    assert expected.shape == (40, 2)
    for container in (sp.csr_array, sp.csr_matrix):
        for form in ("csr", "csc", "coo", "lil", "dok", "dia", "bsr"):
            matrix = container(X).asformat(form)
            model = clone(estimator).set_params(random_state=0).fit(matrix)
            np.testing.assert_allclose(model.predict_proba(matrix), expected, rtol=1e-9)


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: type(e).__name__)
def test_clone_pickle_and_joblib(estimator, tmp_path):
    X = np.abs(np.random.default_rng(0).normal(size=(100, 3))).round() + 1.0
    fitted = clone(estimator).set_params(random_state=3, max_iter=5, tol=0.0).fit(X)
    assert not hasattr(clone(fitted), "model_")
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.transform(X), fitted.transform(X))
    assert again.trace_.keys() == fitted.trace_.keys()
    joblib.dump(fitted, tmp_path / "model.joblib")
    np.testing.assert_array_equal(joblib.load(tmp_path / "model.joblib").predict(X), fitted.predict(X))
    results = joblib.Parallel(n_jobs=2)(joblib.delayed(fitted.score)(X) for _ in range(2))
    assert results == [fitted.score(X)] * 2


def test_pipeline_grid_search_and_set_output(blobs):
    X, _ = blobs
    pipeline = make_pipeline(StandardScaler(), GaussianMixture(random_state=0))
    grid = GridSearchCV(pipeline, {"gaussianmixture__n_components": [1, 4]}, cv=3).fit(X)
    assert grid.best_params_ == {"gaussianmixture__n_components": 4}
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    model = GaussianMixture(n_components=4, random_state=0).set_output(transform="pandas").fit(frame)
    found = model.transform(frame)
    assert isinstance(found, pd.DataFrame)
    assert list(found.columns) == list(model.get_feature_names_out()) == [f"gaussianmixture{k}" for k in range(4)]
    assert list(model.feature_names_in_) == ["a", "b", "c"]


def test_text_through_a_pipeline():
    texts = ["cats and dogs", "dogs chase cats", "stars and moons", "moons circle stars"] * 20
    pipeline = make_pipeline(CountVectorizer(), TopicModel(n_components=2, random_state=0))
    shares = pipeline.fit_transform(texts)
    assert shares.shape == (80, 2)
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)
    labels = shares.argmax(axis=1)
    assert labels[0] == labels[1] != labels[2] == labels[3]
    grid = GridSearchCV(pipeline, {"topicmodel__n_components": [1, 2]}, cv=2).fit(texts)
    assert grid.best_params_ == {"topicmodel__n_components": 2}
