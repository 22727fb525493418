//! k-means: Lloyd's algorithm with squared Euclidean distance.
//!
//! The model that is saved is a mixture of equally frequent Gaussians with one variance for all clusters and columns,
//! the mean squared distance a column: rows are assigned to the nearest centre, and can be scored.

use crate::data::{Batch, Scalar};
use crate::error::Result;
use crate::likelihood::ClusterSummary;
use crate::likelihood::{NamedArray, Prior};
use crate::mixture::local::methods::add_panel;
use crate::mixture::local::nearest::Centers;
use crate::mixture::{LocalStep, Mixture, MixtureParams, MixtureWorker, RowMemory, VisitedRows};
use crate::training::model::{Objective, Visited};

/// Training by k-means. Statistics are those of diagonal Gaussians: sums of rows about the prior's centre, and of
/// their squares.
pub struct KMeans {
    center: Vec<f64>,
    variance_floor: f64,
}

impl KMeans {
    pub fn new(prior: &Prior) -> Self {
        let floor = prior.variance_floor.iter().sum::<f64>() / prior.dim as f64;
        KMeans { center: prior.center.clone(), variance_floor: floor }
    }

    /// The sum of squared distances of rows from the means of their clusters.
    pub fn squared_error(&self, total: &ClusterSummary) -> f64 {
        let dim = self.center.len();
        let of_cluster = |k: usize| -> f64 {
            let (first, second) = total.stat(k).split_at(dim);
            let column = |(s, q): (&f64, &f64)| (q - s * s / total.counts[k]).max(0.0);
            first.iter().zip(second).map(column).sum()
        };
        (0..total.num_clusters()).filter(|&k| total.counts[k] > 0.0).map(of_cluster).sum()
    }

    /// Means of the clusters, those without rows where they were, and one variance.
    pub fn arrays(&self, total: &ClusterSummary, previous: Option<Vec<NamedArray>>) -> Vec<NamedArray> {
        let (num, dim) = (total.num_clusters(), self.center.len());
        let before = previous.and_then(|arrays| arrays.into_iter().find(|a| a.name == "means"));
        let mut means = before.map_or_else(|| self.center.repeat(num), |array| array.values);
        for (k, mean) in means.chunks_exact_mut(dim).enumerate().filter(|&(k, _)| total.counts[k] > 0.0) {
            let sums = total.stat(k)[..dim].iter().zip(&self.center);
            mean.iter_mut().zip(sums).for_each(|(m, (s, c))| *m = c + s / total.counts[k]);
        }
        let rows = total.total_weight().max(f64::MIN_POSITIVE);
        let variance = (self.squared_error(total) / (rows * dim as f64)).max(self.variance_floor);
        vec![
            NamedArray::new("means", vec![num, dim], means),
            NamedArray::new("variances", vec![num, dim], vec![variance; num * dim]),
        ]
    }
}

impl<T: Scalar> LocalStep<T> for KMeans {
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
        let centers = Centers::new(&arrays[0].values, &self.center)?;
        mixture.for_each_panel(batch, &mut worker.panels, |panel| {
            let resp = &mut panel.resp;
            resp.sparsity = 1;
            centers.assign(&panel.rows, &mut resp.index)?;
            resp.value.clear();
            resp.value.resize(resp.index.len(), T::ONE);
            add_panel(mixture, panel, &[], &mut summary);
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
        let arrays = self.arrays(total, previous.map(|params| params.clusters.arrays()));
        Ok(mixture.equal_params(mixture.likelihood.clusters_of(&arrays)?, previous))
    }

    /// Less the sum of squared distances.
    fn objective(&self, _mixture: &Mixture<T>, _params: &MixtureParams<T>, total: &ClusterSummary) -> Objective {
        Objective { data: -self.squared_error(total), ..Objective::default() }
    }
}
