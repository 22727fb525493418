//! Clusters of vectors of zeros and ones under a beta prior on each column.

use std::any::Any;
use std::ops::Range;

use lsparse_kernels::{Real, digamma, ln_gamma};
use rand::RngExt;

use super::family::{Array, Draw, Family, Spread, array};
use super::sparse_table::{self, SparseTable};
use super::{Clusters, Estimate, Likelihood, LikelihoodKind, NamedArray, PROBABILITY_FLOOR, Prior, Scratch};
use super::{find_array, ln_dirichlet_symmetric};
use crate::data::Rows;
use crate::error::Result;

/// Probabilities of ones.
pub const FAMILY: Family = Family {
    name: "bernoulli",
    about: "zeros and ones",
    has_means: false,
    allows_missing: false,
    wants_sparse_rows: true,
    of_categories: false,
    spread: Spread::Nothing,
    takes_columns_alike: false,
    shares_covariance: false,
    default_nu: |dim| dim as f64 + 2.0,
    least_rows: |dim, clusters| dim * clusters,
    arrays: &[Array::of_columns("probabilities")],
    of_moments: None,
    products: |dim| dim,
    exact_pays: None,
    draws: |arrays, dim| {
        let draw = |probabilities: &[f64]| -> Draw {
            let probabilities = probabilities.to_vec();
            Box::new(move |_, row, rng| {
                row.iter_mut().zip(&probabilities).for_each(|(x, &p)| *x = f64::from(rng.random::<f64>() < p));
            })
        };
        Ok(array(arrays, "probabilities")?.values.chunks_exact(dim).map(draw).collect())
    },
    plant: |clusters, dim, rng| {
        let values = (0..clusters * dim).map(|_| if rng.random::<bool>() { 0.9 } else { 0.1 }).collect();
        vec![NamedArray::new("probabilities", vec![clusters, dim], values)]
    },
};

/// The family with its prior Beta(lambda, lambda). Statistics: the expected number of ones in each column.
pub struct Bernoulli {
    dim: usize,
    lambda: f64,
}

impl Bernoulli {
    pub fn new(prior: &Prior) -> Self {
        Bernoulli { dim: prior.dim, lambda: prior.lambda }
    }
}

impl<T: Real> Likelihood<T> for Bernoulli {
    fn kind(&self) -> LikelihoodKind {
        LikelihoodKind::Bernoulli
    }

    fn dim(&self) -> usize {
        self.dim
    }

    fn stat_width(&self) -> usize {
        self.dim
    }

    fn check_value(&self, value: f64) -> std::result::Result<(), &'static str> {
        if value == 0.0 || value == 1.0 { Ok(()) } else { Err("0 or 1") }
    }

    fn accumulate(&self, rows: &Rows<T>, members: &[u32], resp: &[T], _scratch: &mut Scratch<T>, stat: &mut [f64]) {
        sparse_table::accumulate(rows, members, resp, stat);
    }

    fn global_step(
        &self,
        estimate: Estimate,
        counts: &[f64],
        stats: &[f64],
        previous: Option<&dyn Clusters<T>>,
    ) -> Result<Box<dyn Clusters<T>>> {
        let (dim, lambda) = (self.dim, self.lambda);
        let old = previous.filter(|_| estimate == Estimate::MaxLikelihood).map(|c| c.arrays());
        let mut ones = vec![0.0; counts.len() * dim];
        for (k, &count) in counts.iter().enumerate() {
            for i in k * dim..(k + 1) * dim {
                ones[i] = match estimate {
                    Estimate::Posterior => stats[i] + lambda,
                    Estimate::Map => (stats[i] + lambda) / (count + 2.0 * lambda),
                    Estimate::MaxLikelihood if count > 0.0 => {
                        (stats[i] / count).clamp(PROBABILITY_FLOOR, 1.0 - PROBABILITY_FLOOR)
                    }
                    Estimate::MaxLikelihood => old.as_ref().map_or(0.5, |arrays| arrays[0].values[i]),
                };
            }
        }
        let mut clusters = BernoulliClusters::new(self, estimate, counts, ones);
        clusters.own_data_term = Clusters::<T>::data_term(&clusters, counts, stats);
        Ok(Box::new(clusters))
    }

    fn clusters_of(&self, arrays: &[NamedArray]) -> Result<Box<dyn Clusters<T>>> {
        let (num, probabilities) = find_array(arrays, "probabilities", &[self.dim])?;
        Ok(Box::new(BernoulliClusters::<T>::new(self, Estimate::Map, &vec![0.0; num], probabilities.to_vec())))
    }

    fn own_score(&self, _rows: &Rows<T>, _range: Range<usize>, out: &mut [f64]) {
        // Ones and zeros are alike under a symmetric prior, so every row fits itself equally well.
        let (one, all) = (1.0 + self.lambda, 1.0 + 2.0 * self.lambda);
        let zero = if self.lambda > 0.0 { self.lambda * (self.lambda / all).ln() } else { 0.0 };
        let column = ln_dirichlet_symmetric(one, 2) + one * (one / all).ln() + zero;
        out.fill(column * self.dim as f64);
    }

    fn num_parameters(&self) -> usize {
        self.dim
    }
}

