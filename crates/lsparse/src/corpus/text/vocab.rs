//! The words of a corpus, in the order of their numbers.

use std::path::Path;
use std::sync::OnceLock;

use hashbrown::HashMap;

use crate::error::{Error, Result};

use crate::corpus::text::text_file::{TextFile, decode_text};

/// Words by number and numbers by word.
#[derive(Debug, Default)]
pub struct Vocab {
    words: Vec<String>,
    numbers: OnceLock<HashMap<Box<str>, u32>>,
}

impl Vocab {
    /// Words in the order of their numbers; none may be empty or go on over lines.
    pub fn new(words: Vec<String>) -> Result<Self> {
        if words.len() > crate::data::MAX_DIM {
            return Err(refuse(format!("{} words are too many", words.len())));
        }
        if let Some(at) = words.iter().position(|word| word.is_empty() || word.contains(['\n', '\r'])) {
            return Err(refuse(format!("word {} is {:?}", at + 1, words[at])));
        }
        Ok(Vocab { words, numbers: OnceLock::new() })
    }

    /// Words called by their number, from 1.
    pub fn numbered(len: usize) -> Self {
        Vocab { words: (1..=len).map(|number| number.to_string()).collect(), numbers: OnceLock::new() }
    }

    /// Read one word a line, gzipped or not.
    ///
    /// Bytes that are no UTF-8 are replaced and counted, or an error with `strict`.
    pub fn read(path: &Path, strict: bool) -> Result<(Self, u64)> {
        let mut file = TextFile::open_words(path)?;
        let (mut words, mut replaced) = (Vec::new(), 0);
        let mut empty = None;
        while let Some(line) = file.next_line()? {
            let line = line.to_vec();
            let (word, broken) = decode_text(path, file.line(), line, strict)?;
            if let Some(line) = empty.filter(|_| !word.trim().is_empty()) {
                return Err(crate::corpus::text::text_file::bad_line(
                    path,
                    line,
                    "the line is empty".to_owned(),
                    "give one word a line",
                ));
            }
            if word.trim().is_empty() {
                empty.get_or_insert(file.line());
                continue;
            }
            if words.len() == crate::data::MAX_DIM {
                return Err(file.bad(format!("more than {} words", crate::data::MAX_DIM), "give fewer words"));
            }
            // A lone carriage return is no line end, but would be one to others.
            words.push(word.replace('\r', " "));
            replaced += broken;
        }
        Ok((Vocab { words, numbers: OnceLock::new() }, replaced))
    }

    /// How many words there are.
    pub fn len(&self) -> usize {
        self.words.len()
    }

    /// Whether there is not one word.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// The words in the order of their numbers.
    pub fn words(&self) -> &[String] {
        &self.words
    }

    /// The word with a number, if there is one.
    pub fn word(&self, number: u32) -> Option<&str> {
        self.words.get(number as usize).map(String::as_str)
    }

    /// The number of a word; of words that are there twice, the lower number.
    pub fn number(&self, word: &str) -> Option<u32> {
        let numbers = self.numbers.get_or_init(|| {
            let mut numbers = HashMap::with_capacity(self.words.len());
            for (number, word) in self.words.iter().enumerate() {
                // A vocabulary has fewer words than `u32` has numbers.
                numbers.entry(word.as_str().into()).or_insert(number as u32);
            }
            numbers
        });
        numbers.get(word).copied()
    }
}

impl PartialEq for Vocab {
    fn eq(&self, other: &Self) -> bool {
        self.words == other.words
    }
}

impl Clone for Vocab {
    fn clone(&self) -> Self {
        Vocab { words: self.words.clone(), numbers: OnceLock::new() }
    }
}

fn refuse(problem: String) -> Error {
    Error::Config { setting: "vocab", problem, remedy: "give words that are one line of text each".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8], strict: bool) -> Result<(Vocab, u64)> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("vocab.txt");
        std::fs::write(&path, bytes).unwrap();
        Vocab::read(&path, strict)
    }

    #[test]
    fn words_have_numbers() {
        let (vocab, replaced) = read(b"\xef\xbb\xbfb\r\na\nb\nnew york\n\n", true).unwrap();
        assert_eq!((vocab.words().join("|").as_str(), replaced), ("b|a|b|new york", 0));
        assert_eq!((vocab.number("b"), vocab.number("a"), vocab.number("x")), (Some(0), Some(1), None));
        assert_eq!((vocab.word(1), vocab.word(9)), (Some("a"), None));
        assert_eq!(Vocab::numbered(3).words(), ["1", "2", "3"]);
    }

    #[test]
    fn bad_words_are_named() {
        assert!(read(b"a\n\nb\n", false).unwrap_err().to_string().contains("vocab.txt line 2: the line is empty"));
        let (vocab, replaced) = read(b"a\nn\xffo\n", false).unwrap();
        assert_eq!((vocab.words()[1].as_str(), replaced), ("n\u{fffd}o", 1));
        let error = read(b"a\nn\xffo\n", true).unwrap_err().to_string();
        assert!(error.contains("vocab.txt line 2: byte 0xff is not valid UTF-8"), "{error}");
        assert!(Vocab::new(vec!["a\nb".into()]).is_err() && Vocab::new(vec![String::new()]).is_err());
    }
}
