//! Many short texts in one piece of memory.

use std::path::Path;

use crate::error::Result;

use crate::corpus::text::text_file::{TextFile, decode};

/// Texts in order, such as the names of documents.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lines {
    text: String,
    ends: Vec<usize>,
}

impl Lines {
    /// Read the lines of a file; bytes that are no UTF-8 are replaced.
    pub(in crate::corpus) fn read(path: &Path) -> Result<Self> {
        let mut file = TextFile::open(path)?;
        let mut lines = Lines::default();
        while let Some(line) = file.next_line()? {
            match std::str::from_utf8(line) {
                Ok(line) => lines.push(line),
                Err(_) => lines.push(&decode(line.to_vec()).0),
            }
        }
        Ok(lines)
    }

    /// The numbers from 1 to `len`.
    pub(in crate::corpus) fn numbered(len: usize) -> Self {
        (1..=len).map(|number| number.to_string()).collect()
    }

    /// Append a text.
    pub fn push(&mut self, text: &str) {
        self.text.push_str(text);
        self.ends.push(self.text.len());
    }

    /// How many texts there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is not one text.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// A text, if it is there.
    pub fn get(&self, at: usize) -> Option<&str> {
        let end = *self.ends.get(at)?;
        let start = if at == 0 { 0 } else { self.ends[at - 1] };
        Some(&self.text[start..end])
    }

    /// All texts, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &str> + '_ {
        (0..self.len()).map(|at| self.get(at).unwrap_or_default())
    }
}

impl<S: AsRef<str>> FromIterator<S> for Lines {
    fn from_iter<I: IntoIterator<Item = S>>(texts: I) -> Self {
        let mut lines = Lines::default();
        for text in texts {
            lines.push(text.as_ref());
        }
        lines
    }
}
