"""Text to counts, and corpus folders."""

import subprocess

import lsparse
import numpy as np
import pytest
from lsparse import TopicModel, build_corpus, read_corpus

TEXTS = ["The cat sleeps.", "A dog barks at the cat.", "Cat and bird.", "Bird and dog!", "1984 dogs", "Fish swim."]


def test_settings_of_text():
    corpus = build_corpus(TEXTS)
    assert corpus.vocabulary == ["bird", "cat", "dog"]
    assert corpus.counts.sum() == 7 and len(corpus.documents) == 6
    assert corpus.vocabulary.tokenizer["lowercase"] is True
    everything = build_corpus(iter(TEXTS), stop_words=None, min_df=1, max_df=1.0, numbers=True, min_length=1)
    assert {"the", "a", "1984", "dogs"} <= set(everything.vocabulary)
    stemmed = build_corpus(TEXTS, stem="english", min_df=1, max_df=1.0, stop_words=["the"])
    assert "dogs" not in stemmed.vocabulary and "dog" in stemmed.vocabulary and "and" in stemmed.vocabulary
    assert build_corpus(TEXTS, min_df=1, max_df=1.0, max_features=1).vocabulary == ["cat"]
    with pytest.raises(lsparse.LsparseError, match="max_features: no word would be left"):
        build_corpus(TEXTS, max_features=0)


def test_the_command_builds_the_same(command, tmp_path):
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS))
    run = [command, "corpus", "build", str(tmp_path / "texts.txt"), "--out", str(tmp_path / "theirs"), "--quiet"]
    subprocess.run(run, check=True)
    theirs = read_corpus(tmp_path / "theirs")
    ours = build_corpus(TEXTS)
    kept = build_corpus(tmp_path / "texts.txt", out=tmp_path / "ours")
    for corpus in (ours, kept, read_corpus(tmp_path / "ours")):
        assert corpus.vocabulary == theirs.vocabulary
        assert (corpus.counts != theirs.counts).nnz == 0
        assert corpus.vocabulary.tokenizer == theirs.vocabulary.tokenizer


def test_new_texts_are_counted_by_the_words_of_others(tmp_path):
    corpus = build_corpus(TEXTS, stem="english", min_df=1, max_df=1.0)
    words, new = corpus.vocabulary, ["Dogs and a DOG and unheard of words", "", "Birds swim, swim"]
    (tmp_path / "new.txt").write_text("\n".join(new[::2]))
    again = build_corpus(TEXTS, vocabulary=words)
    assert again.vocabulary == words and (again.counts != corpus.counts).nnz == 0 and again.documents == corpus.documents
    assert again.vocabulary.tokenizer == words.tokenizer
    found = build_corpus(iter(new), vocabulary=words)
    assert found.counts.shape == (3, len(words))
    by_word = [{words[column]: int(row[column]) for column in np.flatnonzero(row)} for row in found.counts.toarray()]
    assert by_word == [{"dog": 2}, {}, {"bird": 1, "swim": 2}]
    assert build_corpus(["", "?"], vocabulary=words).counts.nnz == 0
    from_file = build_corpus(tmp_path / "new.txt", vocabulary=words)
    assert (from_file.counts != found.counts[[0, 2]]).nnz == 0
    # A list knows nothing of endings.
    assert build_corpus(new, vocabulary=["dogs", "dog"]).counts.toarray().tolist() == [[1, 1], [0, 0], [0, 0]]
    model = TopicModel(2, vocabulary=words, random_state=0).fit(corpus.counts)
    assert model.transform(found.counts).shape == (3, 2)
    for settings in [{"min_df": 2}, {"phrases": True}, {"out": tmp_path / "kept"}]:
        with pytest.raises(lsparse.LsparseError, match="not with a vocabulary"):
            build_corpus(new, vocabulary=words, **settings)
    # As CountVectorizer and gensim have it, the numbers say the columns.
    for numbered in [{"swim": 1, "dog": 0}, {"swim": np.int64(1), "dog": np.int64(0)}, {1: "swim", 0: "dog"}]:
        assert build_corpus(new, vocabulary=numbered).counts.toarray().tolist() == [[1, 0], [0, 0], [0, 2]]
    for wrong, said in [
        ("dog", "no order"),
        ({"dog", "swim"}, "no order"),
        (["dog", "dog"], "twice"),
        ([], "no words"),
        ([1, 2], "no text"),
        ({"dog": 1, "swim": 3}, "0, 1, 2"),
        ({1: "dog", 3: "swim"}, "0, 1, 2"),
        ({"dog": 0, "swim": 0}, "0, 1, 2"),
        ({"dog": "swim"}, "words to numbers"),
        ({0: "dog", "swim": 1}, "words to numbers"),
        ({"dog": 0.0, "swim": 1.0}, "words to numbers"),
    ]:
        with pytest.raises(lsparse.LsparseError, match=said):
            build_corpus(new, vocabulary=wrong)


def test_counts_stay_on_disk(tmp_path):
    build_corpus(TEXTS, out=tmp_path / "corpus")
    corpus = read_corpus(tmp_path / "corpus")
    base = corpus.counts.data
    while base is not None and not isinstance(base, np.memmap):
        base = base.base
    assert isinstance(base, np.memmap)
    assert TopicModel(2, vocabulary=corpus.vocabulary, random_state=0).fit(corpus.counts).vocabulary_.tolist() == ["bird", "cat", "dog"]


def test_bad_text(tmp_path):
    with pytest.raises(TypeError, match="strings, not int"):
        build_corpus([1, 2])
    with pytest.raises(lsparse.LsparseError, match="does not exist"):
        build_corpus(tmp_path / "missing")
    with pytest.raises(lsparse.LsparseError, match="^texts: no word is left"):
        build_corpus(["apple", "pear"])
    with pytest.raises(lsparse.LsparseError, match="no list of stop words"):
        build_corpus(TEXTS, stop_words="klingon")
    with pytest.raises(lsparse.LsparseError, match="it is no corpus"):
        read_corpus(tmp_path)
    build_corpus(TEXTS, out=tmp_path / "corpus")
    with pytest.raises(lsparse.LsparseError, match="exists already"):
        build_corpus(TEXTS, out=tmp_path / "corpus")
