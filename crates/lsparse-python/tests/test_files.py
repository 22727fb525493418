"""Model files: the same bytes as the command's, and open to others."""

import subprocess

import lsparse
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from lsparse import BernoulliMixture, GaussianMixture, MultinomialMixture, PoissonMixture, TopicModel
from safetensors.numpy import load_file
from sklearn.exceptions import NotFittedError

MIXTURES = {
    "gauss": GaussianMixture(5, max_iter=10, tol=0, random_state=3),
    "diag-gauss": GaussianMixture(5, covariance_type="diag", estimate="map", max_iter=10, tol=0, random_state=3),
    "spherical-gauss": GaussianMixture(5, covariance_type="spherical", max_iter=10, tol=0, random_state=3),
    "tied-gauss": GaussianMixture(5, covariance_type="tied", max_iter=10, tol=0, random_state=3),
    "zero-mean-gauss": GaussianMixture(5, covariance_type="zero-mean", sparsity=2, max_iter=10, tol=0, random_state=3),
    "multinomial": MultinomialMixture(5, batch_size=100, max_iter=10, tol=0, random_state=3),
    "poisson": PoissonMixture(5, max_iter=10, tol=0, random_state=3),
    "bernoulli": BernoulliMixture(5, estimate="ml", n_init=2, max_iter=10, tol=0, random_state=3),
}
SETTINGS = {
    "gauss": [],
    "diag-gauss": ["--estimate", "map"],
    "spherical-gauss": [],
    "tied-gauss": [],
    "zero-mean-gauss": ["--sparsity", "2"],
    "multinomial": ["--rows-per-batch", "100"],
    "poisson": [],
    "bernoulli": ["--estimate", "ml", "--runs", "2", "--binarize", "0"],
}


@pytest.mark.parametrize("family", MIXTURES)
def test_mixtures_equal_the_commands_bit_for_bit(command, family, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(700, 6)) * rng.choice([1.0, 4.0], size=(700, 1))
    if family in ("multinomial", "poisson"):
        X = sp.csr_array(np.abs(X).round().astype(np.int32))
        sp.save_npz(tmp_path / "x.npz", X)
    else:
        X = (X > 1.0).astype(np.float32) if family == "bernoulli" else X
        np.save(tmp_path / "x.npy", X)
    data = next(tmp_path.glob("x.*"))
    shared = ["-k", "5", "--laps", "10", "--tolerance", "none", "--seed", "3", "--threads", "1", "--quiet"]
    theirs, ours = tmp_path / "theirs.safetensors", tmp_path / "ours.safetensors"
    fit = [command, "fit", "mixture", str(data), "--likelihood", family, "--out", str(theirs)]
    subprocess.run([*fit, *shared, *SETTINGS[family]], check=True)
    model = MIXTURES[family].fit(X)
    lsparse.save(model, ours)
    assert ours.read_bytes() == theirs.read_bytes()
    again = lsparse.load(theirs)
    assert type(again) is type(model)
    np.testing.assert_array_equal(again.weights_.astype(model.weights_.dtype), model.weights_)
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    assert again.objective_ == model.objective_ and again.n_iter_ == 10 and again.trace_ == {}
    # The parameters are those of the run: fitting once more gives the same model but for the batches.
    np.testing.assert_allclose(again.set_params(batch_size=model.batch_size).fit(X).weights_, model.weights_, rtol=1e-12)


@pytest.mark.parametrize("estimate", ["map", "vb"])
def test_topics_equal_the_commands_bit_for_bit(command, documents, estimate, tmp_path):
    counts, _ = documents
    words = [f"word{chr(97 + v // 26)}{chr(97 + v % 26)}" for v in range(60)]
    texts = [" ".join(np.repeat(words, counts[[d]].toarray()[0])) for d in range(300)]
    corpus = lsparse.build_corpus(texts, out=tmp_path / "corpus")
    theirs, ours = tmp_path / "theirs.safetensors", tmp_path / "ours.safetensors"
    fit = [command, "fit", "topics", str(tmp_path / "corpus"), "-k", "4", "--estimate", estimate, "--seed", "9"]
    subprocess.run([*fit, "--docs-per-batch", "100", "--out", str(theirs), "--quiet"], check=True)
    model = TopicModel(4, estimate=estimate, batch_size=100, vocabulary=corpus.vocabulary, random_state=9).fit(corpus.counts)
    lsparse.save(model, ours)
    assert ours.read_bytes() == theirs.read_bytes()
    again = lsparse.load(theirs)
    np.testing.assert_array_equal(again.topics_, model.topics_)
    np.testing.assert_array_equal(again.transform(corpus.counts), model.transform(corpus.counts))
    assert again.top_words(3) == model.top_words(3)
    # The words still know how text became them.
    lsparse.save(again.set_params(batch_size=100).fit(corpus.counts), ours)
    assert ours.read_bytes() == theirs.read_bytes()


