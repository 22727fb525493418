"""Training on a Dask cluster by the number of its workers, and where the time of its tasks goes.

    python bench/cluster.py [--workers 1,2,4] [--rows 160000] [--batches 16] [--laps 3] [--components 200]

Workers are processes of one thread on this machine, so ask for no more of them than it has cores. Rows are made where they
are worked on. The seconds of a lap are the mean of those after the first. The rest are shares of the time that all workers
have together, from the first batch to the last: work; gaps, in which a worker has done a batch and has not begun the next of
its round (the scheduler, and transfers that it waits for); the client, in which a round is done and the next has not begun;
and stragglers, in which a worker has nothing left of a round that is not done. Transfers may go on beside work. Models are
compared: they must have the same bytes.
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
    """Seconds of a lap and of a batch, where the workers' time goes, and a checksum of the model."""
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
        batch, shares = where_the_time_goes(batches, workers, options.batches)
        checksum = hashlib.sha256(model.model_.__reduce__()[1][0]).hexdigest()[:12]
    return (ends[-1] - ends[0]) / options.laps, batch, shares, checksum


def where_the_time_goes(tasks, workers, batches):
    """Seconds of a batch, and what share of the workers' time goes where."""
    actions = [{each["action"]: (each["start"], each["stop"]) for each in task["startstops"]} for task in tasks]
    spans = sorted((*of["compute"], task["worker"]) for of, task in zip(actions, tasks, strict=True))
    whole = workers * (max(span[1] for span in spans) - spans[0][0])
    work = sum(stop - start for start, stop, _ in spans)
    moved = sum(stop - start for of in actions for start, stop in (of.get("transfer", (0, 0)),))
    gaps = client = 0
    before = spans[0][0]
    # A round ends with its slowest batch, and none of the next has begun by then.
    for at in range(0, len(spans), batches):
        of_round = spans[at : at + batches]
        first, last = of_round[0][0], max(span[1] for span in of_round)
        client += workers * (first - before)
        for worker in {span[2] for span in of_round}:
            own = [span for span in of_round if span[2] == worker]
            gaps += own[-1][1] - first - sum(stop - start for start, stop, _ in own)
        before = last
    shares = {"work": work, "gaps": gaps, "client": client, "stragglers": whole - work - gaps - client, "transfers": moved}
    return work / len(spans), {kind: seconds / whole for kind, seconds in shares.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", default="1,2")
    parser.add_argument("--rows", type=int, default=160_000, help="rows a batch: a second of work, more or less")
    parser.add_argument("--batches", type=int, default=16)
    parser.add_argument("--laps", type=int, default=3)
    parser.add_argument("--components", type=int, default=200)
    options = parser.parse_args()
    print(f"{options.batches} batches of {options.rows} x {COLUMNS} f32, K = {options.components}, full covariances, L = 8")
    print("workers  seconds a lap  a batch  speed-up  work   gaps  client  stragglers  transfers  model")
    first = None
    for workers in map(int, options.workers.split(",")):
        seconds, batch, of, checksum = fit(workers, options)
        first = first or (seconds * workers, checksum)
        shares = f"{of['work']:4.0%}  {of['gaps']:5.1%}  {of['client']:6.1%}  {of['stragglers']:10.1%}  {of['transfers']:9.1%}"
        print(f"{workers:7}  {seconds:13.2f}  {batch:7.2f}  {first[0] / seconds:7.2f}x  {shares}  {checksum}", flush=True)
        if checksum != first[1]:
            raise SystemExit("the models differ")


if __name__ == "__main__":
    main()
