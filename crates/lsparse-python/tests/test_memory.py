"""Arrays are read where they are, and memory maps stay on disk."""

import subprocess
import sys

import numpy as np
import pytest

#: Fits in a process of its own, and prints by how many MB its own memory (not that of files) grew at most.
PROGRAM = """
import sys, threading, time
import numpy as np, scipy.sparse as sp
from lsparse import GaussianMixture, MultinomialMixture, BernoulliMixture, TopicModel

def own_memory():
    for line in open("/proc/self/status"):
        if line.startswith("RssAnon"):
            return int(line.split()[1]) / 1024

GaussianMixture(2, max_iter=1, tol=0).fit(np.random.default_rng(0).normal(size=(1000, 4)))
kind, path = sys.argv[1:]
if kind == "memmap":
    X = np.load(path, mmap_mode="r")
    model = GaussianMixture(2, max_iter=1, tol=0, random_state=0)
elif kind == "bits":
    X = np.load(path, mmap_mode="r")
    model = BernoulliMixture(2, max_iter=1, tol=0, random_state=0)
elif kind == "array":
    X = np.ones((2_000_000, 16), dtype=np.float32)
    X[::2] = 3
    model = GaussianMixture(2, covariance_type="diag", max_iter=1, tol=0, random_state=0)
else:
    rows, width = 1_000_000, 16
    words = np.tile(np.arange(width, dtype=np.int32), rows)
    counts = np.ones(rows * width, dtype=np.int64 if kind == "csr-integers" else np.float32)
    X = sp.csr_array((counts, words, np.arange(0, rows * width + 1, width, dtype=np.int32)), shape=(rows, 16))
    model = MultinomialMixture(2, max_iter=1, tol=0, random_state=0)
before, most = own_memory(), 0.0
done = False
def watch():
    global most
    while not done:
        most = max(most, own_memory() - before)
        time.sleep(0.005)
thread = threading.Thread(target=watch, daemon=True)
thread.start()
model.fit(X)
labels = model.predict(X[:1000])
done = True
thread.join()
print(most)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is measured as Linux says it")
@pytest.mark.parametrize("kind", ["memmap", "bits", "array", "csr-floats", "csr-integers"])
def test_nothing_is_copied(kind, tmp_path):
    path = tmp_path / "x.npy"
    if kind in ("memmap", "bits"):
        on_disk = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(2_000_000, 16))
        on_disk.reshape(200, 10_000, 16)[:] = np.random.default_rng(0).normal(size=(10_000, 16))
        on_disk.flush()
        del on_disk
    done = subprocess.run([sys.executable, "-c", PROGRAM, kind, str(path)], capture_output=True, text=True, cwd=tmp_path, timeout=200)
    assert done.returncode == 0, done.stderr
    # The data has 128 MB or more (counts as 64-bit integers, with their columns: 192 MB).
    assert float(done.stdout) < 60, f"memory grew by {done.stdout} MB"
