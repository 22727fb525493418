//! A training whose batches are worked out by whoever sees its folder: rounds as files, each there whole or not at all.
//!
//! `training.json` says what is trained, `round.json` which batches are to be worked out now, and `session` is the
//! checkpoint of who folds. `rows` has checksums of the data, since copies of it may be stale. `rounds/RUN-VISIT/` has what a round takes (`known`, `parameters`, a `ticket-N` for each batch)
//! and, once somebody has worked it out, a `summary-N` of each. Nobody waits for anything but files: whoever is killed is
//! started again, and what is worked out twice is the same both times.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::backend::Place;
use crate::data::{Groups, RowSource};
use crate::elsewhere::{Job, WholeData, work_batch};
use crate::error::{Error, Result};
use crate::store::checkpoint::print_numbers;
use crate::store::prints::RowPrints;
use crate::training::exchange::{Engine, Round, pack, unpack};

/// What is trained, for all who take part.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Training {
    /// The version of this library: bytes are exchanged between the same.
    pub version: String,
    /// The instruction set of who began it: others round otherwise.
    pub instructions: String,
    /// Rows of the data.
    pub rows: usize,
    /// Columns of the data.
    pub columns: usize,
    /// What the weights of the rows are known by, if they have any.
    pub weights: Option<String>,
    /// What the lengths of the sequences are known by, if rows are sequences.
    pub groups: Option<String>,
    /// Batches of a round.
    pub batches_per_round: usize,
    /// The arguments that it was begun with.
    pub arguments: Vec<String>,
    /// The folder that their paths start from.
    pub started_in: PathBuf,
}

impl Training {
    /// A training of these rows by this process.
    pub fn new(data: &WholeData<'_>, batches_per_round: usize, arguments: Vec<String>, started_in: PathBuf) -> Self {
        Training {
            version: env!("CARGO_PKG_VERSION").into(),
            instructions: Place::default().name(),
            rows: data.rows.num_rows(),
            columns: data.rows.dim(),
            weights: data.weights.map(print_numbers),
            groups: data.groups.map(print_lengths),
            batches_per_round,
            arguments,
            started_in,
        }
    }
}

/// A round under way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoundAt {
    /// The run.
    pub run: usize,
    /// Visits of the run before the first of its batches.
    pub visit: u64,
    /// Its batches.
    pub batches: Vec<usize>,
    /// The checksum of its parameters.
    pub checksum: u32,
}

/// How far a training is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// Batches are to be worked out.
    Round(RoundAt),
    /// All is done.
    Ended,
}

/// What became of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Worked {
    /// It was worked out.
    Now,
    /// Somebody had done so.
    Before,
    /// The round was folded in meanwhile.
    TooLate,
}

/// The folder of a training.
#[derive(Clone, Debug)]
pub struct SharedFolder {
    path: PathBuf,
    training: Training,
}

const TRAINING: &str = "training.json";
const ROWS: &str = "rows";
const ROUND: &str = "round.json";
const ROUNDS: &str = "rounds";

/// Time between two looks at a folder.
const LOOK: Duration = Duration::from_millis(100);

impl SharedFolder {
    /// Refuse a folder that something is in.
    pub fn check_free(path: &Path) -> Result<()> {
        let (detail, remedy) = match fs::read_dir(path) {
            Err(source) if source.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(source) => return Err(Error::Io { path: path.to_owned(), action: "read", source }),
            Ok(_) if path.join(TRAINING).exists() => {
                ("holds a training already", "go on with it by lsparse fold, or give another folder")
            }
            Ok(mut entries) => match entries.next() {
                None => return Ok(()),
                Some(_) => ("is not empty", "give a folder that is empty or not there yet"),
            },
        };
        Err(Error::Exists { path: path.to_owned(), detail, remedy })
    }

