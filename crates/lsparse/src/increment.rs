//! One more step on rows that were never seen before, which is how data that keeps coming is learned from.

use crate::clusters::{check_rows, working_element};
use crate::data::{Dealt, Element, RowSource, Scalar};
use crate::error::{Error, Result};
use crate::mixture::{MixtureModel, check_row_weights};
use crate::settings::{MixtureConfig, TopicsConfig};
use crate::topics::{TopicModel, check_counts};
use crate::training::model::{Model, Objective};
use crate::training::rules::TrainingRecord;
pub use crate::training::schedule::Increment;
use crate::training::schedule::OneStep;
use crate::training::session::Session;

/// A session of one step on the one batch of `data`, from a total that stands for rows of the weight `before`.
fn one_step<'a, M: Model>(
    model: M,
    data: Dealt<'a>,
    (params, total): (M::Params, M::Summary),
    how: Increment,
    before: f64,
) -> Result<(Session<'a, M>, Objective)> {
    how.check()?;
    let schedule = OneStep::new(how, before, data.total_weight());
    let mut session = Session::by(Box::new(schedule), model, data, params, total);
    let mut worker = session.worker();
    let step = session.step(&mut worker)?;
    let objective = session.objective();
    match objective.total().is_finite() {
        true => Ok((session, objective)),
        false => Err(Error::Diverged { step: step.step, value: objective.total() }),
    }
}

impl MixtureModel {
    /// The model after one step on rows that it has not seen, all of them as one batch.
    ///
    /// ```
    /// use lsparse::{MixtureConfig, data::MemoryRows, fit_mixture, increment::Increment};
    ///
    /// let rows = |shift: f64| -> Vec<f64> {
    ///     (0..200).map(|n| if n % 2 == 0 { 5.0 } else { -5.0 } + shift + (n % 7) as f64 * 0.1).collect()
    /// };
    /// let first = MemoryRows::new("first", 1, rows(0.0))?;
    /// let more = MemoryRows::new("more", 1, rows(0.2))?;
    /// let model = fit_mixture(&first, &MixtureConfig { clusters: 2, ..Default::default() })?.model;
    /// let model = model.update(&more, None, Increment::Add)?;
    /// assert_eq!(model.training.observations, 400);
    /// # Ok::<(), lsparse::Error>(())
    /// ```
    pub fn update(&self, source: &dyn RowSource, row_weights: Option<&[f64]>, how: Increment) -> Result<MixtureModel> {
        self.with_working_rows(source, |rows| match working_element(self.config.precision, rows) {
            Element::F32 => self.update_as::<f32>(rows, row_weights, how),
            Element::F64 => self.update_as::<f64>(rows, row_weights, how),
        })
    }

    fn update_as<T: Scalar>(
        &self,
        source: &dyn RowSource,
        row_weights: Option<&[f64]>,
        how: Increment,
    ) -> Result<MixtureModel> {
        if self.config.method.has_centres_alone() {
            let problem = "centres alone have no step on new rows".into();
            return Err(Error::Config { setting: "method", problem, remedy: "train again with all rows".into() });
        }
        let mixture = self.mixture::<T>();
        check_rows(mixture.likelihood.as_ref(), self.config.missing, source)?;
        check_row_weights(source, row_weights)?;
        let data = Dealt::in_order(source)?.weighted(row_weights);
        let state = (self.params_of(&mixture)?, self.total.clone());
        let (session, objective) = one_step(mixture, data, state, how, self.total.total_weight())?;
        let params = session.params();
        let mut arrays = params.clusters.arrays();
        self.units.iter().for_each(|units| units.undo_arrays(&mut arrays));
        Ok(MixtureModel {
            config: MixtureConfig { schedule: how.schedule(), ..self.config.clone() },
            training: record_after(&self.training, source.num_rows(), &objective),
            weights: params.frequencies.pi.clone(),
            arrays,
            total: session.total().clone(),
            ..self.clone()
        })
    }
}

impl TopicModel {
    /// The model after one step on documents that it has not seen, all of them as one batch.
    pub fn update(&self, source: &dyn RowSource, how: Increment) -> Result<TopicModel> {
        self.check_vocab(source)?;
        check_counts(source, false)?;
        let topics = self.topics();
        let mut params = topics.global_step(&self.total, None)?;
        params.alpha.clone_from(&self.alpha);
        let state = (params, self.total.clone());
        let (session, objective) = one_step(topics, Dealt::in_order(source)?, state, how, self.total.documents)?;
        Ok(TopicModel {
            config: TopicsConfig { schedule: how.schedule(), ..self.config.clone() },
            training: record_after(&self.training, source.num_rows(), &objective),
            vocab: self.vocab.clone(),
            tokenizer: self.tokenizer.clone(),
            alpha: session.params().alpha.clone(),
            table: session.model().point_topics(session.total()),
            total: session.total().clone(),
            pull: self.pull.clone(),
        })
    }
}

/// The record of a training that went one step on over `rows` new rows.
fn record_after(record: &TrainingRecord, rows: usize, objective: &Objective) -> TrainingRecord {
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
    use crate::data::CsrRows;
    use crate::likelihood::ClusterSummary;
    use crate::topics::fit_topics;

    #[test]
    fn blending_keeps_the_scale_of_the_population() {
        let one = |count: f64| ClusterSummary {
            counts: vec![count],
            stats: vec![count],
            width: 1,
            entropy: 0.0,
            trial: None,
        };
        let mut total = one(50.0);
        Increment::Blend { rate: 0.25, population: 1000.0 }.fold(&mut total, 50.0, &one(20.0), 20.0);
        assert!((total.counts[0] - 1000.0).abs() < 1e-9);
        Increment::Add.fold(&mut total, 1000.0, &one(20.0), 20.0);
        assert!((total.counts[0] - 1020.0).abs() < 1e-9);
        assert!(Increment::Blend { rate: 0.0, population: 1.0 }.check().is_err());
        assert!(Increment::Blend { rate: 0.5, population: f64::NAN }.check().is_err());
    }

    fn documents(count: usize) -> CsrRows<f32> {
        let words: Vec<u32> = (0..count).flat_map(|d| if d % 2 == 0 { [0, 1] } else { [2, 3] }).collect();
        let indptr = (0..=count).map(|d| 2 * d).collect();
        CsrRows::new("two subjects", 4, indptr, words, vec![5.0; 2 * count]).unwrap()
    }

    #[test]
    fn documents_are_added_or_blended_in() {
        let config = TopicsConfig { topics: 2, ..Default::default() };
        let model = fit_topics(&documents(40), &config).unwrap().model;
        let added = model.update(&documents(10), Increment::Add).unwrap();
        assert_eq!((added.training.observations, added.total.documents), (50, 50.0));
        assert!((added.total.counts.iter().sum::<f64>() - 500.0).abs() < 1e-3);
        assert_eq!(added.config.schedule, crate::ScheduleKind::Streaming);
        let blend = Increment::Blend { rate: 0.5, population: 1000.0 };
        let blended = added.update(&documents(10), blend).unwrap();
        assert!((blended.total.documents - 1000.0).abs() < 1e-9);
        assert!((blended.total.counts.iter().sum::<f64>() - 10_000.0).abs() < 0.1);
    }
}
