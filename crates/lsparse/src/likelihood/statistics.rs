//! The statistics of K clusters: a row of numbers each, in the layout of their likelihood.

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::trial::Trial;
use crate::training::moves::Remap;
use crate::training::summary::Summary;

/// Statistics of a mixture: N_k, S_k and the entropy of the responsibilities that gave them.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub struct ClusterSummary {
    /// N_k = sum_n w_n r_nk, the expected (weighted) number of rows in cluster k.
    pub counts: Vec<f64>,
    /// S_k = sum_n w_n r_nk s(x_n), `width` numbers a cluster, in the likelihood's own layout; behind them what all
    /// clusters share.
    pub stats: Vec<f64>,
    /// Numbers a cluster in `stats`.
    pub width: usize,
    /// -sum_n w_n sum_k r_nk log r_nk.
    pub entropy: f64,
    /// What else was gathered, where the number of clusters may change.
    pub trial: Option<Box<Trial>>,
}

impl ClusterSummary {
    /// No data at all.
    pub fn zeros(num_clusters: usize, width: usize, shared_width: usize) -> Self {
        let stats = vec![0.0; num_clusters * width + shared_width];
        ClusterSummary { counts: vec![0.0; num_clusters], stats, width, entropy: 0.0, trial: None }
    }

    /// Number of clusters.
    pub fn num_clusters(&self) -> usize {
        self.counts.len()
    }

    /// The statistics of one cluster.
    pub fn stat(&self, k: usize) -> &[f64] {
        &self.stats[k * self.width..(k + 1) * self.width]
    }

    /// The statistics that all clusters share.
    pub fn shared(&self) -> &[f64] {
        &self.stats[self.num_clusters() * self.width..]
    }

    /// Total weight of the rows summarised.
    pub fn total_weight(&self) -> f64 {
        self.counts.iter().sum()
    }

    /// Add what else was gathered. What was gathered for other proposals has nothing to do with it: the newer ones stay.
    fn add_trial(&mut self, other: &Self, factor: f64) {
        let Some(from) = &other.trial else { return };
        match &mut self.trial {
            Some(own) if own.generation == from.generation => own.add_scaled(from, factor),
            Some(own) if own.generation > from.generation => {}
            own if factor > 0.0 => {
                let mut from = from.clone();
                from.scale(factor);
                *own = Some(from);
            }
            _ => {}
        }
    }

    /// The same statistics with the clusters in another order: cluster `order[k]` becomes cluster `k`.
    pub fn reordered(&self, order: &[usize]) -> Self {
        let mut out = ClusterSummary::zeros(order.len(), self.width, self.shared().len());
        let (own, shared) = out.stats.split_at_mut(order.len() * self.width);
        let rows = own.par_chunks_exact_mut(self.width.max(1)).with_min_len(NUMBERS_A_TASK.div_ceil(self.width.max(1)));
        rows.zip(order).for_each(|(to, &from)| to.copy_from_slice(self.stat(from)));
        shared.copy_from_slice(self.shared());
        out.counts = order.iter().map(|&from| self.counts[from]).collect();
        out.entropy = self.entropy;
        out
    }
}

impl Clone for ClusterSummary {
    /// By many threads where clusters are many: memory that is fresh comes page by page.
    fn clone(&self) -> Self {
        let mut stats = vec![0.0; self.stats.len()];
        let parts = stats.par_chunks_mut(NUMBERS_A_TASK).zip(self.stats.par_chunks(NUMBERS_A_TASK));
        parts.for_each(|(to, from)| to.copy_from_slice(from));
        let (counts, trial) = (self.counts.clone(), self.trial.clone());
        ClusterSummary { counts, stats, width: self.width, entropy: self.entropy, trial }
    }
}

/// What is left of a count is nothing but rounding below this share of it.
const RESIDUE: f64 = 1e-9;

/// Numbers of a parallel task: enough to pay for handing it out.
const NUMBERS_A_TASK: usize = 1 << 14;

impl Summary for ClusterSummary {
    fn add_scaled(&mut self, other: &Self, factor: f64) {
        self.add_all(&[(other, factor)]);
    }

