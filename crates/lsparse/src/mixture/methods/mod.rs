//! The ways to train a mixture that L-sparse responsibilities are compared with, in the same loop and model files.
//!
//! Each replaces the local step, or the global step as well, and leaves the rest of the mixture alone. Hard EM needs no
//! code of its own: it is L = 1 with point estimates.

mod dp_means;
mod kmeans;
mod sparse_em;
mod truncation;

use serde::{Deserialize, Serialize};

use super::{Mixture, MixtureData, MixtureModel, MixtureParams, Panel, Panels, accumulate};
use crate::checkpoint::Sections;
use crate::data::{RowSource, Scalar};
use crate::error::Result;
use crate::model::{Model, Objective};
use crate::summary::ClusterSummary;

pub(super) use dp_means::DpMeans;
pub use dp_means::farthest_first_penalty;
pub(super) use kmeans::{KMeans, equal_params};
pub(super) use sparse_em::SparseEm;
pub(super) use truncation::Truncation;
pub use truncation::{BuiltInSelection, RowValues, Select, Selecting};

/// How a mixture is trained.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MixtureMethod {
    /// L-sparse responsibilities: the method of this library.
    #[default]
    Lsparse,
    /// Dense responsibilities, of which only the largest are renewed in most laps (Neal and Hinton 1998).
    SparseEm,
    /// A selection function chooses clusters before weights are computed (Luecke and Eggert 2010).
    Truncation,
    /// Lloyd's algorithm with squared Euclidean distance.
    Kmeans,
    /// k-means that opens a cluster where a row is too far from all (Kulis and Jordan 2012).
    DpMeans,
    /// Every row in its best cluster alone, with point estimates.
    HardEm,
}

impl MixtureMethod {
    /// The name on the command line and in model files.
    pub fn name(self) -> &'static str {
        match self {
            MixtureMethod::Lsparse => "lsparse",
            MixtureMethod::SparseEm => "sparse-em",
            MixtureMethod::Truncation => "truncation",
            MixtureMethod::Kmeans => "kmeans",
            MixtureMethod::DpMeans => "dp-means",
            MixtureMethod::HardEm => "hard-em",
        }
    }

    /// Whether clusters are centres and nothing else.
    pub fn has_centres_alone(self) -> bool {
        matches!(self, MixtureMethod::Kmeans | MixtureMethod::DpMeans)
    }
}

/// A way to train a mixture: the parts of the loop that differ from L-sparse training.
pub(super) trait Method<T: Scalar>: Send + Sync {
    /// Another run starts, on these rows.
    fn begin_run(&self, _source: &dyn RowSource) {}

    /// The statistics to start from, where not from seeds.
    fn initial(&self, _mixture: &Mixture<T>, _data: &MixtureData<'_>) -> Option<ClusterSummary> {
        None
    }

    /// Local step and statistics of one batch.
    fn summarize(
        &self,
        mixture: &Mixture<T>,
        params: &MixtureParams<T>,
        data: &MixtureData<'_>,
        batch: usize,
        scratch: &mut Option<Panels<T>>,
    ) -> Result<ClusterSummary>;

    /// The best parameters for these statistics.
    fn global_step(
        &self,
        mixture: &Mixture<T>,
        total: &ClusterSummary,
        previous: Option<&MixtureParams<T>>,
    ) -> Result<MixtureParams<T>> {
        Model::<MixtureData<'_>>::global_step(mixture, total, previous)
    }

    /// What training raises.
    fn objective(&self, mixture: &Mixture<T>, params: &MixtureParams<T>, total: &ClusterSummary) -> Objective {
        Model::<MixtureData<'_>>::objective(mixture, params, total)
    }

    /// What there is to report of a lap.
    fn report(&self) -> Vec<(&'static str, f64)> {
        Vec::new()
    }

    /// What a checkpoint must hold.
    fn sections(&self, _sections: &mut Sections) {}

    /// Take up what a checkpoint holds; false if it is not there.
    fn restore(&self, _sections: &Sections) -> bool {
        true
    }

    /// Last changes to the model that is saved.
    fn finish(&self, _model: &mut MixtureModel) {}
}

/// A mixture trained by another method.
pub(super) struct MethodMixture<'f, T: Scalar> {
    pub mixture: Mixture<T>,
    pub method: Box<dyn Method<T> + 'f>,
}

impl<'a, T: Scalar> Model<MixtureData<'a>> for MethodMixture<'_, T> {
    type Params = MixtureParams<T>;
    type Summary = ClusterSummary;
    type Scratch = Option<Panels<T>>;

    fn num_batches(&self, data: &MixtureData<'a>) -> usize {
        self.mixture.num_batches(data)
    }

    fn batch_share(&self, data: &MixtureData<'a>, batch: usize) -> f64 {
        self.mixture.batch_share(data, batch)
    }

    fn batch_len(&self, data: &MixtureData<'a>, batch: usize) -> usize {
        self.mixture.batch_len(data, batch)
    }

    fn summarize(
        &self,
        params: &MixtureParams<T>,
        data: &MixtureData<'a>,
        batch: usize,
        scratch: &mut Option<Panels<T>>,
    ) -> Result<ClusterSummary> {
        self.method.summarize(&self.mixture, params, data, batch, scratch)
    }

    fn global_step(&self, total: &ClusterSummary, previous: Option<&MixtureParams<T>>) -> Result<MixtureParams<T>> {
        self.method.global_step(&self.mixture, total, previous)
    }

    fn objective(&self, params: &MixtureParams<T>, total: &ClusterSummary) -> Objective {
        self.method.objective(&self.mixture, params, total)
    }

    fn lap_report(&self, _data: &MixtureData<'a>) -> Vec<(&'static str, f64)> {
        self.method.report()
    }
}

/// Add the statistics of a panel's responsibilities to a summary, with the entropy of each row.
fn add_panel<T: Scalar>(mixture: &Mixture<T>, panel: &mut Panel<T>, entropy: &[f64], summary: &mut ClusterSummary) {
    panel.members.regroup(mixture.num_clusters, &panel.resp, &panel.row_weights);
    accumulate(mixture.likelihood.as_ref(), &panel.rows, &panel.members, summary);
    let weight = |n: usize| panel.row_weights.get(n).copied().unwrap_or(1.0);
    summary.entropy += entropy.iter().enumerate().map(|(n, h)| h * weight(n)).sum::<f64>();
}
