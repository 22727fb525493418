//! What the two full-covariance families share: the Wishart normaliser, its expectations, and K precision factors.

use lsparse_kernels::{Real, TriangularPack, digamma, ln_gamma};
use rayon::prelude::*;

use super::{Estimate, Prior};
use crate::error::{Error, Result};
use crate::linalg;

/// log normaliser of the Wishart: -nu D/2 log 2 - log G_D(nu/2) + nu/2 log |B|, with B the inverse scale.
pub fn ln_wishart(nu: f64, log_det_b: f64, dim: usize) -> f64 {
    let d = dim as f64;
    let ln_gamma_d = 0.25 * d * (d - 1.0) * std::f64::consts::PI.ln()
        + (0..dim).map(|i| ln_gamma(0.5 * (nu - i as f64))).sum::<f64>();
    -0.5 * nu * d * std::f64::consts::LN_2 - ln_gamma_d + 0.5 * nu * log_det_b
}

/// E[log |Phi|] under a Wishart with `nu` degrees of freedom and inverse scale B.
pub fn expected_log_det(nu: f64, log_det_b: f64, dim: usize) -> f64 {
    (0..dim).map(|i| digamma(0.5 * (nu - i as f64))).sum::<f64>() + dim as f64 * std::f64::consts::LN_2 - log_det_b
}

/// The Wishart prior on a precision matrix, with B = b I.
#[derive(Clone, Debug)]
pub struct WishartPrior {
    pub dim: usize,
    pub nu: f64,
    /// B = b I, chosen so that the prior expectation of the covariance is the prior's variance times I.
    pub b: f64,
    pub variance_floor: f64,
}

impl WishartPrior {
    pub fn new(prior: &Prior) -> Self {
        let nu = prior.nu.max(prior.dim as f64 + 2.0);
        let b = prior.variance * (nu - prior.dim as f64 - 1.0);
        WishartPrior { dim: prior.dim, nu, b, variance_floor: prior.variance_floor }
    }

    pub fn log_det_b(&self) -> f64 {
        self.dim as f64 * self.b.ln()
    }

    /// nu' of the MAP covariance (S + B) / (N + nu').
    pub fn map_count(&self) -> f64 {
        self.nu - self.dim as f64
    }
}

/// One cluster's precision: Phi = M^T M (point estimates) or E[Phi] = M^T M (posterior).
#[derive(Clone)]
pub struct Precision {
    /// Lower-triangular M, row-major.
    pub factor: Vec<f64>,
    /// log |Phi| or E[log |Phi|].
    pub log_det: f64,
    /// Posterior degrees of freedom; unused by point estimates.
    pub nu: f64,
    /// log |B| of the posterior; unused by point estimates.
    pub log_det_b: f64,
    /// tr(M (S [+ B]) M^T) for the statistics it was estimated from, known in closed form unless it was clipped.
    pub own_trace: f64,
}

impl Precision {
    /// From a scatter matrix (row-major, S about the cluster's mean) and count. `None` for an empty cluster under
    /// maximum likelihood, which has no estimate of its own.
    pub fn estimate(
        prior: &WishartPrior,
        estimate: Estimate,
        cluster: usize,
        count: f64,
        mut scatter: Vec<f64>,
    ) -> Result<Option<Self>> {
        let dim = prior.dim;
        match estimate {
            Estimate::Posterior => {
                add_diagonal(&mut scatter, dim, prior.b);
                Ok(Some(Self::posterior(cluster, prior.nu + count, scatter, dim)?))
            }
            Estimate::Map => {
                add_diagonal(&mut scatter, dim, prior.b);
                let total = count + prior.map_count();
                scatter.iter_mut().for_each(|v| *v /= total);
                let own_trace = total * dim as f64;
                Ok(Some(Precision { own_trace, ..Self::from_covariance(cluster, scatter, dim)? }))
            }
            Estimate::MaxLikelihood => {
                if count <= 0.0 {
                    return Ok(None);
                }
                let mut covariance: Vec<f64> = scatter.iter().map(|v| v / count).collect();
                let clipped = linalg::clip_eigenvalues(&mut covariance, dim, prior.variance_floor);
                let precision = Self::from_covariance(cluster, covariance, dim)?;
                let own_trace =
                    if clipped { linalg::trace_of_form(&precision.factor, &scatter, dim) } else { count * dim as f64 };
                Ok(Some(Precision { own_trace, ..precision }))
            }
        }
    }

