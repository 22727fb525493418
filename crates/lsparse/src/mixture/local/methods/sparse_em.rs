//! Sparse EM (Neal and Hinton 1998): responsibilities are dense, but most laps renew only each row's largest.
//!
//! A full lap computes all responsibilities. In the laps that follow the largest of a row share anew the mass that they
//! had together, and the others stay frozen; every step raises the objective. What is frozen enters the statistics as
//! one summary a batch, so that nothing of it is kept row by row.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::data::{Batch, Scalar};
use crate::error::Result;
use crate::likelihood::ClusterSummary;
use crate::mixture::local::methods::add_panel;
use crate::mixture::local::methods::truncation::normalise;
use crate::mixture::local::search::{NONE, SearchBuffers};
use crate::mixture::{LocalStep, Mixture, MixtureParams, MixtureWorker, Panel, RowMemory, VisitedRows, respond};
use crate::training::model::Visited;
use crate::training::responsibilities::Responsibilities;
use crate::training::schedule::Kept;
use crate::training::summary::Summary;

/// Training by sparse EM.
pub struct SparseEm {
    /// Visits of a batch from one full one to the next.
    pub refresh: usize,
    /// Smallest responsibility that is renewed.
    pub threshold: f64,
}

/// What a batch keeps from one full visit to the next.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Frozen {
    /// Visits so far.
    visits: usize,
    last: Arc<FullVisit>,
}

/// What the last full visit left, rows in the order of the batch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct FullVisit {
    /// The clusters of each row that are renewed, L places a row.
    cluster: Vec<u32>,
    /// The mass they share.
    mass: Vec<f64>,
    /// The statistics of what is frozen.
    rest: ClusterSummary,
}

impl FullVisit {
    fn is_of(&self, rows: usize, sparsity: usize) -> bool {
        self.mass.len() == rows && self.cluster.len() == rows * sparsity
    }
}

impl Kept for Frozen {
    fn kept_bytes(&self) -> u64 {
        let FullVisit { cluster, mass, rest } = &*self.last;
        (size_of_val(cluster.as_slice()) + size_of_val(mass.as_slice()) + rest.resident_bytes()) as u64
    }
}

impl SparseEm {
    /// Split the dense responsibilities of a panel: those that will be renewed stay in it and are noted in `visit`, the
    /// others are returned, with the entropy of both.
    fn split<T: Scalar>(
        &self,
        visit: &mut FullVisit,
        sparsity: usize,
        panel: &mut Panel<T>,
    ) -> (Responsibilities<T>, Vec<f64>, Vec<f64>) {
        let num = panel.resp.sparsity;
        let mut kept = Responsibilities::default();
        kept.resize(panel.rows.len(), sparsity);
        let (mut renewed, mut frozen) = (Vec::new(), Vec::new());
        for n in 0..panel.rows.len() {
            let first = visit.cluster.len();
            visit.cluster.resize(first + sparsity, NONE);
            let list = &mut visit.cluster[first..];
            let (mut mass, mut entropy) = (0.0, [0.0; 2]);
            for l in 0..num {
                let (k, r) = (panel.resp.index[n * num + l], panel.resp.value[n * num + l]);
                let value = r.to_f64();
                // The largest come first.
                let renew = l == 0 || (l < sparsity && value >= self.threshold && value > 0.0);
                if renew {
                    (list[l], kept.index[n * sparsity + l], kept.value[n * sparsity + l]) = (k, k, r);
                    panel.resp.value[n * num + l] = T::ZERO;
                    mass += value;
                }
                if value > 0.0 {
                    entropy[usize::from(!renew)] -= value * value.ln();
                }
            }
            visit.mass.push(mass);
            renewed.push(entropy[0]);
            frozen.push(entropy[1]);
        }
        (std::mem::replace(&mut panel.resp, kept), renewed, frozen)
    }
}

impl<T: Scalar> LocalStep<T> for SparseEm {
    fn keeps_rows(&self) -> bool {
        true
    }

    fn local(
        &self,
        mixture: &Mixture<T>,
        params: &MixtureParams<T>,
        batch: &Batch<'_>,
        memory: &RowMemory,
        worker: &mut MixtureWorker<T>,
    ) -> Result<VisitedRows<T>> {
        let sparsity = mixture.sparsity;
        let empty = || mixture.likelihood.no_statistics(mixture.num_clusters);
        let (clusters, log_pi) = (params.clusters.as_ref(), &params.frequencies.log_pi);
        let mut summary = empty();
        let (visits, last) = match memory {
            // Other rows than last time have not been visited.
            RowMemory::Frozen(Frozen { visits, last }) if last.is_of(batch.num_rows(), sparsity) => {
                (*visits, Some(last))
            }
            _ => (0, None),
        };
        let MixtureWorker { panels, buffers, .. } = worker;
        let pairs = SearchBuffers::pairs(buffers);
        let last = match last.filter(|_| !visits.is_multiple_of(self.refresh)) {
            None => {
                let mut visit = FullVisit { cluster: Vec::new(), mass: Vec::new(), rest: empty() };
                mixture.for_each_panel(batch, panels, |panel| {
                    respond(clusters, log_pi, &panel.rows, mixture.num_clusters, &mut panel.resp)?;
                    let (rest, renewed_entropy, frozen_entropy) = self.split(&mut visit, sparsity, panel);
                    add_panel(mixture, panel, &renewed_entropy, &mut summary);
                    panel.resp = rest;
                    add_panel(mixture, panel, &frozen_entropy, &mut visit.rest);
                    Ok(())
                })?;
                Arc::new(visit)
            }
            Some(last) => {
                let log_pi: Vec<T> = log_pi.iter().map(|&v| T::from_f64(v)).collect();
                let mut first = 0;
                mixture.for_each_panel(batch, panels, |panel| {
                    let of_batch = first..first + panel.rows.len();
                    first = of_batch.end;
                    pairs.reset(0..of_batch.len(), sparsity);
                    pairs.cluster.copy_from_slice(&last.cluster[of_batch.start * sparsity..of_batch.end * sparsity]);
                    pairs.weigh(clusters, &log_pi, &panel.rows);
                    let entropy = normalise(pairs, sparsity, &last.mass[of_batch], &mut panel.resp)?;
                    add_panel(mixture, panel, &entropy, &mut summary);
                    Ok(())
                })?;
                Arc::clone(last)
            }
        };
        summary.add_scaled(&last.rest, 1.0);
        let memory = RowMemory::Frozen(Frozen { visits: visits + 1, last });
        Ok(Visited { memory, ..Visited::only(summary) })
    }
}
