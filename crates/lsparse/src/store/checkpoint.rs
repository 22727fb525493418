//! Checkpoints: everything that a run needs to go on after it was killed, written whole or not at all.
//!
//! A checkpoint is written under another name, flushed to the disk and renamed, by a thread of its own, one at a time.
//! Layout: 20 bytes of magic, the format, the fingerprint, the content, then the length and a checksum of all before.

use std::fs::{self, File, TryLockError};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::data::part::has_name;
use crate::data::{Pieces, RowSource, Rows, natural_layout};
use crate::error::{Error, Result};
use crate::training::model::Model;
use crate::training::observe::Reached;
use crate::training::rules::Outcome;
use crate::training::schedule::{MemoPlace, remove_orphan};
use crate::training::session::{Places, Snapshot};

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
        Err(Error::Exists {
            path: self.path.clone(),
            detail: "exists already",
            remedy: "give `resume` to go on from it, or remove it",
        })
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

/// What a run was made of, by name: data, settings and the like. A run goes on only where nothing differs but
/// the rules for stopping.
pub type Fingerprint = Vec<(String, String)>;

/// The settings that say when a run ends, and nothing of how it goes.
const STOP_RULES: [&str; 5] = ["laps", "tolerance", "count-tolerance", "max-seconds", "early-stopping"];

/// The settings among a fingerprint.
pub fn print_settings<C: Serialize>(config: &C) -> Fingerprint {
    match serde_json::to_value(config) {
        Ok(serde_json::Value::Object(map)) => {
            // Where a run goes on is said, and no reason to refuse it.
            let map = map.into_iter().filter(|(key, _)| key != "device");
            map.map(|(key, value)| (key, value.to_string())).collect()
        }
        _ => Vec::new(),
    }
}

/// Dense values that are read for a fingerprint, at most: 64 MB of them.
const PRINTED_VALUES: usize = 1 << 23;

/// Sizes of a source of rows and a checksum of it. Its name does not matter.
///
/// The checksum is of every row where rows are sparse, or dense with at most 8 million values. Of larger dense rows
/// it is of as many values, in up to 1024 places that are spread evenly: what changes between these goes unnoticed.
pub fn print_rows(source: &dyn RowSource) -> Result<String> {
    if let Some(print) = source.pieces().map_or(Ok(None), Pieces::print)? {
        return Ok(print);
    }
    let prints: Vec<(u64, u32)> = printed_blocks(source)
        .into_par_iter()
        .map(|(start, count)| print_block(source, start, count))
        .collect::<Result<_>>()?;
    let mut hash = crc32fast::Hasher::new();
    prints.iter().for_each(|print| hash.update(&print.1.to_le_bytes()));
    let (num, dim, checksum) = (source.num_rows(), source.dim(), hash.finalize());
    let entries: u64 = prints.iter().map(|print| print.0).sum();
    let entries = if source.is_sparse() { format!(", {entries} entries,") } else { String::new() };
    Ok(format!("{num} rows of {dim} columns{entries} with checksum {checksum:08x}"))
}

/// The stretches of rows (start, count) that a fingerprint is of.
fn printed_blocks(source: &dyn RowSource) -> Vec<(usize, usize)> {
    const BLOCK_VALUES: usize = 1 << 16;
    let (num, dim) = (source.num_rows(), source.dim());
    if source.is_sparse() || num.saturating_mul(dim) <= PRINTED_VALUES {
        let count = if source.is_sparse() { 1024 } else { BLOCK_VALUES.div_ceil(dim) };
        return (0..num).step_by(count).map(|start| (start, count.min(num - start))).collect();
    }
    let places = (PRINTED_VALUES / dim).clamp(16, 1024).min(num);
    let count = (PRINTED_VALUES / dim / places).max(1);
    let gaps = (places - 1).max(1);
    (0..places).map(|place| ((num - count) * place / gaps, count)).collect()
}

