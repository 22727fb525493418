//! Looking for splits: the rows of a cluster in a sample, cut in pieces in several ways, and the best of them kept.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

use super::{Finding, GrowthState, Piece, Proposal, TRIES, changed};
use crate::backend::CPU;
use crate::clusters::seed::{Metric, Ruler, Sample, Seeding, Spaces, Units, is_light, second_choices};
use crate::data::{Dealt, Scalar};
use crate::error::Result;
use crate::likelihood::{ClusterSummary, Clusters, Estimate, Likelihood, Scratch};
use crate::mixture::{Mixture, respond};
use crate::training::responsibilities::Responsibilities;
use crate::training::rules::Patience;

/// Rows of the sample: so many a cluster, at least so many, and no more than a share of all but for small data.
const ROWS_A_CLUSTER: usize = 300;
const LEAST_ROWS: usize = 10_000;
const MOST_SHARE: usize = 8;

/// Rows that splits are looked for in: so many of a cluster, and more where fewer clusters are due.
const MOST_OF_A_CLUSTER: usize = 500;
const MOST_IN_ALL: usize = 20_000;

/// Both are more where clusters have many numbers, so many for each row that a shape takes at least: with fewer the pieces
/// are shaped by chance, and every row likes best the piece that it is in.
const ROWS_A_SHAPE: usize = 40;

/// The same for each of more than two pieces, which are proposed if these rows alone tell them apart.
const ROWS_A_PIECE: f64 = 10.0;

/// Rows of a cluster that can be told apart at all.
const LEAST_OF_A_CLUSTER: usize = 4;

/// Passes over the rows before pieces become one.
const FEW_PASSES: usize = 3;

/// How hard a way to cut rows is looked for.
pub struct Effort {
    /// In which units rows are cut by their means.
    units: &'static [Units],
    /// Numbers of seeds of the ways that are drawn at random, and of those where rows are not cut by their means: of more
    /// than two those become one that should be.
    draws: &'static [usize],
    draws_alone: &'static [usize],
    /// Passes over the rows of every cut.
    first_passes: usize,
    /// The best so many of them are worked on longer, so many passes in all.
    finalists: usize,
    passes: usize,
    /// Where all cuts in two lose more than so much and so much a row, there is no better one; without means, all cuts.
    hopeless: Option<(f64, f64)>,
}

impl Effort {
    /// Where K is found.
    const MUCH: Effort = Effort {
        units: &[Units::Raw, Units::Standard],
        draws: &[2, 2, 4, 6, 8],
        draws_alone: &[2, 2, 4, 6, 8],
        first_passes: 3,
        finalists: 2,
        passes: 12,
        hopeless: Some((120.0, 0.3)),
    };

    /// Where a cluster is to be two at most.
    pub const LITTLE: Effort = Effort {
        units: &[Units::Raw, Units::Standard],
        draws: &[],
        draws_alone: &[2, 2],
        first_passes: 1,
        finalists: 2,
        passes: 6,
        hopeless: None,
    };

    /// The same where clusters have means alone, and the shape of a few rows is not theirs.
    pub const LEAST: Effort = Effort { units: &[Units::Standard], ..Effort::LITTLE };
}

/// A pass that gains less than this a row is the last.
const LEAST_GAIN: f64 = 1e-4;

