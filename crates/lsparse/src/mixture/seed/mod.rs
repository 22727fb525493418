//! The first statistics: seeds drawn from a sample of the rows, and passes that gather rows around them.

mod lloyd;
mod seeds;
mod trade;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

use crate::data::{Batches, Dealt, Rows, Scalar};
use crate::error::{Error, Result};
use crate::likelihood::ClusterSummary;
use crate::likelihood::{Estimate, Scratch};
use crate::mixture::{Members, Mixture, accumulate, log_density, respond};
use crate::settings::{Init, MixtureConfig};
use crate::training::model::Model;
use crate::training::responsibilities::Responsibilities;
use crate::training::rules::Patience;
use crate::training::summary::Summary;

use lloyd::{Space, Units};
use seeds::{Metric, Seeding};
use trade::{Groups, Split, carry_out, cheapest};

/// Passes of k-means that a start makes at most where nothing else is said: held-out scores at the end of training were
/// the same with 25.
const MOST_PASSES: usize = 10;

/// Rounds of trades between clusters at most; most starts have none left after two or three.
const MOST_TRADES: usize = 5;

/// Passes of k-means after each.
const PASSES_AFTER_TRADES: usize = 3;

/// Fewer rows than this cannot tell starts apart.
const FEWEST_JUDGES: usize = 50;

/// A sample of the rows, held in memory for seeding.
pub struct Sample<T> {
    /// The rows, in the layout that the likelihood wants.
    pub rows: Rows<T>,
    /// Empty, or one weight a row.
    pub weights: Vec<f64>,
}

impl<T: Scalar> Sample<T> {
    /// About `size` rows, spread over the whole source.
    pub fn draw(mixture: &Mixture<T>, data: &Dealt<'_>, size: usize, rng: &mut ChaCha8Rng) -> Result<Self> {
        let num_rows = data.source.num_rows();
        let parts = (num_rows / size.max(1)).max(1);
        let batches = Batches::new(num_rows, parts, rng.random())?;
        let mut rows = Rows::new(mixture.layout(), mixture.likelihood.dim());
        let (mut spare, mut ids) = (Rows::new(mixture.layout(), mixture.likelihood.dim()), Vec::new());
        for panel in batches.panels(0, batches.len(0)) {
            batches.read_panel(data.source, panel, &mut spare, &mut rows, &mut ids)?;
        }
        fill_in(&mut rows);
        let weights = data.row_weights.map_or(Vec::new(), |w| ids.iter().map(|&n| w[n]).collect());
        Ok(Sample { rows, weights })
    }

    /// The sample without every fifth row, and those rows; none of them where rows are too few to be spared.
    fn part(self, clusters: usize) -> (Self, Option<Self>) {
        let (judges, others): (Vec<u32>, Vec<u32>) = (0..self.rows.len() as u32).partition(|n| n % 5 == 4);
        if others.len() < 2 * clusters || judges.len() < FEWEST_JUDGES {
            return (self, None);
        }
        let part = |ids: &[u32]| {
            let mut rows = Rows::new(self.rows.layout(), self.rows.dim());
            self.rows.gather_into(ids, &mut rows);
            let weights = match self.weights.is_empty() {
                true => Vec::new(),
                false => ids.iter().map(|&n| self.weights[n as usize]).collect(),
            };
            Sample { rows, weights }
        };
        let parts = (part(&others), part(&judges));
        // Rows of no weight alone have nothing to say.
        if parts.0.total_weight() > 0.0 && parts.1.total_weight() > 0.0 {
            (parts.0, Some(parts.1))
        } else {
            (self, None)
        }
    }

    fn weight(&self, n: usize) -> f64 {
        self.weights.get(n).copied().unwrap_or(1.0)
    }

    fn total_weight(&self) -> f64 {
        (0..self.rows.len()).map(|n| self.weight(n)).sum()
    }
}

