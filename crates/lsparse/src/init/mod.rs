//! The first statistics: seeds drawn from a sample of the rows, and passes that gather rows around them.

mod seeds;

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use crate::config::{Init, MixtureConfig};
use crate::data::{Batches, Rows, Scalar};
use crate::error::Result;
use crate::fit::Patience;
use crate::likelihood::{Estimate, Scratch};
use crate::mixture::{Members, Mixture, MixtureData, accumulate, respond};
use crate::responsibilities::Responsibilities;
use crate::summary::{ClusterSummary, Summary};

pub(crate) use seeds::draw_index;
use seeds::{Metric, Seeding};

/// A sample of the rows, held in memory for seeding.
pub struct Sample<T> {
    /// The rows, in the layout that the likelihood wants.
    pub rows: Rows<T>,
    /// Empty, or one weight a row.
    pub weights: Vec<f64>,
}

impl<T: Scalar> Sample<T> {
    /// About `size` rows, spread over the whole source.
    pub fn draw(mixture: &Mixture<T>, data: &MixtureData<'_>, size: usize, rng: &mut ChaCha8Rng) -> Result<Self> {
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
    data: &MixtureData<'_>,
    config: &MixtureConfig,
    rng: &mut ChaCha8Rng,
    patience: Patience<'_>,
) -> Result<ClusterSummary> {
    let size = match config.init_rows {
        0 => (100 * config.clusters).max(10_000),
        rows => rows.max(config.clusters),
    };
    let sample = Sample::draw(mixture, data, size, rng)?;
    let seeding = |metric, uniform| Seeding { metric, uniform, patience };
    let summary = match config.init {
        Init::Responsibilities => random_responsibilities(mixture, &sample, rng),
        Init::Bregman => seeded(mixture, &sample, seeding(Metric::Bregman, false), config, rng)?,
        Init::Kmeans => seeded(mixture, &sample, seeding(Metric::Euclidean, false), config, rng)?,
        Init::Examples => seeded(mixture, &sample, seeding(Metric::Bregman, true), config, rng)?,
    };
    let mut summary = largest_first(&summary);
    let seeds_alone = config.init_lloyd == 0 && config.init != Init::Responsibilities;
    // Single rows keep their weight of one: scaled up they would drown the prior that gives them a shape.
    if !seeds_alone {
        summary.scale(data.total_weight() / sample.total_weight());
    }
    Ok(summary)
}

/// Seeds by `seeding`, then `init_lloyd` passes of assigning and re-estimating.
fn seeded<T: Scalar>(
    mixture: &Mixture<T>,
    sample: &Sample<T>,
    seeding: Seeding<'_>,
    config: &MixtureConfig,
    rng: &mut ChaCha8Rng,
) -> Result<ClusterSummary> {
    let (chosen, mut owner) = seeding.draw(mixture.likelihood.as_ref(), sample, config.clusters, rng)?;
    if config.init_lloyd == 0 {
        return Ok(seeds_alone(mixture, sample, &chosen));
    }
    let mut summary = hard_summary(mixture, sample, &owner);
    for _ in 1..config.init_lloyd {
        seeding.patience.check()?;
        owner = match seeding.metric {
            Metric::Euclidean => seeds::nearest_centroid(&sample.rows, &owner, config.clusters),
            Metric::Bregman => {
                let step = mixture.likelihood.global_step(Estimate::Map, &summary.counts, &summary.stats, None)?;
                let mut resp = Responsibilities::default();
                respond(step.as_ref(), &vec![0.0; config.clusters], &sample.rows, 1, &mut resp)?;
                resp.index
            }
        };
        summary = hard_summary(mixture, sample, &owner);
    }
    Ok(summary)
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
