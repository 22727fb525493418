//! Where results go: standard output, and files that must be found writable before long work.

use std::borrow::Cow;
use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use lsparse::data::AtomicFile;
use lsparse::{Error, Result};
use serde::Serialize;

use crate::messages;

/// What messages call standard output.
pub const STDOUT: &str = "standard output";

/// A file that people know by another name: its path, and the name.
static CALLED: OnceLock<(String, &str)> = OnceLock::new();

/// Call a file by another name in all that is said from now on.
pub fn call(path: &Path, name: &'static str) {
    let _ = CALLED.set((path.display().to_string(), name));
}

/// A text with files called as people know them.
fn said(text: &str) -> Cow<'_, str> {
    match CALLED.get() {
        Some((path, name)) if text.contains(path) => text.replace(path, name).into(),
        _ => text.into(),
    }
}

/// Print results.
pub fn print(text: &str) -> Result<()> {
    write_stdout(|out| out.write_all(said(text).as_bytes()))
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
    let _ = writeln!(io::stderr(), "{}", said(text));
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

/// The same for a remark of the library, if there is one.
pub fn note_remark(remark: Option<String>) {
    if let Some(remark) = remark {
        note(&messages::in_options(&remark));
    }
}

/// Find out now whether a file can be written later, and leave nothing behind.
///
/// The file itself is made only when there is something to put into it, so that a program that is ended in between
/// leaves no remains.
pub fn check_writable(path: &Path) -> Result<()> {
    check_named(path, "file")?;
    AtomicFile::create(path).map(drop)
}

/// Write a trained model. Where its place has no room any more, or is gone, what was learned is worth a place that nobody
/// asked for: the folder for temporary files, which is said. The error stays one.
pub fn save_model(path: &Path, save: impl Fn(&Path) -> Result<()>) -> Result<()> {
    let error = match save(path) {
        Err(error @ Error::Unwritable { .. }) => error,
        done => return done,
    };
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let instead = std::env::temp_dir().join(format!("lsparse-{}-{name}", std::process::id()));
    if save(&instead).is_ok() {
        message(&format!("the model is in {} instead: move it to where it is to stay", instead.display()));
    }
    Err(error)
}

/// Refuse what stands for standard output elsewhere, where a file or folder is to be written: one of that name is none that
/// anybody wants.
pub fn check_named(path: &Path, what: &str) -> Result<()> {
    if path.as_os_str() != "-" {
        return Ok(());
    }
    Err(Error::Format {
        path: path.to_owned(),
        detail: "this is not written to standard output".into(),
        remedy: format!("give a {what}"),
    })
}

/// Refuse to write over a file that is read.
pub fn check_not_input(option: &'static str, path: &Path, inputs: &[&Path]) -> Result<()> {
    let Ok(place) = fs::canonicalize(path) else { return Ok(()) };
    if inputs.iter().any(|input| fs::canonicalize(input).is_ok_and(|input| input == place)) {
        let problem = format!("{} is read by this very command", path.display());
        return Err(Error::Config { setting: option, problem, remedy: "choose another file".into() });
    }
    Ok(())
}

/// What a file's name says it is.
pub fn check_extension(option: &'static str, path: &Path, known: &[&'static str]) -> Result<&'static str> {
    check_named(path, "file")?;
    let extension = path.extension().unwrap_or_default().to_ascii_lowercase();
    known.iter().copied().find(|name| extension == *name).ok_or_else(|| Error::Config {
        setting: option,
        problem: format!("{} has no ending that says what to write", path.display()),
        remedy: format!("end it in .{}", known.join(" or .")),
    })
}
