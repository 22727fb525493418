//! Follow a trace that is being written, or was: whole lines go to a feed as they come.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use lsparse::{Error, Result};

use super::feed::Feed;

/// Bytes read at once: others are to have their turn.
const MOST_AT_ONCE: u64 = 16 << 20;

/// Bytes of a line that is not one of a trace.
const LONGEST_LINE: usize = 1 << 20;

/// Bytes that a training is known by: its first line has all settings.
const START_BYTES: u64 = 4096;

/// A file, and how far it was read.
pub struct Follow {
    path: PathBuf,
    number: usize,
    read: u64,
    /// The beginning of a line that was not whole yet.
    rest: Vec<u8>,
    /// How the file began: one that begins otherwise is another training's, however long it is.
    start: Vec<u8>,
}

impl Follow {
    /// Follow a file into a feed. A file that is no trace is refused; one that is not there yet is waited for.
    pub fn new(path: &Path, feed: &Feed) -> Result<Self> {
        Follow::called(&path.to_string_lossy(), path, feed)
    }

    /// The same for a file that people know by another name.
    pub fn called(name: &str, path: &Path, feed: &Feed) -> Result<Self> {
        if path.is_dir() {
            return Err(not_a_trace(path, "it is a folder"));
        }
        if let Ok(mut file) = File::open(path) {
            let (mut start, expected) = (Vec::new(), b"{\"event\":\"");
            let failed = |source| Error::Io { path: path.to_owned(), action: "read", source };
            file.by_ref().take(expected.len() as u64).read_to_end(&mut start).map_err(failed)?;
            if !expected.starts_with(&start) {
                return Err(not_a_trace(path, "its first line is not that of a trace"));
            }
        }
        let number = feed.add(name);
        Ok(Follow { path: path.to_owned(), number, read: 0, rest: Vec::new(), start: Vec::new() })
    }

    /// Read what has come since the last time; whether there may be more at once. A file that was cut, as by a run that
    /// goes on from a checkpoint, is read again.
    pub fn read_on(&mut self, feed: &Feed) -> io::Result<bool> {
        let mut file = match File::open(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            other => other?,
        };
        let mut start = Vec::new();
        file.by_ref().take(START_BYTES).read_to_end(&mut start)?;
        if file.metadata()?.len() < self.read || !start.starts_with(&self.start) {
            feed.clear(self.number);
            (self.read, self.rest) = (0, Vec::new());
        }
        self.start = start;
        file.seek(SeekFrom::Start(self.read))?;
        let before = self.rest.len();
        let bytes = file.take(MOST_AT_ONCE).read_to_end(&mut self.rest)? as u64;
        self.read += bytes;
        let Some(last) = self.rest[before..].iter().rposition(|&byte| byte == b'\n') else {
            if self.rest.len() > LONGEST_LINE {
                self.rest.clear();
            }
            return Ok(bytes == MOST_AT_ONCE);
        };
        let after = self.rest.split_off(before + last + 1);
        for line in self.rest.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
            feed.push_text(self.number, &String::from_utf8_lossy(line));
        }
        self.rest = after;
        Ok(bytes == MOST_AT_ONCE)
    }
}

fn not_a_trace(path: &Path, detail: &str) -> Error {
    let remedy = "give a file that `trace` of a training wrote".into();
    Error::Format { path: path.to_owned(), detail: detail.into(), remedy }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use serde_json::Value;

    use super::*;

    fn count(feed: &Feed) -> usize {
        let state: Value = serde_json::from_str(&feed.state("")).unwrap();
        state["traces"][0]["lines"].as_array().unwrap().len()
    }

    #[test]
    fn lines_come_when_they_are_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.jsonl");
        let feed = Feed::default();
        let mut follow = Follow::new(&path, &feed).unwrap();
        follow.read_on(&feed).unwrap();
        let end = r#"{"event":"end","run":0,"stopped_by":"laps","reason":"x","converged":false,"laps":1,"steps":1,"objective":null,"heldout":null}"#;
        for (text, expected) in [
            (String::new(), 0),
            (end[..20].to_owned(), 0),
            (end.to_owned(), 0),
            (format!("{end}\n{}", &end[..5]), 1),
            (format!("{end}\n{end}\n{end}\n"), 3),
            // Cut, as by a run that goes on from a checkpoint.
            (format!("{end}\n"), 1),
            (format!("{end}\n\n\u{fffd}{{\n"), 1),
            // Another training that has written more already.
            (format!("{}\n{end}\n{end}\n{end}\n{end}\n", end.replace("\"laps\":1", "\"laps\":2")), 5),
        ] {
            fs::write(&path, text).unwrap();
            follow.read_on(&feed).unwrap();
            assert_eq!(count(&feed), expected);
        }
    }

    #[test]
    fn what_is_no_trace_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data.csv");
        fs::write(&path, "a,b\n1,2\n").unwrap();
        let feed = Feed::default();
        assert!(matches!(Follow::new(&path, &feed), Err(Error::Format { .. })));
        assert!(matches!(Follow::new(folder.path(), &feed), Err(Error::Format { .. })));
    }
}
