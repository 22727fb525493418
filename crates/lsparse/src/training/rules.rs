//! How far a run has come, the rules by which it ends, and how it ended.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::training::model::Objective;
use crate::training::moves::Move;
use crate::training::trace::StepInfo;

/// How far a run has come: what the rules for stopping and the reports look back on.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Progress {
    /// Steps taken.
    pub step: u64,
    /// Laps completed.
    pub laps: usize,
    /// Rows worked through, each as often as it was visited.
    pub rows: usize,
    /// Seconds of training, seeding included.
    pub seconds: f64,
    /// The same in seconds of computing, all threads together.
    pub cpu_seconds: f64,
    /// Rows of batches that were taken out.
    pub forgotten: usize,
    /// What observations gain by and counts at the end of the last lap: see [`Gauge`].
    pub(crate) lap_before: Option<(Gauge, Vec<f64>)>,
    /// Where the last step ended a lap: what an observation gained over the lap and the largest change of a count,
    /// infinite with no lap before.
    pub(crate) lap_change: Option<(f64, f64)>,
    /// Of this lap's batches that were left out: the sum of their evidence, and of their observations.
    pub(crate) left_out: (f64, f64),
    /// The last laps, at most [`LAPS_REMEMBERED`].
    pub recent: Vec<LapReport>,
    /// The lap with the best held-out score, where a run ends by it.
    pub best: Option<BestLap>,
}

/// The lap after which held-out data scored best, the first of equals.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct BestLap {
    /// Laps that were done then.
    pub lap: usize,
    /// The score.
    pub score: f64,
}

/// How well observations are explained, in nats an observation (a row, a token): what laps are compared by.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Gauge {
    /// The objective.
    Objective(f64),
    /// The leave-out evidence.
    Evidence(f64),
    /// Not to be told: clusters were lent statistics for the lap that goes on. What it gains with new clusters in it says
    /// nothing of rest, and what rows that made a cluster have under it is no evidence to compare the next lap with.
    Lent,
}

impl Gauge {
    /// What was gained since `before`; infinite if the two do not compare. The objective of training that is not
    /// monotone may fall on its way up, so that a fall of it is no sign of rest; the evidence falls when nothing more
    /// is learned that holds for others.
    fn since(self, before: Gauge) -> f64 {
        match (self, before) {
            (Gauge::Objective(now), Gauge::Objective(before)) => (now - before).abs(),
            (Gauge::Evidence(now), Gauge::Evidence(before)) => now - before,
            _ => f64::INFINITY,
        }
    }
}

/// Name of the leave-out evidence in reports: the mean bound of an observation under parameters that have not seen it.
pub const EVIDENCE: &str = "evidence";

/// Laps whose reports are remembered.
pub const LAPS_REMEMBERED: usize = 100;

/// What was said at the end of a lap.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct LapReport {
    /// The held-out score.
    pub heldout: Option<f64>,
    /// What the model reported, by name.
    pub report: Vec<(String, f64)>,
}

impl LapReport {
    /// What the model reported under a name.
    pub fn get(&self, name: &str) -> Option<f64> {
        self.report.iter().find(|note| note.0 == name).map(|note| note.1)
    }
}

/// When to stop; the first rule that holds ends the run.
#[derive(Clone, Debug, Default)]
pub struct StopRules {
    /// Laps at most.
    pub laps: Option<usize>,
    /// What an observation gains over a lap, in nats: in objective, or in evidence where batches are left out.
    pub tolerance: Option<f64>,
    /// Largest change of a cluster's count over a lap.
    pub count_tolerance: Option<f64>,
    /// Seconds of training, checked after every batch.
    pub max_seconds: Option<f64>,
    /// Laps from one that changes are taken at to the next, beginning with the first lap; 0 and 1 for every lap.
    pub stride: usize,
    /// Laps without a better held-out score; the model that is kept is then that of the best lap, whatever ends the run.
    pub early_stopping: Option<usize>,
}

