//! Documents in the words of a list, matched by name: those of a corpus or of raw text.

use crate::corpus::{Corpus, Vocab};
use crate::data::{self, Element, RowSource, Rows, Scalar};
use crate::error::Result;

/// The column of a word that the list does not have.
const NONE: u32 = u32::MAX;

/// Documents read at a time to count their words.
const STRETCH: usize = 4096;

/// The number of words of every document, of any rows of counts.
pub fn document_lengths(source: &dyn RowSource) -> Result<Vec<f64>> {
    let mut lengths = Vec::with_capacity(source.num_rows());
    let mut rows = Rows::<f64>::sparse(source.dim());
    while lengths.len() < source.num_rows() {
        rows.clear();
        source.read_f64(lengths.len(), STRETCH.min(source.num_rows() - lengths.len()), &mut rows)?;
        lengths.extend((0..rows.len()).map(|n| rows.sparse_row(n).1.iter().sum::<f64>()));
    }
    Ok(lengths)
}

/// Documents as rows with a column for each word of a list.
pub struct Documents {
    corpus: Corpus,
    /// For each word of the corpus its column; none where the corpus has the very list.
    columns: Option<Vec<u32>>,
    dim: usize,
    /// Words of the documents that the list does not have, each as often as it is there.
    pub unknown: u64,
}

impl Documents {
    /// The documents of a corpus in the words of a list, matched by name.
    pub fn in_words(corpus: Corpus, words: &Vocab) -> Result<Self> {
        let dim = words.len();
        if corpus.vocab().as_ref() == words {
            return Ok(Documents { corpus, columns: None, dim, unknown: 0 });
        }
        let columns = corpus.vocab().words().iter().map(|word| words.number(word).unwrap_or(NONE));
        let columns: Vec<u32> = columns.collect();
        let all_known = !columns.contains(&NONE);
        let mut documents = Documents { corpus, columns: Some(columns), dim, unknown: 0 };
        if !all_known {
            let known: f64 = document_lengths(&documents)?.iter().sum();
            documents.unknown = documents.corpus.num_tokens().saturating_sub(known as u64);
        }
        Ok(documents)
    }

    /// Documents that were made of text in the words of the list; `unknown` words were passed over.
    pub fn of_text(corpus: Corpus, unknown: u64) -> Self {
        Documents { dim: corpus.vocab().len(), corpus, columns: None, unknown }
    }

    /// The corpus that they are from.
    pub fn corpus(&self) -> &Corpus {
        &self.corpus
    }

    /// Words of the documents that the list has, each as often as it is there.
    pub fn known(&self) -> u64 {
        // The words of raw text that the list does not have are not in the corpus at all.
        let all = self.corpus.num_tokens();
        if self.columns.is_some() { all.saturating_sub(self.unknown) } else { all }
    }

    fn append<T: Scalar>(&self, start: usize, count: usize, out: &mut Rows<T>) -> Result<()> {
        let Some(columns) = &self.columns else { return data::read(&self.corpus, start, count, out) };
        let mut rows = Rows::<T>::sparse(self.corpus.dim());
        data::read(&self.corpus, start, count, &mut rows)?;
        let mut pairs: Vec<(u32, T)> = Vec::new();
        let (mut index, mut value) = (Vec::new(), Vec::new());
        for n in 0..count {
            let (words, counts) = rows.sparse_row(n);
            pairs.clear();
            let mapped = words.iter().zip(counts).map(|(&word, &count)| (columns[word as usize], count));
            pairs.extend(mapped.filter(|pair| pair.0 != NONE));
            pairs.sort_unstable_by_key(|pair| pair.0);
            index.clear();
            value.clear();
            // A word that the corpus has under two numbers has one column.
            for same in pairs.chunk_by(|a, b| a.0 == b.0) {
                index.push(same[0].0);
                value.push(T::from_f64(same.iter().map(|pair| pair.1.to_f64()).sum()));
            }
            out.push_sparse(&index, &value);
        }
        Ok(())
    }
}

impl RowSource for Documents {
    fn name(&self) -> &str {
        self.corpus.name()
    }

    fn num_rows(&self) -> usize {
        self.corpus.num_docs()
    }

    fn dim(&self) -> usize {
        self.dim
    }

    fn element(&self) -> Element {
        self.corpus.element()
    }

    fn is_sparse(&self) -> bool {
        true
    }

    fn num_entries(&self) -> Option<usize> {
        Some(self.corpus.num_entries())
    }

    fn row_name(&self, row: usize) -> Option<String> {
        self.corpus.row_name(row)
    }

    fn read_f32(&self, start: usize, count: usize, out: &mut Rows<f32>) -> Result<()> {
        self.append(start, count, out)
    }

    fn read_f64(&self, start: usize, count: usize, out: &mut Rows<f64>) -> Result<()> {
        self.append(start, count, out)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn words_are_matched_by_name() {
        let vocab = |words: &[&str]| Vocab::new(words.iter().map(|&word| word.to_owned()).collect()).unwrap();
        let words = Arc::new(vocab(&["b", "x", "a", "b"]));
        let corpus =
            Corpus::from_parts("three", vec![0, 3, 3, 5], vec![0, 1, 3, 1, 2], vec![2, 1, 5, 4, 7], words, None);
        let documents = Documents::in_words(corpus.unwrap(), &vocab(&["a", "b", "c"])).unwrap();
        assert_eq!((documents.num_rows(), documents.dim(), documents.unknown, documents.known()), (3, 3, 5, 14));
        let mut rows = Rows::<f32>::dense(3);
        documents.read_f32(0, 3, &mut rows).unwrap();
        assert_eq!(rows.as_dense().unwrap(), [0.0, 7.0, 0.0, 0.0, 0.0, 0.0, 7.0, 0.0, 0.0]);
        assert_eq!(document_lengths(&documents).unwrap(), [7.0, 0.0, 7.0]);
    }
}