    /// A folder for a training that begins on these rows.
    pub fn create(path: &Path, training: Training, rows: &dyn RowSource) -> Result<Self> {
        SharedFolder::check_free(path)?;
        let folder = SharedFolder { path: path.to_owned(), training };
        make_folder(&path.join(ROUNDS))?;
        write_whole(&path.join(ROWS), &[&pack(&RowPrints::of(rows)?)?])?;
        write_json(&path.join(TRAINING), &folder.training)?;
        Ok(folder)
    }

    /// The folder of a training that was begun.
    pub fn open(path: &Path) -> Result<Self> {
        let file = path.join(TRAINING);
        if path.is_dir() && !file.exists() {
            let detail = "it is not the folder of a training".into();
            let remedy = "give one that was made with `shared`".into();
            return Err(Error::Format { path: path.to_owned(), detail, remedy });
        }
        let training: Training = read_json(&file)?;
        if training.version != env!("CARGO_PKG_VERSION") {
            let (theirs, ours) = (&training.version, env!("CARGO_PKG_VERSION"));
            let detail = format!("it was made by lsparse {theirs}, and this is {ours}");
            return Err(Error::Format { path: file, detail, remedy: "use the same version on all machines".into() });
        }
        Ok(SharedFolder { path: path.to_owned(), training })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What is trained.
    pub fn training(&self) -> &Training {
        &self.training
    }

    /// The checkpoint of who folds, in the folder at this path.
    pub fn checkpoint_in(path: &Path) -> PathBuf {
        path.join("session")
    }

    /// How far the training is; none before its first round.
    pub fn stage(&self) -> Result<Option<Stage>> {
        match read_json(&self.path.join(ROUND)) {
            Err(Error::NotFound { .. }) => Ok(None),
            stage => stage.map(Some),
        }
    }

    /// The batches of a round that nobody has worked out yet.
    pub fn missing(&self, round: &RoundAt) -> Vec<usize> {
        let folder = self.folder_of(round);
        round.batches.iter().copied().filter(|&batch| !folder.join(summary_name(batch)).exists()).collect()
    }

    /// Work a batch of a round out on the rows of the training.
    pub fn work(&self, round: &RoundAt, batch: usize, data: &WholeData<'_>) -> Result<Worked> {
        let folder = self.folder_of(round);
        let place = folder.join(summary_name(batch));
        self.check_rows(data)?;
        if place.exists() {
            return Ok(Worked::Before);
        }
        let read = |name: &str| read_bytes(&folder.join(name));
        let files = read("known").and_then(|known| Ok((known, read("parameters")?, read(&ticket_name(batch))?)));
        let (known, params, ticket) = match files {
            Err(Error::NotFound { .. }) if !folder.exists() => return Ok(Worked::TooLate),
            files => files?,
        };
        if checksum_of(&params) != round.checksum {
            let detail = format!("these are not the parameters that {ROUND} names");
            let remedy = "run lsparse fold, which writes them anew".into();
            return Err(Error::Format { path: folder.join("parameters"), detail, remedy });
        }
        let prints: RowPrints = unpack(&read_bytes(&self.path.join(ROWS))?, "checksums of rows")?;
        let (run, params, prints) = (round.run, &params[..], Some(&prints));
        let WholeData { rows, weights, groups } = *data;
        let job = Job { number: batch, known: &known, run, params, ticket: &ticket, weights, groups, prints };
        let done = work_batch(rows, &job)?;
        match write_whole(&place, &[&round.checksum.to_le_bytes(), &done]) {
            Err(_) if !folder.exists() => Ok(Worked::TooLate),
            written => written.map(|()| Worked::Now),
        }
    }

    /// Say that a batch is being worked out by this process, the `attempt`-th that does; false where another has said so.
    /// That keeps workers from doing the same, and is no lock: what is done twice is done in vain and nothing worse.
    pub fn claim(&self, round: &RoundAt, batch: usize, attempt: usize) -> bool {
        let path = self.folder_of(round).join(format!("claim-{batch}-{attempt}"));
        File::create_new(path).is_ok()
    }

    /// All is done: workers may go.
    pub fn end(&self) -> Result<()> {
        write_json(&self.path.join(ROUND), &Stage::Ended)?;
        self.keep_rounds(&[])
    }

    /// Take it back, where no round has begun.
    pub fn abandon(&self) {
        if !self.path.join(ROUND).exists() {
            let _ = fs::remove_dir(self.path.join(ROUNDS));
            let _ = fs::remove_file(self.path.join(ROWS));
            let _ = fs::remove_file(self.path.join(TRAINING));
            let _ = fs::remove_dir(&self.path);
        }
    }

    /// All who take part are to read the same.
    fn check_rows(&self, data: &WholeData<'_>) -> Result<()> {
        let (rows, &Training { rows: num, columns, .. }) = (data.rows, &self.training);
        if (rows.num_rows(), rows.dim()) == (num, columns) {
            let others =
                |what: &str| format!("these are other {what} than the training was begun with; copy them again");
            if data.weights.map(print_numbers) != self.training.weights {
                return Err(Error::Elsewhere { what: others("weights of rows") });
            }
            if data.groups.map(print_lengths) != self.training.groups {
                return Err(Error::Elsewhere { what: others("lengths of sequences") });
            }
            return Ok(());
        }
        Err(Error::WrongShape {
            name: rows.name().into(),
            found: format!("({}, {})", rows.num_rows(), rows.dim()),
            expected: format!("({num}, {columns})"),
            remedy: "give all who take part the data that the training was begun with".into(),
        })
    }

    fn folder_of(&self, round: &RoundAt) -> PathBuf {
        self.path.join(ROUNDS).join(format!("{}-{}", round.run, round.visit))
    }

    /// Put a round where workers find it. What is there of it already stays, but for what it takes.
    fn hand_out(&self, at: &RoundAt, known: &[u8], round: &Round) -> Result<()> {
        let folder = self.folder_of(at);
        make_folder(&folder)?;
        write_whole(&folder.join("known"), &[known])?;
        write_whole(&folder.join("parameters"), &[&round.params])?;
        for (&batch, ticket) in round.batches.iter().zip(&round.tickets) {
            write_whole(&folder.join(ticket_name(batch)), &[ticket])?;
        }
        // Once it is named all of it is there.
        write_json(&self.path.join(ROUND), &Stage::Round(at.clone()))
    }

    /// What came of a batch, as it was left by whoever worked it out.
    fn summary(&self, round: &RoundAt, batch: usize) -> Result<Vec<u8>> {
        let path = self.folder_of(round).join(summary_name(batch));
        let mut bytes = read_bytes(&path)?;
        if !bytes.starts_with(&round.checksum.to_le_bytes()) {
            let detail = "it was worked out under other parameters".into();
            let remedy = "remove it, and work on the batch again".into();
            return Err(Error::Format { path, detail, remedy });
        }
        Ok(bytes.split_off(size_of::<u32>()))
    }

    /// Remove all rounds but these.
    fn keep_rounds(&self, kept: &[&RoundAt]) -> Result<()> {
        let kept: Vec<PathBuf> = kept.iter().map(|round| self.folder_of(round)).collect();
        for entry in fs::read_dir(self.path.join(ROUNDS)).into_iter().flatten().flatten() {
            if !kept.contains(&entry.path()) {
                // Somebody may be writing there who is too late; then it goes with the next round.
                let _ = fs::remove_dir_all(entry.path());
            }
        }
        Ok(())
    }
}

/// An engine whose workers are whoever looks into a folder.
pub struct ByFolder<'a> {
    folder: &'a SharedFolder,
    /// Whether to wait for workers; otherwise it is an error that batches are not worked out, and one comes back later.
    waits: bool,
    /// The round under way, and how many of its batches were taken from the folder.
    round: Option<(RoundAt, usize)>,
}

