"""Every setting of the library is a parameter here, or there is a reason why it is not; and their defaults are the same."""

import json

import pytest

from lsparse import HMM, GaussianMixture, TopicModel, _core

#: Settings that no estimator has, and why.
LEFT_OUT = {
    "active-floor": "of the document step: for experiments",
    "best-by": "fits with n_init above 1 and X_val are best by the objective",
    "count-tolerance": "scikit-learn has tol",
    "history": "warm_start goes on from a model, partial_fit adds to one",
    "init-rows": "of the start: for experiments",
    "max-active": "of the document step: for experiments",
    "selection": "of the document step: for experiments",
    "sparsity-tolerance": "sparsity is a number here",
    "warm-start": "of documents: for experiments; warm_start is something else here",
}

#: Settings that are given another default here, and why.
OTHERWISE = {
    "batches": "batch_size counts rows",
    "clusters": "scikit-learn has 1",
    "laps": "max_iter",
    "topics": "scikit-learn has 10",
}


@pytest.mark.parametrize("kind", ["mixture", "topics", "sequence"])
def test_every_setting_is_a_parameter_or_left_out_for_a_reason(kind):
    missing = set(json.loads(_core.settings(kind))) - set(_core.parameters()) - set(LEFT_OUT)
    assert not missing, f"give {missing} to the estimators and to PARAMETERS, or say why not in LEFT_OUT"


def test_nothing_is_left_out_that_is_there():
    settings = set(json.loads(_core.settings("mixture"))) | set(json.loads(_core.settings("topics")))
    assert set(LEFT_OUT) <= settings and not set(LEFT_OUT) & set(_core.parameters())


@pytest.mark.parametrize(
    ("kind", "estimator"), [("mixture", GaussianMixture()), ("topics", TopicModel()), ("sequence", HMM())]
)
def test_defaults_are_the_librarys(kind, estimator):
    estimator.random_state = 0
    given, defaults = json.loads(estimator._config()), json.loads(_core.settings(kind))
    assert set(given) <= set(defaults)
    other = {name for name, value in given.items() if value != defaults[name]}
    assert other <= set(OTHERWISE), {name: (given[name], defaults[name]) for name in other - set(OTHERWISE)}
