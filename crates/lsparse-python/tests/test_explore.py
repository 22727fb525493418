"""The page that shows topics: its Python face, and the page itself in a real browser, every control of it."""

import csv
import io
import json
import math
import subprocess
from pathlib import Path

import lsparse
import numpy as np
import pytest
import scipy.sparse as sp
from browser import Browser, programs
from lsparse import LsparseError, TopicModel

in_browser = pytest.mark.skipif(programs() is None, reason="chromium and chromedriver are not installed (apt: chromium, chromium-driver)")

#: Words, names and texts that would do something if they were not taken as text.
HOSTILE = [
    "</script><script>window.hacked=1</script>",
    "<img src=x onerror=window.hacked=2>",
    "<b>bold</b>",
    "\u202egnirts\u202c",
    "שלום",
    "=1+1",
    'quote"and\'quote',
    "${window.hacked=3}",
    "javascript:window.hacked=4",
    "a" * 60,
]
TOPICS = 50


@pytest.fixture(scope="module")
def trained():
    """Texts about fifty subjects of twelve words each, with HTML in them, and a model of them."""
    rng = np.random.default_rng(0)
    consonants, vowels = list("bdfgklmnprstvz"), list("aeiou")
    words: list[str] = []
    while len(words) < TOPICS * 12:
        word = "".join(rng.choice(consonants) + rng.choice(vowels) for _ in range(3))
        if word not in words:
            words.append(word)
    texts = []
    for n in range(500):
        mine = [n % TOPICS, int(rng.integers(TOPICS))]
        chosen = [words[12 * mine[int(rng.random() < 0.3)] + min(11, int(rng.exponential(3.0)))] for _ in range(40)]
        texts.append(f"<script>window.hacked=5</script> {n} " + ", ".join(chosen) + " </div>")
    corpus = lsparse.build_corpus(texts, stop_words=["script", "window", "hacked", "div"])
    model = TopicModel(TOPICS, vocabulary=corpus.vocabulary, max_iter=10, random_state=0).fit(corpus.counts)
    return model, corpus, texts


@pytest.fixture(scope="module")
def page(trained, tmp_path_factory):
    """The page with texts, and a name that is hostile."""
    model, corpus, texts = trained
    path = tmp_path_factory.mktemp("page") / "page.html"
    named = corpus._replace(documents=[HOSTILE[n % len(HOSTILE)] + f" {n}" for n in range(len(texts))])
    lsparse.explore(model, named, texts=texts, names={3: HOSTILE[0]}, title="<i>fifty</i>").save(path)
    return path


@pytest.fixture(scope="module")
def shared():
    found = Browser()
    yield found
    found.close()


@pytest.fixture
def browser(shared):
    """The browser, which must have logged neither an error nor a request when the test is done."""
    shared.resize(1500, 950)
    shared.log("browser")
    shared.requests()
    yield shared
    assert shared.run("return window.hacked ?? null") is None
    errors = [entry["message"] for entry in shared.log("browser")]
    assert errors == []
    asked = [address for address in shared.requests() if not address.startswith(("file://", "data:", "blob:", "about:"))]
    assert asked == []


def shown(x, digits=4):
    """A number as the page shows it: JavaScript's toPrecision, or whole where it is larger than that."""
    if x == 0:
        return f"{0:.{digits - 1}f}"
    exponent = int(f"{x:.{digits - 1}e}".split("e")[1])
    if digits <= exponent < 15:
        return f"{math.floor(x + 0.5):,}"
    if exponent < -6 or exponent >= digits:
        mantissa, power = f"{x:.{digits - 1}e}".split("e")
        return f"{mantissa}e{int(power):+d}"
    return f"{x:.{digits - 1 - exponent}f}"


def percent(x):
    return f"{100 * x:.2f} %"


def bars(browser):
    """Word, probability and lift of each bar."""
    script = """return [...document.querySelectorAll(".bars .bar")].map((bar) =>
        [Number(bar.dataset.word), bar.querySelector(".p").textContent, bar.querySelector(".lift").textContent])"""
    return browser.run(script)


def downloaded(browser):
    """The file that was last handed to the reader."""
    return browser.run("const found = window.lastDownload; window.lastDownload = null; return found")


def rows_of(text):
    return list(csv.reader(io.StringIO(text)))


def relevance(model, k, weight):
    p = model.topics_[k]
    overall = model.weights_ @ model.topics_
    return weight * np.log(p) + (1 - weight) * np.log(p / overall)