/// Add a proposal for every cluster that has none and has not been tried in vain at its size, and note which clusters are
/// near each other.
pub fn propose<T: Scalar>(
    mixture: &mut Mixture<T>,
    state: &mut GrowthState,
    present: &ClusterSummary,
    data: &Dealt<'_>,
    laps: usize,
) -> Result<()> {
    let num = present.num_clusters();
    for (tried, &count) in state.tried.iter_mut().zip(&present.counts) {
        if tried.splits > 0 && changed(count, tried.split_size) {
            tried.splits = 0;
        }
    }
    let is_due = |&k: &usize| {
        let goes_on = state.splits.iter().any(|split| split.cluster as usize == k);
        !goes_on && state.tried[k].splits < TRIES && present.counts[k] >= 2.0
    };
    let mut due: Vec<usize> = (0..num).filter(is_due).collect();
    if due.is_empty() && state.splits.is_empty() {
        // Before rest once more, if there was a change since: other cuts are drawn, of rows that may be others.
        due = (0..num).filter(|&k| state.tried[k].split_at <= state.last_change && present.counts[k] >= 2.0).collect();
        due.iter().for_each(|&k| state.tried[k].splits = 0);
    }
    let Some(Finding { most, seed, sample, .. }) = &mut mixture.finding else { return Ok(()) };
    let (most, seed, held) = (*most, *seed, sample.take());
    if !due.is_empty() && num < most {
        // Rows that depend on the seed and on their number alone, so that a run that is resumed has the same.
        let wanted = sample_rows(num, rows_of_shape(mixture.likelihood.as_ref()), data.source.num_rows());
        let sample = match held {
            Some(held) if held.0 == wanted => held.1,
            _ => Sample::draw(&mixture.design(), data, wanted, &mut ChaCha8Rng::seed_from_u64(seed))?,
        };
        let seed = seed ^ (laps as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let (found, near) = look(mixture, present, &sample, &due, most + 1 - num, seed)?;
        state.near = near;
        for (k, (pieces, tries)) in due.into_iter().zip(found) {
            match pieces {
                Some(pieces) => {
                    let gain = f64::NEG_INFINITY;
                    state.splits.push(Proposal { cluster: k as u32, refined: 0, gain, pieces });
                }
                None => {
                    let tried = &mut state.tried[k];
                    (tried.splits, tried.split_size, tried.split_at) =
                        (tried.splits + tries, present.counts[k], state.generation);
                }
            }
        }
        if let Some(finding) = &mut mixture.finding {
            finding.sample = Some((wanted, sample));
        }
    } else if let Some(finding) = &mut mixture.finding {
        finding.sample = held;
    }
    state.splits.sort_by_key(|split| split.cluster);
    state.set_beside(mixture.likelihood.as_ref(), present);
    Ok(())
}

/// Rows that the shape of one cluster is looked for in, at least.
fn rows_of_shape<T: Scalar>(likelihood: &dyn Likelihood<T>) -> usize {
    ROWS_A_SHAPE * (likelihood.kind().family().least_rows)(likelihood.dim(), 1)
}

/// Rows of the sample for so many clusters.
fn sample_rows(num_clusters: usize, rows_of_shape: usize, num_rows: usize) -> usize {
    // In steps, so that it is not drawn anew with every cluster.
    let wanted = (ROWS_A_CLUSTER.max(rows_of_shape) * num_clusters.next_power_of_two()).max(LEAST_ROWS);
    wanted.min((num_rows / MOST_SHARE).max(LEAST_ROWS)).min(num_rows)
}

/// For each cluster that is due the best way to cut its rows in so many pieces at most, if there is one, and for how many
/// tries that counts; and which clusters are near each other.
#[expect(clippy::type_complexity, reason = "two lists")]
fn look<T: Scalar>(
    mixture: &Mixture<T>,
    present: &ClusterSummary,
    sample: &Sample<T>,
    due: &[usize],
    most_pieces: usize,
    seed: u64,
) -> Result<(Vec<(Option<Vec<Piece>>, u32)>, Vec<(u32, u32)>)> {
    let (num, likelihood) = (present.num_clusters(), mixture.likelihood.as_ref());
    let clusters = likelihood.global_step(Estimate::Posterior, &present.counts, &present.stats, None)?;
    let frequencies = mixture.allocation.frequencies(Estimate::Posterior, &present.counts);
    let kept = num.min(2);
    let mut resp = Responsibilities::default();
    respond(clusters.as_ref(), &frequencies.log_pi, &sample.rows, kept, &mut resp)?;
    let sample = sample.completed(clusters.as_ref(), &resp, seed);
    let mut rows_of: Vec<Vec<u32>> = vec![Vec::new(); num];
    (0u32..).zip(resp.index.chunks_exact(kept)).for_each(|(n, best)| rows_of[best[0] as usize].push(n));
    let mut near: Vec<(u32, u32)> = Vec::new();
    if kept == 2 {
        for (a, partners) in (0u32..).zip(second_choices(&resp, num)) {
            near.extend(partners.into_iter().map(|b| b as u32).map(|b| (a.min(b), a.max(b))));
        }
        near.sort_unstable();
        near.dedup();
    }
    let most = MOST_OF_A_CLUSTER.max(rows_of_shape(likelihood)).max(MOST_IN_ALL / due.len().max(1));
    let of_cluster = |&k: &usize| {
        let all = &rows_of[k];
        let some: Vec<u32> = all.iter().step_by(all.len().div_ceil(most).max(1)).copied().collect();
        if some.len() < LEAST_OF_A_CLUSTER {
            return Ok((None, 1));
        }
        let mut rng = ChaCha8Rng::seed_from_u64(seed ^ ((k as u64) << 32));
        let (rows, effort) = (sample.of(&some), &Effort::MUCH);
        let mut cuts = Cuts::begin(likelihood, rows, present.counts[k], most_pieces, effort, &mut rng)?;
        if cuts.is_hopeless {
            return Ok((None, TRIES));
        }
        cuts.finish(likelihood, effort)?;
        Ok((cuts.best().map(Attempt::pieces), 1))
    };
    Ok((due.par_iter().map(of_cluster).collect::<Result<_>>()?, near))
}

/// Ways to cut rows, the best first.
pub struct Cuts<T: Scalar> {
    sample: Sample<T>,
    factor: f64,
    attempts: Vec<Attempt<T>>,
    /// What the rows are worth as one, once that is asked for.
    whole: Option<f64>,
    /// They lose so much that no other is looked for.
    pub is_hopeless: bool,
}

impl<T: Scalar> Cuts<T> {
    /// Several ways to cut rows that stand for `weight` of them, of which the best are kept.
    pub fn begin(
        likelihood: &dyn Likelihood<T>,
        sample: Sample<T>,
        weight: f64,
        most_pieces: usize,
        effort: &Effort,
        rng: &mut ChaCha8Rng,
    ) -> Result<Self> {
        let factor = weight / sample.total_weight().max(f64::MIN_POSITIVE);
        let all: Vec<u32> = (0..sample.rows.len() as u32).collect();
        let mut cuts: Vec<Vec<u32>> = Vec::new();
        let shares = likelihood.kind().family().shares_covariance;
        if likelihood.kind().family().has_means && sample.rows.as_dense().is_some() {
            let spaces = Spaces::new(&sample, &CPU);
            for &units in effort.units {
                let space = spaces.of(units);
                let mut owner = vec![0; all.len()];
                space.split_all(&all).into_iter().for_each(|n| owner[n as usize] = 1);
                cuts.push(owner);
            }
        }
        let seeding = Seeding { metric: Metric::Bregman, uniform: false, tries: 1, patience: Patience::default() };
        let by_means = !cuts.is_empty();
        let draws = if by_means { effort.draws } else { effort.draws_alone };
        // Cuts in two tell where they are by the means of clusters of simple shapes, and without means two seeds at random are
        // too few to. Clusters of any shape and with means are worth more than a few cuts foretell.
        let tells = match (shares, by_means) {
            (true, _) => None,
            (false, true) => is_light(likelihood).then_some(0),
            (false, false) => Some(1),
        };
        let mut attempts: Vec<Attempt<T>> = Vec::new();
        let (mut whole, mut is_hopeless) = (None, false);
        let work = |attempts: &mut [Attempt<T>], passes: usize| {
            attempts.iter_mut().try_for_each(|attempt| attempt.work(likelihood, &sample, factor, passes))
        };
        {
            let (rows, mut ruler) = (sample.filled_in(), None);
            let (few, many): (Vec<usize>, Vec<usize>) =
                draws.iter().filter(|&&seeds| seeds <= all.len()).partition(|&&seeds| seeds <= 2);
            for (round, draws) in [few, many].into_iter().enumerate() {
                for seeds in draws {
                    let ruler = ruler.get_or_insert_with(|| Ruler::new(seeding.metric, likelihood, &rows));
                    let (_, owner) = seeding.draw_by(ruler, likelihood, &sample, seeds, rng)?;
                    cuts.push(if seeds > 2 { gather(likelihood, &sample, owner, seeds, most_pieces)? } else { owner });
                }
                let first = attempts.len();
                attempts.extend(cuts.drain(..).map(Attempt::new));
                work(&mut attempts[first..], effort.first_passes)?;
                if let Some((nats, a_row)) = effort.hopeless.filter(|_| tells == Some(round)) {
                    let mut one = [Attempt::new(vec![0; all.len()])];
                    work(&mut one, 1)?;
                    let best = attempts.iter().map(|attempt| attempt.worth).fold(f64::NEG_INFINITY, f64::max);
                    is_hopeless = best - one[0].worth < -(nats + a_row * weight);
                    whole = Some(one[0].worth);
                    if is_hopeless {
                        break;
                    }
                }
            }
        }
        attempts.sort_by(|a, b| b.worth.total_cmp(&a.worth));
        attempts.truncate(effort.finalists);
        Ok(Cuts { sample, factor, attempts, whole, is_hopeless })
    }

    fn work(&mut self, likelihood: &dyn Likelihood<T>, passes: usize) -> Result<()> {
        let Cuts { sample, factor, attempts, .. } = self;
        attempts.iter_mut().try_for_each(|attempt| attempt.work(likelihood, sample, *factor, passes))
    }

    /// What the rows are worth cut in the best way so far, less what they are worth as one.
    pub fn gain(&mut self, likelihood: &dyn Likelihood<T>) -> Result<f64> {
        let worth = self.best().map_or(f64::NEG_INFINITY, |best| best.worth);
        if let Some(whole) = self.whole {
            return Ok(worth - whole);
        }
        let mut whole = Attempt::new(vec![0; self.sample.rows.len()]);
        whole.work(likelihood, &self.sample, self.factor, 1)?;
        self.whole = Some(whole.worth);
        Ok(worth - whole.worth)
    }

    /// The passes that are left.
    pub fn finish(&mut self, likelihood: &dyn Likelihood<T>, effort: &Effort) -> Result<()> {
        self.work(likelihood, effort.passes - effort.first_passes)
    }

    /// The best so far, if it is a cut at all.
    pub fn best(&self) -> Option<&Attempt<T>> {
        let cuts = self.attempts.iter().filter(|attempt| attempt.pieces.num_clusters() > 1);
        cuts.reduce(|best, other| if other.worth > best.worth { other } else { best })
    }
}

/// A way to cut rows that is being worked on.
pub struct Attempt<T: Scalar> {
    num: usize,
    resp: Responsibilities<T>,
    /// That of the shares of rows in the pieces.
    pub entropy: f64,
    /// Nothing before the first pass.
    pieces: ClusterSummary,
    /// What the rows are worth cut so.
    worth: f64,
    /// The pieces that rows have not been dealt to yet.
    next: Option<Box<dyn Clusters<T>>>,
    at_rest: bool,
}

impl<T: Scalar> Attempt<T> {
    fn new(owner: Vec<u32>) -> Self {
        let num = owner.iter().max().map_or(0, |&last| last as usize + 1);
        let (pieces, worth) = (ClusterSummary::zeros(0, 0, 0), f64::NEG_INFINITY);
        Attempt { num, resp: hard(owner), entropy: 0.0, pieces, worth, next: None, at_rest: false }
    }

    /// N and S of the pieces.
    pub fn pieces(&self) -> Vec<Piece> {
        let counts = self.pieces.counts.iter().enumerate();
        counts.map(|(at, &count)| (count, self.pieces.stat(at).to_vec())).collect()
    }

    /// Passes over the rows, until one gains nothing or leaves a piece without any.
    fn work(&mut self, likelihood: &dyn Likelihood<T>, sample: &Sample<T>, factor: f64, passes: usize) -> Result<()> {
        for _ in 0..passes {
            if self.at_rest {
                break;
            }
            if let Some(clusters) = self.next.take() {
                let log_size: Vec<f64> = self.pieces.counts.iter().map(|count| count.ln()).collect();
                let of_rows = respond(clusters.as_ref(), &log_size, &sample.rows, self.num, &mut self.resp)?;
                self.entropy = (0u32..).zip(of_rows).map(|(n, h)| factor * sample.weight(n as usize) * h).sum();
            }
            let pieces = parts_of(likelihood, sample, &self.resp, self.num, factor);
            let ClusterSummary { counts, stats, .. } = &pieces;
            if counts.iter().any(|&count| count <= 0.0) {
                self.at_rest = true;
                break;
            }
            let clusters = likelihood.global_step(Estimate::Posterior, counts, stats, None)?;
            let worth = clusters.own_data_term() + of_sizes(counts) + self.entropy;
            self.at_rest = worth <= self.worth + LEAST_GAIN * counts.iter().sum::<f64>();
            (self.pieces, self.worth, self.next) = (pieces, worth, Some(clusters));
        }
        Ok(())
    }
}

/// What the sizes of clusters are worth, but for a term of their sum.
fn of_sizes(counts: &[f64]) -> f64 {
    counts.iter().map(|&count| count * count.max(f64::MIN_POSITIVE).ln()).sum()
}

/// Rows around several seeds in two groups or more: passes over the rows, and then again and again the two groups become
/// one that gain most by it, as long as they gain, by these rows alone and not by all that they stand for: what so few can
/// tell apart is likely to be apart.
fn gather<T: Scalar>(
    likelihood: &dyn Likelihood<T>,
    sample: &Sample<T>,
    mut owner: Vec<u32>,
    seeds: usize,
    most_pieces: usize,
) -> Result<Vec<u32>> {
    let mut parts = parts_of(likelihood, sample, &hard(owner.clone()), seeds, 1.0);
    for _ in 0..FEW_PASSES {
        let ClusterSummary { counts, stats, .. } = &parts;
        let clusters = likelihood.global_step(Estimate::Posterior, counts, stats, None)?;
        let log_size: Vec<f64> = counts.iter().map(|count| count.max(f64::MIN_POSITIVE).ln()).collect();
        let mut resp = Responsibilities::default();
        respond(clusters.as_ref(), &log_size, &sample.rows, 1, &mut resp)?;
        parts = parts_of(likelihood, sample, &resp, seeds, 1.0);
        owner = resp.index;
    }
    let least = ROWS_A_PIECE * (likelihood.kind().family().least_rows)(likelihood.dim(), 1) as f64;
    let mut groups: Vec<(u32, Piece)> =
        (0..seeds).map(|k| (k as u32, (parts.counts[k], parts.stat(k).to_vec()))).collect();
    groups.retain(|(_, (count, _))| *count > 0.0);
    let worths = Worths { likelihood, shared: parts.shared() };
    let mut alone = worths.of(&groups.iter().map(|(_, group)| group).collect::<Vec<_>>())?;
    let all_pairs = |num: usize| (0..num).flat_map(|b| (0..b).map(move |a| (a, b))).collect::<Vec<_>>();
    // What each two of them are worth as one; where clusters share statistics, what all are worth then.
    let mut together: Vec<Vec<f64>> = vec![vec![0.0; groups.len()]; groups.len()];
    let mut stale = all_pairs(groups.len());
    while groups.len() > 2 {
        for (&(a, b), worth) in stale.iter().zip(worths.of_pairs(&groups, &stale)?) {
            (together[a][b], together[b][a]) = (worth, worth);
        }
        let gain =
            |(a, b): (usize, usize)| together[a][b] - if worths.depend() { alone[0] } else { alone[a] + alone[b] };
        let small = groups.iter().position(|(_, (count, _))| *count < least);
        let pairs = all_pairs(groups.len()).into_iter();
        let pairs = pairs.filter(|&(a, b)| small.is_none_or(|small| a == small || b == small));
        let Some((a, b)) = pairs.max_by(|x, y| gain(*x).total_cmp(&gain(*y))) else { break };
        if gain((a, b)) <= 0.0 && groups.len() <= most_pieces && small.is_none() {
            break;
        }
        let (gone, (count, stat)) = groups.remove(b);
        let (into, group) = &mut groups[a];
        group.0 += count;
        group.1.iter_mut().zip(&stat).for_each(|(a, b)| *a += b);
        owner.iter_mut().filter(|k| **k == gone).for_each(|k| *k = *into);
        alone[if worths.depend() { 0 } else { a }] = together[a][b];
        if !worths.depend() {
            alone.remove(b);
        }
        together.remove(b);
        together.iter_mut().for_each(|of| {
            of.remove(b);
        });
        stale = match worths.depend() {
            true => all_pairs(groups.len()),
            false => (0..groups.len()).filter(|&other| other != a).map(|other| (a.min(other), a.max(other))).collect(),
        };
    }
    let place = |k: &u32| groups.iter().position(|(group, _)| group == k).unwrap_or(0) as u32;
    Ok(owner.iter().map(place).collect())
}

/// What groups of rows are worth as clusters of their own.
struct Worths<'a, T: Scalar> {
    likelihood: &'a dyn Likelihood<T>,
    /// What is the same for all groups.
    shared: &'a [f64],
}