def test_the_command_uses_our_models(command, blobs, tmp_path):
    X, _ = blobs
    np.save(tmp_path / "x.npy", X)
    model = GaussianMixture(4, random_state=0).fit(X)
    lsparse.save(model, tmp_path / "m.safetensors")
    rows = tmp_path / "rows.npy"
    score = [command, "score", str(tmp_path / "m.safetensors"), str(tmp_path / "x.npy"), "--per-row", str(rows)]
    subprocess.run(score, check=True, capture_output=True)
    np.testing.assert_array_equal(np.load(rows).ravel(), model.score_samples(X))


def test_files_open_without_lsparse(blobs, documents, tmp_path):
    X, _ = blobs
    model = GaussianMixture(4, random_state=0).fit(X)
    lsparse.save(model, tmp_path / "m.safetensors")
    arrays = load_file(tmp_path / "m.safetensors")
    np.testing.assert_array_equal(arrays["means"], model.means_)
    np.testing.assert_array_equal(arrays["covariances"], model.covariances_)
    np.testing.assert_array_equal(arrays["weights"], model.weights_)
    topics = TopicModel(3, random_state=0).fit(documents[0])
    lsparse.save(topics, tmp_path / "t.safetensors")
    np.testing.assert_array_equal(load_file(tmp_path / "t.safetensors")["topics"], topics.topics_)


@pytest.mark.parametrize("method", ["sparse-em", "truncation", "hard-em", "kmeans", "dp-means"])
def test_every_method_of_mixtures_is_the_commands(command, method, tmp_path):
    X = np.random.default_rng(0).normal(size=(300, 3)) + 6.0 * np.random.default_rng(1).integers(3, size=(300, 1))
    np.save(tmp_path / "x.npy", X)
    theirs, ours = tmp_path / "theirs.safetensors", tmp_path / "ours.safetensors"
    fit = [command, "fit", "mixture", str(tmp_path / "x.npy"), "--method", method, "-k", "3", "--seed", "1", "--quiet"]
    subprocess.run([*fit, "--laps", "20", "--out", str(theirs)], check=True)
    model = GaussianMixture(3, method=method, max_iter=20, random_state=1).fit(X)
    lsparse.save(model, ours)
    assert ours.read_bytes() == theirs.read_bytes()
    again = lsparse.load(theirs)
    assert again.method == method
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert again.precisions_.shape == again.covariances_.shape
    np.testing.assert_allclose(again.fit(X).means_, model.means_)


@pytest.mark.parametrize("method", ["sparse-lda", "alias-lda", "light-lda", "svi-gibbs"])
def test_every_sampler_of_topics_is_the_commands(command, method, tmp_path, documents):
    X, _ = documents
    np.savetxt(tmp_path / "vocab.txt", [f"w{v}" for v in range(60)], fmt="%s")
    sp.save_npz(tmp_path / "x.npz", X)
    corpus, theirs, ours = (tmp_path / name for name in ("corpus", "theirs.safetensors", "ours.safetensors"))
    build = [command, "corpus", "build", str(tmp_path / "x.npz"), "--vocab", str(tmp_path / "vocab.txt"), "--out", str(corpus)]
    subprocess.run([*build, "--quiet"], check=True)
    fit = [command, "fit", "topics", str(corpus), "--method", method, "-k", "3", "--seed", "1", "--laps", "5", "--quiet"]
    subprocess.run([*fit, "--out", str(theirs)], check=True)
    read = lsparse.read_corpus(corpus)
    model = TopicModel(3, method=method, max_iter=5, random_state=1, vocabulary=read.vocabulary).fit(read.counts)
    lsparse.save(model, ours)
    assert ours.read_bytes() == theirs.read_bytes()
    assert lsparse.load(ours).method == method


def test_a_file_remembers_threshold_and_names_of_columns(tmp_path):
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(200, 4)) + 3.0, columns=["a", "b", "c", "d"])
    model = BernoulliMixture(3, binarize=3.0, random_state=0).fit(X)
    lsparse.save(model, tmp_path / "m.safetensors")
    again = lsparse.load(tmp_path / "m.safetensors")
    assert again.binarize == 3.0
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    np.testing.assert_array_equal(again.feature_names_in_, ["a", "b", "c", "d"])
    with pytest.raises(ValueError, match="feature names should match"):
        again.predict(X.rename(columns={"a": "z"}))
    lsparse.save(GaussianMixture(2, random_state=0).fit(X.to_numpy()), tmp_path / "plain.safetensors")
    assert not hasattr(lsparse.load(tmp_path / "plain.safetensors"), "feature_names_in_")



def test_what_cannot_be_saved_or_loaded(tmp_path):
    with pytest.raises(NotFittedError):
        lsparse.save(GaussianMixture(), tmp_path / "m.safetensors")
    with pytest.raises(TypeError, match="only estimators of lsparse"):
        from sklearn.decomposition import PCA

        lsparse.save(PCA().fit(np.eye(3)), tmp_path / "m.safetensors")
    (tmp_path / "bad.safetensors").write_bytes(b"nonsense")
    with pytest.raises(lsparse.LsparseError, match="does not begin as a .safetensors"):
        lsparse.load(tmp_path / "bad.safetensors")
    model = GaussianMixture(1).fit(np.eye(3))
    with pytest.raises(lsparse.LsparseError, match="cannot write"):
        lsparse.save(model, tmp_path / "missing" / "m.safetensors")
