"""Planted chains of every kind fitted by lsparse and by hmmlearn, each at its defaults: held-out log likelihood a step.

`cargo xtask bench chains` runs it: chains.py LSPARSE [FILTER]. hmmlearn has the best of five seeds by its own training score,
with ten iterations (its default) and with 200; lsparse is fitted once. The truth is the chain that rows were drawn from.
"""

import json
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from hmmlearn import hmm
from scipy.special import gammaln

LSPARSE, FILTER = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else ""
SEEDS, TRIALS = 5, 20
ROOM = Path(tempfile.mkdtemp())


def transitions(rng, states, shape):
    """Chains that stay, that move on in a few ways, and that move anyhow."""
    if shape == "sticky":
        return 0.9 * np.eye(states) + 0.1 * rng.dirichlet(np.ones(states), states)
    if shape == "sparse":
        return 0.02 / states + 0.98 * rng.dirichlet(np.full(states, 0.3), states)
    return rng.dirichlet(np.ones(states), states)


def truth(kind, states, columns, shape, rng):
    """A chain as hmmlearn has it, with the parameters that it is to be recovered by."""
    if kind == "categorical":
        model = hmm.CategoricalHMM(states)
        model.emissionprob_, model.n_features = rng.dirichlet(np.full(columns, 0.5), states), columns
    elif kind == "multinomial":
        model = hmm.MultinomialHMM(states, n_trials=TRIALS)
        model.emissionprob_, model.n_features = rng.dirichlet(np.full(columns, 2.0), states), columns
    elif kind == "poisson":
        model = hmm.PoissonHMM(states)
        model.lambdas_, model.n_features = rng.gamma(2.0, 2.0, (states, columns)), columns
    elif kind == "bernoulli":
        # hmmlearn has none: the density is written below.
        model = hmm.CategoricalHMM(states)
        model.probabilities = rng.beta(0.7, 0.7, (states, columns))
    else:
        model = hmm.GaussianHMM(states, covariance_type=kind)
        model.means_, model.n_features = rng.normal(0, 1.5, (states, columns)), columns
        spread = rng.gamma(3.0, 1 / 3, (states, columns))
        model.covars_ = spread if kind == "diag" else spread[:, :, None] * np.eye(columns)
    model.startprob_, model.transmat_ = np.full(states, 1 / states), transitions(rng, states, shape)
    return model


def draw(kind, model, lengths, rng):
    rows = []
    for length in lengths:
        state = rng.choice(len(model.startprob_), p=model.startprob_)
        for _ in range(length):
            if kind == "categorical":
                rows.append([rng.choice(model.emissionprob_.shape[1], p=model.emissionprob_[state])])
            elif kind == "multinomial":
                rows.append(rng.multinomial(TRIALS, model.emissionprob_[state]))
            elif kind == "poisson":
                rows.append(rng.poisson(model.lambdas_[state]))
            elif kind == "bernoulli":
                rows.append((rng.random(model.probabilities.shape[1]) < model.probabilities[state]).astype(int))
            else:
                covariance = model.covars_[state]
                rows.append(rng.normal(model.means_[state], np.sqrt(np.diag(covariance))))
            state = rng.choice(len(model.startprob_), p=model.transmat_[state])
    return np.array(rows)


def score(kind, model, rows, lengths):
    """Log likelihood a step; orders of counts are not counted."""
    if kind == "bernoulli":
        p = model.probabilities
        log_lik = rows @ np.log(p).T + (1 - rows) @ np.log1p(-p).T
        total, first = 0.0, 0
        for length in lengths:
            share = model.startprob_
            for row in log_lik[first : first + length]:
                most = row.max()
                share = share * np.exp(row - most)
                total += most + np.log(share.sum())
                share = share / share.sum() @ model.transmat_
            first += length
        return total / len(rows)
    orders = (gammaln(TRIALS + 1) - gammaln(rows + 1).sum(axis=1)).sum() if kind == "multinomial" else 0.0
    return (model.score(rows, lengths) - orders) / len(rows)


