//! The formats that a corpus can be built from, and how they are told apart.

use std::fs;
use std::io::{self, Read};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::data::formats::{npy_header, npz};
use crate::error::{Error, Result};

use crate::corpus::folder::counts::Corpus;
use crate::corpus::text::text_file::TextFile;

/// What a corpus is built from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Format {
    /// A folder of text files, one document a file.
    Files,
    /// JSON lines: one object a line.
    Jsonl,
    /// CSV with a column of text.
    Csv,
    /// Text with one document a line.
    Lines,
    /// UCI bag of words (docword): three lines of header, then `document word count`, counted from 1.
    Uci,
    /// LDA-C: one document a line, `N word:count word:count ...`, words counted from 0.
    LdaC,
    /// Matrix Market coordinates, documents as rows.
    Mtx,
    /// SVMlight: one document a line, `label word:count word:count ...`.
    Svmlight,
    /// A SciPy CSR matrix, documents as rows.
    Npz,
    /// MALLET: one document a line, `name label word word ...`.
    Mallet,
    /// A corpus folder.
    Corpus,
}

impl Format {
    /// Whether documents are text to be cut into words.
    pub fn is_text(self) -> bool {
        matches!(self, Format::Files | Format::Jsonl | Format::Csv | Format::Lines)
    }

    /// Find out what a path leads to, by its first bytes and its name.
    ///
    /// MALLET's lists cannot be told from text, so only the ending `.mallet` is taken for one. Text that looks like
    /// nothing else is one document a line.
    pub fn guess(path: &Path) -> Result<Format> {
        let metadata = fs::metadata(path).map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => Error::NotFound { path: path.to_owned() },
            _ => Error::Io { path: path.to_owned(), action: "open", source },
        })?;
        if metadata.is_dir() {
            return Ok(if Corpus::is_corpus(path) { Format::Corpus } else { Format::Files });
        }
        let refuse = |detail: &str, remedy: &str| Error::Format {
            path: path.to_owned(),
            detail: detail.to_owned(),
            remedy: remedy.to_owned(),
        };
        if !metadata.is_file() {
            return Err(refuse("it is not a plain file", "write the text to a file first"));
        }
        let start = first_bytes(path)?;
        if start.starts_with(npz::MAGIC) {
            return Ok(Format::Npz);
        }
        if start.starts_with(npy_header::MAGIC) {
            let remedy = r#"save sparse counts with scipy.sparse.save_npz("x.npz", x.tocsr())"#;
            return Err(refuse("a dense array is no corpus", remedy));
        }
        let name = path.to_string_lossy().to_ascii_lowercase();
        let name = name.strip_suffix(".gz").unwrap_or(&name);
        let ends_with = |endings: &[&str]| endings.iter().any(|ending| name.ends_with(ending));
        if ends_with(&[".jsonl", ".ndjson", ".json"]) {
            return Ok(Format::Jsonl);
        }
        if ends_with(&[".csv", ".tsv"]) {
            return Ok(Format::Csv);
        }
        if ends_with(&[".mallet"]) {
            return Ok(Format::Mallet);
        }
        if ends_with(&[".npz"]) {
            return Ok(Format::Npz);
        }
        // A damaged file still is what its name says, and its error should be that of its format.
        if ends_with(&[".ldac", ".lda-c"]) {
            return Ok(Format::LdaC);
        }
        if ends_with(&[".mtx", ".mm"]) {
            return Ok(Format::Mtx);
        }
        if ends_with(&[".svm", ".svmlight", ".libsvm"]) {
            return Ok(Format::Svmlight);
        }
        Ok(guess_lines(&first_lines(path)?).unwrap_or(Format::Lines))
    }
}

