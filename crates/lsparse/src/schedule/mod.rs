//! When a batch is visited and how its statistics enter the total. A schedule knows summaries, not models.

mod memoized;
mod memos;
mod stochastic;

use std::fs::File;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::error::Result;

pub use memoized::{Memoized, MemoizedState};
pub use memos::{Extent, Kept, Memo, MemoPlace, Memos};
pub use stochastic::{Stochastic, StochasticState};

/// The schedules that a configuration can name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ScheduleKind {
    /// All rows, then a global step: memoized with one batch.
    Full,
    /// A global step after each batch, with exact totals: each batch's statistics are remembered and replaced.
    Memoized,
    /// A natural-gradient step after each batch drawn at random, with a decaying rate.
    Stochastic,
    /// One pass, nothing remembered: the first lap of the memoized schedule.
    Streaming,
}

/// Decides which batch comes next, and folds its statistics into the total.
pub trait Schedule<S> {
    /// The batch to visit now.
    fn next_batch(&mut self) -> usize;

    /// Bring the statistics `fresh` of `batch` into `total`. Says whether that ended a lap.
    fn fold(&mut self, total: &mut S, batch: usize, fresh: S) -> Result<bool>;

    /// Take what the batch to be visited now gave at its last visit out of `total`, where the schedule leaves batches
    /// out: its observations are then worked out under parameters that have not seen them. Says whether `total` changed;
    /// `fold` puts the fresh statistics in the place of those taken out.
    fn take_out_next(&mut self, _total: &mut S) -> Result<bool> {
        Ok(false)
    }

    /// Whether a lap after the first begins, at whose end the total will be made anew from what batches gave: until then
    /// clusters may be lent statistics.
    fn may_lend(&self) -> bool {
        false
    }

    /// Whether the batch to be visited now is taken out of the total.
    fn is_out(&self) -> bool {
        false
    }

    /// The sum of all batches, where one is taken out of `total`.
    fn whole(&self, _total: &S) -> Result<Option<S>> {
        Ok(None)
    }

    /// The total is that of all batches again.
    fn is_whole(&mut self) {}

    /// Statistics that the last `fold` had no more use for, where it has any: their memory may be used again.
    fn spent(&mut self) -> Option<S> {
        None
    }

    /// Take a batch out for good: `total` becomes the sum of all others, and the batch is not visited again.
    fn remove_batch(&mut self, total: &mut S, batch: usize) -> Result<()>;

    /// What a later run needs to go on from here, to be written to a checkpoint.
    fn snapshot(&mut self) -> Snapshot<S>;

    /// The checkpoint with the last snapshot is on disk.
    fn snapshot_is_safe(&mut self) {}
}

/// A schedule at rest.
#[derive(Serialize, Deserialize)]
pub enum ScheduleState<S> {
    /// Full, memoized or streaming.
    Memoized(MemoizedState<S>),
    /// Stochastic.
    Stochastic(StochasticState),
}

/// A schedule at rest, and the file that it refers to.
pub struct Snapshot<S> {
    /// Everything but what is in the file.
    pub state: ScheduleState<S>,
    /// To be flushed to the disk before the snapshot is worth anything.
    pub file: Option<Arc<File>>,
}
