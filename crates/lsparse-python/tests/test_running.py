"""While a fit runs: other threads, Ctrl-C, the progress bar."""

import io
import os
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


#: Presses Ctrl-C after a delay, and says what became of it.
INTERRUPTED = """
import sys, os, signal, threading, time
import numpy as np
import lsparse
from sklearn.model_selection import GridSearchCV

what, times, delay = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
X = np.random.default_rng(0).normal(size=(100_000, 16))
if what in ("score", "predict_proba"):
    X = np.random.default_rng(0).normal(size=(300_000, 64))
components = 400 if times > 1 else 50
model = lsparse.GaussianMixture(components, batch_size=5000, max_iter=100_000, tol=0, random_state=0, n_jobs=1)
work = {"fit": lambda: model.fit(X), "grid": lambda: GridSearchCV(model, {"sparsity": [1, 2]}, cv=2).fit(X)}
if what in ("score", "predict_proba"):
    model.set_params(n_components=100, init_params="random", max_iter=0).fit(X[:2000])
    work[what] = lambda: getattr(model, what)(X)
pressed = 0.0
def press():
    global pressed
    time.sleep(delay)
    pressed = time.perf_counter()
    for _ in range(times):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.15)
threading.Thread(target=press, daemon=True).start()
try:
    work[what]()
    print("returned")
except KeyboardInterrupt:
    print("raised")
print(time.perf_counter() - pressed)
if hasattr(model, "model_"):
    print(model.predict(X[:10]).shape, model.converged_, len(model.trace_["step"]) > 0)
"""


def interrupted(what, times=1, delay=2.0):
    run = [sys.executable, "-c", INTERRUPTED, what, str(times), str(delay)]
    done = subprocess.run(run, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.skipif(sys.platform == "win32", reason="signals are those of Unix")
def test_ctrl_c_is_raised_and_leaves_the_model_so_far():
    ending, seconds, state = interrupted("fit")
    assert ending == "raised" and float(seconds) < 10
    assert state == "(10,) False True"


@pytest.mark.skipif(sys.platform == "win32", reason="signals are those of Unix")
def test_ctrl_c_ends_a_search_and_not_one_fit_of_it():
    assert interrupted("grid")[0] == "raised"


@pytest.mark.skipif(sys.platform == "win32", reason="signals are those of Unix")
@pytest.mark.parametrize("what", ["score", "predict_proba"])
def test_ctrl_c_ends_other_work_at_once(what):
    # So many rows, columns and components take several seconds.
    ending, seconds, _ = interrupted(what, delay=0.3)
    assert ending == "raised" and float(seconds) < 2


@pytest.mark.skipif(sys.platform == "win32", reason="signals are those of Unix")
def test_ctrl_c_twice_does_not_wait_for_the_batch():
    # Seeds for so many components take longer than three presses.
    assert interrupted("fit", times=3, delay=0.3)[0] == "raised"


def test_a_callback_is_told_of_every_step_and_may_end_the_fit(blobs):
    X, _ = blobs
    told = []
    model = GaussianMixture(4, batch_size=500, max_iter=7, tol=0, random_state=0).fit(X, callback=told.append)
    assert [step["step"] for step in told] == list(model.trace_["step"]) and len(told) == 28
    assert [step["objective"] for step in told] == list(model.trace_["objective"])
    broken = GaussianMixture(4, random_state=0)
    with pytest.raises(ZeroDivisionError):
        broken.fit(X, callback=lambda step: 1 / 0)
    assert broken.predict(X).shape == (2000,), "the model is kept"

    def enough(step):
        return step["lap"] >= 2

    endless = GaussianMixture(30, batch_size=500, max_iter=10**6, tol=0, random_state=0).fit(X, callback=enough)
    assert endless.n_iter_ == 2 and len(endless.trace_["step"]) == 9 and not endless.converged_, "with the next batch"
    told = []

    def boom(step):
        told.append(step["step"])
        if len(told) == 2:
            raise RuntimeError("boom")

    with pytest.raises(RuntimeError, match="boom"):
        GaussianMixture(4, batch_size=500, max_iter=50, tol=0, random_state=0).fit(X, callback=boom)
    assert told == [1, 2], "who raises is not called again"


THREADS = """
import sys, os
import joblib, numpy as np, threadpoolctl
from lsparse._base import threads_of
print(threads_of(None), threads_of(1), threads_of(-1) >= 1)
with threadpoolctl.threadpool_limits(1):
    print(threads_of(None))
print(*joblib.Parallel(n_jobs=2)(joblib.delayed(threads_of)(None) for _ in range(2)))
print(*joblib.Parallel(n_jobs=2, backend="threading")(joblib.delayed(threads_of)(None) for _ in range(2)))
"""


def test_threads_are_as_many_as_others_allow():
    cores = len(os.sched_getaffinity(0))

    def run(**variables):
        environment = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"} | variables
        done = subprocess.run([sys.executable, "-c", THREADS], capture_output=True, text=True, env=environment, check=True)
        return done.stdout.splitlines()

    alone, limited, processes, threads = run()
    assert alone == f"{cores} 1 True" and limited == "1" and threads == "1 1"
    assert processes == " ".join([str(max(1, cores // 2))] * 2)
    assert run(OMP_NUM_THREADS="1")[0] == "1 1 True"
    assert run(LOKY_MAX_CPU_COUNT="1")[0].startswith("1 ")


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
