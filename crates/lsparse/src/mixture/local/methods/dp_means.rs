//! DP-means (Kulis and Jordan 2012): k-means that opens a cluster for a row whose squared distance from every centre is
//! above a penalty, and so finds the number of clusters.
//!
//! There is room for K clusters; those that are still empty are none. What is saved is as for k-means.

use crate::data::{Batch, Dealt, RowSource, Rows, Scalar};
use crate::error::Result;
use crate::likelihood::ClusterSummary;
use crate::likelihood::Prior;
use crate::mixture::local::methods::add_panel;
use crate::mixture::local::methods::kmeans::KMeans;
use crate::mixture::{
    LocalStep, Mixture, MixtureModel, MixtureParams, MixtureTally, MixtureWorker, RowMemory, VisitedRows, respond,
};
use crate::training::model::{Objective, Visited};

/// Training by DP-means.
pub struct DpMeans {
    centres: KMeans,
    penalty: f64,
}

impl DpMeans {
    pub fn new(prior: &Prior, penalty: f64) -> Self {
        DpMeans { centres: KMeans::new(prior), penalty }
    }

    fn open(total: &ClusterSummary) -> usize {
        total.counts.iter().filter(|&&n| n > 0.0).count()
    }
}

impl<T: Scalar> LocalStep<T> for DpMeans {
    /// All rows in one cluster.
    fn initial(&self, mixture: &Mixture<T>, data: &Dealt<'_>) -> Option<ClusterSummary> {
        let mut total = mixture.likelihood.no_statistics(mixture.num_clusters);
        total.counts[0] = data.total_weight();
        Some(total)
    }

    fn local(
        &self,
        mixture: &Mixture<T>,
        params: &MixtureParams<T>,
        batch: &Batch<'_>,
        _memory: &RowMemory,
        worker: &mut MixtureWorker<T>,
    ) -> Result<VisitedRows<T>> {
        let mut summary = mixture.likelihood.no_statistics(mixture.num_clusters);
        let arrays = params.clusters.arrays();
        let means = &arrays[0].values;
        let log_pi = &params.frequencies.log_pi;
        let mut free = (0..mixture.num_clusters).filter(|&k| log_pi[k] == f64::NEG_INFINITY);
        let mut fresh: Vec<(usize, Vec<f64>)> = Vec::new();
        mixture.for_each_panel(batch, &mut worker.panels, |panel| {
            respond(params.clusters.as_ref(), log_pi, &panel.rows, 1, &mut panel.resp)?;
            let dim = panel.rows.dim();
            // Opening is one row after the other by nature; distances from the clusters there were are not.
            for n in 0..panel.rows.len() {
                let row = panel.rows.dense_rows(n..n + 1);
                let owner = panel.resp.index[n] as usize;
                let mut best = squared_distance(row, &means[owner * dim..(owner + 1) * dim]);
                for (k, center) in &fresh {
                    let distance = squared_distance(row, center);
                    if distance < best {
                        (best, panel.resp.index[n]) = (distance, *k as u32);
                    }
                }
                if best > self.penalty
                    && let Some(k) = free.next()
                {
                    fresh.push((k, row.iter().map(|x| x.to_f64()).collect()));
                    panel.resp.index[n] = k as u32;
                }
            }
            let entropy = vec![0.0; panel.rows.len()];
            add_panel(mixture, panel, &entropy, &mut summary);
            Ok(())
        })?;
        Ok(Visited::only(summary))
    }

    fn global_step(
        &self,
        mixture: &Mixture<T>,
        total: &ClusterSummary,
        previous: Option<&MixtureParams<T>>,
    ) -> Result<MixtureParams<T>> {
        let arrays = self.centres.arrays(total, previous.map(|params| params.clusters.arrays()));
        let mut params = mixture.equal_params(mixture.likelihood.clusters_of(&arrays)?, previous);
        let open = Self::open(total).max(1) as f64;
        for (k, _) in total.counts.iter().enumerate() {
            let there = total.counts[k] > 0.0;
            params.frequencies.pi[k] = if there { 1.0 / open } else { 0.0 };
            params.frequencies.log_pi[k] = if there { -open.ln() } else { f64::NEG_INFINITY };
        }
        Ok(params)
    }

    /// Less the sum of squared distances, and less the penalty of every cluster.
    fn objective(&self, _mixture: &Mixture<T>, _params: &MixtureParams<T>, total: &ClusterSummary) -> Objective {
        let alloc = -self.penalty * Self::open(total) as f64;
        Objective { data: -self.centres.squared_error(total), entropy: 0.0, alloc }
    }

    fn report(
        &self,
        _mixture: &Mixture<T>,
        _params: &MixtureParams<T>,
        _tally: &MixtureTally,
    ) -> Vec<(&'static str, f64)> {
        vec![("penalty", self.penalty)]
    }

    /// Room that was not needed is given up.
    fn finish(&self, model: &mut MixtureModel) {
        let open: Vec<usize> = (0..model.num_clusters()).filter(|&k| model.total.counts[k] > 0.0).collect();
        let dim = model.dim();
        for array in &mut model.arrays {
            array.values = open.iter().flat_map(|&k| array.values[k * dim..(k + 1) * dim].to_vec()).collect();
            array.shape[0] = open.len();
        }
        model.weights = vec![1.0 / open.len() as f64; open.len()];
        model.total = model.total.reordered(&open);
        model.config.clusters = open.len();
        model.config.penalty = Some(self.penalty);
    }
}

fn squared_distance<T: Scalar>(row: &[T], center: &[f64]) -> f64 {
    row.iter().zip(center).map(|(x, c)| (x.to_f64() - c).powi(2)).sum()
}

/// Rows that the penalty is found from.
const SAMPLE_ROWS: usize = 20_000;

/// The penalty for about `target` clusters, as the paper sets it: from the mean of the rows on, take again and again
/// the row farthest from all that were taken; the squared distance of the last one is the penalty.
pub fn farthest_first_penalty(source: &dyn RowSource, mean: &[f64], target: usize) -> Result<f64> {
    let stretch = source.num_rows().min(SAMPLE_ROWS);
    let mut rows = Rows::<f64>::dense(source.dim());
    // Equal parts from all over the source.
    let parts = source.num_rows().div_ceil(stretch).min(20);
    for part in 0..parts {
        let first = source.num_rows() * part / parts;
        let count = (stretch / parts).min(source.num_rows() - first);
        source.read_f64(first, count, &mut rows)?;
    }
    let row = |n: usize| rows.dense_rows(n..n + 1);
    let mut nearest: Vec<f64> = (0..rows.len()).map(|n| squared_distance(row(n), mean)).collect();
    let mut penalty = 0.0;
    for _ in 0..target {
        let farthest = (0..rows.len()).max_by(|&a, &b| nearest[a].total_cmp(&nearest[b]).then(b.cmp(&a)));
        let Some(farthest) = farthest else { break };
        penalty = nearest[farthest];
        let center = row(farthest).to_vec();
        nearest.iter_mut().enumerate().for_each(|(n, best)| *best = best.min(squared_distance(row(n), &center)));
    }
    Ok(penalty)
}
