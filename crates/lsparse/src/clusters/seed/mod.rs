//! The first statistics: seeds drawn from a sample of the rows, and passes that gather rows around them.

mod contest;
mod gaps;
mod greedy;
mod lloyd;
mod seeds;
mod space;
mod trade;

use std::borrow::Cow;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

use crate::clusters::Design;
use crate::clusters::device::{Gpu, HeldSample};
use crate::data::{Batches, Dealt, Rows, Scalar};
use crate::error::Result;
use crate::likelihood::{
    ClusterSummary, Clusters, Estimate, Likelihood, Members, Scratch, accumulate_onto, respond, respond_dense,
};
use crate::math::random::normal;
use crate::settings::{Init, MixtureConfig};
use crate::training::responsibilities::Responsibilities;
use crate::training::rules::Patience;
use crate::training::summary::Summary;

pub(crate) use contest::second_choices;
use gaps::{WholeRows, has_gaps};
pub(crate) use seeds::{Metric, Ruler, Seeding};
use space::Space;
pub(crate) use space::{Spaces, Units};

/// Passes of k-means that a start makes at most where nothing else is said: held-out scores at the end of training were
/// the same with 25.
const MOST_PASSES: usize = 10;

/// Rounds of trades between clusters at most; most starts have none left after two or three.
const MOST_TRADES: usize = 5;

/// Passes of k-means after each.
const PASSES_AFTER_TRADES: usize = 3;

/// Rows that are tried for a seed of a family of counts.
const TRIES: usize = 3;

/// Fewer rows than this cannot tell starts apart.
const FEWEST_JUDGES: usize = 50;

/// A sample of the rows, held in memory for seeding.
#[derive(Clone)]
pub struct Sample<T> {
    /// The rows, in the layout that the likelihood wants.
    pub rows: Rows<T>,
    /// Empty, or one weight a row.
    pub weights: Vec<f64>,
}

impl<T: Scalar> Sample<T> {
    /// About `size` rows, spread over the whole source.
    pub fn draw(design: &Design<'_, T>, data: &Dealt<'_>, size: usize, rng: &mut ChaCha8Rng) -> Result<Self> {
        let num_rows = data.source.num_rows();
        let parts = ((num_rows + size / 2) / size.max(1)).max(1);
        let batches = Batches::new(num_rows, parts, rng.random())?;
        let (rows, ids) = batches.read_batch(data.source, 0, design.layout(), design.likelihood.dim())?;
        let weights = data.row_weights.map_or(Vec::new(), |w| ids.iter().map(|&n| w[n]).collect());
        Ok(Sample { rows, weights })
    }

    /// The objective after so many steps of training on the sample from these statistics; both are on the scale of rows of
    /// this weight.
    pub(crate) fn objective_after(
        &self,
        design: &Design<'_, T>,
        start: &ClusterSummary,
        weight: f64,
        steps: usize,
    ) -> Result<f64> {
        let factor = weight / self.total_weight().max(f64::MIN_POSITIVE);
        let (mut summary, mut objective) = (start.clone(), f64::NEG_INFINITY);
        for _ in 0..steps {
            summary = self.step(design, None, &summary, factor)?;
            objective = design.objective(&design.global_step(&summary)?, &summary).total();
        }
        Ok(objective)
    }

    /// The statistics that a step of training over the sample leads to, both `factor` times those of its rows. This is all
    /// the training there is before a session: starts are compared by it.
    fn step(
        &self,
        design: &Design<'_, T>,
        held: Option<&HeldSample<T>>,
        summary: &ClusterSummary,
        factor: f64,
    ) -> Result<ClusterSummary> {
        let params = design.global_step(summary)?;
        if let Some(held) = held
            && let Some(mut summary) = held.step(design, &params)?
        {
            summary.scale(factor);
            return Ok(summary);
        }
        let mut resp = Responsibilities::default();
        let (clusters, log_pi) = (params.clusters.as_ref(), &params.frequencies.log_pi);
        let entropy = match design.sparsity == design.num_clusters {
            true => respond_dense(clusters, log_pi, &self.rows, &mut resp)?,
            false => respond(clusters, log_pi, &self.rows, design.sparsity, &mut resp)?,
        };
        let mut summary = summary_of(design, self, &resp, Some(clusters));
        summary.entropy += entropy.iter().enumerate().map(|(n, h)| h * self.weight(n)).sum::<f64>();
        summary.scale(factor);
        Ok(summary)
    }

    /// The sample on a GPU, if there is one.
    fn held(&self, gpu: Gpu<'_>, likelihood: &dyn Likelihood<T>) -> Result<Option<HeldSample<T>>> {
        HeldSample::new(gpu, likelihood, &self.rows, &self.weights)
    }

