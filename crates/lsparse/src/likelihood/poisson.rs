//! Clusters of count vectors whose columns are independent Poisson counts, under a gamma prior on each rate.

use std::any::Any;
use std::ops::Range;

use lsparse_kernels::{Real, digamma, ln_gamma};
use rand::RngExt;

use super::family::{Array, Draw, Family, Spread, array};
use super::sparse_table::{self, SparseTable};
use super::{
    Clusters, Estimate, Likelihood, LikelihoodKind, NamedArray, PROBABILITY_FLOOR, Prior, Scratch, find_array,
};
use crate::data::Rows;
use crate::error::{Error, Result};
use crate::math::random::poisson;

/// Rates of counts.
pub const FAMILY: Family = Family {
    name: "poisson",
    about: "counts that are no text: each column has a rate of its own",
    has_means: false,
    allows_missing: false,
    wants_sparse_rows: true,
    of_categories: false,
    spread: Spread::Means,
    takes_columns_alike: false,
    shares_covariance: false,
    default_nu: |dim| dim as f64 + 2.0,
    least_rows: |dim, clusters| dim * clusters,
    arrays: &[Array::of_columns("rates"), Array::of_clusters("rate_counts")],
    of_moments: None,
    products: |dim| dim,
    exact_pays: None,
    draws: |arrays, dim| {
        let draw = |rates: &[f64]| -> Draw {
            let rates = rates.to_vec();
            Box::new(move |_, row, rng| row.iter_mut().zip(&rates).for_each(|(x, &rate)| *x = poisson(rate, rng)))
        };
        Ok(array(arrays, "rates")?.values.chunks_exact(dim).map(draw).collect())
    },
    plant: |clusters, dim, rng| {
        let rate = |_| [0.5, 5.0, 20.0][rng.random_range(0..3)] * rng.random_range(0.7..1.3);
        vec![NamedArray::new("rates", vec![clusters, dim], (0..clusters * dim).map(rate).collect())]
    },
};

/// The family with its prior: the rate of column d ~ Gamma(lambda m_d, rate lambda), lambda rows of the column's mean
/// m_d. Statistics: the expected count of each column, sum r x_d; shared by all, sum ln x_d! over all rows and columns.
pub struct Poisson {
    lambda: f64,
    /// lambda m_d, one a column.
    shape: Vec<f64>,
    /// The log normaliser of each column's prior.
    normaliser: Vec<f64>,
    /// Smallest rate of a column under maximum likelihood.
    floor: Vec<f64>,
}

/// The share of the average that the mean of a column counts for at least in the prior: a column without any counts
/// still has a rate.
const LEAST_MEAN: f64 = 1e-3;

impl Poisson {
    pub fn new(prior: &Prior) -> Self {
        let average = prior.column_means.iter().sum::<f64>() / prior.dim.max(1) as f64;
        let least = LEAST_MEAN * if average > 0.0 { average } else { 1.0 };
        let means = (0..prior.dim).map(|d| prior.column_means.get(d).map_or(least, |mean| mean.max(least)));
        let shape: Vec<f64> = means.clone().map(|mean| prior.lambda * mean).collect();
        Poisson {
            lambda: prior.lambda,
            normaliser: shape.iter().map(|&a| normaliser(a, prior.lambda)).collect(),
            shape,
            floor: means.map(|mean| PROBABILITY_FLOOR * mean).collect(),
        }
    }
}

/// ln x! summed over a row.
fn ln_factorials<T: Real>(rows: &Rows<T>, row: usize) -> f64 {
    let (_, value) = rows.sparse_row(row);
    value.iter().filter(|x| x.to_f64() != 1.0).map(|x| ln_gamma(x.to_f64() + 1.0)).sum()
}

impl<T: Real> Likelihood<T> for Poisson {
    fn kind(&self) -> LikelihoodKind {
        LikelihoodKind::Poisson
    }

    fn dim(&self) -> usize {
        self.shape.len()
    }

    fn stat_width(&self) -> usize {
        self.shape.len()
    }

    fn shared_width(&self) -> usize {
        1
    }

