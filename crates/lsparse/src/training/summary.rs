//! The additive statistics of a batch: the only thing that crosses from the local step to schedules and global step.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::training::moves::Remap;

/// Statistics that can be added, subtracted and scaled, so that schedules need to know nothing about models.
pub trait Summary: Clone + Send + Sync + Serialize + DeserializeOwned + 'static {
    /// `self += factor * other`.
    fn add_scaled(&mut self, other: &Self, factor: f64);
    /// `self += factor * other` for several, in this order: what statistics that are costly to go through may do at once,
    /// to the same bits.
    fn add_all(&mut self, others: &[(&Self, f64)]) {
        others.iter().for_each(|(other, factor)| self.add_scaled(other, *factor));
    }
    /// Their sum in the place of what there was.
    fn set_to_sum(&mut self, others: &[(&Self, f64)]) {
        self.scale(0.0);
        self.add_all(others);
    }
    /// `self *= factor`.
    fn scale(&mut self, factor: f64);
    /// Expected number of observations in each cluster or topic, N_k.
    fn counts(&self) -> &[f64];
    /// The bound on the log likelihood of the observations under the very parameters that they were summarised under,
    /// where it is known. Of a batch alone: a sum over batches would mix parameters.
    fn evidence(&self) -> Option<f64> {
        None
    }
    /// The statistics of other clusters, each the sum of parts of those there are. Of models whose number of clusters is
    /// fixed nobody asks it.
    fn remap(&mut self, _plan: &Remap) {}
    /// Bytes of memory held.
    fn resident_bytes(&self) -> usize;
}