impl<T: Scalar> Worths<'_, T> {
    /// Whether what a group is worth depends on the others.
    fn depend(&self) -> bool {
        self.likelihood.kind().family().shares_covariance
    }

    /// What each is worth; one number for all of them where they share statistics.
    fn of(&self, groups: &[&Piece]) -> Result<Vec<f64>> {
        let counts: Vec<f64> = groups.iter().map(|group| group.0).collect();
        let mut stats: Vec<f64> = groups.iter().flat_map(|group| &group.1).copied().collect();
        if !self.depend() {
            let worths = self.likelihood.evidence(&counts, &stats)?;
            return Ok(worths.iter().zip(&counts).map(|(worth, count)| worth + of_sizes(&[*count])).collect());
        }
        stats.extend(self.shared);
        let clusters = self.likelihood.global_step(Estimate::Posterior, &counts, &stats, None)?;
        Ok(vec![clusters.own_data_term() + of_sizes(&counts)])
    }

    /// What two groups are worth as one, or all where they share statistics, for each of these pairs.
    fn of_pairs(&self, groups: &[(u32, Piece)], pairs: &[(usize, usize)]) -> Result<Vec<f64>> {
        let both = |&(a, b): &(usize, usize)| -> Piece {
            let [first, second] = [a, b].map(|at| &groups[at].1);
            (first.0 + second.0, first.1.iter().zip(&second.1).map(|(a, b)| a + b).collect())
        };
        if !self.depend() {
            let both: Vec<Piece> = pairs.iter().map(both).collect();
            return self.of(&both.iter().collect::<Vec<_>>());
        }
        let mut worths = Vec::with_capacity(pairs.len());
        for pair in pairs {
            let both = both(pair);
            let others = groups.iter().enumerate().filter(|(at, _)| *at != pair.0 && *at != pair.1);
            worths.extend(self.of(&others.map(|(_, (_, group))| group).chain([&both]).collect::<Vec<_>>())?);
        }
        Ok(worths)
    }
}

