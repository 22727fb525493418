"""What bad input gets: scikit-learn's exceptions where it has them, the library's elsewhere, and never a crash."""

import pickle

import lsparse
import numpy as np
import pytest
import scipy.sparse as sp
from lsparse import BernoulliMixture, GaussianMixture, LsparseError, MultinomialMixture, TopicModel, _core
from sklearn.exceptions import ConvergenceWarning, NotFittedError

X = np.random.default_rng(0).normal(size=(30, 2))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (np.full((5, 2), np.nan), "contains NaN"),
        (np.full((5, 2), np.inf), "contains infinity"),
        (np.zeros(5), "Expected 2D array"),
        (np.zeros((2, 2, 2)), "dim 3"),
        (np.zeros((0, 2)), "0 sample"),
        (np.zeros((5, 0)), "0 feature"),
        (np.array([["a", "b"], ["c", "d"]]), "could not convert string to float"),
        (np.full((5, 2), 1j), "Complex data not supported"),
    ],
)
def test_scikit_learn_speaks_first(data, message):
    for model in (GaussianMixture(2), BernoulliMixture(2), TopicModel(2)):
        with pytest.raises(ValueError, match=message):
            model.fit(data)


def test_sparse_data():
    with pytest.raises(TypeError, match="Sparse data was passed"):
        GaussianMixture(2).fit(sp.csr_array(X))
    for model in (BernoulliMixture(2), MultinomialMixture(2), TopicModel(2)):
        with pytest.raises(ValueError, match="Complex data not supported"):
            model.fit(sp.csr_array(np.full((5, 2), 1j)))
        with pytest.raises(ValueError, match="contains NaN"):
            model.fit(sp.csr_array(np.full((5, 2), np.nan)))


def test_shapes_and_order_of_calls():
    with pytest.raises(NotFittedError):
        GaussianMixture().predict(X)
    with pytest.raises(NotFittedError):
        TopicModel().top_words()
    model = GaussianMixture(2, random_state=0).fit(X)
    with pytest.raises(ValueError, match="X has 3 features, but GaussianMixture is expecting 2 features"):
        model.predict(np.zeros((4, 3)))
    with pytest.raises(ValueError, match="Negative values in data passed to MultinomialMixture"):
        MultinomialMixture(2).fit(X)
    with pytest.raises(ValueError, match="Negative values in data passed to TopicModel"):
        TopicModel(2).fit(X)


@pytest.mark.parametrize(
    "parameters",
    [
        {"n_components": 0},
        {"n_components": 2.5},
        {"sparsity": 0},
        {"covariance_type": "round"},
        {"estimate": "em"},
        {"schedule": "online"},
        {"tol": -1.0},
        {"max_iter": 0},
        {"learning_decay": 0.5},
        {"init_params": "magic"},
        {"n_jobs": "all"},
    ],
)
def test_parameters_are_checked_as_scikit_learn_does(parameters):
    with pytest.raises(ValueError, match=f"The '{next(iter(parameters))}' parameter of GaussianMixture must be"):
        GaussianMixture(**parameters).fit(X)


def test_the_librarys_own_words():
    with pytest.raises(LsparseError, match="31 clusters cannot be started from 30 rows; ask for at most 30"):
        GaussianMixture(31).fit(X)
    with pytest.raises(LsparseError, match="a sparsity of 5 is more than K = 2; choose one from 1 to 2"):
        GaussianMixture(2, sparsity=5).fit(X)
    with pytest.raises(LsparseError, match="nu: with 3 degrees of freedom or fewer the prior expects no covariance"):
        GaussianMixture(2, degrees_of_freedom_prior=3).fit(X)
    with pytest.raises(LsparseError, match="X row 1, column 1: 0.5 is not 0 or 1"):
        BernoulliMixture(2, binarize=None).fit(np.full((5, 2), 0.5))
    with pytest.raises(LsparseError, match="no words in any document"):
        TopicModel(2).fit(np.zeros((5, 2)))
    with pytest.raises(LsparseError, match="give longer documents"):
        TopicModel(2).fit(np.eye(5)).score(np.eye(5))
    with pytest.raises(LsparseError, match="leaves no words"):
        lsparse.completion_score(TopicModel(2).fit(np.ones((5, 3))), np.ones((5, 3)), share=1.0)
    with pytest.raises(LsparseError, match="a sparsity of 0"):
        GaussianMixture(2).fit(X).predict_sparse(X, sparsity=0)
    error = LsparseError("text")
    assert isinstance(error, ValueError) and str(pickle.loads(pickle.dumps(error))) == "text"


def test_a_fit_that_does_not_come_to_rest_says_so():
    with pytest.warns(ConvergenceWarning, match="raise max_iter or tol"):
        GaussianMixture(5, max_iter=1, random_state=0).fit(X)


def test_a_panic_is_an_exception_and_the_interpreter_lives():
    with pytest.raises(LsparseError, match="internal error: asked for; please report it"):
        _core.panic_for_test()
    with pytest.raises(Exception, match="asked for"):
        _core.panic_for_test()
    GaussianMixture(2).fit(X)


def test_matrices_that_lie_are_refused():
    matrix = sp.csr_array(np.eye(4))
    matrix.indices = matrix.indices.copy()
    assert matrix.has_canonical_format
    matrix.indices[2] = 77
    with pytest.raises(ValueError):
        MultinomialMixture(1).fit(matrix)
    with pytest.raises(TypeError, match="C order"):
        _core.fit_mixture(np.asfortranarray(X), "{}")
    with pytest.raises(LsparseError, match="unknown field"):
        _core.fit_mixture(X, '{"sparsty": 3}')
    with pytest.raises(TypeError):
        _core.fit_mixture(X.astype(np.int64), "{}")
