//! Standard input as a file: rows and text are read at any place and more than once, which a pipe does not allow.

use std::fs::File;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};

use lsparse::{Error, Result};
use tempfile::NamedTempFile;

use crate::output;

/// What messages call standard input.
pub const STDIN: &str = "standard input";

/// Data to be read: a path as it was given, or a copy of standard input, which goes away with this.
pub struct Input {
    path: PathBuf,
    _copy: Option<NamedTempFile>,
}

impl Input {
    /// What `path` names, where "-" is standard input. `ending` is what text would be called: data that are none are known
    /// by their first bytes.
    pub fn open(path: &Path, ending: &str) -> Result<Self> {
        if !is_stdin(path) {
            return Ok(Input { path: path.to_owned(), _copy: None });
        }
        check_piped()?;
        let mut stdin = io::stdin().lock();
        let unwritable = |source| Error::Unwritable { path: std::env::temp_dir(), source };
        let copy = tempfile::Builder::new().prefix("lsparse-").suffix(ending).tempfile().map_err(unwritable)?;
        let mut file: &File = copy.as_file();
        io::copy(&mut stdin, &mut file).map_err(unwritable)?;
        output::call(copy.path(), STDIN);
        Ok(Input { path: copy.path().to_owned(), _copy: Some(copy) })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Refuse to read what somebody would have to type.
pub fn check_piped() -> Result<()> {
    if !io::stdin().is_terminal() {
        return Ok(());
    }
    Err(Error::Format {
        path: STDIN.into(),
        detail: "it is a terminal".into(),
        remedy: "pipe data into the command, or give a file".into(),
    })
}

/// Refuse to read standard input twice: as data and as what an option gives.
pub fn check_once(option: &'static str, given: Option<&Path>, data: &Path) -> Result<()> {
    if !given.is_some_and(is_stdin) || !is_stdin(data) {
        return Ok(());
    }
    let problem = "standard input has the data already".into();
    Err(Error::Config { setting: option, problem, remedy: "give a file for one of them".into() })
}

/// Refuse standard input where a corpus folder is read.
pub fn check_folder(setting: &'static str, given: Option<&Path>) -> Result<()> {
    if !given.is_some_and(is_stdin) {
        return Ok(());
    }
    let problem = "a corpus is a folder, which standard input is not".into();
    Err(Error::Config { setting, problem, remedy: "make one of text with lsparse corpus build - --out FOLDER".into() })
}

pub fn is_stdin(path: &Path) -> bool {
    path.as_os_str() == "-"
}