impl<'a> ByFolder<'a> {
    /// By who looks into this folder, waited for or not.
    pub fn new(folder: &'a SharedFolder, waits: bool) -> Self {
        ByFolder { folder, waits, round: None }
    }
}

impl Engine for ByFolder<'_> {
    fn batches_per_round(&self) -> usize {
        self.folder.training.batches_per_round
    }

    fn begin(&mut self, known: &[u8], run: usize, round: Round) -> Result<()> {
        let folder = self.folder;
        let checksum = checksum_of(&round.params);
        let at = RoundAt { run, visit: round.visit, batches: round.batches.clone(), checksum };
        let before = self.round.take().map(|(before, _)| before);
        let is_new = before.is_some() || folder.stage()? != Some(Stage::Round(at.clone()));
        folder.hand_out(&at, known, &round)?;
        // The round before may be needed once more: the checkpoint after it is still being written.
        folder.keep_rounds(&[&at].into_iter().chain(&before).collect::<Vec<_>>())?;
        let batches = folder.missing(&at);
        if !self.waits && !batches.is_empty() {
            return Err(Error::Awaiting { folder: folder.path.clone(), batches, is_new });
        }
        self.round = Some((at, 0));
        Ok(())
    }

    fn next(&mut self) -> Result<Vec<u8>> {
        let nothing = || Error::Exchange { what: "a batch of this round" };
        let (at, taken) = self.round.as_mut().ok_or_else(nothing)?;
        let batch = *at.batches.get(*taken).ok_or_else(nothing)?;
        while !self.folder.folder_of(at).join(summary_name(batch)).exists() {
            std::thread::sleep(LOOK);
        }
        *taken += 1;
        self.folder.summary(at, batch)
    }
}

