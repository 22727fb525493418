//! Finding K while a mixture trains: clusters are split, merged and given up at the end of laps, whatever raises the whole
//! objective.
//!
//! Proposals are made at the end of a lap (`propose.rs`), and the next lap gathers their statistics beside the usual ones
//! (`local/trial.rs`); then each is judged by the exact change of the objective (`judge.rs`). What is proposed and what has
//! been tried goes with the parameters, so that a run that is resumed, or whose batches are worked out elsewhere, is the
//! same run. At a K that is given clusters are traded by the same means (`trade.rs`).

mod fewer;
mod foretell;
mod judge;
mod prior;
mod propose;
mod trade;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::clusters::seed::Sample;
use crate::data::{Dealt, Scalar};
use crate::error::Result;
use crate::likelihood::{ClusterSummary, Clusters, Estimate, Likelihood, LikelihoodKind, Prior, Trial};
use crate::mixture::local::trial::Proposals;
use crate::mixture::{Mixture, MixtureParams};
use crate::training::moves::{Changes, Move, MoveKind, Part, Remap};

use judge::Judge;
use prior::Factors;
use prior::OTHER;
pub(super) use prior::{Learns, Settled};
use trade::Trading;

/// Laps that the pieces of a proposed split are worked on after the first, each time from what the rows made of them.
const REFINEMENTS: u32 = 1;

/// The same where clusters share statistics: a sample says little of what is left of those without the pieces' means.
const SHARED_REFINEMENTS: u32 = 4;

/// Laps of it at most, where each brings the split nearer to being worth it by this share of what it lacks.
const MOST_REFINEMENTS: u32 = 10;
const NEARER: f64 = 0.1;

/// Splits of a cluster that are tried before it is left alone.
const TRIES: u32 = 2;

/// A cluster that was left alone is tried again when its size has changed by this share.
const CHANGE: f64 = 0.2;

/// Laps from one that merges are judged in to the next, while there are splits to be tried and clusters do not change.
const PAIRS_EVERY: u64 = 3;

/// All clusters become one where that gains more than this share of the objective: less is rounding.
const LEAST_GAIN: f64 = 1e-9;

/// One in so many clusters may be given up in a lap.
const LEAVING: usize = 8;

/// What finding K needs besides rows and settings.
pub struct Finding<T> {
    /// Clusters at most.
    pub most: usize,
    /// L, with that many clusters or more.
    pub sparsity: usize,
    /// Of the randomness of proposals.
    pub seed: u64,
    /// Where K stays and clusters are traded: what counts as rest, in nats a row.
    pub(super) trades: Option<f64>,
    /// The prior that is learned, where none was asked for.
    pub(super) prior: Option<Settled>,
    /// Rows that splits are looked for in, once they are needed.
    pub(super) sample: Option<(usize, Sample<T>)>,
}

impl<T> Finding<T> {
    /// At most so many clusters, of which a row keeps `sparsity`.
    pub fn new(most: usize, sparsity: usize, seed: u64) -> Self {
        Finding { most, sparsity, seed, trades: None, prior: None, sample: None }
    }

    /// So many clusters that stay, and are traded until a lap gains less than `rest` a row.
    pub(super) fn trading(clusters: usize, sparsity: usize, seed: u64, rest: f64) -> Self {
        Finding { trades: Some(rest), ..Finding::new(clusters, sparsity, seed) }
    }

    /// The prior that is learned, as it is now.
    fn learned(&self, state: &GrowthState) -> Option<Prior> {
        self.prior.as_ref().map(|settled| settled.times(state.factors))
    }
}

/// What was tried of a cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Tried {
    /// Splits that came to nothing.
    splits: u32,
    /// The size that the cluster had then, and with which proposals that was.
    split_size: f64,
    #[serde(default)]
    split_at: u64,
    /// The size at which giving it up came to nothing, and with which proposals.
    left_size: f64,
    #[serde(default)]
    left_at: u64,
}

/// N and S of a cluster that might be.
type Piece = (f64, Vec<f64>);

/// A split that is proposed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Proposal {
    cluster: u32,
    /// Laps that its pieces have been worked on.
    refined: u32,
    /// What it would have gained a lap ago, but for the term of counts.
    gain: f64,
    pieces: Vec<Piece>,
}

/// What is proposed and what was tried.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GrowthState {
    /// Counts proposals, so that statistics of others are not taken for theirs.
    generation: u64,
    /// The lasting number of each cluster.
    ids: Vec<u64>,
    next_id: u64,
    tried: Vec<Tried>,
    /// Clusters that may be split, ascending.
    splits: Vec<Proposal>,
    /// In families whose clusters share statistics: those of the clusters beside which pieces are weighed.
    beside: Option<ClusterSummary>,
    /// Clusters that may be given up, ascending.
    leaving: Vec<u32>,
    /// Pairs that may be merged though no row may hold both: each with the next best for its rows.
    near: Vec<(u32, u32)>,
    /// Where K stays, how far trades have come, and the pairs that may be merged.
    #[serde(default)]
    trading: Option<Trading>,
    /// Where K stays, whether the prior follows the clusters.
    #[serde(default)]
    follows: bool,
    #[serde(default)]
    pairs: Vec<(u32, u32)>,
    /// The last proposals of which some were made, or with which the prior became another.
    #[serde(default)]
    last_change: u64,
    /// What numbers of the settled prior are multiplied by.
    factors: Factors,
    /// The same when clusters were tried first.
    tried_under: Factors,
}

