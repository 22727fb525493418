"""How good topics are, whoever trained them."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils import check_array
from sklearn.utils.validation import check_non_negative

from . import _core
from ._base import FLOATS, readable
from ._errors import LsparseError
from ._topics import TopicModel, mean_of_completion


def _documents(X: Any) -> Any:
    X = check_array(X, accept_sparse="csr", dtype=None if sp.issparse(X) else [np.float64, np.float32], order="C")
    check_non_negative(X, "documents")
    return readable(X)


def _normalised(topics: ArrayLike) -> FLOATS:
    if isinstance(topics, BaseEstimator):
        remedy = "give its components_" if hasattr(topics, "components_") else "give a TopicModel or an array of topics"
        raise TypeError(f"model: {type(topics).__name__} is no TopicModel; {remedy}")
    values: FLOATS = check_array(topics, dtype=np.float64, order="C")
    check_non_negative(values, "topics")
    sums = values.sum(axis=1, keepdims=True)
    if (sums <= 0).any():
        raise LsparseError("topics: a row has no mass; give every topic some words")
    return np.ascontiguousarray(values / sums)


def completion_score(
    model: TopicModel | ArrayLike,
    X: Any,
    *,
    doc_topic_prior: float | ArrayLike | None = None,
    share: float = 0.2,
    seed: int = 0,
) -> float:
    """The mean log probability of a held-out word, by document completion.

    A share of each document's different words is held out, its topics are estimated from the rest by the dense
    algorithm, and the words held out are scored. The split depends on the seed and the document's number alone, so that
    models of any origin can be compared.

    Parameters
    ----------
    model : TopicModel or array-like of shape (n_topics, n_words)
        A fitted model, or topics of any origin (scikit-learn's ``components_``, say); rows are normalised.
    X : CSR matrix or array-like of shape (n_documents, n_words)
        Word counts, one document a row.
    doc_topic_prior : float or array-like of shape (n_topics,), default=None
        alpha of each topic, for topics given as an array; 0.5 / n_topics if not given.
    share : float, default=0.2
        Share of a document's different words that is held out.
    seed : int, default=0
        Seed of the split.

    Returns
    -------
    score : float
        Higher is better.

    Examples
    --------
    >>> from lsparse import TopicModel, completion_score
    >>> X = [[5, 5, 0, 0], [0, 0, 5, 5]] * 10
    >>> model = TopicModel(n_components=2, random_state=0).fit(X)
    >>> completion_score(model, X) == model.score(X)
    True
    >>> abs(completion_score(model.topics_, X) - model.score(X)) < 1e-6
    True
    """
    if isinstance(model, TopicModel):
        return model._completion(X, float(share), int(seed))
    topics = _normalised(model)
    prior = 0.5 / topics.shape[0] if doc_topic_prior is None else doc_topic_prior
    alpha = np.ascontiguousarray(np.broadcast_to(np.asarray(prior, dtype=np.float64), topics.shape[:1]))
    total, tokens, documents, _ = _core.completion(topics, alpha, _documents(X), float(share), int(seed))
    return mean_of_completion(total, tokens, documents)


def coherence(model: TopicModel | ArrayLike, X: Any, *, n_words: int = 10) -> dict[str, FLOATS]:
    """How well the top words of topics go together in documents.

    Parameters
    ----------
    model : TopicModel or array-like of shape (n_topics, n_words)
        A fitted model, or topics of any origin.
    X : CSR matrix or array-like of shape (n_documents, n_words)
        Word counts of the reference documents.
    n_words : int, default=10
        Top words of a topic to look at.

    Returns
    -------
    scores : dict of ndarrays of shape (n_topics,)
        ``"npmi"``, from -1 to 1, and ``"umass"``, where 0 is best.

    Examples
    --------
    >>> from lsparse import TopicModel, coherence
    >>> X = [[5, 5, 0, 0], [0, 0, 5, 5]] * 10
    >>> model = TopicModel(n_components=2, random_state=0).fit(X)
    >>> coherence(model, X, n_words=2)["npmi"]
    array([1., 1.])
    """
    topics = model.topics_ if isinstance(model, TopicModel) else _normalised(model)
    # Of equals the first: the order that the command has.
    order = np.argsort(-topics, axis=1, kind="stable")[:, : int(n_words)]
    npmi, umass = _core.coherence(order.tolist(), _documents(X))
    return {"npmi": np.asarray(npmi), "umass": np.asarray(umass)}
