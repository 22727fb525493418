"""What a few states a step lose: held-out log likelihood a step of hidden Markov models by L, planted and real sequences.

`cargo xtask bench beams` runs it: beams.py LSPARSE FOLDER_OF_TEXT [IMAGES] [FILTER]. Sequences are letters and
words of the documentation's pages (every second sequence is held out), columns of 8 pixels along strips of images, and planted chains:
states that are told by their rows, states that hardly differ and last long, and states that nothing but the order of steps
tells apart. Fits from three seeds, since what a fit comes to differs more by where it starts than by L. One line of JSON a
case: mean scores by L (K for all states), how far L = 4 is from all, seed by seed and on average, and the L that
`--sparsity auto` takes.
"""

import collections
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import scipy.sparse as sp

LSPARSE, TEXT = sys.argv[1], Path(sys.argv[2])
IMAGES = Path(sys.argv[3]) if len(sys.argv) > 3 and sys.argv[3] != "-" else None
FILTER = sys.argv[4] if len(sys.argv) > 4 else ""
ROOM = Path(tempfile.mkdtemp())
SEEDS = range(3)


def chain(rng, transitions, steps):
    states = [int(rng.integers(len(transitions)))]
    while len(states) < steps:
        states.append(int(rng.choice(len(transitions), p=transitions[states[-1]])))
    return np.array(states)


def staying(rng, states, stay):
    other = rng.dirichlet(np.full(states, 0.3), states)
    return stay * np.eye(states) + (1 - stay) * other


def planted(seed, states, columns, apart, stay, lengths):
    """Gaussian rows of unit variance about means that are so far apart."""
    rng = np.random.default_rng(seed)
    means, transitions = rng.normal(0, apart, (states, columns)), staying(rng, states, stay)
    halves = []
    for _ in range(2):
        drawn = np.concatenate([chain(rng, transitions, length) for length in lengths])
        halves.append(means[drawn] + rng.normal(size=(len(drawn), columns)))
    return halves, lengths


def symbols(seed, states, symbols, lengths):
    """Symbols that every state gives, in states that follow each other in a few ways."""
    rng = np.random.default_rng(seed)
    transitions = 0.02 / states + 0.98 * rng.dirichlet(np.full(states, 0.2), states)
    gives = rng.dirichlet(np.full(symbols, 1.0), states)
    halves = []
    for _ in range(2):
        drawn = np.concatenate([chain(rng, transitions, length) for length in lengths])
        found = np.array([rng.choice(symbols, p=gives[state]) for state in drawn])
        halves.append(np.eye(symbols)[found])
    return halves, lengths


def letters():
    text = " ".join(page.read_text() for page in sorted(TEXT.rglob("*.md"))).lower()
    places = [" abcdefghijklmnopqrstuvwxyz".find(letter) for letter in text]
    found = np.array([place for place in places if place >= 0])[:40_000].reshape(-1, 400)
    return [np.eye(27)[found[half::2].ravel()] for half in (0, 1)], [400] * 50


def words():
    """The 200 most frequent words of the pages, and all others as one."""
    text = " ".join(page.read_text() for page in sorted(TEXT.rglob("*.md"))).lower()
    found = re.findall("[a-z]+", text)[:40_000]
    found = found[: len(found) // 800 * 800]
    known = {word: n for n, (word, _) in enumerate(collections.Counter(found).most_common(200))}
    symbols = np.array([known.get(word, 200) for word in found]).reshape(-1, 400)
    return [np.eye(201)[symbols[half::2].ravel()] for half in (0, 1)], [400] * (len(symbols) // 2)


def strips():
    from PIL import Image

    rows = []
    for path in sorted(IMAGES.rglob("*.jpg"))[:60]:
        grey = np.asarray(Image.open(path).convert("L"), float) / 255
        rows.append(grey[100:108, :320].T + np.random.default_rng(len(rows)).normal(0, 1 / 512, (320, 8)))
    return [np.concatenate(rows[0::2]), np.concatenate(rows[1::2])], [320] * 30


def cases():
    long = [250] * 16
    yield "planted, told by rows", 20, "diag-gauss", lambda: planted(0, 20, 8, 1.5, 0.5, long)
    yield "planted, blurred", 20, "diag-gauss", lambda: planted(1, 20, 3, 1.0, 0.8, long)
    yield "planted, hardly differ and last 50 steps", 12, "diag-gauss", lambda: planted(2, 12, 3, 0.8, 0.98, long)
    yield "planted, told by order alone", 8, "multinomial", lambda: symbols(3, 8, 12, long)
    yield "letters", 30, "multinomial", letters
    yield "words", 40, "multinomial", words
    if IMAGES is not None:
        yield "strips of images", 30, "gauss", strips


def write(name, rows, likelihood):
    path = ROOM / name
    if likelihood == "multinomial":
        sp.save_npz(path.with_suffix(".npz"), sp.csr_matrix(rows))
        return path.with_suffix(".npz")
    np.save(path.with_suffix(".npy"), rows)
    return path.with_suffix(".npy")


def main():
    for name, states, likelihood, make in cases():
        if FILTER not in name:
            continue
        halves, lengths = make()
        own, held = (write(part, rows, likelihood) for part, rows in zip(("own", "held"), halves, strict=True))
        np.savetxt(ROOM / "lengths.txt", lengths, fmt="%d")
        scores, taken = {}, []
        for sparsity in [1, 2, 4, 8, 16, "K", "auto"]:
            if sparsity == 16 and states <= 16:
                continue
            for seed in SEEDS:
                command = [LSPARSE, "fit", "sequence", own, "--groups", ROOM / "lengths.txt", "-k", states, "--seed", seed]
                command += ["--likelihood", likelihood, "-l", sparsity, "--heldout", held]
                command += ["--heldout-groups", ROOM / "lengths.txt", "--heldout-every", 1000, "--threads", 1, "--json"]
                command += ["--quiet", "--out", ROOM / "h.safetensors"]
                report = json.loads(subprocess.run(list(map(str, command)), check=True, capture_output=True, text=True).stdout)
                scores.setdefault(str(sparsity), []).append(report["heldout"])
                if sparsity == "auto":
                    taken.append(report["sparsity"])
        short = [100 * (all - four) / abs(all) for all, four in zip(scores["K"], scores["4"], strict=True)]
        means = {sparsity: round(float(np.mean(found)), 4) for sparsity, found in scores.items()}
        line = {"case": name, "K": states, "scores": means, "auto": taken}
        line |= {"L4_below_all_%": [round(each, 3) for each in short], "mean_%": round(float(np.mean(short)), 3)}
        print(json.dumps(line), flush=True)


main()
