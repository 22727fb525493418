"""Training on a Dask cluster by the number of its workers, and where the time of its tasks goes.

    python bench/cluster.py [--workers 1,2,4] [--rows 160000] [--batches 16] [--laps 3] [--components 200]

Workers are processes of one thread on this machine, so ask for no more of them than it has cores. Rows are made where they
are worked on. The seconds of a lap are the mean of those after the first; work, transfers and waiting (for the slowest batch
of a round, the client and the scheduler) are shares of the time that all workers have together, from the first batch to the
last. Models are compared: they must have the same bytes.
"""

import argparse
import hashlib

import dask
import lsparse.dask
import numpy as np
from dask.distributed import Client, LocalCluster, get_task_stream

COLUMNS = 32


def rows(count, seed):
    """Rows of overlapping Gaussians."""
    rng = np.random.default_rng(0)
    means = rng.normal(0, 2.5, (50, COLUMNS))
    rng = np.random.default_rng(seed)
    return (means[rng.integers(50, size=count)] + rng.normal(size=(count, COLUMNS))).astype(np.float32)


def fit(workers, options):
    """Seconds of a lap, shares of work and transfers, and a checksum of the model."""
    cluster = LocalCluster(n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=":0")
    with cluster, Client(cluster) as client:
        parts = client.compute([dask.delayed(rows)(options.rows, seed) for seed in range(options.batches)])
        model = lsparse.dask.GaussianMixture(
            options.components, sparsity=8, max_iter=options.laps + 1, tol=0, random_state=0,
            batches_per_round=options.batches, device="cpu",
        )
        with get_task_stream(client) as stream:
            model.fit(parts, client=client)
        ends = [s for s, lap in zip(model.trace_["seconds"], model.trace_["lap"], strict=True) if lap == int(lap)]
        batches = [task for task in stream.data if str(task["key"]).startswith("lsparse-batch")]
        spans = [(each["action"], each["start"], each["stop"]) for task in batches for each in task["startstops"]]
        whole = workers * (max(stop for _, _, stop in spans) - min(start for _, start, _ in spans))
        work, transfers = (
            sum(stop - start for action, start, stop in spans if action == kind) / whole for kind in ("compute", "transfer")
        )
        checksum = hashlib.sha256(model.model_.__reduce__()[1][0]).hexdigest()[:12]
        batch = work * whole / len(batches)
    return (ends[-1] - ends[0]) / options.laps, batch, work, transfers, checksum


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", default="1,2")
    parser.add_argument("--rows", type=int, default=160_000, help="rows a batch: a second of work, more or less")
    parser.add_argument("--batches", type=int, default=16)
    parser.add_argument("--laps", type=int, default=3)
    parser.add_argument("--components", type=int, default=200)
    options = parser.parse_args()
    print(f"{options.batches} batches of {options.rows} x {COLUMNS} f32, K = {options.components}, full covariances, L = 8")
    print("workers  seconds a lap  a batch  speed-up  work  transfers  waiting  model")
    first = None
    for workers in map(int, options.workers.split(",")):
        seconds, batch, work, transfers, checksum = fit(workers, options)
        first = first or (seconds * workers, checksum)
        shares = f"{work:4.0%}  {transfers:9.1%}  {1 - work - transfers:7.1%}"
        print(f"{workers:7}  {seconds:13.2f}  {batch:7.2f}  {first[0] / seconds:7.2f}x  {shares}  {checksum}", flush=True)
        if checksum != first[1]:
            raise SystemExit("the models differ")


if __name__ == "__main__":
    main()
