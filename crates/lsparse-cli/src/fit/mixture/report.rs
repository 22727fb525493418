//! What is said when a training has ended, to people and to programs.

use std::fmt;
use std::path::Path;

use lsparse::fit::count_empty;
use lsparse::observe::peak_memory_bytes;
use lsparse::{Fitted, MixtureConfig};
use serde::Serialize;

use crate::format::{bytes, duration, grouped, rate, significant};

/// One of several runs.
#[derive(Serialize)]
struct Run {
    objective: f64,
    heldout: Option<f64>,
}

/// How a training went.
#[derive(Serialize)]
pub struct Report {
    stopped_by: String,
    reason: String,
    converged: bool,
    rows: usize,
    dim: usize,
    clusters: usize,
    sparsity: usize,
    laps: usize,
    steps: u64,
    objective: f64,
    objective_data: f64,
    objective_entropy: f64,
    objective_alloc: f64,
    heldout: Option<f64>,
    empty_clusters: usize,
    seconds: f64,
    rows_per_second: f64,
    peak_memory_bytes: Option<u64>,
    run: usize,
    runs: Vec<Run>,
    model: Option<String>,
    config: MixtureConfig,
}

impl Report {
    pub fn new(fitted: &Fitted, out: Option<&Path>) -> Self {
        let (model, outcome) = (&fitted.model, &fitted.outcome);
        Report {
            stopped_by: model.training.stopped_by.clone(),
            reason: outcome.reason.to_string(),
            converged: outcome.reason.converged(),
            rows: model.training.observations,
            dim: model.dim(),
            clusters: model.num_clusters(),
            sparsity: model.config.sparsity,
            laps: model.training.laps,
            steps: model.training.steps,
            objective: outcome.objective.total(),
            objective_data: outcome.objective.data,
            objective_entropy: outcome.objective.entropy,
            objective_alloc: outcome.objective.alloc,
            heldout: outcome.heldout,
            empty_clusters: count_empty(&model.total.counts),
            seconds: outcome.seconds,
            rows_per_second: outcome.rows_per_second,
            peak_memory_bytes: peak_memory_bytes(),
            run: fitted.run,
            runs: fitted.runs.iter().map(|&(objective, heldout)| Run { objective, heldout }).collect(),
            model: out.map(|path| path.display().to_string()),
            config: model.config.clone(),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let laps = if self.laps == 1 { "lap" } else { "laps" };
        let steps = if self.steps == 1 { "step" } else { "steps" };
        writeln!(f, "stopped     {} ({} {laps}, {} {steps})", self.reason, self.laps, self.steps)?;
        writeln!(
            f,
            "objective   {} = data {} + entropy {} + allocation {}",
            significant(self.objective, 9),
            significant(self.objective_data, 9),
            significant(self.objective_entropy, 6),
            significant(self.objective_alloc, 6),
        )?;
        if let Some(score) = self.heldout {
            writeln!(f, "held-out    {} a row (mean log likelihood)", significant(score, 8))?;
        }
        if self.runs.len() > 1 {
            let objectives: Vec<String> = self.runs.iter().map(|run| significant(run.objective, 8)).collect();
            writeln!(f, "runs        best of {}: run {} of {}", self.runs.len(), self.run + 1, objectives.join(", "))?;
        }
        writeln!(f, "clusters    {}, of which {} empty", self.clusters, self.empty_clusters)?;
        if self.config.sparsity_tolerance > 0.0 {
            let tolerance = self.config.sparsity_tolerance;
            writeln!(f, "sparsity    L = {}, chosen to lose less than {tolerance}", self.sparsity)?;
        }
        let (rows, speed) = (grouped(self.rows), rate(self.rows_per_second));
        writeln!(f, "speed       {speed} rows/s, {} for {rows} rows", duration(self.seconds))?;
        if let Some(peak) = self.peak_memory_bytes {
            writeln!(f, "memory      {} at most", bytes(peak))?;
        }
        match &self.model {
            Some(path) if self.stopped_by == "interrupt" => {
                writeln!(f, "model       {path}, as it was when interrupted")
            }
            Some(path) => writeln!(f, "model       {path}"),
            None => Ok(()),
        }
    }
}
