"""What bad input gets: scikit-learn's exceptions where it has them, the library's elsewhere, and never a crash."""

import inspect
import json
import pickle

import lsparse
import numpy as np
import pytest
import scipy.sparse as sp
from conftest import AROUND
from lsparse import (
    BernoulliMixture,
    GaussianMixture,
    LsparseError,
    MultinomialMixture,
    PoissonMixture,
    TopicModel,
    _core,
    build_corpus,
    coherence,
    completion_score,
)
from sklearn.decomposition import LatentDirichletAllocation
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
        {"max_iter": -1},
        {"early_stopping": 0},
        {"method": "magic"},
        {"learning_decay": 0.5},
        {"init_params": "magic"},
        {"n_jobs": "all"},
    ],
)
def test_parameters_are_checked_as_scikit_learn_does(parameters):
    with pytest.raises(ValueError, match=f"The '{next(iter(parameters))}' parameter of GaussianMixture must be"):
        GaussianMixture(**parameters).fit(X)


def test_the_librarys_own_words():
    with pytest.raises(LsparseError, match="n_components = 31, n_samples = 30; ask for at most 30"):
        GaussianMixture(31).fit(X)
    with pytest.raises(LsparseError, match="degrees_of_freedom_prior: with 3 degrees of freedom or fewer the prior expects no covariance"):
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


def test_messages_speak_of_parameters(tmp_path):
    def said(work, *arguments, **named):
        with pytest.raises(LsparseError) as caught:
            work(*arguments, **named)
        return str(caught.value)

    assert said(GaussianMixture(2, covariance_type="tied", missing=True).fit, X).endswith(
        'choose covariance_type="full" or "diag", or fill the values in'
    )
    assert said(GaussianMixture(2, schedule="full", batch_size=10).fit, X) == (
        'batch_size: the full schedule has one batch; leave the batches out, or choose schedule="memoized"'
    )
    grown = GaussianMixture(2, warm_start=True, tol=1.0).fit(X).set_params(n_components=3)
    assert said(grown.fit, X) == (
        "n_components: the model to start from has 2 clusters; give n_components=2"
    )
    assert said(_core.fit_mixture, X, '{"clusters": 2, "laps": null, "tolerance": null}', AROUND) == (
        "max_iter: every rule that stops training is off; set max_iter, tol or max_seconds"
    )
    assert "trained with missing=True, full and diagonal Gaussians take NaN" in said(_core.fit_mixture, np.full((5, 2), np.nan), '{"clusters": 2}', AROUND)
    assert "(min_df) or in more of them (max_df)" in said(lsparse.build_corpus, ["red sea", "green apple"], min_df=2)
    assert "build the corpus with lsparse.build_corpus" in said(lsparse.read_corpus, tmp_path)
    assert said(GaussianMixture(2, method="kmeans", search="exact").fit, X) == (
        'search: it is for method="lsparse and hard-em" alone; leave it out'
    )
    assert said(GaussianMixture(2, early_stopping=3).fit, X) == (
        "early_stopping: there are no held-out rows to stop by; give X_val too"
    )
    path = tmp_path / "run.ckpt"
    GaussianMixture(2, random_state=0).fit(X, checkpoint=path)
    assert said(GaussianMixture(2, random_state=0).fit, X, checkpoint=path).endswith(
        "exists already; give resume=True to go on from it, or choose another file"
    )
    assert "it is of another run: seed was 0, and is 1 now" in said(
        GaussianMixture(2, random_state=1).fit, X, checkpoint=path, resume=True
    )
    with pytest.raises(ValueError, match="resume: there is no checkpoint to go on from"):
        GaussianMixture(2).fit(X, resume=True)


def test_messages_call_settings_by_parameters_that_there_are():
    public = [getattr(lsparse, name) for name in lsparse.__all__]
    # Estimators and functions; exceptions have no signature.
    fits = [thing.fit for thing in public if hasattr(thing, "fit")]
    things = [*(thing for thing in public if inspect.isfunction(thing) or hasattr(thing, "fit")), *fits]
    signatures = [inspect.signature(thing) for thing in things]
    known = {name for signature in signatures for name in signature.parameters}
    called = _core.parameters()
    for names in called.values():
        for name in names.split(" or "):
            assert name in known or hasattr(lsparse, name.removeprefix("lsparse."))
    for kind in (GaussianMixture, MultinomialMixture, PoissonMixture, BernoulliMixture, TopicModel):
        # With a value for every parameter, so that every setting is there.
        own = kind().get_params()
        filled = kind(**{name: 1 for name, value in own.items() if value is None})
        for setting in json.loads(filled._config()):
            if setting != "likelihood" or kind is GaussianMixture:
                assert set(called[setting].split(" or ")) & set(own), setting


def test_a_fit_that_does_not_come_to_rest_says_so():
    with pytest.warns(ConvergenceWarning, match="did not converge.*1 lap is done, and a row still gains more than tol"):
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
        _core.fit_mixture(np.asfortranarray(X), "{}", AROUND)
    with pytest.raises(LsparseError, match="unknown field"):
        _core.fit_mixture(X, '{"sparsty": 3}', AROUND)
    with pytest.raises(TypeError):
        _core.fit_mixture(X.astype(np.int64), "{}", AROUND)


