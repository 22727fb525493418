//! The one schema of a training as it goes: a line of what is trained on what, a line a step, and a line that says why a
//! run ended, each a JSON object, written and read here.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::training::model::Objective;
use crate::training::moves::Move;
use crate::training::observe::{Observer, Reached};
use crate::training::rules::{Progress, StopReason};

/// A line of a trace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Line {
    /// The first one.
    Begin(Beginning),
    /// One a step.
    Step(StepInfo),
    /// The last one of each run.
    End(Ending),
}

/// What is trained on what.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Beginning {
    /// The version of this library.
    pub version: String,
    /// "mixture", "topics" or "sequence".
    pub model: String,
    /// Rows or documents.
    pub rows: usize,
    /// Columns or words.
    pub columns: usize,
    /// Every setting by its name, as a file of settings has it.
    pub settings: serde_json::Value,
}

impl Beginning {
    /// A training of this kind of model with these settings.
    pub fn new(model: &str, rows: usize, columns: usize, settings: &impl Serialize) -> Self {
        Beginning {
            version: env!("CARGO_PKG_VERSION").into(),
            model: model.into(),
            rows,
            columns,
            settings: serde_json::to_value(settings).unwrap_or_default(),
        }
    }
}

/// Why and where a run ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ending {
    /// Run, from 0, where several are trained.
    pub run: usize,
    /// The rule that ended it.
    pub stopped_by: String,
    /// The same in words.
    pub reason: String,
    /// Whether it came to rest by itself.
    pub converged: bool,
    /// Laps completed.
    pub laps: usize,
    /// Steps taken.
    pub steps: u64,
    /// The objective.
    pub objective: Option<f64>,
    /// The held-out score.
    pub heldout: Option<f64>,
}

impl Ending {
    /// The end of a run that has come so far, with its objective and held-out score.
    pub fn new(run: usize, progress: &Progress, reason: StopReason, (objective, heldout): (f64, Option<f64>)) -> Self {
        Ending {
            run,
            stopped_by: reason.rule().into(),
            reason: reason.to_string(),
            converged: reason.converged(),
            laps: progress.laps,
            steps: progress.step,
            objective: Some(objective),
            heldout,
        }
    }
}

/// What one step reports.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(into = "Flat", from = "Flat")]
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
    /// Clusters that hold less than half a row.
    pub empty_clusters: usize,
    /// Most memory the process has had so far.
    pub peak_memory_bytes: Option<u64>,
    /// What else the model reports at the end of a lap, by name.
    pub report: BTreeMap<String, f64>,
    /// Changes of the number of clusters at the end of the lap.
    pub moves: Vec<Move>,
    /// What every cluster or topic holds at the end of a lap, to four digits; none where there are more than
    /// [`MOST_SIZES`].
    pub sizes: Vec<f64>,
}

/// Clusters whose sizes a trace has: it is to stay a file that is read in one go.
pub const MOST_SIZES: usize = 2_000;

/// Sizes as a trace has them.
pub fn told_sizes(counts: &[f64]) -> Vec<f64> {
    let four_digits = |&count: &f64| match count > 0.0 && count.is_finite() {
        true => {
            let unit = 10f64.powi(count.log10().floor() as i32 - 3);
            // A unit below one is divided by, so that decimals stay short.
            if unit < 1.0 {
                (count * (1.0 / unit).round()).round() / (1.0 / unit).round()
            } else {
                (count / unit).round() * unit
            }
        }
        false => 0.0,
    };
    if counts.len() > MOST_SIZES { Vec::new() } else { counts.iter().map(four_digits).collect() }
}

/// A step as a line has it: one level of names.
#[derive(Serialize, Deserialize)]
struct Flat {
    run: usize,
    lap: f64,
    step: u64,
    batch: usize,
    ends_lap: bool,
    seconds: f64,
    cpu_seconds: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    objective: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    objective_data: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    objective_entropy: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    objective_alloc: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    heldout: Option<f64>,
    rows_per_second: f64,
    empty_clusters: usize,
    peak_memory_bytes: Option<u64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    moves: Vec<Move>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    sizes: Vec<f64>,
    /// What is no number is null in JSON.
    #[serde(flatten)]
    report: BTreeMap<String, Option<f64>>,
}

