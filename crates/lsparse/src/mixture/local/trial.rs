//! What a visit gathers for clusters that might be: the pieces of those proposed for a split, the entropy that merging two
//! would cost, and who would take the rows of one that is given up.
//!
//! All of it follows from the responsibilities that rows have anyway, so that at the end of a lap the change of the
//! objective by a move is known exactly. The cost is a few weights for each cluster that a row keeps, not K.

use lsparse_kernels::Real;
use rayon::prelude::*;

use crate::backend::with_buffers;
use crate::data::{Rows, Scalar};
use crate::likelihood::{Clusters, Heir, Likelihood, Members, Scratch, Trial, accumulate_completed, lacks_values};
use crate::mixture::{Mixture, MixtureParams, Panel};
use crate::training::observe::Aside;
use crate::training::responsibilities::Responsibilities;

/// Rows of a parallel task.
const ROWS_A_TASK: usize = 1024;

/// What is proposed: a few clusters for each that may be split, with the logarithms of their sizes.
pub struct Proposals<'a, T: Real> {
    /// Those of one cluster after those of another.
    pub pieces: Option<&'a dyn Clusters<T>>,
    /// One a piece.
    pub log_size: &'a [f64],
    /// The pairs that may be merged, ascending; all where none are named.
    pub pairs: Option<&'a [(u32, u32)]>,
}

/// A panel whose responsibilities are known.
pub struct Responded<'a, T> {
    pub rows: &'a Rows<T>,
    pub row_weights: &'a [f64],
    pub resp: &'a Responsibilities<T>,
    pub members: &'a Members<T>,
    /// Clusters that a row may keep, where there are as many.
    pub sparsity: usize,
}

/// Buffers of one thread.
#[derive(Default)]
struct PieceScratch<T> {
    scratch: Scratch<T>,
    row: Vec<u32>,
    value: Vec<T>,
    /// Log weights of a tile's rows, piece by piece.
    weight: Vec<T>,
    /// Shares of one row.
    share: Vec<f64>,
    /// Rows of each piece and what they give to it.
    pieces: Vec<(Vec<u32>, Vec<T>)>,
}

/// Add what a panel has to say of what is proposed, where something is; the seconds of computing that it took.
pub fn look_at<T: Scalar>(
    mixture: &Mixture<T>,
    params: &MixtureParams<T>,
    panel: &Panel<T>,
    trial: Option<&mut Trial>,
) -> f64 {
    let (Some(growth), Some(trial)) = (&params.growth, trial) else { return 0.0 };
    let Panel { rows, row_weights, resp, members, .. } = panel;
    let sparsity = mixture.finding.as_ref().map_or(0, |finding| finding.sparsity);
    let panel = Responded { rows, row_weights, resp, members, sparsity };
    let mut aside = Aside::begin();
    let clusters = params.clusters.as_ref();
    aside.work(|| observe((mixture.likelihood.as_ref(), clusters), &growth.proposals(), &panel, trial));
    aside.seconds()
}

/// A family, and the clusters that rows have their responsibilities by.
type Present<'a, T> = (&'a dyn Likelihood<T>, &'a dyn Clusters<T>);

/// Add what a panel has to say of the proposals.
pub fn observe<T: Scalar>(
    present: Present<'_, T>,
    proposals: &Proposals<'_, T>,
    panel: &Responded<'_, T>,
    trial: &mut Trial,
) {
    split(present, proposals, panel, trial);
    let pairs = pair_entropies(panel.resp, panel.row_weights, proposals.pairs);
    let leaving: Vec<u32> = trial.leaving.iter().map(|&(k, _)| k).collect();
    let (entropies, heirs) = inherit(present, &leaving, panel);
    let leaving = leaving.into_iter().zip(entropies).collect();
    trial.add_scaled(&Trial { generation: trial.generation, pairs, leaving, heirs, ..Trial::default() }, 1.0);
}