/// Put the mean of a column over the sample where a value is missing: good enough to find clusters by, and the first lap
/// has their own expectations in its place.
fn fill_in<T: Scalar>(rows: &mut Rows<T>) {
    let dim = rows.dim();
    let Rows::Dense { values, .. } = rows else { return };
    if !values.iter().any(|x| x.is_nan()) {
        return;
    }
    for d in 0..dim {
        let (mut sum, mut count) = (0.0, 0.0);
        for x in values[d..].iter().step_by(dim).filter(|x| !x.is_nan()) {
            (sum, count) = (sum + x.to_f64(), count + 1.0);
        }
        let mean = T::from_f64(if count > 0.0 { sum / count } else { 0.0 });
        values[d..].iter_mut().step_by(dim).filter(|x| x.is_nan()).for_each(|x| *x = mean);
    }
}

/// Statistics to take the first global step from, on the scale of the whole data.
pub fn initial_summary<T: Scalar>(
    mixture: &Mixture<T>,
    data: &Dealt<'_>,
    config: &MixtureConfig,
    rng: &mut ChaCha8Rng,
    patience: Patience<'_>,
) -> Result<ClusterSummary> {
    let by_contest = config.init == Init::Auto && config.likelihood.family().has_means;
    let size = match config.init_rows {
        0 if by_contest => contest_rows(config.clusters, mixture.likelihood.dim()),
        0 => (100 * config.clusters).max(10_000),
        rows => rows.max(config.clusters),
    };
    let sample = Sample::draw(mixture, data, size, rng)?;
    let (sample, judges) = if by_contest { sample.part(config.clusters) } else { (sample, None) };
    let factor = data.total_weight() / sample.total_weight();
    let start = Start { mixture, sample: &sample, clusters: config.clusters, factor, patience };
    let seeding = |metric, uniform| Seeding { metric, uniform, patience };
    let passes = config.init_lloyd;
    let summary = match config.init {
        Init::Auto if by_contest => return Ok(largest_first(&start.contest(passes, judges.as_ref(), rng)?)),
        Init::Auto | Init::Bregman => start.seeded(seeding(Metric::Bregman, false), passes.unwrap_or(1), rng)?,
        Init::Kmeans if sample.rows.as_dense().is_some() => start.kmeans(Units::Raw, passes.unwrap_or(1), 0, rng)?,
        Init::Kmeans => start.seeded(seeding(Metric::Euclidean, false), passes.unwrap_or(1), rng)?,
        Init::Examples => start.seeded(seeding(Metric::Bregman, true), passes.unwrap_or(1), rng)?,
        Init::Responsibilities => random_responsibilities(mixture, &sample, rng),
    };
    let mut summary = largest_first(&summary);
    let seeds_alone = passes == Some(0) && config.init != Init::Responsibilities;
    // Single rows keep their weight of one: scaled up they would drown the prior that gives them a shape.
    if !seeds_alone {
        summary.scale(factor);
    }
    Ok(summary)
}
/// Rows of the sample for a contest: enough that clusters of all sizes are met, a bounded number of products a pass over
/// them, and a bounded number of values in memory.
fn contest_rows(clusters: usize, dim: usize) -> usize {
    const PRODUCTS: usize = 30_000_000_000;
    const VALUES: usize = 1 << 25;
    let wanted = clusters.saturating_mul(250).max(10_000);
    let bounded = wanted.min(PRODUCTS / clusters.saturating_mul(dim).max(1)).min(VALUES / dim.max(1));
    bounded.max(clusters.saturating_mul(20)).max(10_000)
}

/// What every way to start works on.
struct Start<'a, T: Scalar> {
    mixture: &'a Mixture<T>,
    sample: &'a Sample<T>,
    clusters: usize,
    /// What the sample's statistics are multiplied by for those of all rows.
    factor: f64,
    patience: Patience<'a>,
}