/// Why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum StopReason {
    /// All laps are done.
    Laps(usize),
    /// An observation gained this much over the last lap.
    Gain(f64),
    /// No cluster's count changed by more than this over the last lap.
    Counts(f64),
    /// The time is up.
    Seconds(f64),
    /// For so many laps the held-out score did not rise.
    Heldout(usize),
    /// Somebody asked for it.
    Interrupted,
    /// A batch was taken out, and the run is to go on later.
    Forgotten(usize),
}

impl StopReason {
    /// The rule that ended the run, by the name of its setting.
    pub fn rule(&self) -> &'static str {
        match self {
            StopReason::Laps(_) => "laps",
            StopReason::Gain(_) => "tolerance",
            StopReason::Counts(_) => "count-tolerance",
            StopReason::Seconds(_) => "max-seconds",
            StopReason::Heldout(_) => "early-stopping",
            StopReason::Interrupted => "interrupt",
            StopReason::Forgotten(_) => "forget-batch",
        }
    }

    /// Whether the run came to rest by itself.
    pub fn converged(&self) -> bool {
        matches!(self, StopReason::Gain(_) | StopReason::Counts(_) | StopReason::Heldout(_))
    }
}

impl fmt::Display for StopReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StopReason::Laps(1) => write!(f, "1 lap is done"),
            StopReason::Laps(laps) => write!(f, "{laps} laps are done"),
            StopReason::Gain(gain) if *gain <= 0.0 => write!(f, "a lap gained nothing"),
            StopReason::Gain(gain) => write!(f, "a lap gained {gain:.1e} an observation"),
            StopReason::Counts(0.0) => write!(f, "no cluster's count changed over a lap"),
            StopReason::Counts(change) => write!(f, "no cluster's count changed by more than {change:.1e} over a lap"),
            StopReason::Seconds(seconds) => write!(f, "{seconds:.1} s of training are over"),
            StopReason::Heldout(1) => write!(f, "the held-out score did not rise over a lap"),
            StopReason::Heldout(laps) => write!(f, "the held-out score did not rise over {laps} laps"),
            StopReason::Interrupted => write!(f, "interrupted"),
            StopReason::Forgotten(batch) => write!(f, "batch {batch} is taken out"),
        }
    }
}

/// Asked at moments when nothing is half done whether long work that has no steps may go on.
#[derive(Clone, Copy, Default)]
pub struct Patience<'a> {
    interrupt: Option<&'a AtomicBool>,
    until: Option<Instant>,
}

impl<'a> Patience<'a> {
    /// As long as the flag is not set, and the time that the rules allow is not over.
    pub fn new(rules: &StopRules, interrupt: Option<&'a AtomicBool>) -> Self {
        let seconds = rules.max_seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        Patience { interrupt, until: seconds.and_then(|time| Instant::now().checked_add(time)) }
    }

    /// An error once there is no time left.
    pub fn check(&self) -> Result<()> {
        if self.interrupt.is_some_and(|flag| flag.load(Ordering::Relaxed)) {
            return Err(Error::Interrupted { during: "looking for a place to start from" });
        }
        if self.until.is_some_and(|until| Instant::now() > until) {
            return Err(Error::out_of_time("there was a place to start from"));
        }
        Ok(())
    }

    /// When there is no time left, if that is known.
    pub fn until(&self) -> Option<Instant> {
        self.until
    }
}

/// How a run ended.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Outcome {
    /// Why.
    pub reason: StopReason,
    /// The last objective.
    pub objective: Objective,
    /// The last held-out score.
    pub heldout: Option<f64>,
    /// Laps done; the model has fewer where it is that of a lap before.
    pub laps: usize,
    /// Seconds of training.
    pub seconds: f64,
    /// Rows worked through a second.
    pub rows_per_second: f64,
    /// The last laps, at most [`LAPS_REMEMBERED`].
    pub recent: Vec<LapReport>,
}

/// What a model file says of its training. No clock, path or host: the same run leaves the same record.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrainingRecord {
    /// Rows or documents trained on.
    pub observations: usize,
    /// Laps completed.
    pub laps: usize,
    /// Steps taken.
    pub steps: u64,
    /// The rule that ended it.
    pub stopped_by: String,
    /// The objective at the end.
    pub objective: f64,
    /// Its data term.
    pub objective_data: f64,
    /// Its entropy term.
    pub objective_entropy: f64,
    /// Its allocation term.
    pub objective_alloc: f64,
    /// What the model was spared after its training.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merged: Option<Merged>,
}