/// What a row gives to a proposed cluster goes to its pieces as they suit it; where the row would then keep more clusters
/// than it may, to as many of the best ones as it has room for. So the responsibilities are some that rows could have.
fn split<T: Scalar>(
    (likelihood, present): Present<'_, T>,
    proposals: &Proposals<'_, T>,
    panel: &Responded<'_, T>,
    trial: &mut Trial,
) {
    let Some(clusters) = proposals.pieces else { return };
    let width = likelihood.stat_width();
    let most = panel.resp.sparsity.max(panel.sparsity);
    let room: Vec<usize> = (0..panel.resp.len()).map(|n| most.saturating_sub(kept(panel.resp, n).count())).collect();
    let negligible = T::EPSILON / 2.0;
    let (mut counts, mut stats) = (&mut trial.piece_counts[..], &mut trial.piece_stats[..]);
    let of_splits = trial.piece_begin.windows(2).map(|ends| {
        let pieces = ends[0] as usize..ends[1] as usize;
        let of_split = counts.split_off_mut(..pieces.len()).zip(stats.split_off_mut(..pieces.len() * width));
        (pieces, of_split.unwrap_or_default())
    });
    let of_splits: Vec<_> = of_splits.zip(&trial.splits).zip(&mut trial.split_entropy).collect();
    of_splits.into_par_iter().for_each(|(((pieces, (counts, stats)), &k), entropy)| {
        with_buffers(|PieceScratch { scratch, row, value, weight, share, pieces: members }: &mut PieceScratch<T>| {
            members.resize_with(members.len().max(pieces.len()), Default::default);
            for stretch in &panel.members.stretches {
                panel.members.gather(stretch, k as usize, row, value);
                *entropy -= entropy_of_gaps((present, k), panel.rows, (row, value), scratch, width);
                members.iter_mut().for_each(|(rows, values)| (rows.clear(), values.clear()).0);
                for (row, value) in row.chunks(T::TILE).zip(value.chunks(T::TILE)) {
                    weight.resize(pieces.len() * row.len(), T::ZERO);
                    for (piece, weight) in pieces.clone().zip(weight.chunks_exact_mut(row.len())) {
                        clusters.log_lik_of(piece, panel.rows, row, scratch, weight);
                    }
                    for (i, (&n, &r)) in row.iter().zip(value).enumerate() {
                        let of_row = weight[i..].iter().step_by(row.len()).map(|weight| weight.to_f64());
                        share.clear();
                        share.extend(
                            of_row.zip(&proposals.log_size[pieces.clone()]).map(|(weight, size)| weight + size),
                        );
                        shares_of(share, room[n as usize] + 1);
                        for ((rows, values), &share) in members.iter_mut().zip(&*share).filter(|of| *of.1 > negligible)
                        {
                            rows.push(n);
                            values.push(T::from_f64(r.to_f64() * share));
                            *entropy += r.to_f64() * entropy_of(share);
                        }
                    }
                }
                for (piece, (rows, values)) in members.iter().enumerate().filter(|(_, (rows, _))| !rows.is_empty()) {
                    counts[piece] += values.iter().map(|v| v.to_f64()).sum::<f64>();
                    let stat = &mut stats[piece * width..(piece + 1) * width];
                    let by = (clusters, pieces.start + piece);
                    *entropy += accumulate_completed(likelihood, by, panel.rows, (rows, values), scratch, stat);
                }
            }
        });
    });
}

/// The shares of clusters with these log weights in their place, where `most` of them may have one. Of equals the first.
fn shares_of(weight: &mut [f64], most: usize) {
    let best = weight.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let is_before = |weight: &[f64], a: usize, b: usize| weight[a] > weight[b] || (weight[a] == weight[b] && a < b);
    if most < weight.len() {
        let rank = |k: usize| (0..weight.len()).filter(|&other| is_before(weight, other, k)).count();
        let beyond: Vec<usize> = (0..weight.len()).filter(|&k| rank(k) >= most).collect();
        beyond.into_iter().for_each(|k| weight[k] = f64::NEG_INFINITY);
    }
    weight.iter_mut().for_each(|weight| *weight = (*weight - best).exp());
    let sum: f64 = weight.iter().sum();
    weight.iter_mut().for_each(|weight| *weight /= sum);
}

/// The responsibilities of a row that count.
fn kept<'a, T: Real>(resp: &'a Responsibilities<T>, n: usize) -> impl Iterator<Item = (u32, f64)> + Clone + 'a {
    let negligible = T::EPSILON / 2.0;
    let (index, value) = resp.row(n);
    index.iter().zip(value).map(|(&k, r)| (k, r.to_f64())).filter(move |(_, r)| *r > negligible)
}

/// -r log r.
fn entropy_of(r: f64) -> f64 {
    if r > 0.0 { -r * r.ln() } else { 0.0 }
}

