//! What watches a run: observers and clocks. Nothing here changes the training.

use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::training::trace::{Beginning, Ending, StepInfo};

pub use crate::system::peak_memory_bytes;

/// Something that is told of every step: a progress bar, a trace, a checkpoint.
pub trait Observer {
    /// Called before the first step of the first run.
    fn begin(&mut self, _beginning: &Beginning) -> Result<()> {
        Ok(())
    }

    /// Called when a run has ended.
    fn end(&mut self, _ending: &Ending) -> Result<()> {
        Ok(())
    }

    /// Called when a run of several could not be finished; the others go on.
    fn failed(&mut self, _run: usize, _error: &Error) -> Result<()> {
        Ok(())
    }

    /// Called when a checkpoint could not be written. Without an error the training goes on, and the next one is tried
    /// when it is due.
    fn no_checkpoint(&mut self, error: Error) -> Result<()> {
        Err(error)
    }

    /// Called when what is remembered could not be put into its file, and stays in memory beyond the limit. Without an
    /// error the training goes on.
    fn no_file(&mut self, error: Error) -> Result<()> {
        self.remark(&format!("{error}; what is remembered of batches stays in memory"));
        Ok(())
    }

    /// Called before all else with what people should know of data and settings.
    fn remark(&mut self, _text: &str) {}

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
    /// What it was trained with, an instruction set or a GPU.
    pub backend: String,
    /// What it goes on with.
    pub goes_on_with: String,
}

impl Reached {
    /// What is to be said where the training goes on with other instructions than before, or on another device.
    pub fn elsewhere(&self) -> Option<String> {
        let Reached { backend: then, goes_on_with: now, .. } = self;
        (then != now)
            .then(|| format!("the checkpoint was trained with {then}, it goes on with {now}: last digits may differ"))
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
    fn begin(&mut self, beginning: &Beginning) -> Result<()> {
        self.iter_mut().try_for_each(|observer| observer.begin(beginning))
    }

    fn end(&mut self, ending: &Ending) -> Result<()> {
        self.iter_mut().try_for_each(|observer| observer.end(ending))
    }

    fn failed(&mut self, run: usize, error: &Error) -> Result<()> {
        self.iter_mut().try_for_each(|observer| observer.failed(run, error))
    }

    fn remark(&mut self, text: &str) {
        self.iter_mut().for_each(|observer| observer.remark(text));
    }

    fn step(&mut self, info: &StepInfo) -> Result<()> {
        self.iter_mut().try_for_each(|observer| observer.step(info))
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

/// The part of a task that is done beside its proper work, in seconds of computing: clocks of the wall say which part, since
/// they are read in no time, and the thread's own says of how much.
pub struct Aside {
    began: Instant,
    computed: Option<Duration>,
    aside: Duration,
}

impl Aside {
    /// The task begins.
    pub fn begin() -> Self {
        Aside { began: Instant::now(), computed: thread_time(), aside: Duration::ZERO }
    }

    /// Do something beside it.
    pub fn work<R>(&mut self, work: impl FnOnce() -> R) -> R {
        let began = Instant::now();
        let result = work();
        self.aside += began.elapsed();
        result
    }

    /// The task is done: seconds of what was done beside it.
    pub fn seconds(self) -> f64 {
        let elapsed = self.began.elapsed();
        let computed = thread_time().zip(self.computed).map_or(elapsed, |(now, then)| now.saturating_sub(then));
        computed.as_secs_f64() * self.aside.as_secs_f64() / elapsed.as_secs_f64().max(1e-9)
    }
}

/// Time that this thread has computed, where the system says so.
#[cfg(unix)]
fn thread_time() -> Option<Duration> {
    rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime).try_into().ok()
}

/// Time that this thread has computed, where the system says so.
#[cfg(not(unix))]
fn thread_time() -> Option<Duration> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn going_on_elsewhere_is_said() {
        let reached = |now: &str| {
            let (backend, goes_on_with) = ("avx2 instructions".to_owned(), now.to_owned());
            Reached { run: 0, step: 3, written: 0, backend, goes_on_with }
        };
        assert_eq!(reached("avx2 instructions").elsewhere(), None);
        let said = reached("the GPU NVIDIA H200").elsewhere().unwrap();
        assert!(said.contains("trained with avx2 instructions") && said.contains("goes on with the GPU"), "{said}");
    }
}
