//! The tokens of a corpus one by one, as samplers need them: a word that a document has c times is c tokens.

use std::ops::Range;

use crate::data::{RowSource, Rows};
use crate::error::{Error, Result};

/// All tokens, document after document, words ascending within each.
pub struct Tokens {
    /// The word of each token.
    pub word: Vec<u32>,
    /// Document d's tokens are `start[d]..start[d + 1]`.
    pub start: Vec<usize>,
    /// V.
    pub vocab_size: usize,
}

/// Documents that are read at a time.
const DOCUMENTS_A_READ: usize = 1024;

impl Tokens {
    /// Read the documents of `source`, rows of word counts, which must be whole numbers.
    pub fn read(source: &dyn RowSource) -> Result<Self> {
        let mut tokens = Tokens { word: Vec::new(), start: vec![0], vocab_size: source.dim() };
        let mut rows = Rows::sparse(source.dim());
        for first in (0..source.num_rows()).step_by(DOCUMENTS_A_READ) {
            let count = (source.num_rows() - first).min(DOCUMENTS_A_READ);
            rows.clear();
            source.read_f32(first, count, &mut rows)?;
            for n in 0..count {
                let (words, counts) = rows.sparse_row(n);
                for (&v, &c) in words.iter().zip(counts) {
                    if !(c >= 0.0 && c.fract() == 0.0 && c < 1e9) {
                        return Err(Error::BadValue {
                            name: source.name().into(),
                            row: first + n,
                            column: v as usize,
                            value: f64::from(c),
                            need: "a whole number: a sampler gives every token a topic of its own",
                        });
                    }
                    tokens.word.extend(std::iter::repeat_n(v, c as usize));
                }
                tokens.start.push(tokens.word.len());
            }
        }
        Ok(tokens)
    }

    /// Documents.
    pub fn num_documents(&self) -> usize {
        self.start.len() - 1
    }

    /// The tokens of a document.
    pub fn document(&self, d: usize) -> Range<usize> {
        self.start[d]..self.start[d + 1]
    }

    /// The tokens of a stretch of documents.
    pub fn of(&self, documents: &Range<usize>) -> Range<usize> {
        self.start[documents.start]..self.start[documents.end]
    }

    /// How often each word occurs.
    pub fn frequencies(&self) -> Vec<usize> {
        let mut frequency = vec![0; self.vocab_size];
        self.word.iter().for_each(|&v| frequency[v as usize] += 1);
        frequency
    }

    /// Tokens of the longest document.
    pub fn longest_document(&self) -> usize {
        (0..self.num_documents()).map(|d| self.document(d).len()).max().unwrap_or(0)
    }
}
