//! A contest of starts: several are tried on a sample of the rows, judged by rows that were left out, and the best is worked
//! on.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

use super::seeds::{Metric, Seeding};
use super::space::{Spaces, Units};
use super::trade::{Groups, Split, carry_out, cheapest};
use super::{FEWEST_JUDGES, MOST_PASSES, MOST_TRADES, Sample, Start, hard_summary, is_light};
use crate::clusters::Design;
use crate::clusters::device::{Gpu, Judge};
use crate::data::Scalar;
use crate::error::{Error, Result};
use crate::likelihood::{ClusterSummary, Estimate, Likelihood, Scratch};
use crate::training::responsibilities::Responsibilities;
use crate::training::summary::Summary;

/// A heat looks at one row in so many.
const HEAT: usize = 4;

/// Rows a cluster that it takes at least.
const HEAT_ROWS: usize = 40;

/// The same where a shape has many numbers, and for each column then: with fewer the shape is the prior's, and four clusters
/// of rows that lack values were told wrongly by a hundred rows each.
const HEAT_ROWS_OF_SHAPES: usize = 160;
const HEAT_ROWS_A_COLUMN: usize = 2;

/// From so many clusters on a heat is held with fewer of them, where its rows are not enough for all: which start rows want
/// is for the rows to say, and starts of so many clusters are what takes time. But not with fewer than one in `MOST_TIMES`.
const MANY: usize = 1000;
const MOST_TIMES: usize = 16;

/// Passes of k-means that it makes at most.
const HEAT_PASSES: usize = 4;

/// Steps of training after which a start of clusters whose shapes have many numbers is judged. After one step shapes are
/// still those of the start, and what looks best then may end worst: of patches in 50 principal components, ten clusters of
/// full covariance, k-means is last of three by 2.6 nats a row after one step, and first by 1.8 after four and by 3 after
/// eight.
const STEPS_TO_SHAPE: usize = 4;

/// Steps that shapes of many numbers are brought on by before they are judged again, how often at most, and what a row is
/// to gain by them if they are to go on.
const SHAPING: (usize, usize, f64) = (5, 4, 0.01);

/// What a row may lose by them if they are to be kept.
const MUCH_WORSE: f64 = 0.5;

/// Steps of training after which a start is judged.
fn steps_to_judge<T: Scalar>(likelihood: &dyn Likelihood<T>) -> usize {
    if is_light(likelihood) && likelihood.shared_width() == 0 { 1 } else { STEPS_TO_SHAPE }
}