impl From<StepInfo> for Flat {
    fn from(info: StepInfo) -> Self {
        Flat {
            run: info.run,
            lap: info.lap,
            step: info.step,
            batch: info.batch,
            ends_lap: info.ends_lap,
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
            moves: info.moves,
            sizes: info.sizes,
            report: info.report.into_iter().map(|(name, value)| (name, Some(value))).collect(),
        }
    }
}

impl From<Flat> for StepInfo {
    fn from(flat: Flat) -> Self {
        let terms = flat.objective_data.zip(flat.objective_entropy).zip(flat.objective_alloc);
        StepInfo {
            run: flat.run,
            lap: flat.lap,
            step: flat.step,
            batch: flat.batch,
            ends_lap: flat.ends_lap,
            seconds: flat.seconds,
            cpu_seconds: flat.cpu_seconds,
            objective: terms.map(|((data, entropy), alloc)| Objective { data, entropy, alloc }),
            heldout: flat.heldout,
            rows_per_second: flat.rows_per_second,
            empty_clusters: flat.empty_clusters,
            peak_memory_bytes: flat.peak_memory_bytes,
            moves: flat.moves,
            sizes: flat.sizes,
            report: flat.report.into_iter().map(|(name, value)| (name, value.unwrap_or(f64::NAN))).collect(),
        }
    }
}

/// Writes a trace.
pub struct Trace<W: Write> {
    out: W,
    path: PathBuf,
    written: u64,
}

impl<W: Write> Trace<W> {
    /// Write to `out`; `path` is for messages.
    pub fn new(out: W, path: impl Into<PathBuf>) -> Self {
        Trace { out, path: path.into(), written: 0 }
    }

    /// Where it writes to.
    pub fn get_mut(&mut self) -> &mut W {
        &mut self.out
    }

    fn write(&mut self, line: Line) -> Result<()> {
        let failed = |source| Error::Unwritable { path: self.path.clone(), source };
        let mut line = serde_json::to_vec(&line).map_err(|e| failed(e.into()))?;
        line.push(b'\n');
        self.out.write_all(&line).and_then(|()| self.out.flush()).map_err(failed)?;
        self.written += line.len() as u64;
        Ok(())
    }
}

impl<W: Write> Observer for Trace<W> {
    fn begin(&mut self, beginning: &Beginning) -> Result<()> {
        self.write(Line::Begin(beginning.clone()))
    }

    fn end(&mut self, ending: &Ending) -> Result<()> {
        self.write(Line::End(ending.clone()))
    }

    fn step(&mut self, info: &StepInfo) -> Result<()> {
        self.write(Line::Step(info.clone()))
    }

    fn written(&self) -> u64 {
        self.written
    }
}

impl Trace<TraceFile> {
    /// Write to a file, which is made where there is none.
    pub fn to_file(path: &Path) -> Result<Self> {
        Ok(Trace::new(TraceFile::create(path)?, path))
    }

    /// Keep what was written when a checkpoint was taken, and write on after it.
    pub fn go_on_from(&mut self, reached: &Reached) -> Result<()> {
        self.written = self.out.go_on_from(reached)?;
        Ok(())
    }
}

/// A file that is written while others may read along, and is no trouble if nothing comes to be written.
///
/// What was there before is cut off only by the first write, and a file that is new and still empty goes away.
#[derive(Debug)]
pub struct TraceFile {
    path: PathBuf,
    file: File,
    is_new: bool,
    is_plain: bool,
    written: bool,
}

impl TraceFile {
    /// Open the file, making it where there is none. A file that is no trace is refused and left as it is.
    pub fn create(path: &Path) -> Result<Self> {
        let failed = |source| Error::Unwritable { path: path.to_owned(), source };
        let is_new = !path.exists();
        if path.is_file() {
            check_begins_as_trace(path)?;
        }
        let file = File::options().write(true).create(true).truncate(false).open(path).map_err(failed)?;
        let is_plain = file.metadata().map_err(failed)?.is_file();
        Ok(TraceFile { path: path.to_owned(), file, is_new, is_plain, written: false })
    }

