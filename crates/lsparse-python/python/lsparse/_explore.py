"""A page that shows a model, in a notebook or as a file."""

from __future__ import annotations

import copy
import html
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sklearn.utils.validation import check_is_fitted

from . import _core
from ._corpus import Corpus, columns_of, read_corpus
from ._errors import LsparseError
from ._mixtures import _MixtureBase
from ._scores import _documents
from ._sequences import HMM
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


class ClusterPage(TopicPage):
    """A page that shows the components of a mixture or of a hidden Markov model, as :class:`TopicPage` shows topics.

    Attributes
    ----------
    html : str
        The page.
    report : dict
        What is in it: ``clusters``, ``columns``, ``rows`` that there are, ``rows_looked_at``, ``rows_shown`` and ``bytes``.
    height : int
        How high notebooks show it, in pixels.

    Examples
    --------
    >>> import lsparse
    >>> X = [[0.0, 1.0], [0.1, 1.1], [5.0, 4.0], [5.1, 4.2]]
    >>> lsparse.explore(lsparse.GaussianMixture(2, covariance_type="diag", random_state=0).fit(X), X)
    <page of 2 components over 2 columns>
    """

    def __repr__(self) -> str:
        return f"<page of {self.report['clusters']} components over {self.report['columns']} columns>"


