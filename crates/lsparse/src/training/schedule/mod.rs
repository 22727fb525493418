//! When a batch is visited and how its statistics enter the total. A schedule knows summaries, not models.

mod memoized;
mod memos;
mod one_step;
mod stochastic;

use std::fs::File;
use std::sync::Arc;

use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use crate::choice::choices;
use crate::error::{Error, Result};
use crate::training::moves::Remap;
use crate::training::summary::Summary;

pub use memoized::{Memoized, MemoizedState};
pub(crate) use memos::remove_orphan;
pub use memos::{Extent, Kept, Memo, MemoPlace, Memos};
pub use one_step::{Increment, OneStep};
pub use stochastic::{Stochastic, StochasticState};

choices! {
    /// The schedules that settings can name.
    pub enum ScheduleKind {
        /// After all of the data: memoized with one batch.
        Full = "full",
        /// After every batch, replacing what the batch gave before, so that totals are exact.
        Memoized = "memoized",
        /// After every batch drawn at random, at a falling rate (natural gradients).
        Stochastic = "stochastic",
        /// After every batch, in one pass, with nothing remembered.
        Streaming = "streaming",
    }
}

/// Decides which batch comes next, and folds its statistics into the total.
pub trait Schedule<S>: Send + Sync {
    /// The batch to visit when those `ahead` of it are folded in; none while that is not known.
    fn next_batch(&mut self, ahead: usize) -> Option<usize>;

    /// How many batches of this lap are folded in, and how many a lap has.
    fn place(&self) -> (usize, usize);

    /// Bring the statistics `fresh` of `batch` into `total`. Says whether that ended a lap.
    fn fold(&mut self, total: &mut S, batch: usize, fresh: S) -> Result<bool>;

    /// Take what the batches to be visited now, at most so many, gave at their last visit out of `total`, where the
    /// schedule leaves batches out: their observations are then worked out under parameters that have not seen them.
    /// Says whether `total` changed; `fold` puts the fresh statistics in the place of those taken out.
    fn take_out_next(&mut self, _total: &mut S, _most: usize) -> Result<bool> {
        Ok(false)
    }

    /// Whether a lap after the first begins, at whose end the total will be made anew from what batches gave: until then
    /// clusters may be lent statistics.
    fn may_lend(&self) -> bool {
        false
    }

    /// How many batches may be handed out at one time: any number, but where batches are left out of what they are worked
    /// out under `most`, and fewer lest too little be left.
    fn at_once(&self, _most: usize) -> usize {
        usize::MAX
    }

    /// Whether this batch can be worked out under the present total: where batches are left out it must not be in it.
    fn is_ready(&self, _batch: usize) -> bool {
        true
    }

    /// Whether batches to be visited now are taken out of the total.
    fn is_out(&self) -> bool {
        false
    }

    /// The sum of all batches, where some are taken out of `total`.
    fn whole(&self, _total: &S) -> Result<Option<S>> {
        Ok(None)
    }

    /// The total is that of all batches again.
    fn is_whole(&mut self) {}

    /// Statistics that the last `fold` had no more use for, where it has any: their memory may be used again.
    fn spent(&mut self) -> Option<S> {
        None
    }

    /// The statistics remembered for a batch, where there are any.
    fn remembered(&self, _batch: usize) -> Result<Option<Arc<S>>> {
        Ok(None)
    }

    /// Bring `total` and what is remembered of batches forward to other clusters, at the end of a lap.
    fn remap(&mut self, total: &mut S, plan: &Remap) -> Result<()>;

    /// Take a batch out for good: `total` becomes the sum of all others, and the batch is not visited again. Says whether
    /// that ended a lap, as it does where no other was left to be visited.
    fn remove_batch(&mut self, total: &mut S, batch: usize) -> Result<bool>;

    /// What a later run needs to go on from here, to be written to a checkpoint.
    fn snapshot(&mut self) -> Snapshot<S>;

    /// The checkpoint with the last snapshot is on disk.
    fn snapshot_is_safe(&mut self) {}

    /// Why something is remembered in memory that belongs into a file, if that has come to pass since this was asked last.
    fn take_trouble(&mut self) -> Option<Error> {
        None
    }
}

/// When batches enter the total, as settings say it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pace {
    /// The schedule.
    pub schedule: ScheduleKind,
    /// delta of the stochastic rate.
    pub delay: f64,
    /// kappa of the stochastic rate.
    pub decay: f64,
    /// Whether memoized batches are taken out of the total before they are visited.
    pub leave_out: bool,
}

impl Pace {
    /// Whether batches are remembered, not only their sum.
    fn remembers(&self) -> bool {
        self.schedule != ScheduleKind::Streaming
    }

    /// A schedule that begins with statistics of other data, which stay in the total for good, or with statistics that
    /// the batches take the place of.
    pub fn begin<S: Summary>(
        &self,
        shares: Vec<f64>,
        first: &S,
        stays: bool,
        rng: ChaCha8Rng,
        place: MemoPlace,
    ) -> Box<dyn Schedule<S>> {
        if self.schedule == ScheduleKind::Stochastic {
            return Box::new(Stochastic::new(shares, self.delay, self.decay, rng));
        }
        let begin = if stays { Memoized::on_top_of } else { Memoized::new };
        let schedule = begin(shares, first.clone(), self.remembers(), rng);
        Box::new(schedule.remember_in(place).leaving_out(self.leave_out))
    }

    /// A schedule that was at rest.
    pub fn restore<S: Summary>(
        &self,
        shares: Vec<f64>,
        state: ScheduleState<S>,
        place: MemoPlace,
    ) -> Result<Box<dyn Schedule<S>>> {
        Ok(match state {
            ScheduleState::Memoized(state) => {
                Box::new(Memoized::restore(shares, self.remembers(), state, place)?.leaving_out(self.leave_out))
            }
            ScheduleState::Stochastic(state) => Box::new(Stochastic::restore(shares, self.delay, self.decay, state)),
            ScheduleState::OneStep(schedule) => Box::new(schedule),
        })
    }
}

/// A schedule at rest.
#[derive(Clone, Serialize, Deserialize)]
pub enum ScheduleState<S> {
    /// Full, memoized or streaming.
    Memoized(MemoizedState<S>),
    /// Stochastic.
    Stochastic(StochasticState),
    /// One step on new rows.
    OneStep(OneStep),
}

/// A schedule at rest, and the file that it refers to.
pub struct Snapshot<S> {
    /// Everything but what is in the file.
    pub state: ScheduleState<S>,
    /// To be flushed to the disk before the snapshot is worth anything.
    pub file: Option<Arc<File>>,
}