    /// Take back what was written beyond so many bytes; a device keeps it.
    pub fn cut(&mut self, length: u64) {
        if self.is_plain {
            let _ = self.file.set_len(length);
        }
    }

    /// Keep what was written when a checkpoint was taken and write on after it; gives how many bytes that is, which is
    /// none in a new file. A file that is not the trace of this training is refused and left as it is.
    pub fn go_on_from(&mut self, reached: &Reached) -> Result<u64> {
        if self.is_new || !self.is_plain {
            return Ok(0);
        }
        check_trace(&self.path, reached)?;
        let (length, failed) = (reached.written, |source| Error::Unwritable { path: self.path.clone(), source });
        self.file.set_len(length).and_then(|()| self.file.seek(SeekFrom::Start(length))).map_err(failed)?;
        self.written = true;
        Ok(length)
    }
}

/// What is looked at in a line of a trace.
#[derive(Deserialize)]
struct TraceLine {
    event: Event,
    #[serde(default)]
    run: usize,
    #[serde(default, alias = "steps")]
    step: u64,
}

#[derive(Deserialize, PartialEq)]
#[serde(rename_all = "kebab-case")]
enum Event {
    Begin,
    Step,
    End,
}

/// How a line of a trace begins, which is all that is known of one that was not written in full.
const LINE_START: &[u8] = b"{\"event\":\"";

/// Refuse to write over a file that does not begin as a trace does. One that cannot be read says so when it is written.
fn check_begins_as_trace(path: &Path) -> Result<()> {
    let mut start = Vec::new();
    let read = File::open(path).and_then(|file| file.take(LINE_START.len() as u64).read_to_end(&mut start));
    if read.is_err() || LINE_START.starts_with(&start) {
        return Ok(());
    }
    Err(Error::Format {
        path: path.to_owned(),
        detail: "it is not a trace, and would be written over".into(),
        remedy: "choose another file for the trace, or remove this one".into(),
    })
}

/// Refuse a file that is not the trace of a training that a checkpoint was taken of: up to there its lines must be
/// a beginning, steps and ends of runs, the last step that of the checkpoint, and the first line after them, if there is
/// any, the next step or the end of the run.
fn check_trace(path: &Path, reached: &Reached) -> Result<()> {
    let failed = |source| Error::Io { path: path.to_owned(), action: "read", source };
    let refuse = |detail: String| Error::Format {
        path: path.to_owned(),
        detail,
        remedy: "give the trace that the run began with, or choose another file for the trace".into(),
    };
    let Reached { run, step, written, .. } = *reached;
    let mut file = BufReader::new(File::open(path).map_err(failed)?);
    let found = file.get_ref().metadata().map_err(failed)?.len();
    if found < written {
        return Err(refuse(format!("the trace has {found} bytes, the checkpoint was taken at {written}")));
    }
    let foreign = || refuse(format!("it is not the trace of the run in the checkpoint, which is at step {step}"));
    let (mut line, mut length, mut last) = (Vec::new(), 0, None);
    while length < written {
        line.clear();
        length += file.read_until(b'\n', &mut line).map_err(failed)? as u64;
        last = Some(serde_json::from_slice::<TraceLine>(&line).map_err(|_| foreign())?);
    }
    // At the very start of a run the last line is of the run before, or the first of all.
    let ends_there = |last: TraceLine| match (step, last.event) {
        (0, Event::Begin) => run == 0,
        (0, _) => last.run + 1 == run,
        (_, event) => event != Event::Begin && (last.run, last.step) == (run, step),
    };
    if length != written || !last.is_none_or(ends_there) {
        return Err(foreign());
    }
    // Then the next step, or the end of the run and the next run.
    let mut next = (run, step + 1);
    let goes_on = loop {
        line.clear();
        file.read_until(b'\n', &mut line).map_err(failed)?;
        match serde_json::from_slice::<TraceLine>(&line) {
            Ok(end) if end.event == Event::End && (end.run, end.step + 1) == next => next = (run + 1, 1),
            Ok(found) => break found.event == Event::Step && (found.run, found.step) == next,
            Err(_) => {
                let started = line.iter().zip(LINE_START).all(|(found, expected)| found == expected);
                break !line.ends_with(b"\n") && started;
            }
        }
    };
    if goes_on { Ok(()) } else { Err(foreign()) }
}

