//! The ways to train a mixture that L-sparse responsibilities are compared with, in the same loop and model files.
//!
//! Each replaces the local step, or the global step as well, and leaves the rest of the mixture alone. Hard EM needs no
//! code of its own: it is L = 1 with point estimates.

mod dp_means;
mod kmeans;
mod sparse_em;
mod truncation;

use serde::{Deserialize, Serialize};

use super::{Mixture, Panel, accumulate};
use crate::data::Scalar;
use crate::summary::ClusterSummary;

pub(super) use dp_means::DpMeans;
pub use dp_means::farthest_first_penalty;
pub(super) use kmeans::KMeans;
pub use sparse_em::Frozen;
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

/// Add the statistics of a panel's responsibilities to a summary, with the entropy of each row.
fn add_panel<T: Scalar>(mixture: &Mixture<T>, panel: &mut Panel<T>, entropy: &[f64], summary: &mut ClusterSummary) {
    panel.members.regroup(mixture.num_clusters, &panel.resp, &panel.row_weights);
    accumulate(mixture.likelihood.as_ref(), &panel.rows, &panel.members, summary);
    let weight = |n: usize| panel.row_weights.get(n).copied().unwrap_or(1.0);
    summary.entropy += entropy.iter().enumerate().map(|(n, h)| h * weight(n)).sum::<f64>();
}