/// How a trained model came to fewer clusters or topics.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Merged {
    /// Clusters or topics that it was trained to.
    pub from: usize,
    /// Those that are left.
    pub to: usize,
    /// Changes that were made one after the other.
    pub changes: usize,
    /// What the objective that they were judged by gained, in nats.
    pub gain: f64,
}

impl TrainingRecord {
    /// The record of a run that came so far and ended so.
    pub fn new(observations: usize, progress: &Progress, outcome: &Outcome) -> Self {
        TrainingRecord {
            observations,
            laps: progress.laps,
            steps: progress.step,
            stopped_by: outcome.reason.rule().into(),
            objective: outcome.objective.total(),
            objective_data: outcome.objective.data,
            objective_entropy: outcome.objective.entropy,
            objective_alloc: outcome.objective.alloc,
            merged: None,
        }
    }

    /// Note changes of a model that had `from` clusters or topics and has `to`, beside those that were made before.
    pub(crate) fn note_merged(&mut self, from: usize, to: usize, made: &[Move]) {
        if made.is_empty() {
            return;
        }
        let before = self.merged.take().unwrap_or(Merged { from, to: from, changes: 0, gain: 0.0 });
        let gain = before.gain + made.iter().map(|change| change.gain).sum::<f64>();
        self.merged = Some(Merged { to, changes: before.changes + made.len(), gain, ..before });
    }
}

/// Clusters that hold less than half a row.
pub fn count_empty(counts: &[f64]) -> usize {
    counts.iter().filter(|&&n| n < 0.5).count()
}

/// What an observation gained over a lap, and how much a count changed at most.
fn lap_change(progress: &Progress, gauge: Gauge, counts: &[f64]) -> (f64, f64) {
    let Some((last, last_counts)) = &progress.lap_before else { return (f64::INFINITY, f64::INFINITY) };
    (gauge.since(*last), counts.iter().zip(last_counts).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max))
}

impl Progress {
    /// The leave-out evidence of the lap that just ended, where its batches were left out.
    pub(crate) fn take_evidence(&mut self) -> Option<f64> {
        let (evidence, observations) = std::mem::take(&mut self.left_out);
        (observations > 0.0).then(|| evidence / observations)
    }

    /// A lap has ended with this held-out score. Whether it is the best so far.
    pub(crate) fn note_score(&mut self, score: Option<f64>) -> bool {
        let found = score.map(|score| BestLap { lap: self.laps, score });
        let better = found.filter(|found| self.best.is_none_or(|best| found.score > best.score));
        self.best = better.or(self.best);
        better.is_some()
    }

    /// Remember what was said at the end of a lap.
    pub(crate) fn remember_lap(&mut self, info: &StepInfo) {
        let report = info.report.iter().map(|(name, &value)| (name.clone(), value)).collect();
        self.recent.push(LapReport { heldout: info.heldout, report });
        let old = self.recent.len().saturating_sub(LAPS_REMEMBERED);
        self.recent.drain(..old);
    }
}

impl StopRules {
    /// Whether changes are taken at the end of this lap, the first being 1.
    fn compares(&self, lap: usize) -> bool {
        (lap - 1).is_multiple_of(self.stride.max(1))
    }

    /// Compare the lap that a step ended with the one before; `counts` are those of the total.
    pub(crate) fn compare(&self, progress: &mut Progress, info: &StepInfo, counts: &[f64]) {
        progress.lap_change = info.ends_lap.then_some((f64::INFINITY, f64::INFINITY));
        let Some(objective) = info.objective.filter(|_| info.ends_lap && self.compares(progress.laps)) else { return };
        let observations = counts.iter().sum::<f64>().max(f64::MIN_POSITIVE);
        let evidence = info.report.get(EVIDENCE).copied();
        let gauge = evidence.map_or(Gauge::Objective(objective.total() / observations), Gauge::Evidence);
        if progress.lap_before.as_ref().is_some_and(|(before, _)| *before == Gauge::Lent) {
            progress.lap_before = None;
            return;
        }
        progress.lap_change = Some(lap_change(progress, gauge, counts));
        progress.lap_before = Some((gauge, counts.to_vec()));
    }

