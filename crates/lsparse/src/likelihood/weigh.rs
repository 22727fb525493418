//! The local step over a panel of rows: weights, top-L responsibilities, and the statistics they give.
//!
//! Two passes, both the same at any number of threads. The first runs over tiles of rows and writes each row's L
//! responsibilities. The second runs over clusters: each cluster's statistics are summed by one thread over its rows
//! in order, straight into the one summary, so that there is no copy of the statistics for every chunk of rows.
//!
//! Tasks are small, and each can be taken by any thread: with a few large ones all threads wait for the last.

use std::ops::Range;

use lsparse_kernels::{Real, has_top_l_tile};
use rayon::prelude::*;

use crate::backend::{in_turn, with_buffers};
use crate::data::Rows;
use crate::error::{Error, Result};
use crate::training::responsibilities::{
    Responsibilities, dense_of_tile, dense_responsibilities, top_l_of_tile, top_l_responsibilities,
};

use super::by_cluster::{ByCluster, chunks_of};
use super::{ClusterSummary, Clusters, Likelihood, Scratch, lacks_values};

/// Values and clusters whose products a task has for each row of a tile, at least: enough to pay for handing it out.
const PRODUCTS_A_TASK: usize = 1 << 13;

/// Tiles of a task at most.
const MOST_TILES_A_TASK: usize = 16;

/// Tasks that clusters are shared out in, about, where they are more.
const CLUSTER_TASKS: usize = 512;

/// Rows of a cluster that one thread sums, however many threads there are.
const LEAST_SPLIT: usize = 2048;

/// Blocks of rows, as kernels sum them, of a piece of a large cluster.
const BLOCKS_A_PIECE: usize = 4;

/// Rows of a parallel task.
fn task_rows<T: Real>(num_clusters: usize, dim: usize) -> usize {
    T::TILE * (PRODUCTS_A_TASK / (num_clusters * dim).max(1)).clamp(1, MOST_TILES_A_TASK)
}

/// Buffers of one thread.
#[derive(Default)]
struct TileScratch<T> {
    scratch: Scratch<T>,
    weights: Vec<T>,
    /// The same with rows as lanes.
    turned: Vec<T>,
    kept: Vec<T>,
    entropy: Vec<f64>,
}

impl<T: Real> TileScratch<T> {
    /// log pi_k of every cluster, for each of `num` rows.
    fn begin(&mut self, log_pi: &[T], num: usize) {
        self.weights.clear();
        for _ in 0..num {
            self.weights.extend_from_slice(log_pi);
        }
    }

    /// The same for a tile whose lanes are rows.
    fn begin_turned(&mut self, log_pi: &[T]) {
        self.turned.resize(log_pi.len() * T::TILE, T::ZERO);
        self.turned.chunks_exact_mut(T::TILE).zip(log_pi).for_each(|(weights, &log_pi)| weights.fill(log_pi));
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
    let mut entropy = Vec::new();
    respond_by(Keep::Largest, clusters, log_pi, (rows, sparsity), out, &mut entropy)?;
    Ok(entropy)
}

/// The same for L = K, with only the largest responsibility of a row in its place.
pub fn respond_dense<T: Real>(
    clusters: &dyn Clusters<T>,
    log_pi: &[f64],
    rows: &Rows<T>,
    out: &mut Responsibilities<T>,
) -> Result<Vec<f64>> {
    let mut entropy = Vec::new();
    respond_by(Keep::All, clusters, log_pi, (rows, log_pi.len()), out, &mut entropy)?;
    Ok(entropy)
}

/// Which clusters a row keeps.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Keep {
    /// Those of its largest weights, the largest first.
    Largest,
    /// All, with only the largest in its place.
    All,
}

