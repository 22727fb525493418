//! Read text files line by line, gzipped or not, and know at which line one is.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use flate2::bufread::MultiGzDecoder;

use crate::data::formats::binary::{check_encoding, check_text};
use crate::data::formats::csv::GZIP_MAGIC;
use crate::error::{Error, Result};

/// Longer lines belong to no text.
const MAX_LINE: u64 = 1 << 30;

/// A text file that is being read.
pub(in crate::corpus) struct TextFile {
    path: PathBuf,
    text: Box<dyn BufRead + Send>,
    gzipped: bool,
    line: u64,
    buffer: Vec<u8>,
    taken: Arc<AtomicU64>,
}

impl TextFile {
    /// Open a file; a mark at its start is passed over, and what is no text is refused.
    pub(in crate::corpus) fn open(path: &Path) -> Result<Self> {
        Self::open_one(path, |start| check_text(path, start, None))
    }

    /// Open a list of words.
    pub(in crate::corpus) fn open_words(path: &Path) -> Result<Self> {
        Self::open_one(path, |start| check_encoding(path, start, None))
    }

    /// Open one file of a folder, where what is no text has a remedy of its own.
    pub(in crate::corpus) fn open_among(path: &Path, remedy: &str) -> Result<Self> {
        Self::open_one(path, |start| check_text(path, start, Some(remedy)))
    }

    fn open_one(path: &Path, check: impl FnOnce(&[u8]) -> Result<()>) -> Result<Self> {
        let file = File::open(path).map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => Error::NotFound { path: path.to_owned() },
            _ => Error::Io { path: path.to_owned(), action: "open", source },
        })?;
        let taken = Arc::new(AtomicU64::new(0));
        let mut file = BufReader::with_capacity(1 << 17, Counted { file, taken: Arc::clone(&taken) });
        let failed = |source| Error::Io { path: path.to_owned(), action: "read", source };
        let start = file.fill_buf().map_err(failed)?;
        check_packed(path, start)?;
        let gzipped = start.starts_with(&GZIP_MAGIC);
        let text: Box<dyn BufRead + Send> = if gzipped {
            Box::new(BufReader::with_capacity(1 << 17, MultiGzDecoder::new(file)))
        } else {
            Box::new(file)
        };
        let mut opened = TextFile { path: path.to_owned(), text, gzipped, line: 0, buffer: Vec::new(), taken };
        let start = opened.text.fill_buf();
        let start = start.map_err(|source| read_failed(path, gzipped, source))?;
        check(start)?;
        // Some editors mark the start of a text.
        if start.starts_with(b"\xef\xbb\xbf") {
            opened.text.consume(3);
        }
        Ok(opened)
    }

    pub(in crate::corpus) fn path(&self) -> &Path {
        &self.path
    }

    /// The number, from 1, of the line read last.
    pub(in crate::corpus) fn line(&self) -> u64 {
        self.line
    }

    /// Bytes taken from the file so far, before they are unpacked.
    pub(in crate::corpus) fn taken(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.taken)
    }

    /// The next line, without what ends it.
    pub(in crate::corpus) fn next_line(&mut self) -> Result<Option<&[u8]>> {
        self.buffer.clear();
        let read = (&mut self.text).take(MAX_LINE).read_until(b'\n', &mut self.buffer);
        let read = read.map_err(|source| read_failed(&self.path, self.gzipped, source))?;
        if read == 0 {
            return Ok(None);
        }
        self.line += 1;
        if read as u64 == MAX_LINE {
            return Err(self.bad("the line is longer than 1 GiB".to_owned(), "give a text file"));
        }
        let line = self.buffer.strip_suffix(b"\n").unwrap_or(&self.buffer);
        Ok(Some(line.strip_suffix(b"\r").unwrap_or(line)))
    }

    /// The line read last, once more.
    pub(in crate::corpus) fn current(&self) -> &[u8] {
        let line = self.buffer.strip_suffix(b"\n").unwrap_or(&self.buffer);
        line.strip_suffix(b"\r").unwrap_or(line)
    }

    /// All that is left.
    pub(in crate::corpus) fn read_rest(&mut self, out: &mut Vec<u8>) -> Result<()> {
        let read = self.text.read_to_end(out);
        read.map(drop).map_err(|source| read_failed(&self.path, self.gzipped, source))
    }

    /// The error of the line read last.
    pub(in crate::corpus) fn bad(&self, detail: String, remedy: &str) -> Error {
        // An empty file has no line; its first one is where something is missing.
        bad_line(&self.path, self.line.max(1), detail, remedy)
    }
}

impl Read for TextFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.text.read(buffer)
    }
}

/// The error of a line.
pub(in crate::corpus) fn bad_line(path: &Path, line: u64, detail: String, remedy: &str) -> Error {
    Error::BadLine { path: path.to_owned(), line, detail, remedy: remedy.to_owned() }
}

/// What a failure to read says: broken data if the file is packed, else the system's word.
pub(in crate::corpus) fn read_failed(path: &Path, gzipped: bool, source: io::Error) -> Error {
    match source.kind() {
        io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput | io::ErrorKind::UnexpectedEof if gzipped => {
            Error::Format {
                path: path.to_owned(),
                detail: format!("the gzip data is broken ({source})"),
                remedy: "copy or compress the file again".to_owned(),
            }
        }
        _ => Error::Io { path: path.to_owned(), action: "read", source },
    }
}

/// Refuse other ways to pack files than gzip.
fn check_packed(path: &Path, start: &[u8]) -> Result<()> {
    let packed = match start {
        [0x28, 0xb5, 0x2f, 0xfd, ..] => "zstd",
        [0xfd, b'7', b'z', b'X', b'Z', ..] => "xz",
        [b'B', b'Z', b'h', _, 0x31, 0x41, 0x59, 0x26, ..] => "bzip2",
        _ => return Ok(()),
    };
    Err(Error::Format {
        path: path.to_owned(),
        detail: format!("the file is packed with {packed}, only gzip is read"),
        remedy: "unpack it first".to_owned(),
    })
}

/// Text of bytes, and how many pieces of them were no UTF-8 and are replaced by U+FFFD.
pub(in crate::corpus) fn decode(bytes: Vec<u8>) -> (String, u64) {
    match String::from_utf8(bytes) {
        Ok(text) => (text, 0),
        Err(error) => {
            let bytes = error.into_bytes();
            let broken = bytes.utf8_chunks().filter(|chunk| !chunk.invalid().is_empty()).count();
            (String::from_utf8_lossy(&bytes).into_owned(), broken as u64)
        }
    }
}

/// As [`decode`], but an error if anything is to be replaced; the bytes start in line `line`.
pub(in crate::corpus) fn decode_text(path: &Path, line: u64, bytes: Vec<u8>, strict: bool) -> Result<(String, u64)> {
    if strict && let Err(error) = std::str::from_utf8(&bytes) {
        let before = &bytes[..error.valid_up_to()];
        let line = line + before.iter().filter(|&&byte| byte == b'\n').count() as u64;
        let detail = format!("byte {:#04x} is not valid UTF-8", bytes[error.valid_up_to()]);
        return Err(bad_line(path, line, detail, "convert the file to UTF-8, or do not ask for strict reading"));
    }
    Ok(decode(bytes))
}

/// Text of bytes for a message, shortened.
pub(in crate::corpus) fn shorten(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(200)]);
    let mut short: String = text.chars().take(30).collect();
    if short.len() < bytes.len() {
        short.push_str("...");
    }
    short
}

/// A file that counts what is read from it.
struct Counted {
    file: File,
    taken: Arc<AtomicU64>,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read(buffer)?;
        self.taken.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}
