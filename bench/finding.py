"""K found by lsparse beside scikit-learn's BayesianGaussianMixture and fixed K: held-out score and CPU seconds.

Made-up embeddings (128 columns, 100 clusters of unequal sizes) and, where a folder of images is given, patches. One thread
each, f32 rows, lsparse by its command. What scikit-learn scores is that of its own `score` on the same held-out rows.
"""

import argparse
import json
import os
import subprocess
import time
from pathlib import Path

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"

import numpy as np
from sklearn.mixture import BayesianGaussianMixture


def embeddings(rows: int, columns: int, clusters: int, seed: int) -> np.ndarray:
    """Rows about means on a sphere, with clusters of their own widths, the largest ten times the smallest."""
    rng = np.random.default_rng(seed)
    means = rng.normal(size=(clusters, columns))
    means *= 4 / np.linalg.norm(means, axis=1, keepdims=True)
    widths = rng.uniform(0.1, 0.3, size=(clusters, columns))
    shares = 1 / np.linspace(1, 10, clusters)
    labels = rng.choice(clusters, size=rows, p=shares / shares.sum())
    return (means[labels] + widths[labels] * rng.normal(size=(rows, columns))).astype(np.float32)


def ours(command: str, folder: Path, train: Path, held: Path, options: list[str]) -> dict:
    """K, held-out score, CPU seconds and laps of a training by the command."""
    trace = folder / "trace.jsonl"
    fit = [command, "fit", "mixture", str(train), "--heldout", str(held), "--trace", str(trace), "--threads", "1", "-q"]
    subprocess.run([*fit, "--out", str(folder / "m.safetensors"), *options], check=True)
    steps = [json.loads(line) for line in trace.read_text().splitlines()]
    last = [step for step in steps if step.get("ends_lap")][-1]
    clusters = last.get("clusters", options[options.index("-k") + 1])
    return {"K": int(clusters), "heldout": last["heldout"], "cpu": last["cpu_seconds"], "laps": last["lap"]}


def theirs(train: Path, held: Path, clusters: int, iterations: int) -> dict:
    """The same of scikit-learn's Dirichlet process mixture with so many components at most."""
    import warnings

    warnings.simplefilter("ignore")
    rows, others = np.load(train), np.load(held)
    model = BayesianGaussianMixture(n_components=clusters, covariance_type="diag", max_iter=iterations, random_state=0)
    begin = time.process_time()
    model.fit(rows)
    used = time.process_time() - begin
    alive = int((model.weights_ > 0.5 / len(rows)).sum())
    return {"K": alive, "heldout": float(model.score(others)), "cpu": used, "laps": model.n_iter_}


def show(name: str, found: dict) -> None:
    print(f"{name:<44} K {found['K']:>5}  held-out {found['heldout']:>10.4f}  {found['cpu']:>8.1f} s  {found['laps']:>5.0f} laps", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("command")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--clusters", type=int, default=100)
    parser.add_argument("--iterations", type=int, default=100)
    parser.add_argument("--patches", nargs=2, type=Path, help="rows to train on and held-out rows")
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    train, held = args.folder / "train.npy", args.folder / "held.npy"
    rows = embeddings(args.rows + args.rows // 10, 128, args.clusters, 0)
    np.save(train, rows[: args.rows])
    np.save(held, rows[args.rows :])
    print(f"{args.rows:,} x 128 made-up embeddings, {args.clusters} clusters, diagonal covariances")
    for options in (["-k", "auto"], ["-k", "auto", "--k-start", "1"], ["-k", str(args.clusters)]):
        show(" ".join(["lsparse", *options]), ours(args.command, args.folder, train, held, ["--likelihood", "diag-gauss", *options]))
    at_most = 3 * args.clusters // 2
    show(f"scikit-learn, at most {at_most}", theirs(train, held, at_most, args.iterations))
    if args.patches:
        print("patches, zero-mean Gaussians")
        for clusters in ("auto", "50", "100", "200", "400", "800"):
            options = ["-k", clusters, "--likelihood", "zero-mean-gauss"]
            show(f"lsparse -k {clusters}", ours(args.command, args.folder, *args.patches, options))


if __name__ == "__main__":
    main()
