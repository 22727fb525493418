//! The first statistics: seeds drawn from a sample of the rows, and passes that gather rows around them.

mod lloyd;
mod seeds;
mod trade;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

use crate::clusters::Design;
use crate::data::{Batches, Dealt, Rows, Scalar};
use crate::error::{Error, Result};
use crate::likelihood::{
    ClusterSummary, Estimate, Likelihood, Members, Scratch, accumulate_onto, log_density, respond, respond_dense,
};
use crate::settings::{Init, MixtureConfig};
use crate::training::responsibilities::Responsibilities;
use crate::training::rules::Patience;
use crate::training::summary::Summary;

use lloyd::Space;
pub(crate) use lloyd::{Spaces, Units};
pub(crate) use seeds::{Metric, Seeding};
use trade::{Groups, Split, carry_out, cheapest};

/// Passes of k-means that a start makes at most where nothing else is said: held-out scores at the end of training were
/// the same with 25.
const MOST_PASSES: usize = 10;

/// Rounds of trades between clusters at most; most starts have none left after two or three.
const MOST_TRADES: usize = 5;

/// Passes of k-means after each.
const PASSES_AFTER_TRADES: usize = 3;

/// Rows that are tried for a seed of a family of counts.
const TRIES: usize = 3;

/// A heat looks at one row in so many.
const HEAT: usize = 4;

/// Rows a cluster that it takes at least.
const HEAT_ROWS: usize = 40;

/// Passes of k-means that it makes at most.
const HEAT_PASSES: usize = 4;

/// Steps of training after which a start of clusters whose shapes have many numbers is judged. After one step shapes are
/// still those of the start, and what looks best then may end worst: of patches in 50 principal components, ten clusters of
/// full covariance, k-means is last of three by 2.6 nats a row after one step, and first by 1.8 after four and by 3 after
/// eight.
const STEPS_TO_SHAPE: usize = 4;

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
    pub fn draw(design: &Design<'_, T>, data: &Dealt<'_>, size: usize, rng: &mut ChaCha8Rng) -> Result<Self> {
        let num_rows = data.source.num_rows();
        let parts = ((num_rows + size / 2) / size.max(1)).max(1);
        let batches = Batches::new(num_rows, parts, rng.random())?;
        let mut rows = Rows::new(design.layout(), design.likelihood.dim());
        let (mut spare, mut ids) = (Rows::new(design.layout(), design.likelihood.dim()), Vec::new());
        for panel in batches.panels(0, batches.len(0)) {
            batches.read_panel(data.source, panel, &mut spare, &mut rows, &mut ids)?;
        }
        fill_in(&mut rows);
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
            let step = design.global_step(&summary)?;
            let mut resp = Responsibilities::default();
            let entropy = respond_dense(step.clusters.as_ref(), &step.frequencies.log_pi, &self.rows, &mut resp)?;
            summary = summary_of(design, self, &resp);
            summary.entropy = entropy.iter().enumerate().map(|(n, h)| h * self.weight(n)).sum();
            summary.scale(factor);
            objective = design.objective(&design.global_step(&summary)?, &summary).total();
        }
        Ok(objective)
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
        let mut rows = Rows::new(self.rows.layout(), self.rows.dim());
        self.rows.gather_into(ids, &mut rows);
        let weights = match self.weights.is_empty() {
            true => Vec::new(),
            false => ids.iter().map(|&n| self.weights[n as usize]).collect(),
        };
        Sample { rows, weights }
    }

    pub(crate) fn weight(&self, n: usize) -> f64 {
        self.weights.get(n).copied().unwrap_or(1.0)
    }

    pub(crate) fn total_weight(&self) -> f64 {
        (0..self.rows.len()).map(|n| self.weight(n)).sum()
    }
}