def test_pages_are_files_and_frames(trained, tmp_path):
    model, corpus, texts = trained
    found = lsparse.explore(model, corpus, texts=texts, n_documents=70)
    assert found.report["documents_shown"] == 70 and found.report["documents"] == 500
    assert found.save(tmp_path / "p.html").read_text(encoding="utf-8") == found.html
    frame = found._repr_html_()
    assert frame.startswith("<iframe sandbox=") and "<script" not in frame
    assert lsparse.explore(model, corpus, texts=texts, n_documents=70).html == found.html
    assert lsparse.explore(model, corpus.counts.toarray()).report["documents_shown"] == 500
    assert len(lsparse.explore(model).html) < 400_000


def test_what_does_not_go_together_is_refused(trained, tmp_path):
    model, corpus, texts = trained
    other = lsparse.build_corpus(["red apple", "green apple", "red sea"], min_df=1, max_df=1.0)
    for arguments, words in [
        ({"texts": texts}, "give corpus too"),
        ({"corpus": corpus, "texts": texts[:3]}, "3 texts for 500"),
        ({"corpus": other}, "words are not those of the model"),
        ({"corpus": sp.csr_array((2, 3), dtype=float)}, "3 columns"),
        ({"names": {TOPICS: "x"}}, "there is no topic 50"),
        ({"names": tmp_path / "none.csv"}, "does not exist"),
    ]:
        with pytest.raises(LsparseError, match=words):
            lsparse.explore(model, **arguments)


