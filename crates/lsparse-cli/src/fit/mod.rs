//! `lsparse fit`: train a model; here is what all trainings share.

mod args;
mod mixture;
mod options;
mod report;
mod sequence;
mod together;
mod topics;

use std::path::Path;

use lsparse::training::moves::MoveKind;
use lsparse::training::observe::{Observer, Reached};
use lsparse::training::trace::{Beginning, Ending, StepInfo, Trace, TraceFile};
use lsparse::{Error, Result};
use lsparse_page::watch::Watched;

use crate::messages;
use crate::output::{self, check_not_input};
use crate::progress::TrainingProgress;
use crate::watch::OwnPage;

pub use args::RunArgs;
pub use mixture::{MixtureArgs, rows_of};
pub use sequence::{SequenceArgs, sequences_of};
pub use together::{Fold, print_batches};
pub use topics::{TopicsArgs, documents_of};

pub fn run_mixture(args: &MixtureArgs) -> Result<()> {
    args.run.hand_on(mixture::run(args))
}

pub fn run_sequence(args: &SequenceArgs) -> Result<()> {
    args.run.hand_on(sequence::run(args))
}

pub fn run_topics(args: &TopicsArgs) -> Result<()> {
    args.run.hand_on(topics::run(args))
}

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
            output::check_named(path, "file")?;
            check_not_input("trace", path, inputs)?;
            check_not_input("trace", path, &from)?;
            check_apart("trace", path, &[(self.out.as_deref(), "the model")])?;
        }
        if self.folder().is_some() {
            return self.check_folder(inputs);
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
            Err(Error::Config { setting: option, problem, remedy: "choose another file".into() })
        }
    }
}

/// Progress and trace.
///
/// Training is worth more than its trace or a checkpoint: where one cannot be written, as on a full disk, that is said, the
/// training goes on and its model is kept. What went wrong is for the end.
struct Watchers {
    progress: TrainingProgress,
    trace: Option<Trace<TraceFile>>,
    page: Option<OwnPage>,
    /// Bytes of a trace that could not be written to its end.
    written: u64,
    /// The first thing that could not be written.
    trouble: Option<Error>,
    /// What was said of things that could not be written, each once.
    told: Vec<String>,
    /// What each trade of clusters gained, with its run.
    trades: Vec<(usize, f64)>,
}

impl Watchers {
    /// For a run with these options on data of this name.
    fn new(progress: TrainingProgress, trace: Option<Trace<TraceFile>>, run: &RunArgs, data: &Path) -> Result<Self> {
        let name = run.out.as_deref().unwrap_or(data).to_string_lossy();
        let page = run.watch.map(|port| OwnPage::start(&name, port)).transpose()?;
        Ok(Watchers { progress, trace, page, written: 0, trouble: None, told: Vec::new(), trades: Vec::new() })
    }

    /// What each trade of clusters in a run gained, as far as it went on here.
    fn trades_of(&self, run: usize) -> Vec<f64> {
        self.trades.iter().filter(|trade| trade.0 == run).map(|trade| trade.1).collect()
    }

    /// Tell the page, if there is one.
    fn show(&mut self, tell: impl FnOnce(&mut Watched) -> Result<()>) -> Result<()> {
        self.page.as_mut().map_or(Ok(()), |page| tell(&mut page.watched))
    }

    /// Write to the trace, as long as that works.
    fn write_trace(&mut self, write: impl FnOnce(&mut Trace<TraceFile>) -> Result<()>) {
        let Some(trace) = &mut self.trace else { return };
        if let Err(error) = write(trace) {
            self.written = trace.written();
            // Half a line is none.
            trace.get_mut().cut(self.written);
            self.trace = None;
            self.tell(error, "training goes on");
        }
    }

    /// Say that something could not be written, and what becomes of the training.
    fn tell(&mut self, error: Error, then: &str) {
        let text = messages::of_error(&error);
        if !self.told.contains(&text) {
            output::message(&format!("warning: {text}; {then}"));
            self.told.push(text);
        }
        self.trouble.get_or_insert(error);
    }

    /// The first thing that could not be written is an error once the model is safe.
    fn finish(self) -> Result<()> {
        self.trouble.map_or(Ok(()), Err)
    }
}

impl Observer for Watchers {
    fn begin(&mut self, beginning: &Beginning) -> Result<()> {
        self.write_trace(|trace| trace.begin(beginning));
        self.show(|page| page.begin(beginning))
    }

    fn end(&mut self, ending: &Ending) -> Result<()> {
        self.write_trace(|trace| trace.end(ending));
        self.show(|page| page.end(ending))
    }

    fn failed(&mut self, run: usize, error: &Error) -> Result<()> {
        output::message(&format!("warning: run {} failed: {}", run + 1, messages::of_error(error)));
        Ok(())
    }

    fn no_checkpoint(&mut self, error: Error) -> Result<()> {
        self.tell(error, "training goes on");
        Ok(())
    }

    fn no_file(&mut self, error: Error) -> Result<()> {
        self.tell(error, "what belongs there stays in memory, and training goes on");
        Ok(())
    }

    fn remark(&mut self, text: &str) {
        self.progress.remark(text);
    }

    fn step(&mut self, info: &StepInfo) -> Result<()> {
        let trades = info.moves.iter().filter(|change| change.kind == MoveKind::Trade);
        self.trades.extend(trades.map(|change| (info.run, change.gain)));
        self.progress.step(info)?;
        self.write_trace(|trace| trace.step(info));
        self.show(|page| page.step(info))
    }

    fn written(&self) -> u64 {
        self.trace.as_ref().map_or(self.written, Trace::written)
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
