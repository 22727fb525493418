"""Pages of topics: CPU seconds and bytes of `lsparse explore`, pyLDAvis beside it, and how fast a browser shows the page.

Made-up documents over V = 8,000 words, a model of one lap for each K. One thread each. pyLDAvis is given up after a time. The
browser is Chromium without a window, drawing by the CPU: frames are fewer there than on any screen.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import scipy.sparse as sp

WORDS = 8_000


def documents(count, seed=0):
    """Counts of words: each document has three of 500 subjects, a subject some 60 words of its own, words by Zipf's law."""
    rng = np.random.default_rng(seed)
    subjects = rng.integers(WORDS, size=(500, 60))
    rows, columns = [], []
    for n in range(count):
        mine = subjects[rng.integers(500, size=3)].ravel()
        words = np.concatenate([rng.choice(mine, size=60), (rng.pareto(1.0, size=20) * 20).astype(int) % WORDS])
        rows.append(np.full(words.size, n))
        columns.append(words)
    ones = np.ones(sum(map(len, rows)), dtype=np.int32)
    return sp.csr_matrix((ones, (np.concatenate(rows), np.concatenate(columns))), shape=(count, WORDS))


def timed(run):
    """CPU seconds and seconds of a process."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    subprocess.run(run, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return cpu, time.monotonic() - began


PEER = """
import sys, numpy as np, scipy.sparse as sp, pyLDAvis
from safetensors.numpy import load_file
topics = load_file(sys.argv[1])["topics"]
counts = sp.load_npz(sys.argv[2])
topics = topics / topics.sum(axis=1, keepdims=True)
shares = np.random.default_rng(0).dirichlet(np.full(len(topics), 0.1), size=counts.shape[0])
lengths, frequency = np.asarray(counts.sum(axis=1)).ravel(), np.maximum(1, np.asarray(counts.sum(axis=0)).ravel())
page = pyLDAvis.prepare(topics, shares, lengths, [f"w{v}" for v in range(topics.shape[1])], frequency, n_jobs=1)
pyLDAvis.save_html(page, sys.argv[3])
"""


def peer(model, counts, out, limit):
    """The same of pyLDAvis; none where it takes too long or is not there."""
    try:
        import pyLDAvis  # noqa: F401
    except ImportError:
        return None
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    try:
        subprocess.run([sys.executable, "-W", "ignore", "-c", PEER, model, counts, out], check=True, timeout=limit)
    except subprocess.TimeoutExpired:
        return f"more than {limit} s"
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return f"{after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime:.1f} CPU s, {Path(out).stat().st_size / 1e6:.1f} MB"


PANNING = """
const done = arguments[arguments.length - 1], canvas = document.querySelector('#map canvas'), box = canvas.getBoundingClientRect();
const send = (kind, x) => canvas.dispatchEvent(new PointerEvent(kind, { pointerId: 1, clientX: box.left + x, clientY: box.top + 200, bubbles: true }));
canvas.setPointerCapture = () => {};
send('pointerdown', 100);
const gaps = [];
let last = performance.now(), n = 0;
const step = (now) => {
  gaps.push(now - last);
  last = now;
  send('pointermove', 100 + 60 * Math.sin(++n / 8));
  if (n < 120) requestAnimationFrame(step);
  else { send('pointerup', 100); gaps.sort((a, b) => a - b); done({ median: gaps[60], worst: gaps[118] }); }
};
requestAnimationFrame(step);
"""


def in_browser(page):
    """First paint, when the page can be used, a search and frames of panning, in milliseconds."""
    sys.path.insert(0, str(Path(__file__).parent.parent / "crates/lsparse-python/tests"))
    from browser import Browser, programs

    if programs() is None:
        return None
    browser = Browser()
    try:
        browser.ask("POST", "/url", {"url": Path(page).resolve().as_uri()})
        browser.until("return document.documentElement.dataset.ready === 'yes'", seconds=60)
        paint = browser.run("return performance.getEntriesByType('paint')[0]?.startTime ?? null")
        ready = browser.run("return performance.getEntriesByName('ready')[0]?.startTime ?? null")
        searches = []
        for query in ["w1", "w12", "w77", "w4", "w801"]:
            browser.type("#query", query)
            searches.append(browser.run("return window.searchTook"))
            browser.type("#query", "Escape")
        frames = browser.ask("POST", "/execute/async", {"script": PANNING, "args": []})
        return {"first_paint": paint, "ready": ready, "search": max(searches), "frame": frames["median"], "slowest_frame": frames["worst"]}
    finally:
        browser.close()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("lsparse")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--topics", default="1000,10000")
    parser.add_argument("--documents", type=int, default=20_000)
    parser.add_argument("--limit", type=float, default=600, help="seconds that pyLDAvis may take")
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    counts, corpus = args.folder / "counts.npz", args.folder / "corpus"
    sp.save_npz(counts, documents(args.documents))
    (args.folder / "words.txt").write_text("".join(f"w{v}\n" for v in range(WORDS)))
    subprocess.run([args.lsparse, "corpus", "build", counts, "--vocab", args.folder / "words.txt", "--out", corpus, "--force", "-q"], check=True)
    for topics in args.topics.split(","):
        model, page = args.folder / f"{topics}.safetensors", args.folder / f"{topics}.html"
        subprocess.run([args.lsparse, "fit", "topics", corpus, "-k", topics, "--laps", "1", "--out", model, "-q"], check=True)
        found = {"topics": int(topics)}
        found["cpu_s"], found["s"] = timed([args.lsparse, "explore", model, "--out", page, "--threads", "1", "-q"])
        found["mb"] = page.stat().st_size / 1e6
        with_documents = args.folder / f"{topics}-documents.html"
        found["cpu_s_with_documents"], _ = timed([args.lsparse, "explore", model, corpus, "--out", with_documents, "--threads", "1", "-q"])
        found["browser_ms"] = in_browser(page)
        print(json.dumps({key: round(value, 3) if isinstance(value, float) else value for key, value in found.items()}), flush=True)
        print(json.dumps({"topics": int(topics), "pyLDAvis": peer(str(model), str(counts), str(args.folder / "peer.html"), args.limit)}), flush=True)


if __name__ == "__main__":
    os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
    main()
