"""What the two comparisons with rivals share: programs with their CPU seconds, results kept in a file, many jobs."""

import json
import os
import subprocess
import tempfile
from concurrent.futures import ProcessPoolExecutor, as_completed

# One thread for every library that is brought along; set before any of them is loaded.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = "1"


class Failed(Exception):
    """A program ended with an error, whose last line this carries."""


def run(command):
    """What a program printed, and the CPU seconds of all of it, the reading of files included."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        child = subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=out, stderr=err)
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        if child.returncode != 0:
            lines = err.read().decode(errors="replace").strip().splitlines() or [f"exit code {child.returncode}"]
            raise Failed(" ".join(line.strip() for line in lines[:4]))
        return out.read().decode(), used.ru_utime + used.ru_stime


class Results:
    """Lines of JSON in a file, added as they come; those of rivals are found again by what they are about."""

    def __init__(self, path, key):
        self.path, self.key = path, key
        path.parent.mkdir(parents=True, exist_ok=True)
        self.known = {}
        for line in path.read_text().splitlines() if path.exists() else []:
            line = json.loads(line)
            self.known[self.of(line)] = line

    def of(self, line):
        return tuple(line.get(name) for name in self.key)

    def find(self, line):
        return self.known.get(self.of(line))

    def add(self, line):
        self.known[self.of(line)] = line
        with self.path.open("a") as file:
            file.write(json.dumps(line) + "\n")


def each(work, tasks, jobs, done):
    """Give what `work` makes of each task to `done`, as it comes; `work` runs in as many processes as asked for."""
    if jobs == 1:
        for task in tasks:
            done(work(task))
        return
    with ProcessPoolExecutor(jobs) as pool:
        for future in as_completed([pool.submit(work, task) for task in tasks]):
            done(future.result())


def names(text):
    return text.split(",")


def numbers(text):
    return [int(word) for word in text.split(",")]


def split_settings(words):
    """Options of this program, and what stands after -- for lsparse."""
    if "--" in words:
        at = words.index("--")
        return words[:at], words[at + 1 :]
    return words, []


def table(head, rows):
    """A Markdown table."""
    print("| " + " | ".join(head) + " |")
    print("|" + "---|" * len(head))
    for row in rows:
        print("| " + " | ".join(row) + " |")
