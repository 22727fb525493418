"""The pages of mixtures and sequences, metadata in all of them, and the page of a training: in a real browser, every control of it."""

import math
import subprocess
from pathlib import Path

import lsparse
import numpy as np
import pandas as pd
import pytest
from browser import Browser
from lsparse import HMM, BernoulliMixture, GaussianMixture, LsparseError, MultinomialMixture, PoissonMixture, TopicModel
from sklearn.cluster import KMeans
from test_explore import HOSTILE, browser, downloaded, in_browser, percent, rows_of, shared, shown  # noqa: F401

COLUMNS = ["<img src=x onerror=window.hacked=1>", "שלום", "width", "height", "age"]


def blobs(rows=900, columns=5, clusters=6, seed=0):
    rng = np.random.default_rng(seed)
    means = rng.normal(scale=3.0, size=(clusters, columns))
    labels = rng.integers(clusters, size=rows)
    return means[labels] + rng.normal(size=(rows, columns)), labels


@pytest.fixture(scope="module")
def trained():
    """Rows in six clusters, two of them near each other, and a model that keeps two clusters a row."""
    X, labels = blobs()
    X = pd.DataFrame(X, columns=COLUMNS)
    model = GaussianMixture(6, sparsity=2, random_state=0, max_iter=20, tol=0).fit(X)
    return model, X, labels


@pytest.fixture(scope="module")
def page(trained, tmp_path_factory):
    model, X, labels = trained
    path = tmp_path_factory.mktemp("clusters") / "page.html"
    metadata = {"year": 1990 + np.arange(len(X)) // 90, "<b>kind</b>": [f"kind {label}" for label in labels]}
    lsparse.explore(model, X, metadata=metadata, names={2: HOSTILE[0]}, title="<i>six</i>").save(path)
    return path


def go(browser, address, selector="#detail h2"):
    browser.run("location.hash = arguments[0]", address)
    browser.until("return decodeURIComponent(location.hash.slice(1)) === arguments[0] && !!document.querySelector(arguments[1])", address, selector)


def choose(browser, selector, value):
    browser.run("const s = document.querySelector(arguments[0]); s.value = arguments[1]; s.dispatchEvent(new Event('change')); s.dispatchEvent(new Event('input'))", selector, value)


def figures(browser):
    return dict(zip(browser.texts("#detail dt"), browser.texts("#detail dd")))


def test_every_mixture_has_a_page():
    X, _ = blobs(200)
    counts = np.random.default_rng(0).poisson(3.0, size=(200, 5))
    for model, rows in [
        (GaussianMixture(3, covariance_type="full"), X),
        (GaussianMixture(3, covariance_type="diag"), X),
        (GaussianMixture(3, covariance_type="spherical"), X),
        (GaussianMixture(3, covariance_type="tied"), X),
        (MultinomialMixture(3), counts),
        (PoissonMixture(3), counts),
        (BernoulliMixture(3), (counts > 3).astype(float)),
    ]:
        found = lsparse.explore(model.set_params(random_state=0, max_iter=5, tol=0).fit(rows), rows, n_documents=40)
        assert found.report["clusters"] == 3 and found.report["columns"] == 5
        assert found.report["rows"] == 200 and found.report["rows_shown"] == 40
        assert "3 components over 5 columns" in repr(found)
        assert lsparse.explore(model).report["rows"] == 0
    with pytest.raises(LsparseError, match="are not the 5 columns"):
        lsparse.explore(model, rows, picture=(2, 2))
    with pytest.raises(LsparseError, match="height, width"):
        lsparse.explore(model, rows, picture=(5,))
    with pytest.raises(LsparseError, match="only rows of an HMM"):
        lsparse.explore(model, rows, lengths=[200])
    with pytest.raises(LsparseError, match="give one a document or row"):
        lsparse.explore(model, rows, metadata={"a": [1, 2]})
    with pytest.raises(LsparseError, match="give them too"):
        lsparse.explore(model, metadata={"a": [1, 2]})
    with pytest.raises(TypeError, match="none of TopicModel"):
        lsparse.explore(KMeans(2, n_init=1).fit(rows), rows)


def test_rows_may_lack_values_whichever_way_the_model_was_fitted(tmp_path):
    X, _ = blobs(200, columns=3, clusters=2)
    holes = X.copy()
    holes[::7, 1] = np.nan
    gap = X.copy()
    gap[50:60] = np.nan
    names = tmp_path / "names.csv"
    names.write_text("number,name\n0,near\n")
    for model, rows, what in [
        (GaussianMixture(2, covariance_type="diag", random_state=0).fit(X), holes, "cluster"),
        (HMM(2, covariance_type="diag", random_state=0, tol=0.1).fit(X), gap, "state"),
    ]:
        with pytest.raises(ValueError, match="NaN"):
            lsparse.explore(model, rows)
        assert lsparse.explore(model, rows, missing=True).report["rows"] == 200
        assert not model.missing
        with pytest.raises(LsparseError, match=f"{what},name"):
            lsparse.explore(model, names=names)
        with pytest.raises(LsparseError, match=f"there is no {what} 2"):
            lsparse.explore(model, names={2: "x"})
    counts = np.random.default_rng(0).poisson(3.0, size=(50, 5))
    for model in (MultinomialMixture(2, random_state=0).fit(counts), TopicModel(2, random_state=0).fit(counts)):
        with pytest.raises(LsparseError, match="missing: "):
            lsparse.explore(model, counts, missing=True)


def test_the_command_makes_the_same_page(tmp_path, command):
    X, _ = blobs(300)
    model = GaussianMixture(4, covariance_type="diag", random_state=0, max_iter=5, tol=0).fit(X)
    lsparse.save(model, tmp_path / "m.safetensors")
    np.save(tmp_path / "x.npy", X)
    (tmp_path / "names.csv").write_text("cluster,name\n3,three\n")
    run = [command, "explore", "m.safetensors", "x.npy", "--names", "names.csv", "--title", "t", "--rows", "50", "--out", "p.html", "-q"]
    subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, check=True)
    expected = lsparse.explore(model, X, names=tmp_path / "names.csv", title="t", n_documents=50)
    assert (tmp_path / "p.html").read_text(encoding="utf-8") == expected.html


