"""One EM iteration of zero-mean Gaussians in PyTorch on a GPU, as one would write it: all weights, the L largest, statistics.

usage: cuda_torch.py ROWS.npy K [REPEATS]
"""

import json
import sys
import time

import numpy as np
import torch

SPARSITY = 8
CHUNK = 16384


def lap(x: torch.Tensor, factors: torch.Tensor, constants: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Counts and second moments of all clusters."""
    clusters, dim = factors.shape[0], x.shape[1]
    wide = factors.reshape(clusters * dim, dim).T.contiguous()
    counts = torch.zeros(clusters, dtype=torch.float64, device=x.device)
    second = torch.zeros(clusters, dim * dim, dtype=torch.float32, device=x.device)
    for rows in x.split(CHUNK):
        forms = (rows @ wide).reshape(len(rows), clusters, dim).square().sum(-1)
        top = torch.topk(constants - 0.5 * forms, SPARSITY)
        shares = torch.zeros_like(forms).scatter_(1, top.indices, torch.softmax(top.values, 1))
        counts += shares.sum(0, dtype=torch.float64)
        second += shares.T @ (rows[:, :, None] * rows[:, None, :]).reshape(len(rows), dim * dim)
    return counts, second


def main() -> None:
    path, clusters, repeats = sys.argv[1], int(sys.argv[2]), int((sys.argv + ["2"])[3])
    x = torch.from_numpy(np.load(path)).to("cuda", torch.float32)
    generator = torch.Generator("cuda").manual_seed(0)
    noise = torch.randn(clusters, x.shape[1], x.shape[1], generator=generator, device="cuda").tril() * 0.1
    factors = noise + 3.0 * torch.eye(x.shape[1], device="cuda")
    constants = torch.zeros(clusters, device="cuda")
    seconds = []
    for _ in range(repeats + 1):
        torch.cuda.synchronize()
        start = time.perf_counter()
        lap(x, factors, constants)
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - start)
    print(json.dumps({"torch": torch.__version__, "clusters": clusters, "rows": len(x), "seconds": min(seconds[1:])}))


main()