impl<T: Scalar> Start<'_, T> {
    /// Several starts, each followed by a step of training; the one that gives rows it has not seen the best density is
    /// kept, or, where none could be spared, the one with the best objective. Then trades between its clusters, as long
    /// as they are judged to be for the better.
    ///
    /// No one start is best: columns of different scales want units of their own, most data k-means, and clusters that
    /// share their means the divergence of the family. The objective after a step would take many small clusters for
    /// good ones; the density of other rows after a step foretells that at the end.
    fn contest(
        &self,
        passes: Option<usize>,
        judges: Option<&Sample<T>>,
        rng: &mut ChaCha8Rng,
    ) -> Result<ClusterSummary> {
        let seeding = Seeding { metric: Metric::Bregman, uniform: false, patience: self.patience };
        let most = passes.unwrap_or(MOST_PASSES);
        let seeds_alone = passes == Some(0);
        // Who asks for a pass at most wants seeds.
        let trades = if most > 1 { MOST_TRADES } else { 0 };
        let mut entrants = [0, 1, 2].map(|entrant| (entrant, ChaCha8Rng::seed_from_u64(rng.random())));
        let results = entrants.iter_mut().map(|(entrant, rng)| {
            let summary = match entrant {
                0 => self.kmeans(Units::Raw, most, trades, rng),
                1 => self.kmeans(Units::Standard, most, trades, rng),
                _ => self.seeded(seeding, passes.unwrap_or(1), rng),
            };
            // A start that cannot be trained is out; one that was interrupted ends them all.
            let trained = summary.and_then(|mut summary| {
                // Single rows keep their weight of one.
                summary.scale(if seeds_alone { 1.0 } else { self.factor });
                self.train(summary, judges)
            });
            self.patience.check().map(|()| trained)
        });
        let mut best = Err(Error::NoRows { name: "the sample to start from".into() });
        for result in results {
            best = match (best, result?) {
                (Ok((most, _)), Ok((score, summary))) if score > most => Ok((score, summary)),
                (Err(_), next) => next,
                (kept, _) => kept,
            };
        }
        let (_, mut summary) = best?;
        for _ in 0..trades {
            let Some(traded) = self.trade(&summary)? else { break };
            // Both are a step further on, so that the step is not taken for a merit of the trades.
            let plain = self.train(summary, judges)?;
            summary = match self.train(traded, judges) {
                Ok(traded) if traded.0 > plain.0 => traded.1,
                _ => return Ok(plain.1),
            };
        }
        Ok(summary)
    }

    /// Statistics after trades between clusters by what the family itself makes of them: the rows of the sample in the
    /// cluster of their largest responsibility each, two clusters merged and another split wherever that raises the
    /// evidence of rows so assigned. None where nothing is to be gained.
    fn trade(&self, summary: &ClusterSummary) -> Result<Option<ClusterSummary>> {
        let Start { mixture, sample, clusters: num, factor, .. } = *self;
        let likelihood = mixture.likelihood.as_ref();
        let params = mixture.global_step(summary, None)?;
        // Clusters of any shape follow rows in every direction, and a cut through one of them is a poor start for two;
        // and with fewer rows than variances the evidence is that of the prior.
        let variances = likelihood.num_parameters().saturating_sub(likelihood.dim());
        let few = sample.rows.len() < num.saturating_mul(variances);
        if num < 3 || few || params.clusters.diagonal(0).is_none() || sample.rows.as_dense().is_none() {
            return Ok(None);
        }
        self.patience.check()?;
        let mut resp = Responsibilities::default();
        respond(params.clusters.as_ref(), &params.frequencies.log_pi, &sample.rows, 2, &mut resp)?;
        let mut owner: Vec<u32> = resp.index.iter().step_by(2).copied().collect();
        let groups = Groups::new(&owner, num);
        let hard = hard_summary(mixture, sample, &owner);
        // The evidence of a cluster's rows, with their share in that of the assignments.
        let evidence = |count: f64, stat: &[f64]| -> f64 {
            let count = factor * count;
            if count <= 0.0 {
                return 0.0;
            }
            let stat: Vec<f64> = stat.iter().map(|s| factor * s).collect();
            let alone = likelihood.global_step(mixture.estimate, &[count], &stat, None);
            alone.map_or(f64::NEG_INFINITY, |alone| alone.own_data_term() + count * count.ln())
        };
        let own: Vec<f64> = (0..num).into_par_iter().map(|k| evidence(hard.counts[k], hard.stat(k))).collect();
        let partners = second_choices(&resp, num);
        let cost = |a: usize, b: usize| {
            let stat: Vec<f64> = hard.stat(a).iter().zip(hard.stat(b)).map(|(a, b)| a + b).collect();
            own[a] + own[b] - evidence(hard.counts[a] + hard.counts[b], &stat)
        };
        let merges = cheapest(num, |k| partners[k].iter().copied(), cost);
        let spaces = [Units::Raw, Units::Standard].map(|units| Space::new(sample, units));
        let centers = spaces.each_ref().map(|space| space.centers(&groups));
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
            let mut summary = hard_summary(mixture, sample, &owner);
            summary.scale(factor);
            summary
        }))
    }

    /// A step of training over the sample from these statistics, which are on the scale of the whole data: how good it is,
    /// and the statistics it leads to, on the same scale.
    fn train(&self, summary: ClusterSummary, judges: Option<&Sample<T>>) -> Result<(f64, ClusterSummary)> {
        let Start { mixture, sample, factor, .. } = *self;
        let model = |summary: &ClusterSummary| mixture.global_step(summary, None);
        let params = model(&summary)?;
        self.patience.check()?;
        let mut resp = Responsibilities::default();
        let (clusters, log_pi) = (params.clusters.as_ref(), &params.frequencies.log_pi);
        let entropy = respond(clusters, log_pi, &sample.rows, mixture.sparsity, &mut resp)?;
        let mut summary = summary_of(mixture, sample, &resp);
        summary.entropy = entropy.iter().enumerate().map(|(n, h)| h * sample.weight(n)).sum();
        summary.scale(factor);
        let params = model(&summary)?;
        let score = match judges {
            None => mixture.objective(&params, &summary).total(),
            Some(judges) => {
                let clusters = mixture.likelihood.clusters_of(&params.clusters.arrays())?;
                let log_pi: Vec<f64> = params.frequencies.pi.iter().map(|p| p.ln()).collect();
                let density = log_density(clusters.as_ref(), &log_pi, &judges.rows)?;
                density.iter().enumerate().map(|(n, score)| score * judges.weight(n)).sum()
            }
        };
        Ok((score, summary))
    }

    /// Greedy k-means++ seeds, then at most `passes` passes of k-means, the first with the seeds for centres, and at most
    /// `trades` rounds of trades with passes after each.
    fn kmeans(&self, units: Units, passes: usize, trades: usize, rng: &mut ChaCha8Rng) -> Result<ClusterSummary> {
        let space = Space::new(self.sample, units);
        let (chosen, mut owner) = space.seeds(self.clusters, self.patience, rng)?;
        if passes == 0 {
            return Ok(seeds_alone(self.mixture, self.sample, &chosen));
        }
        space.lloyd(&mut owner, self.clusters, passes - 1, self.patience)?;
        for _ in 0..trades {
            if space.trade(&mut owner, self.clusters) == 0 {
                break;
            }
            space.lloyd(&mut owner, self.clusters, PASSES_AFTER_TRADES, self.patience)?;
        }
        Ok(hard_summary(self.mixture, self.sample, &owner))
    }

    /// Seeds by `seeding`, then `passes` passes of assigning and re-estimating.
    fn seeded(&self, seeding: Seeding<'_>, passes: usize, rng: &mut ChaCha8Rng) -> Result<ClusterSummary> {
        let Start { mixture, sample, clusters, .. } = *self;
        let (chosen, mut owner) = seeding.draw(mixture.likelihood.as_ref(), sample, clusters, rng)?;
        if passes == 0 {
            return Ok(seeds_alone(mixture, sample, &chosen));
        }
        let mut summary = hard_summary(mixture, sample, &owner);
        for _ in 1..passes {
            seeding.patience.check()?;
            owner = match seeding.metric {
                Metric::Euclidean => seeds::nearest_centroid(&sample.rows, &owner, clusters),
                Metric::Bregman => {
                    let step = mixture.likelihood.global_step(Estimate::Map, &summary.counts, &summary.stats, None)?;
                    let mut resp = Responsibilities::default();
                    respond(step.as_ref(), &vec![0.0; clusters], &sample.rows, 1, &mut resp)?;
                    resp.index
                }
            };
            summary = hard_summary(mixture, sample, &owner);
        }
        Ok(summary)
    }
}

