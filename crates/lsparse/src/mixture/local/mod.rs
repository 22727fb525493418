//! The local step over a panel of rows: weights, top-L responsibilities, and the statistics they give.
//!
//! Two passes, both the same at any number of threads. The first runs over tiles of rows and writes each row's L
//! responsibilities. The second runs over clusters: each cluster's statistics are summed by one thread over its rows
//! in order, straight into the one summary, so that there is no copy of the statistics for every chunk of rows.

pub(super) mod device;
pub mod methods;
pub(super) mod nearest;
pub mod search;

use lsparse_kernels::Real;
use rayon::prelude::*;

use crate::data::Rows;
use crate::error::{Error, Result};
use crate::likelihood::ClusterSummary;
use crate::likelihood::{Clusters, Likelihood, Scratch, lacks_values};
use crate::training::responsibilities::{Responsibilities, dense_responsibilities, top_l_responsibilities};

/// Rows of a parallel task in tiles: enough work to pay for handing it out.
const TILES_A_TASK: usize = 2;

/// Buffers of one thread.
struct TileScratch<T> {
    scratch: Scratch<T>,
    weights: Vec<T>,
    kept: Vec<T>,
    entropy: Vec<f64>,
}

impl<T: Real> TileScratch<T> {
    fn new() -> Self {
        TileScratch { scratch: Scratch::default(), weights: Vec::new(), kept: Vec::new(), entropy: Vec::new() }
    }

    /// log pi_k of every cluster, for each of `num` rows.
    fn begin(&mut self, log_pi: &[T], num: usize) {
        self.weights.clear();
        for _ in 0..num {
            self.weights.extend_from_slice(log_pi);
        }
    }
}

/// Responsibilities of every row of a panel; returns the entropy of each row.
pub fn respond<T: Real>(
    clusters: &dyn Clusters<T>,
    log_pi: &[f64],
    rows: &Rows<T>,
    sparsity: usize,
    out: &mut Responsibilities<T>,
) -> Result<Vec<f64>> {
    respond_by(top_l_responsibilities, clusters, log_pi, rows, sparsity, out)
}

/// The same for L = K, with only the largest responsibility of a row in its place.
pub fn respond_dense<T: Real>(
    clusters: &dyn Clusters<T>,
    log_pi: &[f64],
    rows: &Rows<T>,
    out: &mut Responsibilities<T>,
) -> Result<Vec<f64>> {
    respond_by(dense_responsibilities, clusters, log_pi, rows, log_pi.len(), out)
}

/// Weights to responsibilities for a tile of rows; see [`top_l_responsibilities`].
type FromWeights<T> = fn(&[T], usize, usize, &mut [u32], &mut [T], &mut Vec<T>, &mut Vec<f64>) -> Result<()>;

fn respond_by<T: Real>(
    from_weights: FromWeights<T>,
    clusters: &dyn Clusters<T>,
    log_pi: &[f64],
    rows: &Rows<T>,
    sparsity: usize,
    out: &mut Responsibilities<T>,
) -> Result<Vec<f64>> {
    let num_clusters = clusters.num_clusters();
    let log_pi: Vec<T> = log_pi.iter().map(|&v| T::from_f64(v)).collect();
    out.resize(rows.len(), sparsity);
    let mut entropy = vec![0.0; rows.len()];
    let task = T::TILE * TILES_A_TASK;
    let tasks = out.index.par_chunks_mut(task * sparsity).zip(out.value.par_chunks_mut(task * sparsity));
    let results: Vec<Result<()>> = tasks
        .zip(entropy.par_chunks_mut(task))
        .enumerate()
        .map_init(TileScratch::new, |scratch, (t, ((index, value), entropy))| {
            let tiles = index.chunks_mut(T::TILE * sparsity).zip(value.chunks_mut(T::TILE * sparsity));
            for (i, ((index, value), entropy)) in tiles.zip(entropy.chunks_mut(T::TILE)).enumerate() {
                let first = t * task + i * T::TILE;
                let range = first..first + entropy.len();
                // W_nk = log pi_k + log F(x_n | phi_k), or their expectations.
                scratch.begin(&log_pi, range.len());
                clusters.add_log_lik(rows, range, &mut scratch.scratch, &mut scratch.weights);
                let TileScratch { weights, kept, entropy: tile_entropy, .. } = scratch;
                from_weights(weights, num_clusters, first, index, value, kept, tile_entropy)?;
                entropy.copy_from_slice(tile_entropy);
            }
            Ok(())
        })
        .collect();
    // The first error by row, whichever thread met its own first.
    results.into_iter().collect::<Result<Vec<()>>>()?;
    Ok(entropy)
}

/// log sum_k pi_k p(x_n | cluster k) of every row of a panel: the predictive of a posterior, where the clusters were made
/// from the arrays of one.
pub fn log_density<T: Real>(clusters: &dyn Clusters<T>, log_pi: &[f64], rows: &Rows<T>) -> Result<Vec<f64>> {
    let num_clusters = clusters.num_clusters();
    let log_pi: Vec<T> = log_pi.iter().map(|&v| T::from_f64(v)).collect();
    let mut out = vec![0.0; rows.len()];
    let results: Vec<Result<()>> = out
        .par_chunks_mut(T::TILE)
        .enumerate()
        .map_init(TileScratch::new, |scratch, (t, out)| {
            let first = t * T::TILE;
            scratch.begin(&log_pi, out.len());
            clusters.add_log_predictive(rows, first..first + out.len(), &mut scratch.scratch, &mut scratch.weights);
            for (r, (score, weights)) in out.iter_mut().zip(scratch.weights.chunks_exact(num_clusters)).enumerate() {
                *score = lsparse_kernels::log_sum_exp(weights);
                if score.is_nan() {
                    let cluster = weights.iter().position(|w| w.is_nan()).unwrap_or(0);
                    return Err(Error::NanWeight { row: first + r, cluster });
                }
            }
            Ok(())
        })
        .collect();
    results.into_iter().collect::<Result<Vec<()>>>()?;
    Ok(out)
}