    /// The rule that ends a run here. A run that would end anyway is not interrupted: there is nothing left to go on
    /// with.
    pub(crate) fn verdict(&self, progress: &Progress, interrupt: Option<&AtomicBool>) -> Option<StopReason> {
        let interrupted = || interrupt.is_some_and(|flag| flag.load(Ordering::Relaxed));
        let reason = self.lap_rule(progress).or_else(|| interrupted().then_some(StopReason::Interrupted));
        reason.or_else(|| self.late(progress))
    }

    /// The rule by which a run ends that has come so far, if any does.
    pub fn ended(&self, progress: &Progress) -> Option<StopReason> {
        self.lap_rule(progress).or_else(|| self.late(progress))
    }

    /// The rules that look at the end of a lap.
    fn lap_rule(&self, progress: &Progress) -> Option<StopReason> {
        let (change, moved) = progress.lap_change?;
        if self.tolerance.is_some_and(|tolerance| change < tolerance) {
            return Some(StopReason::Gain(change));
        }
        if self.count_tolerance.is_some_and(|tolerance| moved <= tolerance) {
            return Some(StopReason::Counts(moved));
        }
        if let Some(waited) =
            self.waited(progress).filter(|&waited| self.early_stopping.is_some_and(|most| waited >= most))
        {
            return Some(StopReason::Heldout(waited));
        }
        self.laps.is_some_and(|laps| progress.laps >= laps).then_some(StopReason::Laps(progress.laps))
    }

    /// When a run that has come so far is out of time, if it goes on now.
    pub(crate) fn until(&self, progress: &Progress) -> Option<Instant> {
        let left = Duration::try_from_secs_f64(self.max_seconds? - progress.seconds).unwrap_or_default();
        Instant::now().checked_add(left)
    }

    /// Laps since the best one, where runs end by it.
    pub(crate) fn waited(&self, progress: &Progress) -> Option<usize> {
        let best = progress.best.filter(|_| self.early_stopping.is_some())?;
        progress.laps.checked_sub(best.lap)
    }

    fn late(&self, progress: &Progress) -> Option<StopReason> {
        let seconds = progress.seconds;
        self.max_seconds.is_some_and(|most| seconds >= most).then_some(StopReason::Seconds(seconds))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A lap in which something was lent is compared neither with the lap before nor with the one after.
    #[test]
    fn laps_that_were_lent_something_are_no_measure_of_rest() {
        let rules = StopRules { tolerance: Some(1e-3), ..Default::default() };
        let mut progress = Progress::default();
        let mut ends = |lap: usize, evidence: f64, lent: bool| {
            progress.laps = lap;
            if lent {
                progress.lap_before = Some((Gauge::Lent, Vec::new()));
            }
            let info = StepInfo {
                run: 0,
                lap: lap as f64,
                step: lap as u64,
                batch: 0,
                ends_lap: true,
                seconds: 0.0,
                cpu_seconds: 0.0,
                objective: Some(Objective { data: 0.0, entropy: 0.0, alloc: 0.0 }),
                heldout: None,
                rows_per_second: 0.0,
                empty_clusters: 0,
                peak_memory_bytes: None,
                report: [(EVIDENCE.to_owned(), evidence)].into(),
                moves: Vec::new(),
                sizes: Vec::new(),
            };
            rules.compare(&mut progress, &info, &[1.0]);
            rules.ended(&progress).is_some()
        };
        assert!(!ends(1, -7.3, false) && !ends(2, -7.1, true));
        assert!(!ends(3, -7.2, false), "it fell from what was lent");
        assert!(!ends(4, -7.19, false) && ends(5, -7.1899, false));
    }

    #[test]
    fn nothing_is_no_number_to_be_shown() {
        for (gain, said) in [(0.0, "a lap gained nothing"), (-1e-9, "a lap gained nothing")] {
            assert_eq!(StopReason::Gain(gain).to_string(), said);
        }
        assert_eq!(StopReason::Gain(2e-5).to_string(), "a lap gained 2.0e-5 an observation");
    }
}
