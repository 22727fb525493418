//! The training loop: next batch, local step, fold, global step, report, until a rule says stop.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::model::{Model, Objective};
use crate::observe::{Observer, StepInfo, Stopwatch, peak_memory_bytes};
use crate::schedule::Schedule;
use crate::summary::Summary;

/// What is carried from step to step.
pub struct State<P, S> {
    /// Global parameters.
    pub params: P,
    /// The statistics they were estimated from.
    pub total: S,
    /// How far the run has come.
    pub progress: Progress,
}

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
}

/// How well observations are explained, in nats an observation (a row, a token): what laps are compared by.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Gauge {
    /// The objective.
    Objective(f64),
    /// The leave-out evidence.
    Evidence(f64),
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

/// When to stop; the first rule that holds ends the run. Zero turns a rule off.
#[derive(Clone, Debug, Default)]
pub struct StopRules {
    /// Laps at most.
    pub laps: usize,
    /// What an observation gains over a lap, in nats: in objective, or in evidence where batches are left out.
    pub tolerance: f64,
    /// Largest change of a cluster's count over a lap.
    pub count_tolerance: f64,
    /// Seconds of training, checked after every batch.
    pub max_seconds: f64,
    /// Laps from one that changes are taken at to the next, beginning with the first lap; 0 and 1 for every lap.
    pub stride: usize,
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
    /// Somebody asked for it.
    Interrupted,
    /// A batch was taken out, and the run is to go on later.
    Forgotten(usize),
}

impl StopReason {
    /// The rule that ended the run, by the name of its option.
    pub fn rule(&self) -> &'static str {
        match self {
            StopReason::Laps(_) => "laps",
            StopReason::Gain(_) => "tolerance",
            StopReason::Counts(_) => "count-tolerance",
            StopReason::Seconds(_) => "max-seconds",
            StopReason::Interrupted => "interrupt",
            StopReason::Forgotten(_) => "forget-batch",
        }
    }

    /// Whether the run came to rest by itself.
    pub fn converged(&self) -> bool {
        matches!(self, StopReason::Gain(_) | StopReason::Counts(_))
    }
}

impl fmt::Display for StopReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StopReason::Laps(1) => write!(f, "1 lap is done"),
            StopReason::Laps(laps) => write!(f, "{laps} laps are done"),
            StopReason::Gain(gain) if *gain < 0.0 => write!(f, "a lap gained nothing"),
            StopReason::Gain(gain) => write!(f, "a lap gained {gain:.1e} nats an observation"),
            StopReason::Counts(change) => write!(f, "no cluster's count changed by more than {change:.3} over a lap"),
            StopReason::Seconds(seconds) => write!(f, "{seconds:.1} s of training are over"),
            StopReason::Interrupted => write!(f, "interrupted"),
            StopReason::Forgotten(batch) => write!(f, "batch {batch} is taken out"),
        }
    }
}

/// Everything about a run that is not the training itself.
pub struct Watch<'a, P, S> {
    /// Held-out score of parameters and their statistics, taken at the end of every lap and of the run; its time does
    /// not count as training.
    pub score: Option<&'a dyn Fn(&P, &S) -> Result<f64>>,
    /// Take the score after every so many steps instead of every lap; 0 for laps.
    pub score_every: u64,
    /// Told of every step.
    pub observer: &'a mut dyn Observer,
    /// Set from outside to stop after the current batch.
    pub interrupt: Option<&'a AtomicBool>,
    /// Which run this is, for reports.
    pub run: usize,
    /// Training time, seeding included; running when handed over.
    pub clock: Stopwatch,
    /// Called after every step and its report, with the bytes that observers have written, and why the run ends if it
    /// does: where checkpoints are taken.
    pub after_step: &'a mut dyn FnMut(&State<P, S>, &mut dyn Schedule<S>, u64, Option<StopReason>) -> Result<()>,
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
        let seconds = Duration::try_from_secs_f64(rules.max_seconds).ok().filter(|time| !time.is_zero());
        Patience { interrupt, until: seconds.and_then(|time| Instant::now().checked_add(time)) }
    }

    /// An error once there is no time left.
    pub fn check(&self) -> Result<()> {
        if self.interrupt.is_some_and(|flag| flag.load(Ordering::Relaxed)) {
            return Err(Error::Interrupted { during: "looking for a place to start from" });
        }
        if self.until.is_some_and(|until| Instant::now() > until) {
            let problem = "the time was over before there was a place to start from".into();
            let remedy = "give more time, or ask for fewer clusters or topics".into();
            return Err(Error::Config { option: "max-seconds", problem, remedy });
        }
        Ok(())
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
}