    /// The sample without every fifth row, and those rows; none of them where rows are too few to be spared.
    fn part(self, clusters: usize) -> (Self, Option<Self>) {
        let (judges, others): (Vec<u32>, Vec<u32>) = (0..self.rows.len() as u32).partition(|n| n % 5 == 4);
        if others.len() < 2 * clusters || judges.len() < FEWEST_JUDGES {
            return (self, None);
        }
        let parts = (self.of(&others), self.of(&judges));
        // Rows of no weight alone have nothing to say.
        if parts.0.total_weight() > 0.0 && parts.1.total_weight() > 0.0 {
            (parts.0, Some(parts.1))
        } else {
            (self, None)
        }
    }

    /// Some of the rows.
    pub(crate) fn of(&self, ids: &[u32]) -> Self {
        let rows = self.rows.gathered(ids);
        let weights = match self.weights.is_empty() {
            true => Vec::new(),
            false => ids.iter().map(|&n| self.weights[n as usize]).collect(),
        };
        Sample { rows, weights }
    }

    /// The same rows, each with a draw from the first of its clusters in the place of what it lacks. What is expected there
    /// would make shapes narrower than those of whole rows, and means of columns would pull clusters together.
    pub(crate) fn completed(
        &self,
        clusters: &dyn Clusters<T>,
        resp: &Responsibilities<T>,
        seed: u64,
    ) -> Cow<'_, Sample<T>> {
        if !self.lacks_values() {
            return Cow::Borrowed(self);
        }
        let (mut whole, mut scratch) = (self.clone(), Scratch::default());
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        if let Rows::Dense { dim, values } = &mut whole.rows {
            let best = resp.index.iter().step_by(resp.sparsity);
            for (row, &k) in values.chunks_exact_mut(*dim).zip(best).filter(|(row, _)| row.iter().any(|x| x.is_nan())) {
                clusters.draw_missing(k as usize, row, &mut scratch, &mut || normal(&mut rng));
            }
        }
        Cow::Owned(whole)
    }

    /// The rows, with the means of columns for what they lack.
    pub(crate) fn filled_in(&self) -> Cow<'_, Rows<T>> {
        if !self.lacks_values() {
            return Cow::Borrowed(&self.rows);
        }
        let mut rows = self.rows.clone();
        fill_in(&mut rows);
        Cow::Owned(rows)
    }

    pub(crate) fn weight(&self, n: usize) -> f64 {
        self.weights.get(n).copied().unwrap_or(1.0)
    }

    pub(crate) fn total_weight(&self) -> f64 {
        (0..self.rows.len()).map(|n| self.weight(n)).sum()
    }
}

/// Put the mean of a column over the sample where a value is missing.
pub(crate) fn fill_in<T: Scalar>(rows: &mut Rows<T>) {
    let dim = rows.dim();
    if !has_gaps(rows) {
        return;
    }
    let Rows::Dense { values, .. } = rows else { return };
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
    design: &Design<'_, T>,
    data: &Dealt<'_>,
    config: &MixtureConfig,
    rng: &mut ChaCha8Rng,
    patience: Patience<'_>,
) -> Result<ClusterSummary> {
    initial_summary_at(design, data, config, Gpu::NONE, rng, patience)
}

/// The same by a GPU, as far as it can.
pub(crate) fn initial_summary_at<T: Scalar>(
    design: &Design<'_, T>,
    data: &Dealt<'_>,
    config: &MixtureConfig,
    gpu: Gpu<'_>,
    rng: &mut ChaCha8Rng,
    patience: Patience<'_>,
) -> Result<ClusterSummary> {
    let by_contest = starts_by_contest(config);
    let mut sample = Sample::draw(design, data, sample_size(config, design.likelihood), rng)?;
    if !config.likelihood.family().allows_missing {
        fill_in(&mut sample.rows);
    }
    let (sample, judges) = if by_contest { sample.part(config.clusters) } else { (sample, None) };
    let factor = data.total_weight() / sample.total_weight();
    let held = if by_contest { sample.held(gpu, design.likelihood)? } else { None };
    let start =
        Start { design, sample: &sample, held: held.as_ref(), gpu, clusters: config.clusters, factor, patience };
    // Families of counts have no contest to make up for bad luck.
    let greedy = config.init == Init::Auto && !config.likelihood.family().spread.is_of_variances();
    let tries = if greedy { TRIES } else { 1 };
    let seeding = |metric, uniform| Seeding { metric, uniform, tries, patience };
    let passes = config.init_lloyd;
    let summary = match config.init {
        Init::Auto if by_contest => return Ok(largest_first(&start.contest(passes, judges.as_ref(), rng)?)),
        // Centres are judged by squared distances alone, which k-means lowers by itself.
        Init::Auto if config.method.has_centres_alone() && sample.rows.as_dense().is_some() => {
            let trades = if passes.is_none_or(|passes| passes > 1) { MOST_TRADES } else { 0 };
            start.kmeans(&Space::new(&sample, gpu.place, Units::Raw), passes.unwrap_or(MOST_PASSES), trades, rng)?
        }
        Init::Auto | Init::Bregman => start.seeded(seeding(Metric::Bregman, false), passes.unwrap_or(1), rng)?,
        Init::Kmeans if sample.rows.as_dense().is_some() => {
            start.kmeans(&Space::new(&sample, gpu.place, Units::Raw), passes.unwrap_or(1), 0, rng)?
        }
        Init::Kmeans => start.seeded(seeding(Metric::Euclidean, false), passes.unwrap_or(1), rng)?,
        Init::Examples => start.seeded(seeding(Metric::Bregman, true), passes.unwrap_or(1), rng)?,
        Init::Responsibilities => random_responsibilities(design, &sample, rng),
    };
    let mut summary = largest_first(&summary);
    let seeds_alone = passes == Some(0) && config.init != Init::Responsibilities;
    // Single rows keep their weight of one: scaled up they would drown the prior that gives them a shape.
    if !seeds_alone {
        summary.scale(factor);
    }
    Ok(summary)
}

