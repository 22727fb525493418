//! The posterior predictive of Gaussian clusters: Student t densities, from what a model file holds of a posterior.

use std::f64::consts::PI;

use lsparse_kernels::{Real, ln_gamma, ln_slice, log_form_sums};

use super::missing::Hole;
use super::{NamedArray, Predictive, Scratch, find_array};
use crate::error::{Error, Result};

/// What a cluster's posterior knows beside its expectations.
struct Posterior {
    /// nu_k, the degrees of freedom.
    nu: f64,
    /// kappa_k / (kappa_k + 1), by which an uncertain mean widens the predictive; 1 for a mean that is known.
    share: f64,
}

/// The posteriors that arrays hold, if they do: `degrees` above `least`, and `mean_counts` where means are uncertain.
/// There are `num` of them: one a cluster, or one a cluster and column where `rest` says so.
fn posteriors(
    arrays: &[NamedArray],
    (num, rest): (usize, &[usize]),
    least: f64,
    known_mean: bool,
) -> Result<Option<Vec<Posterior>>> {
    if arrays.iter().all(|array| array.name != "degrees") {
        return Ok(None);
    }
    let of = |name: &str, least: f64| -> Result<&[f64]> {
        let (found, values) = find_array(arrays, name, rest)?;
        let bad = |detail: String| Err(Error::BadArray { name: name.into(), detail });
        match values.iter().find(|v| !(**v > least && v.is_finite())) {
            _ if found != num => bad(format!("has {found} entries for {num} clusters")),
            Some(value) => bad(format!("has {value}, which is not above {least}")),
            None => Ok(values),
        }
    };
    let nu = of("degrees", least)?;
    let share: Vec<f64> = match known_mean {
        true => vec![1.0; nu.len()],
        false => of("mean_counts", 0.0)?.iter().map(|kappa| kappa / (kappa + 1.0)).collect(),
    };
    Ok(Some(nu.iter().zip(share).map(|(&nu, share)| Posterior { nu, share }).collect()))
}

/// The log density at its peak of `columns` columns together, with so many degrees of `freedom`:
/// t(x) = peak (1 + rate q)^-((freedom + columns)/2), with q = x^T P x and log |P| = `log_det`.
fn log_peak(freedom: f64, columns: usize, rate: f64, log_det: f64) -> f64 {
    let d = columns as f64;
    ln_gamma(0.5 * (freedom + d)) - ln_gamma(0.5 * freedom) + 0.5 * d * (rate / PI).ln() + 0.5 * log_det
}

/// K densities over all columns: log t(x) = constant - power ln(1 + rate q), q a quadratic form.
pub struct Student {
    dim: usize,
    freedom: Vec<f64>,
    /// Of the matrices that the forms have.
    log_det: Vec<f64>,
    constant: Vec<f64>,
    rate: Vec<f64>,
}

impl Student {
    /// Those that the arrays of a full posterior give, if they are of one. `log_det` are those of the precisions that
    /// the expected covariances have.
    pub fn find(arrays: &[NamedArray], log_det: &[f64], dim: usize, known_mean: bool) -> Result<Option<Self>> {
        let least = dim as f64 + 1.0;
        let Some(posteriors) = posteriors(arrays, (log_det.len(), &[]), least, known_mean)? else { return Ok(None) };
        // B = (nu - D - 1) E[Sigma]
        let parts = posteriors.iter().map(|p| (p.nu + 1.0 - dim as f64, p.share / (p.nu - least)));
        Ok(Some(Student::new(parts, log_det, dim)))
    }

    /// Those that the arrays of a spherical posterior give, if they are of one; their form is the squared distance.
    pub fn find_spherical(arrays: &[NamedArray], variances: &[f64], dim: usize) -> Result<Option<Self>> {
        let least = 2.0;
        let Some(posteriors) = posteriors(arrays, (variances.len(), &[]), least, false)? else { return Ok(None) };
        // beta = (nu - 2) E[variance]
        let parts = posteriors.iter().zip(variances).map(|(p, v)| (p.nu, p.share / (v * (p.nu - least))));
        Ok(Some(Student::new(parts, &vec![0.0; variances.len()], dim)))
    }

    /// Degrees of freedom and rates, and the log determinants of the forms.
    fn new(parts: impl Iterator<Item = (f64, f64)>, log_det: &[f64], dim: usize) -> Self {
        let (freedom, rate): (Vec<f64>, Vec<f64>) = parts.unzip();
        let of_clusters = freedom.iter().zip(&rate).zip(log_det);
        let constant = of_clusters.map(|((&freedom, &rate), &log_det)| log_peak(freedom, dim, rate, log_det)).collect();
        Student { dim, freedom, log_det: log_det.to_vec(), constant, rate }
    }

