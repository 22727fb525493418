"""Text to word counts with the library's tokeniser, and corpus folders."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from numbers import Integral
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import scipy.sparse as sp

from . import _core
from ._errors import LsparseError


class Vocabulary(list[str]):
    """The words of the columns of a corpus: a list that also knows how text became them.

    Attributes
    ----------
    tokenizer : dict or None
        How text became words; None where that is not known.

    Examples
    --------
    >>> import lsparse
    >>> words = lsparse.build_corpus(["The cat sleeps.", "A dog barks.", "Cat and dog."], max_df=1.0).vocabulary
    >>> words, words.tokenizer["lowercase"]
    (['cat', 'dog'], True)
    """

    __module__ = "lsparse"

    def __init__(self, words: Iterable[str] = (), tokenizer: dict[str, Any] | None = None) -> None:
        super().__init__(words)
        self.tokenizer = tokenizer


class Corpus(NamedTuple):
    """Documents as word counts.

    Attributes
    ----------
    counts : csr_array of shape (n_documents, n_words)
        How often each word is in each document.
    vocabulary : Vocabulary
        The words of the columns, for ``TopicModel(vocabulary=...)``.
    documents : list of str
        The names of the rows.
    metadata : dict of str to list of str
        What else is known of the documents, by the names of columns; empty where nothing was kept.

    Examples
    --------
    >>> import lsparse
    >>> corpus = lsparse.build_corpus(["The cat sleeps.", "A dog barks.", "Cat and dog."], min_df=1, max_df=1.0)
    >>> corpus.counts.shape, corpus.vocabulary
    ((3, 4), ['barks', 'cat', 'dog', 'sleeps'])
    """

    counts: Any
    vocabulary: Vocabulary
    documents: list[str]
    metadata: dict[str, list[str]] = {}


def read_corpus(path: str | os.PathLike[str], *, mmap: bool = True) -> Corpus:
    """Read a corpus folder, as ``lsparse corpus build`` writes it.

    Parameters
    ----------
    path : path
        The folder.
    mmap : bool, default=True
        Leave the words and counts on disk, where training reads them by and by, instead of reading them now.

    Returns
    -------
    corpus : Corpus
        Counts, words (which know how text became them), names of the documents and what else was kept of them.

    Examples
    --------
    >>> import lsparse, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = lsparse.build_corpus(["red apple", "green apple", "red sea"], min_df=1, max_df=1.0, out=folder + "/c")
    ...     corpus = lsparse.read_corpus(folder + "/c", mmap=False)
    >>> corpus.vocabulary
    ['apple', 'green', 'red', 'sea']
    """
    folder = Path(path)
    vocabulary, documents, tokenizer, metadata = _core.open_corpus(folder)
    mode: Literal["r"] | None = "r" if mmap else None
    arrays = tuple(np.load(folder / f"{name}.npy", mmap_mode=mode) for name in ("counts", "words", "indptr"))
    counts = sp.csr_array(arrays, shape=(len(documents), len(vocabulary)))
    settings = None if tokenizer is None else json.loads(tokenizer)
    return Corpus(counts, Vocabulary(vocabulary, settings), documents, dict(metadata))


def build_corpus(
    texts: Iterable[str] | str | os.PathLike[str],
    *,
    vocabulary: Sequence[str] | Mapping[str, int] | Mapping[int, str] | None = None,
    lowercase: bool = True,
    stop_words: str | Iterable[str] | None = "english",
    stem: str | None = None,
    min_length: int = 2,
    numbers: bool = False,
    segment: bool = True,
    phrases: bool = False,
    min_df: int | None = None,
    max_df: float | None = None,
    max_features: int | None = None,
    metadata: Mapping[str, Iterable[Any]] | Iterable[str] | None = None,
    out: str | os.PathLike[str] | None = None,
) -> Corpus:
    """Turn text into word counts with the library's tokeniser, on all cores.

    Parameters
    ----------
    texts : iterable of str, or a path
        Documents; or a file or folder of text or counts in any format that ``lsparse corpus build`` takes.
    vocabulary : Vocabulary, sequence of str or mapping, default=None
        The words to count, in this order (or by their numbers, as ``CountVectorizer`` and gensim's ``id2word`` have them),
        and no others: those of the corpus that a model was trained on. Where it knows how text became words, new text
        becomes words in the same way, whatever is said below.
    lowercase : bool, default=True
        Put words into lower case.
    stop_words : str, iterable of str or None, default="english"
        Words to leave out: those of a language, these, or none.
    stem : str, default=None
        Cut off the endings of this language.
    min_length : int, default=2
        Letters that a word has at least.
    numbers : bool, default=False
        Keep words without a letter, such as 1984.
    segment : bool, default=True
        Cut text in scripts without blanks (Chinese, Japanese, Thai, Lao, Khmer, Burmese) into words; every letter is a
        word where not.
    phrases : bool, default=False
        Join pairs of words that follow each other far more often than chance has it.
    min_df : int, default=None
        Documents that a word is in at least; 2 for text if not given.
    max_df : float, default=None
        Share of the documents that a word is in at most; 0.5 for text if not given.
    max_features : int, default=None
        Words at most, those in most documents; 100,000 for text if not given.
    metadata : mapping of str to iterable, or iterable of str, default=None
        What else is known of the documents, a column a name and a value a document, for ``explore``; of a file of JSON
        objects or CSV the names of the fields or columns to keep.
    out : path, default=None
        Keep the corpus in this folder, which must not exist; its counts then stay on disk.

    Returns
    -------
    corpus : Corpus
        Counts, words (which know how text became them) and names of the documents.

    Examples
    --------
    >>> import lsparse
    >>> corpus = lsparse.build_corpus(["The cat sleeps.", "A dog barks.", "Cat and bird.", "Bird and dog."])
    >>> corpus.vocabulary
    ['bird', 'cat', 'dog']
    >>> corpus.counts.toarray()
    array([[0, 1, 0],
           [0, 0, 1],
           [1, 1, 0],
           [1, 0, 1]], dtype=int32)

    New texts by the same words, for ``transform`` of a model:

    >>> lsparse.build_corpus(["A cat and a fish"], vocabulary=corpus.vocabulary).counts.toarray()
    array([[0, 1, 0]], dtype=int32)
    """
    tokenizer = {
        "lowercase": bool(lowercase),
        "min-length": int(min_length),
        "numbers": bool(numbers),
        "stop-words": _stop_words(stop_words),
        "stem": stem,
        "segment": bool(segment),
    }
    if vocabulary is None:
        filters: dict[str, Any] = {"min_df": min_df, "max_df": max_df, "max_features": max_features}
        return _built(texts, tokenizer, phrases=bool(phrases), **filters, metadata=metadata, out=out)
    given = {"phrases": phrases or None, "min_df": min_df, "max_df": max_df, "max_features": max_features, "out": out}
    for name, value in given.items():
        if value is not None:
            raise LsparseError(f"{name}: not with a vocabulary, which says what is counted; leave one of them out")
    tokenizer = getattr(vocabulary, "tokenizer", None) or tokenizer
    vocabulary = _counted(vocabulary)
    if not isinstance(texts, str | os.PathLike):
        texts = list(texts)
        counts = counts_of(texts, vocabulary, tokenizer)
        columns = columns_of(metadata)
        _check_columns(columns, len(texts))
        return Corpus(counts, Vocabulary(vocabulary, tokenizer), [str(number + 1) for number in range(len(texts))], columns)
    corpus = _built(texts, tokenizer, metadata=metadata, **_EVERY_WORD)
    counts = counts_by(vocabulary, corpus.counts, corpus.vocabulary)
    return Corpus(counts, Vocabulary(vocabulary, tokenizer), corpus.documents, corpus.metadata)


def in_order(vocabulary: Any) -> list[Any]:
    """The words of a vocabulary in the order of the columns; refused where no such order is said."""
    if isinstance(vocabulary, Mapping):
        pairs = list(vocabulary.items())
        if all(isinstance(word, str) and isinstance(number, Integral) for word, number in pairs):
            pairs = [(number, word) for word, number in pairs]
        elif not all(isinstance(number, Integral) and isinstance(word, str) for number, word in pairs):
            raise LsparseError("vocabulary: a mapping is of words to numbers, or of numbers to words; give one of these")
        pairs.sort(key=lambda pair: pair[0])
        if [number for number, _ in pairs] != list(range(len(pairs))):
            raise LsparseError("vocabulary: the numbers of its words are not 0, 1, 2 and so on; give one column to each")
        return [word for _, word in pairs]
    if isinstance(vocabulary, str | bytes) or not hasattr(vocabulary, "__getitem__"):
        kind = type(vocabulary).__name__
        raise LsparseError(f"vocabulary: a {kind} has no order of words; give a list of them, or the number of each")
    return list(vocabulary)


def _counted(vocabulary: Any) -> list[str]:
    """Words to count, each once."""
    words = in_order(vocabulary)
    if not words or not all(isinstance(word, str) for word in words):
        raise LsparseError("vocabulary: it has no words, or some that are no text; give a list of words")
    if len(set(words)) < len(words):
        twice = next(word for word in words if words.count(word) > 1)
        raise LsparseError(f"vocabulary: {twice!r} is there twice; give each word once")
    return words


#: What keeps every word.
_EVERY_WORD: dict[str, Any] = {"phrases": False, "min_df": 1, "max_df": 1.0, "max_features": sys.maxsize, "out": None}


def _built(
    texts: Any,
    tokenizer: dict[str, Any],
    *,
    phrases: bool,
    min_df: int | None,
    max_df: float | None,
    max_features: int | None,
    out: str | os.PathLike[str] | None,
    metadata: Any = None,
) -> Corpus:
    """A corpus of texts that become words by these settings."""
    with tempfile.TemporaryDirectory(prefix="lsparse-") as scratch:
        if isinstance(texts, str | os.PathLike):
            source, form = Path(texts), None
            if isinstance(metadata, str | Mapping):
                raise TypeError("metadata: give the names of fields or columns to keep, as a list")
            keep = None if metadata is None else [str(name) for name in metadata]
        else:
            source, form = Path(scratch) / "texts.jsonl", "jsonl"
            columns = columns_of(metadata)
            keep = list(columns)
            _write_texts(texts, source, columns)
        folder = Path(scratch) / "corpus" if out is None else Path(out)
        try:
            _core.build_corpus(
                source,
                folder,
                tokenizer=json.dumps(tokenizer),
                phrases=phrases,
                min_docs=min_df,
                max_share=max_df,
                max_words=max_features,
                format=form,
                force=False,
                keep=keep,
            )
        except LsparseError as error:
            if form is None:
                raise
            # The file that the texts went through is none of the caller's business.
            raise LsparseError(str(error).replace(str(source), "texts")) from None
        return read_corpus(folder, mmap=out is not None)


def counts_by(words: Sequence[str], counts: Any, own: Sequence[str]) -> Any:
    """Counts whose columns are the words ``own``, by the columns of other words; what is not among these is left out."""
    column = {word: number for number, word in enumerate(words)}
    places = np.array([column.get(word, -1) for word in own], dtype=np.int64)
    rows = np.repeat(np.arange(counts.shape[0]), np.diff(counts.indptr))
    found = places[counts.indices] if len(own) else np.empty(0, dtype=np.int64)
    kept = found >= 0
    shape = (counts.shape[0], len(words))
    return sp.coo_array((counts.data[kept], (rows[kept], found[kept])), shape=shape).tocsr()


def counts_of(texts: Iterable[str], words: Sequence[str], tokenizer: dict[str, Any]) -> Any:
    """Counts of texts by the words of a model, for which text became words so."""
    texts = list(texts)
    try:
        corpus = _built(texts, tokenizer, **_EVERY_WORD)
    except LsparseError:
        # Texts without words, unless there is something wrong with more than these.
        _built(["plain words"], tokenizer, **_EVERY_WORD)
        return sp.csr_array((len(texts), len(words)), dtype=np.int32)
    return counts_by(words, corpus.counts, corpus.vocabulary)


def _stop_words(stop_words: str | Iterable[str] | None) -> str | dict[str, Any]:
    if stop_words is None:
        return "none"
    return {"language": stop_words} if isinstance(stop_words, str) else {"words": list(stop_words)}


def columns_of(metadata: Any) -> dict[str, list[str]]:
    """Columns of metadata as text: what is missing is blank, dates are as ISO has them."""
    if metadata is None:
        return {}
    if not hasattr(metadata, "items"):
        raise TypeError("metadata: give a mapping from the name of each column to its values, one a document")

    def said(value: Any) -> str:
        if value is None or value != value:  # noqa: PLR0124 (what is no number is not itself)
            return ""
        return str(value.isoformat()) if hasattr(value, "isoformat") else str(value)

    return {str(name): [said(value) for value in values] for name, values in metadata.items()}


def _write_texts(texts: Iterable[str], path: Path, columns: Mapping[str, list[str]]) -> None:
    if "text" in columns:
        raise LsparseError("metadata: a column cannot be called text; give it another name")
    count = 0
    with path.open("w", encoding="ascii") as file:
        for n, text in enumerate(texts):
            if not isinstance(text, str):
                raise TypeError(f"documents must be strings, not {type(text).__name__}")
            count += 1
            kept = {name: values[n] for name, values in columns.items() if n < len(values)}
            # Half a surrogate pair is no character: files of text have a mark in its place, too.
            json.dump({"text": text.encode("utf-8", "replace").decode(), **kept}, file)
            file.write("\n")
    _check_columns(columns, count)


def _check_columns(columns: Mapping[str, list[str]], documents: int) -> None:
    for name, values in columns.items():
        if len(values) != documents:
            raise LsparseError(f"metadata: {len(values)} values of {name!r} for {documents} documents; give one a document")
