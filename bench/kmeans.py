"""Time one Lloyd iteration of lsparse, faiss and scikit-learn on a file of rows, one thread; JSON objects on stdout.

A lap is a tenth of the difference between the CPU times of 12 and of 2 iterations, each the best of three.
For lsparse, a process of its own, that includes reading the file in every lap.

Usage: python kmeans.py ROWS.npy LSPARSE [CLUSTERS]
"""

import json
import resource
import subprocess
import sys
import time
import warnings

import faiss
import numpy as np
from sklearn.cluster import KMeans


def lsparse(program, file, clusters, schedule):
    def run(iterations):
        line = [program, "fit", "mixture", file, "--method", "kmeans", "-k", str(clusters), "--threads", "1"]
        line += ["--init", "kmeans", "--init-lloyd", "1", "--init-rows", "10000", "--schedule", schedule]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([*line, "--laps", str(iterations), "--tolerance", "none", "--quiet"], check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    return run


def scikit_learn(rows, init):
    def run(iterations):
        model = KMeans(len(init), algorithm="lloyd", n_init=1, init=init, max_iter=iterations, tol=0)
        start = time.process_time()
        model.fit(rows)
        return time.process_time() - start

    return run


def faiss_kmeans(rows, init):
    def run(iterations):
        # All rows, as the others have them: by default faiss takes 256 a centre.
        model = faiss.Kmeans(rows.shape[1], len(init), niter=iterations, max_points_per_centroid=len(rows))
        start = time.process_time()
        model.train(rows, init_centroids=init)
        return time.process_time() - start

    return run


def main():
    file, program = sys.argv[1:3]
    clusters = int(sys.argv[3]) if len(sys.argv) > 3 else 200
    rows = np.load(file)
    warnings.filterwarnings("ignore")
    faiss.omp_set_num_threads(1)
    init = rows[np.random.default_rng(0).choice(len(rows), clusters, replace=False)].copy()
    systems = {
        "lsparse, full batch": lsparse(program, file, clusters, "full"),
        "lsparse, memoized": lsparse(program, file, clusters, "memoized"),
        "scikit-learn": scikit_learn(rows, init),
    }
    if rows.dtype == np.float32:
        systems["faiss"] = faiss_kmeans(rows, init)
    times = {name: ([], []) for name in systems}
    for _ in range(3):
        for name, run in systems.items():
            for some, iterations in zip(times[name], (2, 12)):
                some.append(run(iterations))
    ours = None
    for name, (few, many) in times.items():
        lap = (min(many) - min(few)) / 10
        ours = lap if ours is None else ours
        line = {"what": name, "rows": len(rows), "columns": rows.shape[1], "clusters": clusters, "type": str(rows.dtype)}
        print(json.dumps({**line, "lap_seconds": round(lap, 4), "ratio": round(lap / ours, 2)}))


if __name__ == "__main__":
    main()