/// What the entropy changes by where two clusters become one, summed over the rows that hold both: for those pairs that are
/// named, or for all that some row holds.
pub(crate) fn pair_entropies<T: Scalar>(
    resp: &Responsibilities<T>,
    row_weights: &[f64],
    named: Option<&[(u32, u32)]>,
) -> Vec<(u32, u32, f64)> {
    let tasks: Vec<usize> = (0..resp.len()).step_by(ROWS_A_TASK).collect();
    if named.is_some_and(<[_]>::is_empty) {
        return Vec::new();
    }
    if let Some(named) = named {
        let of_tasks: Vec<Vec<f64>> = tasks.into_par_iter().map(|n| of_named(resp, row_weights, named, n)).collect();
        let sum = |at: usize| of_tasks.iter().map(|sums| sums[at]).sum();
        return named.iter().enumerate().map(|(at, &(a, b))| (a, b, sum(at))).collect();
    }
    let num = resp.index.iter().max().map_or(0, |&last| last as usize + 1);
    let of_task = |first: usize| {
        with_buffers(|PairScratch { sums, row }: &mut PairScratch| {
            sums.begin(num);
            for n in first..resp.len().min(first + ROWS_A_TASK) {
                let weight = row_weights.get(n).copied().unwrap_or(1.0);
                row.clear();
                row.extend(kept(resp, n).map(|(k, r)| (k, r, entropy_of(r))));
                for (at, &(a, r, of_r)) in row.iter().enumerate() {
                    for &(b, s, of_s) in &row[at + 1..] {
                        sums.add(a.min(b), a.max(b), weight * (entropy_of(r + s) - of_r - of_s));
                    }
                }
            }
            sums.take()
        })
    };
    let of_tasks: Vec<_> = tasks.into_par_iter().map(of_task).collect();
    with_buffers(|PairScratch { sums, .. }: &mut PairScratch| {
        sums.begin(num);
        of_tasks.into_iter().flatten().for_each(|(a, b, change)| sums.add(a, b, change));
        sums.take()
    })
}

/// Buffers of one thread.
#[derive(Default)]
struct PairScratch {
    sums: PairSums,
    /// Clusters that a row keeps, with its share and what that has of the entropy.
    row: Vec<(u32, f64, f64)>,
}

/// Clusters that sums of pairs have a table for.
const MOST_IN_TABLE: usize = 1024;

/// Sums of pairs, each in the order in which its numbers come: in a table where there are few clusters.
#[derive(Default)]
struct PairSums {
    num: usize,
    table: Vec<f64>,
    is_there: Vec<bool>,
    there: Vec<u32>,
    /// What comes, where there are too many clusters for a table.
    found: Vec<(u32, u32, f64)>,
}

impl PairSums {
    /// Nothing has come yet.
    fn begin(&mut self, num: usize) {
        self.num = num;
        let len = if num <= MOST_IN_TABLE { num * num } else { 0 };
        if self.table.len() < len {
            self.table.resize(len, 0.0);
            self.is_there.resize(len, false);
        }
    }

    fn add(&mut self, a: u32, b: u32, change: f64) {
        if self.num > MOST_IN_TABLE {
            self.found.push((a, b, change));
            return;
        }
        let at = a as usize * self.num + b as usize;
        if self.is_there[at] {
            self.table[at] += change;
        } else {
            (self.table[at], self.is_there[at]) = (change, true);
            self.there.push(at as u32);
        }
    }

    /// One entry a pair, ascending.
    fn take(&mut self) -> Vec<(u32, u32, f64)> {
        if self.num > MOST_IN_TABLE {
            return summed(std::mem::take(&mut self.found));
        }
        self.there.sort_unstable();
        let (num, table, is_there) = (self.num as u32, &self.table, &mut self.is_there);
        let take = |at: u32| {
            is_there[at as usize] = false;
            (at / num, at % num, table[at as usize])
        };
        self.there.drain(..).map(take).collect()
    }
}

/// The same of the pairs that are named, for the rows of a task.
fn of_named<T: Scalar>(
    resp: &Responsibilities<T>,
    row_weights: &[f64],
    named: &[(u32, u32)],
    first: usize,
) -> Vec<f64> {
    let last = named.iter().map(|&(a, b)| a.max(b)).chain(resp.index.iter().copied()).max().unwrap_or(0);
    let (mut sums, mut share) = (vec![0.0; named.len()], vec![0.0; last as usize + 1]);
    for n in first..resp.len().min(first + ROWS_A_TASK) {
        let weight = row_weights.get(n).copied().unwrap_or(1.0);
        kept(resp, n).for_each(|(k, r)| share[k as usize] = r);
        for (sum, &(a, b)) in sums.iter_mut().zip(named) {
            let (r, s) = (share[a as usize], share[b as usize]);
            if r > 0.0 && s > 0.0 {
                *sum += weight * (entropy_of(r + s) - entropy_of(r) - entropy_of(s));
            }
        }
        kept(resp, n).for_each(|(k, _)| share[k as usize] = 0.0);
    }
    sums
}

/// One entry a pair, summed in the order in which they come.
fn summed(mut found: Vec<(u32, u32, f64)>) -> Vec<(u32, u32, f64)> {
    found.sort_by_key(|pair| (pair.0, pair.1));
    found.dedup_by(|next, kept| {
        let same = (next.0, next.1) == (kept.0, kept.1);
        if same {
            kept.2 += next.2;
        }
        same
    });
    found
}