def test_a_truth_value_is_no_number():
    for name in ("early_stopping", "batch_size", "max_iter", "n_init"):
        with pytest.raises(ValueError, match=f"{name}.*Got True"):
            GaussianMixture(2, **{name: True}).fit(X)
    with pytest.raises(ValueError, match="n_components"):
        GaussianMixture(True).fit(X)


def test_missing_values_are_pointed_to_the_parameter():
    holes = np.where(X > 1.5, np.nan, X)
    with pytest.raises(ValueError, match="contains NaN.*\n.*missing=True"):
        GaussianMixture(2).fit(holes)
    GaussianMixture(2, missing=True).fit(holes)


def test_what_is_no_topic_model_is_called_so():
    model = GaussianMixture(2).fit(X)
    for function in (coherence, completion_score):
        with pytest.raises(TypeError, match="GaussianMixture is no TopicModel"):
            function(model, np.abs(X))


def test_threads_have_a_limit():
    with pytest.raises(LsparseError, match="threads: 1000000 are more"):
        GaussianMixture(2, n_jobs=10**6).fit(X)


def test_too_few_rows_for_a_first_part_are_called_as_in_fit():
    with pytest.raises(LsparseError, match="n_samples >= n_components"):
        GaussianMixture(5).partial_fit(np.eye(3))


def test_half_a_surrogate_pair_is_a_mark():
    corpus = build_corpus(["\ud800 hello world", "hello there"], min_df=1, max_df=1.0)
    assert "hello" in corpus.vocabulary


def test_a_device_that_is_none_is_called_by_its_parameter():
    for device in ("x", "", "cuda:", "gpu"):
        with pytest.raises(ValueError, match="'device' parameter"):
            GaussianMixture(2, device=device).fit(X)


def test_held_out_rows_are_called_so():
    counts = np.eye(6) + 1
    for model, rows, held, words in [
        (GaussianMixture(2), X, np.zeros((5, X.shape[1] + 1)), "X_val has 3 features, but GaussianMixture is expecting 2"),
        (GaussianMixture(2), X, np.full((5, 2), np.nan), "Input X_val contains NaN"),
        (GaussianMixture(2), X, np.zeros(3), "X_val: Expected 2D array"),
        (GaussianMixture(2), X, np.zeros((0, 2)), "X_val: Found array with 0 sample"),
        (TopicModel(2), counts, -counts, "X_val: Negative values"),
    ]:
        with pytest.raises(ValueError, match=words):
            model.fit(rows, X_val=held)
    with pytest.raises(ValueError, match="^X has 3 features"):
        GaussianMixture(2).fit(X).predict(np.zeros((5, 3)))


def test_what_is_around_a_fit_is_looked_at_before_it(tmp_path):
    for around, kind, words in [
        ({"checkpoint": tmp_path}, ValueError, "is a folder; give a file"),
        ({"checkpoint": tmp_path, "resume": True}, ValueError, "is a folder; give a file"),
        ({"checkpoint_every": -1}, ValueError, "checkpoint_every: -1 is no number of seconds"),
        ({"checkpoint_every": "often"}, ValueError, "checkpoint_every: 'often' is no number"),
        ({"callback": 5}, TypeError, "callback: a int cannot be called; give a function"),
    ]:
        with pytest.raises(kind, match=words):
            GaussianMixture(2).fit(X, **around)


def test_what_must_be_a_number_is_said_to_be_one():
    for settings, words in [
        ({"n_components": True}, r"'n_components' .* must be an int in the range \[1, inf\) or a str among {'auto'}. Got True"),
        ({"tol": True}, r"'tol' .* must be a float in the range \[0.0, inf\) or None. Got True"),
        ({"random_state": "a"}, "RandomState' or None. Got 'a'"),
        ({"random_state": True}, "RandomState' or None. Got True"),
    ]:
        with pytest.raises(ValueError, match=words):
            GaussianMixture(**settings).fit(X)


def test_parameters_of_latent_dirichlet_allocation_are_taken():
    counts = np.random.default_rng(0).poisson(1.0, size=(60, 8))
    theirs = LatentDirichletAllocation().get_params()
    ours = TopicModel(**theirs | {"n_components": 3, "random_state": 0, "learning_method": "batch"}).fit(counts)
    assert json.loads(ours.model_.config)["schedule"] == "full"
    online = TopicModel(3, learning_method="online", batch_size=10, random_state=0).fit(counts)
    same = TopicModel(3, schedule="stochastic", batch_size=10, random_state=0).fit(counts)
    assert (online.components_ == same.components_).all()
    online.partial_fit(counts)
    with pytest.raises(ValueError, match="say different things: 'batch' is 'full'. Got 'streaming' too"):
        TopicModel(3, learning_method="batch", schedule="streaming").fit(counts)


def test_pages_are_of_our_models():
    with pytest.raises(TypeError, match="LatentDirichletAllocation is none of TopicModel, mixtures and HMM"):
        lsparse.explore(LatentDirichletAllocation(2).fit(np.eye(6)))
    topics = TopicModel(2).fit(np.eye(6) + 1)
    with pytest.raises(TypeError, match="these are texts"):
        lsparse.explore(topics, ["some text"])
