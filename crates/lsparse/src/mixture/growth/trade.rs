//! Trades while a mixture of a given K trains: one cluster becomes two and two others become one, where the whole objective
//! rises by it.
//!
//! When a run comes near to rest, a sample of the rows says which clusters might be split and which pairs be merged; the
//! next lap gathers the statistics of those few beside the usual ones, and trades are judged by the exact change of the
//! objective. What gains is made, and the run goes on to rest again, for a few rounds at most.
//!
//! A merge that gains by itself, as that of two clusters in the place of one, leaves a cluster to spare, and the split that
//! takes it need not gain. But of clusters that the objective has no use for it likes best those that are nearly empty, and
//! held-out rows do not: where fewer clusters would gain more than the split does, its pieces must have rows enough to tell
//! a shape. And rows of the sample that are left out must gain by a trade too (`foretell.rs`).

use std::sync::Arc;

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::foretell::Foretelling;
use super::propose::{Cuts, Effort, parts_of};
use super::{Growth, GrowthState, Judge, Piece, Proposal, learn};
use crate::clusters::seed::{Sample, second_choices};
use crate::data::{Dealt, Scalar};
use crate::error::Result;
use crate::likelihood::{ClusterSummary, Estimate, Likelihood, Trial, log_density};
use crate::mixture::local::trial::pair_entropies;
use crate::mixture::{Mixture, MixtureParams, respond};
use crate::training::moves::{Changes, MoveKind};
use crate::training::responsibilities::Responsibilities;
use crate::training::summary::Summary;

/// Rounds of trades at most. The first brings nine tenths of what eight do, and each takes laps to rest again; so there is
/// another only where a merge that gains by itself had part in the last.
const MOST_ROUNDS: u32 = 4;

/// A lap that gains less than so many times what counts as rest is near it: near enough to tell what to trade, and the laps
/// to rest are made once, after the trades.
const NEAR_REST: f64 = 6.0;

/// One in so many clusters may be split in a round.
const SPLITS: usize = 4;

/// Rows of the sample: so many a cluster, or where it has a mean alone, and in all; and where clusters have many numbers so
/// many for each row that a shape takes.
const ROWS_A_CLUSTER: usize = 200;
const ROWS_A_MEAN: usize = 100;
const ROWS_IN_ALL: usize = 5000;
const ROWS_A_SHAPE: usize = 12;

/// Fewer rows of a cluster in the sample do not tell how to split it.
const LEAST_OF_A_CLUSTER: usize = 8;

/// Clusters that a merge with is worked out for, those that are next best for most rows.
const PARTNERS: usize = 2;

/// What a row may gain over a cut in two halves where it is worked on: a cut that needs more is given up at once.
const LATER_GAIN: f64 = 0.5;

/// What all rows make of a split may be so many times what a sample does.
const HOPE: f64 = 1.5;

/// Rows that are left out to compare priors: one in so many of all, within limits, but never more than one in four. What one
/// of them is to gain on average, which is to be more than it is uncertain by.
const ONE_LEFT_OUT_IN: usize = 10;
const FEWEST_LEFT_OUT: usize = 20;
const MOST_LEFT_OUT: usize = 2000;
const LEAST_LEFT_OUT: f64 = 0.3;

/// How far trades have come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Trading {
    rounds: u32,
    /// The objective a row at the end of the last lap; none where that is not one to compare with.
    objective: Option<f64>,
    /// There is nothing more to be tried.
    over: bool,
}

