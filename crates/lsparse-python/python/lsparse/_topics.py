"""Topics of documents: latent Dirichlet allocation."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from numbers import Integral
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted, check_non_negative

from . import _core
from ._base import FLOATS, INTEGERS, Estimator, checked, threads_of
from ._corpus import Vocabulary
from ._errors import LsparseError
from ._parameters import COUNT, NOT_NEGATIVE, POSITIVE, choice, described, parameter


@described
@dataclass(eq=False, repr=False)
class TopicModel(Estimator):
    """Latent Dirichlet allocation whose words keep their L most probable topics.

    Documents are rows of word counts: a CSR matrix, such as ``CountVectorizer`` makes, or a dense array.

    Parameters
    ----------
    {parameters}

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        Pseudo-counts of words in topics, prior included, as scikit-learn's: divided by their row sums they are
        ``topics_``.
    topics_ : ndarray of shape (n_components, n_features)
        Probabilities of words in topics; rows sum to one.
    weights_ : ndarray of shape (n_components,)
        Each topic's share of all words.
    doc_topic_prior_ : ndarray of shape (n_components,)
        alpha, as given or learned.
    vocabulary_ : ndarray of shape (n_features,)
        The words.
    converged_ : bool
        Whether the objective came to rest.
    n_iter_ : int
        Laps done.
    objective_ : float
        The objective at the end.
    trace_ : dict of ndarrays
        One entry a step: run, step, batch, lap, seconds, objective and its terms, rows a second, empty components; at
        the end of a lap active topics and iterations a document and restarts. Empty for a model that was loaded.
    n_features_in_ : int
        Columns of the data.

    Examples
    --------
    >>> from sklearn.feature_extraction.text import CountVectorizer
    >>> from sklearn.pipeline import make_pipeline
    >>> from lsparse import TopicModel
    >>> texts = ["cat dog cat", "dog cat bird", "sun moon star", "moon star star"] * 10
    >>> pipeline = make_pipeline(CountVectorizer(), TopicModel(n_components=2, random_state=0))
    >>> shares = pipeline.fit_transform(texts)
    >>> bool(shares[0].argmax() == shares[1].argmax() != shares[2].argmax())
    True
    """

    n_components: int = parameter(10, "int", COUNT, "K, the number of topics.")
    _: KW_ONLY
    sparsity: int | None = parameter(
        None,
        "int",
        COUNT,
        "L, the number of topics that a word of a document keeps; 8 if not given, or K if that is smaller. "
        "``sparsity=n_components`` is the ordinary dense algorithm.",
    )
    doc_topic_prior: float | None = parameter(
        None, "float", POSITIVE, "Dirichlet concentration of each topic in a document (alpha); 0.5 / K if not given."
    )
    learn_doc_topic_prior: str = choice(
        "fixed",
        ("fixed", "symmetric", "asymmetric", "direction"),
        "Whether alpha is learned: not at all, one number for all topics, one a topic, or a share a topic of the sum as "
        "given.",
    )
    topic_word_prior: float | None = parameter(
        None, "float", POSITIVE, "Pseudo-count of every word in every topic; 0.07 if not given."
    )
    estimate: str = choice(
        "map",
        ("map", "vb"),
        "Point estimates or a full posterior of the topics. Documents always have a full posterior.",
    )
    schedule: str = choice(
        "memoized",
        ("memoized", "full", "stochastic", "streaming"),
        "When statistics enter the total: after every batch, replacing what the batch gave before; after all documents; "
        "after every batch at a falling rate; in one pass.",
    )
    batch_size: int | None = parameter(None, "int", COUNT, "Documents a batch; a tenth of them if not given.")
    leave_out: bool = parameter(
        True,
        "bool",
        "boolean",
        "Whether memoized training works a batch out under topics without what the batch itself gave them at its last "
        "visit, so that documents do not convince themselves.",
    )
    max_iter: int = parameter(20, "int", COUNT, "Laps (passes over the documents) at most.")
    tol: float = parameter(
        1e-3,
        "float",
        NOT_NEGATIVE,
        "Stop when a token gains less than this over a lap, in nats: in evidence under topics that have not seen it "
        "where batches are left out, in objective otherwise.",
    )
    max_doc_update_iter: int = parameter(15, "int", COUNT, "Iterations a document at most.")
    mean_change_tol: float = parameter(
        0.05, "float", NOT_NEGATIVE, "A document rests when no topic's count changes by more than this."
    )
    restarts: int = parameter(
        50,
        "int",
        Interval(Integral, 0, None, closed="left"),
        "Restart proposals a document at most, which keep short documents from going wrong; each of its topics is tried "
        "once.",
    )
    init_params: str = choice(
        "bregman",
        ("bregman", "random"),
        "How the first topics are found: k-means++ over documents under the likelihood's own divergence, or random "
        "groups of documents.",
    )
    vocabulary: Sequence[str] | NDArray[Any] | None = parameter(
        None,
        "sequence of str",
        "array-like",
        "The words of the columns, for ``top_words`` and model files. That of a ``Corpus`` also says how its text "
        "became words, so that the command can treat raw text alike. If not given, the column names of a data frame, "
        "or numbers.",
    )
    total_samples: float | None = parameter(
        None,
        "float",
        POSITIVE,
        "Documents that there will be, for stochastic ``partial_fit``; those seen so far if not given.",
    )
    warm_start: bool = parameter(False, "bool", "boolean", "Go on from the topics of the last fit.")

    def _config(self, **overrides: Any) -> str:
        return json.dumps(
            self._shared_config(
                **{
                    "topics": int(self.n_components),
                    "docs-per-batch": self.batch_size,
                    "leave-out": bool(self.leave_out),
                    "alpha": None if self.doc_topic_prior is None else self.doc_topic_prior * self.n_components,
                    "learn-alpha": self.learn_doc_topic_prior,
                    "lambda": self.topic_word_prior,
                    "estimate": self.estimate,
                    "doc-iterations": int(self.max_doc_update_iter),
                    "doc-tolerance": float(self.mean_change_tol),
                    "restarts": self.restarts,
                    "init": self.init_params,
                    **overrides,
                }
            )
        )

    def _rows(self, X: Any, *, reset: bool, min_samples: int = 1) -> Any:
        X = super()._rows(X, reset=reset, min_samples=min_samples)
        check_non_negative(X, "TopicModel")
        return X

    def _words(self) -> dict[str, Any]:
        """The words of the columns, and how text became them, as far as that is known."""
        words = self.vocabulary if self.vocabulary is not None else getattr(self, "feature_names_in_", None)
        if isinstance(words, Vocabulary) and words.tokenizer is not None:
            return {"vocabulary": list(words), "tokenizer": json.dumps(words.tokenizer)}
        return {} if words is None else {"vocabulary": [str(word) for word in words]}

    @checked
    def fit(self, X: Any, y: Any = None) -> TopicModel:
        """Fit topics.

        CSR matrices (floats or integers) and float arrays in C order are read where they are, memory maps from disk;
        they must not be written to meanwhile. Other Python threads go on. Ctrl-C ends the fit after the current batch:
        the estimator then holds the model so far, and an ``InterruptedWarning`` says so.

        Parameters
        ----------
        X : CSR matrix or array-like of shape (n_samples, n_features)
            Word counts, one document a row.
        y : None
            Ignored.

        Returns
        -------
        self
            The fitted estimator.

        Examples
        --------
        >>> from lsparse import TopicModel
        >>> model = TopicModel(n_components=2, random_state=0).fit([[5, 5, 0, 0], [0, 0, 5, 5]] * 10)
        >>> model.topics_.shape
        (2, 4)
        """
        self._check_method()
        X = self._rows(X, reset=True)
        start = self.model_ if self.warm_start and hasattr(self, "model_") else None
        progress = self._progress()
        # Warm starts see the same documents again, which must not count twice.
        model, report = _core.fit_topics(
            X,
            self._config(**({} if start is None else {"history": "replace"})),
            start=start,
            threads=threads_of(self.n_jobs),
            progress=progress,
            **self._words(),
        )
        self._settle(model, report, progress)
        return self

    @checked
    def partial_fit(self, X: Any, y: Any = None) -> TopicModel:
        """Go on with documents that were not seen before, in one step.

        The first call starts the topics from its documents, of which there should be many. With
        ``schedule="stochastic"`` later documents are blended in at a falling rate, so that old ones fade; with any
        other schedule they are added to those seen before, as in streaming.

        Parameters
        ----------
        X : CSR matrix or array-like of shape (n_samples, n_features)
            Word counts, one document a row.
        y : None
            Ignored.

        Returns
        -------
        self
            The fitted estimator.

        Examples
        --------
        >>> from lsparse import TopicModel
        >>> model = TopicModel(n_components=2, random_state=0)
        >>> for _ in range(3):
        ...     model = model.partial_fit([[5, 5, 0, 0], [0, 0, 5, 5]] * 10)
        >>> model.n_iter_
        3
        """
        first = not hasattr(self, "model_")
        X = self._rows(X, reset=first)
        threads = threads_of(self.n_jobs)
        if first:
            progress = self._progress()
            config = self._config(**{"schedule": "streaming", "laps": 1})
            model, report = _core.fit_topics(X, config, threads=threads, progress=progress, **self._words())
            self._settle(model, report, progress)
            return self
        self._take(self.model_.update(X, threads=threads, **self._rate()))
        self._note_step()
        return self

    def transform(self, X: Any) -> FLOATS:
        """The topics of every document: the posterior mean of their shares.

        Parameters
        ----------
        X : CSR matrix or array-like of shape (n_samples, n_features)
            Word counts, one document a row.

        Returns
        -------
        shares : ndarray of shape (n_samples, n_components)
            Rows sum to one; a document without words has the prior's.

        Examples
        --------
        >>> from lsparse import TopicModel
        >>> X = [[5, 5, 0, 0], [0, 0, 5, 5]] * 10
        >>> TopicModel(n_components=2, random_state=0).fit(X).transform(X[:2]).max(axis=1).round(1)
        array([1., 1.])
        """
        X = self._fitted(X)
        return self.model_.transform(X, threads_of(self.n_jobs))

    def predict_proba(self, X: Any) -> FLOATS:
        """The topics of every document: the same as ``transform``.

        Parameters
        ----------
        X : CSR matrix or array-like of shape (n_samples, n_features)
            Word counts, one document a row.

        Returns
        -------
        shares : ndarray of shape (n_samples, n_components)
            Rows sum to one.

        Examples
        --------
        >>> from lsparse import TopicModel
        >>> X = [[5, 5, 0, 0], [0, 0, 5, 5]] * 10
        >>> TopicModel(n_components=2, random_state=0).fit(X).predict_proba(X).shape
        (20, 2)
        """
        X = self._fitted(X)
        return self.model_.transform(X, threads_of(self.n_jobs))

    def predict_sparse(self, X: Any) -> Any:
        """The topics that documents really hold, and their shares of the words, as ``lsparse assign`` writes them.

        Parameters
        ----------
        X : CSR matrix or array-like of shape (n_samples, n_features)
            Word counts, one document a row.

        Returns
        -------
        shares : csr_array of shape (n_samples, n_components)
            Rows sum to one; a document without words has no entries.

        Examples
        --------
        >>> from lsparse import TopicModel
        >>> X = [[5, 5, 0, 0], [0, 0, 5, 5]] * 10
        >>> TopicModel(n_components=4, sparsity=1, random_state=0).fit(X).predict_sparse(X).shape
        (20, 4)
        """
        X = self._fitted(X)
        indptr, indices, data = self.model_.assign(X, threads_of(self.n_jobs))
        return sp.csr_array((data, indices, indptr), shape=(X.shape[0], self.topics_.shape[0]))

    def predict(self, X: Any) -> INTEGERS:
        """The most prominent topic of every document.

        Parameters
        ----------
        X : CSR matrix or array-like of shape (n_samples, n_features)
            Word counts, one document a row.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
            Topics, from 0.

        Examples
        --------
        >>> from lsparse import TopicModel
        >>> X = [[5, 5, 0, 0], [0, 0, 5, 5]] * 10
        >>> labels = TopicModel(n_components=2, random_state=0).fit(X).predict(X)
        >>> bool(labels[0] == labels[2] != labels[1])
        True
        """
        return np.asarray(self.predict_proba(X).argmax(axis=1), dtype=np.int64)

    def score(self, X: Any, y: Any = None) -> float:
        """The mean log probability of a held-out word, by document completion.

        A fifth of each document's different words is held out, its topics are estimated from the rest, and the words
        held out are scored: what ``lsparse score`` prints. See ``completion_score`` for other shares and seeds.

        Parameters
        ----------
        X : CSR matrix or array-like of shape (n_samples, n_features)
            Word counts, one document a row.
        y : None
            Ignored.

        Returns
        -------
        score : float
            Higher is better.

        Examples
        --------
        >>> from lsparse import TopicModel
        >>> X = [[5, 5, 0, 0], [0, 0, 5, 5]] * 10
        >>> one, two = (TopicModel(n_components=k, random_state=0).fit(X) for k in (1, 2))
        >>> two.score(X) > one.score(X)
        True
        """
        return self._completion(X, 0.2, 0)

    def _completion(self, X: Any, share: float, seed: int) -> float:
        X = self._fitted(X)
        total, tokens, documents, _ = self.model_.completion(X, share, seed, threads_of(self.n_jobs))
        return mean_of_completion(total, tokens, documents)

    def perplexity(self, X: Any) -> float:
        """exp(-score): how many words the model hesitates between, on average.

        Parameters
        ----------
        X : CSR matrix or array-like of shape (n_samples, n_features)
            Word counts, one document a row.

        Returns
        -------
        perplexity : float
            Lower is better.

        Examples
        --------
        >>> from lsparse import TopicModel
        >>> X = [[5, 5, 0, 0], [0, 0, 5, 5]] * 10
        >>> TopicModel(n_components=2, random_state=0).fit(X).perplexity(X) < 4
        True
        """
        return float(np.exp(-self.score(X)))

    def top_words(self, n_words: int = 10, *, by: str = "probability") -> list[list[str]]:
        """The words that topics are about, best first.

        Parameters
        ----------
        n_words : int, default=10
            Words a topic.
        by : {"probability", "relevance"}, default="probability"
            Relevance brings words that are the topic's own to the front (Sievert and Shirley 2014, with weight 0.6).

        Returns
        -------
        words : list of lists of str
            One list a topic.

        Examples
        --------
        >>> from lsparse import TopicModel
        >>> model = TopicModel(n_components=2, vocabulary=["cat", "dog", "sun", "moon"], random_state=0)
        >>> model = model.fit([[5, 4, 0, 0], [0, 0, 5, 4]] * 10)
        >>> sorted(model.top_words(2))
        [['cat', 'dog'], ['sun', 'moon']]
        """
        check_is_fitted(self)
        if by not in ("probability", "relevance"):
            raise ValueError(f"by must be 'probability' or 'relevance', not {by!r}")
        # Probability is relevance with all of its weight on it.
        found = self.model_.relevant_words(int(n_words), 1.0 if by == "probability" else 0.6)
        return [[str(self.vocabulary_[word]) for word in words] for words in found]

    def sample(self, n_samples: int = 1, *, n_words: int | None = None) -> Any:
        """Draw documents from the model.

        Parameters
        ----------
        n_samples : int, default=1
            Documents.
        n_words : int, default=None
            Words of a document; as many as the training documents had on average if not given.

        Returns
        -------
        counts : csr_array of shape (n_samples, n_features)
            Word counts; the same ones for the same ``random_state``.

        Examples
        --------
        >>> from lsparse import TopicModel
        >>> model = TopicModel(n_components=2, random_state=0).fit([[5, 5, 0, 0], [0, 0, 5, 5]] * 10)
        >>> model.sample(3, n_words=7).sum(axis=1)
        array([7, 7, 7])
        """
        check_is_fitted(self)
        if not isinstance(n_samples, Integral) or n_samples < 1:
            raise ValueError(
                f"Invalid value for 'n_samples': {n_samples} . The sampling requires at least one sample."
            )
        indptr, indices, data = self.model_.sample(int(n_samples), n_words, self._seed())
        return sp.csr_array((data, indices, indptr), shape=(int(n_samples), self.topics_.shape[1]))

    def _take(self, model: Any) -> None:
        super()._take(model)
        self.model_: _core.Topics = model
        arrays = model.arrays()
        self.topics_: FLOATS = arrays["topics"]
        self.components_: FLOATS = arrays["counts"] + json.loads(model.config)["lambda"]
        self.weights_: FLOATS = arrays["shares"]
        self.doc_topic_prior_: FLOATS = arrays["alpha"]
        self.vocabulary_: NDArray[Any] = np.asarray(model.vocabulary, dtype=object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.positive_only = True
        return tags


def mean_of_completion(total: float, tokens: float, documents: int) -> float:
    """The mean log probability of a held-out word; an error if there was none."""
    if documents == 0:
        raise LsparseError("X: no document has two different words that the model knows; give longer documents")
    return total / tokens