impl GrowthState {
    /// Before the first lap nothing is proposed.
    fn begin(num_clusters: usize) -> Self {
        let ids: Vec<u64> = (0..num_clusters as u64).collect();
        GrowthState {
            next_id: num_clusters as u64,
            ids,
            tried: vec![Tried::default(); num_clusters],
            ..Self::default()
        }
    }

    /// Where clusters share statistics, remember those of the clusters that are not proposed for a split.
    fn set_beside<T: Scalar>(&mut self, likelihood: &dyn Likelihood<T>, present: &ClusterSummary) {
        let proposed = |k: &usize| self.splits.binary_search_by_key(&(*k as u32), |split| split.cluster).is_ok();
        self.beside = likelihood.kind().family().shares_covariance.then(|| {
            let others: Vec<usize> = (0..present.num_clusters()).filter(|k| !proposed(k)).collect();
            present.reordered(&others)
        });
    }

    /// Whether merges are judged at the end of this lap: what they gain changes little while clusters stay.
    fn wants_pairs(&self) -> bool {
        let has_changed = self.generation <= self.last_change + 1;
        has_changed || self.splits.is_empty() || self.generation.is_multiple_of(PAIRS_EVERY)
    }

    /// What was tried of the clusters that there will be by this plan, and the proposals of splits that go on: refined by
    /// what the rows made of their pieces, as long as that brings their gains nearer to being some.
    fn carry(&mut self, total: &ClusterSummary, plan: &Remap, gains: &[(u32, f64)]) {
        let mut tried = vec![Tried::default(); plan.clusters.len()];
        let mut going_on = Vec::new();
        let least = if self.beside.is_some() { SHARED_REFINEMENTS } else { REFINEMENTS };
        for (k, parts) in plan.clusters.iter().enumerate() {
            let [Part::Whole(was)] = parts[..] else { continue };
            let of = &mut tried[k];
            *of = self.tried[was as usize];
            if self.leaving.contains(&was) {
                (of.left_size, of.left_at) = (total.counts[was as usize], self.generation);
            }
            let Some(split) = self.splits.iter().find(|split| split.cluster == was) else { continue };
            // A piece that has come to nothing is left out.
            let pieces = total.trial.iter().flat_map(|trial| trial.pieces(was)).filter(|piece| piece.0 >= 1.0);
            let pieces: Vec<Piece> = pieces.map(|(count, stat)| (count, stat.to_vec())).collect();
            let gain = gains.iter().find(|gain| gain.0 == was).map_or(f64::NEG_INFINITY, |gain| gain.1);
            let nears = gain - split.gain > NEARER * gain.abs() && split.refined < MOST_REFINEMENTS;
            if (split.refined < least || nears) && pieces.len() > 1 {
                going_on.push(Proposal { cluster: k as u32, refined: split.refined + 1, gain, pieces });
            } else {
                (of.splits, of.split_size, of.split_at) = (of.splits + 1, total.counts[was as usize], self.generation);
            }
        }
        (self.tried, self.splits) = (tried, going_on);
    }

    /// Learn the prior from these clusters; says whether it is another now.
    fn learn<T: Scalar>(&mut self, settled: &Settled, kind: LikelihoodKind, present: &ClusterSummary) -> bool {
        let before = self.factors;
        self.factors = settled.learn::<T>(kind, before, present);
        if self.factors.ratio(self.tried_under) > OTHER {
            // Under another prior what came to nothing may be worth something.
            self.tried_under = self.factors;
            self.tried.fill(Tried::default());
        }
        self.factors != before
    }

    /// The clusters that may be given up next: the smallest that were not tried at their size, and as far as there is room
    /// those of less than half the usual size, if there was a change since they were tried, those first that were tried
    /// longest ago: a few rows that lie far from the others are worth a cluster as long as those are not what they will be.
    fn propose_leaving(&mut self, present: &ClusterSummary, sparsity: usize) {
        let num = present.num_clusters();
        let mut by_size: Vec<usize> = (0..num).filter(|_| num > 1 && sparsity > 1).collect();
        by_size.sort_by(|&a, &b| present.counts[a].total_cmp(&present.counts[b]));
        let is_due = |k: &usize| changed(present.counts[*k], self.tried[*k].left_size);
        let most = num.div_ceil(LEAVING);
        let mut small: Vec<usize> = by_size.iter().copied().filter(is_due).take(most).collect();
        let mean = present.counts.iter().sum::<f64>() / num as f64;
        let is_stale =
            |k: &usize| !is_due(k) && self.tried[*k].left_at <= self.last_change && present.counts[*k] < 0.5 * mean;
        let mut stale: Vec<usize> = by_size.iter().copied().filter(is_stale).collect();
        stale.sort_by_key(|&k| self.tried[k].left_at);
        small.extend(stale.into_iter().take(most - small.len()));
        small.sort_unstable();
        self.leaving = small.into_iter().map(|k| k as u32).collect();
    }
}

