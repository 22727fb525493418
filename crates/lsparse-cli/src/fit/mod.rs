//! `lsparse fit`: train a model; here is what all trainings share.

mod args;
mod mixture;
mod report;
mod settings;
mod topics;

use std::path::Path;

use lsparse::observe::{Observer, StepInfo, Trace};
use lsparse::{Error, Result};

use crate::output::{self, TraceFile, check_not_input};
use crate::progress::TrainingProgress;

pub use mixture::{MixtureArgs, run as run_mixture};
pub use topics::{TopicsArgs, run as run_topics};

/// The files that a training writes.
struct Outputs<'a> {
    model: Option<&'a Path>,
    trace: Option<&'a Path>,
}

impl Outputs<'_> {
    /// Files that cannot be written, or must not be, are found before the work and not after it. The model may take
    /// the place of the one that training goes on from, the trace may not.
    fn check(&self, inputs: &[&Path], from: Option<&Path>) -> Result<()> {
        if let Some(path) = self.model {
            check_not_input("out", path, inputs)?;
            output::check_writable(path)?;
        }
        if let Some(path) = self.trace {
            check_not_input("trace", path, inputs)?;
            check_not_input("trace", path, &from.into_iter().collect::<Vec<&Path>>())?;
        }
        if let (Some(out), Some(trace)) = (self.model, self.trace)
            && std::path::absolute(out).ok() == std::path::absolute(trace).ok()
        {
            let problem = format!("{} is also where the model goes", trace.display());
            return Err(Error::Config { option: "trace", problem, remedy: "choose another file".into() });
        }
        Ok(())
    }

    /// The trace, if one is wanted.
    fn open_trace(&self) -> Result<Option<Trace<TraceFile>>> {
        self.trace.map(|path| Ok(Trace::new(TraceFile::create(path)?, path))).transpose()
    }
}

/// Progress and trace.
struct Watchers {
    progress: TrainingProgress,
    trace: Option<Trace<TraceFile>>,
}

impl Observer for Watchers {
    fn step(&mut self, info: &StepInfo) -> Result<()> {
        self.progress.step(info)?;
        self.trace.as_mut().map_or(Ok(()), |trace| trace.step(info))
    }
}
