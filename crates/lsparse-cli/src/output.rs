//! Where results go: standard output, files that must be found writable before long work, and traces.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use lsparse::data::AtomicFile;
use lsparse::training::observe::Reached;
use lsparse::{Error, Result};
use serde::{Deserialize, Serialize};

/// What messages call standard output.
pub const STDOUT: &str = "standard output";

/// Print results.
pub fn print(text: &str) -> Result<()> {
    write_stdout(|out| out.write_all(text.as_bytes()))
}

/// Print results as JSON.
pub fn print_json<T: Serialize>(value: &T) -> Result<()> {
    write_stdout(|out| {
        serde_json::to_writer_pretty(&mut *out, value)?;
        out.write_all(b"\n")
    })
}

fn write_stdout(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
    let mut out = BufWriter::new(io::stdout().lock());
    write(&mut out).and_then(|()| out.flush()).map_err(stdout_failed)
}

/// The error of a failed write to standard output.
pub fn stdout_failed(source: io::Error) -> Error {
    Error::Unwritable { path: PathBuf::from(STDOUT), source }
}

/// Print a message for people. If even that fails there is nobody to tell.
pub fn message(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}

/// Whether --quiet was given, to whatever command.
static QUIET: AtomicBool = AtomicBool::new(false);

/// Keep notes to oneself from now on.
pub fn be_quiet() {
    QUIET.store(true, Ordering::Relaxed);
}

/// Print what people should know but need not act on; nothing if they asked for quiet.
pub fn note(text: &str) {
    if !QUIET.load(Ordering::Relaxed) {
        message(&format!("note: {text}"));
    }
}

/// Find out now whether a file can be written later, and leave nothing behind.
///
/// The file itself is made only when there is something to put into it, so that a program that is ended in between
/// leaves no remains.
pub fn check_writable(path: &Path) -> Result<()> {
    AtomicFile::create(path).map(drop)
}

/// Refuse to write over a file that is read.
pub fn check_not_input(option: &'static str, path: &Path, inputs: &[&Path]) -> Result<()> {
    let Ok(place) = fs::canonicalize(path) else { return Ok(()) };
    if inputs.iter().any(|input| fs::canonicalize(input).is_ok_and(|input| input == place)) {
        let problem = format!("{} is read by this very command", path.display());
        return Err(Error::Config { option, problem, remedy: "choose another file".into() });
    }
    Ok(())
}

/// What a file's name says it is.
pub fn check_extension(option: &'static str, path: &Path, known: &[&'static str]) -> Result<&'static str> {
    let extension = path.extension().unwrap_or_default().to_ascii_lowercase();
    known.iter().copied().find(|name| extension == *name).ok_or_else(|| Error::Config {
        option,
        problem: format!("{} has no ending that says what to write", path.display()),
        remedy: format!("end it in .{}", known.join(" or .")),
    })
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
    /// Open the file, making it where there is none.
    pub fn create(path: &Path) -> Result<Self> {
        let failed = |source| Error::Unwritable { path: path.to_owned(), source };
        let is_new = !path.exists();
        let file = File::options().write(true).create(true).truncate(false).open(path).map_err(failed)?;
        let is_plain = file.metadata().map_err(failed)?.is_file();
        Ok(TraceFile { path: path.to_owned(), file, is_new, is_plain, written: false })
    }
}

impl TraceFile {
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
            let _ = fs::remove_file(&self.path);
        }
    }
}
