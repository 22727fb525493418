//! Look at a corpus: how many documents, words and tokens, and which are the most.

use serde::Serialize;

use crate::error::Result;

use crate::corpus::folder::counts::Corpus;
use crate::corpus::folder::filter::for_each_doc;
use crate::corpus::text::pipeline::Watch;

/// What is in a corpus.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CorpusStats {
    /// Documents.
    pub documents: usize,
    /// Documents without words.
    pub empty_documents: usize,
    /// Words of the vocabulary.
    pub vocabulary: usize,
    /// Words of the vocabulary that are in no document.
    pub unused_words: usize,
    /// Words of all documents, each as often as it is there.
    pub tokens: u64,
    /// Pairs of a document and a word that is in it.
    pub entries: usize,
    /// Different words a document.
    pub types_per_document: Spread,
    /// Words a document, each as often as it is there.
    pub tokens_per_document: Spread,
    /// The words with most tokens.
    pub common_words: Vec<WordStats>,
    /// The documents with most tokens.
    pub longest_documents: Vec<DocStats>,
}

/// How a number is spread over documents.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// The average.
    pub mean: f64,
    /// The least.
    pub min: u64,
    /// Half of the documents have no more.
    pub median: u64,
    /// The most.
    pub max: u64,
}

/// A word and how common it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WordStats {
    /// The word.
    pub word: String,
    /// How often it is there.
    pub tokens: u64,
    /// Documents that it is in.
    pub documents: u64,
}

/// A document and how long it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DocStats {
    /// Its number, from 0.
    pub document: usize,
    /// Its name.
    pub id: String,
    /// Its words, each as often as it is there.
    pub tokens: u64,
    /// Its different words.
    pub types: u64,
}

/// Read a corpus once and say what is in it, with the `top` most common words and longest documents.
pub fn corpus_stats(corpus: &Corpus, top: usize, watch: &mut Watch<'_>) -> Result<CorpusStats> {
    let mut words = vec![(0u64, 0u64); corpus.vocab().len()];
    let mut docs: Vec<(u64, u64)> = Vec::with_capacity(corpus.num_docs());
    for_each_doc(corpus, "reading documents", watch, |_, numbers, counts| {
        let mut tokens = 0;
        for (&word, &count) in numbers.iter().zip(counts) {
            let count = count as u64;
            let (of_word, in_docs) = &mut words[word as usize];
            *of_word += count;
            *in_docs += 1;
            tokens += count;
        }
        docs.push((tokens, numbers.len() as u64));
        Ok(())
    })?;
    let ids = corpus.ids()?;
    // Equals keep their order, so the same corpus gives the same list.
    let first = |keys: &[(u64, u64)]| {
        let mut order: Vec<usize> = (0..keys.len()).filter(|&at| keys[at].0 > 0).collect();
        order.sort_by_key(|&at| std::cmp::Reverse(keys[at]));
        order.truncate(top);
        order
    };
    let common_words = first(&words).into_iter().map(|word| WordStats {
        word: corpus.vocab().words()[word].clone(),
        tokens: words[word].0,
        documents: words[word].1,
    });
    let longest_documents = first(&docs).into_iter().map(|document| DocStats {
        document,
        id: ids.get(document).unwrap_or_default().to_owned(),
        tokens: docs[document].0,
        types: docs[document].1,
    });
    Ok(CorpusStats {
        documents: docs.len(),
        empty_documents: docs.iter().filter(|doc| doc.0 == 0).count(),
        vocabulary: words.len(),
        unused_words: words.iter().filter(|word| word.0 == 0).count(),
        tokens: docs.iter().map(|doc| doc.0).sum(),
        entries: corpus.num_entries(),
        common_words: common_words.collect(),
        longest_documents: longest_documents.collect(),
        types_per_document: spread(docs.iter().map(|doc| doc.1)),
        tokens_per_document: spread(docs.iter().map(|doc| doc.0)),
    })
}

fn spread(values: impl Iterator<Item = u64>) -> Spread {
    let mut values: Vec<u64> = values.collect();
    values.sort_unstable();
    let at = |index: usize| values.get(index).copied().unwrap_or(0);
    Spread {
        mean: values.iter().sum::<u64>() as f64 / values.len().max(1) as f64,
        min: at(0),
        median: at(values.len().saturating_sub(1) / 2),
        max: at(values.len().saturating_sub(1)),
    }
}
