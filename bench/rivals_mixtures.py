"""Mixtures against scikit-learn's GaussianMixture, both at their defaults: held-out log likelihood and CPU seconds.

    python bench/rivals_mixtures.py --lsparse target/release/lsparse [--data DIR] [--quick] [-- SETTINGS of lsparse]

The same f32 rows, K and type of covariance for both, one thread each, mean of the seeds. Seconds of lsparse are those
of the whole command, files read and written included; those of scikit-learn are of fit alone. With --package lsparse is
the Python package in the same process, and both are those of fit alone. Data sets are described
in vectors.py, some of which are run only where --only names them; DIR/images has images in folders train, val and test,
DIR/text the corpora kos and 20news. Without DIR the others are run. Each score is by the system's own scorer; that of lsparse is checked with density.py.

What both come to is kept in OUT/rivals-mixtures.jsonl, a line a fit as soon as it is done, so that a run that is cut
short counts as far as it came (--report shows that); what scikit-learn came to is not run again. Cells that take longest
come first. Data sets that are in --sets are taken from there, of which NAME-train.npy and NAME-test.npy are enough.
Settings are to be chosen with --part val.
"""

import argparse
import sys
import tempfile
import time
import warnings
from functools import partial
from pathlib import Path

import rivals  # Before NumPy: one thread.

import numpy as np

import density
import vectors

FAMILIES = {"full": "gauss", "diag": "diag-gauss", "tied": "tied-gauss", "spherical": "spherical-gauss"}
KEY = ("system", "set", "data", "rows", "clusters", "type", "seed", "part", "settings")
# lsparse should need at most this share of scikit-learn's seconds.
SHARE = 1 / 5


def parse(words):
    words, settings = rivals.split_settings(words)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lsparse", required=True, help="the command", type=lambda path: Path(path).resolve())
    parser.add_argument("--data", type=Path, help="a folder with images/ and text/")
    parser.add_argument("--out", type=Path, default=Path("target/bench-data"), help="for data sets and results")
    parser.add_argument("--sets", type=Path, help="where data sets are, or are put [default: OUT/vectors]")
    parser.add_argument("--only", type=rivals.names, default=vectors.SETS, metavar="SET,SET")
    parser.add_argument("-k", "--clusters", type=rivals.numbers, metavar="K,K")
    parser.add_argument("--types", type=rivals.names, default=list(FAMILIES), metavar="TYPE,TYPE")
    parser.add_argument("--seeds", type=rivals.numbers, metavar="SEED,SEED")
    parser.add_argument("--part", choices=["val", "test"], default="test")
    parser.add_argument("--rows", type=int, help="train on the first so many rows alone")
    parser.add_argument("--systems", type=rivals.names, default=["lsparse", "sklearn"], metavar="NAME,NAME")
    parser.add_argument("--package", action="store_true", help="fit by the Python package, which must be installed")
    parser.add_argument("--jobs", type=int, default=1, help="fits at a time, each on one thread")
    parser.add_argument("--quick", action="store_true", help="2,000 rows, K = 10 and 50, one seed")
    parser.add_argument("--prepare", action="store_true", help="make the data sets and end")
    parser.add_argument("--report", action="store_true", help="show what is known of these cells, and fit nothing")
    options = parser.parse_args(words)
    options.clusters = options.clusters or ([10, 50] if options.quick else [10, 50, 200])
    options.seeds = options.seeds or ([0] if options.quick else [0, 1, 2])
    options.rows = options.rows or (2_000 if options.quick else None)
    options.sets = options.sets or options.out / "vectors"
    for what, known in (("only", (*vectors.SETS, *vectors.OTHERS, *vectors.SMALL, *vectors.FILES)), ("types", FAMILIES), ("systems", ("lsparse", "sklearn"))):
        for name in getattr(options, what):
            if name not in known:
                parser.error(f"--{what}: there is no {name}; there are {', '.join(known)}")
    if options.package and settings:
        parser.error("settings of lsparse are for the command, without --package")
    return options, settings


def train_file(options, name):
    """Rows to train on: the file itself, or the first rows of it in a file of their own."""
    file = options.sets / f"{name}-train.npy"
    rows = np.load(file, mmap_mode="r")
    if options.rows is None or options.rows >= len(rows):
        return file, len(rows)
    short = options.sets / f"{name}-train-{options.rows}.npy"
    if not short.exists():
        np.save(short, rows[: options.rows])
    return short, options.rows


def fingerprint(options, name):
    """Tells data sets of one name apart, but not those that another machine has rounded otherwise."""
    files = [train_file(options, name)[0], options.sets / f"{name}-{options.part}.npy"]
    return " ".join(f"{np.abs(np.load(file), dtype=np.float64).mean():.4e}" for file in files)


