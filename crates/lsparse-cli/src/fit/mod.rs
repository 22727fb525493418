//! `lsparse fit`: train a model; here is what all trainings share.

mod args;
mod mixture;
mod report;
mod settings;
mod topics;

use std::path::Path;

use lsparse::training::observe::{Observer, Reached};
use lsparse::training::trace::{Beginning, Ending, StepInfo, Trace, TraceFile};
use lsparse::{Error, Result};

use crate::output::{self, check_not_input};
use crate::progress::TrainingProgress;

use args::RunArgs;
pub use mixture::{MixtureArgs, run as run_mixture};
pub use topics::{TopicsArgs, run as run_topics};

impl RunArgs {
    /// Files that cannot be written, or must not be, are found before the work and not after it. The model may take
    /// the place of the one that training goes on from, the others may not.
    fn check_outputs(&self, inputs: &[&Path], from: Option<&Path>) -> Result<()> {
        let from: Vec<&Path> = from.into_iter().collect();
        if let Some(path) = &self.out {
            check_not_input("out", path, inputs)?;
            output::check_writable(path)?;
        }
        if let Some(path) = &self.trace {
            check_not_input("trace", path, inputs)?;
            check_not_input("trace", path, &from)?;
            check_apart("trace", path, &[(self.out.as_deref(), "the model")])?;
        }
        if let Some(checkpoint) = self.storage().checkpoint {
            let others = [(self.out.as_deref(), "the model"), (self.trace.as_deref(), "the trace")];
            for path in checkpoint.side_files().iter().chain([&checkpoint.path]) {
                check_not_input("checkpoint", path, inputs)?;
                check_not_input("checkpoint", path, &from)?;
                check_apart("checkpoint", path, &others)?;
            }
            checkpoint.check_free()?;
            output::check_writable(&checkpoint.path)?;
        }
        Ok(())
    }

    /// The trace, if one is wanted.
    fn open_trace(&self) -> Result<Option<Trace<TraceFile>>> {
        self.trace.as_deref().map(Trace::to_file).transpose()
    }
}

/// Refuse to write two things to one file.
fn check_apart(option: &'static str, path: &Path, others: &[(Option<&Path>, &str)]) -> Result<()> {
    let same = |other: &Path| std::path::absolute(other).ok() == std::path::absolute(path).ok();
    match others.iter().find(|(other, _)| other.is_some_and(same)) {
        None => Ok(()),
        Some((_, what)) => {
            let problem = format!("{} is also where {what} goes", path.display());
            Err(Error::Config { option, problem, remedy: "choose another file".into() })
        }
    }
}

/// Progress and trace.
struct Watchers {
    progress: TrainingProgress,
    trace: Option<Trace<TraceFile>>,
}

impl Observer for Watchers {
    fn begin(&mut self, beginning: &Beginning) -> Result<()> {
        self.trace.as_mut().map_or(Ok(()), |trace| trace.begin(beginning))
    }

    fn end(&mut self, ending: &Ending) -> Result<()> {
        self.trace.as_mut().map_or(Ok(()), |trace| trace.end(ending))
    }

    fn step(&mut self, info: &StepInfo) -> Result<()> {
        self.progress.step(info)?;
        self.trace.as_mut().map_or(Ok(()), |trace| trace.step(info))
    }

    fn written(&self) -> u64 {
        self.trace.as_ref().map_or(0, Trace::written)
    }

    fn go_on_from(&mut self, reached: &Reached) -> Result<()> {
        if let Some(trace) = &mut self.trace {
            trace.go_on_from(reached)?;
        }
        if let Some(what) = reached.elsewhere() {
            output::message(&format!("warning: {what}"));
        }
        Ok(())
    }
}
