//! Sparse EM (Neal and Hinton 1998): responsibilities are dense, but most laps renew only each row's largest.
//!
//! A full lap computes all responsibilities. In the laps that follow the largest of a row share anew the mass that they
//! had together, and the others stay frozen; every step raises the objective. What is frozen enters the statistics as
//! one summary a batch, so that nothing of it is kept row by row.

use std::sync::{Mutex, MutexGuard};

use serde::{Deserialize, Serialize};

use super::super::search::{NONE, Pairs};
use super::super::{Mixture, MixtureData, MixtureParams, Panel, Panels, respond};
use super::truncation::normalise;
use super::{Method, add_panel};
use crate::checkpoint::Sections;
use crate::data::{RowSource, Scalar};
use crate::error::Result;
use crate::responsibilities::Responsibilities;
use crate::summary::{ClusterSummary, Summary};

/// Training by sparse EM.
pub struct SparseEm {
    /// Visits of a batch from one full one to the next.
    refresh: usize,
    /// Smallest responsibility that is renewed.
    threshold: f64,
    memory: Mutex<Memory>,
}

/// What is kept of rows and batches.
#[derive(Default, Serialize, Deserialize)]
struct Memory {
    /// The clusters of each row that are renewed, L places a row.
    cluster: Vec<u32>,
    /// The mass they share.
    mass: Vec<f64>,
    /// For each batch the visits, and the statistics of what is frozen.
    batches: Vec<(usize, Option<ClusterSummary>)>,
}

const SECTION: &str = "sparse-em";

impl SparseEm {
    pub fn new(refresh: usize, threshold: f64) -> Self {
        SparseEm { refresh, threshold, memory: Mutex::default() }
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Split the dense responsibilities of a panel: those that will be renewed stay in it, the others are returned, with
    /// the entropy of both.
    fn split<T: Scalar>(
        &self,
        memory: &mut Memory,
        sparsity: usize,
        panel: &mut Panel<T>,
    ) -> (Responsibilities<T>, Vec<f64>, Vec<f64>) {
        let num = panel.resp.sparsity;
        let mut kept = Responsibilities::default();
        kept.resize(panel.rows.len(), sparsity);
        let (mut renewed, mut frozen) = (Vec::new(), Vec::new());
        for (n, &id) in panel.row_ids.iter().enumerate() {
            let list = &mut memory.cluster[id * sparsity..(id + 1) * sparsity];
            list.fill(NONE);
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
            memory.mass[id] = mass;
            renewed.push(entropy[0]);
            frozen.push(entropy[1]);
        }
        (std::mem::replace(&mut panel.resp, kept), renewed, frozen)
    }
}

impl<T: Scalar> Method<T> for SparseEm {
    fn begin_run(&self, _source: &dyn RowSource) {
        *self.memory() = Memory::default();
    }

    fn summarize(
        &self,
        mixture: &Mixture<T>,
        params: &MixtureParams<T>,
        data: &MixtureData<'_>,
        batch: usize,
        scratch: &mut Option<Panels<T>>,
    ) -> Result<ClusterSummary> {
        let mut memory = self.memory();
        let (sparsity, num_rows) = (mixture.sparsity, data.source.num_rows());
        if memory.mass.len() != num_rows {
            memory.mass = vec![0.0; num_rows];
            memory.cluster = vec![NONE; num_rows * sparsity];
            memory.batches = vec![(0, None); data.batches.num_batches()];
        }
        let empty = || mixture.likelihood.no_statistics(mixture.num_clusters);
        let (clusters, log_pi) = (params.clusters.as_ref(), &params.frequencies.log_pi);
        let mut summary = empty();
        let (visits, old) = std::mem::take(&mut memory.batches[batch]);
        let frozen = match old.filter(|_| !visits.is_multiple_of(self.refresh)) {
            None => {
                let mut frozen = empty();
                mixture.for_each_panel(data, batch, scratch, |panel| {
                    respond(clusters, log_pi, &panel.rows, mixture.num_clusters, &mut panel.resp)?;
                    let (rest, renewed_entropy, frozen_entropy) = self.split(&mut memory, sparsity, panel);
                    add_panel(mixture, panel, &renewed_entropy, &mut summary);
                    panel.resp = rest;
                    add_panel(mixture, panel, &frozen_entropy, &mut frozen);
                    Ok(())
                })?;
                frozen
            }
            Some(frozen) => {
                let log_pi: Vec<T> = log_pi.iter().map(|&v| T::from_f64(v)).collect();
                let mut pairs = Pairs::default();
                mixture.for_each_panel(data, batch, scratch, |panel| {
                    pairs.reset(panel.rows.len(), sparsity);
                    for (list, &id) in pairs.cluster.chunks_exact_mut(sparsity).zip(&panel.row_ids) {
                        list.copy_from_slice(&memory.cluster[id * sparsity..(id + 1) * sparsity]);
                    }
                    pairs.weigh(clusters, &log_pi, &panel.rows);
                    let mass: Vec<f64> = panel.row_ids.iter().map(|&id| memory.mass[id]).collect();
                    let entropy = normalise(&pairs, sparsity, &mass, &mut panel.resp)?;
                    add_panel(mixture, panel, &entropy, &mut summary);
                    Ok(())
                })?;
                frozen
            }
        };
        summary.add_scaled(&frozen, 1.0);
        memory.batches[batch] = (visits + 1, Some(frozen));
        Ok(summary)
    }

    fn sections(&self, sections: &mut Sections) {
        sections.put(SECTION, &*self.memory());
    }

    fn restore(&self, sections: &Sections) -> bool {
        sections.get(SECTION).map(|memory| *self.memory() = memory).is_some()
    }
}
