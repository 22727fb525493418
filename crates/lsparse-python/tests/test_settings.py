"""Every setting of the library is a parameter here as it is declared there, or there is a reason why it is not."""

import json
from dataclasses import fields

import lsparse
import pytest

from lsparse import HMM, BernoulliMixture, GaussianMixture, MultinomialMixture, PoissonMixture, TopicModel, _core

#: Settings that no estimator has, and why.
LEFT_OUT = {
    "active-floor": "of the document step: for experiments",
    "best-by": "fits with n_init above 1 and X_val are best by the objective",
    "count-tolerance": "scikit-learn has tol",
    "history": "warm_start goes on from a model, partial_fit adds to one",
    "init-rows": "of the start: for experiments",
    "max-active": "of the document step: for experiments",
    "selection": "of the document step: for experiments",
    "sparsity-tolerance": "sparsity=\"auto\" takes the default",
    "warm-start": "of documents: for experiments; warm_start is something else here",
}

#: Settings that estimators of a kind have no use for, though others have, and why.
NOT_OF = {"sequence": {"device": "steps of chains are worked out by the CPU"}}

#: Settings that are given another default here, and why.
OTHERWISE = {
    "batches": "batch_size counts rows",
    "clusters": "scikit-learn has 1",
    "laps": "max_iter",
    "topics": "scikit-learn has 10",
}

#: Parameters that set a setting and are documented here, and why.
OWN_WORDS = {
    "batch_size": "rows or documents, where the library has a number of batches too",
    "binarize": "the data is not copied for it, and scikit-learn's BernoulliNB has 0",
    "covariance_type": "scikit-learn's names of the likelihoods",
    "doc_topic_prior": "that of a topic, or a number for each",
    "init_params": "scikit-learn's names of the ways to start",
    "max_iter": "0 leaves a mixture where training would start; topics that are found have more laps than others",
    "missing": "NaN alone, there being no text files",
    "n_components": "a number or auto",
    "random_state": "scikit-learn's",
    "sparsity": "a number or auto, and what it is where K is less",
    "topic_word_prior": "a number, or one for each word or topic",
    "transmat_prior": "that of a state",
    "warm_start": "scikit-learn's",
    "weight_concentration_prior": "that of a component",
}

KINDS = {
    "mixture": [GaussianMixture, MultinomialMixture, PoissonMixture, BernoulliMixture],
    "topics": [TopicModel],
    "sequence": [HMM],
}


def declared(kind):
    return json.loads(_core.settings(kind))


@pytest.mark.parametrize("kind", ["mixture", "topics", "sequence"])
def test_every_setting_is_a_parameter_or_left_out_for_a_reason(kind):
    missing = set(declared(kind)) - set(_core.parameters()) - set(LEFT_OUT)
    assert not missing, f"give {missing} to the estimators and to PARAMETERS, or say why not in LEFT_OUT"
    known = {each.name for estimator in KINDS[kind] for each in fields(estimator)}
    for name in set(declared(kind)) - set(LEFT_OUT) - set(NOT_OF.get(kind, {})):
        assert known & set(_core.parameters()[name].split(" or ")), f"no estimator of {kind} has a parameter for {name}"


@pytest.mark.parametrize(("kind", "estimator"), [(kind, each) for kind, all_ in KINDS.items() for each in all_])
def test_parameters_are_documented_where_settings_are_declared(kind, estimator):
    called = {each for name in declared(kind) for each in _core.parameters().get(name, "").split(" or ")}
    for each in fields(estimator):
        setting = each.metadata["setting"]
        if setting is None:
            own = each.name not in called or each.name in OWN_WORDS
            assert own, f"make {each.name} by setting(), or say why not in OWN_WORDS"
        else:
            assert each.name in _core.parameters()[setting].split(" or "), (each.name, setting)
            first = declared(kind)[setting]["about"][:20].replace("cluster", "component" if kind == "mixture" else "cluster")
            assert each.metadata["text"].startswith(first), each.name
            # What is said of other settings is said of parameters.
            assert "`" not in each.metadata["text"].replace("``", ""), each.metadata["text"]


def test_nothing_is_left_out_that_is_there():
    settings = set(declared("mixture")) | set(declared("topics"))
    assert set(LEFT_OUT) <= settings and not set(LEFT_OUT) & set(_core.parameters())


@pytest.mark.parametrize(
    ("kind", "estimator"), [("mixture", GaussianMixture()), ("topics", TopicModel()), ("sequence", HMM())]
)
def test_defaults_are_the_librarys(kind, estimator):
    estimator.random_state = 0
    given, defaults = json.loads(estimator._config()), {name: each["default"] for name, each in declared(kind).items()}
    assert set(given) <= set(defaults)
    other = {name for name, value in given.items() if value != defaults[name]}
    assert other <= set(OTHERWISE), {name: (given[name], defaults[name]) for name in other - set(OTHERWISE)}


def test_rules_that_end_a_fit_may_be_none(blobs, tmp_path):
    X, _ = blobs
    model = GaussianMixture(3, tol=None, max_iter=4, random_state=0).fit(X)
    assert model.n_iter_ == 4 and json.loads(model.model_.config)["tolerance"] is None
    # As in scikit-learn no gain is less than nothing.
    assert GaussianMixture(3, tol=0, max_iter=4, random_state=0).fit(X).n_iter_ == 4
    model = GaussianMixture(3, max_iter=None, random_state=0).fit(X)
    assert model.converged_ and json.loads(model.model_.config)["laps"] is None
    lsparse.save(model, tmp_path / "m.safetensors")
    assert lsparse.load(tmp_path / "m.safetensors").max_iter is None
    with pytest.raises(lsparse.LsparseError, match="max_iter: every rule that stops training is off; set max_iter"):
        GaussianMixture(3, tol=None, max_iter=None).fit(X)


def test_what_a_topic_must_be_worth_decides_how_many_are_found(documents):
    X, _ = documents
    found = [len(TopicModel("auto", topic_cost=cost, random_state=0).fit(X).weights_) for cost in (0.0, 10_000.0)]
    assert found[0] > found[1]
