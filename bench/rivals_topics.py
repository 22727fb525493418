"""Topics against tomotopy, at its defaults and with the same priors: held-out scores over CPU seconds on one thread.

    python bench/rivals_topics.py --lsparse target/release/lsparse --scorer target/release/topics --data DIR \\
        [--quick] [-- SETTINGS of lsparse]

DIR/text has a folder a corpus, as in corpus.py. Every score is document completion by the scorer of lsparse, on the
same held-out words: tomotopy's topics both with the alpha that it has learned and with a symmetric one of 0.5 in total.
Runs of lsparse are of the command at its defaults, scored lap by lap (scoring is not part of the seconds), means of the
seeds; besides, 30 laps at K = 200 and 800, to see whether scores fall, and memoized against stochastic training at
K = 100 for 20 laps.

What tomotopy comes to is kept in OUT/rivals-topics.jsonl, without the topics, and not run again. Settings are to be
chosen with --part val. With --rivals gensim and sklearn can be run too, at their defaults; draw_rivals.py draws what is
kept, as a picture of scores over time.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

import rivals  # Before NumPy: one thread.

import numpy as np

KEY = ("system", "corpus", "topics", "seed", "part", "asked", "run", "settings")
RIVALS = ("tomotopy-default", "tomotopy")
OTHERS = ("gensim", "sklearn")
# At most this share of the time that tomotopy has had, and at most this far below the best score of the run.
SHARE, FALL = 1 / 10, 0.003


def parse(words):
    words, settings = rivals.split_settings(words)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    path = lambda text: Path(text).resolve()
    parser.add_argument("--lsparse", required=True, help="the command", type=path)
    parser.add_argument("--scorer", required=True, help="the program topics of lsparse-bench", type=path)
    parser.add_argument("--data", type=Path, required=True, help="a folder with text/")
    parser.add_argument("--out", type=Path, default=Path("target/bench-data"), help="for corpora and results")
    parser.add_argument("--only", type=rivals.names, metavar="CORPUS,CORPUS")
    parser.add_argument("-k", "--topics", type=int, default=200, help="K of the comparison")
    parser.add_argument("--times", type=rivals.numbers, help="CPU seconds of tomotopy [default: 60,300]")
    parser.add_argument("--seeds", type=rivals.numbers, help="of lsparse [default: 0,1,2]")
    parser.add_argument("--rival-seeds", type=rivals.numbers, default=[0], help="of tomotopy")
    parser.add_argument("--rivals", type=rivals.names, default=list(RIVALS), metavar="NAME,NAME")
    parser.add_argument("--runs", type=rivals.names, default=["default", "long", "schedules"], metavar="RUN,RUN")
    parser.add_argument("--long", type=rivals.numbers, default=[200, 800], help="K of the runs of 30 laps")
    parser.add_argument("--part", choices=["val", "test"], default="test")
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time, each on one thread")
    parser.add_argument("--quick", action="store_true", help="kos, 5 and 15 s of tomotopy, one seed, one long run")
    options = parser.parse_args(words)
    found = sorted(path.parent.name for path in (options.data / "text").glob("*/split.*.txt"))
    if options.quick:
        options.only = options.only or ["kos"]
        options.times = options.times or [5, 15]
        options.seeds = options.seeds or [0]
        options.long = options.long[:1]
    options.times = sorted(options.times or [60, 300])
    options.seeds = options.seeds or [0, 1, 2]
    options.only = options.only or found
    for what, known in (("only", found), ("rivals", (*RIVALS, *OTHERS, "")), ("runs", ("default", "long", "schedules", ""))):
        for name in getattr(options, what):
            if name not in known:
                parser.error(f"--{what}: there is no {name}; there are {', '.join(known)}")
    return options, settings


def corpora(options, name):
    """A corpus as the command reads it, in its parts; made unless it is there."""
    parts = options.out / "corpora" / name
    if not (parts / "train").exists():
        parts.mkdir(parents=True, exist_ok=True)
        source = options.data / "text" / name
        counts = source / f"docword.{name}.txt"
        counts = counts if counts.exists() else counts.with_name(counts.name + ".gz")
        with tempfile.TemporaryDirectory() as folder:
            whole, command = Path(folder) / name, [options.lsparse, "corpus"]
            vocab, split = (source / f"{what}.{name}.txt" for what in ("vocab", "split"))
            rivals.run([*command, "build", counts, "--vocab", vocab, "--out", whole, "--quiet"])
            rivals.run([*command, "split", whole, "--file", split, "--out", parts, "--force", "--quiet"])
    return parts


def work(options, settings, task):
    """The lines of one run."""
    if task["system"] == "lsparse":
        return [ours(options, settings, task)]
    return theirs(options, task)


def ours(options, settings, task):
    """Scores and CPU seconds of training after every lap."""
    parts = corpora(options, task["corpus"])
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "trace.jsonl"
        command = [options.lsparse, "fit", "topics", parts / "train", "-k", task["topics"], "--seed", task["seed"]]
        command += ["--threads", 1, "--quiet", "--json", "--heldout", parts / task["part"], "--trace", trace]
        try:
            report = json.loads(rivals.run([*command, *RUNS[task["run"]], *settings])[0])
        except rivals.Failed as error:
            return task | {"error": str(error)}
        lines = [json.loads(line) for line in trace.read_text().splitlines()]
        steps = [line for line in lines if line["event"] == "step"]
    laps = [(round(step["cpu_seconds"], 3), step["heldout"]) for step in steps if step.get("heldout") is not None]
    # What the run ends with may differ from its last lap, by what is done to the topics at the end.
    line = {"laps": laps, "score": report["heldout"], "seconds": laps[-1][0], "stopped_by": report["stopped_by"]}
    return task | line | {"empty": report["empty_topics"], "active": report["active_topics"]}


RUNS = {
    "default": [],
    "long": ["--laps", 30, "--tolerance", "none"],
    "memoized": ["--laps", 20, "--tolerance", "none"],
    "stochastic": ["--laps", 20, "--tolerance", "none", "--schedule", "stochastic"],
}


def theirs(options, task):
    """tomotopy's scores at the times asked for; snapshots are scored at once and not kept."""
    corpus, program = options.data / "text" / task["corpus"], Path(__file__).with_name("topics.py")
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, program, corpus, task["system"], "-k", task["topics"], "--seed", task["seed"]]
        command += ["--times", ",".join(map(str, options.times)), "--out", folder]
        peer = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, text=True)
        for text in peer.stdout:
            snapshot = json.loads(text)
            score = [options.scorer, "score", corpus, snapshot["file"], "--part", task["part"], "--threads", 1]
            scores = {"score": score}
            if "alpha_file" in snapshot:
                scores["own_score"] = [*score, "--alpha-file", snapshot["alpha_file"]]
            scores = {name: json.loads(rivals.run(command)[0])["score"] for name, command in scores.items()}
            for name in ("file", "alpha_file"):
                if name in snapshot:
                    Path(snapshot[name]).unlink()
            known = {name: snapshot[name] for name in ("asked", "seconds", "steps", "alpha") if name in snapshot}
            lines.append(task | known | scores)
        if peer.wait() != 0:
            lines.append(task | {"error": f"{task['system']} ended with {peer.returncode}"})
    return lines