impl Write for TraceFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.written && self.is_plain {
            self.file.set_len(0)?;
        }
        self.written = true;
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for TraceFile {
    fn drop(&mut self) {
        if self.is_new && self.is_plain && !self.written {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// The lines of a trace. The last one of a training under way may be half written, and is left out then.
pub fn read_trace(path: &Path) -> Result<Vec<Line>> {
    let failed = |source| Error::Io { path: path.to_owned(), action: "read", source };
    let mut file = BufReader::new(File::open(path).map_err(failed)?);
    let (mut lines, mut line) = (Vec::new(), Vec::new());
    while file.read_until(b'\n', &mut line).map_err(failed)? > 0 {
        match serde_json::from_slice(&line) {
            Ok(found) => lines.push(found),
            Err(_) if !line.ends_with(b"\n") => break,
            Err(error) => {
                let detail = format!("line {} is not one of a trace: {error}", lines.len() + 1);
                let remedy = "give a file that a training has written as its trace".into();
                return Err(Error::Format { path: path.to_owned(), detail, remedy });
            }
        }
        line.clear();
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::training::moves::MoveKind;

    fn step() -> StepInfo {
        StepInfo {
            run: 1,
            lap: 2.5,
            step: 5,
            batch: 0,
            ends_lap: false,
            seconds: 0.25,
            cpu_seconds: 0.5,
            objective: Some(Objective { data: -3.0, entropy: 1.0, alloc: -0.5 }),
            heldout: None,
            rows_per_second: 100.0,
            empty_clusters: 2,
            peak_memory_bytes: Some(7),
            report: [("evidence".to_owned(), -1.5)].into(),
            moves: vec![Move { kind: MoveKind::Merge, from: vec![3, 7], to: vec![3], gain: 2.5 }],
            sizes: told_sizes(&[1234.567, 0.0123456, 0.0, 3.0]),
        }
    }

    #[test]
    fn sizes_have_four_digits() {
        let sizes = told_sizes(&[1_234_567.0, 1234.567, 12.34567, 0.0123456, 1.0, 0.0, f64::NAN]);
        assert_eq!(serde_json::to_string(&sizes).unwrap(), "[1235000.0,1235.0,12.35,0.01235,1.0,0.0,0.0]");
        assert!(told_sizes(&[1.0; MOST_SIZES + 1]).is_empty());
    }

    #[test]
    fn a_trace_reads_as_it_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.jsonl");
        let beginning = Beginning::new("mixture", 10, 3, &serde_json::json!({"clusters": 4}));
        let ending = Ending {
            run: 1,
            stopped_by: "laps".into(),
            reason: "5 laps are done".into(),
            converged: false,
            laps: 5,
            steps: 10,
            objective: Some(-2.5),
            heldout: Some(-1.0),
        };
        let mut trace = Trace::new(File::create(&path).unwrap(), &path);
        trace.begin(&beginning).unwrap();
        trace.step(&step()).unwrap();
        trace.end(&ending).unwrap();
        assert_eq!(trace.written(), std::fs::metadata(&path).unwrap().len());
        let lines = [Line::Begin(beginning), Line::Step(step()), Line::End(ending)];
        assert_eq!(read_trace(&path).unwrap(), lines);
        // What is being written is not there yet; what is no trace is an error.
        let whole = std::fs::read(&path).unwrap();
        std::fs::write(&path, &whole[..whole.len() - 9]).unwrap();
        assert_eq!(read_trace(&path).unwrap(), lines[..2]);
        std::fs::write(&path, "{\"x\": 1}\n").unwrap();
        assert!(read_trace(&path).unwrap_err().to_string().contains("line 1"));
    }
}
