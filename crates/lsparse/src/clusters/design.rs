//! What the first clusters are found for: a family, how many of it, and how they are estimated.

use crate::allocation::{Allocation, Frequencies};
use crate::data::{Layout, Scalar};
use crate::error::Result;
use crate::likelihood::{ClusterSummary, Clusters, Estimate, Likelihood};
use crate::training::model::Objective;

/// K clusters of a family that are to be found. Rows are taken one by one, whatever the model makes of their order.
#[derive(Clone, Copy)]
pub struct Design<'a, T> {
    /// The family, with its prior.
    pub likelihood: &'a dyn Likelihood<T>,
    /// Posterior, MAP or maximum likelihood.
    pub estimate: Estimate,
    /// Where frequencies of clusters come from.
    pub allocation: Allocation,
    /// K.
    pub num_clusters: usize,
    /// L.
    pub sparsity: usize,
}

/// Clusters and their frequencies.
pub struct Designed<T> {
    /// q(pi) or its point estimate.
    pub frequencies: Frequencies,
    /// The clusters.
    pub clusters: Box<dyn Clusters<T>>,
}

impl<T: Scalar> Design<'_, T> {
    /// The layout that the likelihood wants its rows in.
    pub fn layout(&self) -> Layout {
        self.likelihood.layout()
    }

    /// The best clusters for these statistics.
    pub fn global_step(&self, total: &ClusterSummary) -> Result<Designed<T>> {
        Ok(Designed {
            frequencies: self.allocation.frequencies(self.estimate, &total.counts),
            clusters: self.likelihood.global_step(self.estimate, &total.counts, &total.stats, None)?,
        })
    }

    /// The objective of clusters that [`global_step`](Self::global_step) made from `total`.
    pub fn objective(&self, designed: &Designed<T>, total: &ClusterSummary) -> Objective {
        Objective {
            data: designed.clusters.own_data_term(),
            entropy: total.entropy,
            alloc: self.allocation.term(self.estimate, &total.counts),
        }
    }
}