def tasks_of(options, settings, known):
    """Every run that is asked for, the longest first."""
    tasks = []
    for corpus in options.only:
        task = {"corpus": corpus, "part": options.part}
        for system in filter(None, options.rivals):
            for seed in options.rival_seeds:
                tasks.append(task | {"system": system, "topics": options.topics, "seed": seed})
        task |= {"system": "lsparse", "settings": " ".join(settings)}
        for seed in options.seeds:
            if "default" in options.runs:
                tasks.append(task | {"topics": options.topics, "seed": seed, "run": "default"})
            for run in ("memoized", "stochastic") if "schedules" in options.runs else ():
                tasks.append(task | {"topics": 100, "seed": seed, "run": run})
        for topics in options.long if "long" in options.runs else ():
            tasks.append(task | {"topics": topics, "seed": options.seeds[0], "run": "long"})
    size = {corpus: sum(f.stat().st_size for f in corpora(options, corpus).rglob("*.npy")) for corpus in options.only}
    missing = lambda task: any(known.find(task | {"asked": float(time)}) is None for time in options.times)
    fresh = [task for task in tasks if task["system"] == "lsparse" or missing(task)]
    length = lambda task: (task["system"] != "lsparse", task["topics"] * size[task["corpus"]], task.get("run", ""))
    return tasks, sorted(fresh, key=length, reverse=True)


