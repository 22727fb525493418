//! When a batch is visited and how its statistics enter the total. A schedule knows summaries, not models.

mod memoized;
mod stochastic;

use serde::{Deserialize, Serialize};

pub use memoized::Memoized;
pub use stochastic::Stochastic;

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
    fn fold(&mut self, total: &mut S, batch: usize, fresh: S) -> bool;
}
