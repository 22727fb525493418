//! One more step on rows that were never seen before, which is how data that keeps coming is learned from.

use crate::error::{Error, Result};
use crate::fit::TrainingRecord;
use crate::model::{Model, Objective};
use crate::schedule::ScheduleKind;
use crate::summary::Summary;

/// How the statistics of new rows enter the total.
#[derive(Clone, Copy, Debug, PartialEq)]
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

    fn check(&self) -> Result<()> {
        match *self {
            Increment::Blend { rate, .. } if !(rate > 0.0 && rate <= 1.0) => Err(Error::Config {
                option: "rate",
                problem: format!("{rate} is not above 0 and at most 1"),
                remedy: "0.1 is a good start".into(),
            }),
            Increment::Blend { population, .. } if !(population > 0.0 && population.is_finite()) => {
                Err(Error::Config {
                    option: "population",
                    problem: format!("{population} is not above 0"),
                    remedy: "give the number of rows that there will be".into(),
                })
            }
            _ => Ok(()),
        }
    }
}

/// Parameters and total after a step on the one batch of `data`; `before` and `weight` are the weights of the rows of
/// the total and of the batch.
pub(crate) fn advance<D: ?Sized, M: Model<D>>(
    model: &M,
    data: &D,
    params: &M::Params,
    mut total: M::Summary,
    how: Increment,
    (before, weight): (f64, f64),
) -> Result<(M::Params, M::Summary, Objective)> {
    how.check()?;
    let fresh = model.summarize(params, data, 0, &mut M::Scratch::default())?;
    how.fold(&mut total, before, &fresh, weight);
    let params = model.global_step(&total, Some(params))?;
    let objective = model.objective(&params, &total);
    if !objective.total().is_finite() {
        return Err(Error::Diverged { step: 1, value: objective.total() });
    }
    Ok((params, total, objective))
}

/// The record of a training that went one step on over `rows` new rows.
pub(crate) fn record_after(record: &TrainingRecord, rows: usize, objective: &Objective) -> TrainingRecord {
    TrainingRecord {
        observations: record.observations + rows,
        laps: record.laps + 1,
        steps: record.steps + 1,
        objective: objective.total(),
        objective_data: objective.data,
        objective_entropy: objective.entropy,
        objective_alloc: objective.alloc,
        ..record.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::ClusterSummary;

    #[test]
    fn blending_keeps_the_scale_of_the_population() {
        let one = |count: f64| ClusterSummary { counts: vec![count], stats: vec![count], width: 1, entropy: 0.0 };
        let mut total = one(50.0);
        Increment::Blend { rate: 0.25, population: 1000.0 }.fold(&mut total, 50.0, &one(20.0), 20.0);
        assert!((total.counts[0] - 1000.0).abs() < 1e-9);
        Increment::Add.fold(&mut total, 1000.0, &one(20.0), 20.0);
        assert!((total.counts[0] - 1020.0).abs() < 1e-9);
        assert!(Increment::Blend { rate: 0.0, population: 1.0 }.check().is_err());
        assert!(Increment::Blend { rate: 0.5, population: f64::NAN }.check().is_err());
    }
}