    /// All of them, for forms of which `unit(k)` times that of cluster k is the one meant here.
    pub fn predictive(&self, unit: impl Fn(usize) -> f64) -> Predictive<'static> {
        let power = |freedom: &f64| 0.5 * (freedom + self.dim as f64);
        Predictive::Forms {
            constants: self.constant.clone(),
            powers: self.freedom.iter().map(power).collect(),
            rates: self.rate.iter().enumerate().map(|(k, rate)| rate * unit(k)).collect(),
        }
    }

    /// log t of rows with these quadratic forms, by way of `logs`, which has double precision: the more rows a cluster
    /// has, the nearer its logarithms are to zero and the larger the power.
    pub fn log_density<T: Real>(&self, k: usize, forms: &[T], logs: &mut Vec<f64>) {
        logs.clear();
        logs.extend(forms.iter().map(|q| 1.0 + self.rate[k] * q.to_f64()));
        ln_slice(logs);
        let power = 0.5 * (self.freedom[k] + self.dim as f64);
        logs.iter_mut().for_each(|v| *v = self.constant[k] - power * *v);
    }

    /// log t of a row that lacks `missing` columns, in which the form has this log determinant: the marginal density of the
    /// others, with the least `form` that the row can have.
    pub fn log_marginal(&self, k: usize, form: f64, missing: usize, log_det_missing: f64) -> f64 {
        let (columns, freedom, rate) = (self.dim - missing, self.freedom[k], self.rate[k]);
        let peak = log_peak(freedom, columns, rate, self.log_det[k] - log_det_missing);
        peak - 0.5 * (freedom + columns as f64) * (rate * form).ln_1p()
    }
}

/// K products of a density a column: log t(x) = constant - power sum_d ln(1 + rate_d (x_d - mean_d)^2).
pub struct DiagStudent {
    constant: Vec<f64>,
    power: Vec<f64>,
    /// K x dim.
    rate: Vec<f64>,
    means: Vec<f64>,
    /// K x dim, the constant and the power of each column, where values may be missing.
    columns: Vec<(f64, f64)>,
}

impl DiagStudent {
    /// Those that the arrays of a diagonal posterior give, if they are of one.
    pub fn find(arrays: &[NamedArray], means: &[f64], variances: &[f64], dim: usize) -> Result<Option<Self>> {
        let least = 2.0;
        let num = means.len() / dim;
        let missing = arrays.iter().any(|array| array.name == "degrees" && array.shape.len() == 2);
        let rest: &[usize] = if missing { &[dim] } else { &[] };
        let Some(posteriors) = posteriors(arrays, (num, rest), least, false)? else { return Ok(None) };
        let of_column = |i: usize| &posteriors[if missing { i } else { i / dim }];
        // beta = (nu - 2) E[variance]
        let rate = |i: usize| of_column(i).share / (variances[i] * (of_column(i).nu - least));
        let peak = |i: usize| log_peak(of_column(i).nu, 1, rate(i), 0.0);
        let power = |i: usize| 0.5 * (of_column(i).nu + 1.0);
        Ok(Some(DiagStudent {
            constant: (0..num).map(|k| (k * dim..(k + 1) * dim).map(peak).sum()).collect(),
            power: (0..num).map(|k| power(k * dim)).collect(),
            rate: (0..num * dim).map(rate).collect(),
            means: means.to_vec(),
            columns: if missing { (0..num * dim).map(|i| (peak(i), power(i))).collect() } else { Vec::new() },
        }))
    }

    /// All of them; none where values may be missing, as powers may differ by column.
    pub fn predictive(&self) -> Option<Predictive<'_>> {
        let DiagStudent { constant, power, rate, means, columns } = self;
        columns.is_empty().then_some(Predictive::Columns { constants: constant, powers: power, rates: rate, means })
    }

    /// log t of a row by the columns that it has.
    fn log_of_columns(&self, k: usize, row: impl Iterator<Item = f64>) -> f64 {
        let dim = self.means.len() / self.constant.len();
        let of_column = |(x, i): (f64, usize)| {
            let (constant, power) = self.columns[i];
            constant - power * (self.rate[i] * (x - self.means[i]).powi(2)).ln_1p()
        };
        row.zip(k * dim..).filter(|(x, _)| !x.is_nan()).map(of_column).sum()
    }

    /// `weights[r * K + k] += log t_k(x_r)` for the rows of the tile that `scratch` holds, some of them with `holes`.
    pub fn add_log_density<T: Real>(&self, count: usize, holes: &[Hole], scratch: &mut Scratch<T>, weights: &mut [T]) {
        let (num, dim) = (self.constant.len(), self.means.len() / self.constant.len());
        let Scratch { tile, gathered, logs, .. } = scratch;
        gathered.clear();
        gathered.extend(tile.iter().map(|x| x.to_f64()));
        logs.resize(T::TILE, 0.0);
        let mut lacks = vec![false; count];
        holes.iter().for_each(|hole| lacks[hole.row] = true);
        for k in 0..num {
            let of_k = k * dim..(k + 1) * dim;
            let columns = self.columns.get(of_k.clone()).unwrap_or_default();
            let uneven = columns.iter().any(|(_, power)| *power != self.power[k]);
            if !uneven {
                log_form_sums(gathered, &self.means[of_k.clone()], &self.rate[of_k], logs);
            }
            for r in 0..count {
                let log = match uneven || lacks[r] {
                    true => self.log_of_columns(k, gathered.iter().skip(r).step_by(T::TILE).copied()),
                    false => self.constant[k] - self.power[k] * logs[r],
                };
                weights[r * num + k] += T::from_f64(log);
            }
        }
    }
}
