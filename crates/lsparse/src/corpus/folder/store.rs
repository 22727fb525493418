//! The words and counts of a corpus, on disk or in memory, read a stretch of documents at a time.

use std::path::Path;

use crate::data::formats::npy_header::Dtype;
use crate::data::{Rows, Scalar};
use crate::error::{Error, Result};

use crate::corpus::folder::array::ArrayFile;

/// Entries read at once.
const STRETCH: usize = 1 << 16;

/// Words and counts, document after document.
#[derive(Debug)]
pub(in crate::corpus) enum Store {
    Memory { words: Vec<u32>, counts: Vec<u32> },
    Files { words: ArrayFile, counts: ArrayFile },
}

impl Store {
    /// Open the two files; the values are looked at when they are read.
    pub(in crate::corpus) fn open(words: &Path, counts: &Path) -> Result<Self> {
        let (words, counts) = (ArrayFile::open(words)?, ArrayFile::open(counts)?);
        words.check_integers()?;
        if words.len() != counts.len() {
            return Err(Error::Format {
                path: counts.path().to_owned(),
                detail: format!("{} counts for {} words", counts.len(), words.len()),
                remedy: "build the corpus again".to_owned(),
            });
        }
        Ok(Store::Files { words, counts })
    }

    pub(in crate::corpus) fn len(&self) -> usize {
        match self {
            Store::Memory { words, .. } => words.len(),
            Store::Files { words, .. } => words.len(),
        }
    }

    /// Append the documents that start and end where `indptr` says, the first of which has the number `first`.
    ///
    /// `indptr` ascends and its last entry is not above [`len`](Store::len).
    pub(in crate::corpus) fn read<T: Scalar>(
        &self,
        name: &str,
        first: usize,
        indptr: &[usize],
        out: &mut Rows<T>,
    ) -> Result<()> {
        let (words, counts) = match self {
            Store::Memory { words, counts } => {
                let mut row: Vec<T> = Vec::new();
                for pair in indptr.windows(2) {
                    row.clear();
                    row.extend(counts[pair[0]..pair[1]].iter().map(|&count| T::from_f64(f64::from(count))));
                    out.push_sparse(&words[pair[0]..pair[1]], &row);
                }
                return Ok(());
            }
            Store::Files { words, counts } => (words, counts),
        };
        let mut block = Block::<T>::default();
        let mut doc = 0;
        while doc + 1 < indptr.len() {
            // As many documents as fit into a stretch, at least one.
            let start = indptr[doc];
            let fitting = indptr[doc + 1..].partition_point(|&end| end - start <= STRETCH).max(1);
            let ends = &indptr[doc..=doc + fitting];
            block.fill(words, counts, start, ends[fitting] - start)?;
            for (at, pair) in ends.windows(2).enumerate() {
                let (from, to) = (pair[0] - start, pair[1] - start);
                let number = first + doc + at;
                check_words(name, number, &block.words[from..to], out.dim())?;
                check_counts(name, number, &block.words[from..to], &block.counts[from..to])?;
                out.push_sparse(&block.words[from..to], &block.counts[from..to]);
            }
            doc += fitting;
        }
        Ok(())
    }

    /// The sum of all counts and the largest of them.
    pub(in crate::corpus) fn totals(&self) -> Result<(u64, f64)> {
        let mut total = (0.0, 0.0f64);
        match self {
            Store::Memory { counts, .. } => {
                for &count in counts {
                    total = (total.0 + f64::from(count), total.1.max(f64::from(count)));
                }
            }
            Store::Files { counts, .. } => {
                let (mut bytes, mut values) = (Vec::new(), Vec::<f64>::new());
                let mut start = 0;
                while start < counts.len() {
                    let count = STRETCH.min(counts.len() - start);
                    counts.read(start, count, &mut bytes)?;
                    values.clear();
                    counts.dtype().decode(&bytes, &mut values);
                    for &value in &values {
                        total = (total.0 + value, total.1.max(value));
                    }
                    start += count;
                }
            }
        }
        Ok((total.0 as u64, total.1))
    }
}

/// A stretch of entries that was read.
struct Block<T> {
    bytes: Vec<u8>,
    words: Vec<u32>,
    wide: Vec<i64>,
    counts: Vec<T>,
}

impl<T> Default for Block<T> {
    fn default() -> Self {
        Block { bytes: Vec::new(), words: Vec::new(), wide: Vec::new(), counts: Vec::new() }
    }
}

impl<T: Scalar> Block<T> {
    fn fill(&mut self, words: &ArrayFile, counts: &ArrayFile, start: usize, count: usize) -> Result<()> {
        words.read(start, count, &mut self.bytes)?;
        self.words.clear();
        match words.dtype() {
            // Negative numbers become large ones, which no vocabulary has.
            Dtype::I32 | Dtype::U32 => {
                self.words.extend(self.bytes.as_chunks().0.iter().map(|&bytes| u32::from_le_bytes(bytes)));
            }
            dtype => {
                self.wide.clear();
                dtype.decode_integers(&self.bytes, &mut self.wide);
                self.words.extend(self.wide.iter().map(|&word| u32::try_from(word).unwrap_or(u32::MAX)));
            }
        }
        counts.read(start, count, &mut self.bytes)?;
        self.counts.clear();
        counts.dtype().decode(&self.bytes, &mut self.counts);
        Ok(())
    }
}

/// Words of a document ascend and are in the vocabulary.
pub(in crate::corpus) fn check_words(name: &str, doc: usize, words: &[u32], vocab_size: usize) -> Result<()> {
    let malformed = |detail: String, remedy: &str| Error::Format {
        path: name.into(),
        detail: format!("document {} {detail}", doc + 1),
        remedy: remedy.to_owned(),
    };
    if let Some(&word) = words.iter().find(|&&word| word as usize >= vocab_size) {
        let detail = format!("has word number {word}, the vocabulary ends at {}", vocab_size.saturating_sub(1));
        return Err(malformed(detail, "give a vocabulary with all words, or build the corpus again"));
    }
    if !words.is_sorted_by(|a, b| a < b) {
        let remedy = "save the matrix after x.sum_duplicates(), which sorts them";
        return Err(malformed("has words out of order or twice".to_owned(), remedy));
    }
    Ok(())
}

/// Counts are whole and not negative.
fn check_counts<T: Scalar>(name: &str, doc: usize, words: &[u32], counts: &[T]) -> Result<()> {
    let is_count = |count: &T| {
        let count = count.to_f64();
        count >= 0.0 && count.fract() == 0.0
    };
    let Some(at) = counts.iter().position(|count| !is_count(count)) else { return Ok(()) };
    let (name, column, value) = (name.to_owned(), words[at] as usize, counts[at].to_f64());
    Err(Error::BadValue { name, row: doc, column, value, need: "a count (a whole number, zero or more)" })
}
