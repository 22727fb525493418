//! Trainings whose batches others work out: the folder of `--shared`, who works, and what is printed when it is their turn.

use std::fmt::Display;
use std::path::Path;

use lsparse::elsewhere::{Here, WholeData};
use lsparse::shared::{ByFolder, SharedFolder, Training};
use lsparse::training::exchange::Engine;
use lsparse::{Error, Result};
use serde::Serialize;
use serde_json::json;

use super::args::RunArgs;
use crate::format::counted;
use crate::output::{self, check_not_input, message};
use crate::stdin::is_stdin;

/// Batches of a round where others work and nothing else is said.
const BATCHES_PER_ROUND: usize = 8;

/// How a training goes on that was begun with `--shared`.
#[derive(Clone, Debug)]
pub struct Fold {
    pub folder: SharedFolder,
    /// Whether to stay until all is done.
    pub waits: bool,
}

impl RunArgs {
    /// The folder that others work through, if they do.
    pub fn folder(&self) -> Option<&Path> {
        self.fold.as_ref().map(|fold| fold.folder.path()).or(self.shared.as_deref())
    }

    /// A folder to begin with has nothing in it, and what is read is there for all.
    pub fn check_folder(&self, inputs: &[&Path]) -> Result<()> {
        if inputs.iter().any(|input| is_stdin(input)) {
            let problem = "standard input is there for one process alone".into();
            return Err(Error::Config { setting: "shared", problem, remedy: "give a file".into() });
        }
        if let (Some(path), None) = (&self.shared, &self.fold) {
            output::check_named(path, "folder")?;
            check_not_input("shared", path, inputs)?;
            SharedFolder::check_free(path)?;
        }
        Ok(())
    }

    /// The folder that others work through, made if the training begins.
    pub fn open_folder(&self, data: &WholeData<'_>) -> Result<Option<SharedFolder>> {
        let path = match (&self.fold, &self.shared) {
            (Some(fold), _) => return Ok(Some(fold.folder.clone())),
            (None, None) => return Ok(None),
            (None, Some(path)) => path,
        };
        let unreadable = |source| Error::Io { path: ".".into(), action: "find", source };
        let started_in = std::env::current_dir().map_err(unreadable)?;
        let arguments = std::env::args_os().skip(1).map(|word| {
            word.into_string().map_err(|word| Error::Config {
                setting: "shared",
                problem: format!("{word:?} is no text, and others are to read it"),
                remedy: "give names in UTF-8".into(),
            })
        });
        let arguments = arguments.collect::<Result<_>>()?;
        let batches_per_round = self.batches_per_round.unwrap_or(BATCHES_PER_ROUND);
        let training = Training::new(data, batches_per_round, arguments, started_in);
        SharedFolder::create(path, training, data.rows).map(Some)
    }

    /// Who works batches out, where it is not done step by step.
    pub fn engine<'a>(&self, folder: Option<&'a SharedFolder>, data: WholeData<'a>) -> Option<Box<dyn Engine + 'a>> {
        let waits = self.fold.as_ref().is_some_and(|fold| fold.waits);
        match (folder, self.batches_per_round) {
            (Some(folder), _) => Some(Box::new(ByFolder::new(folder, waits))),
            (None, Some(batches_per_round)) => Some(Box::new(Here::new(data, batches_per_round))),
            (None, None) => None,
        }
    }

    /// Print how a training went. Where others work standard output is for their batches, of which there are none now.
    pub fn print_report<R: Serialize + Display>(&self, report: &R) -> Result<()> {
        match (self.folder(), self.json) {
            (Some(_), true) => output::print_json(&json!({ "batches": [], "report": report })),
            (Some(_), false) if !self.quiet => {
                message(&report.to_string());
                Ok(())
            }
            (None, true) => output::print_json(report),
            (None, false) if !self.quiet => output::print(&report.to_string()),
            _ => Ok(()),
        }
    }

    /// Where others work: print the batches that are to be worked out now, or let workers go when all is done.
    pub fn hand_on(&self, trained: Result<()>) -> Result<()> {
        let Some(path) = self.folder() else { return trained };
        match trained {
            Ok(()) => SharedFolder::open(path)?.end(),
            Err(Error::Awaiting { batches, is_new: true, .. }) => {
                if !self.quiet {
                    let folder = path.display();
                    let number = counted(batches.len(), "batch", "batches");
                    message(&format!(
                        "{number} to be worked out: lsparse work {folder} --batch N for each, then lsparse fold {folder}"
                    ));
                }
                print_batches(&batches, self.json)
            }
            Err(error) => {
                // What could not begin leaves nothing in the way.
                if let (None, Ok(folder)) = (&self.fold, SharedFolder::open(path)) {
                    folder.abandon();
                }
                Err(error)
            }
        }
    }
}

/// Batches as schedulers of job arrays take them.
pub fn print_batches(batches: &[usize], json: bool) -> Result<()> {
    match (json, batches.is_empty()) {
        (true, _) => output::print_json(&json!({ "batches": batches })),
        (false, true) => Ok(()),
        (false, false) => {
            let names: Vec<String> = batches.iter().map(usize::to_string).collect();
            output::print(&format!("{}\n", names.join(",")))
        }
    }
}
