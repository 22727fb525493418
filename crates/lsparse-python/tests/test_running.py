"""While a fit runs: other threads, Ctrl-C, the progress bar."""

import io
import re
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from lsparse import GaussianMixture
from lsparse._progress import Progress


def test_other_threads_run_meanwhile():
    X = np.random.default_rng(0).normal(size=(60_000, 16))
    ticks, done = [], threading.Event()

    def count():
        while not done.is_set():
            ticks.append(time.perf_counter())
            time.sleep(0.001)

    thread = threading.Thread(target=count)
    thread.start()
    start = time.perf_counter()
    GaussianMixture(50, max_iter=10, tol=0, random_state=0, n_jobs=1).fit(X)
    end = time.perf_counter()
    done.set()
    thread.join()
    during = np.array([t for t in ticks if start < t < end])
    assert len(during) > 10
    assert np.diff(during).max() < max(0.25, 0.5 * (end - start)), "the interpreter was held"


INTERRUPTED = """
import sys, os, signal, threading, time, warnings
import numpy as np
import lsparse
from sklearn.utils.validation import check_is_fitted

times, components, delay = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[4])
X = np.random.default_rng(0).normal(size=(100_000, 16))
model = lsparse.GaussianMixture(components, batch_size=5000, max_iter=100_000, tol=0, random_state=0, n_jobs=1)
def press():
    time.sleep(delay)
    for _ in range(times):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.15)
threading.Thread(target=press, daemon=True).start()
if sys.argv[3] == "error":
    warnings.simplefilter("error", lsparse.InterruptedWarning)
start = time.perf_counter()
with warnings.catch_warnings(record=sys.argv[3] != "error") as caught:
    if sys.argv[3] != "error":
        warnings.simplefilter("always")
    try:
        model.fit(X)
        print("returned")
    except KeyboardInterrupt:
        print("raised")
    except lsparse.InterruptedWarning:
        print("warned")
print(time.perf_counter() - start)
print([str(w.message) for w in caught or []])
if hasattr(model, "model_"):
    print(model.predict(X[:10]).shape, model.converged_, len(model.trace_["step"]) > 0)
"""


def interrupted(times, components, how, delay):
    run = [sys.executable, "-c", INTERRUPTED, str(times), str(components), how, str(delay)]
    done = subprocess.run(run, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.skipif(sys.platform == "win32", reason="signals are those of Unix")
def test_ctrl_c_leaves_the_model_so_far():
    ending, seconds, warned, state = interrupted(1, 50, "warn", 2.0)
    assert ending == "returned"
    assert float(seconds) < 10
    assert re.search(r"GaussianMixture was interrupted after \d+ batches; it holds the model so far", warned)
    assert state == "(10,) False True"
    ending, _, _, state = interrupted(1, 50, "error", 2.0)
    assert ending == "warned" and state == "(10,) False True"


@pytest.mark.skipif(sys.platform == "win32", reason="signals are those of Unix")
def test_ctrl_c_twice_is_raised():
    # Seeds for so many components take longer than three presses.
    assert interrupted(3, 400, "warn", 0.3)[0] == "raised"


def test_progress_bar(capsys):
    X = np.random.default_rng(0).normal(size=(500, 2))
    GaussianMixture(3, max_iter=4, tol=0, verbose=1, n_init=2, random_state=0).fit(X)
    shown = capsys.readouterr().err
    assert "\rrun" not in shown and "\r[" in shown
    assert "run 2 of 2, lap 4.0 of at most 4" in shown and shown.endswith("stopped: 4 laps are done\n")
    stream = io.StringIO()
    bar = Progress(10, 1, stream)
    bar(0, 5.0, 1.25, -123.456789)
    bar(0, 10.0, 2.5, -1.0)
    assert stream.getvalue().split("\r")[1] == "[############............] lap 5.0 of at most 10, 1.2 s, objective -123.457"
    assert "[########################]" in stream.getvalue()