/// For every cluster the few that most of its rows would go to if it were not there.
fn second_choices<T: Scalar>(resp: &Responsibilities<T>, num: usize) -> Vec<Vec<usize>> {
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

/// Statistics of the seeds and nothing else: one row a cluster.
fn seeds_alone<T: Scalar>(mixture: &Mixture<T>, sample: &Sample<T>, chosen: &[usize]) -> ClusterSummary {
    let mut summary = mixture.likelihood.no_statistics(chosen.len());
    let mut scratch = Scratch::default();
    for (k, &row) in chosen.iter().enumerate() {
        summary.counts[k] = 1.0;
        let stat = &mut summary.stats[k * summary.width..(k + 1) * summary.width];
        mixture.likelihood.accumulate(&sample.rows, &[row as u32], &[T::ONE], &mut scratch, stat);
    }
    let members: Vec<u32> = chosen.iter().map(|&row| row as u32).collect();
    let shared = &mut summary.stats[chosen.len() * summary.width..];
    mixture.likelihood.accumulate_shared(&sample.rows, &members, &vec![1.0; members.len()], shared);
    summary
}

/// Statistics of the sample with every row in one cluster.
fn hard_summary<T: Scalar>(mixture: &Mixture<T>, sample: &Sample<T>, owner: &[u32]) -> ClusterSummary {
    let resp = Responsibilities { sparsity: 1, index: owner.to_vec(), value: vec![T::ONE; owner.len()] };
    summary_of(mixture, sample, &resp)
}

fn summary_of<T: Scalar>(mixture: &Mixture<T>, sample: &Sample<T>, resp: &Responsibilities<T>) -> ClusterSummary {
    let mut summary = mixture.likelihood.no_statistics(mixture.num_clusters);
    let mut members = Members::default();
    members.regroup(mixture.num_clusters, resp, &sample.weights);
    accumulate(mixture.likelihood.as_ref(), &sample.rows, &members, &mut summary);
    summary
}

/// Every row in L clusters drawn at random, with random shares.
fn random_responsibilities<T: Scalar>(
    mixture: &Mixture<T>,
    sample: &Sample<T>,
    rng: &mut ChaCha8Rng,
) -> ClusterSummary {
    let (num, sparsity) = (mixture.num_clusters, mixture.sparsity);
    let mut resp = Responsibilities::default();
    resp.resize(sample.rows.len(), sparsity);
    let mut pool: Vec<u32> = (0..num as u32).collect();
    for n in 0..sample.rows.len() {
        let shares: Vec<f64> = (0..sparsity).map(|_| 1.0 - rng.random::<f64>()).collect();
        let sum: f64 = shares.iter().sum();
        for l in 0..sparsity {
            let other = rng.random_range(l..num);
            pool.swap(l, other);
            resp.index[n * sparsity + l] = pool[l];
            resp.value[n * sparsity + l] = T::from_f64(shares[l] / sum);
        }
    }
    summary_of(mixture, sample, &resp)
}

/// The same clusters, the largest first.
fn largest_first(summary: &ClusterSummary) -> ClusterSummary {
    let mut order: Vec<usize> = (0..summary.num_clusters()).collect();
    order.sort_by(|&a, &b| summary.counts[b].total_cmp(&summary.counts[a]));
    summary.reordered(&order)
}