/// Responsibilities of every row of a panel and the entropy of each, in memory that is used again.
pub(crate) fn respond_by<T: Real>(
    keep: Keep,
    clusters: &dyn Clusters<T>,
    log_pi: &[f64],
    (rows, sparsity): (&Rows<T>, usize),
    out: &mut Responsibilities<T>,
    entropy: &mut Vec<f64>,
) -> Result<()> {
    let num_clusters = clusters.num_clusters();
    let log_pi: Vec<T> = log_pi.iter().map(|&v| T::from_f64(v)).collect();
    out.reshape(rows.len(), sparsity);
    entropy.resize(rows.len(), 0.0);
    // Where weights are made for rows as lanes, they stay so.
    let may_turn = keep == Keep::All || has_top_l_tile(num_clusters, sparsity);
    let task = task_rows::<T>(num_clusters, rows.dim());
    let tasks = out.index.chunks_mut(task * sparsity).zip(out.value.chunks_mut(task * sparsity));
    let tasks: Vec<_> = tasks.zip(entropy.chunks_mut(task)).enumerate().collect();
    let results = in_turn(tasks, |(t, ((index, value), entropy))| -> Result<()> {
        with_buffers(|scratch: &mut TileScratch<T>| {
            let tiles = index.chunks_mut(T::TILE * sparsity).zip(value.chunks_mut(T::TILE * sparsity));
            for (i, ((index, value), entropy)) in tiles.zip(entropy.chunks_mut(T::TILE)).enumerate() {
                let first = t * task + i * T::TILE;
                let range = first..first + entropy.len();
                // W_nk = log pi_k + log F(x_n | phi_k), or their expectations.
                if may_turn {
                    scratch.begin_turned(&log_pi);
                    let TileScratch { scratch, turned, kept, entropy: tile_entropy, .. } = &mut *scratch;
                    if clusters.add_log_lik_tile(rows, range.clone(), scratch, turned)
                        && match keep {
                            Keep::Largest => top_l_of_tile(turned, sparsity, index, value, kept, tile_entropy),
                            Keep::All => dense_of_tile(turned, index, value, tile_entropy),
                        }
                    {
                        entropy.copy_from_slice(tile_entropy);
                        continue;
                    }
                }
                // Here too with what is wrong with a row, which is told by its weights.
                scratch.begin(&log_pi, range.len());
                clusters.add_log_lik(rows, range, &mut scratch.scratch, &mut scratch.weights);
                let TileScratch { weights, kept, entropy: tile_entropy, .. } = scratch;
                let from_weights = match keep {
                    Keep::Largest => top_l_responsibilities,
                    Keep::All => dense_responsibilities,
                };
                from_weights(weights, num_clusters, first, index, value, kept, tile_entropy)?;
                entropy.copy_from_slice(tile_entropy);
            }
            Ok(())
        })
    });
    // The first error by row, whichever thread met its own first.
    results.into_iter().collect()
}

/// log sum_k pi_k p(x_n | cluster k) of every row of a panel: the predictive of a posterior, where the clusters were made
/// from the arrays of one.
pub fn log_density<T: Real>(clusters: &dyn Clusters<T>, log_pi: &[f64], rows: &Rows<T>) -> Result<Vec<f64>> {
    let num_clusters = clusters.num_clusters();
    let log_pi: Vec<T> = log_pi.iter().map(|&v| T::from_f64(v)).collect();
    let mut out = vec![0.0; rows.len()];
    let task = task_rows::<T>(num_clusters, rows.dim());
    let of_tile = |first: usize, out: &mut [f64], TileScratch { scratch, weights, .. }: &mut TileScratch<T>| {
        clusters.add_log_predictive(rows, first..first + out.len(), scratch, weights);
        for (r, (score, weights)) in out.iter_mut().zip(weights.chunks_exact(num_clusters)).enumerate() {
            *score = lsparse_kernels::log_sum_exp(weights);
            if score.is_nan() {
                let cluster = weights.iter().position(|w| w.is_nan()).unwrap_or(0);
                return Err(Error::NanWeight { row: first + r, cluster });
            }
        }
        Ok(())
    };
    let results: Vec<Result<()>> = out
        .par_chunks_mut(task)
        .enumerate()
        .with_max_len(1)
        .map(|(t, out)| {
            with_buffers(|scratch: &mut TileScratch<T>| {
                out.chunks_mut(T::TILE).enumerate().try_for_each(|(i, out)| {
                    scratch.begin(&log_pi, out.len());
                    of_tile(t * task + i * T::TILE, out, scratch)
                })
            })
        })
        .collect();
    results.into_iter().collect::<Result<Vec<()>>>()?;
    Ok(out)
}