def test_a_corpus_keeps_metadata(tmp_path):
    texts = ["cat dog cat", "dog cat bird", "sun moon star", "moon star star"] * 5
    years = [2000 + n // 4 for n in range(20)]
    corpus = lsparse.build_corpus(texts, max_df=1.0, metadata={"year": years, "where": ["a", None] * 10}, out=tmp_path / "c")
    assert corpus.metadata == {"year": [str(year) for year in years], "where": ["a", ""] * 10}
    assert lsparse.read_corpus(tmp_path / "c").metadata == corpus.metadata
    (tmp_path / "t.csv").write_text("text,year\n" + "".join(f'"{text}",{year}\n' for text, year in zip(texts, years)))
    again = lsparse.build_corpus(tmp_path / "t.csv", max_df=1.0, metadata=["year"])
    assert again.metadata == {"year": [str(year) for year in years]}
    assert lsparse.build_corpus(texts, max_df=1.0).metadata == {}
    with pytest.raises(LsparseError, match="3 values of 'year' for 20 documents"):
        lsparse.build_corpus(texts, metadata={"year": [1, 2, 3]})
    with pytest.raises(LsparseError, match="cannot be called text"):
        lsparse.build_corpus(texts, metadata={"text": texts})
    with pytest.raises(TypeError, match="names of fields"):
        lsparse.build_corpus(tmp_path / "t.csv", metadata={"year": years})
    with pytest.raises(LsparseError, match="there is no column"):
        lsparse.build_corpus(tmp_path / "t.csv", metadata=["month"])


@in_browser
def test_a_cluster_has_the_numbers_of_the_model(trained, page, browser):
    model, X, _ = trained
    browser.open(page)
    assert browser.text("#title") == "<i>six</i>" and "6 clusters, 5 columns, trained on 900 rows" in browser.text("#summary")
    dense, score = model.predict_proba(X), model.score_samples(X)
    first = dense.argmax(axis=1)
    deviation = np.sqrt(np.array([np.diag(covariance) for covariance in model.covariances_]))
    overall = model.weights_ @ model.means_
    spread = np.sqrt(model.weights_ @ ((model.means_ - overall) ** 2 + deviation**2))
    for k in range(6):
        go(browser, f"cluster={k}&show=detail")
        browser.until("return document.querySelector('#detail h2')?.textContent.includes(`Cluster ${arguments[0]} `)", k)
        found = figures(browser)
        assert found["share of all rows"] == percent(model.weights_[k])
        own = dense[first == k, k].astype(np.float32)
        assert found["certainty"] == f"{own.mean(dtype=float):.3f}"
        assert found["mean score"] == shown(score[first == k].mean())
        for by in ("distinct", "value", "order"):
            browser.click(f"[data-by={by}]")
            bars = browser.run("""return [...document.querySelectorAll("[data-part=columns] .bar")].map((bar) =>
                [Number(bar.dataset.word), bar.querySelector(".p").textContent, bar.querySelector(".lift").textContent])""")
            distinct = (model.means_[k] - overall) / spread
            order = {"distinct": np.argsort(-abs(distinct)), "value": np.argsort(-model.means_[k]), "order": np.arange(5)}[by]
            assert [column for column, _, _ in bars] == list(order)
            for column, value, other in bars:
                assert value == shown(float(np.float32(model.means_[k, column])))
                assert other == shown(float(np.float32(deviation[k, column])), 3)
        # Rows that show it: by log p(x) + log r, and by their largest responsibility.
        best = np.where(first == k, score + np.log(dense.max(axis=1).astype(np.float32)), -np.inf).argmax()
        lists = browser.run("return [...document.querySelectorAll('.rows')].map((list) => [...list.querySelectorAll('li')].map((li) => [li.querySelector('.doc').textContent, li.querySelector('.number').textContent]))")
        assert lists[0][0] == [f"row {best + 1}", f"{model.predict_sparse(X.iloc[[best]])[0, k]:.3f}"]
        doubtful = np.where(first == k, dense.max(axis=1), np.inf).argmin()
        assert lists[1][0][0] == f"row {doubtful + 1}"
        # A correlation, as the covariance has it.
        covariance = model.covariances_[k]
        correlation = covariance / np.sqrt(np.outer(np.diag(covariance), np.diag(covariance)))
        titles = browser.texts("[data-chart^=correlations] rect title")
        at = 0
        for i in range(5):
            for j in range(i + 1):
                assert abs(float(titles[at].rsplit(": ", 1)[1]) - correlation[i, j]) <= 0.0051
                at += 1
        near = browser.run("return [...document.querySelectorAll('.near li')].map((li) => [Number(li.querySelector('.topic').dataset.topic), Number(li.querySelector('.number').textContent)])")
        for other, distance in near:
            assert distance == pytest.approx(jeffreys(model, k, other), rel=1e-3)
        shares = browser.run("return [...document.querySelectorAll('[data-part=facets] .point title')].map((title) => title.textContent)")
        kept = model.predict_sparse(X).toarray()
        for year in range(10):
            expected = kept[year * 90 : (year + 1) * 90, k].mean()
            assert shares[year].startswith(f"{1990 + year}: {100 * np.float32(expected):.{2 if np.max([kept[y * 90:(y + 1) * 90, k].mean() for y in range(10)]) < 0.02 else 1}f} %, 90 rows")
    assert browser.run("return lsparsePage.data.vocab") == COLUMNS


def jeffreys(model, k, j):
    """The root of KL both ways."""
    total = 0.0
    for a, b in [(k, j), (j, k)]:
        inverse = np.linalg.inv(model.covariances_[b])
        apart = model.means_[a] - model.means_[b]
        total += 0.5 * (np.trace(inverse @ model.covariances_[a]) - 5 + apart @ inverse @ apart)
    return math.sqrt(total)


@in_browser
def test_rows_columns_and_the_overview(trained, page, browser):
    model, X, _ = trained
    browser.open(page)
    dense, score = model.predict_proba(X), model.score_samples(X)
    largest = dense.max(axis=1)
    captured = -np.sort(-dense, axis=1)[:, :2].sum(axis=1)
    said = {name: browser.text(f"[data-chart={name}] .said") for name in ("responsibilities", "captured", "scores")}
    assert f"of 900 rows; {100 * (largest.astype(np.float32) >= 0.9).mean():.1f} %" in said["responsibilities"]
    assert f"L = 2 captures {percent(captured.mean())}" in said["captured"]
    assert f"{100 * (captured.astype(np.float32) < 0.95).mean():.1f} % of rows lose more" in said["captured"]
    assert f"mean {shown(score.mean())}" in said["scores"]
    counts = [int(n) for n in browser.run("return [...document.querySelectorAll('[data-chart=responsibilities] rect')].map((r) => r.dataset.count)")]
    expected, _ = np.histogram(largest.astype(np.float32), bins=20, range=(0, 1))
    np.testing.assert_allclose(counts, expected, atol=2)
    assert sum(counts) == 900
    unlikely = browser.texts("[data-part=unlikely] .doc")
    assert unlikely == [f"row {n + 1}" for n in np.argsort(score, kind="stable")[:15]]
    assert browser.texts("[data-part=unlikely] .score")[0] == shown(score.min())
    doubtful = browser.texts("[data-part=doubtful] .doc")
    assert doubtful[0] == f"row {largest.argmin() + 1}"
    # A row.
    browser.click("[data-part=unlikely] .doc")
    n = int(score.argmin())
    browser.until("return lsparsePage.state.doc !== null")
    assert browser.text(".row-view h2") == f"row {n + 1}" and f"Row {n + 1} of 900" in browser.text(".row-view .said")
    found = figures(browser)
    assert found["log p(x)"] == shown(score[n]) and found["rows less likely"] == "0.0 %"
    assert found["largest responsibility"] == f"{np.float32(largest[n]):.3f}"
    kept = model.predict_sparse(X.iloc[[n]]).toarray()[0]
    shares = browser.texts(".row-view .shares .number")
    assert shares == [f"{r:.3f}" for r in -np.sort(-kept) if r >= 0.0005]
    k = int(kept.argmax())
    z = (np.float32(X.iloc[n]) - np.float32(model.means_[k])) / np.float32(np.sqrt(np.diag(model.covariances_[k])))
    cells = browser.texts(".values tbody td:last-child")
    np.testing.assert_allclose([float(text) for text in cells], z[np.argsort(-abs(z))], atol=0.006)
    browser.click(".values .link")
    column = int(np.argmax(abs(z)))
    browser.until("return lsparsePage.state.word === arguments[0]", column)
    values = browser.texts(".column-view .list .number:first-of-type")
    assert values == [shown(float(v)) for v in -np.sort(-np.float32(model.means_[:, column]))]
    browser.click(".column-view .topic")
    assert browser.run("return lsparsePage.state.topic") == int(np.argmax(model.means_[:, column]))
    # Charts can be saved.
    browser.press("Escape")
    for chart in ("responsibilities", "captured", "scores"):
        for at, ending in [(1, ".csv"), (2, ".svg")]:
            browser.click(f"[data-chart={chart}] .tool:nth-of-type({at})")
            file = downloaded(browser)
            assert file["name"] == chart + ending and "<script" not in file["text"]
    # Metadata: another column.
    choose(browser, "#over", "<b>kind</b>")
    browser.until("return lsparsePage.state.over === '<b>kind</b>'")
    assert sorted(browser.texts("[data-part=facets] .bar .word")) == [f"\u2068kind {n}\u2069" for n in range(6)]
    browser.click("[data-part=facets] .tool")
    assert rows_of(downloaded(browser)["text"])[0] == ["<b>kind</b>", "rows"]
    # Search, names, keys.
    browser.press("/")
    browser.type("#query", "5")
    assert browser.run("return document.querySelector('#answers li').dataset.what") == "topic"
    browser.press("Enter")
    assert browser.run("return lsparsePage.state.topic") == 5 and "cluster=5" in browser.run("return location.hash")
    browser.clear("#name")
    browser.type("#name", "the fifth")
    browser.type("#name", "Enter")
    browser.click("#table > .tools .tool:nth-of-type(2)")
    file = downloaded(browser)
    assert rows_of(file["text"]) == [["cluster", "name"], ["2", HOSTILE[0]], ["5", "the fifth"]]
    browser.click("#table > .tools .tool:nth-of-type(1)")
    table = rows_of(downloaded(browser)["text"])
    assert table[0][:4] == ["cluster", "name", "share", "rows"] and len(table) == 7
    for key in ["share", "trend", "certainty", "likely", "apart"]:
        browser.click(f"#table th.{key} button")
        browser.click(f"#table th.{key} button")
        choose(browser, "#color", key)
        assert browser.run("return [lsparsePage.state.color, document.querySelectorAll('.legend .ramp').length]") == [key, 1]
    choose(browser, "#color", "group")
    browser.click(".legend .link")
    browser.click(".legend .link")
    browser.press("j")
    browser.press("k")
    browser.press("d")
    browser.press("d")
    for width in (1200, 480):
        browser.resize(width, 850)
        for show in ["table", "detail"] + (["map"] if width == 480 else []):
            browser.click(f"#tabs [data-show={show}]")
            assert browser.run("return document.documentElement.scrollWidth - innerWidth") <= 0
    browser.open(page, "#cluster=99&row=x&column=-1&over=__proto__&sort=npmi")
    assert browser.run("return [lsparsePage.state.topic, lsparsePage.state.doc, lsparsePage.state.sort]") == [None, None, "share"]


@in_browser
def test_pictures_words_and_models_without_rows(browser, tmp_path):
    rng = np.random.default_rng(0)
    path = tmp_path / "page.html"
    patches = rng.normal(size=(400, 16)).cumsum(axis=1)
    model = GaussianMixture(5, random_state=0, max_iter=5, tol=0).fit(patches)
    lsparse.explore(model, patches, picture=(4, 4)).save(path)
    browser.open(path, "#cluster=1&show=detail")
    assert browser.run("return document.querySelectorAll('.pictures canvas').length") == 7
    values, _ = np.linalg.eigh(model.covariances_[1])
    assert browser.texts(".pictures .number") == [f"{100 * share:.1f} %" for share in (values[::-1][:6] / values.sum())]
    assert browser.run("return document.querySelectorAll('.rows canvas').length") > 5
    browser.click(".rows .doc")
    assert browser.run("return document.querySelectorAll('.row-view > canvas').length") == 1
    # Counts of words that are hostile.
    counts = pd.DataFrame(rng.poisson(2.0, size=(100, len(HOSTILE))), columns=HOSTILE)
    words = MultinomialMixture(4, random_state=0, max_iter=5, tol=0).fit(counts)
    lsparse.explore(words, title=HOSTILE[0], names=HOSTILE[:4]).save(path)
    browser.open(path)
    for k in range(4):
        go(browser, f"cluster={k}&show=detail")
        found = browser.run("return [...document.querySelectorAll('[data-part=columns] .bar')].map((bar) => [Number(bar.dataset.word), bar.querySelector('.p').textContent])")
        assert len(found) == len(HOSTILE)
        for column, p in found:
            assert p == shown(float(np.float32(words.components_[k, column])))
    for column in range(len(HOSTILE)):
        go(browser, f"column={column}&show=detail", ".column-view")
        assert browser.text(".column-view h2") == HOSTILE[column]
    assert browser.run("return document.querySelectorAll('#detail img, #detail bdi *, main script').length") == 0
    one = GaussianMixture(1, random_state=0, max_iter=2, tol=0).fit(patches[:, :1])
    lsparse.explore(one, patches[:, :1]).save(path)
    browser.open(path, "#cluster=0&show=detail")
    assert browser.text("#detail h2").startswith("Cluster 0")


@in_browser
def test_sequences(browser, tmp_path):
    rng = np.random.default_rng(0)
    states = np.repeat(rng.integers(3, size=60), 10)
    X = np.array([[0.0, 0.0], [6.0, 0.0], [0.0, 6.0]])[states] + rng.normal(size=(600, 2))
    model = HMM(3, random_state=0, max_iter=20, tol=0).fit(X, lengths=[200, 400])
    path = tmp_path / "states.html"
    lsparse.explore(model, X, lengths=[200, 400]).save(path)
    browser.open(path)
    assert "3 states, 2 columns, trained on 600 steps" in browser.text("#summary")
    first = model.predict_proba(X, [200, 400]).argmax(axis=1)
    runs = [np.count_nonzero(np.diff(part)) + 1 for part in (first[:200], first[200:])]
    assert browser.run("return document.querySelectorAll('[data-chart=states] .stretch').length") == sum(runs)
    browser.run("document.querySelector('[data-chart=states] .stretch').dispatchEvent(new Event('click'))")
    assert browser.run("return lsparsePage.state.topic") == first[0]
    for k in range(3):
        go(browser, f"state={k}&show=detail")
        browser.until("return document.querySelector('#detail h2')?.textContent.includes(`State ${arguments[0]} `)", k)
        found = figures(browser)
        assert found["starts a sequence"] == percent(model.startprob_[k])
        assert found["expected duration"] == shown(1 / (1 - model.transmat_[k, k]), 3) + " steps"
        assert browser.texts("[data-part=transitions] .list:first-of-type .number") == [f"{p:.3f}" for p in -np.sort(-model.transmat_[k])]
    browser.click("[data-chart^=durations] .tool")
    assert rows_of(downloaded(browser)["text"])[0] == ["from", "to", "count"]
    with pytest.raises(LsparseError, match="lengths"):
        lsparse.explore(model, X, lengths=[1, 2])


@in_browser
def test_topics_over_time(browser, tmp_path):
    rng = np.random.default_rng(0)
    words = [[f"w{subject}x{n}" for n in range(8)] for subject in range(4)]
    years = np.sort(rng.integers(2000, 2010, size=200))
    # The first subject goes, the second comes.
    subjects = [int(rng.choice(4, p=[0.4 * (2010 - y) / 10, 0.4 * (y - 2000) / 10 + 1e-9, 0.3, 0.3 - 1e-9])) for y in years]
    texts = [" ".join(rng.choice(words[subject], size=30)) for subject in subjects]
    corpus = lsparse.build_corpus(texts, max_df=1.0, numbers=True, metadata={"year": years, "kind": ["<b>a</b>", "b"] * 100})
    model = TopicModel(4, vocabulary=corpus.vocabulary, max_iter=20, random_state=0).fit(corpus.counts)
    path = tmp_path / "page.html"
    lsparse.explore(model, corpus).save(path)
    browser.open(path)
    shares = model.predict_sparse(corpus.counts).toarray().astype(np.float32).astype(float)
    lengths = np.asarray(corpus.counts.sum(axis=1)).ravel()
    middle = np.sort(years)[99]
    for k in range(4):
        go(browser, f"topic={k}&show=detail")
        browser.until("return document.querySelector('#detail h2')?.textContent.includes(`Topic ${arguments[0]} `)", k)
        points = browser.texts("[data-part=facets] .point title")
        found = np.unique(years)
        by_year = np.array([(shares[years == y, k] * lengths[years == y]).sum() / lengths[years == y].sum() for y in found])
        digits = 2 if by_year.max() < 0.02 else 1
        for text, year, share in zip(points, found, by_year):
            label, rest = text.split(": ")
            assert label == str(year) and abs(float(rest.split(" %")[0]) - 100 * share) < 0.51 * 10**-digits
            assert rest.endswith(f"{(years == year).sum()} documents")
        a, b = [(shares[half, k] * lengths[half]).sum() / lengths[half].sum() for half in (years <= middle, years > middle)]
        assert f"trend {'+' if b > a else ''}{(b - a) / (b + a):.3f}" in browser.text("[data-part=facets] .said")
        assert browser.run("return lsparsePage.data.trend[arguments[0]]", k) == pytest.approx((b - a) / (b + a), abs=1e-5)
    choose(browser, "#over", "kind")
    browser.until("return document.querySelectorAll('[data-part=facets] .bar').length === 2")
    assert "over=kind" in browser.run("return location.hash")
    browser.click("#table th.trend button")
    assert browser.run("return document.querySelectorAll('#detail b b').length") == 0


@in_browser
def test_a_training_is_watched(shared, tmp_path):  # noqa: F811
    X, _ = blobs(400)
    path = tmp_path / "<b>run.jsonl"
    model = GaussianMixture(12, random_state=0, max_iter=6, tol=0, n_init=2).fit(X, trace=path)
    text = path.read_text()
    # Still being written: cut in the middle of a line, and then whole.
    path.write_text(text[: len(text) // 2])
    with lsparse.watch(path) as page:
        shared.log("browser")
        shared.ask("POST", "/url", {"url": page.url})
        shared.until("return document.querySelectorAll('#charts figure').length > 3")
        path.write_text(text)
        shared.until("return document.querySelector('#status').textContent.startsWith('ended')")
        rows = shared.run("return document.querySelectorAll('#runs tbody tr').length")
        assert rows == 2
        titles = shared.texts("#charts figcaption b")
        for wanted in ["objective", "objective: data", "objective: entropy", "objective: allocation", "rows a second", "empty clusters", "active clusters or topics", "memory, most so far"]:
            assert wanted in titles, titles
        assert not shared.run("return document.querySelector('#sizes').hidden")
        legend = shared.texts("#sizes-legend span")
        assert legend[-1] == "the largest of 12" and len(legend) == 8
        choose(shared, "#sizes-which", "3, 11, 99, x")
        assert [entry.split(":")[0] for entry in shared.texts("#sizes-legend span")] == ["3", "11", "of 12"]
        choose(shared, "#sizes-run", "0.1")
        for axis in ["seconds", "cpu_seconds", "step", "lap"]:
            choose(shared, "#axis", axis)
        choose(shared, "#skip", "0.5")
        shared.click("#theme")
        shared.click("#runs tbody input")
        shared.until("return location.hash.includes('without')")
        shared.resize(420, 850)
        assert shared.run("return document.documentElement.scrollWidth - innerWidth") <= 0
        assert shared.log("browser") == []
        shared.ask("POST", "/url", {"url": "about:blank"})
    assert model.n_iter_ <= 6
    # Of several trainings the heading says what all of them are, and no more.
    other = tmp_path / "other.jsonl"
    GaussianMixture(3, random_state=0, max_iter=2, tol=0).fit(X[:100], trace=other)
    with lsparse.watch(path, other) as page:
        shared.ask("POST", "/url", {"url": page.url})
        shared.until("return document.querySelector('#status').textContent === 'ended: all 3'")
        assert shared.text("#what") == f"mixture, version {lsparse.__version__}"
        shared.ask("POST", "/url", {"url": "about:blank"})


def screenshots(page, folder, views):
    """Pictures of every view, light and dark, wide and narrow, to be looked at."""
    folder = Path(folder)
    folder.mkdir(exist_ok=True)
    found = Browser()
    for width, height in [(1600, 950), (1200, 800), (420, 850)]:
        for theme in ["light", "dark"]:
            for name, fragment in views.items():
                found.resize(width, height)
                found.open(page, fragment)
                found.run("document.documentElement.dataset.theme = arguments[0]; lsparsePage.map.redraw(); return 1", theme)
                found.run("return new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
                found.screenshot(folder / f"{name}-{width}-{theme}.png")
    found.close()
