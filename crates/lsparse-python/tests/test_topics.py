"""What topic models find, and that their results mean what they say."""

import lsparse
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from conftest import agreement
from lsparse import TopicModel


@pytest.mark.parametrize("estimate", ["map", "vb"])
@pytest.mark.parametrize("schedule", ["memoized", "full", "stochastic", "streaming"])
def test_subjects_are_found(documents, estimate, schedule):
    counts, subjects = documents
    batch_size = None if schedule == "full" else 100
    model = TopicModel(3, estimate=estimate, schedule=schedule, batch_size=batch_size, random_state=0).fit(counts)
    assert agreement(model.predict(counts), subjects) > 0.98
    np.testing.assert_allclose(model.transform(counts).sum(axis=1), 1.0)


def test_components_are_pseudo_counts(documents):
    counts, _ = documents
    model = TopicModel(3, topic_word_prior=0.3, random_state=0).fit(counts)
    np.testing.assert_allclose((model.components_ - 0.3).sum(), counts.sum(), rtol=1e-5)
    normalised = model.components_ / model.components_.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(model.topics_, normalised, rtol=1e-5)
    np.testing.assert_allclose(model.weights_.sum(), 1.0)
    np.testing.assert_allclose(model.doc_topic_prior_, 0.5 / 3)


def test_every_kind_of_matrix_gives_the_same(documents):
    counts, _ = documents
    expected = TopicModel(3, random_state=0).fit(counts).topics_
    for X in (counts.toarray(), counts.toarray().astype("f4"), counts.astype("f8"), counts.astype("u1"), counts.tocsc()):
        np.testing.assert_array_equal(TopicModel(3, random_state=0).fit(X).topics_, expected)
    np.testing.assert_array_equal(TopicModel(3, random_state=0).fit(sp.csr_matrix(counts)).topics_, expected)


def test_shares_sparse_and_dense(documents):
    counts, _ = documents
    model = TopicModel(3, random_state=0).fit(counts)
    some = sp.vstack([counts[:5], sp.csr_array((1, counts.shape[1]), dtype=counts.dtype)]).tocsr()
    sparse, dense = model.predict_sparse(some), model.transform(some)
    assert sparse.shape == dense.shape == (6, 3)
    lengths = some.sum(axis=1)
    alpha = model.doc_topic_prior_
    expected = (sparse.toarray() * lengths[:, None] + alpha) / (lengths + alpha.sum())[:, None]
    np.testing.assert_allclose(dense, expected, rtol=1e-6)
    assert sparse[[5]].nnz == 0
    np.testing.assert_allclose(dense[5], 1 / 3)


def test_scores(documents):
    counts, _ = documents
    good, poor = (TopicModel(k, random_state=0).fit(counts[:250]) for k in (3, 1))
    held = counts[250:]
    assert good.score(held) > poor.score(held)
    assert good.perplexity(held) == pytest.approx(np.exp(-good.score(held)))
    assert lsparse.completion_score(good, held) == good.score(held)
    assert lsparse.completion_score(good, held, share=0.5, seed=3) != good.score(held)
    assert lsparse.completion_score(good.components_, held) == pytest.approx(good.score(held), rel=1e-6)
    found = lsparse.coherence(good, counts, n_words=5)
    assert set(found) == {"npmi", "umass"} and found["npmi"].shape == (3,)
    assert found["npmi"].mean() > lsparse.coherence(np.random.default_rng(0).random((3, 60)), counts)["npmi"].mean()


def test_completion_agrees_with_a_plain_one(documents):
    """Topics known: the score lies between that of the true subject and that of no knowledge at all."""
    counts, subjects = documents
    model = TopicModel(3, random_state=0).fit(counts)
    order = [np.bincount(model.predict(counts)[subjects == s], minlength=3).argmax() for s in range(3)]
    log = np.log(model.topics_[order])
    oracle = sum(counts[[d]].toarray()[0] @ log[subjects[d]] for d in range(300)) / counts.sum()
    assert -np.log(60) < model.score(counts) < oracle + 0.1


def test_trace_has_what_documents_did(documents):
    counts, _ = documents
    model = TopicModel(3, batch_size=100, n_init=2, random_state=0).fit(counts)
    frame = pd.DataFrame(model.trace_)
    assert {"active_topics", "doc_iterations", "restarts_accepted"} <= set(frame)
    assert frame["active_topics"].notna().sum() == frame.groupby("run")["step"].max().sum() / 3


def test_partial_fit(documents):
    counts, subjects = documents
    for schedule in ("streaming", "stochastic"):
        model = TopicModel(3, schedule=schedule, total_samples=300, random_state=0)
        for start in range(0, 300, 75):
            model.partial_fit(counts[start : start + 75])
        assert agreement(model.predict(counts), subjects) > 0.98
        assert (model.components_ - 0.07).sum() == pytest.approx(counts.sum(), rel=0.01)


def test_warm_start_does_not_count_documents_twice(documents):
    counts, _ = documents
    model = TopicModel(3, max_iter=1, warm_start=True, random_state=0)
    for _ in range(3):
        model.fit(counts)
    assert (model.components_ - 0.07).sum() == pytest.approx(counts.sum(), rel=1e-5)


def test_learned_prior_and_sample(documents):
    counts, _ = documents
    model = TopicModel(3, learn_doc_topic_prior="asymmetric", random_state=0).fit(counts)
    assert np.unique(model.doc_topic_prior_).size == 3
    drawn = model.sample(100)
    assert drawn.shape == (100, 60) and (drawn.sum(axis=1) == 40).all()
    assert (model.sample(4, n_words=9).sum(axis=1) == 9).all()


def test_words(documents):
    counts, _ = documents
    words = [f"w{v}" for v in range(60)]
    model = TopicModel(3, vocabulary=words, random_state=0).fit(counts)
    top = model.top_words(5)
    assert all(len({int(word[1:]) // 20 for word in topic}) == 1 for topic in top)
    assert len(model.top_words(3, by="relevance")) == 3
    frame = pd.DataFrame(counts.toarray(), columns=words)
    assert list(TopicModel(3, random_state=0).fit(frame).vocabulary_) == words
    with pytest.raises(lsparse.LsparseError, match="2 words for 60 columns"):
        TopicModel(3, vocabulary=["a", "b"]).fit(counts)


def test_words_by_their_numbers(documents):
    counts, _ = documents
    words = [f"w{v}" for v in range(60)]
    backwards = [(word, number) for number, word in reversed(list(enumerate(words)))]
    for mapping in [dict(backwards), {number: word for word, number in backwards}]:
        model = TopicModel(3, vocabulary=mapping, seed_words=[["w3"]], max_iter=2, tol=0, random_state=0).fit(counts)
        assert list(model.vocabulary_) == words
        assert set(model.top_words(5)[0]) <= set(words[:20]), "w3 pulls the topic of its own column"
    for wrong, said in [
        ({word: 2 * number for word, number in backwards}, "0, 1, 2"),
        ({word: word for word in words}, "words to numbers"),
        (set(words), "no order"),
    ]:
        with pytest.raises(lsparse.LsparseError, match=said):
            TopicModel(3, vocabulary=wrong).fit(counts)


@pytest.mark.parametrize("texts", [["cat dog", "dog"], np.array(["cat dog", "dog"]), ("cat dog",)])
def test_texts_are_told_from_counts(texts):
    with pytest.raises(TypeError, match="build_corpus"):
        TopicModel(2).fit(texts)