impl<T: Scalar> Start<'_, T> {
    /// Several starts, each followed by a few steps of training; the one that gives rows it has not seen the best density is
    /// kept, or, where none could be spared, the one with the best objective. Then trades between its clusters, as long
    /// as they are judged to be for the better.
    ///
    /// No one start is best: columns of different scales want units of their own, most data k-means, and clusters that
    /// share their means the divergence of the family. The objective after a step would take many small clusters for
    /// good ones; the density of other rows foretells that at the end.
    pub(super) fn contest(
        &self,
        passes: Option<usize>,
        judges: Option<&Sample<T>>,
        rng: &mut ChaCha8Rng,
    ) -> Result<ClusterSummary> {
        let most = passes.unwrap_or(MOST_PASSES);
        // Who asks for a pass at most wants seeds.
        let trades = if most > 1 { MOST_TRADES } else { 0 };
        let spaces = Spaces::new(self.sample, self.gpu.place);
        let mut entrants = ENTRANTS.map(|entrant| (entrant, ChaCha8Rng::seed_from_u64(rng.random())));
        let heat = self.heat(passes, judges, rng)?;
        if let Some(order) = &heat {
            entrants.sort_by_key(|(entrant, _)| order.iter().position(|other| other == entrant));
        }
        let mut best = Err(Error::NoRows { name: "the sample to start from".into() });
        for (entrant, rng) in &mut entrants {
            let entered = self.enter(*entrant, &spaces, passes, (most, trades), judges, rng)?;
            best = better(best, entered);
            if heat.is_some() && best.is_ok() {
                break;
            }
        }
        let best = best?;
        let (_, mut summary) = if trades > 0 { self.shape(best, judges)? } else { best };
        for _ in 0..trades {
            let Some(traded) = self.trade(&spaces, &summary)? else { break };
            // Both are a step further on, so that the step is not taken for a merit of the trades.
            let plain = self.train(summary, judges)?;
            summary = match self.train(traded, judges) {
                Ok(traded) if traded.0 > plain.0 => traded.1,
                _ => return Ok(plain.1),
            };
        }
        Ok(summary)
    }

    /// The entrants, the best first, by a part of the sample and with few passes; none where that is too little to go by.
    ///
    /// Where it matters which start is taken, starts differ by more than a part of the rows is wrong by, as long as those are
    /// enough to tell shapes.
    fn heat(
        &self,
        passes: Option<usize>,
        judges: Option<&Sample<T>>,
        rng: &mut ChaCha8Rng,
    ) -> Result<Option<Vec<Entrant>>> {
        let Start { design, sample, clusters, .. } = *self;
        let likelihood = design.likelihood;
        let rows_a_cluster = match is_light(likelihood) {
            true => HEAT_ROWS,
            false => HEAT_ROWS_OF_SHAPES.max(HEAT_ROWS_A_COLUMN * likelihood.dim()),
        };
        let most = sample.rows.len() / HEAT / rows_a_cluster;
        let may_be_fewer = clusters >= MANY && most >= clusters / MOST_TIMES;
        let clusters = if may_be_fewer { clusters.min(most) } else { clusters };
        let enough = clusters <= most;
        let Some(judges) = judges.filter(|_| enough && passes != Some(0)) else {
            return Ok(None);
        };
        let design = Design { num_clusters: clusters, sparsity: design.sparsity.min(clusters), ..*design };
        let every = |ids: usize, step: usize| (0..ids as u32).step_by(step).collect::<Vec<_>>();
        let part = sample.of(&every(sample.rows.len(), HEAT));
        let step = (judges.rows.len() / FEWEST_JUDGES / 4).clamp(1, HEAT);
        let judges = judges.of(&every(judges.rows.len(), step));
        if part.total_weight() <= 0.0 || judges.total_weight() <= 0.0 {
            return Ok(None);
        }
        let held = part.held(self.gpu, likelihood)?;
        let factor = self.factor * sample.total_weight() / part.total_weight();
        let start = Start { design: &design, sample: &part, held: held.as_ref(), clusters, factor, ..*self };
        let spaces = Spaces::new(&part, self.gpu.place);
        let most = passes.unwrap_or(MOST_PASSES).min(HEAT_PASSES);
        let mut scores = Vec::new();
        for entrant in ENTRANTS {
            let mut rng = ChaCha8Rng::seed_from_u64(rng.random());
            let entered = start.enter(entrant, &spaces, passes, (most, 0), Some(&judges), &mut rng)?;
            scores.push((entered.map_or(f64::NEG_INFINITY, |(score, _)| score), entrant));
        }
        // Of equal ones the first stays.
        scores.sort_by(|a, b| b.0.total_cmp(&a.0));
        Ok(Some(scores.into_iter().map(|(_, entrant)| entrant).collect()))
    }

    /// A start, and steps of training from it. One that cannot be trained is an error within; one that was interrupted
    /// ends them all.
    fn enter(
        &self,
        entrant: Entrant,
        spaces: &Spaces<'_, T>,
        passes: Option<usize>,
        (most, trades): (usize, usize),
        judges: Option<&Sample<T>>,
        rng: &mut ChaCha8Rng,
    ) -> Result<Result<(f64, ClusterSummary)>> {
        let seeding = Seeding { metric: Metric::Bregman, uniform: false, tries: 1, patience: self.patience };
        let summary = match entrant {
            Entrant::Kmeans(units) => self.kmeans(spaces.of(units), most, trades, rng),
            Entrant::Bregman => self.seeded(seeding, passes.unwrap_or(1), rng),
        };
        let trained = summary.and_then(|mut summary| {
            // Single rows keep their weight of one.
            summary.scale(if passes == Some(0) { 1.0 } else { self.factor });
            for _ in 1..steps_to_judge(self.design.likelihood) {
                summary = self.step(&summary)?;
            }
            self.train(summary, judges)
        });
        self.patience.check().map(|()| trained)
    }

    /// Steps of training with the most likely shapes, for posteriors of shapes of many numbers, as long as rows that were
    /// left out gain by it.
    ///
    /// A posterior holds clusters of few rows to be wide, so that from a start which is far from rest they lose rows to
    /// large ones and stay small. The most likely shapes have no such doubts, and a posterior that starts from them rests
    /// higher. That shows at rest and not at once, so that only a start which other rows lose much by is left as it was.
    fn shape(&self, plain: (f64, ClusterSummary), judges: Option<&Sample<T>>) -> Result<(f64, ClusterSummary)> {
        let design = self.design;
        let is_heavy = !is_light(design.likelihood) && design.likelihood.shared_width() == 0;
        // Where a cluster has hardly more rows than columns, doubts are right.
        let are_enough = self.sample.rows.len() >= 2 * self.clusters.saturating_mul(design.likelihood.dim());
        let is_due = is_heavy && are_enough && design.estimate == Estimate::Posterior;
        let Some(judges) = judges.filter(|_| is_due) else { return Ok(plain) };
        let (steps, rounds, least) = SHAPING;
        let most_likely = Design { estimate: Estimate::Map, ..*design };
        let likely = Start { design: &most_likely, ..*self };
        let mut reached = plain.clone();
        for round in 0..rounds {
            // What cannot be trained so is left as it is.
            let Ok(next) = likely.steps(&reached.1, steps).and_then(|next| Ok((self.judge(&next, judges)?, next)))
            else {
                break;
            };
            self.patience.check()?;
            let gain = next.0 - reached.0;
            reached = next;
            // The first steps away from the posterior may lose what the next ones make up for.
            if round > 0 && gain < least * judges.total_weight() {
                break;
            }
        }
        let is_much_worse = reached.0 < plain.0 - MUCH_WORSE * judges.total_weight();
        Ok(if is_much_worse || reached.0.is_nan() { plain } else { reached })
    }

    /// Statistics after trades between clusters by what the family itself makes of them: the rows of the sample in the
    /// cluster of their largest responsibility each, two clusters merged and another split wherever that raises the
    /// evidence of rows so assigned. None where nothing is to be gained.
    fn trade(&self, spaces: &Spaces<'_, T>, summary: &ClusterSummary) -> Result<Option<ClusterSummary>> {
        let Start { design, sample, clusters: num, factor, .. } = *self;
        let likelihood = design.likelihood;
        let params = design.global_step(summary)?;
        // Clusters of any shape follow rows in every direction, and a cut through one of them is a poor start for two;
        // and with fewer rows than variances the evidence is that of the prior.
        let variances = likelihood.num_parameters().saturating_sub(likelihood.dim());
        let few = sample.rows.len() < num.saturating_mul(variances);
        if num < 3 || few || params.clusters.diagonal(0).is_none() || sample.rows.as_dense().is_none() {
            return Ok(None);
        }
        self.patience.check()?;
        let mut resp = Responsibilities::default();
        let (clusters, log_pi) = (params.clusters.as_ref(), &params.frequencies.log_pi);
        let Gpu { place, center } = self.gpu;
        Judge::new(place, (likelihood.kind(), center), clusters, log_pi).respond(&sample.rows, 2, &mut resp)?;
        let mut owner: Vec<u32> = resp.index.iter().step_by(2).copied().collect();
        let groups = Groups::new(&owner, num);
        let hard = hard_summary(design, sample, &owner);
        // The evidence of a cluster's rows, with their share in that of the assignments.
        let evidence = |count: f64, stat: &[f64]| -> f64 {
            let count = factor * count;
            if count <= 0.0 {
                return 0.0;
            }
            let stat: Vec<f64> = stat.iter().map(|s| factor * s).collect();
            let alone = likelihood.global_step(design.estimate, &[count], &stat, None);
            alone.map_or(f64::NEG_INFINITY, |alone| alone.own_data_term() + count * count.ln())
        };
        let own: Vec<f64> = (0..num).into_par_iter().map(|k| evidence(hard.counts[k], hard.stat(k))).collect();
        let partners = second_choices(&resp, num);
        let cost = |a: usize, b: usize| {
            let stat: Vec<f64> = hard.stat(a).iter().zip(hard.stat(b)).map(|(a, b)| a + b).collect();
            own[a] + own[b] - evidence(hard.counts[a] + hard.counts[b], &stat)
        };
        let merges = cheapest(num, |k| partners[k].iter().copied(), cost);
        let spaces = [Units::Raw, Units::Standard].map(|units| spaces.of(units));
        let centers = spaces.map(|space| space.centers(&groups));
        let dim = sample.rows.dim();
        let splits = (0..num).into_par_iter().filter_map(|k| {
            let tried = spaces.iter().zip(&centers).map(|(space, centers)| {
                let Split { apart, .. } = space.split(k, groups.of(k), &centers[k * dim..(k + 1) * dim]);
                let mut stat = vec![0.0; likelihood.stat_width()];
                let weights: Vec<T> = apart.iter().map(|&n| T::from_f64(sample.weight(n as usize))).collect();
                likelihood.accumulate(&sample.rows, &apart, &weights, &mut Scratch::default(), &mut stat);
                let count: f64 = weights.iter().map(|w| w.to_f64()).sum();
                let rest: Vec<f64> = hard.stat(k).iter().zip(&stat).map(|(a, b)| a - b).collect();
                let gain = evidence(count, &stat) + evidence(hard.counts[k] - count, &rest) - own[k];
                Split { gain, cluster: k, apart }
            });
            tried.filter(|split| split.gain.is_finite()).max_by(|a, b| a.gain.total_cmp(&b.gain))
        });
        let splits = splits.collect();
        let trades = carry_out(&mut owner, &groups, merges, splits);
        Ok((trades > 0).then(|| {
            let mut summary = hard_summary(design, sample, &owner);
            summary.scale(factor);
            summary
        }))
    }

    /// A step of training over the sample from these statistics: how good it is, and the statistics it leads to.
    fn train(&self, summary: ClusterSummary, judges: Option<&Sample<T>>) -> Result<(f64, ClusterSummary)> {
        let summary = self.step(&summary)?;
        let score = match judges {
            None => self.design.objective(&self.design.global_step(&summary)?, &summary).total(),
            Some(judges) => self.judge(&summary, judges)?,
        };
        Ok((score, summary))
    }

    /// The density of other rows under what these statistics lead to.
    fn judge(&self, summary: &ClusterSummary, judges: &Sample<T>) -> Result<f64> {
        let params = self.design.global_step(summary)?;
        let clusters = self.design.likelihood.clusters_of(&params.clusters.arrays())?;
        let log_pi: Vec<f64> = params.frequencies.pi.iter().map(|p| p.ln()).collect();
        let Gpu { place, center } = self.gpu;
        let kind = self.design.likelihood.kind();
        let density = Judge::new(place, (kind, center), clusters.as_ref(), &log_pi).log_density(&judges.rows)?;
        Ok(density.iter().enumerate().map(|(n, score)| score * judges.weight(n)).sum())
    }

    /// The statistics that so many steps over the sample lead to.
    fn steps(&self, summary: &ClusterSummary, num: usize) -> Result<ClusterSummary> {
        let mut summary = summary.clone();
        for _ in 0..num {
            summary = self.step(&summary)?;
        }
        Ok(summary)
    }

    /// The statistics that a step over the sample leads to, both on the scale of the whole data.
    fn step(&self, summary: &ClusterSummary) -> Result<ClusterSummary> {
        self.patience.check()?;
        self.sample.step(self.design, self.held, summary, self.factor)
    }
}