/// The number of values stored in a stretch of rows, and a checksum of it.
pub(super) fn print_block(source: &dyn RowSource, start: usize, count: usize) -> Result<(u64, u32)> {
    let mut rows = Rows::<f64>::new(natural_layout(source), source.dim());
    source.read_f64(start, count, &mut rows)?;
    let mut bytes = Vec::new();
    let values = match &rows {
        Rows::Dense { values, .. } => values,
        Rows::Sparse { indptr, index, value, .. } => {
            bytes.extend(indptr.iter().flat_map(|&i| (i as u64).to_le_bytes()));
            bytes.extend(index.iter().flat_map(|i| i.to_le_bytes()));
            value
        }
    };
    bytes.extend(values.iter().flat_map(|v| v.to_le_bytes()));
    Ok((values.len() as u64, crc32fast::hash(&bytes)))
}

/// A checksum of numbers, for a fingerprint.
pub fn print_numbers(values: &[f64]) -> String {
    let mut hash = crc32fast::Hasher::new();
    values.iter().for_each(|v| hash.update(&v.to_le_bytes()));
    format!("{} numbers with checksum {:08x}", values.len(), hash.finalize())
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

const MAGIC: &[u8; 20] = b"lsparse checkpoint\n\0";
/// Version of the layout. That of a version that was released is read for ever (`tests/versions.rs` of the command).
const FORMAT: u32 = 8;
/// Length and checksum.
const TAIL: usize = 12;

/// Writes the checkpoints of a training.
pub struct Keeper {
    options: Checkpointing,
    fingerprint: Arc<Fingerprint>,
    last: Instant,
    writing: Option<JoinHandle<io::Result<()>>>,
    _lock: Lock,
}

/// Keeps other processes away from a checkpoint and what belongs to it. The system lets go of it when a process is
/// killed.
struct Lock {
    path: PathBuf,
    _file: File,
}

impl Lock {
    fn take(checkpoint: &Path) -> Result<Self> {
        loop {
            // One that its holder has let go of and removed since it was opened locks nothing.
            if let Some(lock) = Lock::hold(Lock::open(checkpoint)?, checkpoint)? {
                return Ok(lock);
            }
        }
    }

    fn open(checkpoint: &Path) -> Result<File> {
        let failed = |source| Error::Checkpoint { path: checkpoint.to_owned(), source };
        File::options().write(true).create(true).truncate(false).open(lock_file(checkpoint)).map_err(failed)
    }

    /// Lock a file that was opened; none if it is not the one that has the name any more.
    fn hold(file: File, checkpoint: &Path) -> Result<Option<Self>> {
        let path = lock_file(checkpoint);
        let failed = |source| Error::Checkpoint { path: checkpoint.to_owned(), source };
        if file.metadata().map_err(failed)?.len() > 0 {
            return Err(Error::Exists {
                path,
                detail: "is not the lock of a checkpoint",
                remedy: "move it, or give another checkpoint file",
            });
        }
        match file.try_lock() {
            Ok(()) if !has_name(&file, &path) => Ok(None),
            Ok(()) => Ok(Some(Lock { path, _file: file })),
            Err(TryLockError::WouldBlock) => Err(Error::Exists {
                path: checkpoint.to_owned(),
                detail: "belongs to a run that is going on",
                remedy: "wait for it, or give another checkpoint file",
            }),
            // Some file systems have no locks: then it is up to the user.
            Err(TryLockError::Error(source)) if source.kind() == io::ErrorKind::Unsupported => {
                Ok(Some(Lock { path, _file: file }))
            }
            Err(TryLockError::Error(source)) => Err(failed(source)),
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        if cfg!(unix) {
            let _ = fs::remove_file(&self.path);
        }
    }
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

fn lock_file(checkpoint: &Path) -> PathBuf {
    with_ending(checkpoint, ".lock")
}

fn part_file(checkpoint: &Path) -> PathBuf {
    with_ending(checkpoint, ".part")
}

fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

/// Passes bytes on, and keeps their number and checksum.
struct Summed<W> {
    inner: W,
    length: u64,
    hash: crc32fast::Hasher,
}

impl<W: Write> Write for Summed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.inner.write(bytes)?;
        self.length += count as u64;
        self.hash.update(&bytes[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

fn write<M: Model>(path: &Path, fingerprint: &Fingerprint, content: &Content<M>) -> io::Result<()> {
    // Always the same name, so that being killed many times leaves one file behind and not many.
    let part = part_file(path);
    let result = write_part(&part, fingerprint, content).and_then(|()| fs::rename(&part, path));
    if result.is_err() {
        let _ = fs::remove_file(&part);
        return result;
    }
    // The new name must be on disk too; systems that cannot flush a folder do not need it.
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match File::open(folder) {
        Ok(folder) if cfg!(unix) => folder.sync_all(),
        _ => Ok(()),
    }
}

fn write_part<M: Model>(part: &Path, fingerprint: &Fingerprint, content: &Content<M>) -> io::Result<()> {
    let out = BufWriter::with_capacity(1 << 18, File::create(part)?);
    let mut out = Summed { inner: out, length: 0, hash: crc32fast::Hasher::new() };
    out.write_all(MAGIC)?;
    out.write_all(&FORMAT.to_le_bytes())?;
    encode(fingerprint, &mut out)?;
    encode(content, &mut out)?;
    let (length, checksum) = (out.length, out.hash.clone().finalize());
    let mut out = out.inner;
    out.write_all(&length.to_le_bytes())?;
    out.write_all(&checksum.to_le_bytes())?;
    out.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()
}

fn encode<V: Serialize>(value: &V, out: &mut impl Write) -> io::Result<()> {
    match postcard::to_io(value, &mut *out) {
        Ok(_) => Ok(()),
        // The encoder keeps the system's own error to itself; writing once more gives it.
        Err(error) => Err(out.flush().err().unwrap_or_else(|| io::Error::other(error))),
    }
}

/// Read a checkpoint of a run with this fingerprint.
fn read<M: Model>(path: &Path, fingerprint: &Fingerprint) -> Result<Found<M>> {
    let bytes = read_bytes(path)?;
    let (print, body) = split(path, &bytes)?;
    let is_rule = |name: &str| STOP_RULES.contains(&name);
    if let Some(detail) = difference(&print, fingerprint, |name| !is_rule(name)) {
        let remedy = "give the data and settings of that run, or another checkpoint file".into();
        return Err(Error::Format { path: path.to_owned(), detail, remedy });
    }
    let by_other_rules = difference(&print, fingerprint, is_rule).is_some();
    postcard::from_bytes(body).map(|content| Found { content, by_other_rules }).map_err(|_| damaged(path))
}

fn read_bytes(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).map_err(|source| Error::Io { path: path.to_owned(), action: "read", source })
}

fn damaged(path: &Path) -> Error {
    let remedy = "start again with another checkpoint file".into();
    Error::Format { path: path.to_owned(), detail: "it is damaged".into(), remedy }
}

/// The fingerprint of a checkpoint, and the bytes of its content.
fn split<'a>(path: &Path, bytes: &'a [u8]) -> Result<(Fingerprint, &'a [u8])> {
    let refuse =
        |(detail, remedy): (String, &str)| Error::Format { path: path.to_owned(), detail, remedy: remedy.to_owned() };
    postcard::take_from_bytes(body_of(bytes).map_err(refuse)?).map_err(|_| damaged(path))
}

/// What lies between head and tail of a file that is a checkpoint, whole; or what is wrong and what to do.
fn body_of(bytes: &[u8]) -> std::result::Result<&[u8], (String, &'static str)> {
    let other = "give a checkpoint file of lsparse, or another name to start with";
    let Some(rest) = bytes.strip_prefix(MAGIC) else { return Err(("it is not a checkpoint".into(), other)) };
    let cut = || ("the checkpoint is cut short or damaged".to_owned(), "start again with another checkpoint file");
    let (format, rest) = rest.split_first_chunk::<4>().ok_or_else(cut)?;
    let format = u32::from_le_bytes(*format);
    if format != FORMAT {
        let remedy = if format > FORMAT { "update lsparse" } else { "start again with another checkpoint file" };
        return Err((format!("it has checkpoint format {format}, this version reads {FORMAT}"), remedy));
    }
    let (body, tail) = rest.split_last_chunk::<TAIL>().ok_or_else(cut)?;
    let (length, checksum) = tail.split_at(8);
    let whole = &bytes[..bytes.len() - TAIL];
    let sound = length == (whole.len() as u64).to_le_bytes() && checksum == crc32fast::hash(whole).to_le_bytes();
    if sound { Ok(body) } else { Err(cut()) }
}

/// The first thing in which two runs differ, among those that matter.
fn difference(then: &Fingerprint, now: &Fingerprint, matters: impl Fn(&str) -> bool) -> Option<String> {
    let of = |print: &Fingerprint, name: &str| print.iter().find(|entry| entry.0 == name).map(|entry| entry.1.clone());
    let names = now.iter().chain(then).map(|entry| entry.0.as_str()).filter(|name| matters(name));
    let mut pairs = names.map(|name| (name, of(then, name), of(now, name)));
    let (name, then, now) = pairs.find(|(_, then, now)| then != now)?;
    let show = |value: Option<String>| value.unwrap_or_else(|| "none".into());
    Some(format!("it is of another run: {name} was {}, and is {} now", show(then), show(now)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{CsrRows, MemoryRows};
    use crate::likelihood::ClusterSummary;
    use crate::mixture::{CarriedClusters, Mixture, SearchState};
    use crate::training::rules::Progress;
    use crate::training::schedule::{self, Schedule, Stochastic};
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    type Tested = Mixture<f64>;

    fn content(total: f64) -> Content<Tested> {
        let mut schedule = Stochastic::new(vec![0.5; 2], 1.0, 0.6, ChaCha8Rng::seed_from_u64(1));
        let snapshot: schedule::Snapshot<ClusterSummary> = schedule.snapshot();
        let session = Snapshot {
            progress: Progress::default(),
            total: ClusterSummary {
                counts: vec![total; 3],
                stats: vec![0.5; 3],
                width: 1,
                entropy: f64::NAN,
                trial: None,
            },
            schedule: snapshot.state,
            carried: CarriedClusters { search: SearchState::of(2).into(), arrays: None, growth: None },
            memories: vec![None, None],
            tally: Default::default(),
            files: Vec::new(),
        };
        let (backend, runs) = ("plain".into(), vec![(1.0, None)]);
        Content { run: 0, finished: false, written: 7, backend, runs, best: None, best_lap: None, session }
    }

    fn print(rows: &str) -> Fingerprint {
        vec![("data".into(), rows.into()), ("laps".into(), "3".into())]
    }

    /// Whoever opened the lock before its holder let go of it must not believe to hold it while others can take it anew.
    #[cfg(unix)]
    #[test]
    fn a_run_may_go_on_on_another_device() {
        let there = serde_json::json!({"device": "cuda:0", "clusters": 3});
        let here = serde_json::json!({"clusters": 3});
        assert_eq!(print_settings(&there), print_settings(&here));
    }

    #[test]
    fn a_lock_that_was_removed_locks_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("c");
        let first = Lock::take(&path).unwrap();
        assert!(Lock::take(&path).is_err());
        let opened = Lock::open(&path).unwrap();
        drop(first);
        let third = Lock::take(&path).unwrap();
        assert!(Lock::hold(opened, &path).unwrap().is_none());
        assert!(Lock::take(&path).is_err());
        drop(third);
        assert!(Lock::take(&path).is_ok());
    }

    #[test]
    fn what_is_damaged_foreign_or_of_another_run_is_refused_and_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("c");
        write(&path, &print("a"), &content(1.5)).unwrap();
        let back = read::<Tested>(&path, &print("a")).unwrap();
        assert_eq!((back.content.session.total.counts[0], back.content.written, back.by_other_rules), (1.5, 7, false));
        // Only when the run ends may differ.
        let longer = vec![("data".into(), "a".into()), ("laps".into(), "4".into())];
        assert!(read::<Tested>(&path, &longer).unwrap().by_other_rules);
        let text = |print: &Fingerprint| read::<Tested>(&path, print).err().unwrap().to_string();
        assert!(text(&print("b")).contains("data was a, and is b now"));
        let good = fs::read(&path).unwrap();
        for cut in 0..good.len() {
            fs::write(&path, &good[..cut]).unwrap();
            assert!(text(&print("a")).contains("checkpoint"), "cut at {cut}");
        }
        for at in 0..good.len() {
            let mut bytes = good.clone();
            bytes[at] ^= 4;
            fs::write(&path, &bytes).unwrap();
            let options = Checkpointing { resume: true, ..Checkpointing::new(&path) };
            assert!(Keeper::open::<Tested>(options, print("a")).is_err(), "byte {at}");
            assert_eq!(fs::read(&path).unwrap(), bytes);
        }
        let fresh = Keeper::open::<Tested>(Checkpointing::new(&path), print("a"));
        assert!(fresh.err().unwrap().to_string().contains("`resume`"));
    }

    #[test]
    fn rows_are_told_apart_by_every_value_and_not_by_their_name() {
        let dense = |name: &str, changed: Option<usize>| {
            let mut values = vec![1.0; 200_000];
            changed.into_iter().for_each(|at| values[at] = 2.0);
            print_rows(&MemoryRows::new(name, 2, values).unwrap()).unwrap()
        };
        let plain = dense("a", None);
        assert_eq!(plain, dense("b", None));
        for at in [0, 77_777, 123_456, 199_999] {
            assert_ne!(plain, dense("a", Some(at)), "value {at}");
        }
        let sparse = |column: u32, value: f64, num: usize| {
            let indptr = (0..=5000).map(|row| if row > 3210 { num } else { 0 }).collect();
            let (index, value) = ((0..num as u32).map(|i| column + i).collect(), vec![value; num]);
            print_rows(&CsrRows::new("s", 9, indptr, index, value).unwrap()).unwrap()
        };
        let prints = [sparse(1, 1.0, 1), sparse(2, 1.0, 1), sparse(1, 2.0, 1), sparse(1, 1.0, 2), sparse(1, 1.0, 0)];
        let apart: std::collections::HashSet<&String> = prints.iter().collect();
        assert_eq!(apart.len(), prints.len(), "{prints:?}");
        assert!(prints[3].starts_with("5000 rows of 9 columns, 2 entries, with checksum "), "{}", prints[3]);
    }

    /// A source of ones that is too large to read in full.
    struct Large {
        rows: usize,
        dim: usize,
        read: std::sync::atomic::AtomicUsize,
    }

    impl RowSource for Large {
        fn name(&self) -> &str {
            "large"
        }

        fn num_rows(&self) -> usize {
            self.rows
        }

        fn dim(&self) -> usize {
            self.dim
        }

        fn element(&self) -> crate::data::Element {
            crate::data::Element::F64
        }

        fn is_sparse(&self) -> bool {
            false
        }

        fn read_f32(&self, _start: usize, _count: usize, _out: &mut Rows<f32>) -> Result<()> {
            unreachable!("a fingerprint reads 64 bits")
        }

        fn read_f64(&self, start: usize, count: usize, out: &mut Rows<f64>) -> Result<()> {
            assert!(count > 0 && start + count <= self.rows);
            self.read.fetch_add(count * self.dim, std::sync::atomic::Ordering::Relaxed);
            (0..count).for_each(|_| out.push_dense(&vec![1.0; self.dim]));
            Ok(())
        }
    }

    #[test]
    fn of_large_dense_rows_a_part_is_read() {
        for (rows, dim) in [(1 << 40, 4), (10_000, 1000), (1, PRINTED_VALUES + 1), (8_388_609, 1)] {
            let source = Large { rows, dim, read: Default::default() };
            print_rows(&source).unwrap();
            let read = source.read.into_inner();
            assert!(read <= PRINTED_VALUES.max(dim) && read >= PRINTED_VALUES / 2, "{rows} x {dim}: {read}");
        }
    }
}