def fit(options, settings, task):
    """The line of one fit, with its score and seconds, or with its error."""
    train = train_file(options, task["set"])[0]
    held = options.sets / f"{task['set']}-{task['part']}.npy"
    try:
        work = ours if task["system"] == "lsparse" else theirs
        return task | work(options, settings, task, train, held)
    except (rivals.Failed, ValueError) as error:
        return task | {"error": str(error)}


def ours(options, settings, task, train, held):
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "model.safetensors"
        if options.package:
            from lsparse import GaussianMixture, save

            model, line = timed(partial(GaussianMixture, n_jobs=1), task, train, held)
            save(model, file)
        else:
            command = [options.lsparse, "fit", "mixture", train, "--likelihood", FAMILIES[task["type"]]]
            command += ["-k", task["clusters"], "--seed", task["seed"], "--threads", 1, "--quiet", "--json"]
            report, seconds = rivals.run([*command, "--out", file, *settings])
            score, _ = rivals.run([options.lsparse, "score", file, held, "--threads", 1, "--json"])
            report, score = rivals.json.loads(report), rivals.json.loads(score)["mean_log_likelihood"]
            # A score that is no number is null in JSON.
            line = {"score": float("nan") if score is None else score, "seconds": seconds}
            line |= {"steps": report["laps"], "empty": report["empty_clusters"], "converged": report["converged"]}
        return line | {"check": density.log_density(density.read_model(file), np.load(held)).mean()}


def theirs(options, settings, task, train, held):
    from sklearn.mixture import GaussianMixture

    return timed(GaussianMixture, task, train, held)[1]


def timed(kind, task, train, held):
    """An estimator fitted in this process, with the CPU seconds of fit alone."""
    warnings.simplefilter("ignore")
    rows = np.load(train)
    model = kind(n_components=task["clusters"], covariance_type=task["type"], random_state=task["seed"])
    start = time.process_time()
    model.fit(rows)
    seconds = time.process_time() - start
    line = {"score": float(model.score(np.load(held))), "seconds": seconds}
    return model, line | {"steps": model.n_iter_, "converged": bool(model.converged_)}


def tasks_of(options, settings, known):
    """Every fit that is asked for and can be made, the longest first."""
    families = []
    texts = rivals.run([options.lsparse, "fit", "mixture", "--help"])[0]
    for kind in options.types:
        if f"- {FAMILIES[kind]}:" in texts:
            families.append(kind)
        else:
            print(f"{kind}: skipped for lsparse, which does not know --likelihood {FAMILIES[kind]}")
    tasks = []
    for name in options.only:
        parts = vectors.PARTS if options.prepare else ("train", options.part)
        reason = vectors.prepare(name, options.sets, options.data, options.lsparse, parts)
        if reason:
            print(f"{name}: skipped, {reason}")
            continue
        about = {"set": name, "data": fingerprint(options, name), "rows": train_file(options, name)[1]}
        for kind in options.types:
            for clusters in options.clusters:
                for seed in options.seeds:
                    task = about | {"clusters": clusters, "type": kind, "seed": seed, "part": options.part}
                    if "sklearn" in options.systems:
                        tasks.append(task | {"system": "sklearn"})
                    if "lsparse" in options.systems and kind in families:
                        tasks.append(task | {"system": "lsparse", "settings": "package" if options.package else " ".join(settings)})
    fresh = [task for task in tasks if task["system"] == "lsparse" or known.find(task) is None]
    return tasks, sorted(fresh, key=partial(place, options))


def place(options, task):
    """Where a fit stands in line: cells in which scikit-learn takes longest first, each as a whole."""
    columns = np.load(train_file(options, task["set"])[0], mmap_mode="r").shape[1]
    products = columns**2 if task["type"] in ("full", "tied") else columns
    cell = (task["set"], task["type"], task["clusters"])
    return -task["rows"] * task["clusters"] * products, cell, task["system"] == "lsparse", task["seed"]


def summary(lines, seeds):
    """Mean score and seconds of a cell's fits with these seeds, and how many of all its fits failed."""
    chosen = [line for line in lines if line["seed"] in seeds]
    mean = lambda name: float(np.mean([line[name] for line in chosen])) if chosen else float("nan")
    return {"score": mean("score"), "seconds": mean("seconds"), "failed": len(lines) - len(good(lines))}


def good(lines):
    """The seeds whose fit has a score."""
    return {line["seed"] for line in lines if "error" not in line and np.isfinite(line["score"])}


def judge(cell):
    """Both sides of a cell and how they compare: by the seeds that both have a score for, if there are any."""
    seeds = {system: good(lines) for system, lines in cell.items()}
    common = set.intersection(*seeds.values())
    sides = {system: summary(lines, common or seeds[system]) for system, lines in cell.items()}
    our, their = sides.get("lsparse"), sides.get("sklearn")
    if not (our and their):
        return our, their, {}
    # Failing is never as good; where scikit-learn fails every time, any score is above it, and no time compares.
    whole = our["failed"] == 0
    verdict = {"above": whole and (not common or our["score"] >= their["score"]), "failed": our["failed"]}
    if common:
        verdict["fast"] = our["seconds"] <= SHARE * their["seconds"]
    return our, their, verdict


