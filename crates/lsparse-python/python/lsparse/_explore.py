"""A page that shows the topics of a model, in a notebook or as a file."""

from __future__ import annotations

import html
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sklearn.utils.validation import check_is_fitted

from . import _core
from ._corpus import Corpus, read_corpus
from ._errors import LsparseError
from ._scores import _documents
from ._topics import TopicModel


class TopicPage:
    """A page that shows topics: one file that opens in any browser and makes no request. Notebooks show it in place.

    Attributes
    ----------
    html : str
        The page.
    report : dict
        What is in it: ``topics``, ``vocabulary``, ``documents`` that there are, ``documents_looked_at``,
        ``documents_shown`` and ``bytes``.
    height : int
        How high notebooks show it, in pixels.

    Examples
    --------
    >>> import lsparse
    >>> model = lsparse.TopicModel(n_components=2, random_state=0).fit([[5, 5, 0, 0], [0, 0, 5, 5]] * 10)
    >>> page = lsparse.explore(model)
    >>> page
    <page of 2 topics over 4 words>
    """

    __module__ = "lsparse"

    def __init__(self, html: str, report: dict[str, Any], height: int = 720) -> None:
        self.html = html
        self.report = report
        self.height = height

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the page to a file.

        Parameters
        ----------
        path : path
            The file, ending in ``.html``.

        Returns
        -------
        path : Path
            The file.

        Examples
        --------
        >>> import lsparse, tempfile
        >>> model = lsparse.TopicModel(n_components=2, random_state=0).fit([[5, 5, 0, 0], [0, 0, 5, 5]] * 10)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     lsparse.explore(model).save(folder + "/page.html").name
        'page.html'
        """
        target = Path(path)
        target.write_text(self.html, encoding="utf-8")
        return target

    def _repr_html_(self) -> str:
        # A frame of its own, so that neither the notebook's style nor its scripts and the page's meet.
        frame = 'sandbox="allow-scripts allow-downloads" style="width:100%;border:1px solid #8884;border-radius:6px"'
        return f'<iframe {frame} height="{self.height}" srcdoc="{html.escape(self.html)}"></iframe>'

    def __repr__(self) -> str:
        return f"<page of {self.report['topics']} topics over {self.report['vocabulary']} words>"


def explore(
    model: TopicModel,
    corpus: Any = None,
    *,
    texts: Sequence[str] | None = None,
    names: Mapping[int, str] | Sequence[str | None] | str | os.PathLike[str] | None = None,
    title: str = "topics",
    n_documents: int = 1000,
    random_state: int = 0,
) -> TopicPage:
    """A page that shows the topics of a model: a map, a table, words and documents.

    It is what ``lsparse explore`` writes. With documents it has coherences, the documents that show a topic best and the
    topic of every word of them; of more documents than it can hold a sample is taken, and the page says so.

    Parameters
    ----------
    model : TopicModel
        A fitted model.
    corpus : Corpus, path, CSR matrix or array-like of shape (n_documents, n_words), default=None
        Documents to show topics by, in the words of the model.
    texts : sequence of str, default=None
        The texts of these documents, for a model whose vocabulary is that of a ``Corpus``; without them the page has the
        counts of words.
    names : mapping, sequence of str or None, or path, default=None
        Names of topics, by number; or a file of them, as the page saves it.
    title : str, default="topics"
        What the page is called.
    n_documents : int, default=1000
        Documents that the page has at most.
    random_state : int, default=0
        Seed of the map.

    Returns
    -------
    page : TopicPage
        Shown by a notebook as it is; ``page.save("page.html")`` writes it to a file.

    Examples
    --------
    >>> import lsparse
    >>> texts = ["cat dog cat", "dog cat bird", "sun moon star", "moon star star"] * 10
    >>> corpus = lsparse.build_corpus(texts, max_df=1.0)
    >>> model = lsparse.TopicModel(2, vocabulary=corpus.vocabulary, random_state=0).fit(corpus.counts)
    >>> page = lsparse.explore(model, corpus, texts=texts, names={0: "pets or sky"})
    >>> page.report["documents_shown"]
    40
    """
    check_is_fitted(model)
    if not isinstance(model, TopicModel):
        raise TypeError(f"model: {type(model).__name__} is no TopicModel, and pages show topics")
    check_is_fitted(model)
    topics = int(model.topics_.shape[0])
    counts, documents = _counts_of(corpus, model)
    if texts is not None:
        if counts is None:
            raise LsparseError("texts: there are no documents that they could be of; give corpus too")
        texts = list(texts)
        if len(texts) != counts.shape[0]:
            raise LsparseError(f"texts: {len(texts)} texts for {counts.shape[0]} documents; give one a document")
    page, report = model.model_.page(
        str(title),
        _names_of(names, topics),
        x=counts,
        documents=documents,
        texts=texts,
        most=int(n_documents),
        seed=int(random_state),
    )
    return TopicPage(page, json.loads(report))


def _counts_of(corpus: Any, model: TopicModel) -> tuple[Any, list[str] | None]:
    """Counts and names of documents."""
    if corpus is None:
        return None, None
    if isinstance(corpus, list | tuple) and corpus and isinstance(corpus[0], str):
        raise TypeError("corpus: these are texts; give build_corpus(texts) and texts=texts")
    if isinstance(corpus, str | os.PathLike):
        corpus = read_corpus(corpus)
    documents = None
    if isinstance(corpus, Corpus):
        if list(corpus.vocabulary) != [str(word) for word in model.vocabulary_]:
            raise LsparseError("corpus: its words are not those of the model; give the corpus that the model was trained on")
        corpus, documents = corpus.counts, list(corpus.documents)
    counts = _documents(corpus)
    if counts.shape[1] != model.n_features_in_:
        raise LsparseError(f"corpus: {counts.shape[1]} columns, the model has {model.n_features_in_} words; give counts of its words")
    return counts, documents


def _names_of(names: Any, topics: int) -> list[str | None]:
    if names is None:
        return [None] * topics
    if isinstance(names, str | os.PathLike):
        return _core.read_topic_names(Path(names), topics)
    given = names.items() if isinstance(names, Mapping) else enumerate(names)
    found: list[str | None] = [None] * topics
    for topic, name in given:
        if not 0 <= int(topic) < topics:
            raise LsparseError(f"names: there is no topic {topic}; give names of 0 to {topics - 1}")
        found[int(topic)] = None if name is None else str(name)
    return found
