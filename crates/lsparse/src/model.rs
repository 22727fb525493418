//! What the training loop asks of a model: summarise a batch, take a global step, value the objective.

use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::summary::Summary;

/// The objective and its three terms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Objective {
    /// Data and the clusters' prior (and posterior).
    pub data: f64,
    /// Entropy of the responsibilities.
    pub entropy: f64,
    /// Assignments and the frequencies' prior (and posterior).
    pub alloc: f64,
}

impl Objective {
    /// The sum of the terms.
    pub fn total(&self) -> f64 {
        self.data + self.entropy + self.alloc
    }
}

/// A model that the training loop can fit to data of type `D`, which is dealt into batches.
pub trait Model<D: ?Sized>: Sync {
    /// Global parameters.
    type Params: Send + Sync;
    /// Additive statistics of a batch.
    type Summary: Summary;
    /// Buffers kept between batches.
    type Scratch: Default;

    /// Number of batches in the data.
    fn num_batches(&self, data: &D) -> usize;

    /// Share of the whole data's weight that a batch holds.
    fn batch_share(&self, data: &D, batch: usize) -> f64;

    /// Observations in a batch, for reports of speed.
    fn batch_len(&self, data: &D, batch: usize) -> usize;

    /// Local step and statistics of one batch. Pure: the same inputs give the same bits at any number of threads.
    fn summarize(
        &self,
        params: &Self::Params,
        data: &D,
        batch: usize,
        scratch: &mut Self::Scratch,
    ) -> Result<Self::Summary>;

    /// Statistics of a batch that nobody needs any more: a model may use their memory again.
    fn reuse(&self, _spent: Self::Summary, _scratch: &mut Self::Scratch) {}

    /// The best parameters for these statistics, replacing `previous`.
    fn global_step(&self, total: &Self::Summary, previous: Option<&Self::Params>) -> Result<Self::Params>;

    /// Bring `params` to the best for these statistics. A model that can do so in place, at the cost of what changed,
    /// provides its own.
    fn update(&self, params: &mut Self::Params, total: &Self::Summary) -> Result<()> {
        *params = self.global_step(total, Some(params))?;
        Ok(())
    }

    /// The objective of `params` that `global_step` made from `total`.
    fn objective(&self, params: &Self::Params, total: &Self::Summary) -> Objective;

    /// Statistics that are lent to clusters which have lost everything, for the lap that begins after `laps`: at its end
    /// the total is that of the data alone again, and what they have won is their own.
    fn lend(&self, _data: &D, _total: &Self::Summary, _laps: usize) -> Result<Option<Self::Summary>> {
        Ok(None)
    }

    /// What else there is to report of the lap that just ended, by name.
    fn lap_report(&self, _data: &D) -> Vec<(&'static str, f64)> {
        Vec::new()
    }
}