/// At the end of a lap: judge the trades that were proposed, or propose some where the run is near rest, which is a lap
/// that gains less than `rest` a row.
pub fn trades<T: Scalar>(
    mixture: &mut Mixture<T>,
    params: &mut MixtureParams<T>,
    total: &ClusterSummary,
    data: &Dealt<'_>,
    laps: usize,
    rest: f64,
) -> Result<Option<Changes>> {
    let Some(growth) = params.growth.clone() else { return Ok(None) };
    let mut trading = growth.state.trading.unwrap_or_default();
    let (mut state, mut changes, mut had_to_spare) = (growth.state.clone(), Changes::default(), false);
    if state.follows && follow(mixture, params, &mut state, total)? {
        params.growth = Some(Arc::new(Growth::of(state.clone(), mixture.likelihood.as_ref())?));
    }
    if trading.over {
        return Ok(None);
    }
    let rows = total.total_weight();
    if state.splits.is_empty() {
        let objective = mixture.step.objective(mixture, params, total).total() / rows;
        let gain = trading.objective.map_or(f64::INFINITY, |before| objective - before);
        trading.objective = Some(objective);
        if gain < NEAR_REST * rest {
            if trading.rounds == 0 && foretell_prior(mixture, params, &state, (total, data))? {
                state.follows = true;
                follow(mixture, params, &mut state, total)?;
            }
            propose(mixture, params, &mut state, (total, data), laps, rest * rows)?;
            trading = Trading { rounds: trading.rounds + 1, objective: None, over: state.splits.is_empty() };
        }
    } else {
        // In the lap after a batch was taken out, say, there may be nothing to go by.
        if let Some(trial) = total.trial.as_deref().filter(|trial| trial.generation == state.generation) {
            let mut judge = Judge::new(mixture, total, trial);
            judge.consider(Some(&[]))?;
            had_to_spare = judge.trade(rest * rows)?;
            let (plan, moves) = judge.finish(&mut state.ids, &mut state.next_id);
            changes.remap = (!moves.is_empty()).then_some(plan);
            changes.moves = moves;
        }
        trading.over = !had_to_spare || trading.rounds >= MOST_ROUNDS;
        (state.splits, state.pairs, state.beside) = (Vec::new(), Vec::new(), None);
    }
    state.generation += 1;
    state.trading = Some(trading);
    changes.restless = !(changes.moves.is_empty() && state.splits.is_empty());
    params.growth = Some(Arc::new(Growth::of(state, mixture.likelihood.as_ref())?));
    Ok(changes.restless.then_some(changes))
}

/// Learn the prior from the clusters; says whether that and they are others now.
fn follow<T: Scalar>(
    mixture: &mut Mixture<T>,
    params: &mut MixtureParams<T>,
    state: &mut GrowthState,
    total: &ClusterSummary,
) -> Result<bool> {
    let is_another = learn(mixture, state, total)?;
    if is_another {
        let ClusterSummary { counts, stats, .. } = total;
        params.clusters = mixture.likelihood.global_step(mixture.estimate, counts, stats, None)?;
    }
    Ok(is_another)
}

