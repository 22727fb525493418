//! Looking for splits: the rows of a cluster in a sample, cut in two in several ways, and the best of them kept.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

use super::{Finding, GrowthState, Half, Proposal, TRIES, changed};
use crate::clusters::seed::{Metric, Sample, Seeding, Spaces, Units, second_choices};
use crate::data::{Dealt, Scalar};
use crate::error::Result;
use crate::likelihood::{ClusterSummary, Estimate, Likelihood, Scratch};
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

/// Both are more where clusters have many numbers, so many for each row that a shape takes at least: with fewer the halves
/// are shaped by chance, and every row likes best the half that it is in.
const ROWS_A_SHAPE: usize = 40;

/// Rows of a cluster that can be told apart at all.
const LEAST_OF_A_CLUSTER: usize = 4;

/// Numbers of seeds of the ways to cut that are drawn at random: more than two are gathered into two.
const DRAWS: [usize; 5] = [2, 2, 4, 6, 8];

/// Passes over the rows from more seeds, and from two.
const FEW_PASSES: usize = 3;
const PASSES: usize = 12;

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
    let due: Vec<usize> = (0..num).filter(is_due).collect();
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
        let (found, near) = look(mixture, present, &sample, &due, seed)?;
        state.near = near;
        for (k, halves) in due.into_iter().zip(found) {
            match halves {
                Some(halves) => {
                    let gain = f64::NEG_INFINITY;
                    state.splits.push(Proposal { cluster: k as u32, refined: 0, gain, halves });
                }
                None => {
                    let tried = &mut state.tried[k];
                    (tried.splits, tried.split_size) = (tried.splits + 1, present.counts[k]);
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
    let proposed = |k: &usize| state.splits.binary_search_by_key(&(*k as u32), |split| split.cluster).is_ok();
    state.beside = (mixture.likelihood.shared_width() > 0).then(|| {
        let others: Vec<usize> = (0..num).filter(|k| !proposed(k)).collect();
        present.reordered(&others)
    });
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

/// For each cluster that is due the best way to cut its rows in two, and which clusters are near each other.
#[expect(clippy::type_complexity, reason = "two lists")]
fn look<T: Scalar>(
    mixture: &Mixture<T>,
    present: &ClusterSummary,
    sample: &Sample<T>,
    due: &[usize],
    seed: u64,
) -> Result<(Vec<Option<[Half; 2]>>, Vec<(u32, u32)>)> {
    let (num, likelihood) = (present.num_clusters(), mixture.likelihood.as_ref());
    let clusters = likelihood.global_step(Estimate::Posterior, &present.counts, &present.stats, None)?;
    let frequencies = mixture.allocation.frequencies(Estimate::Posterior, &present.counts);
    let kept = num.min(2);
    let mut resp = Responsibilities::default();
    respond(clusters.as_ref(), &frequencies.log_pi, &sample.rows, kept, &mut resp)?;
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
            return Ok(None);
        }
        let mut rng = ChaCha8Rng::seed_from_u64(seed ^ ((k as u64) << 32));
        cut(likelihood, &sample.of(&some), present.counts[k], &mut rng)
    };
    Ok((due.par_iter().map(of_cluster).collect::<Result<_>>()?, near))
}

/// The best of several ways to cut rows in two that stand for `weight` of them.
fn cut<T: Scalar>(
    likelihood: &dyn Likelihood<T>,
    sample: &Sample<T>,
    weight: f64,
    rng: &mut ChaCha8Rng,
) -> Result<Option<[Half; 2]>> {
    let factor = weight / sample.total_weight().max(f64::MIN_POSITIVE);
    let all: Vec<u32> = (0..sample.rows.len() as u32).collect();
    let mut cuts: Vec<Vec<u32>> = Vec::new();
    if likelihood.kind().family().has_means && sample.rows.as_dense().is_some() {
        let spaces = Spaces::new(sample);
        for units in [Units::Raw, Units::Standard] {
            let space = spaces.of(units);
            let mut owner = vec![0; all.len()];
            space.split_all(&all).into_iter().for_each(|n| owner[n as usize] = 1);
            cuts.push(owner);
        }
    }
    let seeding = Seeding { metric: Metric::Bregman, uniform: false, tries: 1, patience: Patience::default() };
    for seeds in DRAWS.into_iter().filter(|&seeds| seeds <= all.len()) {
        let (_, owner) = seeding.draw(likelihood, sample, seeds, rng)?;
        cuts.push(if seeds > 2 { gather(likelihood, sample, owner, seeds, factor)? } else { owner });
    }
    let mut best: Option<(f64, [Half; 2])> = None;
    for owner in cuts {
        let mut resp = hard(owner);
        let (mut found, mut entropy) = (None, 0.0);
        for _ in 0..=PASSES {
            let Some(halves) = parts_of(likelihood, sample, &resp, 2, factor) else { break };
            let ClusterSummary { counts, stats, .. } = &halves;
            let clusters = likelihood.global_step(Estimate::Posterior, counts, stats, None)?;
            let log_size: Vec<f64> = counts.iter().map(|count| count.ln()).collect();
            let of_sizes: f64 = counts.iter().zip(&log_size).map(|(n, log)| n * log).sum();
            let worth = clusters.own_data_term() + of_sizes + entropy;
            let risen = found.as_ref().is_none_or(|(before, _): &(f64, _)| worth > before + LEAST_GAIN * weight);
            found = Some((worth, halves));
            if !risen {
                break;
            }
            let of_rows = respond(clusters.as_ref(), &log_size, &sample.rows, 2, &mut resp)?;
            entropy = (0u32..).zip(of_rows).map(|(n, h)| factor * sample.weight(n as usize) * h).sum();
        }
        if let Some((worth, halves)) = found.filter(|(worth, _)| best.as_ref().is_none_or(|best| *worth > best.0)) {
            best = Some((worth, [0, 1].map(|half| (halves.counts[half], halves.stat(half).to_vec()))));
        }
    }
    Ok(best.map(|(_, halves)| halves))
}

/// Rows around several seeds in two groups: passes over the rows, and then again and again the two groups become one that
/// lose least by it.
fn gather<T: Scalar>(
    likelihood: &dyn Likelihood<T>,
    sample: &Sample<T>,
    mut owner: Vec<u32>,
    seeds: usize,
    factor: f64,
) -> Result<Vec<u32>> {
    for _ in 0..FEW_PASSES {
        let resp = hard(owner.clone());
        let Some(ClusterSummary { counts, stats, .. }) = parts_of(likelihood, sample, &resp, seeds, factor) else {
            break;
        };
        let clusters = likelihood.global_step(Estimate::Posterior, &counts, &stats, None)?;
        let log_size: Vec<f64> = counts.iter().map(|count| count.max(f64::MIN_POSITIVE).ln()).collect();
        let mut resp = Responsibilities::default();
        respond(clusters.as_ref(), &log_size, &sample.rows, 1, &mut resp)?;
        owner = resp.index;
    }
    // What two groups are worth as clusters of their own, with their share in the term of sizes.
    let worth = |groups: &[u32], owner: &[u32]| -> Result<f64> {
        let within = owner.iter().map(|k| u32::from(!groups.contains(k))).collect();
        let Some(parts) = parts_of(likelihood, sample, &hard(within), 2, factor) else { return Ok(0.0) };
        let (count, stat) = (parts.counts[0], [parts.stat(0), parts.shared()].concat());
        let alone = likelihood.global_step(Estimate::Posterior, &[count], &stat, None)?;
        Ok(alone.own_data_term() + count * count.max(f64::MIN_POSITIVE).ln())
    };
    let mut groups: Vec<u32> = (0..seeds as u32).filter(|k| owner.contains(k)).collect();
    while groups.len() > 2 {
        let own: Vec<f64> = groups.iter().map(|&k| worth(&[k], &owner)).collect::<Result<_>>()?;
        let mut best = (f64::NEG_INFINITY, 0, 1);
        for a in 0..groups.len() {
            for b in a + 1..groups.len() {
                let gain = worth(&[groups[a], groups[b]], &owner)? - own[a] - own[b];
                if gain > best.0 {
                    best = (gain, a, b);
                }
            }
        }
        let (_, a, b) = best;
        let gone = groups.remove(b);
        owner.iter_mut().filter(|k| **k == gone).for_each(|k| *k = groups[a]);
    }
    Ok(owner.into_iter().map(|k| u32::from(k != groups[0])).collect())
}

/// Every row in one group.
fn hard<T: Scalar>(owner: Vec<u32>) -> Responsibilities<T> {
    Responsibilities { sparsity: 1, value: vec![T::ONE; owner.len()], index: owner }
}

/// The statistics of rows in so many groups, on the scale of those that they stand for; none where there are two and one
/// has nothing.
fn parts_of<T: Scalar>(
    likelihood: &dyn Likelihood<T>,
    sample: &Sample<T>,
    resp: &Responsibilities<T>,
    num: usize,
    factor: f64,
) -> Option<ClusterSummary> {
    let mut parts = likelihood.no_statistics(num);
    let (width, mut scratch) = (parts.width, Scratch::default());
    let weight = |n: u32| factor * sample.weight(n as usize);
    for part in 0..num {
        let (mut rows, mut values) = (Vec::new(), Vec::new());
        for n in 0..resp.len() as u32 {
            let (index, value) = resp.row(n as usize);
            for (_, r) in index.iter().zip(value).filter(|(k, r)| **k as usize == part && **r > T::ZERO) {
                rows.push(n);
                values.push(T::from_f64(r.to_f64() * weight(n)));
            }
        }
        parts.counts[part] = values.iter().map(|w| w.to_f64()).sum();
        if parts.counts[part] <= 0.0 && num == 2 {
            return None;
        }
        let stat = &mut parts.stats[part * width..(part + 1) * width];
        likelihood.accumulate(&sample.rows, &rows, &values, &mut scratch, stat);
    }
    let all: Vec<u32> = (0..resp.len() as u32).collect();
    let weights: Vec<f64> = all.iter().map(|&n| weight(n)).collect();
    likelihood.accumulate_shared(&sample.rows, &all, &weights, &mut parts.stats[num * width..]);
    Some(parts)
}