/// Whether a size is another than it was.
fn changed(now: f64, before: f64) -> bool {
    (now - before).abs() > CHANGE * before
}

/// What is proposed, fit for weighing rows.
pub struct Growth<T> {
    pub(super) state: GrowthState,
    pieces: Option<Box<dyn Clusters<T>>>,
    log_size: Vec<f64>,
}

impl<T: Scalar> Mixture<T> {
    /// The prior that is learned: while K is found, or where rows that were left out gain by it.
    pub(super) fn learned_prior(&self, params: &MixtureParams<T>) -> Option<Prior> {
        let state = &params.growth.as_ref()?.state;
        self.finding.as_ref()?.learned(state).filter(|_| state.trading.is_none() || state.follows)
    }

    /// The family is to have the prior that was learned.
    pub(super) fn restore_prior(&mut self, state: &GrowthState) {
        if let Some(prior) = self.finding.as_ref().and_then(|finding| finding.learned(state)) {
            self.likelihood = self.likelihood.kind().build(&prior);
        }
    }
}

impl<T: Scalar> Growth<T> {
    /// Nothing is proposed before the first lap.
    pub fn begin(finding: &Finding<T>, num_clusters: usize) -> Self {
        let trading = finding.trades.map(|_| Trading::default());
        let state = GrowthState { trading, ..GrowthState::begin(num_clusters) };
        Growth { state, pieces: None, log_size: Vec::new() }
    }

    /// The same from what was saved.
    pub fn of(state: GrowthState, likelihood: &dyn Likelihood<T>) -> Result<Self> {
        let pieces = || state.splits.iter().flat_map(|split| &split.pieces);
        let counts: Vec<f64> = pieces().map(|piece| piece.0).collect();
        let log_size = counts.iter().map(|count| count.ln()).collect();
        let mut stats: Vec<f64> = pieces().flat_map(|piece| &piece.1).copied().collect();
        let mut counts = counts;
        if let Some(beside) = &state.beside {
            counts.extend(&beside.counts);
            stats.extend(&beside.stats);
        }
        let pieces = match state.splits.is_empty() {
            true => None,
            false => Some(likelihood.global_step(Estimate::Posterior, &counts, &stats, None)?),
        };
        Ok(Growth { state, pieces, log_size })
    }

    /// What rows are to be weighed against.
    pub fn proposals(&self) -> Proposals<'_, T> {
        let none: &[(u32, u32)] = &[];
        let named = self.state.trading.map(|_| &self.state.pairs[..]);
        let pairs = named.or(if self.state.wants_pairs() { None } else { Some(none) });
        Proposals { pieces: self.pieces.as_deref(), log_size: &self.log_size, pairs }
    }

    /// Room for what a visit gathers; none where there is nothing to be gathered.
    pub fn trial(&self, width: usize) -> Option<Trial> {
        let GrowthState { generation, splits, leaving, trading, .. } = &self.state;
        let pieces = splits.iter().map(|split| (split.cluster, split.pieces.len()));
        (trading.is_none() || !splits.is_empty()).then(|| Trial::new(*generation, pieces, leaving, width))
    }
}

