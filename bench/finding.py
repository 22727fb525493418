"""K found by lsparse beside others who find one, and beside fixed K: held-out score and CPU seconds, one thread each.

Made-up embeddings (128 columns, 100 clusters of unequal sizes) with scikit-learn's BayesianGaussianMixture beside them
(its own `score` on the same held-out rows); patches, where two files of them are given, with the same beside them on a part
of the rows, with few components and iterations, since all of them would take it hours; topics, where a folder as in
corpus.py is given, with tomotopy's HDP beside them, scored as ours are. What finding K takes of a lap is what the trace
says (`moves_cpu_seconds`), by quarters of the laps after the first and of the lap where it is most.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"

import numpy as np

FIXED = (50, 100, 200, 400, 800)


def embeddings(rows: int, columns: int, clusters: int, seed: int) -> np.ndarray:
    """Rows about means on a sphere, with clusters of their own widths, the largest ten times the smallest."""
    rng = np.random.default_rng(seed)
    means = rng.normal(size=(clusters, columns))
    means *= 4 / np.linalg.norm(means, axis=1, keepdims=True)
    widths = rng.uniform(0.1, 0.3, size=(clusters, columns))
    shares = 1 / np.linspace(1, 10, clusters)
    labels = rng.choice(clusters, size=rows, p=shares / shares.sum())
    return (means[labels] + widths[labels] * rng.normal(size=(rows, columns))).astype(np.float32)


def ours(command: str, model: str, train: Path, held: Path, options: list[str]) -> dict:
    """K, held-out score, CPU seconds and laps of a training by the command."""
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "trace.jsonl"
        fit = [command, "fit", model, str(train), "--heldout", str(held), "--trace", str(trace), "--threads", "1", "-q"]
        subprocess.run([*fit, "--out", str(Path(folder) / "m.safetensors"), *options], check=True)
        steps = [json.loads(line) for line in trace.read_text().splitlines()]
    laps = [step for step in steps if step.get("ends_lap")]
    last, number = laps[-1], options[options.index("-k") + 1]
    ends = [step["cpu_seconds"] for step in laps]
    aside = np.array([step.get("moves_cpu_seconds", 0.0) for step in laps[1:]])
    clusters = int(last.get("clusters", number if number != "auto" else 0))
    scores = [(step["cpu_seconds"], step["heldout"]) for step in laps if step.get("heldout") is not None]
    return {"K": clusters, "heldout": last["heldout"], "cpu": ends[-1], "laps": last["lap"], "moves": shares(aside, np.diff(ends)), "scores": scores}


def shares(aside: np.ndarray, whole: np.ndarray) -> dict:
    """What share of the laps after the first went to finding K: by quarters of them, and in the worst one."""
    if not len(aside):
        return {}
    quarters = [part.sum() for part in np.array_split(aside, 4)], [part.sum() for part in np.array_split(whole, 4)]
    return {"quarters": [a / b if b else 0.0 for a, b in zip(*quarters)], "most": (aside / whole).max(), "over": (aside > 0.2 * whole).sum()}


def show(name: str, found: dict) -> dict:
    laps = f"  {found['laps']:>5.0f} laps" if "laps" in found else ""
    print(f"{name:<44} K {found['K']:>5}  held-out {found['heldout']:>10.4f}  {found['cpu']:>8.1f} s{laps}", flush=True)
    return found


def all_ours(command: str, model: str, train: Path, held: Path, options: list[str], fixed=FIXED) -> dict:
    """K that is found, the same K from the start, and fixed K; says what finding it cost."""
    found = show("lsparse -k auto", ours(command, model, train, held, ["-k", "auto", *options]))
    if found["moves"]:
        quarters = ", ".join(f"{100 * share:.0f}" for share in found["moves"]["quarters"])
        most, over = 100 * found["moves"]["most"], found["moves"]["over"]
        print(f"  finding K is {quarters} % of the laps after the first by quarters, {most:.0f} % of one at most, more than a fifth of {over}")
    same = ["-k", str(found["K"]), "--laps", "8", "--tolerance", "none", *options]
    show(f"lsparse -k {found['K']}, eight laps", ours(command, model, train, held, same))
    for clusters in fixed:
        show(f"lsparse -k {clusters}", ours(command, model, train, held, ["-k", str(clusters), *options]))
    return found


def theirs(train: Path, held: Path, clusters: int, iterations: int, covariances: str = "diag", most: int | None = None) -> dict:
    """The same of scikit-learn's Dirichlet process mixture with so many components at most, on so many of the rows."""
    import warnings

    from sklearn.mixture import BayesianGaussianMixture

    warnings.simplefilter("ignore")
    rows, others = np.load(train, mmap_mode="r"), np.load(held)
    rows = rows if most is None or most >= len(rows) else rows[np.random.default_rng(0).choice(len(rows), most, replace=False)]
    rows = np.ascontiguousarray(rows, dtype=np.float64)
    model = BayesianGaussianMixture(n_components=clusters, covariance_type=covariances, max_iter=iterations, random_state=0)
    begin = time.process_time()
    model.fit(rows)
    used = time.process_time() - begin
    alive = int((model.weights_ > 0.5 / len(rows)).sum())
    return {"K": alive, "heldout": float(model.score(others)), "cpu": used, "laps": model.n_iter_}