/// For each cluster that may be given up: what the entropy changes by, and what its rows bring to the clusters they keep
/// besides. Without it a row's other responsibilities are what they were in proportion, which is the best for them.
fn inherit<T: Scalar>(
    (likelihood, present): Present<'_, T>,
    leaving: &[u32],
    panel: &Responded<'_, T>,
) -> (Vec<f64>, Vec<Heir>) {
    let of_cluster = |&k: &u32| {
        let (mut change, mut gifts) = (0.0, Vec::new());
        let (mut row, mut value, mut scratch) = (Vec::new(), Vec::new(), Scratch::default());
        let width = likelihood.stat_width();
        for stretch in &panel.members.stretches {
            panel.members.gather(stretch, k as usize, &mut row, &mut value);
            change -= entropy_of_gaps((present, k), panel.rows, (&row, &value), &mut scratch, width);
            for &n in &row {
                let weight = panel.row_weights.get(n as usize).copied().unwrap_or(1.0);
                // However little the others have: what a row is far from it is not as far from as from the rest.
                let (index, value) = panel.resp.row(n as usize);
                let others = index.iter().zip(value).map(|(&other, r)| (other, r.to_f64()));
                let others = others.filter(|&(other, r)| other != k && r > 0.0);
                let (left, own) = (others.clone().map(|(_, r)| r).sum::<f64>(), entropy_of_row(panel.resp, n as usize));
                if left > 0.0 {
                    change -= weight * own;
                    for (other, r) in others.filter(|(_, r)| r / left > T::EPSILON / 2.0) {
                        change += weight * entropy_of(r / left);
                        gifts.push((other, n, weight * (r / left - r)));
                    }
                } else if let Some(&other) = panel.resp.row(n as usize).0.iter().find(|&&other| other != k) {
                    change -= weight * own;
                    gifts.push((other, n, weight));
                }
            }
        }
        gifts.sort_by_key(|&(other, n, _)| (other, n));
        let heirs: Vec<Heir> = gifts
            .chunk_by(|a, b| a.0 == b.0)
            .map(|gifts| {
                let rows: Vec<u32> = gifts.iter().map(|gift| gift.1).collect();
                let values: Vec<T> = gifts.iter().map(|gift| T::from_f64(gift.2)).collect();
                let (to, mut stat) = (gifts[0].0, vec![0.0; width]);
                let given = (&rows[..], &values[..]);
                change += accumulate_completed(
                    likelihood,
                    (present, to as usize),
                    panel.rows,
                    given,
                    &mut scratch,
                    &mut stat,
                );
                Heir { from: k, to, count: values.iter().map(|v| v.to_f64()).sum(), stat }
            })
            .collect();
        (change, heirs)
    };
    let of_clusters: Vec<(f64, Vec<Heir>)> = leaving.par_iter().map(of_cluster).collect();
    let (entropies, heirs): (Vec<f64>, Vec<Vec<Heir>>) = of_clusters.into_iter().unzip();
    (entropies, heirs.into_iter().flatten().collect())
}

/// The entropy of what is missing in rows as cluster k completes them, times their shares.
fn entropy_of_gaps<T: Scalar>(
    (clusters, k): (&dyn Clusters<T>, u32),
    rows: &Rows<T>,
    (members, shares): (&[u32], &[T]),
    scratch: &mut Scratch<T>,
    width: usize,
) -> f64 {
    if !clusters.completes_rows() {
        return 0.0;
    }
    let lacking = members.iter().zip(shares).filter(|(n, _)| lacks_values(rows, **n as usize));
    let (members, shares): (Vec<u32>, Vec<T>) = lacking.unzip();
    clusters.accumulate_expected(k as usize, rows, &members, &shares, scratch, &mut vec![0.0; width])
}

fn entropy_of_row<T: Real>(resp: &Responsibilities<T>, n: usize) -> f64 {
    kept(resp, n).map(|(_, r)| entropy_of(r)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sums of pairs are those of each pair's numbers in their order, by a table and by sorting.
    #[test]
    fn sums_of_pairs_are_in_the_order_of_their_numbers() {
        let numbers: Vec<(u32, u32, f64)> =
            (0..500u32).map(|i| (i * 7 % 5, 5 + i * 11 % 6, f64::from(i * i % 97).sqrt() - 4.0)).collect();
        let mut expected: Vec<(u32, u32, f64)> = Vec::new();
        for (a, b) in (0..5).flat_map(|a| (5..11).map(move |b| (a, b))) {
            let of_pair = numbers.iter().filter(|pair| (pair.0, pair.1) == (a, b)).map(|pair| pair.2);
            expected.extend(of_pair.reduce(|sum, change| sum + change).map(|sum| (a, b, sum)));
        }
        let mut sums = PairSums::default();
        for num in [11, MOST_IN_TABLE + 1, 20, 11] {
            sums.begin(num);
            numbers.iter().for_each(|&(a, b, change)| sums.add(a, b, change));
            assert_eq!(sums.take(), expected, "{num}");
        }
    }
}