/// K fitted clusters.
struct BernoulliClusters<T> {
    dim: usize,
    lambda: f64,
    estimate: Estimate,
    /// K x dim: the first parameter of the beta posterior, or the probability of a one.
    ones: Vec<f64>,
    /// N_k at the time of the global step.
    counts: Vec<f64>,
    table: SparseTable<T>,
    own_data_term: f64,
}

impl<T: Real> BernoulliClusters<T> {
    fn new(family: &Bernoulli, estimate: Estimate, counts: &[f64], ones: Vec<f64>) -> Self {
        let dim = family.dim;
        let logs: Vec<(f64, f64)> = ones
            .iter()
            .enumerate()
            .map(|(i, &p)| log_probabilities(estimate, family.lambda, counts[i / dim], p))
            .collect();
        // log F = sum_v log(1 - p_v) + sum over ones of (log p_v - log(1 - p_v))
        let base: Vec<f64> = logs.chunks_exact(dim).map(|row| row.iter().map(|l| l.1).sum()).collect();
        let table = SparseTable::new(&base, dim, |k, v| logs[k * dim + v].0 - logs[k * dim + v].1);
        BernoulliClusters {
            dim,
            lambda: family.lambda,
            estimate,
            ones,
            counts: counts.to_vec(),
            table,
            own_data_term: 0.0,
        }
    }

    /// One column's share of one cluster's data term for `count` rows with `stat` ones.
    fn term(&self, i: usize, count: f64, stat: f64) -> f64 {
        let (lambda, one) = (self.lambda, self.ones[i]);
        let fitted = self.counts[i / self.dim];
        let (log_one, log_zero) = log_probabilities(self.estimate, lambda, fitted, one);
        match self.estimate {
            Estimate::Posterior => {
                let zero = fitted + 2.0 * lambda - one;
                ln_dirichlet_symmetric(lambda, 2) - ln_gamma(one + zero)
                    + ln_gamma(one)
                    + ln_gamma(zero)
                    + (stat + lambda - one) * log_one
                    + (count - stat + lambda - zero) * log_zero
            }
            Estimate::Map => {
                ln_dirichlet_symmetric(lambda + 1.0, 2) + (stat + lambda) * log_one + (count - stat + lambda) * log_zero
            }
            Estimate::MaxLikelihood => stat * log_one + (count - stat) * log_zero,
        }
    }
}

/// `E[log p]` and `E[log (1 - p)]`, where `one` is the beta's first parameter under a posterior and p itself otherwise.
fn log_probabilities(estimate: Estimate, lambda: f64, count: f64, one: f64) -> (f64, f64) {
    match estimate {
        Estimate::Posterior => {
            let sum = count + 2.0 * lambda;
            (digamma(one) - digamma(sum), digamma(sum - one) - digamma(sum))
        }
        _ => (one.ln(), (-one).ln_1p()),
    }
}

impl<T: Real> Clusters<T> for BernoulliClusters<T> {
    fn num_clusters(&self) -> usize {
        self.counts.len()
    }

    fn add_log_lik(&self, rows: &Rows<T>, range: Range<usize>, _scratch: &mut Scratch<T>, weights: &mut [T]) {
        self.table.add_log_lik(rows, range, weights);
    }

    fn log_lik_of(&self, k: usize, rows: &Rows<T>, members: &[u32], _scratch: &mut Scratch<T>, out: &mut [T]) {
        self.table.log_lik_of(k, rows, members, out);
    }

    fn data_term(&self, counts: &[f64], stats: &[f64]) -> f64 {
        (0..stats.len()).map(|i| self.term(i, counts[i / self.dim], stats[i])).sum()
    }

    fn own_data_term(&self) -> f64 {
        self.own_data_term
    }

    fn log_prior(&self) -> Vec<f64> {
        let of_cluster = |k: usize| (k * self.dim..(k + 1) * self.dim).map(|i| self.term(i, 0.0, 0.0)).sum();
        (0..self.counts.len()).map(of_cluster).collect()
    }

    fn arrays(&self) -> Vec<NamedArray> {
        let probability = |(i, &one): (usize, &f64)| match self.estimate {
            Estimate::Posterior => one / (self.counts[i / self.dim] + 2.0 * self.lambda),
            _ => one,
        };
        let values = self.ones.iter().enumerate().map(probability).collect();
        vec![NamedArray::new("probabilities", vec![self.counts.len(), self.dim], values)]
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
