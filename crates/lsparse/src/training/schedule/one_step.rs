//! One step on rows that were never seen before: they are added to the total, or blended into it.

use serde::{Deserialize, Serialize};

use super::{Schedule, ScheduleKind, ScheduleState, Snapshot};
use crate::error::{Error, Result};
use crate::training::moves::Remap;
use crate::training::summary::Summary;

/// How the statistics of new rows enter the total.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Increment {
    /// They are added: every row counts once and for ever, as in streaming.
    Add,
    /// total = (1 - rate) total + rate fresh, both on the scale of `population` rows: older rows fade, as in
    /// stochastic training.
    Blend {
        /// rho, above 0 and at most 1.
        rate: f64,
        /// Rows (or their weight) that the total stands for.
        population: f64,
    },
}

impl Increment {
    /// The schedule that such steps are those of.
    pub fn schedule(&self) -> ScheduleKind {
        match self {
            Increment::Add => ScheduleKind::Streaming,
            Increment::Blend { .. } => ScheduleKind::Stochastic,
        }
    }

    /// Bring `fresh` statistics of `weight` rows into a total that stands for `before` rows.
    pub fn fold<S: Summary>(&self, total: &mut S, before: f64, fresh: &S, weight: f64) {
        match *self {
            Increment::Add => total.add_scaled(fresh, 1.0),
            // Rows without weight teach nothing.
            Increment::Blend { .. } if weight <= 0.0 => {}
            Increment::Blend { rate, population } => {
                total.scale((1.0 - rate) * population / before.max(f64::MIN_POSITIVE));
                total.add_scaled(fresh, rate * population / weight);
            }
        }
    }

    pub(crate) fn check(&self) -> Result<()> {
        match *self {
            Increment::Blend { rate, .. } if !(rate > 0.0 && rate <= 1.0) => Err(Error::Config {
                setting: "rate",
                problem: format!("{rate} is not above 0 and at most 1"),
                remedy: "0.1 is a good start".into(),
            }),
            Increment::Blend { population, .. } if !(population > 0.0 && population.is_finite()) => {
                Err(Error::Config {
                    setting: "population",
                    problem: format!("{population} is not above 0"),
                    remedy: "give the number of rows that there will be".into(),
                })
            }
            _ => Ok(()),
        }
    }
}

/// The schedule of one step on rows that were never seen before.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct OneStep {
    how: Increment,
    /// The weights of the rows of the total and of the batch.
    before: f64,
    weight: f64,
    done: bool,
}

impl OneStep {
    /// A step on rows of this `weight`, from a total that stands for rows of the weight `before`.
    pub fn new(how: Increment, before: f64, weight: f64) -> Self {
        OneStep { how, before, weight, done: false }
    }
}

impl<S: Summary> Schedule<S> for OneStep {
    fn next_batch(&mut self, ahead: usize) -> Option<usize> {
        (ahead == 0 && !self.done).then_some(0)
    }

    fn place(&self) -> (usize, usize) {
        (0, 1)
    }

    fn fold(&mut self, total: &mut S, _batch: usize, fresh: S) -> Result<bool> {
        self.how.fold(total, self.before, &fresh, self.weight);
        self.done = true;
        Ok(true)
    }

    fn remap(&mut self, total: &mut S, plan: &Remap) -> Result<()> {
        total.remap(plan);
        Ok(())
    }

    fn remove_batch(&mut self, _total: &mut S, _batch: usize) -> Result<bool> {
        Err(Error::Config {
            setting: "forget-batch",
            problem: "new rows that were added are not remembered".into(),
            remedy: "go on from the model before them".into(),
        })
    }

    fn snapshot(&mut self) -> Snapshot<S> {
        Snapshot { state: ScheduleState::OneStep(*self), file: None }
    }
}