def theirs(kind, states, rows, held, lengths, iterations):
    best = (-np.inf, None)
    begun = time.process_time()
    for seed in range(SEEDS):
        shared = {"n_components": states, "random_state": seed, "n_iter": iterations}
        model = {
            "categorical": lambda: hmm.CategoricalHMM(**shared),
            "multinomial": lambda: hmm.MultinomialHMM(n_trials=TRIALS, **shared),
            "poisson": lambda: hmm.PoissonHMM(**shared),
        }.get(kind, lambda: hmm.GaussianHMM(covariance_type=kind, **shared))()
        try:
            model.fit(rows, lengths)
            best = max(best, (model.score(rows, lengths), score(kind, model, held, lengths)), key=lambda pair: pair[0])
        except ValueError:  # a symbol that is not there, a covariance that is none
            pass
    return best[1], (time.process_time() - begun) / SEEDS


def write(path, kind, rows, columns):
    if kind == "categorical":
        rows = np.eye(columns)[rows[:, 0]]
    if kind in ("categorical", "multinomial"):
        sp.save_npz(path.with_suffix(".npz"), sp.csr_matrix(rows.astype(float)))
        return path.with_suffix(".npz")
    np.save(path.with_suffix(".npy"), rows.astype(float))
    return path.with_suffix(".npy")


def ours(kind, states, rows, held, lengths, columns, more=()):
    data, other = write(ROOM / "rows", kind, rows, columns), write(ROOM / "held", kind, held, columns)
    np.savetxt(ROOM / "lengths.txt", lengths, fmt="%d")
    likelihood = {"categorical": "multinomial", "full": "gauss", "diag": "diag-gauss"}.get(kind, kind)
    command = [LSPARSE, "fit", "sequence", data, "--groups", ROOM / "lengths.txt", "-k", states, "--likelihood", likelihood]
    command += ["--heldout", other, "--heldout-groups", ROOM / "lengths.txt", "--heldout-every", 1000, "--threads", 1]
    command += ["--json", "--quiet", *more]
    report = json.loads(subprocess.run(list(map(str, command)), check=True, capture_output=True, text=True).stdout)
    # hmmlearn counts the factorials of Poisson counts as lsparse does; multinomial rows have none.
    return report["heldout"], report.get("cpu_seconds", float("nan")), report["laps"]


def main():
    warnings.simplefilter("ignore")
    import logging

    logging.getLogger("hmmlearn").setLevel(logging.CRITICAL)
    cases = [
        (kind, states, columns, shape)
        for kind, sizes in {
            "categorical": [(2, 4), (4, 8), (8, 30), (20, 100)],
            "multinomial": [(3, 6), (8, 20)],
            "poisson": [(3, 2), (8, 4)],
            "bernoulli": [(3, 6), (8, 12)],
            "diag": [(3, 2), (8, 3), (20, 8)],
            "full": [(3, 2), (8, 3)],
        }.items()
        for states, columns in sizes
        for shape in ("sticky", "sparse", "any")
    ]
    below = 0
    for kind, states, columns, shape in cases:
        name = f"{kind} K={states} D={columns} {shape}"
        if FILTER not in name:
            continue
        rng = np.random.default_rng(states * 1000 + columns)
        model = truth(kind, states, columns, shape, rng)
        lengths = [200] * 20
        rows, held = draw(kind, model, lengths, rng), draw(kind, model, lengths, rng)
        best = score(kind, model, held, lengths)
        found, seconds, laps = ours(kind, states, rows, held, lengths, columns, sys.argv[3:])
        line = {"case": name, "truth": best, "lsparse": found, "lsparse_cpu_s": seconds, "laps": laps}
        if kind != "bernoulli":
            for iterations in (10, 200):
                line[f"hmmlearn_{iterations}"], line[f"hmmlearn_{iterations}_cpu_s"] = theirs(
                    kind, states, rows, held, lengths, iterations
                )
            line["gain"], line["gain_200"] = found - line["hmmlearn_10"], found - line["hmmlearn_200"]
            below += line["gain"] < 0
        print(json.dumps({key: round(value, 4) if isinstance(value, float) else value for key, value in line.items()}), flush=True)
    print(f"{below} cases below hmmlearn at its defaults")


main()
