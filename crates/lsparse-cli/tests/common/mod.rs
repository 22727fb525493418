//! A folder of one's own, the command run in it, and data to run it on.

// Every test file uses some of this and none all of it.
#![allow(dead_code)]

use std::fs;
use std::path::PathBuf;
use std::process::Output;

use assert_cmd::Command;
use lsparse::LikelihoodKind;
use lsparse::data::{write_npy_f32, write_npy_f64};
use lsparse::synthetic::{Planted, planted};
use predicates::prelude::*;
use serde_json::Value;
use tempfile::TempDir;

/// A folder that the command runs in and that goes away.
pub struct Place {
    folder: TempDir,
}

impl Place {
    pub fn new() -> Self {
        Place { folder: tempfile::tempdir().unwrap() }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The command in this folder, its arguments parted by blanks.
    pub fn lsparse(&self, arguments: &str) -> Command {
        let mut command = Command::cargo_bin("lsparse").unwrap();
        command.current_dir(self.folder.path()).args(arguments.split_whitespace());
        command.timeout(std::time::Duration::from_secs(120));
        command
    }

    /// The command in this folder under a limit that a shell sets, such as `ulimit -v 1000000`.
    pub fn limited(&self, limit: &str, arguments: &str) -> Output {
        let command = assert_cmd::cargo::cargo_bin("lsparse");
        let line = format!("{limit}; exec {} {arguments}", command.display());
        std::process::Command::new("sh").current_dir(self.folder.path()).args(["-c", &line]).output().unwrap()
    }

    /// Run, and give what it printed; it must succeed.
    pub fn stdout(&self, arguments: &str) -> String {
        let output = self.lsparse(arguments).assert().success().get_output().clone();
        String::from_utf8(output.stdout).unwrap()
    }

    /// Run, and give the JSON it printed.
    pub fn json(&self, arguments: &str) -> Value {
        serde_json::from_str(&self.stdout(arguments)).unwrap()
    }

    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        fs::write(self.path(name), content).unwrap();
    }

    pub fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap()
    }

    /// The steps of a trace.
    pub fn steps(&self, name: &str) -> Vec<Value> {
        let lines = self.text(name);
        let lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines.filter(|line| line["event"] == "step").collect()
    }

    pub fn text(&self, name: &str) -> String {
        String::from_utf8(self.read(name)).unwrap()
    }

    pub fn npy(&self, name: &str, dim: usize, values: &[f64]) {
        write_npy_f64(&self.path(name), dim, values).unwrap();
    }

    pub fn npy_f32(&self, name: &str, dim: usize, values: &[f64]) {
        let values: Vec<f32> = values.iter().map(|&v| v as f32).collect();
        write_npy_f32(&self.path(name), dim, &values).unwrap();
    }

    /// The names of all files, sorted; temporary ones would be among them.
    pub fn files(&self) -> Vec<String> {
        let entries = fs::read_dir(self.folder.path()).unwrap();
        let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

/// Rows from known clusters, the first `train` of them in train.npy, the others in test.npy.
pub fn with_planted(kind: LikelihoodKind, train: usize, test: usize, dim: usize, clusters: usize) -> (Place, Planted) {
    let place = Place::new();
    let truth = planted(kind, train + test, dim, clusters, 3);
    place.npy("train.npy", dim, &truth.values[..train * dim]);
    place.npy("test.npy", dim, &truth.values[train * dim..]);
    (place, truth)
}

/// Values as lines of text.
pub fn csv(dim: usize, values: &[f64], delimiter: &str) -> String {
    let line = |row: &[f64]| row.iter().map(f64::to_string).collect::<Vec<_>>().join(delimiter) + "\n";
    values.chunks_exact(dim).map(line).collect()
}

/// Run a command that must be refused with all these words and leave nothing behind.
pub fn refused(place: &Place, arguments: &str, words: &[&str]) {
    let before = place.files();
    let output = place.lsparse(arguments).assert().code(2).stdout(predicate::str::is_empty()).get_output().clone();
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(message.lines().any(|line| line.starts_with("error: ")), "{arguments}: {message}");
    for word in words {
        assert!(message.contains(word), "{arguments}: {word:?} is not in {message}");
    }
    assert_eq!(place.files(), before, "{arguments}");
}