impl TrainingRecord {
    /// The record of a run that ended in `state` with `outcome`.
    pub fn new<P, S>(observations: usize, state: &State<P, S>, outcome: &Outcome) -> Self {
        TrainingRecord {
            observations,
            laps: state.progress.laps,
            steps: state.progress.step,
            stopped_by: outcome.reason.rule().into(),
            objective: outcome.objective.total(),
            objective_data: outcome.objective.data,
            objective_entropy: outcome.objective.entropy,
            objective_alloc: outcome.objective.alloc,
        }
    }
}

/// Train until a rule says stop.
pub fn run<D: ?Sized, M: Model<D>>(
    model: &M,
    data: &D,
    schedule: &mut dyn Schedule<M::Summary>,
    state: &mut State<M::Params, M::Summary>,
    rules: &StopRules,
    watch: &mut Watch<'_, M::Params, M::Summary>,
) -> Result<Outcome> {
    let batches = model.num_batches(data) as f64;
    let mut scratch = M::Scratch::default();
    let mut is_out = schedule.is_out();
    loop {
        let was_ready = is_out;
        let batch = schedule.next_batch();
        let loan = match schedule.may_lend() {
            true => model.lend(data, &state.total, state.progress.laps)?,
            false => None,
        };
        if let Some(loan) = &loan {
            state.total.add_scaled(loan, 1.0);
            // What a lap gains with new clusters in it says nothing of rest.
            state.progress.lap_before = None;
        }
        is_out |= schedule.take_out_next(&mut state.total)?;
        if loan.is_some() || (is_out && !was_ready) {
            model.update(&mut state.params, &state.total)?;
        }
        let fresh = model.summarize(&state.params, data, batch, &mut scratch)?;
        if let (true, Some(evidence)) = (is_out, fresh.evidence()) {
            state.progress.left_out.0 += evidence;
            state.progress.left_out.1 += fresh.counts().iter().sum::<f64>();
        }
        let ends_lap = schedule.fold(&mut state.total, batch, fresh)?;
        if let Some(spent) = schedule.spent() {
            model.reuse(spent, &mut scratch);
        }
        // Within a lap parameters are at once those without the batch that comes next: one global step a batch. The end
        // of a lap has those of all batches, which are scored and saved.
        is_out = !ends_lap && schedule.take_out_next(&mut state.total)?;
        model.update(&mut state.params, &state.total)?;
        state.progress.step += 1;
        state.progress.laps += usize::from(ends_lap);
        state.progress.rows += model.batch_len(data, batch);
        let objective = (!is_out).then(|| model.objective(&state.params, &state.total));

        watch.clock.halt();
        let State { params, total, progress } = &mut *state;
        let evidence = if ends_lap { progress.take_evidence() } else { None };
        (progress.seconds, progress.cpu_seconds) = (watch.clock.seconds(), watch.clock.cpu_seconds());
        progress.lap_change = ends_lap.then_some((f64::INFINITY, f64::INFINITY));
        if let Some(objective) = objective.filter(|_| ends_lap && rules.compares(progress.laps)) {
            let observations = total.counts().iter().sum::<f64>().max(f64::MIN_POSITIVE);
            let gauge = evidence.map_or(Gauge::Objective(objective.total() / observations), Gauge::Evidence);
            progress.lap_change = Some(lap_change(progress, gauge, total.counts()));
            progress.lap_before = Some((gauge, total.counts().to_vec()));
        }
        // A run that would end here anyway is not interrupted: there is nothing left to go on with.
        let interrupted = || watch.interrupt.is_some_and(|flag| flag.load(Ordering::Relaxed));
        let reason = rules.lap_rule(progress).or_else(|| interrupted().then_some(StopReason::Interrupted));
        let reason = reason.or_else(|| rules.late(progress));
        let due = match watch.score_every {
            0 => ends_lap,
            every => progress.step.is_multiple_of(every),
        };
        // Scores and what a run leaves behind are of all batches, also in the middle of a lap.
        let whole = match is_out && (due || reason.is_some()) {
            true => schedule.whole(total)?,
            false => None,
        };
        let whole = match whole {
            Some(total) => Some((model.global_step(&total, Some(params))?, total)),
            None => None,
        };
        let (params, total) = whole.as_ref().map_or((&*params, &*total), |(params, total)| (params, total));
        let objective = objective.or_else(|| whole.is_some().then(|| model.objective(params, total)));
        if let Some(value) = objective.map(|o| o.total()).filter(|value| !value.is_finite()) {
            return Err(Error::Diverged { step: progress.step, value });
        }
        let heldout = match watch.score {
            Some(score) if due || reason.is_some() => Some(score(params, total)?),
            _ => None,
        };
        let mut report = if ends_lap { model.lap_report(data) } else { Vec::new() };
        report.extend(evidence.map(|evidence| (EVIDENCE, evidence)));
        let info = StepInfo {
            run: watch.run,
            lap: progress.step as f64 / batches,
            step: progress.step,
            batch,
            ends_lap,
            seconds: progress.seconds,
            cpu_seconds: progress.cpu_seconds,
            objective,
            heldout,
            rows_per_second: progress.rows as f64 / progress.seconds.max(1e-9),
            empty_clusters: count_empty(total.counts()),
            peak_memory_bytes: peak_memory_bytes(),
            report,
        };
        if ends_lap {
            let report = info.report.iter().map(|&(name, value)| (name.to_owned(), value)).collect();
            progress.recent.push(LapReport { heldout, report });
            let old = progress.recent.len().saturating_sub(LAPS_REMEMBERED);
            progress.recent.drain(..old);
        }
        watch.observer.step(&info)?;
        (watch.after_step)(state, schedule, watch.observer.written(), reason)?;
        if let (Some(reason), Some(objective)) = (reason, objective) {
            if let Some((params, total)) = whole {
                (state.params, state.total) = (params, total);
                schedule.is_whole();
            }
            let (seconds, recent) = (state.progress.seconds, state.progress.recent.clone());
            let rows_per_second = info.rows_per_second;
            return Ok(Outcome { reason, objective, heldout, seconds, rows_per_second, recent });
        }
        watch.clock.start();
    }
}