/// The responsibilities of a panel regrouped by cluster: who belongs to cluster k, and how much.
#[derive(Default)]
pub struct Members<T> {
    /// Rows in the panel with w_n r_nk.
    entries: ByCluster<T>,
    /// The chunks of rows whose statistics are summed together.
    pub(crate) stretches: Vec<Range<usize>>,
}

impl<T: Real> Members<T> {
    /// Regroup, leaving out entries too small to change a sum of one in the precision of the rows: of eight that a row
    /// keeps, most are that small, and summing costs as much as weighing. `row_weights` is empty or one a row.
    pub fn regroup(&mut self, num_clusters: usize, resp: &Responsibilities<T>, row_weights: &[f64]) {
        self.regroup_by(num_clusters, resp, row_weights, usize::MAX);
    }

    /// The same for statistics that are to be the bits of `stretch_rows` rows added at a time.
    pub(crate) fn regroup_by(
        &mut self,
        num_clusters: usize,
        resp: &Responsibilities<T>,
        row_weights: &[f64],
        stretch_rows: usize,
    ) {
        let mut chunks = Vec::new();
        self.stretches.clear();
        for first in (0..resp.len()).step_by(stretch_rows.min(resp.len().max(1))) {
            let begin = chunks.len();
            let end = resp.len().min(first.saturating_add(stretch_rows));
            chunks.extend(chunks_of(first..end, num_clusters));
            self.stretches.push(begin..chunks.len());
        }
        let negligible = T::from_f64(T::EPSILON / 2.0);
        let entries = (&resp.index[..], &resp.value[..], resp.sparsity);
        match row_weights.is_empty() {
            true => self.entries.regroup_above(num_clusters, &chunks, entries, negligible, |_, r| r),
            false => self
                .entries
                .regroup_above(num_clusters, &chunks, entries, negligible, |n, r| r * T::from_f64(row_weights[n])),
        }
    }

    /// Copy a cluster's rows and their values in one stretch to buffers.
    pub(crate) fn gather(&self, stretch: &Range<usize>, k: usize, row: &mut Vec<u32>, value: &mut Vec<T>) {
        row.clear();
        value.clear();
        for chunk in stretch.clone() {
            let (rows, values) = self.entries.of(chunk, k);
            row.extend_from_slice(rows);
            value.extend_from_slice(values);
        }
    }

    /// How many rows of a stretch a cluster has.
    fn len_of(&self, stretch: &Range<usize>, k: usize) -> usize {
        stretch.clone().map(|chunk| self.entries.of(chunk, k).0.len()).sum()
    }