/// The responsibilities of a panel regrouped by cluster: who belongs to cluster k, and how much.
#[derive(Default)]
pub struct Members<T> {
    /// Cluster k's entries are `start[k]..start[k + 1]`.
    start: Vec<usize>,
    /// Row in the panel, ascending within a cluster.
    row: Vec<u32>,
    /// w_n r_nk.
    value: Vec<T>,
}

impl<T: Real> Members<T> {
    /// Regroup, leaving out entries too small to change a sum of one in the precision of the rows: of eight that a row
    /// keeps, most are that small, and summing costs as much as weighing. `row_weights` is empty or one a row.
    pub fn regroup(&mut self, num_clusters: usize, resp: &Responsibilities<T>, row_weights: &[f64]) {
        let negligible = T::from_f64(T::EPSILON / 2.0);
        self.start.clear();
        self.start.resize(num_clusters + 1, 0);
        for (&k, &r) in resp.index.iter().zip(&resp.value) {
            if r > negligible {
                self.start[k as usize + 1] += 1;
            }
        }
        for k in 0..num_clusters {
            self.start[k + 1] += self.start[k];
        }
        let kept = self.start[num_clusters];
        self.row.resize(kept, 0);
        self.value.resize(kept, T::ZERO);
        let mut next = self.start.clone();
        for n in 0..resp.len() {
            let (index, value) = resp.row(n);
            for (&k, &r) in index.iter().zip(value) {
                if r > negligible {
                    let at = &mut next[k as usize];
                    self.row[*at] = n as u32;
                    self.value[*at] = if row_weights.is_empty() { r } else { r * T::from_f64(row_weights[n]) };
                    *at += 1;
                }
            }
        }
    }

    fn of(&self, k: usize) -> (&[u32], &[T]) {
        let range = self.start[k]..self.start[k + 1];
        (&self.row[range.clone()], &self.value[range])
    }

    /// The rows that belong anywhere, ascending, and what each has in all clusters together.
    fn totals(&self) -> (Vec<u32>, Vec<f64>) {
        let mut of_row = vec![0.0; self.row.iter().max().map_or(0, |&row| row as usize + 1)];
        for (&row, value) in self.row.iter().zip(&self.value) {
            of_row[row as usize] += value.to_f64();
        }
        (0u32..).zip(of_row).filter(|(_, total)| *total > 0.0).unzip()
    }
}

/// Add a panel's statistics to a summary: cost L a row, not K.
pub fn accumulate<T: Real>(
    likelihood: &dyn Likelihood<T>,
    rows: &Rows<T>,
    members: &Members<T>,
    summary: &mut ClusterSummary,
) {
    accumulate_onto(likelihood, None, rows, members, summary, false);
}

/// The same, with `clusters` to complete rows that lack values; where a summary is `stale`, its statistics (not its
/// counts) are taken for zero. A cluster's are cleared when it is their turn, which saves a pass through memory where
/// they are large.
pub(in crate::mixture) fn accumulate_onto<T: Real>(
    likelihood: &dyn Likelihood<T>,
    clusters: Option<&dyn Clusters<T>>,
    rows: &Rows<T>,
    members: &Members<T>,
    summary: &mut ClusterSummary,
    stale: bool,
) {
    let width = summary.width;
    let (stats, shared) = summary.stats.split_at_mut(summary.counts.len() * width);
    let clusters = clusters.filter(|clusters| clusters.completes_rows());
    let of_clusters = summary.counts.par_iter_mut().zip(stats.par_chunks_mut(width)).enumerate();
    let entropies: Vec<f64> = of_clusters
        .map_init(Scratch::default, |scratch, (k, (count, stat))| {
            let (row, value) = members.of(k);
            if stale {
                stat.fill(0.0);
            }
            if row.is_empty() {
                return 0.0;
            }
            *count += value.iter().map(|v| v.to_f64()).sum::<f64>();
            let lacks = |n: &u32| lacks_values(rows, *n as usize);
            let Some(clusters) = clusters.filter(|_| row.iter().any(lacks)) else {
                likelihood.accumulate(rows, row, value, scratch, stat);
                return 0.0;
            };
            let (lacking, complete): (Vec<_>, Vec<_>) = row.iter().zip(value).partition(|(n, _)| lacks(n));
            let (row, value): (Vec<u32>, Vec<T>) = complete.into_iter().unzip();
            likelihood.accumulate(rows, &row, &value, scratch, stat);
            let (row, value): (Vec<u32>, Vec<T>) = lacking.into_iter().unzip();
            clusters.accumulate_expected(k, rows, &row, &value, scratch, stat)
        })
        .collect();
    summary.entropy += entropies.iter().sum::<f64>();
    if !shared.is_empty() {
        if stale {
            shared.fill(0.0);
        }
        let (rows_of, weights) = members.totals();
        likelihood.accumulate_shared(rows, &rows_of, &weights, shared);
    }
}