/// What the first lines look like, if they look like anything but text.
fn guess_lines(lines: &[Vec<u8>]) -> Option<Format> {
    let first = lines.first()?;
    if first.starts_with(b"%%MatrixMarket") {
        return Some(Format::Mtx);
    }
    if first.trim_ascii_start().starts_with(b"{\"") {
        return Some(Format::Jsonl);
    }
    let fields = |line: &[u8]| -> Vec<Vec<u8>> {
        line.split(u8::is_ascii_whitespace).filter(|field| !field.is_empty()).map(<[u8]>::to_vec).collect()
    };
    let is_whole = |field: &Vec<u8>| field.iter().all(u8::is_ascii_digit);
    let numbers = |line: &[u8], count: usize| {
        let fields = fields(line);
        fields.len() == count && fields.iter().all(is_whole)
    };
    let header = lines.len() >= 3 && lines[..3].iter().all(|line| numbers(line, 1));
    // A count below zero makes it no text, but a file whose error should be that of its format.
    let is_number = |field: &Vec<u8>| std::str::from_utf8(field).is_ok_and(|text| text.parse::<f64>().is_ok());
    let is_entry = |line: &Vec<u8>| fields(line).len() == 3 && fields(line).iter().all(is_number);
    if header && lines.get(3).is_none_or(is_entry) {
        return Some(Format::Uci);
    }
    // Lines that start with a number and go on with pairs; LDA-C says how many.
    let (mut counted, mut any) = (true, false);
    for line in lines.iter().filter(|line| !line.trim_ascii().is_empty() && !line.starts_with(b"#")) {
        let fields = fields(line);
        let pairs = fields[1..].iter().take_while(|field| !field.starts_with(b"#"));
        let mut num_pairs = 0;
        for pair in pairs {
            let colon = pair.iter().position(|&byte| byte == b':')?;
            let is_number = |text: &[u8]| std::str::from_utf8(text).is_ok_and(|text| text.parse::<f64>().is_ok());
            if !is_number(&pair[colon + 1..]) || !(is_number(&pair[..colon]) || pair.starts_with(b"qid:")) {
                return None;
            }
            num_pairs += 1;
        }
        let label = std::str::from_utf8(&fields[0]).ok()?;
        label.parse::<f64>().ok()?;
        counted &= label.parse() == Ok(num_pairs);
        any |= num_pairs > 0;
    }
    match (any, counted) {
        (false, _) => None,
        (true, true) => Some(Format::LdaC),
        (true, false) => Some(Format::Svmlight),
    }
}

fn first_bytes(path: &Path) -> Result<Vec<u8>> {
    let mut start = Vec::new();
    let read = fs::File::open(path).and_then(|file| file.take(8).read_to_end(&mut start));
    read.map_err(|source| Error::Io { path: path.to_owned(), action: "open", source })?;
    Ok(start)
}

/// A few lines from the start of a file.
fn first_lines(path: &Path) -> Result<Vec<Vec<u8>>> {
    let mut file = TextFile::open(path)?;
    let mut lines = Vec::new();
    let mut bytes = 0;
    while lines.len() < 20 && bytes < 1 << 20 {
        let Some(line) = file.next_line()? else { break };
        bytes += line.len();
        lines.push(line.to_vec());
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_told_apart() {
        let folder = tempfile::tempdir().unwrap();
        for (name, text, expected) in [
            ("docword.x.txt", "2\n3\n2\n1 1 1\n2 3 1\n", Format::Uci),
            ("x", "2\n3\n0\n", Format::Uci),
            ("x", "2\n3\n1\n1 1 -1\n", Format::Uci),
            ("x.txt", "%%MatrixMarket matrix coordinate integer general\n", Format::Mtx),
            ("x.dat", "2 0:1 4:2\n0\n1 3:1\n", Format::LdaC),
            ("x.dat", "1 1:1 4:2\n-1 3:1 # note\n", Format::Svmlight),
            ("x.dat", "+1 qid:3 1:0.5 2:1\n", Format::Svmlight),
            ("x.svm", "1\n", Format::Svmlight),
            ("x.ldac", "2 0:1 4:2\n3 3:1\n", Format::LdaC),
            ("x.lda-c.gz", "1 0:1 4:2\n", Format::LdaC),
            ("x.mtx", "3 3 1\n", Format::Mtx),
            ("x.txt", "{\"text\": 1}\n", Format::Jsonl),
            ("x.jsonl", "", Format::Jsonl),
            ("x.CSV", "a,b\n", Format::Csv),
            ("x.mallet", "a b c\n", Format::Mallet),
            ("x.txt", "some words\nmore: words\n", Format::Lines),
            ("x.txt", "3 words: here\n", Format::Lines),
            ("x.txt", "1\n\n2\n", Format::Lines),
            ("x.txt", "", Format::Lines),
        ] {
            let path = folder.path().join(name);
            fs::write(&path, text).unwrap();
            assert_eq!(Format::guess(&path).unwrap(), expected, "{name} {text:?}");
        }
        assert_eq!(Format::guess(folder.path()).unwrap(), Format::Files);
        fs::write(folder.path().join(crate::corpus::INDPTR), "").unwrap();
        assert_eq!(Format::guess(folder.path()).unwrap(), Format::Corpus);
    }

    #[test]
    fn what_cannot_be_read_says_why() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        for (bytes, expected) in [
            (&b"\x93NUMPY\x01\x00"[..], "save_npz"),
            (b"\xff\xfea\x00", "iconv"),
            (b"\x28\xb5\x2f\xfdxxx", "zstd"),
            (b"\x1f\x8b\x08\x00\x00", "gzip data is broken"),
        ] {
            fs::write(&path, bytes).unwrap();
            let error = Format::guess(&path).unwrap_err();
            assert!(error.is_bad_input() && error.to_string().contains(expected), "{error}");
        }
        assert!(matches!(Format::guess(&folder.path().join("none")), Err(Error::NotFound { .. })));
    }
}
