"""What a few states a step lose: held-out log likelihood a step of hidden Markov models by L, planted and real sequences.

`cargo xtask bench beams` runs it: beams.py LSPARSE FOLDER_OF_TEXT [IMAGES] [FILTER]. Sequences are letters of the
documentation's pages, columns of 8 pixels along strips of images, and planted chains: states that are told by their rows,
states that hardly differ and last long, and states that nothing but the order of steps tells apart. One line of JSON a case:
scores by L (a dash for all states), how far L = 4 is from all, and the L that `--sparsity auto` takes.
"""

import json
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
    found = np.array([place for place in places if place >= 0])[:40_000]
    return [np.eye(27)[found[:20_000]], np.eye(27)[found[20_000:40_000]]], [400] * 50


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
        scores, taken, seconds = {}, None, {}
        for sparsity in [1, 2, 4, 8, 16, "K", "auto"]:
            if sparsity == 16 and states <= 16:
                continue
            command = [LSPARSE, "fit", "sequence", own, "--groups", ROOM / "lengths.txt", "-k", states]
            command += ["--likelihood", likelihood, "-l", sparsity, "--heldout", held, "--heldout-groups", ROOM / "lengths.txt"]
            command += ["--heldout-every", 1000, "--threads", 1, "--json", "--quiet", "--out", ROOM / "h.safetensors"]
            report = json.loads(subprocess.run(list(map(str, command)), check=True, capture_output=True, text=True).stdout)
            scores[str(sparsity)], seconds[str(sparsity)] = round(report["heldout"], 4), report.get("cpu_seconds")
            if sparsity == "auto":
                info = subprocess.run(
                    [LSPARSE, "info", ROOM / "h.safetensors", "--json"], check=True, capture_output=True, text=True
                )
                taken = json.loads(info.stdout)["config"]["sparsity"]
        short = 100 * (scores["K"] - scores["4"]) / abs(scores["K"])
        print(json.dumps({"case": name, "K": states, "scores": scores, "L4_below_all_%": round(short, 3), "auto": taken}), flush=True)


main()
