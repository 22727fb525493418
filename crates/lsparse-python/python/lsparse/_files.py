"""Model files: the same that the command reads and writes."""

from __future__ import annotations

import json
import os
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from . import _core
from ._corpus import Vocabulary
from ._mixtures import (
    COVARIANCE_TYPES,
    INIT_PARAMS,
    BernoulliMixture,
    GaussianMixture,
    MultinomialMixture,
    PoissonMixture,
)
from ._sequences import HMM, is_of_symbols
from ._topics import TopicModel

_COVARIANCE_TYPES = {family: name for name, family in COVARIANCE_TYPES.items()}


def save(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted estimator to a ``.safetensors`` file, all or nothing.

    The ``lsparse`` command reads it, and the ``safetensors`` package opens its arrays (``weights``, ``means``,
    ``covariances``, ``variances``, ``probabilities``, ``topics``, ...) without lsparse.

    Parameters
    ----------
    model : estimator
        A fitted one.
    path : path
        The file; one that is there is replaced.

    Examples
    --------
    >>> import lsparse, os, tempfile
    >>> gm = lsparse.GaussianMixture(n_components=2, random_state=0).fit([[0.0], [0.2], [9.0], [9.2]])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "m.safetensors")
    ...     lsparse.save(gm, path)
    ...     again = lsparse.load(path)
    >>> bool((again.means_ == gm.means_).all())
    True
    """
    check_is_fitted(model)
    if not isinstance(getattr(model, "model_", None), _core.Mixture | _core.Topics | _core.Hmm):
        raise TypeError(f"only estimators of lsparse are saved, not {type(model).__name__}")
    model.model_.save(path)


def load(
    path: str | os.PathLike[str],
) -> GaussianMixture | MultinomialMixture | PoissonMixture | BernoulliMixture | TopicModel | HMM:
    """Read a model file, written by :func:`save` or by the command, as a fitted estimator.

    Parameters
    ----------
    path : path
        The file.

    Returns
    -------
    model : estimator
        A fitted one of the class that the file holds, with the parameters that it was trained with. Its ``trace_`` is
        empty. Arrays that were given to its fit (priors, components to start from) are not in the file.

    Examples
    --------
    >>> import lsparse
    >>> lsparse.load("missing.safetensors")
    Traceback (most recent call last):
    ...
    lsparse.LsparseError: missing.safetensors does not exist; check the spelling of the path
    """
    kinds: dict[str, Any] = {"topics": _core.Topics, "sequence": _core.Hmm}
    core: Any = kinds.get(_core.model_kind(path), _core.Mixture).load(path)
    config = json.loads(core.config)
    shared = {
        "sparsity": config["sparsity"],
        "estimate": config["estimate"],
        "schedule": config["schedule"],
        "max_iter": config["laps"],
        "tol": config["tolerance"],
        "max_seconds": config["max-seconds"],
        "early_stopping": config["early-stopping"],
        "method": config.get("method", "lsparse"),
        "n_init": config["runs"],
        "learning_offset": config["delay"],
        "learning_decay": config["decay"],
        "random_state": config["seed"],
    }
    model: Any
    if isinstance(core, _core.Topics):
        model = TopicModel(
            config["topics"],
            doc_topic_prior=config["alpha"] / config["topics"],
            topic_cost=config.get("topic-cost"),
            weight_concentration_prior=config.get("gamma"),
            seed_weight=config["seed-weight"],
            burn_in=config["burn-in"],
            samples=config["samples"],
            mh_steps=config["mh-steps"],
            table_draws=config["table-draws"],
            learn_doc_topic_prior=config["learn-alpha"],
            topic_word_prior=config["lambda"],
            max_doc_update_iter=config["doc-iterations"],
            mean_change_tol=config["doc-tolerance"],
            leave_out=config["leave-out"],
            restarts=config["restarts"],
            init_params=config["init"],
            vocabulary=Vocabulary(core.vocabulary, None if core.tokenizer is None else json.loads(core.tokenizer)),
            **shared,
        )
        dim, names = len(core.vocabulary), None
    elif isinstance(core, _core.Hmm):
        model = _sequence(config, shared)
        dim, names = core.dim, core.columns
        if config["likelihood"] == "multinomial" and is_of_symbols(core):
            model.emission, dim, names = "categorical", 1, None
    else:
        shared["init_params"] = _init_params(config)
        shared["search"] = config.get("search", "auto")
        shared["weight_concentration_prior"] = config["alpha"] / config["clusters"]
        shared["trades"] = config.get("trades", True)
        shared["refresh"] = config.get("refresh")
        shared["threshold"] = config.get("threshold")
        shared["selection_function"] = config.get("selection-function")
        model = _mixture(config, shared)
        dim, names = core.dim, core.columns
    model._take(core)
    model.n_features_in_ = dim
    if names:
        model.feature_names_in_ = np.asarray(names, dtype=object)
    model.trace_ = {}
    return model  # type: ignore[no-any-return]


def _init_params(config: dict[str, Any]) -> str:
    if config["init"] == "kmeans":
        return "kmeans" if (config["init-lloyd"] or 1) > 1 else "k-means++"
    return next(name for name, settings in INIT_PARAMS.items() if settings["init"] == config["init"])


def _sequence(config: dict[str, Any], shared: dict[str, Any]) -> Any:
    family = config["likelihood"]
    return HMM(
        config["states"],
        emission="gaussian" if family in _COVARIANCE_TYPES else family,
        covariance_type=_COVARIANCE_TYPES.get(family, "full"),
        missing=config["missing"],
        search=config["search"],
        transmat_prior=config["alpha"] / config["states"],
        stickiness=config["stickiness"],
        smoothing=config["lambda"],
        mean_precision_prior=config["kappa"],
        degrees_of_freedom_prior=config["nu"],
        prior_scale=config["prior-scale"],
        prior_shape=config["prior-shape"],
        variance_floor=config["variance-floor"],
        precision=config["precision"],
        init_params=_init_params(config),
        **shared,
    )


def _mixture(config: dict[str, Any], shared: dict[str, Any]) -> Any:
    family = config["likelihood"]
    smoothed = {"multinomial": MultinomialMixture, "poisson": PoissonMixture, "bernoulli": BernoulliMixture}
    if family == "bernoulli":
        shared["binarize"] = config.get("binarize")
    if family in smoothed:
        return smoothed[family](config["clusters"], smoothing=config["lambda"], **shared)
    return GaussianMixture(
        config["clusters"],
        covariance_type=_COVARIANCE_TYPES[family],
        mean_precision_prior=config["kappa"],
        degrees_of_freedom_prior=config["nu"],
        prior_scale=config["prior-scale"],
        prior_shape=config["prior-shape"],
        variance_floor=config["variance-floor"],
        precision=config["precision"],
        missing=config.get("missing", False),
        standardize=config.get("standardize", False),
        penalty=config.get("penalty"),
        **shared,
    )