/// A way to start that takes part in a contest.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Entrant {
    Kmeans(Units),
    Bregman,
}

const ENTRANTS: [Entrant; 3] = [Entrant::Kmeans(Units::Raw), Entrant::Kmeans(Units::Standard), Entrant::Bregman];

/// What is known of two starts: the one with the higher score, or the first that could be trained.
fn better<V>(best: Result<(f64, V)>, next: Result<(f64, V)>) -> Result<(f64, V)> {
    match (best, next) {
        (Ok((most, _)), Ok((score, next))) if score > most => Ok((score, next)),
        (Err(_), next) => next,
        (kept, _) => kept,
    }
}

/// For every cluster the few that most of its rows would go to if it were not there.
pub(crate) fn second_choices<T: Scalar>(resp: &Responsibilities<T>, num: usize) -> Vec<Vec<usize>> {
    const PARTNERS: usize = 3;
    let mut pairs: Vec<(u32, u32)> = resp.index.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect();
    pairs.sort_unstable();
    let mut found: Vec<Vec<(usize, usize)>> = vec![Vec::new(); num];
    for same in pairs.chunk_by(|a, b| a == b) {
        found[same[0].0 as usize].push((same.len(), same[0].1 as usize));
    }
    let first = |mut found: Vec<(usize, usize)>| {
        found.sort_by(|a, b| b.cmp(a));
        found.into_iter().take(PARTNERS).map(|(_, k)| k).collect()
    };
    found.into_iter().map(first).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::allocation::Allocation;
    use crate::clusters::seed::space;
    use crate::data::{Moments, Rows};
    use crate::likelihood::{LikelihoodKind, Prior};
    use crate::settings::MixtureConfig;
    use crate::training::rules::Patience;

    fn start_of<'a>(design: &'a Design<'a, f64>, sample: &'a Sample<f64>, factor: f64) -> Start<'a, f64> {
        let (gpu, clusters) = (Gpu::NONE, design.num_clusters);
        Start { design, sample, held: None, gpu, clusters, factor, patience: Patience::default() }
    }

    /// The entrants in the order of a heat for rows drawn by `draw`.
    fn heat(kind: LikelihoodKind, dim: usize, draw: impl Fn(usize, &mut ChaCha8Rng) -> Vec<f64>) -> Vec<Entrant> {
        const K: usize = 4;
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let mut rows = Rows::dense(dim);
        (0..4000).for_each(|n| rows.push_dense(&draw(n % K, &mut rng)));
        let config = MixtureConfig { likelihood: kind, prior_scale: Some(1e-3), ..Default::default() };
        let all = Sample { rows, weights: Vec::new() };
        let (mean, variance) = space::moments(&all);
        let moments = Moments { mean, second_moment: variance.clone(), variance, ..Moments::unknown(dim) };
        let likelihood = kind.build::<f64>(&Prior::for_data(&config, &moments));
        let (likelihood, estimate) = (likelihood.as_ref(), Estimate::Posterior);
        let design = Design {
            likelihood,
            estimate,
            allocation: Allocation::Dirichlet { alpha: 10.0 },
            num_clusters: K,
            sparsity: K,
        };
        let (sample, judges) = all.part(K);
        let start = start_of(&design, &sample, 1.0);
        start.heat(None, judges.as_ref(), &mut rng).unwrap().unwrap()
    }

    #[test]
    fn a_heat_sees_which_start_the_rows_want() {
        let noise = |rng: &mut ChaCha8Rng| (0..6).map(|_| rng.random::<f64>()).sum::<f64>() - 3.0;
        // Clusters that share their mean and differ in width have no centres that k-means could tell apart.
        let widths = heat(LikelihoodKind::SphericalGauss, 8, |k, rng| {
            (0..8).map(|_| noise(rng) * 10f64.powi(k as i32 - 2)).collect()
        });
        assert_eq!(widths[0], Entrant::Bregman, "{widths:?}");
        // A small column that tells clusters apart counts for nothing beside a large one that does not.
        let units =
            heat(LikelihoodKind::DiagGauss, 2, |k, rng| vec![1e4 * noise(rng), 1e-3 * (10.0 * k as f64 + noise(rng))]);
        assert_eq!(units[2], Entrant::Kmeans(Units::Raw), "{units:?}");
    }

    /// Rows that were left out have the last word on what is done to a start.
    #[test]
    fn shapes_are_brought_on_and_other_rows_have_the_last_word() {
        const K: usize = 6;
        let mut rng = ChaCha8Rng::seed_from_u64(3);
        let mut rows = Rows::dense(8);
        let turns: Vec<f64> = (0..K * 64).map(|_| rng.random::<f64>() - 0.5).collect();
        for n in 0..1500 {
            let noise: Vec<f64> = (0..8).map(|_| 6.0 * (rng.random::<f64>() - 0.5)).collect();
            let turn = &turns[n % K * 64..n % K * 64 + 64];
            let row: Vec<f64> = turn.chunks_exact(8).map(|t| t.iter().zip(&noise).map(|(t, z)| t * z).sum()).collect();
            rows.push_dense(&row);
        }
        let all = Sample { rows, weights: Vec::new() };
        let (mean, variance) = space::moments(&all);
        let moments = Moments { mean, second_moment: variance.clone(), variance, ..Moments::unknown(8) };
        let kind = LikelihoodKind::Gauss;
        let config = MixtureConfig { likelihood: kind, prior_scale: Some(1e-3), ..Default::default() };
        let likelihood = kind.build::<f64>(&Prior::for_data(&config, &moments));
        let design = Design {
            likelihood: likelihood.as_ref(),
            estimate: Estimate::Posterior,
            allocation: Allocation::Dirichlet { alpha: 10.0 },
            num_clusters: K,
            sparsity: K,
        };
        let (sample, judges) = all.part(K);
        let judges = judges.as_ref().unwrap();
        let start = start_of(&design, &sample, 1.25);
        let owner: Vec<u32> = (0..sample.rows.len() as u32).map(|n| n * 7 % 31 % K as u32).collect();
        let plain = start.train(hard_summary(&design, &sample, &owner), Some(judges)).unwrap();
        let shaped = start.shape(plain.clone(), Some(judges)).unwrap();
        assert_eq!(start.judge(&shaped.1, judges).unwrap(), shaped.0);
        assert!(shaped.0 > plain.0 + 0.05 * judges.total_weight(), "{} after {}", shaped.0, plain.0);
        // What other rows lose much by is left as it was.
        let praised = (plain.0 + 100.0 * judges.total_weight(), plain.1.clone());
        assert_eq!(start.shape(praised.clone(), Some(judges)).unwrap(), praised);
        // Point estimates have no doubts to begin with.
        let likely = Design { estimate: Estimate::Map, ..design };
        let start = Start { design: &likely, ..start };
        assert_eq!(start.shape(plain.clone(), Some(judges)).unwrap(), plain);
    }

    #[test]
    fn a_better_start_is_one_of_a_higher_score_and_any_is_better_than_none() {
        let none = || Err::<(f64, u32), _>(Error::NoRows { name: "x".into() });
        assert_eq!(better(Ok((1.0, 1)), Ok((2.0, 2))).unwrap().1, 2);
        assert_eq!(better(Ok((2.0, 1)), Ok((2.0, 2))).unwrap().1, 1);
        assert_eq!(better(none(), Ok((-9.0, 2))).unwrap().1, 2);
        assert_eq!(better(Ok((-9.0, 1)), none()).unwrap().1, 1);
    }
}
