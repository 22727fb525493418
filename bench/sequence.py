"""Steps a CPU second of an EM iteration of hmmlearn on a file of rows; one JSON object on stdout.

`cargo xtask bench sequence` runs it beside lsparse: sequence.py ROWS.npy SEQUENCES K ITERATIONS
"""

import json
import sys
import time
import warnings

import numpy as np
from hmmlearn.hmm import GaussianHMM

rows, sequences, states, iterations = np.load(sys.argv[1]), *map(int, sys.argv[2:5])
lengths = [len(rows) // sequences] * sequences
rng = np.random.default_rng(0)
model = GaussianHMM(
    states, covariance_type="diag", n_iter=1, init_params="", implementation="scaling", tol=-np.inf, covars_prior=0.0
)
model.startprob_ = np.full(states, 1 / states)
model.transmat_ = rng.dirichlet(np.ones(states), states)
model.means_ = rows[rng.choice(len(rows), states, replace=False)]
model.covars_ = np.broadcast_to(rows.var(axis=0), (states, rows.shape[1])).copy()
seconds = []
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    for _ in range(iterations):
        start = time.process_time()
        model.fit(rows, lengths)
        seconds.append(time.process_time() - start)
taken = sorted(seconds)[len(seconds) // 2]
print(json.dumps({"hmmlearn": True, "states": states, "cpu_seconds": taken, "steps_per_cpu_second": len(rows) / taken}))
