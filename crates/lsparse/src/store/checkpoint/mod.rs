//! Checkpoints: everything that a run needs to go on after it was killed.
//!
//! A checkpoint is written under another name, flushed to the disk and renamed, by a thread of its own, one at a time.

mod file;
mod fingerprint;
mod lock;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::training::model::Model;
use crate::training::observe::Reached;
use crate::training::rules::Outcome;
use crate::training::schedule::{MemoPlace, remove_orphan};
use crate::training::session::{Places, Snapshot};

use file::{read, read_bytes, split, write};
pub(super) use fingerprint::print_block;
pub use fingerprint::{Fingerprint, print_numbers, print_rows, print_settings};
use lock::{Lock, lock_file};

/// Where and when checkpoints are written, and whether to go on from one.
#[derive(Clone, Debug)]
pub struct Checkpointing {
    /// The file.
    pub path: PathBuf,
    /// Time between two of them; zero for one a step, as far as the disk keeps up.
    pub every: Duration,
    /// Go on from the checkpoint that is there; with none the run starts afresh.
    pub resume: bool,
    /// Take this batch out of the run that is there, instead of training on. Seeds, and the local optimum that
    /// training has come to, may still reflect it.
    pub forget_batch: Option<usize>,
}

impl Checkpointing {
    /// Write to `path` once a minute.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Checkpointing { path: path.into(), every: Duration::from_secs(60), resume: false, forget_batch: None }
    }

    /// The seed of the run to go on from, if there is one: who gave none goes on with it.
    pub fn seed(&self) -> Result<Option<u64>> {
        if !(self.resume && self.path.exists()) {
            return Ok(None);
        }
        let (print, _) = split(&self.path, &read_bytes(&self.path)?)?;
        Ok(print.iter().find(|(name, _)| name == "seed").and_then(|(_, value)| value.parse().ok()))
    }

    /// Refuse to write over the checkpoint of another run.
    pub fn check_free(&self) -> Result<()> {
        if self.resume || !self.path.exists() {
            return Ok(());
        }
        let path = self.path.clone();
        if path.is_dir() {
            let source = io::Error::new(io::ErrorKind::IsADirectory, "it is a folder");
            return Err(Error::Unwritable { path, source });
        }
        // It may be anything, so that nobody is told to remove it.
        let remedy = "give `resume` to go on from it, or choose another file";
        Err(Error::Exists { path, detail: "exists already", remedy })
    }

    /// The file for remembered statistics that do not fit into memory.
    pub fn memo_file(&self) -> PathBuf {
        with_ending(&self.path, ".memos")
    }

    /// The file for the clusters of rows that do not fit into memory.
    pub fn rows_file(&self) -> PathBuf {
        with_ending(&self.path, ".rows")
    }

    /// The files next to it that a run may write: what does not fit into memory, the lock, and a checkpoint that is not
    /// whole yet.
    pub fn side_files(&self) -> [PathBuf; 4] {
        [self.rows_file(), self.memo_file(), lock_file(&self.path), part_file(&self.path)]
    }
}

/// What a run keeps on disk while it goes.
#[derive(Clone, Debug, Default)]
pub struct Storage {
    /// Checkpoints, if any are wanted.
    pub checkpoint: Option<Checkpointing>,
    /// Bytes of memory for what is remembered of batches and rows; what is beyond goes to a file. No limit by default.
    pub memo_memory: Option<u64>,
}

impl Storage {
    /// Where what is remembered goes. Rows that remember something each have half of the memory.
    pub fn places(&self, keeps_rows: bool) -> Result<Places> {
        let file = |name: fn(&Checkpointing) -> PathBuf| self.checkpoint.as_ref().map(name);
        let half = self.memo_memory.filter(|_| keeps_rows).map(|bytes| bytes / 2);
        let left = self.memo_memory.map(|bytes| bytes - half.unwrap_or(0));
        let places = Places {
            memos: MemoPlace { limit: left, file: file(Checkpointing::memo_file) },
            rows: MemoPlace { limit: half, file: file(Checkpointing::rows_file) },
        };
        places.memos.check()?;
        places.rows.check()?;
        Ok(places)
    }
}

/// The best of the runs that have ended.
#[derive(Serialize, Deserialize)]
pub struct StoredRun {
    /// Which run.
    pub run: usize,
    /// How it ended.
    pub outcome: Outcome,
    /// Its model file.
    pub model: Vec<u8>,
}

