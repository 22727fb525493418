"""Draw held-out scores over CPU seconds from what rivals_topics.py has kept.

    python bench/draw_rivals.py RESULTS.jsonl --corpus 20news -k 200 --out PICTURE.svg

One line a system: of lsparse the mean of its seeds lap by lap, of the others what they had at the times asked for, with
the alpha that they use themselves where they learn one.
"""

import argparse
import json
from pathlib import Path

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt
import numpy as np

NAMES = {
    "lsparse": "lsparse", "tomotopy": "tomotopy, the same priors", "tomotopy-default": "tomotopy, its defaults",
    "gensim": "gensim", "sklearn": "scikit-learn",
}
COLOURS = {"lsparse": "#0b62b8", "tomotopy": "#d1730c", "tomotopy-default": "#e3a857", "gensim": "#3b8f4a", "sklearn": "#8c5fb0"}


def curve(system, lines):
    """Seconds and scores."""
    if system != "lsparse":
        lines = sorted(lines, key=lambda line: line["seconds"])
        return [line["seconds"] for line in lines], [line.get("own_score", line["score"]) for line in lines]
    laps = min(len(line["laps"]) for line in lines)
    means = np.mean([line["laps"][:laps] for line in lines], axis=0)
    return means[:, 0], means[:, 1]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path)
    parser.add_argument("--corpus", required=True)
    parser.add_argument("-k", "--topics", type=int, default=200)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    lines = [json.loads(line) for line in options.results.read_text().splitlines()]
    wanted = lambda line: line["corpus"] == options.corpus and line["topics"] == options.topics and "error" not in line
    lines = [line for line in lines if wanted(line) and line.get("run") in (None, "default")]
    plt.rcParams |= {"svg.hashsalt": "lsparse", "font.size": 11, "svg.fonttype": "path"}
    figure, ax = plt.subplots(figsize=(7.2, 3.8))
    for system, name in NAMES.items():
        found = [line for line in lines if line["system"] == system]
        if found:
            seconds, scores = curve(system, found)
            wide = 2.6 if system == "lsparse" else 1.6
            ax.plot(seconds, scores, marker="o", markersize=4, linewidth=wide, color=COLOURS[system])
            beside = {"xytext": (7, 0), "textcoords": "offset points", "va": "center", "fontsize": 9.5}
            ax.annotate(name, (seconds[-1], scores[-1]), color=COLOURS[system], **beside)
    ax.set_xscale("log")
    # Room for the names behind the lines.
    ax.set_xlim(right=ax.get_xlim()[1] * 6)
    ticks = [1, 2, 5, 10, 20, 50, 100]
    ax.set_xticks(ticks, [str(tick) for tick in ticks])
    ax.minorticks_off()
    ax.set_xlabel("CPU seconds of training, one thread")
    ax.set_ylabel("held-out score\n(log probability of a word)")
    ax.set_title(f"{options.corpus}, {options.topics} topics: higher is better", fontsize=11, loc="left")
    ax.grid(alpha=0.25)
    ax.spines[["top", "right"]].set_visible(False)
    figure.savefig(options.out, bbox_inches="tight", metadata={"Date": None})


if __name__ == "__main__":
    main()