/// At the end of a lap: judge what was proposed, and make the next proposals.
pub fn moves<T: Scalar>(
    mixture: &mut Mixture<T>,
    params: &mut MixtureParams<T>,
    total: &ClusterSummary,
    data: &Dealt<'_>,
    laps: usize,
) -> Result<Option<Changes>> {
    let (Some(growth), Some(finding)) = (params.growth.clone(), &mixture.finding) else { return Ok(None) };
    if let Some(rest) = finding.trades {
        return trade::trades(mixture, params, total, data, laps, rest);
    }
    let mut state = growth.state.clone();
    let mut changes = Changes { proposed: Some(0), ..Changes::default() };
    let mut present = total.clone();
    // In the lap after a batch was taken out, say, there may be nothing to go by.
    if let Some(trial) = total.trial.as_deref().filter(|trial| trial.generation == state.generation) {
        let mut judge = Judge::new(mixture, total, trial);
        changes.proposed = Some(judge.consider(state.wants_pairs().then_some(&state.near))?);
        let gains = judge.gains_of_splits();
        judge.accept(finding.most)?;
        let (plan, moves) = judge.finish(&mut state.ids, &mut state.next_id);
        state.carry(total, &plan, &gains);
        if !moves.is_empty() {
            state.last_change = state.generation;
            present = total.remapped(&plan);
            changes.remap = Some(plan);
        }
        changes.moves = moves;
    }
    let most = finding.most;
    if learn(mixture, &mut state, &present)? && changes.remap.is_none() {
        let ClusterSummary { counts, stats, .. } = &present;
        params.clusters = mixture.likelihood.global_step(mixture.estimate, counts, stats, None)?;
    }
    mixture.resize(present.num_clusters());
    propose::propose(mixture, &mut state, &present, data, laps)?;
    if changes.moves.is_empty()
        && state.splits.is_empty()
        && let Some(alone) = all_in_one(mixture, &mut state, &present)?
    {
        let Alone { plan, change, summary } = alone;
        (changes.remap, present) = (Some(plan), summary);
        changes.moves.push(change);
        mixture.resize(1);
        propose::propose(mixture, &mut state, &present, data, laps)?;
    }
    changes.most_reached = present.num_clusters() >= most;
    state.propose_leaving(&present, mixture.sparsity);
    state.generation += 1;
    changes.restless = !(changes.moves.is_empty() && state.splits.is_empty() && state.leaving.is_empty());
    if changes.remap.is_some() {
        let sparsity = params.search.sparsity.max(mixture.sparsity).min(mixture.num_clusters);
        Arc::make_mut(&mut params.search).sparsity = sparsity;
    }
    params.growth = Some(Arc::new(Growth::of(state, mixture.likelihood.as_ref())?));
    Ok(Some(changes))
}

/// Learn the prior from these clusters, if it is learned; says whether it is another now.
fn learn<T: Scalar>(mixture: &mut Mixture<T>, state: &mut GrowthState, present: &ClusterSummary) -> Result<bool> {
    let Some(settled) = mixture.finding.as_ref().and_then(|finding| finding.prior.as_ref()) else { return Ok(false) };
    let kind = mixture.likelihood.kind();
    let is_another = state.learn::<T>(settled, kind, present);
    if is_another {
        state.last_change = state.generation;
        mixture.likelihood = kind.build(&settled.times(state.factors));
    }
    Ok(is_another)
}

/// All clusters as one.
struct Alone {
    plan: Remap,
    change: Move,
    summary: ClusterSummary,
}