def test_the_command_makes_the_same_page(trained, tmp_path, command):
    model, corpus, _ = trained
    lsparse.save(model, tmp_path / "m.safetensors")
    data = lsparse.build_corpus(trained[2], stop_words=["script", "window", "hacked", "div"], out=tmp_path / "corpus")
    (tmp_path / "names.csv").write_text('topic,name\n7,"seven, ""the"" one"\n')
    run = [command, "explore", "m.safetensors", "corpus", "--names", "names.csv", "--title", "t", "--out", "p.html", "--json"]
    done = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, check=True)
    report = json.loads(done.stdout)
    expected = lsparse.explore(model, data, names=tmp_path / "names.csv", title="t")
    assert (tmp_path / "p.html").read_text(encoding="utf-8") == expected.html
    assert report.pop("out") == "p.html" and report == expected.report
    listing = subprocess.run([command, "topics", "m.safetensors", "--names", "names.csv"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert 'seven, "the" one: ' in listing.stdout


@in_browser
def test_a_topic_has_the_numbers_of_the_model(trained, page, browser):
    model, corpus, _ = trained
    browser.open(page)
    assert browser.text("#title") == "<i>fifty</i>"
    assert "50 topics" in browser.text("#summary")
    shares = model.weights_
    overall = shares @ model.topics_
    npmi = lsparse.coherence(model, corpus.counts)["npmi"]
    for k in (0, 17, 49):
        browser.run("document.querySelector('#filter').value = ''; lsparsePage.state")
        browser.run("location.hash = `topic=${arguments[0]}&show=detail`", k)
        browser.until("return document.querySelector('#detail h2')?.textContent.includes(`Topic ${arguments[0]} `)", k)
        figures = dict(zip(browser.texts("#detail dt"), browser.texts("#detail dd")))
        assert figures["share of all words"] == percent(shares[k])
        assert figures["alpha"] == shown(float(np.float32(model.doc_topic_prior_[k])))
        tokens = model.components_[k].sum() - 0.07 * len(overall)
        assert int(figures["tokens"].replace(",", "")) == pytest.approx(tokens, abs=1)
        top = np.argsort(-model.topics_[k], kind="stable")[:10]
        exclusivity = (model.topics_[k, top] / model.topics_[:, top].sum(axis=0)).mean()
        assert figures["exclusivity"] == f"{exclusivity:.3f}"
        assert figures["coherence (NPMI)"] == f"{float(np.ravel(npmi)[k]):.3f}"
        for by, weight in [("probability", 1.0), ("lift", 0.0), ("relevance", 0.6), ("relevance", 0.3)]:
            browser.click(f"[data-by={by}]")
            if by == "relevance":
                script = """const slider = document.querySelector('#weight'); slider.value = arguments[0];
                    slider.dispatchEvent(new Event('input'))"""
                browser.run(script, weight)
                assert browser.text("#weight-shown") == f"{weight:.1f}"
            found = bars(browser)
            expected = relevance(model, k, weight)
            order = np.argsort(-expected, kind="stable")[: len(found)]
            assert len(found) == 30
            np.testing.assert_allclose(expected[[word for word, _, _ in found]], expected[order], atol=1e-9)
            for word, p, lift in found:
                assert p == shown(model.topics_[k, word])
                assert lift == shown(model.topics_[k, word] / overall[word], 3)
        near = browser.run("return [...document.querySelectorAll('.near li')].map((li) => [Number(li.querySelector('.topic').dataset.topic), li.querySelector('.number').textContent])")
        distance = np.sqrt(((np.sqrt(model.topics_[k]) - np.sqrt(model.topics_)) ** 2).sum(axis=1) / 2)
        distance[k] = math.inf
        assert len(near) == 10
        for (topic, text), expected in zip(near, np.sort(distance)):
            assert abs(float(text) - distance[topic]) < 0.00051
            assert distance[topic] == pytest.approx(expected, abs=1e-6)


@in_browser
def test_the_table(trained, page, browser, tmp_path):
    model, _, _ = trained
    browser.open(page)
    topics = lambda: [int(k) for k in browser.run("return [...document.querySelectorAll('#table tbody tr[data-topic]')].map((tr) => tr.dataset.topic)")]
    order = np.argsort(-model.weights_, kind="stable")
    assert topics()[:20] == order[:20].tolist()
    first = browser.texts("#table tbody tr[data-topic] td.number")[0]
    assert first == percent(model.weights_[order[0]])
    for key in ["topic", "name", "share", "npmi", "exclusivity"]:
        browser.click(f"[data-sort={key}]")
        one = topics()
        browser.click(f"[data-sort={key}]")
        assert one != topics() and browser.run("return lsparsePage.state.sort") == key
    browser.click("[data-sort=topic]")
    if topics()[0] != 0:
        browser.click("[data-sort=topic]")
    assert topics()[:10] == list(range(10))
    # Scrolled to the end, the last rows are there.
    browser.run("document.querySelector('#table .scroll').scrollTop = 1e6")
    browser.until("return [...document.querySelectorAll('#table tr[data-topic]')].at(-1).dataset.topic === '49'")
    word = model.top_words(1)[7][0]
    browser.type("#filter", word)
    assert 7 in topics() and len(topics()) < TOPICS
    assert browser.text("#count") == f"{len(topics())} of 50"
    browser.click("#table .tools .tool")
    file = downloaded(browser)
    assert file["name"].endswith("-topics.csv")
    saved = rows_of(file["text"])
    assert saved[0] == ["topic", "name", "share", "tokens", "npmi", "exclusivity", "words"]
    assert [int(row[0]) for row in saved[1:]] == topics()
    for row in saved[1:]:
        assert float(row[2]) == model.weights_[int(row[0])]
    browser.run("const f = document.querySelector('#filter'); f.value = ''; f.dispatchEvent(new Event('input'))")

    # Names: written into the table, seen everywhere, saved, loaded again, read by Python.
    assert browser.run("return document.querySelector('tr[data-topic=\"3\"] input').value") == HOSTILE[0]
    browser.type('tr[data-topic="5"] input', 'five, "the <b>fifth</b>"')
    browser.press("Enter")
    browser.until("return document.activeElement === document.body")
    browser.click('tr[data-topic="5"] .link')
    assert browser.run("return document.querySelector('#name').value") == 'five, "the <b>fifth</b>"'
    browser.click("#table .tools .tool:nth-of-type(2)")
    file = downloaded(browser)
    names = tmp_path / "names.csv"
    names.write_text(file["text"], encoding="utf-8")
    assert rows_of(file["text"]) == [["topic", "name"], ["3", HOSTILE[0]], ["5", 'five, "the <b>fifth</b>"']]
    again = tmp_path / "again.html"
    lsparse.explore(model, names=names, title="again").save(again)
    browser.open(again)
    assert browser.run("return lsparsePage.data.names[5]") == 'five, "the <b>fifth</b>"'
    names.write_text("topic,name\n9,nine\n", encoding="utf-8")
    browser.give_file("#load", names)
    browser.until("return document.querySelector('.message').textContent.includes('1 names')")
    assert browser.run("return document.querySelector('tr[data-topic=\"9\"] input').value") == "nine"
    names.write_text("topic,name\n99,nine\n", encoding="utf-8")
    browser.give_file("#load", names)
    browser.until("return document.querySelector('.message').textContent.includes('There is no topic')")
    # The browser keeps them.
    browser.open(again)
    assert browser.run("return document.querySelector('tr[data-topic=\"9\"] input').value") == "nine"


@in_browser
def test_the_map(trained, page, browser):
    browser.open(page)
    box = browser.run("const b = document.querySelector('#map canvas').getBoundingClientRect(); return [b.left, b.top, b.width, b.height]")
    place = lambda k: [a + b for a, b in zip(browser.run("return lsparsePage.map.place(arguments[0])", k), box)]
    largest = int(np.argmax(trained[0].weights_))
    x, y = place(largest)
    browser.pointer(("move", x, y))
    browser.until("return !document.querySelector('.tip').hidden")
    assert browser.text(".tip").startswith(f"Topic {largest}")
    browser.pointer(("move", x, y), ("down",), ("up",))
    assert browser.run("return lsparsePage.state.topic") == largest
    middle = (box[0] + box[2] / 2, box[1] + box[3] / 2)
    browser.pointer(("wheel", *middle, -600))
    browser.until("return lsparsePage.state.zoom > 1.5")
    before = browser.run("return lsparsePage.state.mapX")
    browser.pointer(("move", *middle), ("down",), ("move", middle[0] + 80, middle[1] + 30), ("up",))
    assert browser.run("return lsparsePage.state.mapX") < before
    assert browser.run("return lsparsePage.state.topic") == largest, "a drag is no click"
    browser.press("0")
    assert browser.run("return [lsparsePage.state.zoom, lsparsePage.state.mapX]") == [1, 0]
    for key, zoom in [("+", 1.5), ("-", 1.0)]:
        browser.press(key)
        assert browser.run("return lsparsePage.state.zoom") == pytest.approx(zoom)
    for button, zoom in [(1, 1.5), (2, 1.0), (1, 1.5), (3, 1.0)]:
        browser.click(f"#map .tools .tool:nth-of-type({button})")
        assert browser.run("return lsparsePage.state.zoom") == pytest.approx(zoom)
    browser.run("document.querySelector('#map canvas').focus()")
    browser.press("ArrowRight")
    assert browser.run("return lsparsePage.state.mapX") > 0
    browser.press("Enter")
    browser.press("0")
    for colour in ["share", "npmi", "exclusivity", "group"]:
        browser.run("const s = document.querySelector('#color'); s.value = arguments[0]; s.dispatchEvent(new Event('change'))", colour)
        assert browser.run("return lsparsePage.state.color") == colour
        assert (browser.run("return document.querySelectorAll('.legend .ramp').length") == 0) == (colour == "group")
    browser.click(".legend .link")
    group = browser.run("return lsparsePage.data.group.reduce((n, g) => n + (g === 0), 0)")
    assert browser.text("#count") == f"{group} of 50"
    browser.click(".legend .link")
    assert browser.text("#count") == "50 topics"
    browser.click("#map .tools .tool:nth-of-type(4)")
    file = downloaded(browser)
    assert file["name"] == "map.svg" and file["text"].count("<circle") == TOPICS and "<script" not in file["text"]


@in_browser
def test_documents_words_and_search(trained, page, browser):
    model, corpus, texts = trained
    browser.open(page)
    shares = model.predict_sparse(corpus.counts).toarray()
    k = 11
    browser.run("location.hash = 'topic=11&show=detail'")
    browser.until("return document.querySelectorAll('.example').length === 10")
    assert browser.texts(".example .number") == [percent(x) for x in -np.sort(-shares[:, k])[:10].astype(np.float32)]
    assert browser.run("return [...document.querySelectorAll('.snippet .mark')].every((mark) => mark.dataset.topic === '11')")
    browser.click(".example .link")
    doc = browser.run("return lsparsePage.state.doc")
    number = browser.run("return lsparsePage.data.doc_number[arguments[0]]", doc)
    assert browser.text(".document-view .text") == texts[number]
    assert browser.text(".document-view h2") == HOSTILE[number % len(HOSTILE)] + f" {number}"
    own = np.sort(shares[number])[::-1]
    found = browser.texts(".document-view .shares .number")
    assert found == [percent(x) for x in own[: len(found)].astype(np.float32)]
    # Every word of the text that the model knows is marked, and with a topic of the document.
    marked = browser.run("return [...document.querySelectorAll('.document-view .text .mark')].map((mark) => [mark.textContent, Number(mark.dataset.topic)])")
    assert len(marked) == corpus.counts[[number]].sum()
    assert all(word in corpus.vocabulary and shares[number, topic] > 0 for word, topic in marked)
    # Similar documents, by the Hellinger distance of shares.
    distance = np.sqrt(np.maximum(0, 1 - np.sqrt(shares * shares[number]).sum(axis=1)))
    distance[number] = 2
    similar = browser.texts(".document-view > .list:last-child .number")
    np.testing.assert_allclose([float(text) for text in similar], np.sort(distance)[: len(similar)], atol=2e-3)
    browser.click(".document-view > .list:last-child .link")
    assert browser.run("return lsparsePage.state.doc") != doc
    browser.click(".document-view .text .mark")
    topic = browser.run("return lsparsePage.state.topic")
    assert topic is not None
    browser.run("history.back()")
    browser.until("return lsparsePage.state.doc !== null")
    # A word in all topics that it is in.
    word = model.top_words(1)[k][0]
    browser.press("/")
    browser.type("#query", word)
    assert browser.run("return window.searchTook") < 50
    assert f"word {word}" in browser.texts("#answers li")[0]
    browser.press("ArrowDown")
    browser.press("ArrowUp")
    browser.press("Enter")
    v = browser.run("return lsparsePage.state.word")
    assert corpus.vocabulary[v] == word and browser.text(".word-view h2") == word
    counts = model.components_[:, v] - 0.07
    order = np.argsort(-counts)
    listed = browser.run("return [...document.querySelectorAll('.word-view .topic')].map((link) => Number(link.dataset.topic))")
    assert listed[0] == order[0] and len(listed) == min(50, (counts > 1e-4).sum())
    assert browser.texts(".word-view .number")[0] == percent(counts[order[0]] / counts.sum())
    browser.click(".word-view .tool")
    assert rows_of(downloaded(browser)["text"])[0] == ["word", "topic", "tokens", "share"]
    browser.click(".word-view .topic")
    assert browser.run("return lsparsePage.state.topic") == listed[0]
    for query, what in [("11", "topic"), ("</script>", "topic"), ("<img src=x", "doc"), ("hacked=5", "doc"), (word[:4], "word")]:
        browser.type("#query", query)
        assert browser.run("return document.querySelector('#answers li')?.dataset.what") == what, query
        browser.type("#query", "Escape")
    browser.type("#query", "nothing is called so")
    assert browser.texts("#answers li") == ["nothing found"]
    browser.type("#query", "Escape")
    browser.type("#query", word)
    browser.click("#answers li")
    assert browser.run("return lsparsePage.state.word") == v


@in_browser
def test_keys_theme_address_and_sizes(trained, page, browser):
    browser.open(page, "#topic=4&by=lift&color=exclusivity&sort=topic&down=false&zoom=2&mapX=0.1&show=detail")
    assert browser.text("#detail h2").startswith("Topic 4")
    assert browser.run("return [lsparsePage.state.by, lsparsePage.state.color, lsparsePage.state.zoom, lsparsePage.state.mapX]") == ["lift", "exclusivity", 2, 0.1]
    browser.press("j")
    assert browser.run("return lsparsePage.state.topic") == 5
    browser.press("k")
    browser.press("k")
    assert browser.run("return lsparsePage.state.topic") == 3
    assert "topic=3" in browser.run("return location.hash")
    browser.click(".steps .tool:nth-child(2)")
    browser.click(".steps .tool:nth-child(1)")
    browser.click(".near .topic")
    browser.run("history.back()")
    browser.until("return lsparsePage.state.topic === 3")
    leaf = browser.run("const leaf = document.querySelector('.tree .leaf'); leaf.dispatchEvent(new Event('click')); return leaf.textContent")
    assert browser.run("return lsparsePage.state.topic") == int(leaf.split()[0])
    browser.click(".bars .bar .word")
    assert browser.run("return lsparsePage.state.word") is not None
    browser.press("Escape")
    assert "Choose a topic" in browser.text("#detail")
    browser.run("location.hash = 'topic=4&show=detail'")
    browser.until("return lsparsePage.state.topic === 4")
    for at, ending in [(1, ".csv"), (2, ".svg")]:
        browser.click(f".words .tools > .tool:nth-of-type({at})")
        assert downloaded(browser)["name"].endswith(ending)
    paper = lambda: browser.run("return getComputedStyle(document.body).backgroundColor")
    light = paper()
    browser.press("d")
    assert paper() != light
    browser.click("#theme")
    assert paper() == light
    browser.press("?")
    assert browser.run("return document.querySelector('#keys').open")
    browser.click("#keys .tool")
    assert not browser.run("return document.querySelector('#keys').open")
    for width in (1200, 500):
        browser.resize(width, 850)
        for show in ["table", "detail"] + (["map"] if width == 500 else []):
            browser.click(f"#tabs [data-show={show}]")
            assert browser.run("return document.querySelector('#' + arguments[0]).getBoundingClientRect().width > 100", show)
            wide = browser.run("return document.documentElement.scrollWidth - innerWidth")
            assert wide <= 0
    # Columns that a small screen leaves out leave no room behind.
    browser.resize(480, 850)
    browser.click("#tabs [data-show=table]")
    shown = browser.run("return [...document.querySelectorAll('#table th')].reduce((sum, e) => sum + e.getBoundingClientRect().width, 0)")
    assert shown >= browser.run("return document.querySelector('#table .scroll').clientWidth") - 1
    # Nonsense in an address is passed over.
    browser.open(page, "#topic=999&word=-1&doc=x&zoom=NaN&by=<b>&sort=__proto__&weight=7")
    assert browser.run("return [lsparsePage.state.topic, lsparsePage.state.word, lsparsePage.state.zoom, lsparsePage.state.sort]") == [None, None, 1, "share"]


@in_browser
def test_hostile_words_empty_topics_and_no_documents(browser, tmp_path):
    counts = np.zeros((40, len(HOSTILE)), dtype=np.int32)
    for n in range(40):
        counts[n, n % 5 * 2 : n % 5 * 2 + 2] = 5
    model = TopicModel(12, vocabulary=HOSTILE, max_iter=3, random_state=0).fit(counts)
    path = tmp_path / "hostile.html"
    lsparse.explore(model, counts, names=[*HOSTILE, None, None], title=HOSTILE[0]).save(path)
    browser.open(path)
    for k in range(12):
        browser.run("location.hash = `topic=${arguments[0]}&show=detail`", k)
        browser.until("return document.querySelector('#detail h2').textContent.includes(`Topic ${arguments[0]} `)", k)
        assert {HOSTILE[word] for word, _, _ in bars(browser)} == set(HOSTILE)
    for v, word in enumerate(HOSTILE):
        browser.run("location.hash = `word=${arguments[0]}&show=detail`", v)
        browser.until("return document.querySelector('.word-view h2')?.textContent === arguments[0]", word)
    browser.run("location.hash = 'doc=0&show=detail'")
    browser.until("return document.querySelector('.document-view')")
    assert "×5" in browser.text(".document-view .text")
    assert browser.run("return document.querySelectorAll('#detail img, #detail bdi *, #detail .mark *, main script').length") == 0
    for topics in (1, 2):
        small = TopicModel(topics, random_state=0).fit(counts)
        lsparse.explore(small).save(path)
        browser.open(path, "#topic=0&show=detail")
        assert browser.text("#detail h2").startswith("Topic 0")


@in_browser
def test_a_notebook_shows_it_in_a_frame(trained, browser, tmp_path):
    model, corpus, _ = trained
    path = tmp_path / "notebook.html"
    path.write_text(f"<!doctype html><html data-ready=yes><body>{lsparse.explore(model, corpus)._repr_html_()}", encoding="utf-8")
    browser.open(path)
    browser.ask("POST", "/frame", {"id": {"element-6066-11e4-a52e-4f735466cecf": browser.find("iframe")}})
    browser.until("return document.documentElement.dataset.ready === 'yes'")
    browser.click("#table td.topic .link")
    assert browser.text("#detail h2").startswith("Topic ")
    browser.ask("POST", "/frame", {"id": None})


def screenshots(page, folder):
    """Pictures of every view, light and dark, wide and narrow, to be looked at: python -c "import test_explore as t; ..."."""
    folder = Path(folder)
    folder.mkdir(exist_ok=True)
    views = {"start": "", "topic": "#topic=11&show=detail", "relevance": "#topic=3&by=relevance&weight=0.3&color=exclusivity&zoom=2&show=detail",
             "word": "#word=20&show=detail", "document": "#doc=5&show=detail", "map": "#show=map"}
    browser = Browser()
    for width, height in [(1600, 950), (1200, 800), (420, 850)]:
        for theme in ["light", "dark"]:
            for name, fragment in views.items():
                browser.resize(width, height)
                browser.open(page, fragment)
                browser.run("document.documentElement.dataset.theme = arguments[0]; lsparsePage.map.redraw(); return 1", theme)
                browser.run("return new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
                browser.screenshot(folder / f"{name}-{width}-{theme}.png")
    browser.close()
