//! The posterior predictive of Gaussian clusters: Student t densities, from what a model file holds of a posterior.

use std::f64::consts::PI;

use lsparse_kernels::{Real, ln_gamma, ln_slice, log_form_sums};

use super::{NamedArray, Scratch, find_array};
use crate::error::{Error, Result};

/// What a cluster's posterior knows beside its expectations.
struct Posterior {
    /// nu_k, the degrees of freedom.
    nu: f64,
    /// kappa_k / (kappa_k + 1), by which an uncertain mean widens the predictive; 1 for a mean that is known.
    share: f64,
}

/// The posteriors that arrays hold, if they do: `degrees` above `least`, and `mean_counts` where means are uncertain.
fn posteriors(arrays: &[NamedArray], num: usize, least: f64, known_mean: bool) -> Result<Option<Vec<Posterior>>> {
    if arrays.iter().all(|array| array.name != "degrees") {
        return Ok(None);
    }
    let of = |name: &str, least: f64| -> Result<&[f64]> {
        let (found, values) = find_array(arrays, name, &[])?;
        let bad = |detail: String| Err(Error::BadArray { name: name.into(), detail });
        match values.iter().find(|v| !(**v > least && v.is_finite())) {
            _ if found != num => bad(format!("has {found} entries for {num} clusters")),
            Some(value) => bad(format!("has {value}, which is not above {least}")),
            None => Ok(values),
        }
    };
    let nu = of("degrees", least)?;
    let share: Vec<f64> = match known_mean {
        true => vec![1.0; num],
        false => of("mean_counts", 0.0)?.iter().map(|kappa| kappa / (kappa + 1.0)).collect(),
    };
    Ok(Some(nu.iter().zip(share).map(|(&nu, share)| Posterior { nu, share }).collect()))
}

/// The part of log t that depends on the counts alone, for `dim` columns that share `nu` degrees of freedom.
fn log_normaliser(posterior: &Posterior, dim: usize) -> f64 {
    let (nu, d) = (posterior.nu, dim as f64);
    ln_gamma(0.5 * (nu + 1.0)) - ln_gamma(0.5 * (nu + 1.0 - d)) + 0.5 * d * (posterior.share / PI).ln()
}

/// K densities over all columns: log t(x) = constant - power ln(1 + rate q), q the quadratic form of the covariance.
pub struct Student {
    constant: Vec<f64>,
    power: Vec<f64>,
    rate: Vec<f64>,
}

impl Student {
    /// Those that the arrays of a full posterior give, if they are of one. `log_det` are those of the precisions that
    /// the expected covariances have.
    pub fn find(arrays: &[NamedArray], log_det: &[f64], dim: usize, known_mean: bool) -> Result<Option<Self>> {
        let least = dim as f64 + 1.0;
        let Some(posteriors) = posteriors(arrays, log_det.len(), least, known_mean)? else { return Ok(None) };
        let mut student = Student { constant: Vec::new(), power: Vec::new(), rate: Vec::new() };
        for (posterior, log_det) in posteriors.iter().zip(log_det) {
            // B = (nu - D - 1) E[Sigma]
            let times = posterior.nu - least;
            student.constant.push(log_normaliser(posterior, dim) + 0.5 * (log_det - dim as f64 * times.ln()));
            student.power.push(0.5 * (posterior.nu + 1.0));
            student.rate.push(posterior.share / times);
        }
        Ok(Some(student))
    }

    /// log t of rows with these quadratic forms, by way of `logs`, which has double precision: the more rows a cluster
    /// has, the nearer its logarithms are to zero and the larger the power.
    pub fn log_density<T: Real>(&self, k: usize, forms: &[T], logs: &mut Vec<f64>) {
        logs.clear();
        logs.extend(forms.iter().map(|q| 1.0 + self.rate[k] * q.to_f64()));
        ln_slice(logs);
        logs.iter_mut().for_each(|v| *v = self.constant[k] - self.power[k] * *v);
    }
}

/// K products of a density a column: log t(x) = constant - power sum_d ln(1 + rate_d (x_d - mean_d)^2).
pub struct DiagStudent {
    constant: Vec<f64>,
    power: Vec<f64>,
    /// K x dim.
    rate: Vec<f64>,
    means: Vec<f64>,
}

impl DiagStudent {
    /// Those that the arrays of a diagonal posterior give, if they are of one.
    pub fn find(arrays: &[NamedArray], means: &[f64], variances: &[f64], dim: usize) -> Result<Option<Self>> {
        let least = 2.0;
        let Some(posteriors) = posteriors(arrays, means.len() / dim, least, false)? else { return Ok(None) };
        let mut student = DiagStudent {
            constant: Vec::new(),
            power: Vec::new(),
            rate: Vec::with_capacity(means.len()),
            means: means.to_vec(),
        };
        for (posterior, variances) in posteriors.iter().zip(variances.chunks_exact(dim)) {
            // beta = (nu - 2) E[variance]
            let beta = || variances.iter().map(|v| v * (posterior.nu - least));
            let log_beta: f64 = beta().map(|b| b.ln()).sum();
            student.constant.push(dim as f64 * log_normaliser(posterior, 1) - 0.5 * log_beta);
            student.power.push(0.5 * (posterior.nu + 1.0));
            student.rate.extend(beta().map(|b| posterior.share / b));
        }
        Ok(Some(student))
    }

    /// `weights[r * K + k] += log t_k(x_r)` for the rows of the tile that `scratch` holds.
    pub fn add_log_density<T: Real>(&self, count: usize, scratch: &mut Scratch<T>, weights: &mut [T]) {
        let (num, dim) = (self.constant.len(), self.means.len() / self.constant.len());
        let Scratch { tile, gathered, logs, .. } = scratch;
        gathered.clear();
        gathered.extend(tile.iter().map(|x| x.to_f64()));
        logs.resize(T::TILE, 0.0);
        for k in 0..num {
            let of_k = k * dim..(k + 1) * dim;
            log_form_sums(gathered, &self.means[of_k.clone()], &self.rate[of_k], logs);
            for (r, &sum) in logs[..count].iter().enumerate() {
                weights[r * num + k] += T::from_f64(self.constant[k] - self.power[k] * sum);
            }
        }
    }
}