/// Before rest: all clusters become one, where the whole objective gains by that under the scale of the prior that one
/// cluster has. Of a few that are no clusters each two may be worth more than one by themselves, under a scale that follows
/// them.
fn all_in_one<T: Scalar>(
    mixture: &mut Mixture<T>,
    state: &mut GrowthState,
    present: &ClusterSummary,
) -> Result<Option<Alone>> {
    let num = present.num_clusters();
    let Some(finding) = mixture.finding.as_ref().filter(|_| num > 1) else { return Ok(None) };
    let is_of_this_lap = present.trial.as_ref().is_some_and(|trial| trial.generation == state.generation);
    if mixture.likelihood.wants_whole_rows() && !is_of_this_lap {
        // What rows lack keeps its entropy, which is not known apart.
        return Ok(None);
    }
    let plan = Remap { clusters: vec![(0..num as u32).map(Part::Whole).collect()] };
    let summary = present.remapped(&plan);
    let kind = mixture.likelihood.kind();
    let worth = |likelihood: &dyn Likelihood<T>, of: &ClusterSummary| -> Result<f64> {
        let clusters = likelihood.global_step(Estimate::Posterior, &of.counts, &of.stats, None)?;
        Ok(clusters.own_data_term() + of.entropy + mixture.allocation.term(Estimate::Posterior, &of.counts))
    };
    let factors = match &finding.prior {
        Some(settled) => settled.learn_for_one::<T>(kind, state.factors, &summary),
        None => state.factors,
    };
    let other = finding.prior.as_ref().map(|settled| kind.build::<T>(&settled.times(factors)));
    let before = worth(mixture.likelihood.as_ref(), present)?;
    let gain = worth(other.as_deref().unwrap_or(mixture.likelihood.as_ref()), &summary)? - before;
    if gain.is_nan() || gain <= LEAST_GAIN * (1.0 + before.abs()) {
        return Ok(None);
    }
    if let Some(other) = other {
        mixture.likelihood = other;
    }
    let change = Move { kind: MoveKind::Merge, from: state.ids.clone(), to: vec![state.ids[0]], gain };
    state.ids.truncate(1);
    state.tried = vec![Tried::default()];
    (state.factors, state.tried_under, state.last_change) = (factors, factors, state.generation);
    state.near.clear();
    Ok(Some(Alone { plan, change, summary }))
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::*;
    use crate::data::{MemoryRows, Rows};
    use crate::likelihood::{Scratch, accumulate_completed, respond};
    use crate::mixture::{MixtureInputs, Mixtures};
    use crate::runs::Family;
    use crate::settings::{Init, MixtureConfig, Sparsity};
    use crate::synthetic::planted;
    use crate::training::model::Model;
    use crate::training::responsibilities::Responsibilities;

    /// A share that a row has of a cluster, and who completes the row there: a present cluster, or from `PIECES` on a piece
    /// of those that are proposed.
    #[derive(Clone, Copy)]
    struct Share {
        k: usize,
        r: f64,
        by: usize,
    }

    const PIECES: usize = 1 << 20;

    /// The shares of each row, several of one cluster where others have joined it.
    type Shares = Vec<Vec<Share>>;

    /// The entropy of the shares.
    fn entropy(shares: &Shares) -> f64 {
        let of_row = |row: &Vec<Share>| -> f64 {
            let mut sums: std::collections::BTreeMap<usize, f64> = Default::default();
            row.iter().for_each(|share| *sums.entry(share.k).or_default() += share.r);
            sums.values().map(|&r| if r > 0.0 { -r * r.ln() } else { 0.0 }).sum()
        };
        shares.iter().map(of_row).sum()
    }

    /// The objective of rows with these shares in `num` clusters, from nothing.
    fn objective(
        mixture: &Mixture<f64>,
        params: &MixtureParams<f64>,
        rows: &Rows<f64>,
        shares: &Shares,
        num: usize,
    ) -> f64 {
        let (likelihood, mut scratch) = (mixture.likelihood.as_ref(), Scratch::default());
        let mut groups: std::collections::BTreeMap<(usize, usize), (Vec<u32>, Vec<f64>)> = Default::default();
        for (n, share) in (0u32..).zip(shares).flat_map(|(n, row)| row.iter().map(move |share| (n, share))) {
            let (members, values) = groups.entry((share.k, share.by)).or_default();
            members.push(n);
            values.push(share.r);
        }
        let (mut summary, mut of_gaps) = (likelihood.no_statistics(num), 0.0);
        let width = summary.width;
        for ((k, by), (members, values)) in &groups {
            let completing = match by.checked_sub(PIECES) {
                None => (params.clusters.as_ref(), *by),
                Some(piece) => (params.growth.as_ref().unwrap().pieces.as_deref().unwrap(), piece),
            };
            let stat = &mut summary.stats[k * width..(k + 1) * width];
            summary.counts[*k] += values.iter().sum::<f64>();
            of_gaps += accumulate_completed(likelihood, completing, rows, (members, values), &mut scratch, stat);
        }
        let all: Vec<u32> = (0..rows.len() as u32).collect();
        likelihood.accumulate_shared(rows, &all, &vec![1.0; all.len()], &mut summary.stats[num * width..]);
        let clusters = likelihood.global_step(Estimate::Posterior, &summary.counts, &summary.stats, None).unwrap();
        let of_counts = mixture.allocation.term(Estimate::Posterior, &summary.counts);
        clusters.own_data_term() + entropy(shares) + of_gaps + of_counts
    }

    /// What rows have of each cluster under these parameters.
    fn shares_under(params: &MixtureParams<f64>, rows: &Rows<f64>) -> Shares {
        let mut resp = Responsibilities::default();
        let sparsity = params.search.sparsity;
        respond(params.clusters.as_ref(), &params.frequencies.log_pi, rows, sparsity, &mut resp).unwrap();
        let share = |(&k, &r): (&u32, &f64)| Share { k: k as usize, r, by: k as usize };
        (0..rows.len()).map(|n| resp.row(n).0.iter().zip(resp.row(n).1).map(share).collect()).collect()
    }

    /// Planted rows, of which so large a share of the values is missing.
    fn rows_with_holes(truth: &[f64], dim: usize, holes: f64, seed: u64) -> (MemoryRows<f64>, Rows<f64>) {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let values: Vec<f64> = truth.iter().map(|&x| if rng.random::<f64>() < holes { f64::NAN } else { x }).collect();
        let mut rows = Rows::dense(dim);
        rows.push_dense(&values);
        (MemoryRows::new("planted", dim, values).unwrap(), rows)
    }

    /// Families whose clusters share statistics and whose do not.
    const KINDS: [LikelihoodKind; 4] =
        [LikelihoodKind::Gauss, LikelihoodKind::TiedGauss, LikelihoodKind::DiagGauss, LikelihoodKind::SphericalGauss];

    /// The same, and what share of the values is missing.
    const CASES: [(LikelihoodKind, f64); 6] = [
        (KINDS[0], 0.0),
        (KINDS[1], 0.0),
        (KINDS[2], 0.0),
        (KINDS[3], 0.0),
        (LikelihoodKind::Gauss, 0.2),
        (LikelihoodKind::DiagGauss, 0.2),
    ];

    /// Every change that is considered gains what the objective computed from nothing says, for families of all kinds.
    #[test]
    fn a_claimed_gain_is_that_of_the_objective_from_nothing() {
        let (mut checked, mut most_pieces) = ([0; 3], 0);
        for (kind, holes) in CASES {
            let truth = planted(kind, 300, 3, 7, 5);
            let (source, rows) = rows_with_holes(&truth.values, 3, holes, 1);
            let config = MixtureConfig {
                likelihood: kind,
                missing: holes > 0.0,
                find_k: true,
                k_start: Some(2),
                sparsity: Sparsity::Of(4),
                batches: Some(1),
                ..Default::default()
            };
            let mixtures = Mixtures::<f64>::new(&source, &config, MixtureInputs::default()).unwrap();
            let mut session = mixtures.session(0).unwrap();
            let mut worker = session.worker();
            let data = mixtures.deal(0).unwrap();
            // A step of training whose clusters and proposals are known, and what rows made of them.
            for lap in 0..4 {
                let mixture = mixtures.model(0);
                let params = session.params();
                let visited = mixture_of(&mixtures, params)
                    .local(params, &data.batch(0), &Default::default(), &mut worker)
                    .unwrap();
                let total = visited.summary;
                let growth = params.growth.as_ref().unwrap();
                let shares = shares_under(params, &rows);
                let num = total.num_clusters();
                let before = objective(&mixture, params, &rows, &shares, num);
                let mixture = mixture_of(&mixtures, params);
                most_pieces = growth.state.splits.iter().map(|split| split.pieces.len()).fold(most_pieces, usize::max);
                let mut judge = Judge::new(&mixture, &total, total.trial.as_deref().unwrap());
                judge.consider(growth.state.wants_pairs().then_some(&growth.state.near)).unwrap();
                let family = config.likelihood;
                for (kind, touches, gain) in judge.gains().unwrap() {
                    let (after, num) = changed_shares(kind, &touches, &shares, growth, &rows, num);
                    let expected = objective(&mixture, params, &rows, &after, num) - before;
                    // (What is left of the scatter of a piece of one row is rounding.)
                    assert!(
                        (gain - expected).abs() < 1e-6 * before.abs(),
                        "{family:?} {holes} lap {lap} {kind:?} {touches:?}: {gain} {expected} of {before}"
                    );
                    checked[kind as usize] += 1;
                }
                session.step(&mut worker).unwrap();
            }
        }
        assert!(checked.iter().all(|&count| count > 0) && most_pieces > 2, "{checked:?} {most_pieces}");
    }

    /// All clusters as one gain what the objective computed from nothing says, under the prior that one has.
    #[test]
    fn the_gain_of_all_in_one_is_that_of_the_objective_from_nothing() {
        for (kind, holes) in CASES {
            let noise = planted(LikelihoodKind::SphericalGauss, 120, 3, 1, 2);
            // With more of them the first completions are not for one cluster.
            let (source, rows) = rows_with_holes(&noise.values, 3, 0.2 * holes, 1);
            let config = MixtureConfig {
                likelihood: kind,
                missing: holes > 0.0,
                find_k: true,
                k_start: Some(4),
                sparsity: Sparsity::Of(3),
                batches: Some(1),
                ..Default::default()
            };
            let mixtures = Mixtures::<f64>::new(&source, &config, MixtureInputs::default()).unwrap();
            let session = mixtures.session(0).unwrap();
            let params = session.params();
            let mut mixture = mixture_of(&mixtures, params);
            let data = mixtures.deal(0).unwrap();
            let visited = mixture.local(params, &data.batch(0), &Default::default(), &mut session.worker()).unwrap();
            let shares = shares_under(params, &rows);
            let before = objective(&mixture, params, &rows, &shares, 4);
            let joined = |share: &Share| Share { k: 0, ..*share };
            let after: Shares = shares.iter().map(|row| row.iter().map(joined).collect()).collect();
            let mut state = params.growth.as_ref().unwrap().state.clone();
            let alone = all_in_one(&mut mixture, &mut state, &visited.summary).unwrap().unwrap();
            mixture.resize(1);
            let expected = objective(&mixture, params, &rows, &after, 1) - before;
            assert!((alone.change.gain - expected).abs() < 1e-9 * before.abs(), "{kind:?}: {expected}");
            assert_eq!(state.ids, [0]);
            // Columns that rows lack may have a prior of their own.
            assert!(holes > 0.0 || (state.factors != Factors::default() && alone.summary.entropy.abs() < 1e-9));
        }
    }

    /// Many small clusters that go to a large one in one lap gain together what the objective from nothing says.
    #[test]
    fn several_clusters_join_one_at_once() {
        for (kind, holes) in CASES {
            let (mut most, dim) = (0, 6);
            for seed in 0..4 {
                let noise = planted(LikelihoodKind::SphericalGauss, 150, dim, 1, seed);
                let (source, rows) = rows_with_holes(&noise.values, dim, holes, seed);
                let config = MixtureConfig {
                    likelihood: kind,
                    missing: holes > 0.0,
                    find_k: true,
                    k_start: Some(25),
                    sparsity: Sparsity::Of(3),
                    batches: Some(1),
                    seed,
                    ..Default::default()
                };
                let mixtures = Mixtures::<f64>::new(&source, &config, MixtureInputs::default()).unwrap();
                let mut session = mixtures.session(0).unwrap();
                let mut worker = session.worker();
                let data = mixtures.deal(0).unwrap();
                for _ in 0..3 {
                    let params = session.params();
                    let mixture = mixture_of(&mixtures, params);
                    let visited = mixture.local(params, &data.batch(0), &Default::default(), &mut worker).unwrap();
                    let (total, growth) = (visited.summary, params.growth.as_ref().unwrap());
                    let shares = shares_under(params, &rows);
                    let num = total.num_clusters();
                    let mut judge = Judge::new(&mixture, &total, total.trial.as_deref().unwrap());
                    // Merges alone.
                    judge.consider(Some(&growth.state.near)).unwrap();
                    judge.candidates.retain(|candidate| candidate.kind == MoveKind::Merge);
                    judge.accept(usize::MAX).unwrap();
                    let mut ids: Vec<u64> = (0..num as u64).collect();
                    let (plan, moves) = judge.finish(&mut ids, &mut (num as u64));
                    most = plan.clusters.iter().map(Vec::len).fold(most, usize::max);
                    let place = |k: usize| {
                        let is_of = |parts: &Vec<Part>| parts.contains(&Part::Whole(k as u32));
                        plan.clusters.iter().position(is_of).unwrap()
                    };
                    let joined = |share: &Share| Share { k: place(share.k), ..*share };
                    let after: Shares = shares.iter().map(|row| row.iter().map(joined).collect()).collect();
                    let before = objective(&mixture, params, &rows, &shares, num);
                    let gained = objective(&mixture, params, &rows, &after, plan.clusters.len()) - before;
                    let claimed: f64 = moves.iter().map(|change| change.gain).sum();
                    assert!((gained - claimed).abs() < 1e-7 * before.abs(), "{kind:?}: {claimed} for {gained}");
                    let remapped = total.remapped(&plan);
                    let (lost, expected) = (remapped.entropy - total.entropy, entropy(&after) - entropy(&shares));
                    assert!((lost - expected).abs() < 1e-7 * (1.0 + entropy(&shares)), "{kind:?}");
                    session.step(&mut worker).unwrap();
                }
            }
            assert!(most > 2, "{kind:?}: {most}");
        }
    }

    /// Trades gain what the objective computed from nothing says.
    #[test]
    fn the_gains_of_trades_are_those_of_the_objective_from_nothing() {
        for (kind, holes) in CASES {
            let mut checked = 0;
            for seed in 0..8 {
                let truth = planted(kind, 600, 3, 12, seed);
                let (source, rows) = rows_with_holes(&truth.values, 3, holes, 1);
                let config = MixtureConfig {
                    likelihood: kind,
                    missing: holes > 0.0,
                    clusters: 9,
                    sparsity: Sparsity::Of(4),
                    init: Init::Examples,
                    batches: Some(1),
                    seed,
                    ..Default::default()
                };
                let mixtures = Mixtures::<f64>::new(&source, &config, MixtureInputs::default()).unwrap();
                let mut session = mixtures.session(0).unwrap();
                let mut worker = session.worker();
                let data = mixtures.deal(0).unwrap();
                for _ in 0..60 {
                    let (mixture, params) = (mixtures.model(0), session.params());
                    let growth = params.growth.as_ref().unwrap();
                    if !growth.state.splits.is_empty() {
                        let total =
                            mixture.local(params, &data.batch(0), &Default::default(), &mut worker).unwrap().summary;
                        let shares = shares_under(params, &rows);
                        let before = objective(&mixture, params, &rows, &shares, 9);
                        let mut judge = Judge::new(&mixture, &total, total.trial.as_deref().unwrap());
                        judge.consider(Some(&[])).unwrap();
                        // Whatever they gain.
                        judge.trade(f64::NEG_INFINITY).unwrap();
                        let (plan, moves) = judge.finish(&mut (0..9).collect(), &mut 9);
                        assert_eq!(plan.clusters.len(), 9);
                        let split: Vec<u32> = moves.iter().map(|change| change.from[0] as u32).collect();
                        let (mut after, mut num) = changed_shares(MoveKind::Birth, &split, &shares, growth, &rows, 9);
                        // From behind, so that those that are left keep their numbers.
                        let mut gone: Vec<Vec<u32>> =
                            moves.iter().map(|change| change.from[1..].iter().map(|&k| k as u32).collect()).collect();
                        gone.sort_by_key(|clusters| std::cmp::Reverse(clusters.last().copied()));
                        for clusters in gone {
                            // One that is empty goes alone.
                            let kind = if clusters.len() > 1 { MoveKind::Merge } else { MoveKind::Delete };
                            (after, num) = changed_shares(kind, &clusters, &after, growth, &rows, num);
                        }
                        let expected = objective(&mixture, params, &rows, &after, num) - before;
                        let gain: f64 = moves.iter().map(|change| change.gain).sum();
                        assert_eq!(num, 9);
                        assert!((gain - expected).abs() < 1e-7 * before.abs(), "{kind:?} {moves:?}: {expected}");
                        checked += moves.len();
                    }
                    session.step(&mut worker).unwrap();
                }
            }
            assert!(checked > 0, "{kind:?}");
        }
    }

    /// A model of as many clusters as the parameters have.
    fn mixture_of(mixtures: &Mixtures<'_, f64>, params: &MixtureParams<f64>) -> Mixture<f64> {
        let mut mixture = mixtures.model(0);
        mixture.resize(params.clusters.num_clusters());
        mixture
    }

    /// The shares that rows would have after a change, worked out row by row.
    fn changed_shares(
        kind: MoveKind,
        touches: &[u32],
        shares: &Shares,
        growth: &Growth<f64>,
        rows: &Rows<f64>,
        num: usize,
    ) -> (Shares, usize) {
        let first = touches[0] as usize;
        match kind {
            MoveKind::Merge => {
                let second = touches[1] as usize;
                let merge = |share: &Share| {
                    let k = if share.k == second { first } else { share.k };
                    Share { k: if k > second { k - 1 } else { k }, ..*share }
                };
                (shares.iter().map(|row| row.iter().map(merge).collect()).collect(), num - 1)
            }
            MoveKind::Delete => {
                let leave = |row: &Vec<Share>| {
                    let left: f64 = row.iter().filter(|share| share.k != first).map(|share| share.r).sum();
                    let holds = row.iter().any(|share| share.k == first && share.r > 1.2e-16);
                    let with = |share: &Share, r: f64| Share {
                        k: if share.k > first { share.k - 1 } else { share.k },
                        r,
                        ..*share
                    };
                    let others = row.iter().filter(|share| share.k != first);
                    match (holds, left > 0.0) {
                        (false, _) => others.map(|share| with(share, share.r)).collect(),
                        (true, true) => others.map(|share| with(share, share.r / left)).collect(),
                        (true, false) => others.take(1).map(|share| with(share, 1.0)).collect(),
                    }
                };
                (shares.iter().map(leave).collect(), num - 1)
            }
            MoveKind::Trade => unreachable!("it is made of two others"),
            MoveKind::Birth if touches.len() > 1 => {
                // One after the other, each with the room that rows had at first.
                let (last, others) = touches.split_last().unwrap();
                let (before, before_num) = changed_shares(kind, others, shares, growth, rows, num);
                let (after, after_num) = changed_shares(kind, &[*last], shares, growth, rows, num);
                let split = *last as usize;
                let join = |(before, after): (&Vec<Share>, &Vec<Share>)| {
                    let kept = before.iter().filter(|share| share.k != split).copied();
                    let pieces = after.iter().filter(|share| share.k == split || share.k >= num);
                    let place = |k: usize| if k >= num { k - num + before_num } else { k };
                    kept.chain(pieces.map(|share| Share { k: place(share.k), ..*share })).collect()
                };
                (before.iter().zip(&after).map(join).collect(), before_num + after_num - num)
            }
            MoveKind::Birth => {
                let at = growth.state.splits.iter().position(|split| split.cluster == touches[0]).unwrap();
                let begin = growth.state.splits[..at].iter().map(|split| split.pieces.len()).sum::<usize>();
                let pieces = growth.state.splits[at].pieces.len();
                let clusters = growth.pieces.as_deref().unwrap();
                let mut scratch = Scratch::default();
                let mut split = |n: usize, of_row: &Vec<Share>| {
                    let mut weight = |piece: usize| {
                        let mut out = [0.0];
                        clusters.log_lik_of(begin + piece, rows, &[n as u32], &mut scratch, &mut out);
                        (out[0] + growth.log_size[begin + piece], piece)
                    };
                    let mut weights: Vec<(f64, usize)> = (0..pieces).map(&mut weight).collect();
                    weights.sort_by(|a, b| b.0.total_cmp(&a.0));
                    // Rows keep four clusters at most.
                    let kept = of_row.iter().filter(|share| share.r > 1.2e-16).count();
                    weights.truncate(5 - kept);
                    let sum: f64 = weights.iter().map(|(weight, _)| (weight - weights[0].0).exp()).sum();
                    let mut row: Vec<Share> = of_row.iter().filter(|share| share.k != first).copied().collect();
                    if let Some(Share { r, .. }) = of_row.iter().find(|share| share.k == first) {
                        row.extend(weights.iter().map(|&(weight, piece)| {
                            let k = if piece == 0 { first } else { num + piece - 1 };
                            Share { k, r: r * (weight - weights[0].0).exp() / sum, by: PIECES + begin + piece }
                        }));
                    }
                    row
                };
                (shares.iter().enumerate().map(|(n, of_row)| split(n, of_row)).collect(), num + pieces - 1)
            }
        }
    }
}
