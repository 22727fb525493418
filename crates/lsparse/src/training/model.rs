//! What training asks of a model: visit a batch, take a global step, value the objective.

use std::sync::Arc;
use std::time::Instant;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::data::{Batch, Dealt};
use crate::error::Result;
use crate::training::moves::Changes;
use crate::training::schedule::Kept;
use crate::training::summary::Summary;

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

/// What visits did, added up over a lap: for reports, and never for results.
pub trait Tally: Clone + Default + Send + Sync + Serialize + DeserializeOwned + 'static {
    /// Add what another visit did.
    fn add(&mut self, other: &Self);

    /// Seconds of computing that went to looking at proposals, where K is to be found.
    fn aside_seconds(&self) -> f64 {
        0.0
    }
}

/// What a visit of a batch leaves behind.
#[derive(Serialize, Deserialize)]
#[serde(bound = "")]
pub struct Visited<M: Model + ?Sized> {
    /// Its statistics.
    pub summary: M::Summary,
    /// What the batch remembers until its next visit.
    pub memory: M::Memory,
    /// What was found beyond statistics that parameters take up.
    pub found: M::Found,
    /// What was done.
    pub tally: M::Tally,
}

impl<M: Model> Visited<M> {
    /// Statistics, and nothing besides.
    pub fn only(summary: M::Summary) -> Self {
        let (memory, found, tally) = Default::default();
        Visited { summary, memory, found, tally }
    }
}

/// A model that can be trained on rows dealt into batches.
///
/// Nothing of a run is kept in a model: what the whole has learned is in the parameters, what rows remember in the
/// memories of their batches.
pub trait Model: Send + Sync + 'static {
    /// Global parameters.
    type Params: Send + Sync;
    /// What of the parameters the statistics do not give. Both together are parameters as bytes.
    type Carried: Clone + Send + Sync + Serialize + DeserializeOwned + 'static;
    /// Additive statistics of a batch.
    type Summary: Summary;
    /// What a batch carries from visit to visit: kept clusters, warm counts.
    type Memory: Kept + Default + Send + Sync + 'static;
    /// What a visit finds beyond statistics that parameters take up.
    type Found: Clone + Default + Send + Sync + Serialize + DeserializeOwned + 'static;
    /// What visits did.
    type Tally: Tally;
    /// Buffers of whoever does the work, which no result depends on.
    type Worker: Send;

    /// Buffers for this model.
    fn worker(&self) -> Self::Worker;

    /// Global steps that are not done by then, and would take long, are to end in an error.
    fn set_deadline(&mut self, _until: Option<Instant>) {}

    /// Local step and statistics of one batch. Pure: the same parameters, rows and memory give the same statistics,
    /// memory and findings bit for bit, at any number of threads and whatever the worker did before.
    fn local(
        &self,
        params: &Self::Params,
        batch: &Batch<'_>,
        memory: &Self::Memory,
        worker: &mut Self::Worker,
    ) -> Result<Visited<Self>>;

    /// Statistics of a batch that nobody needs any more: a worker may use their memory again.
    fn reuse(&self, _spent: Self::Summary, _worker: &mut Self::Worker) {}

    /// Take up what a visit found beyond statistics, in the order of visits.
    fn take_up(&self, _params: &mut Self::Params, _batch: usize, _visited: &Visited<Self>) {}

    /// A lap is over.
    fn end_lap(&self, _params: &mut Self::Params) {}

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

    /// What of these parameters the statistics do not give.
    fn carried(&self, params: &Self::Params) -> Self::Carried;

    /// The parameters of these statistics that gave this; none if it is not of this model. What of the model came from
    /// where its run started comes back too.
    fn restore(&mut self, total: &Self::Summary, carried: Self::Carried) -> Result<Option<Self::Params>>;

    /// Statistics that are lent to clusters which have lost everything, for the lap that begins after `laps`: at its end
    /// the total is that of the data alone again, and what they have won is their own.
    fn lend(
        &self,
        _data: &Dealt<'_>,
        _memory: &dyn Fn(usize) -> Result<Arc<Self::Memory>>,
        _total: &Self::Summary,
        _laps: usize,
    ) -> Result<Option<Self::Summary>> {
        Ok(None)
    }

    /// At the end of a lap: the changes of the number of clusters that raise the objective of `total`, the sum of what is
    /// remembered of batches (`memo`). The model has the
    /// new number from then on; parameters say in what they carry what is to be tried next, and are otherwise made anew
    /// from statistics that were brought forward by the plan.
    fn moves(
        &mut self,
        _params: &mut Self::Params,
        _total: &Self::Summary,
        _memo: &dyn Fn(usize) -> Result<Option<Arc<Self::Summary>>>,
        _data: &Dealt<'_>,
        _laps: usize,
    ) -> Result<Option<Changes>> {
        Ok(None)
    }

    /// Whether each visit needs what the one before found, so that batches are handed out one after the other.
    fn is_a_chain(&self) -> bool {
        false
    }

    /// Refuse where a batch cannot be taken out of what was learned.
    fn check_forget(&self) -> Result<()> {
        Ok(())
    }

    /// Whether memories grow with what a row keeps, so that they are to share the room for statistics.
    fn keeps_rows(&self) -> bool {
        false
    }

    /// What else there is to report of a lap, by name.
    fn report(&self, _params: &Self::Params, _tally: &Self::Tally) -> Vec<(&'static str, f64)> {
        Vec::new()
    }
}
