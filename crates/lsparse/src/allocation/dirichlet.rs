//! Cluster frequencies pi: a Dirichlet posterior with parameters alpha/K, or a point estimate.

use lsparse_kernels::{digamma, ln_gamma};

use crate::likelihood::{Estimate, ln_dirichlet_symmetric};

/// The frequencies of K clusters.
#[derive(Clone, Debug, PartialEq)]
pub struct Frequencies {
    /// log pi_k under point estimates, `E[log pi_k]` under a posterior.
    pub log_pi: Vec<f64>,
    /// pi_k, or `E[pi_k]`.
    pub pi: Vec<f64>,
}

impl Frequencies {
    /// The best frequencies for counts N_k.
    pub fn estimate(estimate: Estimate, alpha: f64, counts: &[f64]) -> Self {
        let num = counts.len() as f64;
        let total: f64 = counts.iter().sum();
        let pseudo = if estimate == Estimate::MaxLikelihood { 0.0 } else { alpha / num };
        let pi: Vec<f64> = counts.iter().map(|n| (n + pseudo) / (total + num * pseudo)).collect();
        let log_pi = match estimate {
            // E[log pi_k] = psi(theta_k) - psi(sum theta), theta_k = N_k + alpha/K
            Estimate::Posterior => {
                let psi_sum = digamma(total + alpha);
                counts.iter().map(|n| digamma(n + pseudo) - psi_sum).collect()
            }
            _ => pi.iter().map(|p| p.ln()).collect(),
        };
        Frequencies { log_pi, pi }
    }
}

/// The allocation term of the objective, at the frequencies that are best for these counts:
/// `E[log p(z | pi)]` + `E[log p(pi)]` - `E[log q(pi)]`.
pub fn allocation_term(estimate: Estimate, alpha: f64, counts: &[f64]) -> f64 {
    let num = counts.len();
    let pseudo = alpha / num as f64;
    let total: f64 = counts.iter().sum();
    match estimate {
        // c_Dir(alpha/K) - c_Dir(theta); the terms (N_k + alpha/K - theta_k) E[log pi_k] are zero.
        Estimate::Posterior => {
            ln_dirichlet_symmetric(pseudo, num) - ln_gamma(total + alpha)
                + counts.iter().map(|n| ln_gamma(n + pseudo)).sum::<f64>()
        }
        Estimate::Map => {
            let log_pi = |n: &f64| ((n + pseudo) / (total + alpha)).ln();
            ln_dirichlet_symmetric(pseudo + 1.0, num) + counts.iter().map(|n| (n + pseudo) * log_pi(n)).sum::<f64>()
        }
        Estimate::MaxLikelihood => counts.iter().filter(|n| **n > 0.0).map(|n| n * (n / total).ln()).sum(),
    }
}
