"""Topics of documents: latent Dirichlet allocation."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from numbers import Integral
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils._param_validation import InvalidParameterError
from sklearn.utils.validation import check_is_fitted, check_non_negative

from . import _core
from ._base import FLOATS, INTEGERS, PATH, Callback, GrowingEstimator, checked, float_type, threads_of
from ._corpus import Vocabulary, in_order
from ._errors import LsparseError
from ._parameters import COUNT, NOT_NEGATIVE, POSITIVE, choice, declared, described, parameter, setting


@described
@dataclass(eq=False, repr=False)
class TopicModel(GrowingEstimator):
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
        Laps that the model has seen: with ``early_stopping``, up to the best one.
    objective_ : float
        The objective at the end.
    trace_ : dict of ndarrays
        One entry a step: run, step, batch, lap, seconds, objective and its terms, rows a second, empty components; at
        the end of a lap active topics and iterations a document and restarts, and the score of ``X_val`` where there is
        one. Where K is found also ``"moves"``, of every step a list of the changes that were made, as in
        :func:`lsparse.read_trace`, and ``"k_max_reached"``, 1 at the end of laps with as many topics as
        ``n_components_max`` allows. Empty for a model that was loaded.
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

    _components_setting = "topics"
    _batch_setting = "docs-per-batch"

    n_components: int | Literal["auto"] = parameter(
        10,
        'int or "auto"',
        COUNT,
        'K, the number of topics; "auto" finds it while training: topics are split, merged and given up at the end of '
        "laps, whatever explains batches better that are left out of the topics. The fitted one is the length of "
        "``weights_``.",
    )
    _: KW_ONLY
    method: str = setting("topics", "method")
    sparsity: int | None = parameter(
        None,
        "int",
        COUNT,
        "L, the number of topics that a word of a document keeps, K if that is smaller; 8 if not given. "
        "``sparsity=n_components`` is the ordinary dense algorithm.",
    )
    doc_topic_prior: Any = parameter(
        None,
        "float or array-like of shape (n_components,)",
        "array-like or number",
        "Dirichlet concentration of each topic in a document (alpha), one number or one a topic; 0.5 / K if not given. "
        'With ``n_components="auto"`` that of all topics together, 0.5 if not given.',
    )
    n_components_start: int | None = setting("topics", "k-start")
    n_components_max: int | None = setting("topics", "k-max")
    topic_cost: float | None = setting("topics", "topic-cost")
    learn_doc_topic_prior: str = setting("topics", "learn-alpha")
    weight_concentration_prior: float | None = setting("topics", "gamma")
    topic_word_prior: Any = parameter(
        None,
        "float or array-like of shape (n_features,) or (n_components, n_features)",
        "array-like or number",
        "Pseudo-count of every word in every topic, one number, one a word or one a word and topic; 0.07 if not given.",
    )
    seed_words: Any = parameter(
        None,
        "sequence of sequences of str or int",
        list,
        "Words (or their columns) that pull a topic: list k is topic k's, which may be empty.",
    )
    seed_weight: float = setting("topics", "seed-weight")
    estimate: str = setting("topics", "estimate")
    batch_size: int | None = parameter(None, "int", COUNT, "Documents a batch; a tenth of them if not given.")
    leave_out: bool = setting("topics", "leave-out")
    max_iter: int | str | None = parameter(  # type: ignore[assignment]
        "auto",
        'int, None or "auto"',
        COUNT,
        f'Laps at most, None for no such rule; "auto" are {declared("topics")["laps"]["default"]}, and '
        f"{_core.LAPS_TO_FIND_TOPICS} where the number of topics is found.",
        optional=True,
    )
    max_doc_update_iter: int = setting("topics", "doc-iterations")
    mean_change_tol: float = setting("topics", "doc-tolerance")
    restarts: int = setting("topics", "restarts")
    init_params: str = setting("topics", "init")
    burn_in: int | None = setting("topics", "burn-in")
    samples: int = setting("topics", "samples")
    mh_steps: int = setting("topics", "mh-steps")
    table_draws: int | None = setting("topics", "table-draws")
    vocabulary: Sequence[str] | NDArray[Any] | Mapping[str, int] | Mapping[int, str] | None = parameter(
        None,
        "sequence of str or mapping",
        "array-like",
        "The words of the columns, for ``top_words`` and model files: in their order, or by their numbers, as "
        "``CountVectorizer.vocabulary_`` and gensim's ``id2word`` have them. It is read by ``fit``. That of a ``Corpus`` also says how its text "
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
    learning_method: str | None = choice(
        None,
        ("batch", "online"),
        'LatentDirichletAllocation\'s word for ``schedule``, in whose place it stands if given: "batch" is "full", "online" '
        'is "stochastic".',
    )
    evaluate_every: int = parameter(
        -1, "int", Integral, "LatentDirichletAllocation's. The objective is known after every lap (``trace_``) whatever it is."
    )
    perp_tol: float = parameter(
        0.1, "float", NOT_NEGATIVE, "LatentDirichletAllocation's, where ``evaluate_every`` is given. ``tol`` is for that here."
    )

    @property
    def _schedule(self) -> str:
        return {"batch": "full", "online": "stochastic"}.get(str(self.learning_method), str(self.schedule))

    def _validate_params(self) -> None:
        """As all do; and one schedule is enough."""
        super()._validate_params()
        usual = type(self).__dataclass_fields__["schedule"].default
        if self.learning_method is not None and self.schedule not in (usual, self._schedule):
            raise InvalidParameterError(
                f"The 'learning_method' and 'schedule' parameters of {type(self).__name__} say different things: "
                f"{self.learning_method!r} is {self._schedule!r}. Got {self.schedule!r} too; give one of them."
            )

    def _laps(self) -> int | None:
        if not isinstance(self.max_iter, str):
            return self.max_iter
        return _core.LAPS_TO_FIND_TOPICS if self._finds_components() else int(declared("topics")["laps"]["default"])

    def _config(self, **overrides: Any) -> str:
        alpha, prior, finds = self.doc_topic_prior, self.topic_word_prior, self._finds_components()
        if alpha is not None:
            each = 1 if finds else int(self.n_components)
            alpha = float(np.sum(alpha)) if np.ndim(alpha) else float(alpha) * each
        # Of several pseudo-counts the smallest is everywhere, and the rest comes on top of it.
        prior = None if prior is None else float(np.min(prior))
        return json.dumps(
            self._shared_config(
                **{
                    "topics": None if finds else int(self.n_components),
                    "find-k": True if finds else None,
                    "k-start": self.n_components_start,
                    "k-max": self.n_components_max,
                    "topic-cost": self.topic_cost,
                    "method": self.method,
                    "docs-per-batch": self.batch_size,
                    "leave-out": bool(self.leave_out),
                    "alpha": alpha,
                    "learn-alpha": self.learn_doc_topic_prior,
                    "gamma": self.weight_concentration_prior,
                    "lambda": prior,
                    "estimate": self.estimate,
                    "doc-iterations": int(self.max_doc_update_iter),
                    "doc-tolerance": float(self.mean_change_tol),
                    "restarts": self.restarts,
                    "init": self.init_params,
                    "seed-weight": float(self.seed_weight),
                    "burn-in": self.burn_in,
                    "samples": self.samples,
                    "mh-steps": self.mh_steps,
                    "table-draws": self.table_draws,
                    **overrides,
                }
            )
        )

    def _given(self, X: Any) -> dict[str, Any]:
        """What is given besides documents and settings: words, words that pull, and priors number by number."""
        words = self._words(X)
        alpha, prior = self.doc_topic_prior, self.topic_word_prior
        if self._finds_components():
            given = {"doc_topic_prior": np.ndim(alpha), "topic_word_prior": np.ndim(prior), "seed_words": self.seed_words}
            for name, value in given.items():
                if value:
                    raise LsparseError(f'{name}: it names topics by number, and n_components="auto" is to find them')
        if alpha is not None and np.ndim(alpha):
            alpha = _priors("doc_topic_prior", alpha, [(int(self.n_components),)]).tolist()
        else:
            alpha = None
        if prior is not None and np.ndim(prior):
            shape = (int(self.n_components), int(X.shape[1]))
            prior = np.ascontiguousarray(np.broadcast_to(_priors("topic_word_prior", prior, [shape[1:], shape]), shape))
        else:
            prior = None
        return {
            "vocabulary": words.get("vocabulary"),
            "tokenizer": words.get("tokenizer"),
            "seed_words": self._seed_columns(words.get("vocabulary"), int(X.shape[1])),
            "alpha": alpha,
            "word_prior": prior,
        }

    def _seed_columns(self, vocabulary: list[str] | None, columns: int) -> list[list[int]]:
        """The columns of the words that pull topics."""
        lists = [] if self.seed_words is None else [list(words) for words in self.seed_words]
        if not self._finds_components() and len(lists) > int(self.n_components):
            raise LsparseError(f"seed_words: {len(lists)} lists for {self.n_components} topics; give at most one a topic")
        known = {word: column for column, word in enumerate(vocabulary or [])}

        def column(word: Any) -> int:
            found = known.get(word, -1) if isinstance(word, str) else int(word)
            if not 0 <= found < columns:
                where = "the vocabulary" if isinstance(word, str) else f"the {columns} columns"
                raise LsparseError(f"seed_words: {word!r} is not in {where}; leave it out, or spell it as it is there")
            return found

        return [list(dict.fromkeys(map(column, words))) for words in lists]

    def _rows(self, X: Any, *, reset: bool, min_samples: int = 1) -> Any:
        if isinstance(X, list | tuple | np.ndarray) and np.shape(X)[:1] > (0,) and isinstance(X[0], str):
            raise TypeError("X: these are texts; give build_corpus(texts).counts, with vocabulary=build_corpus(texts).vocabulary")
        X = super()._rows(X, reset=reset, min_samples=min_samples)
        if not hasattr(X, "cuts"):
            check_non_negative(X, "TopicModel")
        return X

    def _words(self, X: Any) -> dict[str, Any]:
        """The words of the columns, and how text became them, as far as that is known."""
        words = self.vocabulary
        if words is None:
            own = getattr(X, "words", None)
            words = getattr(self, "feature_names_in_", None) if own is None else Vocabulary(*own)
        if isinstance(words, Vocabulary) and words.tokenizer is not None:
            return {"vocabulary": list(words), "tokenizer": json.dumps(words.tokenizer)}
        return {} if words is None else {"vocabulary": [str(word) for word in in_order(words)]}

    @checked
    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        X_val: Any = None,
        checkpoint: PATH | None = None,
        checkpoint_every: float = 60.0,
        resume: bool = False,
        trace: PATH | None = None,
        callback: Callback | None = None,
    ) -> TopicModel:
        """Fit topics.

        CSR matrices (floats or integers) and float arrays in C order are read where they are, memory maps from disk;
        they must not be written to meanwhile. Other Python threads go on. Ctrl-C ends the fit after the current batch and
        is raised as ``KeyboardInterrupt``; the estimator then holds the model so far.

        Parameters
        ----------
        X : CSR matrix or array-like of shape (n_samples, n_features)
            Word counts, one document a row.
        y : None
            Ignored.
        X_val : CSR matrix or array-like of shape (n_val_samples, n_features), default=None
            Documents that are scored at the end of every lap: ``trace_["heldout"]``, and what ``early_stopping`` goes by.
        checkpoint : path, default=None
            Write here, now and then, all that is needed to go on after the process was ended; removed by nobody.
        checkpoint_every : float, default=60.0
            Seconds between two checkpoints.
        resume : bool, default=False
            Go on from the checkpoint, or start if there is none; the result is that of a fit that was never ended. Data
            and parameters must be the same, but for ``max_iter``, ``tol``, ``max_seconds`` and ``early_stopping``.
        trace : path, default=None
            Write a line of JSON a step here; :func:`lsparse.read_trace` reads it.
        callback : callable, default=None
            Called with a dict for every step (``run``, ``lap``, ``step``, ``seconds``, ``objective``, ``heldout`` and what
            else is known), before the next one; if it returns something true the fit ends with the next batch.

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

        Words that pull a topic:

        >>> model = TopicModel(2, vocabulary=["cat", "dog", "sun", "moon"], seed_words=[["moon"]], random_state=0)
        >>> sorted(model.fit([[5, 5, 0, 0], [0, 0, 5, 5]] * 10).top_words(2)[0])
        ['moon', 'sun']
        """
        X = self._rows(X, reset=True)
        start = self.model_ if self.warm_start and hasattr(self, "model_") else None
        around = self._around(X_val, checkpoint, checkpoint_every, resume, trace, callback)
        words = 0.0 if start is None else float(X.sum())
        before = None if start is None else self._rest(words)
        # Warm starts see the same documents again, which must not count twice.
        history = {} if start is None else {"history": "replace"}
        config = self._config(**self._batching(X), **history, **self._resumed(checkpoint, resume))
        model, report = _core.fit_topics(X, config, around, self._given(X), start=start)
        self._settle(model, report, around, float_type(X))
        if before is not None and before[0] == (now := self._rest(words))[0] and abs(now[1] - before[1]) < (self.tol or 0.0):
            # What one lap gains shows against the fit before, however few laps each has.
            self.converged_ = True
        return self

    def _rest(self, words: float) -> tuple[str, float]:
        """What laps are compared by: the last evidence of a word where batches are left out, or the objective."""
        evidence = self.trace_.get("evidence", np.array([]))
        known = evidence[~np.isnan(evidence)]
        return ("evidence", float(known[-1])) if known.size else ("objective", self.objective_ / words)

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
        if first:
            around = self._around()
            config = self._config(**{"schedule": "streaming", "laps": 1, "early-stopping": None})
            model, report = _core.fit_topics(X, config, around, self._given(X))
            self._settle(model, report, around, float_type(X))
            return self
        self._take(self.model_.update(X, threads=threads_of(self.n_jobs), **self._rate()))
        self._note_step()
        return self

    def transform(self, X: Any, *, normalize: bool = True) -> FLOATS:
        """The topics of every document: the posterior mean of their shares.

        Parameters
        ----------
        X : CSR matrix or array-like of shape (n_samples, n_features)
            Word counts, one document a row.
        normalize : bool, default=True
            Whether rows sum to one; otherwise they are pseudo-counts, words of each topic and prior.

        Returns
        -------
        shares : ndarray of shape (n_samples, n_components)
            A document without words has the prior's.

        Examples
        --------
        >>> from lsparse import TopicModel
        >>> X = [[5, 5, 0, 0], [0, 0, 5, 5]] * 10
        >>> model = TopicModel(n_components=2, random_state=0).fit(X)
        >>> model.transform(X[:2]).max(axis=1).round(1)
        array([1., 1.])
        >>> model.transform(X[:2], normalize=False).sum(axis=1).round(2)
        array([10.5, 10.5])
        """
        X = self._fitted(X)
        found = self.model_.transform(X, threads_of(self.n_jobs), device=self.device)
        if normalize:
            found /= found.sum(axis=1, keepdims=True)
        return found.astype(float_type(X), copy=False)

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
        return self.transform(X)

    def predict_sparse(self, X: Any) -> Any:
        """The topics that documents keep, and their shares of the words, as ``lsparse assign`` writes them.

        With at most 16 topics L is K unless ``sparsity`` says otherwise, and all of them are kept, however small their shares.

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
        indptr, indices, data = self.model_.assign(X, threads_of(self.n_jobs), device=self.device)
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

    def score_samples(self, X: Any) -> FLOATS:
        """The mean log probability of a held-out word in every document, by document completion.

        Which of its words are held out depends on the document alone and not on its place, so that the scores of a
        document are the same in any company; ``score`` draws anew for every document.

        Parameters
        ----------
        X : CSR matrix or array-like of shape (n_samples, n_features)
            Word counts, one document a row.

        Returns
        -------
        scores : ndarray of shape (n_samples,)
            Higher is better; NaN for a document that has no two different words.

        Examples
        --------
        >>> from lsparse import TopicModel
        >>> X = [[5, 5, 0, 0], [0, 0, 5, 5]] * 10
        >>> model = TopicModel(n_components=2, random_state=0).fit(X)
        >>> model.score_samples([[5, 5, 0, 0], [1, 0, 0, 0]]).round(1)
        array([-0.7,  nan])
        """
        X = self._fitted(X)
        sums, words = self.model_.completions(X, 0.2, 0, threads_of(self.n_jobs), device=self.device)
        return np.divide(sums, words, out=np.full_like(sums, np.nan), where=words > 0)

    def _score_parts(self, X: Any) -> tuple[float, float]:
        """The sum of all scores, and what it is to be divided by."""
        X = self._fitted(X)
        total, tokens, _, _ = self.model_.completion(X, 0.2, 0, threads_of(self.n_jobs), device=self.device)
        return total, tokens

    def _completion(self, X: Any, share: float, seed: int) -> float:
        X = self._fitted(X)
        total, tokens, documents, _ = self.model_.completion(X, share, seed, threads_of(self.n_jobs), device=self.device)
        return mean_of_completion(total, tokens, documents)

    def perplexity(self, X: Any, sub_sampling: bool = False) -> float:
        """exp(-score): how many words the model hesitates between, on average.

        Parameters
        ----------
        X : CSR matrix or array-like of shape (n_samples, n_features)
            Word counts, one document a row.
        sub_sampling : bool, default=False
            Ignored; scikit-learn has it.

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
        self.topics_: FLOATS = arrays["topics"].astype(self._dtype, copy=False)
        counts = arrays["counts"] + json.loads(model.config)["lambda"]
        self.components_: FLOATS = counts.astype(self._dtype, copy=False)
        self.weights_: FLOATS = arrays["shares"]
        self.doc_topic_prior_: FLOATS = arrays["alpha"]
        self.vocabulary_: NDArray[Any] = np.asarray(model.vocabulary, dtype=object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.positive_only = True
        return tags


def _priors(name: str, values: Any, shapes: list[tuple[int, ...]]) -> FLOATS:
    """Pseudo-counts of one of these shapes."""
    found: FLOATS = np.ascontiguousarray(values, dtype=np.float64)
    if found.shape not in shapes:
        expected = " or ".join(map(str, shapes))
        raise LsparseError(f"{name}: it has the shape {found.shape}; give a number, or an array of shape {expected}")
    if not (np.isfinite(found).all() and (found > 0.0).all()):
        raise LsparseError(f"{name}: not all numbers are positive and finite; give pseudo-counts above zero")
    return found


def mean_of_completion(total: float, tokens: float, documents: int) -> float:
    """The mean log probability of a held-out word; an error if there was none."""
    if documents == 0:
        raise LsparseError("X: no document has two different words that the model knows; give longer documents")
    return total / tokens
