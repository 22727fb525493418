//! The ways to train a mixture that L-sparse responsibilities are compared with, in the same loop and model files.
//!
//! Each replaces the local step, or the global step as well, and leaves the rest of the mixture alone. Hard EM needs no
//! code of its own: it is L = 1 with point estimates.

mod dp_means;
mod kmeans;
mod sparse_em;
mod truncation;

use crate::data::Scalar;
use crate::likelihood::ClusterSummary;
use crate::likelihood::accumulate;
use crate::mixture::{Mixture, Panel};

pub(in crate::mixture) use dp_means::DpMeans;
pub use dp_means::farthest_first_penalty;
pub(in crate::mixture) use kmeans::KMeans;
pub use sparse_em::Frozen;
pub(in crate::mixture) use sparse_em::SparseEm;
pub(in crate::mixture) use truncation::Truncation;
pub use truncation::{RowValues, Select, Selecting};

/// Add the statistics of a panel's responsibilities to a summary, with the entropy of each row.
fn add_panel<T: Scalar>(mixture: &Mixture<T>, panel: &mut Panel<T>, entropy: &[f64], summary: &mut ClusterSummary) {
    panel.members.regroup(mixture.num_clusters, &panel.resp, &panel.row_weights);
    accumulate(mixture.likelihood.as_ref(), &panel.rows, &panel.members, summary);
    let weight = |n: usize| panel.row_weights.get(n).copied().unwrap_or(1.0);
    summary.entropy += entropy.iter().enumerate().map(|(n, h)| h * weight(n)).sum::<f64>();
}