def explore(
    model: TopicModel | _MixtureBase | HMM,
    corpus: Any = None,
    *,
    texts: Sequence[str] | None = None,
    lengths: Any = None,
    metadata: Mapping[str, Any] | None = None,
    picture: tuple[int, ...] | None = None,
    missing: bool = False,
    names: Mapping[int, str] | Sequence[str | None] | str | os.PathLike[str] | None = None,
    title: str | None = None,
    n_documents: int = 1000,
    random_state: int = 0,
) -> TopicPage:
    """A page that shows a model: a map and a table of its topics or components, what they look like, and what shows them.

    It is what ``lsparse explore`` writes. With documents it has coherences, the documents that show a topic best and the
    topic of every word of them. With rows it shows how sure they are of their components and how much of that the L that
    are kept capture, and which rows are typical, doubtful and unlikely; of sequences also states over time and transitions.
    Of more documents or rows than it can hold a sample is taken, and the page says so.

    Parameters
    ----------
    model : TopicModel, mixture or HMM
        A fitted model.
    corpus : Corpus, path, CSR matrix or array-like of shape (n_documents, n_words), default=None
        Documents to show topics by, in the words of the model; or the rows of a mixture or an HMM.
    texts : sequence of str, default=None
        The texts of these documents, for a model whose vocabulary is that of a ``Corpus``; without them the page has the
        counts of words.
    lengths : array-like of int, default=None
        For an HMM the numbers of rows of the sequences; one sequence if not given.
    metadata : mapping or data frame, default=None
        Columns by name, a value for each document or row, to show shares over time or by value; those of ``corpus`` if not
        given.
    picture : (height, width) or (height, width, 3), default=None
        What rows of a mixture or an HMM are as pictures, row by row from the top.
    missing : bool, default=False
        Whether rows may have missing values (NaN), whichever way the mixture or the HMM was fitted.
    names : mapping, sequence of str or None, or path, default=None
        Names of topics or components, by number; or a file of them, as the page saves it.
    title : str, default=None
        What the page is called; by what it shows if not given.
    n_documents : int, default=1000
        Documents or rows that the page has at most.
    random_state : int, default=0
        Seed of the map.

    Returns
    -------
    page : TopicPage or ClusterPage
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
    if isinstance(model, _MixtureBase | HMM):
        if texts is not None:
            raise LsparseError("texts: only documents of a TopicModel have them; leave it out")
        how = {"lengths": lengths, "metadata": metadata, "picture": picture, "names": names, "title": title}
        model = _allowing_missing(model) if missing else model
        return _clusters(model, corpus, **how, most=int(n_documents), seed=int(random_state))
    if not isinstance(model, TopicModel):
        raise TypeError(f"model: {type(model).__name__} is none of TopicModel, mixtures and HMM, which pages show")
    if lengths is not None or picture is not None or missing:
        given = "lengths" if lengths is not None else "missing" if picture is None else "picture"
        raise LsparseError(f"{given}: a TopicModel has none; leave it out")
    topics = int(model.topics_.shape[0])
    counts, documents, kept = _counts_of(corpus, model)
    if texts is not None:
        if counts is None:
            raise LsparseError("texts: there are no documents that they could be of; give corpus too")
        texts = list(texts)
        if len(texts) != counts.shape[0]:
            raise LsparseError(f"texts: {len(texts)} texts for {counts.shape[0]} documents; give one a document")
    page, report = model.model_.page(
        "topics" if title is None else str(title),
        _names_of(names, topics, "topic"),
        x=counts,
        documents=documents,
        texts=texts,
        metadata=_metadata_of(kept if metadata is None else metadata, None if counts is None else counts.shape[0]),
        most=int(n_documents),
        seed=int(random_state),
    )
    return TopicPage(page, json.loads(report))


def _allowing_missing(model: Any) -> Any:
    """The same model for rows that may lack values."""
    if not hasattr(model, "missing"):
        raise LsparseError(f"missing: rows of {type(model).__name__} lack no values; leave it out")
    model = copy.copy(model)
    model.missing = True
    return model


def _clusters(
    model: Any, rows: Any, *, lengths: Any, metadata: Any, picture: Any, names: Any, title: str | None, most: int, seed: int
) -> ClusterPage:
    """The page of a mixture or an HMM."""
    is_sequence = isinstance(model, HMM)
    if lengths is not None and (not is_sequence or rows is None):
        raise LsparseError("lengths: only rows of an HMM are sequences; leave it out")
    if isinstance(rows, Corpus):
        metadata, rows = (rows.metadata if metadata is None else metadata), rows.counts
    if rows is not None:
        rows = model._given(rows) if is_sequence else model._rows(rows, reset=False)
    if picture is not None:
        picture = (*(int(side) for side in picture), 1)[:3]
        if len(picture) != 3 or picture[2] not in (1, 3) or min(picture) < 1:
            raise LsparseError("picture: give (height, width), or (height, width, 3) for colours")
    columns = list(model.model_.columns) or None
    page, report = _core.clusters_page(
        "sequence" if is_sequence else "mixture",
        model.model_.__reduce__()[1][0],
        ("states" if is_sequence else "clusters") if title is None else str(title),
        _names_of(names, len(model.startprob_ if is_sequence else model.weights_), "state" if is_sequence else "cluster"),
        x=rows,
        lengths=HMM._lengths(lengths),
        metadata=_metadata_of(metadata, None if rows is None else rows.shape[0]),
        columns=None if columns is None else [str(name) for name in columns],
        picture=picture,
        missing=bool(getattr(model, "missing", False)),
        most=most,
        seed=seed,
    )
    return ClusterPage(page, json.loads(report))


def _metadata_of(metadata: Any, documents: int | None) -> list[tuple[str, list[str]]]:
    found = list(columns_of(metadata).items())
    for name, values in found:
        if documents is None:
            raise LsparseError("metadata: there are no documents or rows that it could be of; give them too")
        if len(values) != documents:
            raise LsparseError(f"metadata: {len(values)} values of {name!r} for {documents}; give one a document or row")
    return found


def _counts_of(corpus: Any, model: TopicModel) -> tuple[Any, list[str] | None, dict[str, list[str]]]:
    """Counts and names of documents, and what else is known of them."""
    if corpus is None:
        return None, None, {}
    if isinstance(corpus, list | tuple) and corpus and isinstance(corpus[0], str):
        raise TypeError("corpus: these are texts; give build_corpus(texts) and texts=texts")
    if isinstance(corpus, str | os.PathLike):
        corpus = read_corpus(corpus)
    documents, kept = None, {}
    if isinstance(corpus, Corpus):
        if list(corpus.vocabulary) != [str(word) for word in model.vocabulary_]:
            raise LsparseError("corpus: its words are not those of the model; give the corpus that the model was trained on")
        corpus, documents, kept = corpus.counts, list(corpus.documents), corpus.metadata
    counts = _documents(corpus)
    if counts.shape[1] != model.n_features_in_:
        raise LsparseError(f"corpus: {counts.shape[1]} columns, the model has {model.n_features_in_} words; give counts of its words")
    return counts, documents, kept


def _names_of(names: Any, num: int, what: str) -> list[str | None]:
    if names is None:
        return [None] * num
    if isinstance(names, str | os.PathLike):
        return _core.read_names(Path(names), num, what)
    given = names.items() if isinstance(names, Mapping) else enumerate(names)
    found: list[str | None] = [None] * num
    for number, name in given:
        if not 0 <= int(number) < num:
            raise LsparseError(f"names: there is no {what} {number}; give names of 0 to {num - 1}")
        found[int(number)] = None if name is None else str(name)
    return found
