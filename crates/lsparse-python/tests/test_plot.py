"""Pictures are drawn, and show what they say."""

import lsparse
import matplotlib.pyplot as plt
import numpy as np
import pytest
from lsparse import HMM, BernoulliMixture, GaussianMixture, TopicModel, plot


@pytest.fixture(autouse=True)
def close():
    yield
    plt.close("all")


def test_trace(blobs, tmp_path):
    model = GaussianMixture(4, n_init=2, random_state=0).fit(blobs[0])
    ax = plot.trace(model)
    assert len(ax.lines) == 2
    # Labels have the room that they need.
    ax.figure.canvas.draw()
    label = ax.yaxis.label.get_window_extent()
    assert label.x0 >= 0 and label.y0 >= 0
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), model.trace_["objective"][model.trace_["run"] == 0])
    assert plot.trace(model, x="seconds", y="rows_per_second", ax=ax) is ax
    with pytest.raises(ValueError, match="there is no 'time' in the trace"):
        plot.trace(model, x="time")
    lsparse.save(model, tmp_path / "m.safetensors")
    with pytest.raises(ValueError, match="no trace"):
        plot.trace(lsparse.load(tmp_path / "m.safetensors"))


def test_topics(documents):
    model = TopicModel(3, random_state=0).fit(documents[0])
    figure = plot.topics(model, n_topics=2, n_words=4)
    assert len(figure.axes) == 2
    widths = [bar.get_width() for bar in figure.axes[0].patches]
    np.testing.assert_allclose(widths, np.sort(model.topics_[model.weights_.argmax()])[::-1][:4])


def test_clusters(blobs):
    rng = np.random.default_rng(0)
    patches = rng.normal(size=(400, 9))
    zero_mean = GaussianMixture(3, covariance_type="zero-mean", random_state=0).fit(patches)
    figure = plot.clusters(zero_mean, n_clusters=2, n_samples=3)
    assert len(figure.axes) == 2 * 4
    assert figure.axes[0].images[0].get_array().shape == (9, 9)
    assert figure.axes[1].images[0].get_array().shape == (3, 3)
    assert len(plot.clusters(GaussianMixture(2, covariance_type="diag").fit(patches), n_samples=1).axes) == 2 * 3
    assert len(plot.clusters(BernoulliMixture(2).fit(patches), patch_shape=(1, 9)).axes) == 2
    # Rows that are no images are lines, with correlations between their columns.
    lines = plot.clusters(GaussianMixture(2, random_state=0).fit(blobs[0]), n_samples=1)
    mean, correlation, sample = lines.axes[:3]
    assert len(mean.lines) == len(sample.lines) == 1 and not mean.images
    np.testing.assert_allclose(np.diag(correlation.images[0].get_array()), 1.0)
    with pytest.raises(ValueError, match="do not have 9 pixels"):
        plot.clusters(zero_mean, patch_shape=(2, 4))


def test_mass(blobs, documents):
    model = GaussianMixture(12, max_iter=5, tol=0, random_state=0).fit(blobs[0])
    ax = plot.mass(model, blobs[0], sparsity=(1, 2, 12, 50))
    assert len(ax.lines) == 3, "L above K is left out"
    lost = 1 - np.sort(model.predict_proba(blobs[0]), axis=1)[:, -2:].sum(axis=1)
    np.testing.assert_allclose(ax.lines[1].get_xdata()[1:-1], np.sort(lost).clip(1e-6), atol=1e-12)
    assert ax.get_xscale() == "log" and ax.get_xlim() == (1e-6, 1.0)
    topics = TopicModel(3, random_state=0).fit(documents[0])
    assert plot.mass(topics, documents[0], sparsity=(1, 3)).get_ylabel() == "share of words"


def test_chains():
    rng = np.random.default_rng(0)
    path = np.arange(400) // 10 % 2
    X, lengths = rng.normal(np.where(path, 5.0, -5.0))[:, None], [150, 250]
    model = HMM(2, random_state=0).fit(X, lengths)
    ax = plot.states(model, X, lengths)
    drawn = ax.images[0].get_array()
    assert drawn.shape == (2, 400) and len(ax.lines) == 1
    np.testing.assert_allclose(drawn.sum(axis=0), 1.0)
    # Both states follow each other, once in ten steps.
    arrows = [text for text in plot.transitions(model).texts if text.get_text() == ""]
    assert len(arrows) == 2
    assert not [text for text in plot.transitions(model, least=0.5).texts if text.get_text() == ""]
    ax = plot.durations(model, X, lengths)
    expected = ax.lines[-1].get_ydata()
    np.testing.assert_allclose(expected, 10.0, rtol=0.1)
    assert plot.durations(model, X, lengths, ax=ax) is ax