/// Put the mean of a column over the sample where a value is missing: good enough to find clusters by, and the first lap
/// has their own expectations in its place.
pub(crate) fn fill_in<T: Scalar>(rows: &mut Rows<T>) {
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
    design: &Design<'_, T>,
    data: &Dealt<'_>,
    config: &MixtureConfig,
    rng: &mut ChaCha8Rng,
    patience: Patience<'_>,
) -> Result<ClusterSummary> {
    let by_contest = starts_by_contest(config);
    let sample = Sample::draw(design, data, sample_size(config, design.likelihood), rng)?;
    let (sample, judges) = if by_contest { sample.part(config.clusters) } else { (sample, None) };
    let factor = data.total_weight() / sample.total_weight();
    let start = Start { design, sample: &sample, clusters: config.clusters, factor, patience };
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
            start.kmeans(&Space::new(&sample, Units::Raw), passes.unwrap_or(MOST_PASSES), trades, rng)?
        }
        Init::Auto | Init::Bregman => start.seeded(seeding(Metric::Bregman, false), passes.unwrap_or(1), rng)?,
        Init::Kmeans if sample.rows.as_dense().is_some() => {
            start.kmeans(&Space::new(&sample, Units::Raw), passes.unwrap_or(1), 0, rng)?
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
fn is_light<T: Scalar>(likelihood: &dyn Likelihood<T>) -> bool {
    likelihood.num_parameters() <= 2 * likelihood.dim()
}

/// Steps of training after which a start is judged.
fn steps_to_judge<T: Scalar>(likelihood: &dyn Likelihood<T>) -> usize {
    if is_light(likelihood) && likelihood.shared_width() == 0 { 1 } else { STEPS_TO_SHAPE }
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
    clusters: usize,
    /// What the sample's statistics are multiplied by for those of all rows.
    factor: f64,
    patience: Patience<'a>,
}

impl<T: Scalar> Start<'_, T> {
    /// Several starts, each followed by a few steps of training; the one that gives rows it has not seen the best density is
    /// kept, or, where none could be spared, the one with the best objective. Then trades between its clusters, as long
    /// as they are judged to be for the better.
    ///
    /// No one start is best: columns of different scales want units of their own, most data k-means, and clusters that
    /// share their means the divergence of the family. The objective after a step would take many small clusters for
    /// good ones; the density of other rows foretells that at the end.
    fn contest(
        &self,
        passes: Option<usize>,
        judges: Option<&Sample<T>>,
        rng: &mut ChaCha8Rng,
    ) -> Result<ClusterSummary> {
        let most = passes.unwrap_or(MOST_PASSES);
        // Who asks for a pass at most wants seeds.
        let trades = if most > 1 { MOST_TRADES } else { 0 };
        let spaces = Spaces::new(self.sample);
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
        let (_, mut summary) = best?;
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
    /// Where it matters which start is taken, starts differ by more than a part of the rows is wrong by. Shapes of many
    /// numbers are another matter: those of a part of the rows are the prior's.
    fn heat(
        &self,
        passes: Option<usize>,
        judges: Option<&Sample<T>>,
        rng: &mut ChaCha8Rng,
    ) -> Result<Option<Vec<Entrant>>> {
        let Start { design, sample, clusters, .. } = *self;
        let likelihood = design.likelihood;
        let enough = sample.rows.len() / HEAT >= HEAT_ROWS * clusters;
        let Some(judges) = judges.filter(|_| is_light(likelihood) && enough && passes != Some(0)) else {
            return Ok(None);
        };
        let every = |ids: usize, step: usize| (0..ids as u32).step_by(step).collect::<Vec<_>>();
        let part = sample.of(&every(sample.rows.len(), HEAT));
        let step = (judges.rows.len() / FEWEST_JUDGES / 4).clamp(1, HEAT);
        let judges = judges.of(&every(judges.rows.len(), step));
        if part.total_weight() <= 0.0 || judges.total_weight() <= 0.0 {
            return Ok(None);
        }
        let start = Start { sample: &part, factor: self.factor * sample.total_weight() / part.total_weight(), ..*self };
        let spaces = Spaces::new(&part);
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
                summary = self.train(summary, None)?.1;
            }
            self.train(summary, judges)
        });
        self.patience.check().map(|()| trained)
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
        respond(params.clusters.as_ref(), &params.frequencies.log_pi, &sample.rows, 2, &mut resp)?;
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

    /// A step of training over the sample from these statistics, which are on the scale of the whole data: how good it is,
    /// and the statistics it leads to, on the same scale.
    fn train(&self, summary: ClusterSummary, judges: Option<&Sample<T>>) -> Result<(f64, ClusterSummary)> {
        let Start { design, sample, factor, .. } = *self;
        let model = |summary: &ClusterSummary| design.global_step(summary);
        let params = model(&summary)?;
        self.patience.check()?;
        let mut resp = Responsibilities::default();
        let (clusters, log_pi) = (params.clusters.as_ref(), &params.frequencies.log_pi);
        let entropy = match design.sparsity == design.num_clusters {
            true => respond_dense(clusters, log_pi, &sample.rows, &mut resp)?,
            false => respond(clusters, log_pi, &sample.rows, design.sparsity, &mut resp)?,
        };
        let mut summary = summary_of(design, sample, &resp);
        summary.entropy = entropy.iter().enumerate().map(|(n, h)| h * sample.weight(n)).sum();
        summary.scale(factor);
        let params = model(&summary)?;
        let score = match judges {
            None => design.objective(&params, &summary).total(),
            Some(judges) => {
                let clusters = design.likelihood.clusters_of(&params.clusters.arrays())?;
                let log_pi: Vec<f64> = params.frequencies.pi.iter().map(|p| p.ln()).collect();
                let density = log_density(clusters.as_ref(), &log_pi, &judges.rows)?;
                density.iter().enumerate().map(|(n, score)| score * judges.weight(n)).sum()
            }
        };
        Ok((score, summary))
    }

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
                Metric::Euclidean => seeds::nearest_centroid(&sample.rows, &owner, clusters),
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

