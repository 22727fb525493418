"""Time one EM iteration of scikit-learn's GaussianMixture on a file of rows; one JSON object on stdout.

Usage: python mixture.py ROWS.npy [CLUSTERS] [REPEATS]
"""

import json
import sys
import time
import warnings

import numpy as np
from sklearn.mixture import GaussianMixture


def main():
    rows = np.load(sys.argv[1])
    clusters = int(sys.argv[2]) if len(sys.argv) > 2 else 200
    repeats = int(sys.argv[3]) if len(sys.argv) > 3 else 3
    warnings.filterwarnings("ignore")
    model = GaussianMixture(
        clusters, covariance_type="full", init_params="random_from_data", max_iter=1, reg_covar=1e-4, random_state=0
    ).fit(rows)
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        _, log_resp = model._e_step(rows)
        middle = time.perf_counter()
        model._m_step(rows, log_resp)
        end = time.perf_counter()
        times.append((end - start, middle - start, end - middle))
    total, e_step, m_step = sorted(times)[len(times) // 2]
    print(
        json.dumps(
            {
                "what": "scikit-learn EM iteration",
                "type": {"float32": "f32", "float64": "f64"}[rows.dtype.name],
                "rows": len(rows),
                "clusters": clusters,
                "seconds": total,
                "e_step_seconds": e_step,
                "m_step_seconds": m_step,
            }
        )
    )


if __name__ == "__main__":
    main()
