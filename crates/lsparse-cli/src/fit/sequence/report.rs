//! What a training of a hidden Markov model came to, for people and as JSON.

use std::fmt;
use std::path::Path;

use lsparse::training::rules::count_empty;
use lsparse::{Fitted, SequenceConfig, SequenceModel};
use serde::Serialize;

use super::super::report::TrainingReport;
use crate::format::significant;

#[derive(Serialize)]
pub struct Report {
    #[serde(flatten)]
    training: TrainingReport,
    rows: usize,
    sequences: usize,
    dim: usize,
    states: usize,
    sparsity: usize,
    empty_states: usize,
    /// Transitions that were ever taken.
    transitions: usize,
    objective_per_row: f64,
    rows_per_second: f64,
    /// Share of a step that the L states which it keeps leave out, in the last lap.
    #[serde(skip_serializing_if = "Option::is_none")]
    lost_share: Option<f64>,
    config: SequenceConfig,
}

impl Report {
    pub fn new(fitted: &Fitted<SequenceModel>, sequences: usize, out: Option<&Path>) -> Self {
        let (model, outcome) = (&fitted.model, &fitted.outcome);
        let training = TrainingReport::new(&model.training, outcome, fitted.run, &fitted.runs, out);
        Report {
            training: training.calling_clusters("state"),
            rows: model.training.observations,
            sequences,
            dim: model.dim(),
            states: model.num_states(),
            sparsity: model.sparsity(),
            empty_states: count_empty(&model.total.clusters.counts),
            transitions: model.total.chain.to.len(),
            objective_per_row: outcome.objective.total() / model.training.observations.max(1) as f64,
            rows_per_second: outcome.rows_per_second,
            lost_share: outcome.recent.last().and_then(|lap| lap.get("lost_share")),
            config: model.config.clone(),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.training.write_head(f)?;
        writeln!(f, "            {} a step", significant(self.objective_per_row, 6))?;
        if let Some(score) = self.training.heldout {
            writeln!(f, "held-out    {} a step (mean log likelihood)", significant(score, 8))?;
        }
        self.training.write_runs(f, self.config.best_by, false)?;
        writeln!(f, "states      {}, of which {} empty", self.states, self.empty_states)?;
        writeln!(f, "transitions {} of {} pairs", self.transitions, self.states * self.states)?;
        if let Some(lost) = self.lost_share {
            writeln!(f, "left out    {} % of a step by L = {}", significant(100.0 * lost, 3), self.sparsity)?;
        }
        self.training.write_tail(f, self.rows_per_second, self.rows, "steps")
    }
}