/// What a checkpoint holds.
#[derive(Serialize, Deserialize)]
#[serde(bound = "")]
pub struct Content<M: Model> {
    /// The run under way, from 0.
    pub run: usize,
    /// Whether all runs have ended.
    pub finished: bool,
    /// Bytes that observers had written.
    pub written: u64,
    /// What it was trained with, an instruction set or a GPU: others round otherwise.
    pub backend: String,
    /// Final objective and held-out score of every run that has ended.
    pub runs: Vec<(f64, Option<f64>)>,
    /// The best of them.
    pub best: Option<Arc<StoredRun>>,
    /// The best lap so far of the run under way, where it is kept.
    pub best_lap: Option<Arc<StoredRun>>,
    /// The session of the run under way.
    pub session: Snapshot<M>,
}

impl<M: Model> Content<M> {
    /// How far the training has come, for observers, and what it goes on with.
    pub fn reached(&self, goes_on_with: String) -> Reached {
        let (step, backend) = (self.session.progress.step, self.backend.clone());
        Reached { run: self.run, step, written: self.written, backend, goes_on_with }
    }
}

/// A checkpoint to go on from.
pub struct Found<M: Model> {
    /// What it holds.
    pub content: Content<M>,
    /// Whether its run was to end by other rules.
    pub by_other_rules: bool,
}

/// Writes the checkpoints of a training.
pub struct Keeper {
    options: Checkpointing,
    fingerprint: Arc<Fingerprint>,
    last: Instant,
    writing: Option<JoinHandle<io::Result<()>>>,
    _lock: Lock,
}

impl Keeper {
    /// Get ready, and read the checkpoint to go on from where one is wanted and there.
    pub fn open<M: Model>(options: Checkpointing, fingerprint: Fingerprint) -> Result<(Self, Option<Found<M>>)> {
        options.check_free()?;
        let lock = Lock::take(&options.path)?;
        let found = match options.resume && options.path.exists() {
            true => Some(read(&options.path, &fingerprint)?),
            false => None,
        };
        let (fingerprint, last) = (Arc::new(fingerprint), Instant::now());
        let keeper = Keeper { options, fingerprint, last, writing: None, _lock: lock };
        Ok((keeper, found))
    }

    /// Whether it is time for the next.
    pub fn is_due(&self) -> bool {
        self.writing.is_none() && self.last.elapsed() >= self.options.every
    }

    /// Whether the one under way is written, or could not be.
    pub fn is_done(&self) -> bool {
        self.writing.as_ref().is_some_and(JoinHandle::is_finished)
    }

    /// The error of a checkpoint that could not be written.
    pub fn failed(&self, source: io::Error) -> Error {
        Error::Checkpoint { path: self.options.path.clone(), source }
    }

    /// Wait for the one under way. Whether there was one.
    pub fn wait(&mut self) -> Result<bool> {
        let Some(writing) = self.writing.take() else { return Ok(false) };
        let result = writing.join().unwrap_or_else(|_| Err(io::Error::other("the thread that writes it panicked")));
        result.map_err(|source| self.failed(source))?;
        Ok(true)
    }

    /// Begin to write the next; there must be none under way.
    pub fn begin<M: Model>(&mut self, content: Content<M>) {
        let (path, fingerprint) = (self.options.path.clone(), Arc::clone(&self.fingerprint));
        self.last = Instant::now();
        self.writing = Some(std::thread::spawn(move || {
            // What the checkpoint refers to must be on disk before it is.
            content.session.files.iter().try_for_each(|file| file.sync_data())?;
            write(&path, &fingerprint, &content)
        }));
    }
}

impl Drop for Keeper {
    /// A run that ends by an error still lets the checkpoint under way be written. What was put into files for a
    /// checkpoint that never came to be is of no use to anybody.
    fn drop(&mut self) {
        if let Some(writing) = self.writing.take() {
            let _ = writing.join();
        }
        if !self.options.path.exists() {
            remove_orphan(&self.options.memo_file());
            remove_orphan(&self.options.rows_file());
        }
    }
}

fn part_file(checkpoint: &Path) -> PathBuf {
    with_ending(checkpoint, ".part")
}

fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}