    fn posterior(cluster: usize, nu: f64, mut inv_scale: Vec<f64>, dim: usize) -> Result<Self> {
        factor(cluster, &mut inv_scale, dim)?;
        let log_det_b = linalg::log_det_from_cholesky(&inv_scale, dim);
        // E[Phi] = nu B^-1 = M^T M with B = L L^T and M = sqrt(nu) L^-1.
        let mut m = linalg::invert_lower(&inv_scale, dim);
        m.iter_mut().for_each(|v| *v *= nu.sqrt());
        Ok(Precision {
            factor: m,
            log_det: expected_log_det(nu, log_det_b, dim),
            nu,
            log_det_b,
            own_trace: nu * dim as f64,
        })
    }

    pub fn from_covariance(cluster: usize, mut covariance: Vec<f64>, dim: usize) -> Result<Self> {
        factor(cluster, &mut covariance, dim)?;
        let log_det = -linalg::log_det_from_cholesky(&covariance, dim);
        let m = linalg::invert_lower(&covariance, dim);
        Ok(Precision { factor: m, log_det, nu: 0.0, log_det_b: 0.0, own_trace: 0.0 })
    }

    /// The point estimate of the covariance: E[Sigma] = B/(nu - D - 1) under a posterior, Phi^-1 otherwise.
    pub fn covariance(&self, estimate: Estimate, dim: usize) -> Vec<f64> {
        // (M^T M)^-1 = M^-1 M^-T
        let inverse = linalg::invert_lower(&self.factor, dim);
        let scale = match estimate {
            // M^T M = nu B^-1, so B = nu (M^T M)^-1.
            Estimate::Posterior => self.nu / (self.nu - dim as f64 - 1.0),
            _ => 1.0,
        };
        let mut covariance = vec![0.0; dim * dim];
        for i in 0..dim {
            for j in 0..=i {
                let v = scale
                    * lsparse_kernels::dot_f64(&inverse[i * dim..i * dim + j + 1], &inverse[j * dim..j * dim + j + 1]);
                covariance[i * dim + j] = v;
                covariance[j * dim + i] = v;
            }
        }
        covariance
    }

    /// tr(M (S + B) M^T), or tr(M S M^T) under maximum likelihood, for any scatter matrix S about the mean.
    pub fn trace(&self, prior: &WishartPrior, estimate: Estimate, mut scatter: Vec<f64>) -> f64 {
        if estimate != Estimate::MaxLikelihood {
            add_diagonal(&mut scatter, prior.dim, prior.b);
        }
        linalg::trace_of_form(&self.factor, &scatter, prior.dim)
    }

    /// The precision's share of the data term for a count and the `trace` of its scatter matrix: everything but
    /// -N D/2 log 2 pi. `map_normaliser` is the log normaliser of the prior whose mode is the MAP estimate.
    pub fn data_term(
        &self,
        prior: &WishartPrior,
        estimate: Estimate,
        count: f64,
        trace: f64,
        map_normaliser: f64,
    ) -> f64 {
        let dim = prior.dim;
        match estimate {
            // c(nu, B) - c(nu_k, B_k) + (N + nu - nu_k)/2 E[log |Phi|] - tr((S + B - B_k) E[Phi])/2,
            // where tr(B_k E[Phi]) = nu_k D.
            Estimate::Posterior => {
                ln_wishart(prior.nu, prior.log_det_b(), dim) - ln_wishart(self.nu, self.log_det_b, dim)
                    + 0.5 * (count + prior.nu - self.nu) * self.log_det
                    - 0.5 * (trace - self.nu * dim as f64)
            }
            Estimate::Map => map_normaliser + 0.5 * (count + prior.map_count()) * self.log_det - 0.5 * trace,
            Estimate::MaxLikelihood if count <= 0.0 => 0.0,
            Estimate::MaxLikelihood => 0.5 * count * self.log_det - 0.5 * trace,
        }
    }
}

/// The factors of all clusters in the layout of the kernel.
pub fn pack<T: Real>(clusters: &[Precision], dim: usize) -> TriangularPack<T> {
    let mut pack = TriangularPack::new(clusters.len(), dim);
    for (k, cluster) in clusters.iter().enumerate() {
        pack.set(k, &cluster.factor);
    }
    pack
}

/// Run `make` for every cluster on all threads, in order, stopping at the first error.
pub fn for_each_cluster<R: Send>(
    num_clusters: usize,
    make: impl Fn(usize) -> Result<R> + Send + Sync,
) -> Result<Vec<R>> {
    (0..num_clusters).into_par_iter().map(make).collect()
}

fn factor(cluster: usize, matrix: &mut [f64], dim: usize) -> Result<()> {
    linalg::cholesky_in_place(matrix, dim).map_err(|pivot| Error::NotPositiveDefinite { cluster, pivot })
}

fn add_diagonal(matrix: &mut [f64], dim: usize, value: f64) {
    for i in 0..dim {
        matrix[i * dim + i] += value;
    }
}