/// Whether rows that are left out have a higher density under a prior that follows the clusters.
///
/// The objective is always higher under such a prior, and so are rows to come where clusters are alike in scale. But where
/// they differ by orders of magnitude, one scale for all makes the narrow ones too wide.
fn foretell_prior<T: Scalar>(
    mixture: &mut Mixture<T>,
    params: &MixtureParams<T>,
    state: &GrowthState,
    (total, data): (&ClusterSummary, &Dealt<'_>),
) -> Result<bool> {
    if mixture.finding.as_ref().is_none_or(|finding| finding.prior.is_none()) {
        return Ok(false);
    }
    let (wanted, sample) = take_sample(mixture, total, data)?;
    let num_rows = data.source.num_rows();
    let most = (num_rows / ONE_LEFT_OUT_IN).clamp(FEWEST_LEFT_OUT, MOST_LEFT_OUT).min(num_rows / 4);
    let step = sample.rows.len().div_ceil(most.max(1));
    let left_out = sample.of(&(0..sample.rows.len() as u32).step_by(step).collect::<Vec<_>>());
    let likelihood = mixture.likelihood.as_ref();
    let mut resp = Responsibilities::default();
    let log_pi = &params.frequencies.log_pi;
    respond(params.clusters.as_ref(), log_pi, &left_out.rows, params.search.sparsity, &mut resp)?;
    let whole = left_out.completed(params.clusters.as_ref(), &resp, wanted as u64);
    let mut others = ClusterSummary { trial: None, ..total.clone() };
    others.add_scaled(&parts_of(likelihood, &whole, &resp, total.num_clusters(), 1.0), -1.0);
    let log_pi: Vec<f64> =
        others.counts.iter().map(|count| (count / others.total_weight()).max(f64::MIN_POSITIVE).ln()).collect();
    let scores = |likelihood: &dyn Likelihood<T>| -> Result<Vec<f64>> {
        let arrays = likelihood.global_step(Estimate::Posterior, &others.counts, &others.stats, None)?.arrays();
        log_density(likelihood.clusters_of(&arrays)?.as_ref(), &log_pi, &left_out.rows)
    };
    let mut gains = false;
    if let Some(settled) = mixture.finding.as_ref().and_then(|finding| finding.prior.as_ref()) {
        let kind = likelihood.kind();
        let learned = kind.build::<T>(&settled.times(settled.learn::<T>(kind, state.factors, &others)));
        // What cannot be worked out is not for the better.
        gains = match (scores(learned.as_ref()), scores(likelihood)) {
            (Ok(learned), Ok(present)) if left_out.rows.len() >= FEWEST_LEFT_OUT => {
                let gain: Vec<f64> = learned.iter().zip(&present).map(|(a, b)| a - b).collect();
                let mean = |of: &dyn Fn(f64) -> f64| {
                    let sum: f64 = gain.iter().enumerate().map(|(n, gain)| left_out.weight(n) * of(*gain)).sum();
                    sum / left_out.total_weight()
                };
                let average = mean(&|gain| gain);
                let uncertain = (mean(&|gain| (gain - average).powi(2)) / gain.len() as f64).sqrt();
                average > LEAST_LEFT_OUT && average > uncertain
            }
            _ => false,
        };
    }
    if let Some(finding) = &mut mixture.finding {
        finding.sample = Some((wanted, sample));
    }
    Ok(gains)
}

/// The sample of rows that trades are looked for in, and how many were wanted.
fn take_sample<T: Scalar>(
    mixture: &mut Mixture<T>,
    total: &ClusterSummary,
    data: &Dealt<'_>,
) -> Result<(usize, Sample<T>)> {
    let likelihood = mixture.likelihood.as_ref();
    let wanted = (most_rows(likelihood, total.num_clusters()) * total.num_clusters()).min(data.source.num_rows());
    let Some(finding) = mixture.finding.as_mut() else { unreachable!("trades are of what is looked for") };
    // Rows that depend on the seed and on their number alone, so that a run that is resumed has the same.
    let sample = match finding.sample.take() {
        Some((_, sample)) => sample,
        None => {
            let seed = finding.seed;
            Sample::draw(&mixture.design(), data, wanted, &mut ChaCha8Rng::seed_from_u64(seed))?
        }
    };
    Ok((wanted, sample))
}

/// Rows of the sample for each of so many clusters.
fn most_rows<T: Scalar>(likelihood: &dyn Likelihood<T>, num: usize) -> usize {
    let family = likelihood.kind().family();
    let of_shape = ROWS_A_SHAPE * (family.least_rows)(likelihood.dim(), 1);
    let of_cluster = if family.shares_covariance { ROWS_A_MEAN } else { ROWS_A_CLUSTER.max(of_shape) };
    of_cluster.max(ROWS_IN_ALL / num)
}

/// Propose the trades that gain by a sample of the rows, no cluster having part in two.
fn propose<T: Scalar>(
    mixture: &mut Mixture<T>,
    params: &MixtureParams<T>,
    state: &mut GrowthState,
    (total, data): (&ClusterSummary, &Dealt<'_>),
    laps: usize,
    least: f64,
) -> Result<()> {
    let num = total.num_clusters();
    let Some(seed) = mixture.finding.as_ref().filter(|_| num > 2).map(|finding| finding.seed) else { return Ok(()) };
    let (wanted, sample) = take_sample(mixture, total, data)?;
    let (likelihood, most_rows) = (mixture.likelihood.as_ref(), most_rows(mixture.likelihood.as_ref(), num));
    let mut resp = Responsibilities::default();
    respond(params.clusters.as_ref(), &params.frequencies.log_pi, &sample.rows, 2, &mut resp)?;
    let whole = sample.completed(params.clusters.as_ref(), &resp, seed);
    let view = View { mixture, total, sample: &whole, resp: &resp };
    let merges = view.merges()?;
    let mut splits = view.splits(&merges, most_rows, least, seed ^ ((laps as u64) << 40))?;
    let is_empty = |k: &u32| total.counts[*k as usize] < 1.0;
    let of_rows = merges.iter().find(|merge| !merge.clusters.iter().any(is_empty));
    let fewer = of_rows.map_or(0.0, |merge| merge.gain);
    splits.retain(|split| split.gain > fewer || tell_shapes(likelihood, split.pieces.iter().map(|piece| piece.0)));
    let mut foretelling = None;
    let mut of_merges: Vec<Option<f64>> = vec![None; merges.len()];
    let mut foretold = |split: &Split, merge: usize| -> Result<f64> {
        let foretelling = match &mut foretelling {
            Some(there) => there,
            none => none.insert(Foretelling::new(likelihood, params.clusters.as_ref(), total, (&whole, &resp))?),
        };
        let of_merge = match (of_merges[merge], &merges[merge].clusters[..]) {
            (Some(known), _) => known,
            (None, &[a, b]) => foretelling.gain_of_merge((a, b))?,
            _ => 0.0,
        };
        of_merges[merge] = Some(of_merge);
        Ok(of_merge + foretelling.gain_of_split(split.cluster, &split.pieces, most_rows)?)
    };
    // One mean more or less is no shape to be wrong about; and what cannot be worked out is not for the better.
    let is_good = |split: &Split, merge: usize| view.shares() || foretold(split, merge).is_ok_and(|gain| gain > 0.0);
    choose(state, splits, &merges, num.div_ceil(SPLITS), least, is_good);
    if !state.splits.is_empty() {
        state.set_beside(mixture.likelihood.as_ref(), total);
    }
    if let Some(finding) = &mut mixture.finding {
        finding.sample = Some((wanted, sample));
    }
    Ok(())
}

/// Whether pieces of so many rows are more than what a prior makes of a few.
pub fn tell_shapes<T: Scalar>(likelihood: &dyn Likelihood<T>, mut counts: impl Iterator<Item = f64>) -> bool {
    let least = (likelihood.kind().family().least_rows)(likelihood.dim(), 1) as f64;
    counts.all(|count| count >= least)
}

/// A sample of the rows under the present clusters.
struct View<'a, T: Scalar> {
    mixture: &'a Mixture<T>,
    total: &'a ClusterSummary,
    sample: &'a Sample<T>,
    /// The two best clusters of each row.
    resp: &'a Responsibilities<T>,
}

/// Fewer clusters: two become one, or one that has no rows goes.
struct Merge {
    gain: f64,
    clusters: Vec<u32>,
}

/// A cluster that becomes two.
struct Split {
    gain: f64,
    cluster: u32,
    entropy: f64,
    pieces: Vec<Piece>,
}

impl<T: Scalar> View<'_, T> {
    fn likelihood(&self) -> &dyn Likelihood<T> {
        self.mixture.likelihood.as_ref()
    }

    /// Whether what a cluster is worth depends on the others.
    fn shares(&self) -> bool {
        self.likelihood().kind().family().shares_covariance
    }

    /// What fewer clusters would gain, the best first.
    fn merges(&self) -> Result<Vec<Merge>> {
        let factor = self.total.total_weight() / self.sample.total_weight().max(f64::MIN_POSITIVE);
        // One where each costs a look at all clusters.
        let partners = if self.shares() { 1 } else { PARTNERS };
        let mut near: Vec<(u32, u32)> = Vec::new();
        for (a, found) in (0u32..).zip(second_choices(self.resp, self.total.num_clusters())) {
            near.extend(found.into_iter().take(partners).map(|b| b as u32).map(|b| (a.min(b), a.max(b))));
        }
        near.sort_unstable();
        near.dedup();
        let mut trial =
            Trial { pairs: pair_entropies(self.resp, &self.sample.weights, Some(&near)), ..Trial::default() };
        trial.scale(factor);
        let mut judge = Judge::new(self.mixture, self.total, &trial);
        judge.consider(Some(&[]))?;
        let gains = judge.gains()?.into_iter();
        let mut merges: Vec<Merge> = gains.map(|(_, clusters, gain)| Merge { gain, clusters }).collect();
        merges.sort_by(|a, b| b.gain.total_cmp(&a.gain).then_with(|| a.clusters.cmp(&b.clusters)));
        Ok(merges)
    }

    /// The splits of clusters that a merge might be traded for.
    fn splits(&self, merges: &[Merge], most_rows: usize, least: f64, seed: u64) -> Result<Vec<Split>> {
        let (num, likelihood) = (self.total.num_clusters(), self.likelihood());
        let effort = if self.shares() { &Effort::LEAST } else { &Effort::LITTLE };
        let mut rows_of: Vec<Vec<u32>> = vec![Vec::new(); num];
        (0u32..).zip(self.resp.index.chunks_exact(2)).for_each(|(n, best)| rows_of[best[0] as usize].push(n));
        let begin = |(cluster, all): (usize, &Vec<u32>)| {
            let some: Vec<u32> = all.iter().step_by(all.len().div_ceil(most_rows).max(1)).copied().collect();
            if some.len() < LEAST_OF_A_CLUSTER {
                return Ok(None);
            }
            let mut rng = ChaCha8Rng::seed_from_u64(seed ^ ((cluster as u64) << 32));
            let (rows, weight) = (self.sample.of(&some), self.total.counts[cluster]);
            let cuts = Cuts::begin(likelihood, rows, weight, 2, effort, &mut rng)?;
            Ok(Some((cluster as u32, cuts)))
        };
        let begun: Vec<Option<_>> = rows_of.par_iter().enumerate().map(begin).collect::<Result<_>>()?;
        let mut begun: Vec<(u32, Cuts<T>)> = begun.into_iter().flatten().collect();
        let first = self.weighed(&mut begun)?;
        let of_merge = merges.first().map_or(f64::NEG_INFINITY, |merge| merge.gain);
        let may_pay = |cluster: u32| {
            let gain =
                first.iter().find(|split| split.cluster == cluster).map_or(f64::NEG_INFINITY, |split| split.gain);
            hoped(gain + LATER_GAIN * self.total.counts[cluster as usize]) + of_merge > least
        };
        begun.retain(|(cluster, _)| may_pay(*cluster));
        begun.par_iter_mut().try_for_each(|(_, cuts)| cuts.finish(likelihood, effort))?;
        self.weighed(&mut begun)
    }

    /// What cuts of clusters, ascending, come to so far.
    fn weighed(&self, cuts: &mut [(u32, Cuts<T>)]) -> Result<Vec<Split>> {
        let (likelihood, shares) = (self.likelihood(), self.shares());
        let of_cluster = |(cluster, cuts): &mut (u32, Cuts<T>)| {
            let gain = if shares { 0.0 } else { cuts.gain(likelihood)? };
            let of_best = |best: &super::propose::Attempt<T>| (best.pieces(), best.entropy);
            let Some((pieces, entropy)) = cuts.best().map(of_best) else { return Ok(None) };
            Ok(Some(Split { gain, cluster: *cluster, entropy, pieces }))
        };
        let splits: Vec<Option<Split>> = cuts.par_iter_mut().map(of_cluster).collect::<Result<_>>()?;
        let mut splits: Vec<Split> = splits.into_iter().flatten().collect();
        if shares {
            self.weigh_beside(&mut splits)?;
        }
        Ok(splits)
    }

    /// What splits gain where clusters share statistics: beside all others.
    fn weigh_beside(&self, splits: &mut [Split]) -> Result<()> {
        let total = self.total;
        let sizes = splits.iter().map(|split| (split.cluster, split.pieces.len()));
        let mut trial = Trial::new(0, sizes, &[], total.width);
        trial.split_entropy = splits.iter().map(|split| split.entropy).collect();
        (trial.piece_counts, trial.piece_stats) = (Vec::new(), Vec::new());
        for split in splits.iter() {
            // What the sample is off by is shared out, so that the pieces are those of all rows.
            let all: f64 = split.pieces.iter().map(|piece| piece.0).sum();
            let sum = |d: usize| split.pieces.iter().map(|piece| piece.1[d]).sum::<f64>();
            let stat = total.stat(split.cluster as usize).iter().enumerate();
            let off: Vec<f64> = stat.map(|(d, s)| s - sum(d)).collect();
            for (count, stat) in &split.pieces {
                trial.piece_counts.push(*count);
                trial.piece_stats.extend(stat.iter().zip(&off).map(|(s, off)| s + off * count / all));
            }
        }
        let with_pieces = ClusterSummary { trial: Some(Box::new(trial.clone())), ..total.clone() };
        let mut judge = Judge::new(self.mixture, &with_pieces, &trial);
        judge.consider(Some(&[]))?;
        splits.iter_mut().for_each(|split| split.gain = f64::NEG_INFINITY);
        for (_, touches, gain) in judge.gains()?.into_iter().filter(|(kind, ..)| *kind == MoveKind::Birth) {
            if let [cluster] = touches[..] {
                splits.iter_mut().filter(|split| split.cluster == cluster).for_each(|split| split.gain = gain);
            }
        }
        Ok(())
    }
}

