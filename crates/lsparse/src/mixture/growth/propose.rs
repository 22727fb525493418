//! Looking for splits: the rows of a cluster in a sample, cut in two in several ways, and the best of them kept.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

use super::{Finding, GrowthState, Half, Proposal, TRIES, changed};
use crate::data::{Dealt, Scalar};
use crate::error::Result;
use crate::likelihood::{ClusterSummary, Estimate, Likelihood, Scratch};
use crate::mixture::seed::{Metric, Sample, Seeding, Spaces, Units, second_choices};
use crate::mixture::{Mixture, respond};
use crate::training::responsibilities::Responsibilities;
use crate::training::rules::Patience;

/// Rows of the sample: so many a cluster, at least so many, and no more than a share of all but for small data.
const ROWS_A_CLUSTER: usize = 300;
const LEAST_ROWS: usize = 10_000;
const MOST_SHARE: usize = 8;

/// Rows of a cluster that its splits are looked for in at most.
const MOST_OF_A_CLUSTER: usize = 500;

/// Rows of a cluster that can be told apart at all.
const LEAST_OF_A_CLUSTER: usize = 4;

/// Ways to cut that are drawn at random, and passes over the rows from each.
const DRAWS: usize = 3;
const PASSES: usize = 8;

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
        let wanted = sample_rows(num, data.source.num_rows());
        let sample = match held {
            Some(held) if held.0 == wanted => held.1,
            _ => Sample::draw(mixture, data, wanted, &mut ChaCha8Rng::seed_from_u64(seed))?,
        };
        let seed = seed ^ (laps as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let (found, near) = look(mixture, present, &sample, &due, seed)?;
        state.near = near;
        for (k, halves) in due.into_iter().zip(found) {
            match halves {
                Some(halves) => state.splits.push(Proposal { cluster: k as u32, refined: 0, halves }),
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

/// Rows of the sample for so many clusters.
fn sample_rows(num_clusters: usize, num_rows: usize) -> usize {
    // In steps, so that it is not drawn anew with every cluster.
    let wanted = (ROWS_A_CLUSTER * num_clusters.next_power_of_two()).max(LEAST_ROWS);
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
    let of_cluster = |&k: &usize| {
        let all = &rows_of[k];
        let some: Vec<u32> = all.iter().step_by(all.len().div_ceil(MOST_OF_A_CLUSTER).max(1)).copied().collect();
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
    for _ in 0..DRAWS {
        cuts.push(seeding.draw(likelihood, sample, 2, rng)?.1);
    }
    let mut best: Option<(f64, [Half; 2])> = None;
    for mut owner in cuts {
        let mut found = None;
        for pass in 0..=PASSES {
            let Some(halves) = halves_of(likelihood, sample, &owner, factor) else { break };
            let ClusterSummary { counts, stats, .. } = &halves;
            let clusters = likelihood.global_step(Estimate::Posterior, counts, stats, None)?;
            let log_size: Vec<f64> = counts.iter().map(|count| count.ln()).collect();
            let worth = clusters.own_data_term() + counts.iter().zip(&log_size).map(|(n, log)| n * log).sum::<f64>();
            found = Some((worth, halves));
            if pass == PASSES {
                break;
            }
            let mut resp = Responsibilities::default();
            respond(clusters.as_ref(), &log_size, &sample.rows, 1, &mut resp)?;
            if resp.index == owner {
                break;
            }
            owner = resp.index;
        }
        if let Some((worth, halves)) = found.filter(|(worth, _)| best.as_ref().is_none_or(|best| *worth > best.0)) {
            best = Some((worth, [0, 1].map(|half| (halves.counts[half], halves.stat(half).to_vec()))));
        }
    }
    Ok(best.map(|(_, halves)| halves))
}

/// The statistics of rows in two halves, on the scale of those that they stand for; none where a half has nothing.
fn halves_of<T: Scalar>(
    likelihood: &dyn Likelihood<T>,
    sample: &Sample<T>,
    owner: &[u32],
    factor: f64,
) -> Option<ClusterSummary> {
    let mut halves = likelihood.no_statistics(2);
    let (width, mut scratch) = (halves.width, Scratch::default());
    let weight = |n: u32| factor * sample.weight(n as usize);
    for half in 0..2 {
        let rows: Vec<u32> = (0u32..).zip(owner).filter(|(_, owner)| **owner == half).map(|(n, _)| n).collect();
        let weights: Vec<T> = rows.iter().map(|&n| T::from_f64(weight(n))).collect();
        let half = half as usize;
        halves.counts[half] = weights.iter().map(|w| w.to_f64()).sum();
        if halves.counts[half] <= 0.0 {
            return None;
        }
        let stat = &mut halves.stats[half * width..(half + 1) * width];
        likelihood.accumulate(&sample.rows, &rows, &weights, &mut scratch, stat);
    }
    let all: Vec<u32> = (0..owner.len() as u32).collect();
    let weights: Vec<f64> = all.iter().map(|&n| weight(n)).collect();
    likelihood.accumulate_shared(&sample.rows, &all, &weights, &mut halves.stats[2 * width..]);
    Some(halves)
}
