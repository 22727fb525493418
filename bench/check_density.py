"""Check density.py: Student t densities against integrals over the precision, and against SciPy's.

Usage: python check_density.py; the exit code is 1 if they differ.
"""

import sys

import numpy as np
from scipy.integrate import quad
from scipy.stats import gamma, multivariate_normal, multivariate_t, norm

from density import log_density


def integrated(density, nu, variance):
    """The integral of density(tau) over a precision tau of nu degrees of freedom, where 1 / tau has mean variance."""
    prior = gamma(nu / 2, scale=2 / ((nu - 2) * variance))
    return quad(lambda tau: prior.pdf(tau) * density(tau), 0, np.inf, epsabs=0, epsrel=1e-10)[0]


def main():
    rng = np.random.default_rng(0)
    rows, means, weights = rng.normal(size=(5, 3)), rng.normal(size=(2, 3)), np.array([0.3, 0.7])
    nu, count = np.array([4.5, 9.0]), np.array([2.0, 30.0])
    shapes = rng.normal(size=(2, 3, 3))
    covariances = shapes @ shapes.transpose(0, 2, 1) + np.eye(3)
    variances = rng.uniform(0.5, 2, (2, 3))
    known = {"weights": weights, "means": means, "degrees": nu, "mean_counts": count}
    wide = (count + 1) / count

    def full(k, x):
        freedom = nu[k] - 2
        return multivariate_t(means[k], covariances[k] * (nu[k] - 4) * wide[k] / freedom, freedom).pdf(x)

    def diagonal(k, x):
        column = lambda d: lambda tau: norm(means[k, d], np.sqrt(wide[k] / tau)).pdf(x[d])
        return np.prod([integrated(column(d), nu[k], variances[k, d]) for d in range(3)])

    def spherical(k, x):
        together = lambda tau: multivariate_normal(means[k], np.eye(3) * wide[k] / tau).pdf(x)
        return integrated(together, nu[k], variances[k, 0])

    def plug_in(k, x):
        return multivariate_normal(means[k], covariances[k]).pdf(x)

    cases = {
        "full": (known | {"covariances": covariances}, full),
        "diagonal": (known | {"variances": variances}, diagonal),
        "spherical": (known | {"variances": variances[:, 0]}, spherical),
        "plug-in": ({"weights": weights, "means": means, "covariances": covariances}, plug_in),
    }
    worst = 0.0
    for name, (model, density) in cases.items():
        expected = np.log([sum(weights[k] * density(k, x) for k in range(2)) for x in rows])
        off = np.abs(log_density(model, rows) - expected).max()
        print(f"{name}: largest difference {off:.1e}")
        worst = max(worst, off)
    sys.exit(int(not worst < 1e-8))


if __name__ == "__main__":
    main()