    fn check_value(&self, value: f64) -> std::result::Result<(), &'static str> {
        if value < 0.0 { Err("a count, zero or more") } else { Ok(()) }
    }

    fn accumulate(&self, rows: &Rows<T>, members: &[u32], resp: &[T], _scratch: &mut Scratch<T>, stat: &mut [f64]) {
        sparse_table::accumulate(rows, members, resp, stat);
    }

    fn accumulate_shared(&self, rows: &Rows<T>, members: &[u32], weights: &[f64], shared: &mut [f64]) {
        let of_row = |(&row, weight): (&u32, &f64)| weight * ln_factorials(rows, row as usize);
        shared[0] += members.iter().zip(weights).map(of_row).sum::<f64>();
    }

    fn global_step(
        &self,
        estimate: Estimate,
        counts: &[f64],
        stats: &[f64],
        previous: Option<&dyn Clusters<T>>,
    ) -> Result<Box<dyn Clusters<T>>> {
        let dim = self.shape.len();
        let old = previous.filter(|_| estimate == Estimate::MaxLikelihood).map(|c| c.arrays());
        let mut parameter = stats[..counts.len() * dim].to_vec();
        for (i, p) in parameter.iter_mut().enumerate() {
            let (count, shape) = (counts[i / dim], self.shape[i % dim]);
            *p = match estimate {
                Estimate::Posterior => *p + shape,
                Estimate::Map => (*p + shape) / (count + self.lambda),
                Estimate::MaxLikelihood if count > 0.0 => (*p / count).max(self.floor[i % dim]),
                // It keeps its old shape, or the prior's when it never had one.
                Estimate::MaxLikelihood => old.as_ref().map_or(shape / self.lambda, |arrays| arrays[0].values[i]),
            };
        }
        let mut clusters = PoissonClusters::new(self, estimate, counts, parameter);
        clusters.own_data_term = Clusters::<T>::data_term(&clusters, counts, stats);
        Ok(Box::new(clusters))
    }

    fn clusters_of(&self, arrays: &[NamedArray]) -> Result<Box<dyn Clusters<T>>> {
        let dim = self.shape.len();
        let (num, rates) = find_array(arrays, "rates", &[dim])?;
        let mut clusters = PoissonClusters::<T>::new(self, Estimate::Map, &vec![0.0; num], rates.to_vec());
        if arrays.iter().any(|array| array.name == "rate_counts") {
            let (_, counts) = find_array(arrays, "rate_counts", &[])?;
            if counts.len() != num || counts.iter().any(|count| !(*count > 0.0 && count.is_finite())) {
                let detail = "has not one number above zero for each cluster".into();
                return Err(Error::BadArray { name: "rate_counts".into(), detail });
            }
            clusters.predictive = Some(NegativeBinomials::new(rates, counts, dim));
        }
        Ok(Box::new(clusters))
    }

    fn own_score(&self, rows: &Rows<T>, range: Range<usize>, out: &mut [f64]) {
        // max over the rate r of (x + a) ln r - (1 + lambda) r is at r = (x + a)/(1 + lambda).
        let best = |x: f64, a: f64| (x + a) * (((x + a) / (1.0 + self.lambda)).ln() - 1.0);
        let none: f64 = self.shape.iter().map(|&a| map_normaliser(a, self.lambda) + best(0.0, a)).sum();
        for (row, score) in range.zip(out) {
            let (index, value) = rows.sparse_row(row);
            let entries = index.iter().map(|&d| self.shape[d as usize]).zip(value);
            let more: f64 = entries.map(|(a, x)| best(x.to_f64(), a) - best(0.0, a)).sum();
            *score = none + more - ln_factorials(rows, row);
        }
    }

    fn num_parameters(&self) -> usize {
        self.shape.len()
    }
}

/// log normaliser of Gamma(shape, rate).
fn normaliser(shape: f64, rate: f64) -> f64 {
    shape * rate.ln() - ln_gamma(shape)
}

/// log normaliser of Gamma(a + 1, rate), whose mode is the MAP estimate.
fn map_normaliser(a: f64, rate: f64) -> f64 {
    (a + 1.0) * rate.ln() - ln_gamma(a + 1.0)
}

/// K fitted clusters.
struct PoissonClusters<T> {
    lambda: f64,
    shape: Vec<f64>,
    /// The log normaliser of each column's prior.
    normaliser: Vec<f64>,
    estimate: Estimate,
    /// K x dim: the shapes of the gamma posteriors, or the rates.
    parameter: Vec<f64>,
    /// K: N_k at the time of the global step.
    counts: Vec<f64>,
    table: SparseTable<T>,
    /// The predictive, of clusters made from the arrays of a posterior.
    predictive: Option<NegativeBinomials>,
    own_data_term: f64,
}

