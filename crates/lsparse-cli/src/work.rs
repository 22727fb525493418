//! `lsparse work`: work out batches of a training that lives in a folder, and leave what came of them there.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use lsparse::backend::{Place, with_threads};
use lsparse::elsewhere::WholeData;
use lsparse::shared::{RoundAt, SharedFolder, Stage, Worked};
use lsparse::{Error, Result};
use serde_json::json;

use crate::cli::Family;
use crate::fit::{documents_of, rows_of, sequences_of};
use crate::fold::{begun_with, open_folder};
use crate::output::{self, message};
use crate::parse;

/// Work out batches of a training that was begun with lsparse fit ... --shared FOLDER.
///
/// What came of a batch is left in the folder, whole or not at all, for lsparse fold. A worker may be killed at any time and
/// started again; work that was done twice is the same both times. Paths of the data are those that the training was begun
/// with, so that all machines are to see them under the same names.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES:
  lsparse work run --batch $SLURM_ARRAY_TASK_ID         a task of a job array
  lsparse work run                                      all batches of this round that nobody has worked out
  lsparse work run --wait --threads 4                   stay until the training has ended
  lsparse fold --help                                   whole scripts")]
pub struct WorkArgs {
    /// The folder of the training.
    #[arg(value_name = "FOLDER")]
    pub folder: PathBuf,
    /// The batch to work out [default: all of this round that nobody has worked out].
    #[arg(long, value_name = "BATCH", conflicts_with = "wait")]
    pub batch: Option<usize>,
    /// Stay until the training has ended, and work out whatever comes. A batch that another worker has begun and not
    /// ended in three times the time that one took here is begun again.
    #[arg(long)]
    pub wait: bool,
    /// Threads; the result is the same with any number [default: one a core].
    #[arg(long, value_name = "N", value_parser = parse::threads)]
    pub threads: Option<usize>,
    /// Print the batches that were worked out as JSON.
    #[arg(long)]
    pub json: bool,
    /// Print nothing but errors.
    #[arg(long, short)]
    pub quiet: bool,
}

/// Time between two looks at the folder.
const LOOK: Duration = Duration::from_millis(200);

/// Other workers have at least so much time for a batch.
const LEAST_PATIENCE: Duration = Duration::from_secs(10);

pub fn run(args: &WorkArgs) -> Result<()> {
    with_threads(args.threads, || {
        let folder = open_folder(&args.folder)?;
        let (theirs, ours) = (&folder.training().instructions, Place::default().name());
        if *theirs != ours {
            output::note(&format!(
                "the training was begun with {theirs}, this machine has {ours}: last digits may differ (LSPARSE_SIMD=portable \
                 on all machines makes them agree)"
            ));
        }
        match begun_with(&folder)? {
            Family::Mixture(fit) => {
                let (rows, weights) = rows_of(&fit)?;
                let data = WholeData { weights: weights.as_deref(), ..WholeData::of(rows.as_ref()) };
                Worker::new(args, &folder, data).work()
            }
            Family::Topics(fit) => Worker::new(args, &folder, WholeData::of(&documents_of(&fit)?)).work(),
            Family::Sequence(fit) => {
                let (rows, groups) = sequences_of(&fit)?;
                let data = WholeData { groups: Some(&groups), ..WholeData::of(rows.as_ref()) };
                Worker::new(args, &folder, data).work()
            }
        }
    })?
}

/// Who works, with the data at hand.
struct Worker<'a> {
    args: &'a WorkArgs,
    folder: &'a SharedFolder,
    data: WholeData<'a>,
    /// How long a batch took here last.
    took: Duration,
    /// The round that was looked at last, and its batches that others have begun: how often, and since when that is known
    /// here.
    begun: (Option<RoundAt>, HashMap<usize, (usize, Instant)>),
    worked: Vec<usize>,
}

impl<'a> Worker<'a> {
    fn new(args: &'a WorkArgs, folder: &'a SharedFolder, data: WholeData<'a>) -> Self {
        let (took, begun, worked) = Default::default();
        Worker { args, folder, data, took, begun, worked }
    }

    fn work(mut self) -> Result<()> {
        loop {
            match (self.folder.stage()?, self.args.batch) {
                (Some(Stage::Ended), _) => break self.say(|| "the training has ended".into()),
                (Some(Stage::Round(round)), Some(batch)) => {
                    self.check_batch(&round, batch)?;
                    self.work_out(&round, batch)?;
                    break;
                }
                (Some(Stage::Round(round)), None) => match self.next(&round) {
                    Some(batch) => self.work_out(&round, batch)?,
                    None if self.args.wait => std::thread::sleep(LOOK),
                    None => break,
                },
                (None, _) if self.args.wait => std::thread::sleep(LOOK),
                (None, _) => {
                    let path = self.args.folder.clone();
                    let (detail, remedy) = ("its training has no round yet".into(), "run lsparse fold first".into());
                    return Err(Error::Format { path, detail, remedy });
                }
            }
        }
        match self.args.json {
            true => output::print_json(&json!({ "batches": self.worked })),
            false => Ok(()),
        }
    }

    /// The batch to be worked out now: the first that nobody has begun, or that somebody has begun and may not end.
    fn next(&mut self, round: &RoundAt) -> Option<usize> {
        let missing = self.folder.missing(round);
        if let Some(&batch) = missing.iter().find(|&&batch| self.folder.claim(round, batch, 0)) {
            return Some(batch);
        }
        if !self.args.wait {
            return missing.first().copied();
        }
        if self.begun.0.as_ref() != Some(round) {
            self.begun = (Some(round.clone()), HashMap::new());
        }
        let patience = LEAST_PATIENCE.max(3 * self.took);
        for batch in missing {
            let (times, since) = self.begun.1.entry(batch).or_insert((0, Instant::now()));
            if since.elapsed() > patience {
                (*times, *since) = (*times + 1, Instant::now());
                if self.folder.claim(round, batch, *times) {
                    return Some(batch);
                }
            }
        }
        None
    }

    fn work_out(&mut self, round: &RoundAt, batch: usize) -> Result<()> {
        let begun = Instant::now();
        let worked = self.folder.work(round, batch, &self.data).map_err(|error| self.named(batch, error))?;
        match worked {
            Worked::Now => {
                self.took = begun.elapsed();
                self.worked.push(batch);
                self.say(|| format!("batch {batch} of visit {} is worked out", round.visit));
            }
            Worked::Before => self.say(|| format!("batch {batch} had been worked out")),
            Worked::TooLate => self.say(|| format!("batch {batch} was folded in meanwhile")),
        }
        Ok(())
    }

    /// What went wrong with a batch.
    fn named(&self, batch: usize, error: Error) -> Error {
        match error {
            Error::Elsewhere { .. } | Error::Format { .. } | Error::Unwritable { .. } | Error::WrongShape { .. } => {
                error
            }
            _ => Error::Elsewhere { what: format!("batch {batch}: {error}") },
        }
    }

    fn check_batch(&self, round: &RoundAt, batch: usize) -> Result<()> {
        if round.batches.contains(&batch) {
            return Ok(());
        }
        let names: Vec<String> = round.batches.iter().map(usize::to_string).collect();
        let problem = format!("{batch} is not of this round");
        Err(Error::Config { setting: "batch", problem, remedy: format!("give one of {}", names.join(", ")) })
    }

    fn say(&self, text: impl FnOnce() -> String) {
        if !self.args.quiet {
            message(&text());
        }
    }
}
