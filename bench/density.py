"""Log density of rows under a mixture of lsparse in plain NumPy, from its model file alone.

Written apart from the library, to check its scores: Gaussians with the point estimates that the file holds, or, where
the file has the posterior's `degrees` and `mean_counts`, the posterior predictive, which is a Student t.
"""

import json

import numpy as np
from scipy.special import gammaln, logsumexp

TYPES = {"F64": np.float64, "F32": np.float32, "I64": np.int64, "U64": np.uint64, "U32": np.uint32, "U8": np.uint8}


def read_model(path):
    """The arrays of a safetensors file by name."""
    data = open(path, "rb").read()
    start = 8 + int.from_bytes(data[:8], "little")
    arrays = {}
    for name, entry in json.loads(data[8:start]).items():
        if name != "__metadata__":
            begin, end = entry["data_offsets"]
            values = np.frombuffer(data[start + begin : start + end], dtype=TYPES[entry["dtype"]])
            arrays[name] = values.reshape(entry["shape"])
    return arrays


def log_density(model, rows):
    """log p(x) of each row under a dictionary of arrays: weights, means, and covariances or variances."""
    rows = np.asarray(rows, dtype=np.float64)
    with np.errstate(divide="ignore"):
        terms = np.log(np.asarray(model["weights"], dtype=np.float64))[None, :].repeat(len(rows), axis=0)
    for k, mean in enumerate(np.asarray(model["means"], dtype=np.float64)):
        if terms[0, k] > -np.inf:
            terms[:, k] += log_cluster(model, k, rows - mean)
    return logsumexp(terms, axis=1)


def log_cluster(model, k, centered):
    """log F of rows from which the cluster's mean is taken."""
    dim = centered.shape[1]
    if "covariances" in model:
        # (K, D, D), or (D, D) where clusters share it.
        covariances = np.asarray(model["covariances"], dtype=np.float64).reshape(-1, dim, dim)
        factor = np.linalg.cholesky(covariances[min(k, len(covariances) - 1)])
        squares = (np.linalg.solve(factor, centered.T) ** 2).sum(axis=0)[:, None]
        log_det, width, freedom, least = 2 * np.log(np.diag(factor)).sum(), dim, 1 - dim, dim + 1
    else:
        variances = np.asarray(model["variances"], dtype=np.float64)
        if variances.ndim == 2 and variances.shape[1] == dim:
            squares = centered**2 / variances[k]
            # One density a column, of one dimension each.
            log_det, width, freedom, least = np.log(variances[k]), 1, 0, 2
        else:
            variance = variances.reshape(-1)[k]
            squares = (centered**2).sum(axis=1)[:, None] / variance
            log_det, width, freedom, least = dim * np.log(variance), dim, 0, 2
    if "degrees" not in model:
        return (-0.5 * (squares + log_det + width * np.log(2 * np.pi))).sum(axis=1)
    # The variance that the posterior expects is B / (nu - least), B the scale of the precision's posterior and nu its
    # degrees of freedom; for a matrix nu counts from dim - 1 on, which `freedom` takes off. x then is Student t of
    # nu + freedom degrees.
    nu = np.ravel(model["degrees"])[min(k, np.size(model["degrees"]) - 1)]
    shrink = 1.0
    if "mean_counts" in model:
        count = np.ravel(model["mean_counts"])[k]
        shrink = count / (count + 1)
    upper = (nu + freedom + width) / 2
    log_constant = gammaln(upper) - gammaln((nu + freedom) / 2) - width / 2 * np.log(np.pi * (nu - least) / shrink)
    return (log_constant - 0.5 * log_det - upper * np.log1p(shrink * squares / (nu - least))).sum(axis=1)