/// What lengths of sequences are known by.
fn print_lengths(groups: &Groups) -> String {
    print_numbers(&groups.lengths().map(|rows| rows as f64).collect::<Vec<_>>())
}

/// What parameters are told apart by. The checksum that they end with is no part of it: with that all have the same.
fn checksum_of(params: &[u8]) -> u32 {
    crc32fast::hash(&params[..params.len().saturating_sub(size_of::<u32>())])
}

fn summary_name(batch: usize) -> String {
    format!("summary-{batch}")
}

fn ticket_name(batch: usize) -> String {
    format!("ticket-{batch}")
}

fn make_folder(path: &Path) -> Result<()> {
    fs::create_dir_all(path).map_err(|source| Error::Unwritable { path: path.to_owned(), source })
}

fn read_bytes(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => Error::NotFound { path: path.to_owned() },
        _ => Error::Io { path: path.to_owned(), action: "read", source },
    })
}

fn read_json<V: DeserializeOwned>(path: &Path) -> Result<V> {
    serde_json::from_slice(&read_bytes(path)?).map_err(|error| Error::Format {
        path: path.to_owned(),
        detail: format!("it is not what belongs there ({error})"),
        remedy: "begin the training again with another folder".into(),
    })
}

fn write_json<V: Serialize>(path: &Path, value: &V) -> Result<()> {
    let bytes = serde_json::to_vec_pretty(value).map_err(|_| Error::Exchange { what: "what can be written" })?;
    write_whole(path, &[&bytes])
}

/// Write a file so that others see all of it or nothing. What a killed process leaves goes with the folder: who of many
/// machines is alive nobody can tell by a lock.
fn write_whole(path: &Path, parts: &[&[u8]]) -> Result<()> {
    let write = || -> io::Result<()> {
        let mut builder = tempfile::Builder::new();
        // Other users of a group may be among the workers, as far as the system lets them.
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
        let mut file = builder.prefix(".partial-").tempfile_in(path.parent().unwrap_or(Path::new(".")))?;
        parts.iter().try_for_each(|part| file.write_all(part))?;
        file.as_file().sync_all()?;
        file.persist(path)?;
        Ok(())
    };
    write().map_err(|source| Error::Unwritable { path: path.to_owned(), source })
}