/// Clusters that hold less than one row.
pub fn count_empty(counts: &[f64]) -> usize {
    counts.iter().filter(|&&n| n < 1.0).count()
}

/// What an observation gained over a lap, and how much a count changed at most.
fn lap_change(progress: &Progress, gauge: Gauge, counts: &[f64]) -> (f64, f64) {
    let Some((last, last_counts)) = &progress.lap_before else { return (f64::INFINITY, f64::INFINITY) };
    (gauge.since(*last), counts.iter().zip(last_counts).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max))
}

impl Progress {
    /// The leave-out evidence of the lap that just ended, where its batches were left out.
    fn take_evidence(&mut self) -> Option<f64> {
        let (evidence, observations) = std::mem::take(&mut self.left_out);
        (observations > 0.0).then(|| evidence / observations)
    }
}

impl StopRules {
    /// Whether changes are taken at the end of this lap, the first being 1.
    fn compares(&self, lap: usize) -> bool {
        (lap - 1).is_multiple_of(self.stride.max(1))
    }

    /// The rule by which a run ends that has come so far, if any does.
    pub fn ended(&self, progress: &Progress) -> Option<StopReason> {
        self.lap_rule(progress).or_else(|| self.late(progress))
    }

    /// The rules that look at the end of a lap.
    fn lap_rule(&self, progress: &Progress) -> Option<StopReason> {
        let (change, moved) = progress.lap_change?;
        if self.tolerance > 0.0 && change < self.tolerance {
            return Some(StopReason::Gain(change));
        }
        if self.count_tolerance > 0.0 && moved <= self.count_tolerance {
            return Some(StopReason::Counts(moved));
        }
        (self.laps > 0 && progress.laps >= self.laps).then_some(StopReason::Laps(progress.laps))
    }

    fn late(&self, progress: &Progress) -> Option<StopReason> {
        let seconds = progress.seconds;
        (self.max_seconds > 0.0 && seconds >= self.max_seconds).then_some(StopReason::Seconds(seconds))
    }
}