impl<T: Real> PoissonClusters<T> {
    fn new(family: &Poisson, estimate: Estimate, counts: &[f64], parameter: Vec<f64>) -> Self {
        let dim = family.shape.len();
        let rates: Vec<(f64, f64)> = (0..parameter.len())
            .map(|i| rate_and_log(estimate, parameter[i], counts[i / dim] + family.lambda))
            .collect();
        // log F = sum over columns of -rate, and over counts of x ln rate - ln x!
        let base: Vec<f64> = rates.chunks_exact(dim).map(|row| -row.iter().map(|r| r.0).sum::<f64>()).collect();
        let table = SparseTable::new(&base, dim, |k, d| rates[k * dim + d].1);
        PoissonClusters {
            lambda: family.lambda,
            shape: family.shape.clone(),
            normaliser: family.normaliser.clone(),
            estimate,
            parameter,
            counts: counts.to_vec(),
            table,
            predictive: None,
            own_data_term: 0.0,
        }
    }

    /// One column's share of one cluster's data term for `count` rows with `stat` counts, but for their factorials.
    fn term(&self, i: usize, count: f64, stat: f64) -> f64 {
        let dim = self.shape.len();
        let (a, lambda, p) = (self.shape[i % dim], self.lambda, self.parameter[i]);
        let fitted = self.counts[i / dim] + lambda;
        let (rate, log_rate) = match self.estimate {
            // The posterior of these very statistics, as most are: both are times nothing.
            Estimate::Posterior if stat + a == p && count + lambda == fitted => (0.0, 0.0),
            estimate => rate_and_log(estimate, p, fitted),
        };
        match self.estimate {
            Estimate::Posterior => {
                self.normaliser[i % dim] - normaliser(p, fitted) + (stat + a - p) * log_rate
                    - (count + lambda - fitted) * rate
            }
            Estimate::Map => map_normaliser(a, lambda) + (stat + a) * log_rate - (count + lambda) * rate,
            Estimate::MaxLikelihood => stat * log_rate - count * rate,
        }
    }
}

/// `E[rate]` and `E[ln rate]`, where `p` is the shape of a gamma of rate `count` under a posterior and the rate otherwise.
fn rate_and_log(estimate: Estimate, p: f64, count: f64) -> (f64, f64) {
    match estimate {
        Estimate::Posterior => (p / count, digamma(p) - count.ln()),
        _ => (p, p.ln()),
    }
}

impl<T: Real> Clusters<T> for PoissonClusters<T> {
    fn num_clusters(&self) -> usize {
        self.counts.len()
    }

    fn add_log_lik(&self, rows: &Rows<T>, range: Range<usize>, _scratch: &mut Scratch<T>, weights: &mut [T]) {
        self.table.add_log_lik(rows, range.clone(), weights);
        for (row, weights) in range.zip(weights.chunks_exact_mut(self.counts.len())) {
            let same = T::from_f64(ln_factorials(rows, row));
            weights.iter_mut().for_each(|w| *w -= same);
        }
    }

    fn add_log_predictive(&self, rows: &Rows<T>, range: Range<usize>, scratch: &mut Scratch<T>, weights: &mut [T]) {
        let Some(predictive) = &self.predictive else { return self.add_log_lik(rows, range, scratch, weights) };
        for (row, weights) in range.zip(weights.chunks_exact_mut(self.counts.len())) {
            let (index, value) = rows.sparse_row(row);
            let same = ln_factorials(rows, row);
            for (k, w) in weights.iter_mut().enumerate() {
                *w += T::from_f64(predictive.log_density(k, index, value) - same);
            }
        }
    }

    fn log_lik_of(&self, k: usize, rows: &Rows<T>, members: &[u32], _scratch: &mut Scratch<T>, out: &mut [T]) {
        self.table.log_lik_of(k, rows, members, out);
        for (&row, out) in members.iter().zip(out) {
            *out -= T::from_f64(ln_factorials(rows, row as usize));
        }
    }

