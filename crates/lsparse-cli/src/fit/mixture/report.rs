//! What is said when a mixture is trained, to people and to programs.

use std::fmt;
use std::path::Path;

use lsparse::fit::count_empty;
use lsparse::{Fitted, MixtureConfig};
use serde::Serialize;

use super::super::report::TrainingReport;
use crate::format::significant;

/// How a training went.
#[derive(Serialize)]
pub struct Report {
    #[serde(flatten)]
    training: TrainingReport,
    rows: usize,
    dim: usize,
    clusters: usize,
    sparsity: usize,
    empty_clusters: usize,
    rows_per_second: f64,
    config: MixtureConfig,
}

impl Report {
    pub fn new(fitted: &Fitted, out: Option<&Path>) -> Self {
        let (model, outcome) = (&fitted.model, &fitted.outcome);
        Report {
            training: TrainingReport::new(&model.training, outcome, fitted.run, &fitted.runs, out),
            rows: model.training.observations,
            dim: model.dim(),
            clusters: model.num_clusters(),
            sparsity: model.config.sparsity,
            empty_clusters: count_empty(&model.total.counts),
            rows_per_second: outcome.rows_per_second,
            config: model.config.clone(),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.training.write_head(f)?;
        if let Some(score) = self.training.heldout {
            writeln!(f, "held-out    {} a row (mean log likelihood)", significant(score, 8))?;
        }
        self.training.write_runs(f)?;
        writeln!(f, "clusters    {}, of which {} empty", self.clusters, self.empty_clusters)?;
        if self.config.sparsity_tolerance > 0.0 {
            let tolerance = self.config.sparsity_tolerance;
            writeln!(f, "sparsity    L = {}, chosen to lose less than {tolerance}", self.sparsity)?;
        }
        self.training.write_tail(f, self.rows_per_second, self.rows, "rows")
    }
}
