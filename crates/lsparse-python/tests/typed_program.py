"""A program that type checkers are run on."""

from pathlib import Path

import lsparse
import lsparse.plot
import numpy as np
from lsparse import GaussianMixture, TopicModel
from numpy.typing import NDArray


def cluster(X: NDArray[np.float64]) -> NDArray[np.int64]:
    model: GaussianMixture = GaussianMixture(n_components=3, sparsity=2, estimate="vb", random_state=0).fit(X)
    score: float = model.score(X)
    objectives: NDArray[np.float64] = model.trace_["objective"]
    rows, components = model.sample(5)
    print(score, objectives[-1], rows.shape, components.dtype, model.means_.shape, model.converged_)
    lsparse.save(model, Path("model.safetensors"))
    loaded = lsparse.load("model.safetensors")
    print(type(loaded).__name__, loaded.n_iter_)
    return model.predict(X)


def read(texts: list[str]) -> list[list[str]]:
    corpus: lsparse.Corpus = lsparse.build_corpus(texts, min_df=1, max_df=1.0)
    model = TopicModel(n_components=2, vocabulary=corpus.vocabulary, random_state=0).fit(corpus.counts)
    shares: NDArray[np.float64] = model.transform(corpus.counts)
    quality: dict[str, NDArray[np.float64]] = lsparse.coherence(model, corpus.counts, n_words=3)
    print(shares.shape, quality["npmi"].mean(), lsparse.completion_score(model, corpus.counts))
    return model.top_words(3)


if __name__ == "__main__":
    generator = np.random.default_rng(0)
    print(np.bincount(cluster(generator.normal(size=(300, 2)) + 9.0 * generator.integers(3, size=(300, 1)))))
    print(read(["cat dog bird", "dog cat", "sun moon star", "star moon"] * 5))
    try:
        lsparse.load("missing")
    except lsparse.LsparseError as error:
        print(error)