/// Whether several starts are tried and one is kept.
pub(crate) fn starts_by_contest(config: &MixtureConfig) -> bool {
    config.init == Init::Auto && config.likelihood.family().has_means && !config.method.has_centres_alone()
}

/// Rows that are drawn to start from, of those there are.
pub(crate) fn sample_size<T: Scalar>(config: &MixtureConfig, likelihood: &dyn Likelihood<T>) -> usize {
    match config.init_rows {
        None if config.init == Init::Auto && config.likelihood.family().has_means => {
            contest_rows(config.clusters, likelihood)
        }
        None => config.clusters.saturating_mul(100).max(10_000),
        Some(rows) => rows.max(config.clusters),
    }
}

/// Whether a cluster has no more numbers than two a column, so that few rows tell its shape.
pub(crate) fn is_light<T: Scalar>(likelihood: &dyn Likelihood<T>) -> bool {
    likelihood.num_parameters() <= 2 * likelihood.dim()
}

/// Rows of the sample for a contest: enough that clusters of all sizes are met, a bounded number of products a pass over
/// them, and a bounded number of values in memory.
fn contest_rows<T: Scalar>(clusters: usize, likelihood: &dyn Likelihood<T>) -> usize {
    const PRODUCTS: usize = 30_000_000_000;
    const VALUES: usize = 1 << 25;
    let (dim, least) = (likelihood.dim(), if is_light(likelihood) { 6_000 } else { 10_000 });
    let wanted = clusters.saturating_mul(250).max(least);
    let bounded = wanted.min(PRODUCTS / clusters.saturating_mul(dim).max(1)).min(VALUES / dim.max(1));
    bounded.max(clusters.saturating_mul(20)).max(least)
}

/// What every way to start works on.
struct Start<'a, T: Scalar> {
    design: &'a Design<'a, T>,
    sample: &'a Sample<T>,
    /// The same on the GPU, if there is one.
    held: Option<&'a HeldSample<T>>,
    gpu: Gpu<'a>,
    clusters: usize,
    /// What the sample's statistics are multiplied by for those of all rows.
    factor: f64,
    patience: Patience<'a>,
}

impl<T: Scalar> Start<'_, T> {
    /// Greedy k-means++ seeds, then at most `passes` passes of k-means, the first with the seeds for centres, and at most
    /// `trades` rounds of trades with passes after each.
    fn kmeans(
        &self,
        space: &Space<'_, T>,
        passes: usize,
        trades: usize,
        rng: &mut ChaCha8Rng,
    ) -> Result<ClusterSummary> {
        let (chosen, mut owner) = space.seeds(self.clusters, self.patience, rng)?;
        if passes == 0 {
            return Ok(seeds_alone(self.design, self.sample, &chosen));
        }
        space.lloyd(&mut owner, self.clusters, passes - 1, self.patience)?;
        for _ in 0..trades {
            if space.trade(&mut owner, self.clusters) == 0 {
                break;
            }
            space.lloyd(&mut owner, self.clusters, PASSES_AFTER_TRADES, self.patience)?;
        }
        Ok(hard_summary(self.design, self.sample, &owner))
    }

    /// Seeds by `seeding`, then `passes` passes of assigning and re-estimating.
    fn seeded(&self, seeding: Seeding<'_>, passes: usize, rng: &mut ChaCha8Rng) -> Result<ClusterSummary> {
        let Start { design, sample, clusters, .. } = *self;
        let (chosen, mut owner) = seeding.draw(design.likelihood, sample, clusters, rng)?;
        if passes == 0 {
            return Ok(seeds_alone(design, sample, &chosen));
        }
        let mut summary = hard_summary(design, sample, &owner);
        for _ in 1..passes {
            seeding.patience.check()?;
            owner = match seeding.metric {
                Metric::Euclidean => seeds::nearest_centroid(&sample.filled_in(), &owner, clusters),
                Metric::Bregman => {
                    let step = design.likelihood.global_step(Estimate::Map, &summary.counts, &summary.stats, None)?;
                    let mut resp = Responsibilities::default();
                    respond(step.as_ref(), &vec![0.0; clusters], &sample.rows, 1, &mut resp)?;
                    resp.index
                }
            };
            summary = hard_summary(design, sample, &owner);
        }
        Ok(summary)
    }
}