def mixtures(args: argparse.Namespace) -> None:
    train, held = args.folder / "train.npy", args.folder / "held.npy"
    rows = embeddings(args.rows + args.rows // 10, 128, args.clusters, 0)
    np.save(train, rows[: args.rows])
    np.save(held, rows[args.rows :])
    print(f"{args.rows:,} x 128 made-up embeddings, {args.clusters} clusters, diagonal covariances")
    found = all_ours(args.command, "mixture", train, held, ["--likelihood", "diag-gauss"], fixed=())
    at_most = 3 * args.clusters // 2
    other = show(f"scikit-learn, at most {at_most}", theirs(train, held, at_most, args.iterations))
    reached = next((cpu for cpu, score in found["scores"] if score >= other["heldout"]), None)
    if reached is not None:
        print(f"  its score after {reached:.1f} s: {other['cpu'] / reached:.1f} times its speed")


def topics(args: argparse.Namespace, corpus: Path) -> None:
    name, parts = corpus.name, args.folder / corpus.name
    if not (parts / "train").exists():
        counts = corpus / f"docword.{name}.txt"
        counts = counts if counts.exists() else counts.with_name(counts.name + ".gz")
        with tempfile.TemporaryDirectory() as folder:
            whole, command = Path(folder) / name, [args.command, "corpus"]
            vocab, split = (corpus / f"{what}.{name}.txt" for what in ("vocab", "split"))
            subprocess.run([*command, "build", counts, "--vocab", vocab, "--out", whole, "--quiet"], check=True)
            subprocess.run([*command, "split", whole, "--file", split, "--out", parts, "--quiet"], check=True)
    print(f"{name}: topics")
    all_ours(args.command, "topics", parts / "train", parts / "test", [], args.fixed)
    peer = [sys.executable, Path(__file__).with_name("topics.py"), corpus, "tomotopy-hdp", "-k", "2"]
    with tempfile.TemporaryDirectory() as folder:
        line = subprocess.run([*peer, "--times", args.times, "--out", folder], check=True, stdout=subprocess.PIPE).stdout
        for snapshot in map(json.loads, line.splitlines()):
            score = [args.scorer, "score", corpus, snapshot["file"], "--part", "test", "--threads", "1"]
            score += ["--alpha-file", snapshot["alpha_file"]]
            scored = json.loads(subprocess.run(score, check=True, stdout=subprocess.PIPE).stdout)
            show("tomotopy's HDP", {"K": snapshot["topics"], "heldout": scored["score"], "cpu": snapshot["seconds"]})


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("command")
    parser.add_argument("scorer")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=100_000, help="of made-up embeddings, 0 for none")
    parser.add_argument("--clusters", type=int, default=100)
    parser.add_argument("--iterations", type=int, default=100)
    parser.add_argument("--patches", nargs=2, type=Path, help="rows to train on and held-out rows")
    parser.add_argument("--peer-rows", type=int, default=10_000, help="patches that scikit-learn is given")
    parser.add_argument("--peer-iterations", type=int, default=30, help="and its iterations")
    parser.add_argument("--fixed", type=lambda text: tuple(map(int, text.split(","))), default=FIXED, help="K beside it")
    parser.add_argument("--corpus", type=Path, action="append", default=[])
    parser.add_argument("--times", default="5,20,60", help="CPU seconds of tomotopy")
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    if args.rows:
        mixtures(args)
    if args.patches:
        rows = len(np.load(args.patches[0], mmap_mode="r"))
        print(f"{rows:,} patches, zero-mean Gaussians")
        all_ours(args.command, "mixture", *args.patches, ["--likelihood", "zero-mean-gauss"], args.fixed)
        at_most = min(args.peer_rows, rows)
        name = f"scikit-learn, at most 50, {at_most:,} rows"
        show(name, theirs(*args.patches, 50, args.peer_iterations, "full", at_most))
    for corpus in args.corpus:
        topics(args, corpus)


if __name__ == "__main__":
    main()