    /// One pass through memory for all of them.
    fn add_all(&mut self, others: &[(&Self, f64)]) {
        let add = |into: &mut [f64], from: &[f64], factor: f64| {
            for (a, &b) in into.iter_mut().zip(from) {
                *a += factor * b;
            }
        };
        let (width, own) = (self.width, self.counts.len() * self.width);
        for &(other, factor) in others {
            debug_assert_eq!(self.stats.len(), other.stats.len());
            self.entropy += factor * other.entropy;
            self.add_trial(other, factor);
            add(&mut self.stats[own..], &other.stats[own..], factor);
        }
        let add_one = |(k, (count, stat)): (usize, (&mut f64, &mut [f64]))| {
            for &(other, factor) in others {
                add(stat, other.stat(k), factor);
                let (before, from) = (*count, other.counts[k]);
                *count += factor * from;
                // Where all that a cluster has is taken away, a trace of rounding is left, on either side of zero. Nothing
                // is to be estimated from it.
                if factor < 0.0 && from > 0.0 && *count <= RESIDUE * before {
                    *count = 0.0;
                    stat.fill(0.0);
                }
                *count = count.max(0.0);
            }
        };
        let into = self.counts.par_iter_mut().zip(self.stats[..own].par_chunks_mut(width.max(1)));
        into.enumerate().with_min_len(NUMBERS_A_TASK.div_ceil(width.max(1))).for_each(add_one);
    }

    fn scale(&mut self, factor: f64) {
        self.counts.iter_mut().for_each(|v| *v *= factor);
        self.stats.par_iter_mut().with_min_len(NUMBERS_A_TASK).for_each(|v| *v *= factor);
        self.entropy *= factor;
        if factor == 0.0 {
            self.trial = None;
        }
        self.trial.iter_mut().for_each(|trial| trial.scale(factor));
    }

    fn counts(&self) -> &[f64] {
        &self.counts
    }

    fn remap(&mut self, plan: &Remap) {
        *self = self.remapped(plan);
    }

    fn resident_bytes(&self) -> usize {
        let trial = self.trial.as_ref().map_or(0, |trial| trial.resident_bytes());
        size_of_val(self.counts.as_slice()) + size_of_val(self.stats.as_slice()) + trial
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_left_of_a_cluster_that_is_taken_away() {
        // Batches whose sums round.
        let one = |value: f64| ClusterSummary {
            counts: vec![value, 1.0],
            stats: vec![7.0 * value, 1.0],
            width: 1,
            entropy: 0.0,
            trial: None,
        };
        let pieces: Vec<f64> = (0..40).map(|n| 1000.0 / (3.0 + f64::from(n))).collect();
        let mut total = ClusterSummary::zeros(2, 1, 0);
        pieces.iter().for_each(|&value| total.add_scaled(&one(value), 1.0));
        pieces.iter().for_each(|&value| total.add_scaled(&one(value), -1.0));
        assert_eq!(total, ClusterSummary::zeros(2, 1, 0));
        // A little that is really there stays.
        total.add_scaled(&one(1e6), 1.0);
        total.add_scaled(&one(0.01), 1.0);
        total.add_scaled(&one(1e6), -1.0);
        assert!((total.counts[0] - 0.01).abs() < 1e-8);
    }

    #[test]
    fn adding_and_taking_away_gives_back_what_was_there() {
        let a = ClusterSummary {
            counts: vec![1.0, 2.0],
            stats: vec![3.0, 4.0, 5.0, 6.0],
            width: 2,
            entropy: 0.5,
            trial: None,
        };
        let mut b = a.clone();
        b.add_scaled(&a, 2.0);
        assert_eq!(b.counts, [3.0, 6.0]);
        b.add_scaled(&a, -2.0);
        assert_eq!(a, b);
        b.scale(2.0);
        assert_eq!(b.stat(1), [10.0, 12.0]);
        assert_eq!(b.reordered(&[1, 0]).stat(0), [10.0, 12.0]);
        assert_eq!(a.total_weight(), 3.0);
        let shared = ClusterSummary { stats: [&a.stats[..], &[7.0]].concat(), ..a };
        assert_eq!(shared.reordered(&[1, 0]).stats, [5.0, 6.0, 3.0, 4.0, 7.0]);
        assert_eq!(shared.shared(), [7.0]);
    }
}