/// Every row in one group.
pub fn hard<T: Scalar>(owner: Vec<u32>) -> Responsibilities<T> {
    Responsibilities { sparsity: 1, value: vec![T::ONE; owner.len()], index: owner }
}

/// The statistics of rows in so many groups, each row times `factor`.
pub fn parts_of<T: Scalar>(
    likelihood: &dyn Likelihood<T>,
    sample: &Sample<T>,
    resp: &Responsibilities<T>,
    num: usize,
    factor: f64,
) -> ClusterSummary {
    let mut parts = likelihood.no_statistics(num);
    let (width, mut scratch) = (parts.width, Scratch::default());
    let weight = |n: u32| factor * sample.weight(n as usize);
    let mut members: Vec<(Vec<u32>, Vec<T>)> = vec![Default::default(); num];
    for n in 0..resp.len() as u32 {
        let (index, value) = resp.row(n as usize);
        // (As in training, what is too small to change a sum of one is left out.)
        for (&part, r) in index.iter().zip(value).filter(|(_, r)| r.to_f64() > T::EPSILON / 2.0) {
            let (rows, values) = &mut members[part as usize];
            rows.push(n);
            values.push(T::from_f64(r.to_f64() * weight(n)));
        }
    }
    for (part, (rows, values)) in members.iter().enumerate() {
        parts.counts[part] = values.iter().map(|w| w.to_f64()).sum();
        let stat = &mut parts.stats[part * width..(part + 1) * width];
        likelihood.accumulate(&sample.rows, rows, values, &mut scratch, stat);
    }
    let all: Vec<u32> = (0..resp.len() as u32).collect();
    let weights: Vec<f64> = all.iter().map(|&n| weight(n)).collect();
    likelihood.accumulate_shared(&sample.rows, &all, &weights, &mut parts.stats[num * width..]);
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{Moments, Rows};
    use crate::likelihood::{LikelihoodKind, Prior};
    use crate::settings::MixtureConfig;
    use crate::synthetic::planted;

    /// Rows of one cluster are not looked at for long where its shape is simple, and those of several are found apart.
    #[test]
    fn what_is_one_cluster_is_given_up_at_once_and_what_is_several_is_cut() {
        let dim = 40;
        for (kind, is_simple) in [(LikelihoodKind::DiagGauss, true), (LikelihoodKind::Gauss, false)] {
            for (num, truth) in [(800, 1), (800, 2), (3600, 6)] {
                let planted = planted(kind, num, dim, truth, 3);
                let mut rows = Rows::dense(dim);
                rows.push_dense(&planted.values);
                let config = MixtureConfig { likelihood: kind, prior_scale: Some(1.0), ..Default::default() };
                let (mean, variance) = (vec![0.0; dim], vec![1.0; dim]);
                let moments = Moments { mean, second_moment: variance.clone(), variance, ..Moments::unknown(dim) };
                let likelihood = kind.build::<f64>(&Prior::for_data(&config, &moments));
                let (sample, mut rng) = (Sample { rows, weights: Vec::new() }, ChaCha8Rng::seed_from_u64(1));
                let mut cuts =
                    Cuts::begin(likelihood.as_ref(), sample, num as f64, 20, &Effort::MUCH, &mut rng).unwrap();
                assert_eq!(cuts.is_hopeless, truth == 1 && is_simple, "{kind:?} {truth}");
                if truth > 1 {
                    cuts.finish(likelihood.as_ref(), &Effort::MUCH).unwrap();
                    assert_eq!(cuts.best().unwrap().pieces().len(), truth, "{kind:?}");
                }
            }
        }
    }
}