/// Statistics of the seeds and nothing else: one row a cluster.
fn seeds_alone<T: Scalar>(design: &Design<'_, T>, sample: &Sample<T>, chosen: &[usize]) -> ClusterSummary {
    let mut summary = design.likelihood.no_statistics(chosen.len());
    let mut scratch = Scratch::default();
    for (k, &row) in chosen.iter().enumerate() {
        summary.counts[k] = 1.0;
        let stat = &mut summary.stats[k * summary.width..(k + 1) * summary.width];
        design.likelihood.accumulate(&sample.rows, &[row as u32], &[T::ONE], &mut scratch, stat);
    }
    let members: Vec<u32> = chosen.iter().map(|&row| row as u32).collect();
    let shared = &mut summary.stats[chosen.len() * summary.width..];
    design.likelihood.accumulate_shared(&sample.rows, &members, &vec![1.0; members.len()], shared);
    summary
}

/// Statistics of the sample with every row in one cluster.
fn hard_summary<T: Scalar>(design: &Design<'_, T>, sample: &Sample<T>, owner: &[u32]) -> ClusterSummary {
    let resp = Responsibilities { sparsity: 1, index: owner.to_vec(), value: vec![T::ONE; owner.len()] };
    summary_of(design, sample, &resp)
}

fn summary_of<T: Scalar>(design: &Design<'_, T>, sample: &Sample<T>, resp: &Responsibilities<T>) -> ClusterSummary {
    let mut summary = design.likelihood.no_statistics(design.num_clusters);
    let mut members = Members::default();
    members.regroup(design.num_clusters, resp, &sample.weights);
    accumulate_onto(design.likelihood, None, &sample.rows, &members, &mut summary, true);
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
    summary_of(design, sample, &resp)
}

/// The same clusters, the largest first.
fn largest_first(summary: &ClusterSummary) -> ClusterSummary {
    let mut order: Vec<usize> = (0..summary.num_clusters()).collect();
    order.sort_by(|&a, &b| summary.counts[b].total_cmp(&summary.counts[a]));
    summary.reordered(&order)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::allocation::Allocation;
    use crate::data::Moments;
    use crate::likelihood::{LikelihoodKind, Prior};

    /// The entrants in the order of a heat for rows drawn by `draw`.
    fn heat(kind: LikelihoodKind, dim: usize, draw: impl Fn(usize, &mut ChaCha8Rng) -> Vec<f64>) -> Vec<Entrant> {
        const K: usize = 4;
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let mut rows = Rows::dense(dim);
        (0..4000).for_each(|n| rows.push_dense(&draw(n % K, &mut rng)));
        let config = MixtureConfig { likelihood: kind, prior_scale: Some(1e-3), ..Default::default() };
        let all = Sample { rows, weights: Vec::new() };
        let (mean, variance) = lloyd::moments(&all);
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
        let start = Start { design: &design, sample: &sample, clusters: K, factor: 1.0, patience: Patience::default() };
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

    #[test]
    fn a_better_start_is_one_of_a_higher_score_and_any_is_better_than_none() {
        let none = || Err::<(f64, u32), _>(Error::NoRows { name: "x".into() });
        assert_eq!(better(Ok((1.0, 1)), Ok((2.0, 2))).unwrap().1, 2);
        assert_eq!(better(Ok((2.0, 1)), Ok((2.0, 2))).unwrap().1, 1);
        assert_eq!(better(none(), Ok((-9.0, 2))).unwrap().1, 2);
        assert_eq!(better(Ok((-9.0, 1)), none()).unwrap().1, 1);
    }
}