    /// The rows of a stretch that belong anywhere, ascending, and what each has in all clusters together.
    fn totals(&self, stretch: &Range<usize>, num_clusters: usize) -> (Vec<u32>, Vec<f64>) {
        let mut of_row: Vec<f64> = Vec::new();
        for k in 0..num_clusters {
            for chunk in stretch.clone() {
                let (rows, values) = self.entries.of(chunk, k);
                if let Some(&last) = rows.last() {
                    of_row.resize(of_row.len().max(last as usize + 1), 0.0);
                }
                rows.iter().zip(values).for_each(|(&row, value)| of_row[row as usize] += value.to_f64());
            }
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

/// Buffers of one thread for the rows of a cluster.
#[derive(Default)]
struct MemberScratch<T> {
    scratch: Scratch<T>,
    row: Vec<u32>,
    value: Vec<T>,
}

/// Rows of a stretch that have part in a cluster, some of them.
struct Piece {
    stretch: usize,
    rows: Range<usize>,
}

/// What is summed in one go.
enum Task<'a> {
    /// Part of a large cluster.
    Piece(usize, Piece),
    /// Clusters with the number of their rows, their count and their statistics.
    Clusters(Vec<(usize, usize, (&'a mut f64, &'a mut [f64]))>),
}

/// Add rows with their shares to the statistics of a cluster, those that lack values as they are completed by one of
/// `clusters`; returns the entropy of what is missing in them, times their shares.
pub(crate) fn accumulate_completed<T: Real>(
    likelihood: &dyn Likelihood<T>,
    (clusters, k): (&dyn Clusters<T>, usize),
    rows: &Rows<T>,
    (members, shares): (&[u32], &[T]),
    scratch: &mut Scratch<T>,
    stat: &mut [f64],
) -> f64 {
    let lacks = |n: &u32| clusters.completes_rows() && lacks_values(rows, *n as usize);
    if !members.iter().any(lacks) {
        likelihood.accumulate(rows, members, shares, scratch, stat);
        return 0.0;
    }
    let (lacking, complete): (Vec<_>, Vec<_>) = members.iter().zip(shares).partition(|(n, _)| lacks(n));
    let (members, shares): (Vec<u32>, Vec<T>) = complete.into_iter().unzip();
    likelihood.accumulate(rows, &members, &shares, scratch, stat);
    let (members, shares): (Vec<u32>, Vec<T>) = lacking.into_iter().unzip();
    clusters.accumulate_expected(k, rows, &members, &shares, scratch, stat)
}

/// The same, with `clusters` to complete rows that lack values; where a summary is `stale`, its statistics (not its
/// counts) are taken for zero. A cluster's are cleared when it is their turn, which saves a pass through memory where
/// they are large. Returns what completing rows adds to the entropy of each stretch; nothing where none are completed.
pub(crate) fn accumulate_onto<T: Real>(
    likelihood: &dyn Likelihood<T>,
    clusters: Option<&dyn Clusters<T>>,
    rows: &Rows<T>,
    members: &Members<T>,
    summary: &mut ClusterSummary,
    stale: bool,
) -> Vec<f64> {
    let (num, width) = (summary.counts.len(), summary.width);
    let (stats, shared) = summary.stats.split_at_mut(num * width);
    let clusters = clusters.filter(|clusters| clusters.completes_rows());
    let mut of_clusters: Vec<_> = summary.counts.iter_mut().zip(stats.chunks_mut(width)).map(Some).collect();
    let order = members.entries.largest_first(num);
    let total: usize = order.iter().map(|(_, len)| len).sum();
    // Rows are summed in pieces by several threads where one would be what the others wait for.
    let at_once = likelihood.rows_at_once().filter(|_| clusters.is_none());
    let most = (total / (2 * rayon::current_num_threads())).max(LEAST_SPLIT);
    let is_large = |len: usize| at_once.is_some() && len > most && rayon::current_num_threads() > 1;
    let num_large = order.iter().take_while(|(_, len)| is_large(*len)).count();
    let of_cluster = |k: usize, count: &mut f64, stat: &mut [f64], buffers: &mut MemberScratch<T>| {
        let MemberScratch { scratch, row, value } = buffers;
        let mut entropies = vec![0.0; if clusters.is_some() { members.stretches.len() } else { 0 }];
        for (s, stretch) in members.stretches.iter().enumerate() {
            members.gather(stretch, k, row, value);
            if row.is_empty() {
                continue;
            }
            *count += value.iter().map(|v| v.to_f64()).sum::<f64>();
            match clusters {
                Some(by) => entropies[s] = accumulate_completed(likelihood, (by, k), rows, (row, value), scratch, stat),
                None => likelihood.accumulate(rows, row, value, scratch, stat),
            }
        }
        entropies
    };
    let of_one = |(k, len, (count, stat)): (usize, usize, (&mut f64, &mut [f64]))| {
        if stale {
            stat.fill(0.0);
        }
        if len == 0 {
            return (k, Vec::new());
        }
        (k, with_buffers(|buffers| of_cluster(k, count, stat, buffers)))
    };
    // What is summed of a piece, block by block, each by itself.
    let of_piece = |k: usize, piece: Piece| {
        with_buffers(|MemberScratch::<T> { scratch, row, value }| {
            let at_once = at_once.unwrap_or(usize::MAX);
            members.gather(&members.stretches[piece.stretch], k, row, value);
            let blocks = row[piece.rows.clone()].chunks(at_once).zip(value[piece.rows].chunks(at_once));
            let sums = blocks.flat_map(|(row, value)| {
                let mut sum = vec![0.0; width];
                likelihood.accumulate(rows, row, value, scratch, &mut sum);
                sum
            });
            sums.collect::<Vec<f64>>()
        })
    };
    let pieces_of = |k: usize| {
        let lens = members.stretches.iter().map(move |stretch| members.len_of(stretch, k));
        let piece_rows = BLOCKS_A_PIECE * at_once.unwrap_or(1);
        lens.enumerate().flat_map(move |(stretch, len)| {
            let begins = (0..len).step_by(piece_rows);
            begins.map(move |begin| Piece { stretch, rows: begin..len.min(begin + piece_rows) })
        })
    };
    // The pieces of large clusters first, and then the others, the small ones several at a time.
    let mut tasks: Vec<Task<'_>> = Vec::new();
    for &(k, _) in &order[..num_large] {
        tasks.extend(pieces_of(k).map(|piece| Task::Piece(k, piece)));
    }
    let (num_pieces, mut work) = (tasks.len(), usize::MAX);
    for &(k, len) in &order[num_large..] {
        let Some((count, stat)) = of_clusters[k].take() else { continue };
        match tasks.last_mut() {
            Some(Task::Clusters(some))
                if work < total / CLUSTER_TASKS || (len == 0 && some.len() * CLUSTER_TASKS < num) =>
            {
                some.push((k, len, (count, stat)));
                work += len;
            }
            _ => {
                tasks.push(Task::Clusters(vec![(k, len, (count, stat))]));
                work = len;
            }
        }
    }
    let done = in_turn(tasks, |task| match task {
        Task::Piece(k, piece) => (of_piece(k, piece), Vec::new()),
        Task::Clusters(some) => (Vec::new(), some.into_iter().map(of_one).collect()),
    });
    let (sums, entropies): (Vec<Vec<f64>>, Vec<Vec<(usize, Vec<f64>)>>) = done.into_iter().unzip();
    let mut entropies: Vec<(usize, Vec<f64>)> = entropies.into_iter().flatten().collect();
    // Pieces are added in the order of their rows.
    let (mut pieces, mut large) = (sums[..num_pieces].iter(), Vec::new());
    for &(k, _) in &order[..num_large] {
        let sums: Vec<&Vec<f64>> = pieces.by_ref().take(pieces_of(k).count()).collect();
        large.extend(of_clusters[k].take().map(|into| (k, into, sums)));
    }
    in_turn(large, |(k, (count, stat), sums)| {
        if stale {
            stat.fill(0.0);
        }
        with_buffers(|MemberScratch::<T> { row, value, .. }| {
            for stretch in members.stretches.iter().filter(|stretch| members.len_of(stretch, k) > 0) {
                members.gather(stretch, k, row, value);
                *count += value.iter().map(|v| v.to_f64()).sum::<f64>();
            }
        });
        for sum in sums.into_iter().flat_map(|sums| sums.chunks_exact(width)) {
            stat.iter_mut().zip(sum).for_each(|(stat, sum)| *stat += sum);
        }
    });
    if stale {
        shared.fill(0.0);
    }
    if !shared.is_empty() {
        for stretch in &members.stretches {
            let (rows_of, weights) = members.totals(stretch, num);
            likelihood.accumulate_shared(rows, &rows_of, &weights, shared);
        }
    }
    if clusters.is_none() {
        return Vec::new();
    }
    // By cluster, whichever came first.
    entropies.sort_unstable_by_key(|(k, _)| *k);
    let of_stretch = |s: usize| entropies.iter().map(|(_, of_cluster)| of_cluster.get(s).unwrap_or(&0.0)).sum();
    (0..members.stretches.len()).map(of_stretch).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Moments;
    use crate::likelihood::{LikelihoodKind, Prior};
    use crate::settings::MixtureConfig;

    /// A panel of several stretches is summed to the bits of each by itself, with and without row weights.
    #[test]
    fn statistics_are_those_of_one_stretch_after_the_other() {
        const STRETCH: usize = 1500;
        let (num, dim, num_rows) = (7, 3, 4000);
        for kind in [LikelihoodKind::Gauss, LikelihoodKind::TiedGauss, LikelihoodKind::DiagGauss] {
            let config = MixtureConfig { likelihood: kind, clusters: num, ..Default::default() };
            let likelihood = kind.build::<f64>(&Prior::for_data(&config, &Moments::unknown(dim)));
            let value = |i: usize| ((i * 7919 % 1009) as f64 / 1009.0 - 0.5) * (1.0 + (i % 5) as f64);
            let (mut rows, mut resp) = (Rows::dense(dim), Responsibilities::default());
            rows.push_dense(&(0..num_rows * dim).map(value).collect::<Vec<_>>());
            resp.resize(num_rows, 2);
            for n in 0..num_rows {
                // Clusters of all sizes, one of them empty, and shares too small to count.
                let share = if n % 11 == 0 { 1e-20 } else { 0.3 + 0.4 * (n % 7) as f64 / 7.0 };
                let first = (n * 3 % 5) as u32;
                resp.index[2 * n..2 * n + 2].copy_from_slice(&[first, (first + 1) % 6]);
                resp.value[2 * n..2 * n + 2].copy_from_slice(&[1.0 - share, share]);
            }
            for weights in [Vec::new(), (0..num_rows).map(|n| 0.5 + (n % 3) as f64).collect::<Vec<f64>>()] {
                let (mut members, mut at_once) = (Members::default(), likelihood.no_statistics(num));
                at_once.stats.fill(9.0);
                members.regroup_by(num, &resp, &weights, STRETCH);
                accumulate_onto(likelihood.as_ref(), None, &rows, &members, &mut at_once, true);
                let mut one_by_one = likelihood.no_statistics(num);
                for first in (0..num_rows).step_by(STRETCH) {
                    let last = num_rows.min(first + STRETCH);
                    let mut some = Rows::dense(dim);
                    some.push_dense(rows.dense_rows(first..last));
                    let (index, value) = (&resp.index[2 * first..2 * last], &resp.value[2 * first..2 * last]);
                    let part = Responsibilities { sparsity: 2, index: index.to_vec(), value: value.to_vec() };
                    let weights = weights.get(first..last).unwrap_or(&[]);
                    members.regroup(num, &part, weights);
                    accumulate(likelihood.as_ref(), &some, &members, &mut one_by_one);
                }
                assert_eq!(at_once, one_by_one, "{kind:?}");
                assert!(at_once.counts[6] == 0.0 && at_once.counts[..6].iter().all(|&count| count > 0.0));
            }
        }
    }

    /// Clusters that several threads sum have the bits that one thread gives them.
    #[test]
    fn large_clusters_are_summed_in_pieces_to_the_same_bits() {
        const STRETCH: usize = 7000;
        let (num, dim, num_rows) = (9, 5, 20_000);
        for kind in [LikelihoodKind::Gauss, LikelihoodKind::ZeroMeanGauss] {
            let config = MixtureConfig { likelihood: kind, clusters: num, ..Default::default() };
            let likelihood = kind.build::<f32>(&Prior::for_data(&config, &Moments::unknown(dim)));
            assert!(likelihood.rows_at_once().is_some());
            let value = |i: usize| ((i * 7919 % 10_007) as f32 / 1009.0 - 4.7) * (1.0 + (i % 5) as f32);
            let (mut rows, mut resp) = (Rows::dense(dim), Responsibilities::default());
            rows.push_dense(&(0..num_rows * dim).map(value).collect::<Vec<_>>());
            resp.resize(num_rows, 2);
            for n in 0..num_rows {
                // The first cluster has a share of most rows, and the last has none.
                let share = 0.1 + 0.3 * (n % 7) as f32 / 7.0;
                resp.index[2 * n..2 * n + 2].copy_from_slice(&[1 + (n * 3 % 7) as u32, 0]);
                resp.value[2 * n..2 * n + 2].copy_from_slice(&[1.0 - share, if n % 13 == 0 { 0.0 } else { share }]);
            }
            let mut members = Members::default();
            members.regroup_by(num, &resp, &[], STRETCH);
            let of_threads = |threads: usize| {
                let mut summary = likelihood.no_statistics(num);
                summary.stats.fill(9.0);
                let mut sum =
                    |stale: bool| accumulate_onto(likelihood.as_ref(), None, &rows, &members, &mut summary, stale);
                crate::backend::with_threads(threads, || (sum(true), sum(false))).unwrap();
                summary
            };
            let one = of_threads(1);
            assert!(one.counts[0] > 2000.0 && one.counts[8] == 0.0 && one.stat(8).iter().all(|&s| s == 0.0));
            for threads in [2, 3, 8, 16] {
                assert_eq!(of_threads(threads), one, "{kind:?} on {threads} threads");
            }
        }
    }
}
