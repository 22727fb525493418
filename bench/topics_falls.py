"""Whether held-out scores of topics fall over the laps of a run, by how much, and how surely.

    python bench/topics_falls.py --lsparse target/release/lsparse CORPUS ... [--part test] [--splits 20]

A CORPUS is a folder with the parts train, val and test, as `lsparse corpus split` and rivals_topics.py leave it. Runs go
on without a rule that ends them, with the laps at which they are scored. Few documents do not tell small falls: what is
held out of each decides. So the same documents are scored with several draws of the words that are held out, the same
ones at every lap, and what is given is the mean over the draws, with the standard error of its difference from the mean
at the best lap (over draws, which says nothing of other documents).
"""

import argparse
import json
import tempfile
from pathlib import Path

import rivals  # Before NumPy: one thread.

import numpy as np


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpora", nargs="+", type=Path, metavar="CORPUS")
    parser.add_argument("--lsparse", required=True, type=lambda path: Path(path).resolve(), help="the command")
    parser.add_argument("--out", type=Path, default=Path("target/bench-data"), help="for results")
    parser.add_argument("-k", "--topics", type=rivals.numbers, default=[200, 800], metavar="K,K")
    parser.add_argument("--seeds", type=rivals.numbers, default=[0, 1, 2])
    parser.add_argument("--laps", type=rivals.numbers, default=[4, 6, 8, 10, 12, 15, 20, 25, 30])
    parser.add_argument("--splits", type=int, default=20, help="draws of the words that are held out")
    parser.add_argument("--part", choices=["val", "test"], default="test")
    return parser.parse_args()


def scores(options, corpus, topics, seed):
    """Scores of a run, laps x draws."""
    found = np.zeros((len(options.laps), options.splits))
    with tempfile.TemporaryDirectory() as folder:
        model, checkpoint = Path(folder) / "model.safetensors", Path(folder) / "run.ckpt"
        command = [options.lsparse, "fit", "topics", corpus / "train", "-k", topics, "--seed", seed, "--threads", 1]
        command += ["--quiet", "--tolerance", "none", "--checkpoint", checkpoint, "--resume", "--out", model]
        for place, laps in enumerate(options.laps):
            rivals.run([*command, "--laps", laps])
            for split in range(options.splits):
                score = [options.lsparse, "score", model, corpus / options.part, "--seed", split]
                report = rivals.run([*score, "--threads", 1, "--json"])[0]
                found[place, split] = json.loads(report)["mean_log_probability"]
    return found


def main():
    options = parse()
    known = rivals.Results(options.out / "topics-falls.jsonl", ("corpus", "topics", "seed", "part", "laps", "splits"))
    rows = []
    for corpus in options.corpora:
        for topics in options.topics:
            for seed in options.seeds:
                task = {"corpus": corpus.absolute().name, "topics": topics, "seed": seed, "part": options.part}
                task |= {"laps": str(options.laps), "splits": options.splits}
                line = known.find(task)
                if line is None:
                    line = task | {"scores": scores(options, corpus, topics, seed).tolist()}
                    known.add(line)
                found = np.array(line["scores"])
                means = found.mean(axis=1)
                best = int(means.argmax())
                falls = found[best] - found[-1]
                error = falls.std(ddof=1) / len(falls) ** 0.5 if len(falls) > 1 else float("nan")
                one = found.max(axis=0) - found[-1]
                row = [task["corpus"], str(topics), str(seed), *(f"{mean:.4f}" for mean in means), f"{falls.mean():.4f} ({error:.4f})"]
                rows.append([*row, f"{one.min():.4f} to {one.max():.4f}"])
    head = ["corpus", "K", "seed", *(f"lap {lap}" for lap in options.laps), "fall from the best to the last", "by one draw each"]
    rivals.table(head, rows)


if __name__ == "__main__":
    main()
