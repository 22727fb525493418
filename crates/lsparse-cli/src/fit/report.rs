//! What the reports of all trainings share.

use std::fmt;
use std::path::Path;

use lsparse::BestBy;
use lsparse::training::observe::peak_memory_bytes;
use lsparse::training::rules::{Outcome, TrainingRecord};
use serde::Serialize;

use crate::format::{bytes, duration, grouped, rate, significant};

/// One of several runs.
#[derive(Serialize)]
struct Run {
    objective: f64,
    heldout: Option<f64>,
}

/// How a training went, whatever the model.
#[derive(Serialize)]
pub struct TrainingReport {
    stopped_by: String,
    reason: String,
    converged: bool,
    laps: usize,
    /// Laps done, where the model is that of an earlier one.
    #[serde(skip_serializing_if = "Option::is_none")]
    laps_done: Option<usize>,
    steps: u64,
    objective: f64,
    objective_data: f64,
    objective_entropy: f64,
    objective_alloc: f64,
    /// Mean log likelihood of a held-out row, or log probability of a held-out token.
    pub heldout: Option<f64>,
    seconds: f64,
    peak_memory_bytes: Option<u64>,
    run: usize,
    runs: Vec<Run>,
    model: Option<String>,
}

/// Numbers of K that are shown of a run in which it was found: the first ones, and the last.
const FIRST: usize = 12;
const LAST: usize = 6;

/// K as it was found, lap by lap, each number once; of many the first and the last.
pub fn lap_by_lap(found: &[usize]) -> String {
    let mut path: Vec<String> = found.iter().map(usize::to_string).collect();
    path.dedup();
    if path.len() > FIRST + LAST + 1 {
        path.splice(FIRST..path.len() - LAST, ["...".to_owned()]);
    }
    path.join(", ")
}

impl TrainingReport {
    /// `runs` is the objective and score of every run, of which `run` was kept.
    pub fn new(
        training: &TrainingRecord,
        outcome: &Outcome,
        run: usize,
        runs: &[(f64, Option<f64>)],
        out: Option<&Path>,
    ) -> Self {
        TrainingReport {
            stopped_by: training.stopped_by.clone(),
            reason: outcome.reason.to_string(),
            converged: outcome.reason.converged(),
            laps: training.laps,
            laps_done: Some(outcome.laps).filter(|&laps| laps > training.laps),
            steps: training.steps,
            objective: outcome.objective.total(),
            objective_data: outcome.objective.data,
            objective_entropy: outcome.objective.entropy,
            objective_alloc: outcome.objective.alloc,
            heldout: outcome.heldout,
            seconds: outcome.seconds,
            peak_memory_bytes: peak_memory_bytes(),
            run,
            runs: runs.iter().map(|&(objective, heldout)| Run { objective, heldout }).collect(),
            model: out.map(|path| path.display().to_string()),
        }
    }

    /// Why K that was found is what it is, if it rests because of `at_rest`.
    pub fn why_k_rests(&self, found: usize, most: usize, at_rest: &str) -> String {
        match (found >= most, self.converged, self.stopped_by == "early-stopping") {
            (true, ..) => format!("{most} is the most that was allowed (--k-max); more were not tried"),
            (_, _, true) => "with more the held-out score did not rise".to_owned(),
            (_, true, _) => at_rest.to_owned(),
            _ => "more laps might change it".to_owned(),
        }
    }

    /// The same with clusters called by another name.
    pub fn calling_clusters(mut self, name: &str) -> Self {
        self.reason = self.reason.replace("cluster", name);
        self
    }

    /// Why and where it stopped.
    pub fn write_head(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let laps = if self.laps == 1 { "lap" } else { "laps" };
        let steps = if self.steps == 1 { "step" } else { "steps" };
        writeln!(f, "stopped     {} ({} {laps}, {} {steps})", self.reason, self.laps, self.steps)?;
        if let Some(done) = self.laps_done {
            writeln!(f, "kept        the model of lap {} of {done}, which scored best", self.laps)?;
        }
        writeln!(
            f,
            "objective   {} = data {} + entropy {} + allocation {}",
            significant(self.objective, 9),
            significant(self.objective_data, 9),
            significant(self.objective_entropy, 6),
            significant(self.objective_alloc, 6),
        )
    }

    /// The best of several runs, and what they came to by what it is the best.
    pub fn write_runs(&self, f: &mut fmt::Formatter<'_>, best_by: BestBy, by_evidence: bool) -> fmt::Result {
        if self.runs.len() < 2 {
            return Ok(());
        }
        let (name, by_heldout) = match (best_by, by_evidence) {
            (BestBy::Heldout, _) => ("held-out score", true),
            (BestBy::Objective, true) => ("evidence; objectives", false),
            (BestBy::Objective, false) => ("objective", false),
        };
        let came_to = |run: &Run| match (run.objective.is_nan(), run.heldout.filter(|_| by_heldout)) {
            (true, _) => "failed".to_owned(),
            (_, Some(score)) => significant(score, 6),
            _ => significant(run.objective, 8),
        };
        let all: Vec<String> = self.runs.iter().map(came_to).collect();
        writeln!(f, "runs        run {} is the best of {} by {name}: {}", self.run + 1, all.len(), all.join(", "))
    }

    /// Speed in `unit` a second for `count` of them, memory, and where the model is.
    pub fn write_tail(&self, f: &mut fmt::Formatter<'_>, speed: f64, count: usize, unit: &str) -> fmt::Result {
        let (count, speed) = (grouped(count), rate(speed));
        writeln!(f, "speed       {speed} {unit}/s, {} for {count} {unit}", duration(self.seconds))?;
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

#[cfg(test)]
mod tests {
    use super::lap_by_lap;

    #[test]
    fn many_laps_are_told_by_the_first_and_the_last() {
        assert_eq!(lap_by_lap(&[10, 10, 12, 11, 11]), "10, 12, 11");
        let many: Vec<usize> = (0..100).map(|lap| 200 - lap).collect();
        let told = lap_by_lap(&many);
        assert!(told.starts_with("200, 199, ") && told.ends_with(", 189, ..., 106, 105, 104, 103, 102, 101"), "{told}");
        assert_eq!(lap_by_lap(&many[..19]).split(", ").count(), 19);
    }
}
