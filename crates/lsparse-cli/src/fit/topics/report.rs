//! What is said when a topic run has ended, to people and to programs.

use std::fmt;
use std::path::Path;

use lsparse::fit::count_empty;
use lsparse::observe::peak_memory_bytes;
use lsparse::topics::{ACTIVE_TOPICS, FittedTopics, TopicsConfig};
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
    documents: usize,
    vocabulary: usize,
    new_words: usize,
    topics: usize,
    sparsity: usize,
    laps: usize,
    steps: u64,
    objective: f64,
    objective_data: f64,
    objective_entropy: f64,
    objective_alloc: f64,
    /// Mean log probability of a held-out token.
    heldout: Option<f64>,
    heldout_perplexity: Option<f64>,
    empty_topics: usize,
    /// Of the last lap.
    active_topics: Option<f64>,
    doc_iterations: Option<f64>,
    restarts_proposed: Option<f64>,
    restarts_accepted: Option<f64>,
    decaying: bool,
    seconds: f64,
    documents_per_second: f64,
    peak_memory_bytes: Option<u64>,
    run: usize,
    runs: Vec<Run>,
    model: Option<String>,
    config: TopicsConfig,
}

impl Report {
    /// `last_lap` is what the model reported at the end of the last lap of the kept run.
    pub fn new(fitted: &FittedTopics, last_lap: &[(&'static str, f64)], new_words: usize, out: Option<&Path>) -> Self {
        let (model, outcome) = (&fitted.model, &fitted.outcome);
        let of_lap = |name: &str| last_lap.iter().find(|note| note.0 == name).map(|note| note.1);
        Report {
            stopped_by: model.training.stopped_by.clone(),
            reason: outcome.reason.to_string().replace("cluster", "topic"),
            converged: outcome.reason.converged(),
            documents: model.training.observations,
            vocabulary: model.vocab_size(),
            new_words,
            topics: model.num_topics(),
            sparsity: model.config.sparsity,
            laps: model.training.laps,
            steps: model.training.steps,
            objective: outcome.objective.total(),
            objective_data: outcome.objective.data,
            objective_entropy: outcome.objective.entropy,
            objective_alloc: outcome.objective.alloc,
            heldout: outcome.heldout,
            heldout_perplexity: outcome.heldout.map(|score| (-score).exp()),
            empty_topics: count_empty(&model.total.counts),
            active_topics: of_lap(ACTIVE_TOPICS),
            doc_iterations: of_lap("doc_iterations"),
            restarts_proposed: of_lap("restarts_proposed"),
            restarts_accepted: of_lap("restarts_accepted"),
            decaying: fitted.decaying,
            seconds: outcome.seconds,
            documents_per_second: outcome.rows_per_second,
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
        if let (Some(score), Some(perplexity)) = (self.heldout, self.heldout_perplexity) {
            let (score, perplexity) = (significant(score, 5), significant(perplexity, 5));
            writeln!(f, "held-out    {score} a token (mean log probability), perplexity {perplexity}")?;
        }
        if self.runs.len() > 1 {
            let objectives: Vec<String> = self.runs.iter().map(|run| significant(run.objective, 8)).collect();
            writeln!(f, "runs        best of {}: run {} of {}", self.runs.len(), self.run + 1, objectives.join(", "))?;
        }
        writeln!(f, "topics      {}, of which {} empty", self.topics, self.empty_topics)?;
        if let Some(active) = self.active_topics {
            let iterations = self.doc_iterations.unwrap_or_default();
            write!(f, "documents   {active:.1} active topics and {iterations:.1} iterations each")?;
            match (self.restarts_proposed, self.restarts_accepted) {
                (Some(proposed), Some(accepted)) if proposed > 0.0 => {
                    let share = 100.0 * accepted / proposed;
                    writeln!(f, ", {share:.0} % of {} restarts accepted", grouped(proposed as usize))?;
                }
                _ => writeln!(f, ", no restarts")?,
            }
        }
        let (documents, speed) = (grouped(self.documents), rate(self.documents_per_second));
        writeln!(f, "speed       {speed} documents/s, {} for {documents} documents", duration(self.seconds))?;
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