/// What a split that gains so much by a sample may gain by all rows.
fn hoped(gain: f64) -> f64 {
    gain.max(HOPE * gain)
}

/// Propose the splits that are hoped to pay for a merge, the two that gain most together first, and those merges; of a split
/// and the number of a merge `is_good` says whether new rows agree.
fn choose(
    state: &mut GrowthState,
    mut splits: Vec<Split>,
    merges: &[Merge],
    most: usize,
    least: f64,
    mut is_good: impl FnMut(&Split, usize) -> bool,
) {
    let mut used: Vec<u32> = Vec::new();
    while state.splits.len() < most {
        let of_splits: Vec<(f64, &[u32])> =
            splits.iter().map(|split| (hoped(split.gain), std::slice::from_ref(&split.cluster))).collect();
        let of_merges: Vec<(f64, &[u32])> = merges.iter().map(|merge| (merge.gain, &merge.clusters[..])).collect();
        let Some((split, merge, gain)) = best_pair(&of_splits, &of_merges, |k| !used.contains(&k)) else { break };
        if gain <= least {
            break;
        }
        let split = splits.swap_remove(split);
        if !is_good(&split, merge) {
            continue;
        }
        let Split { cluster, pieces, .. } = split;
        if let [a, b] = merges[merge].clusters[..] {
            state.pairs.push((a, b));
        }
        used.extend(merges[merge].clusters.iter().copied().chain([cluster]));
        state.splits.push(Proposal { cluster, refined: 0, gain: f64::NEG_INFINITY, pieces });
    }
    state.pairs.sort_unstable();
    state.splits.sort_by_key(|split| split.cluster);
}

