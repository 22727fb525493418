"""What importing the package takes."""

import subprocess
import sys

PROGRAM = """
import sys, time
import sklearn.base, sklearn.decomposition, sklearn.mixture
before = time.process_time()
import lsparse
took = time.process_time() - before
print(took, *sorted({"dask", "distributed", "matplotlib", "pandas", "ray", "pyspark", "jinja2", "IPython"} & set(sys.modules)))
"""


def printed(program):
    """The words that a program prints in a process of its own."""
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()


def test_the_import_takes_little_beyond_scikit_learn_and_nothing_optional():
    # Seconds of computing, the least of three, so that other programs do not count.
    found = [printed(PROGRAM) for _ in range(3)]
    assert min(float(seconds) for seconds, *_ in found) < 0.5
    without = printed("import sklearn.mixture, sys; print(*sys.modules)")
    assert set(found[0][1:]) <= set(without), "what is optional is imported when it is used"