/// Statistics of the seeds and nothing else: one row a cluster.
fn seeds_alone<T: Scalar>(design: &Design<'_, T>, sample: &Sample<T>, chosen: &[usize]) -> ClusterSummary {
    let mut summary = design.likelihood.no_statistics(chosen.len());
    let mut scratch = Scratch::default();
    let whole = WholeRows::new(design.likelihood, sample);
    for (k, &row) in chosen.iter().enumerate() {
        summary.counts[k] = 1.0;
        let stat = &mut summary.stats[k * summary.width..(k + 1) * summary.width];
        match &whole {
            Some(whole) => whole.accumulate(&[row as u32], &[T::ONE], &mut scratch, stat),
            None => design.likelihood.accumulate(&sample.rows, &[row as u32], &[T::ONE], &mut scratch, stat),
        }
    }
    let members: Vec<u32> = chosen.iter().map(|&row| row as u32).collect();
    let shared = &mut summary.stats[chosen.len() * summary.width..];
    design.likelihood.accumulate_shared(&sample.rows, &members, &vec![1.0; members.len()], shared);
    summary
}

/// Statistics of the sample with every row in one cluster.
fn hard_summary<T: Scalar>(design: &Design<'_, T>, sample: &Sample<T>, owner: &[u32]) -> ClusterSummary {
    let resp = Responsibilities { sparsity: 1, index: owner.to_vec(), value: vec![T::ONE; owner.len()] };
    summary_of(design, sample, &resp, None)
}

/// Statistics of the sample with these responsibilities, and of the entropy that of what is missing in rows; `clusters`,
/// where there are any yet, say what to expect there.
fn summary_of<T: Scalar>(
    design: &Design<'_, T>,
    sample: &Sample<T>,
    resp: &Responsibilities<T>,
    clusters: Option<&dyn Clusters<T>>,
) -> ClusterSummary {
    let mut summary = design.likelihood.no_statistics(design.num_clusters);
    let mut members = Members::default();
    members.regroup(design.num_clusters, resp, &sample.weights);
    let whole = if clusters.is_none() { WholeRows::new(design.likelihood, sample) } else { None };
    let Some(whole) = whole else {
        let of_gaps = accumulate_onto(design.likelihood, clusters, &sample.rows, &members, &mut summary, true);
        summary.entropy = of_gaps.iter().sum();
        return summary;
    };
    // As groups of the rows, in the order of rows.
    let everything = members.stretches.first().cloned().unwrap_or_default();
    let width = summary.width;
    let groups = summary.counts.par_iter_mut().zip(summary.stats.par_chunks_mut(width)).enumerate();
    groups.for_each(|(k, (count, stat))| {
        let (mut rows, mut shares) = (Vec::new(), Vec::new());
        members.gather(&everything, k, &mut rows, &mut shares);
        *count = shares.iter().map(|share| share.to_f64()).sum();
        whole.accumulate(&rows, &shares, &mut Scratch::default(), stat);
    });
    summary
}

/// Every row in L clusters drawn at random, with random shares.
fn random_responsibilities<T: Scalar>(
    design: &Design<'_, T>,
    sample: &Sample<T>,
    rng: &mut ChaCha8Rng,
) -> ClusterSummary {
    let (num, sparsity) = (design.num_clusters, design.sparsity);
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
    summary_of(design, sample, &resp, None)
}

/// The same clusters, the largest first.
fn largest_first(summary: &ClusterSummary) -> ClusterSummary {
    let mut order: Vec<usize> = (0..summary.num_clusters()).collect();
    order.sort_by(|&a, &b| summary.counts[b].total_cmp(&summary.counts[a]));
    summary.reordered(&order)
}