/// Of splits and of merges, each with what it gains and the clusters that it takes, the best merges first: the two that
/// gain most together, of clusters that are free, and what that is. Of equals the first.
pub fn best_pair(
    splits: &[(f64, &[u32])],
    merges: &[(f64, &[u32])],
    is_free: impl Fn(u32) -> bool,
) -> Option<(usize, usize, f64)> {
    let mut best: Option<(usize, usize, f64)> = None;
    for (at, (gain, takes)) in splits.iter().enumerate() {
        if !takes.iter().all(|&k| is_free(k)) {
            continue;
        }
        let fits = |(_, others): &(f64, &[u32])| others.iter().all(|k| is_free(*k) && !takes.contains(k));
        let Some(with) = merges.iter().position(fits) else { continue };
        let both = gain + merges[with].0;
        if best.is_none_or(|best| both > best.2) {
            best = Some((at, with, both));
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_two_that_gain_most_together_are_traded() {
        let splits: [(f64, &[u32]); 3] = [(9.0, &[0]), (8.0, &[1]), (20.0, &[5])];
        // The best split is of a cluster of the cheapest merge.
        let merges: [(f64, &[u32]); 3] = [(-1.0, &[0, 2]), (-4.0, &[2, 3]), (-5.0, &[3, 4])];
        let is_free = |k| k != 5;
        assert_eq!(best_pair(&splits, &merges, is_free), Some((1, 0, 7.0)));
        assert_eq!(best_pair(&splits, &merges, |k| is_free(k) && k != 1), Some((0, 1, 5.0)));
        assert_eq!(best_pair(&splits, &merges, |k| k == 5 || k == 3), None);
    }
}
