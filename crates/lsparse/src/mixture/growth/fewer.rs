//! Fewer clusters of a model that is trained: which could be merged or given up, what each change gains, and the model
//! without them. Passes over the rows until nothing more can go, and no training.

use std::sync::Arc;

use super::{Finding, Growth, GrowthState, Judge};
use crate::clusters::{check_rows, working_element};
use crate::data::{Dealt, Element, RowSource, Scalar};
use crate::error::{Error, Result};
use crate::likelihood::{ClusterSummary, Estimate};
use crate::mixture::MixtureModel;
use crate::settings::{History, Sparsity};
use crate::training::model::Model;
use crate::training::moves::{Fewer, Suggestion};
use crate::training::schedule::ScheduleKind;

/// A model whose statistics weigh more or less than its rows by this share was trained with weights.
const WEIGHTLESS: f64 = 1e-3;

impl MixtureModel {
    /// Which clusters could be merged or given up, by the rows of `source`; those that the model was trained on are best.
    ///
    /// ```
    /// use lsparse::{MixtureConfig, data::MemoryRows, fit_mixture};
    ///
    /// let rows: Vec<f64> = (0..200).map(|n| if n % 2 == 0 { 5.0 } else { -5.0 } + (n % 7) as f64 * 0.1).collect();
    /// let source = MemoryRows::new("two groups", 1, rows)?;
    /// let model = fit_mixture(&source, &MixtureConfig { clusters: 5, ..Default::default() })?.model;
    /// let fewer = model.fewer(&source)?;
    /// assert_eq!(fewer.model.num_clusters(), 5 - fewer.made.len());
    /// # Ok::<(), lsparse::Error>(())
    /// ```
    pub fn fewer(&self, source: &dyn RowSource) -> Result<Fewer<MixtureModel>> {
        let refuse = |setting, problem: &str, remedy: &str| {
            Err(Error::Config { setting, problem: problem.into(), remedy: remedy.into() })
        };
        if self.config.estimate != Estimate::Posterior || self.config.method.has_centres_alone() {
            let problem = "a point estimate loses with every cluster that goes, whatever it is worth";
            return refuse("estimate", problem, "train with vb");
        }
        let (weight, rows) = (self.total.total_weight(), self.training.observations as f64);
        if (weight - rows).abs() > WEIGHTLESS * rows {
            let problem = "the model was trained with weights of rows, and rows are compared as they are";
            return refuse("row-weights", problem, "find K with the weights (`find-k`), or train without them");
        }
        self.with_working_rows(source, |rows| match working_element(self.config.precision, rows) {
            Element::F32 => self.fewer_as::<f32>(rows),
            Element::F64 => self.fewer_as::<f64>(rows),
        })
    }

    fn fewer_as<T: Scalar>(&self, source: &dyn RowSource) -> Result<Fewer<MixtureModel>> {
        let mut mixture = self.mixture::<T>();
        check_rows(mixture.likelihood.as_ref(), self.config.missing, source)?;
        mixture.finding = Some(Finding::new(0, mixture.sparsity, 0));
        let data = Dealt::in_order(source)?;
        let (mut params, mut worker) = (self.params_of(&mixture)?, mixture.worker());
        let mut ids: Vec<u64> = (0..mixture.num_clusters as u64).collect();
        let (mut suggestions, mut made, mut first) = (None, Vec::new(), None);
        // With some gone others may go: until a pass over the rows finds nothing more.
        let total = loop {
            let num = mixture.num_clusters;
            let mut state = GrowthState::begin(num);
            if mixture.sparsity > 1 && num > 1 {
                state.leaving = (0..num as u32).collect();
            }
            params.growth = Some(Arc::new(Growth::of(state, mixture.likelihood.as_ref())?));
            let total = mixture.local(&params, &data.batch(0), &Default::default(), &mut worker)?.summary;
            let Some(trial) = total.trial.as_deref() else {
                return Err(Error::Exchange { what: "statistics of what clusters might be" });
            };
            let mut judge = Judge::new(&mixture, &total, trial);
            judge.consider(Some(&[]))?;
            if suggestions.is_none() {
                suggestions = Some(judge.gains()?);
                first = Some(mixture.objective(&mixture.global_step(&total, None)?, &total).total());
            }
            judge.accept(0)?;
            let (plan, moves) = judge.finish(&mut ids, &mut 0);
            if moves.is_empty() {
                break total;
            }
            made.extend(moves);
            let total = total.remapped(&plan);
            mixture.resize(total.num_clusters());
            params = mixture.global_step(&total, None)?;
        };
        let suggestions = Suggestion::best_first(suggestions.into_iter().flatten());
        let total = ClusterSummary { trial: None, ..total };
        let params = mixture.global_step(&total, None)?;
        let mut model = self.clone();
        model.config.clusters = total.num_clusters();
        model.config.sparsity = Sparsity::Of(mixture.sparsity);
        model.weights = params.frequencies.pi.clone();
        model.arrays = params.clusters.arrays();
        self.units.iter().for_each(|units| units.undo_arrays(&mut model.arrays));
        let objective = mixture.objective(&params, &total);
        model.training.objective = objective.total();
        (model.training.objective_data, model.training.objective_entropy) = (objective.data, objective.entropy);
        model.training.objective_alloc = objective.alloc;
        model.training.observations = source.num_rows();
        model.training.note_merged(self.num_clusters(), total.num_clusters(), &made);
        model.total = total;
        // Other schedules end with an estimate of the objective, and statistics that stay are not of these rows alone.
        let of_rows = matches!(self.config.schedule, ScheduleKind::Full | ScheduleKind::Memoized)
            && self.config.history == History::Replace;
        Ok(Fewer { suggestions, made, objective: first.filter(|_| of_rows), model })
    }
}