    fn data_term(&self, counts: &[f64], stats: &[f64]) -> f64 {
        let (own, shared) = stats.split_at(counts.len() * self.shape.len());
        let of_clusters = own.iter().enumerate().map(|(i, &stat)| self.term(i, counts[i / self.shape.len()], stat));
        of_clusters.sum::<f64>() - shared.first().copied().unwrap_or(0.0)
    }

    fn own_data_term(&self) -> f64 {
        self.own_data_term
    }

    fn log_prior(&self) -> Vec<f64> {
        let dim = self.shape.len();
        let of_cluster = |k: usize| (k * dim..(k + 1) * dim).map(|i| self.term(i, 0.0, 0.0)).sum();
        (0..self.counts.len()).map(of_cluster).collect()
    }

    fn arrays(&self) -> Vec<NamedArray> {
        let (num, dim) = (self.counts.len(), self.shape.len());
        let count = |k: usize| self.counts[k] + self.lambda;
        let rate = |(i, &p): (usize, &f64)| rate_and_log(self.estimate, p, count(i / dim)).0;
        let rates = self.parameter.iter().enumerate().map(rate).collect();
        let mut arrays = vec![NamedArray::new("rates", vec![num, dim], rates)];
        if self.estimate == Estimate::Posterior {
            arrays.push(NamedArray::new("rate_counts", vec![num], (0..num).map(count).collect()));
        }
        arrays
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// The posterior predictive of each cluster: a negative binomial a column.
struct NegativeBinomials {
    dim: usize,
    /// K x dim: the shapes of the gamma posteriors.
    shape: Vec<f64>,
    /// K x dim: ln G of them.
    ln_gamma_shape: Vec<f64>,
    /// The log probability of a row without any counts.
    none: Vec<f64>,
    /// ln(1 + rate of the gamma), which every count costs.
    each: Vec<f64>,
}

/// Up to so many counts ln G(x + a) - ln G(a) is the logarithm of a product.
const LARGEST_PRODUCT: f64 = 8.0;

impl NegativeBinomials {
    fn new(rates: &[f64], counts: &[f64], dim: usize) -> Self {
        let shape: Vec<f64> = rates.iter().enumerate().map(|(i, rate)| rate * counts[i / dim]).collect();
        let none =
            shape.chunks_exact(dim).zip(counts).map(|(a, b)| a.iter().sum::<f64>() * -b.recip().ln_1p()).collect();
        NegativeBinomials {
            dim,
            ln_gamma_shape: shape.iter().map(|&a| ln_gamma(a)).collect(),
            shape,
            none,
            each: counts.iter().map(|b| b.ln_1p()).collect(),
        }
    }

    /// log p of a row's counts, but for their factorials.
    fn log_density<T: Real>(&self, k: usize, index: &[u32], value: &[T]) -> f64 {
        let of_entry = |(&d, x): (&u32, &T)| {
            let (i, x) = (k * self.dim + d as usize, x.to_f64());
            let a = self.shape[i];
            let rising = match x <= LARGEST_PRODUCT && x.fract() == 0.0 {
                true => (0..x as usize).map(|j| a + j as f64).product::<f64>().ln(),
                false => ln_gamma(x + a) - self.ln_gamma_shape[i],
            };
            rising - x * self.each[k]
        };
        self.none[k] + index.iter().zip(value).map(of_entry).sum::<f64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_predictive_is_the_integral_over_the_rate() {
        // One column, Gamma(shape 3.5, rate 2): p(x) = integral of Poisson(x | r) Gamma(r), by a fine sum over r.
        let (a, b) = (3.5, 2.0);
        let predictive = NegativeBinomials::new(&[a / b], &[b], 1);
        for x in [0.0, 0.5, 1.0, 2.0, 7.0, 8.0, 9.0, 30.0] {
            let step = 1e-4;
            let slow: f64 = (1..400_000)
                .map(|i| {
                    let r = step * i as f64;
                    let gamma = a * f64::ln(b) - ln_gamma(a) + (a - 1.0) * r.ln() - b * r;
                    step * (gamma + x * r.ln() - r - ln_gamma(x + 1.0)).exp()
                })
                .sum();
            let entry: (&[u32], &[f64]) = if x > 0.0 { (&[0], &[x]) } else { (&[], &[]) };
            let fast = predictive.log_density(0, entry.0, entry.1) - ln_gamma(x + 1.0);
            assert!((fast - slow.ln()).abs() < 1e-6, "{x}: {fast} is not {}", slow.ln());
        }
    }
}
