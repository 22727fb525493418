//! What watches a run: the report of each step, traces, clocks and memory. Nothing here changes the training.

use std::io::Write;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::backend::instructions;
use crate::error::Result;
use crate::model::Objective;

/// What one step reports.
#[derive(Clone, Debug)]
pub struct StepInfo {
    /// Run, from 0, where several are trained.
    pub run: usize,
    /// Laps begun, as a fraction: steps over batches a lap.
    pub lap: f64,
    /// Steps taken, from 1.
    pub step: u64,
    /// The batch visited.
    pub batch: usize,
    /// Whether the step ended a lap.
    pub ends_lap: bool,
    /// Seconds of training so far, scoring and reporting excluded.
    pub seconds: f64,
    /// The same in seconds of computing, all threads together: what compares on a machine that does other work too.
    pub cpu_seconds: f64,
    /// The objective after the step; none in the middle of a lap that leaves the next batch out.
    pub objective: Option<Objective>,
    /// Mean held-out log likelihood, where the step was scored.
    pub heldout: Option<f64>,
    /// Rows a second of training time so far.
    pub rows_per_second: f64,
    /// Clusters that hold less than one row.
    pub empty_clusters: usize,
    /// Most memory the process has had so far.
    pub peak_memory_bytes: Option<u64>,
    /// What else the model reports at the end of a lap, by name.
    pub report: Vec<(&'static str, f64)>,
}

/// Something that is told of every step: a progress bar, a trace, a checkpoint.
pub trait Observer {
    /// Called after every step.
    fn step(&mut self, info: &StepInfo) -> Result<()>;

    /// Bytes written so far, which a checkpoint keeps.
    fn written(&self) -> u64 {
        0
    }

    /// A run goes on from a checkpoint that was taken here: what was written after it is void.
    fn go_on_from(&mut self, _reached: &Reached) -> Result<()> {
        Ok(())
    }
}

/// How far a training had come when a checkpoint of it was taken.
#[derive(Clone, Debug)]
pub struct Reached {
    /// Run under way, from 0.
    pub run: usize,
    /// Steps of that run.
    pub step: u64,
    /// Bytes that observers had written.
    pub written: u64,
    /// The instruction set it was trained with.
    pub instructions: String,
}

impl Reached {
    /// What is to be said where the training goes on with other instructions than before.
    pub fn elsewhere(&self) -> Option<String> {
        let (then, now) = (&self.instructions, instructions());
        (then != now).then(|| {
            format!(
                "the checkpoint was trained with {then} instructions, it goes on with {now}: last digits may differ"
            )
        })
    }
}

/// Nobody watches.
impl Observer for () {
    fn step(&mut self, _info: &StepInfo) -> Result<()> {
        Ok(())
    }
}

/// Several watch.
impl Observer for Vec<Box<dyn Observer + '_>> {
    fn step(&mut self, info: &StepInfo) -> Result<()> {
        self.iter_mut().try_for_each(|observer| observer.step(info))
    }
}

/// One line of a trace.
#[derive(Serialize)]
struct TraceLine {
    run: usize,
    lap: f64,
    step: u64,
    batch: usize,
    seconds: f64,
    cpu_seconds: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    objective: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    objective_data: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    objective_entropy: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    objective_alloc: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    heldout: Option<f64>,
    rows_per_second: f64,
    empty_clusters: usize,
    peak_memory_bytes: Option<u64>,
    #[serde(flatten)]
    report: serde_json::Map<String, serde_json::Value>,
}

/// Writes one JSON object a step.
pub struct Trace<W: Write> {
    out: W,
    path: std::path::PathBuf,
    written: u64,
}

impl<W: Write> Trace<W> {
    /// Write to `out`; `path` is for messages.
    pub fn new(out: W, path: impl Into<std::path::PathBuf>) -> Self {
        Trace { out, path: path.into(), written: 0 }
    }

    /// Where it writes to.
    pub fn get_mut(&mut self) -> &mut W {
        &mut self.out
    }

    /// Say how many bytes are there already.
    pub fn set_written(&mut self, written: u64) {
        self.written = written;
    }
}

impl<W: Write> Observer for Trace<W> {
    fn step(&mut self, info: &StepInfo) -> Result<()> {
        let line = TraceLine {
            run: info.run,
            lap: info.lap,
            step: info.step,
            batch: info.batch,
            seconds: info.seconds,
            cpu_seconds: info.cpu_seconds,
            objective: info.objective.map(|o| o.total()),
            objective_data: info.objective.map(|o| o.data),
            objective_entropy: info.objective.map(|o| o.entropy),
            objective_alloc: info.objective.map(|o| o.alloc),
            heldout: info.heldout,
            rows_per_second: info.rows_per_second,
            empty_clusters: info.empty_clusters,
            peak_memory_bytes: info.peak_memory_bytes,
            report: info.report.iter().map(|&(name, value)| (name.to_owned(), value.into())).collect(),
        };
        let failed = |source| crate::error::Error::Unwritable { path: self.path.clone(), source };
        let mut line = serde_json::to_vec(&line).map_err(|e| failed(e.into()))?;
        line.push(b'\n');
        self.out.write_all(&line).and_then(|()| self.out.flush()).map_err(failed)?;
        self.written += line.len() as u64;
        Ok(())
    }

    fn written(&self) -> u64 {
        self.written
    }
}

/// A stopwatch of training time that can be halted while something else is done.
#[derive(Default)]
pub struct Stopwatch {
    before: Times,
    since: Option<(Instant, Option<Duration>)>,
}

/// Times by the clock and of computing.
#[derive(Clone, Copy, Default)]
struct Times {
    wall: Duration,
    cpu: Duration,
}

impl Stopwatch {
    /// Start, or go on.
    pub fn start(&mut self) {
        self.since = Some((Instant::now(), cpu_time()));
    }

    /// One that has run for so many seconds, of which so many of computing, and is halted.
    pub fn at(seconds: f64, cpu_seconds: f64) -> Self {
        let time = |seconds| Duration::try_from_secs_f64(seconds).unwrap_or_default();
        Stopwatch { before: Times { wall: time(seconds), cpu: time(cpu_seconds) }, since: None }
    }

    /// Halt.
    pub fn halt(&mut self) {
        self.before = self.now();
        self.since = None;
    }

    /// Seconds so far.
    pub fn seconds(&self) -> f64 {
        self.now().wall.as_secs_f64()
    }

    /// Seconds of computing so far, all threads of the process together; those of the clock where the system does not
    /// say.
    pub fn cpu_seconds(&self) -> f64 {
        self.now().cpu.as_secs_f64()
    }

    fn now(&self) -> Times {
        let Times { wall, cpu } = self.before;
        let Some((since, cpu_since)) = self.since else { return self.before };
        let elapsed = since.elapsed();
        let computed = cpu_time().zip(cpu_since).map_or(elapsed, |(now, then)| now.saturating_sub(then));
        Times { wall: wall + elapsed, cpu: cpu + computed }
    }
}

/// Time that all threads of the process have computed, where the system says so.
#[cfg(unix)]
fn cpu_time() -> Option<Duration> {
    rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime).try_into().ok()
}

/// Time that all threads of the process have computed, where the system says so.
#[cfg(not(unix))]
fn cpu_time() -> Option<Duration> {
    None
}

/// Most memory this process has had resident, where the system says so.
pub fn peak_memory_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    let kilobytes: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kilobytes * 1024)
}