class Report:
    """The tables, and what holds of what should."""

    def __init__(self, options, settings, known):
        self.options, self.settings, self.known = options, " ".join(settings), known
        self.verdicts = []

    def find(self, system, corpus, topics, seed, **more):
        settings = {"settings": self.settings} if system == "lsparse" else {}
        task = {"system": system, "corpus": corpus, "topics": topics, "seed": seed, "part": self.options.part}
        line = self.known.find(task | settings | more)
        return line if line and "error" not in line else None

    def ours(self, corpus, topics, run, seeds=None):
        found = (self.find("lsparse", corpus, topics, seed, run=run) for seed in seeds or self.options.seeds)
        return [line for line in found if line]

    def theirs(self, system, corpus, time):
        """The mean score at a time, with the symmetric and with its own alpha: for matched priors these are one."""
        seeds = self.options.rival_seeds
        found = [self.find(system, corpus, self.options.topics, seed, asked=float(time)) for seed in seeds]
        found = [line for line in found if line]
        if not found:
            return {}
        names = ("score", "own_score") if "own_score" in found[0] else ("score",)
        return {name: float(np.mean([line[name] for line in found])) for name in names}

    def say(self, holds, text):
        self.verdicts.append(holds)
        print(f"- {'holds' if holds else '**fails**'}: {text}")

    def scores(self):
        options = self.options
        head = ["corpus"]
        for system, column in zip(RIVALS, ("tomotopy", "tomotopy, same priors")):
            head += [f"{column} {time} s" for time in options.times if system in options.rivals]
        rows = []
        for corpus in options.only:
            row = [corpus]
            for system in (name for name in RIVALS if name in options.rivals):
                for time in options.times:
                    found = self.theirs(system, corpus, time)
                    row.append(" / ".join(f"{found[name]:.4f}" for name in ("own_score", "score") if name in found))
            runs = self.ours(corpus, options.topics, "default")
            for cell in self.over_time(runs):
                row.append(cell)
            rows.append(row)
        print(f"K = {options.topics}; tomotopy's scores are with its own alpha / with a symmetric one\n")
        rivals.table([*head, "lsparse: first lap", "lap 5", "at rest, mean", "range", "empty topics"], rows)
        print()

    @staticmethod
    def over_time(runs):
        if not runs:
            return [""] * 5
        mean = lambda values: float(np.mean(list(values)))

        def lap(n):
            reached = [run["laps"][min(n, len(run["laps"])) - 1] for run in runs]
            return f"{mean(r[1] for r in reached):.4f} ({mean(r[0] for r in reached):.1f} s)"

        ends = [run["score"] for run in runs]
        seconds, laps = mean(run["seconds"] for run in runs), mean(len(run["laps"]) for run in runs)
        rest, between = f"{mean(ends):.4f} ({seconds:.1f} s, {laps:.0f} laps)", f"{min(ends):.4f} to {max(ends):.4f}"
        return [lap(1), lap(5), rest, between, f"{mean(run['empty'] for run in runs):.0f}"]

    def compare(self):
        """At least tomotopy's score after its first time in a tenth of it, and at rest that after its last."""
        options = self.options
        for corpus in options.only:
            runs = self.ours(corpus, options.topics, "default")
            for system in (name for name in options.rivals if name):
                first, last = (self.theirs(system, corpus, time) for time in (options.times[0], options.times[-1]))
                if not (runs and first and last):
                    continue
                bar, when = max(first.values()), SHARE * options.times[0]
                soon = [([-np.inf] + [score for t, score in run["laps"] if t <= when])[-1] for run in runs]
                reached = [next((t for t, score in run["laps"] if score >= bar), None) for run in runs]
                times = ", ".join("never" if t is None else f"{t:.1f} s" for t in reached)
                text = f"{corpus}: {system} after {options.times[0]} s {bar:.4f}, lsparse within {when:g} s"
                self.say(np.mean(soon) >= bar, f"{text} {np.mean(soon):.4f} (reached after {times})")
                rest, bar = np.mean([run["score"] for run in runs]), max(last.values())
                text = f"{corpus}: {system} after {options.times[-1]} s {bar:.4f}, lsparse at rest"
                self.say(rest >= bar, f"{text} {rest:.4f} ({rest - bar:+.4f})")

    def falls(self):
        for corpus in self.options.only:
            for topics in self.options.long:
                for run in self.ours(corpus, topics, "long", self.options.seeds[:1]):
                    scores = np.array([score for _, score in run["laps"]])
                    fall = float((np.maximum.accumulate(scores) - scores).max())
                    text = f"{corpus}: K = {topics}, {len(scores)} laps in {run['seconds']:.0f} s"
                    text += f", best {scores.max():.4f}, last {scores[-1]:.4f}"
                    self.say(fall <= FALL, f"{text}, largest fall from the best {fall:.4f}")

    def schedules(self):
        for corpus in self.options.only:
            runs = {name: self.ours(corpus, 100, name) for name in ("memoized", "stochastic")}
            if all(runs.values()):
                score = {name: float(np.mean([run["score"] for run in found])) for name, found in runs.items()}
                text = f"memoized {score['memoized']:.4f}, stochastic {score['stochastic']:.4f}"
                self.say(score["memoized"] >= score["stochastic"], f"{corpus}: K = 100, 20 laps: {text}")


def named(line):
    what = f"at {line['asked']:g} s" if "asked" in line else line.get("run", "")
    return f"{line['system']} {line['corpus']} K = {line['topics']} seed {line['seed']} {what}"


def main():
    options, settings = parse(sys.argv[1:])
    known = rivals.Results(options.out / "rivals-topics.jsonl", KEY)
    tasks, fresh = tasks_of(options, settings, known)

    def done(lines):
        for line in lines:
            known.add(line)
            told = line.get("error") or f"{line.get('own_score', line['score']):.4f} in {line['seconds']:.1f} s"
            print(f"{named(line)}: {told}", file=sys.stderr, flush=True)

    rivals.each(partial(work, options, settings), fresh, options.jobs, done)
    report = Report(options, settings, known)
    report.scores()
    report.compare()
    if "long" in options.runs:
        report.falls()
    if "schedules" in options.runs:
        report.schedules()
    for task in tasks:
        line = known.find(task)
        if line and "error" in line:
            print(f"failed: {named(line)}: {line['error']}")
    print(f"\n{sum(map(bool, report.verdicts))} of {len(report.verdicts)} lines hold")


if __name__ == "__main__":
    main()
