"""The Python package: what its layer costs, and how it compares with scikit-learn.

    python bench/python.py --rust target/release/fit [--rows 100000] [--corpus FOLDER]

First the same fit (N x 16, K = 50, one thread) from Python and from Rust, in turns, the best of several. Then time and
held-out score of scikit-learn's GaussianMixture, BayesianGaussianMixture and LatentDirichletAllocation on the same
data. Documents are drawn from known topics, unless a corpus folder is given, of which every tenth is held out.
"""

import argparse
import json
import subprocess
import tempfile
import time
import warnings
from pathlib import Path

import lsparse
import numpy as np
import scipy.sparse as sp
from sklearn.decomposition import LatentDirichletAllocation
from sklearn.mixture import BayesianGaussianMixture as TheirBayesian
from sklearn.mixture import GaussianMixture as Theirs

COMPONENTS = 50
COLUMNS = 16


def rows(count, seed):
    """Rows of 50 Gaussians that overlap a little."""
    rng = np.random.default_rng(0)
    means = rng.normal(0, 2.5, (COMPONENTS, COLUMNS))
    shapes = rng.normal(0, 0.4, (COMPONENTS, COLUMNS, COLUMNS)) + np.eye(COLUMNS)
    rng = np.random.default_rng(seed)
    labels = rng.integers(COMPONENTS, size=count)
    return means[labels] + np.einsum("nij,nj->ni", shapes[labels], rng.normal(size=(count, COLUMNS)))


def documents(count, seed, words=2000, topics=COMPONENTS):
    """Word counts of documents about known topics."""
    rng = np.random.default_rng(0)
    phi = rng.dirichlet(np.full(words, 0.05), topics)
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet(np.full(topics, 0.05), count)
    return sp.csr_array(np.stack([rng.multinomial(rng.integers(50, 250), pi @ phi) for pi in shares]).astype(np.int32))


def timed(work):
    """What it gives, and the seconds it takes."""
    start = time.perf_counter()
    result = work()
    return result, time.perf_counter() - start


def overhead(rust, X, repeats):
    """The same fit from Python and from Rust, in turns."""
    model = lsparse.GaussianMixture(COMPONENTS, sparsity=8, max_iter=10, tol=0, random_state=0, n_jobs=1)
    python, native = [], []
    with tempfile.TemporaryDirectory() as folder:
        data, config = Path(folder) / "x.npy", Path(folder) / "config.json"
        np.save(data, X)
        config.write_text(model._config())
        for _ in range(repeats):
            python.append(timed(lambda: model.fit(X))[1])
            report = json.loads(subprocess.run([rust, data, config, "1"], check=True, capture_output=True).stdout)
            native.append(report["seconds"])
            assert report["objective"] == model.objective_, "not the same fit"
    ours, theirs = min(python), min(native)
    print(f"fit of {X.shape[0]} x {X.shape[1]}, K = {COMPONENTS}, L = 8, 10 laps, one thread, best of {repeats}:")
    print(f"  Python {ours:.3f} s, Rust {theirs:.3f} s: overhead {100 * (ours / theirs - 1):+.1f} %, the same objective")


def mixtures(X, held):
    """Full covariances, K = 50: seconds and mean held-out log density."""
    contenders = {
        "lsparse GaussianMixture vb, L = 8": lsparse.GaussianMixture(COMPONENTS, sparsity=8, random_state=0, n_jobs=1),
        "lsparse GaussianMixture vb, k-means": lsparse.GaussianMixture(
            COMPONENTS, sparsity=8, init_params="kmeans", random_state=0, n_jobs=1
        ),
        "lsparse GaussianMixture ml, k-means": lsparse.GaussianMixture(
            COMPONENTS, sparsity=8, estimate="ml", init_params="kmeans", random_state=0, n_jobs=1
        ),
        "lsparse GaussianMixture vb, dense": lsparse.GaussianMixture(
            COMPONENTS, sparsity=COMPONENTS, random_state=0, n_jobs=1
        ),
        "sklearn GaussianMixture": Theirs(n_components=COMPONENTS, random_state=0),
        "sklearn BayesianGaussianMixture": TheirBayesian(n_components=COMPONENTS, random_state=0),
    }
    print(f"mixtures on {X.shape[0]} x {X.shape[1]}, one thread, defaults otherwise (scikit-learn's start is k-means):")
    for name, model in contenders.items():
        _, seconds = timed(lambda model=model: model.fit(X))
        print(f"  {name:36} {seconds:8.2f} s  {model.n_iter_:4} laps  held-out score {model.score(held):.4f}", flush=True)


def topics(counts, held, number):
    """Seconds and document completion of the same held-out documents, by one scorer."""
    contenders = {
        "lsparse TopicModel, L = 8": lsparse.TopicModel(number, sparsity=8, random_state=0, n_jobs=1),
        "lsparse TopicModel, one lap": lsparse.TopicModel(number, sparsity=8, max_iter=1, random_state=0, n_jobs=1),
        "sklearn LDA, batch": LatentDirichletAllocation(
            number, doc_topic_prior=0.5 / number, topic_word_prior=0.1, random_state=0
        ),
        "sklearn LDA, online": LatentDirichletAllocation(
            number, doc_topic_prior=0.5 / number, topic_word_prior=0.1, learning_method="online", random_state=0
        ),
    }
    print(f"topics on {counts.shape[0]} documents of {counts.shape[1]} words, K = {number}, one thread:")
    for name, model in contenders.items():
        _, seconds = timed(lambda model=model: model.fit(counts))
        score = lsparse.completion_score(model.components_, held)
        print(f"  {name:36} {seconds:8.2f} s  {model.n_iter_:4} laps  held-out score {score:.4f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rust", required=True, help="the fit program of lsparse-bench")
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--corpus", help="a corpus folder instead of documents of known topics")
    parser.add_argument("-k", "--topics", type=int, default=COMPONENTS)
    options = parser.parse_args()
    # Whoever does not come to rest by default is timed all the same.
    warnings.simplefilter("ignore")
    X, held = rows(options.rows, 1), rows(max(options.rows // 10, 1), 2)
    overhead(options.rust, X, options.repeats)
    mixtures(X, held)
    if options.corpus:
        counts = lsparse.read_corpus(options.corpus).counts
        out = np.arange(counts.shape[0]) % 10 == 0
        topics(counts[~out], counts[out], options.topics)
    else:
        topics(documents(5000, 1), documents(500, 2), options.topics)


if __name__ == "__main__":
    main()