def named(line):
    return f"{line['system']} {line['set']} {line['type']} K = {line['clusters']} seed {line['seed']}"


def report(tasks, known):
    """The table, and how many cells are as they should be."""
    cells = {}
    for task in tasks:
        line = known.find(task)
        if line is not None:
            cell = cells.setdefault((task["set"], task["type"], task["clusters"]), {})
            cell.setdefault(task["system"], []).append(line)
    rows, counted = [], []
    for (name, kind, clusters), cell in cells.items():
        our, their, verdict = judge(cell)
        if verdict:
            about = {"cell": f"{name} {kind} K = {clusters}", "clusters": clusters, "our": our, "their": their}
            counted.append(verdict | about)
        rows.append(row(name, kind, clusters, our, their, verdict))
    head = ["set", "type", "K", "lsparse", "scikit-learn", "difference", "CPU s", "CPU s", "ratio", "score"]
    rivals.table([*head, "1/5 of the time"], rows)
    print()
    checked = [line for cell in cells.values() for line in cell.get("lsparse", []) if "check" in line]
    if checked:
        off = max(abs(line["check"] - line["score"]) / max(1.0, abs(line["score"])) for line in checked)
        print(f"scores of lsparse against NumPy's from the model file: largest relative difference {off:.1e}")
    for line in (line for cell in cells.values() for system in cell.values() for line in system if "error" in line):
        print(f"failed: {named(line)}: {line['error']}")
    if counted:
        summarize(counted)


def summarize(counted):
    """What a reader wants to know of all cells: how many are as they should be, and by how much the others miss it."""

    def share(cells, name):
        known = [cell[name] for cell in cells if name in cell]
        return f"{sum(known)} of {len(known)}"

    sizes = sorted({cell["clusters"] for cell in counted})
    columns = [[cell for cell in counted if cell["clusters"] == clusters] for clusters in sizes] + [counted]
    rows = [[title, *(share(cells, name) for cells in columns)] for title, name in (("at or above", "above"), ("1/5 of the time or less", "fast"))]
    rivals.table(["", *(f"K = {clusters}" for clusters in sizes), "all"], rows)
    print()
    below = [(cell["their"]["score"] - cell["our"]["score"], cell["cell"]) for cell in counted if not cell["above"]]
    print("below:", "; ".join(f"{cell} {by:.3f}" for by, cell in sorted(below, reverse=True)) or "none")
    slow = [cell for cell in counted if cell.get("fast") is False]
    slow.sort(key=lambda cell: -cell["our"]["seconds"])
    told = (f"{cell['cell']} {cell['our']['seconds']:.2f} s, {cell['their']['seconds']:.2f} s" for cell in slow)
    print("longer than 1/5 of the time (lsparse, scikit-learn):", "; ".join(told) or "none")
    print(f"{sum(cell['our']['seconds'] < 0.1 for cell in slow)} of these {len(slow)} take less than 0.1 s")
    failures = sum(cell["failed"] for cell in counted)
    print(f"{share(counted, 'fast')} cells in 1/5 of the time or less")
    print(f"{share(counted, 'above')} cells at or above, {failures} failures")


def row(name, kind, clusters, our, their, verdict):
    def score(side):
        if side is None:
            return ""
        text = f"{side['score']:.3f}" if np.isfinite(side["score"]) else "none"
        return text + (f" ({side['failed']} failed)" if side["failed"] else "")

    def number(value, form):
        return format(value, form) if np.isfinite(value) else ""

    seconds = [number(side["seconds"], ".2f") if side else "" for side in (our, their)]
    both = our and their
    return [
        name,
        kind,
        str(clusters),
        score(our),
        score(their),
        number(our["score"] - their["score"], "+.3f") if both else "",
        *seconds,
        number(our["seconds"] / their["seconds"], ".2f") if both else "",
        ("at or above" if verdict["above"] else "**below**") if verdict else "",
        ("yes" if verdict["fast"] else "no") if "fast" in verdict else "",
    ]


def main():
    options, settings = parse(sys.argv[1:])
    known = rivals.Results(options.out / "rivals-mixtures.jsonl", KEY)
    tasks, fresh = tasks_of(options, settings, known)
    if options.prepare:
        return
    if options.report:
        return report(tasks, known)

    def done(line):
        known.add(line)
        told = line.get("error") or f"{line['score']:.3f} in {line['seconds']:.2f} s"
        print(f"{named(line)}: {told}", file=sys.stderr, flush=True)

    rivals.each(partial(fit, options, settings), fresh, options.jobs, done)
    report(tasks, known)


if __name__ == "__main__":
    main()
