//! Choose the words of a vocabulary by how many documents they are in, and renumber a corpus accordingly.

use std::path::Path;

use serde::Serialize;

use crate::data::{RowSource, Rows};
use crate::error::{Error, Result};

use crate::corpus::folder::counts::Corpus;
use crate::corpus::folder::write::CorpusWriter;
use crate::corpus::text::pipeline::{Progress, Watch};
use crate::corpus::text::vocab::Vocab;

/// Documents read at once.
const STRETCH: usize = 1 << 10;

/// Which words are kept. What is `None` is the default: for text, words in at least 2 documents and at most half of
/// them, the 100,000 that are in most documents; for counts, all words.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct VocabFilter {
    /// Documents that a word is in at least; 0 keeps words that are never seen.
    pub min_docs: Option<u64>,
    /// Share of the documents that a word is in at most, from 0 to 1.
    pub max_share: Option<f64>,
    /// Words at most: those in most documents, the first in the alphabet of equals.
    pub max_words: Option<usize>,
}

/// The defaults for text.
pub const TEXT_FILTER: VocabFilter = VocabFilter { min_docs: Some(2), max_share: Some(0.5), max_words: Some(100_000) };

impl VocabFilter {
    /// Whether the settings can be used.
    pub fn check(&self) -> Result<()> {
        let refuse =
            |setting, problem: String, remedy: &str| Err(Error::Config { setting, problem, remedy: remedy.into() });
        match (self.max_share, self.max_words) {
            (Some(share), _) if !(share > 0.0 && share <= 1.0) => {
                let problem = format!("{share} is no share of the documents");
                refuse("max-share", problem, "choose a number above 0 and not above 1")
            }
            (_, Some(0)) => refuse("max-words", "no word would be left".into(), "choose a number above 0"),
            _ => Ok(()),
        }
    }

    /// Whether any word could be left out.
    pub(in crate::corpus) fn is_asked(&self) -> bool {
        self.min_docs.is_some() || self.max_share.is_some() || self.max_words.is_some()
    }

    /// With the defaults for text where nothing is given.
    pub(in crate::corpus) fn for_text(&self) -> VocabFilter {
        VocabFilter {
            min_docs: self.min_docs.or(TEXT_FILTER.min_docs),
            max_share: self.max_share.or(TEXT_FILTER.max_share),
            max_words: self.max_words.or(TEXT_FILTER.max_words),
        }
    }
}

/// Why a word was left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    /// In too few documents.
    Rare,
    /// In too many documents.
    Common,
    /// Beyond the size of the vocabulary.
    Beyond,
}

/// A word that was left out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DroppedWord {
    /// The word.
    pub word: String,
    /// Documents that it is in.
    pub documents: u64,
    /// How often it is there.
    pub tokens: u64,
    /// Why it was left out.
    pub reason: Reason,
}

/// How many words were left out, and why.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    /// In too few documents.
    pub rare: usize,
    /// In too many documents.
    pub common: usize,
    /// Beyond the size of the vocabulary.
    pub beyond: usize,
    /// The words in most documents of each reason, the first in the alphabet of equals: a few of them, or all.
    pub words: Vec<DroppedWord>,
}

/// Words that were left out for a reason that are named in any case.
const NAMED: usize = 10;

/// In which order words are numbered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::corpus) enum Order {
    AsGiven,
    Alphabetical,
}

/// Write the documents of `corpus` with the words that `filter` keeps; gives the vocabulary. `origin` is for messages.
pub(in crate::corpus) fn filter_corpus(
    corpus: &Corpus,
    origin: &Path,
    filter: &VocabFilter,
    (order, list_all): (Order, bool),
    writer: &mut CorpusWriter,
    watch: &mut Watch<'_>,
) -> Result<(Vocab, Dropped)> {
    let (mut num_docs, mut tokens) = (vec![0u64; corpus.vocab().len()], vec![0.0; corpus.vocab().len()]);
    for_each_doc(corpus, "counting words", watch, |_, words, counts| {
        for (&word, count) in words.iter().zip(counts) {
            num_docs[word as usize] += 1;
            tokens[word as usize] += count;
        }
        Ok(())
    })?;
    let words = corpus.vocab().words();
    let (kept, left_out) = choose(words, &num_docs, corpus.num_docs(), filter, order);
    let dropped = describe(words, (&num_docs, &tokens), left_out, if list_all { usize::MAX } else { NAMED });
    if kept.is_empty() {
        return Err(Error::Format {
            path: origin.to_owned(),
            detail: format!(
                "no word is left of {}: {} are in too few documents, {} in too many of the {}",
                words.len(),
                dropped.rare,
                dropped.common,
                corpus.num_docs()
            ),
            remedy: "keep words in fewer documents (`min-docs`) or in more of them (`max-share`)".to_owned(),
        });
    }
    let mut numbers = vec![None; words.len()];
    for (number, &word) in kept.iter().enumerate() {
        // There are no more words now than before.
        numbers[word as usize] = Some(number as u32);
    }
    let ids = corpus.ids()?;
    let mut entries = Vec::new();
    for_each_doc(corpus, "writing documents", watch, |doc, words, counts| {
        entries.clear();
        let renumbered =
            words.iter().zip(counts).filter_map(|(&word, &count)| Some((numbers[word as usize]?, count as u32)));
        entries.extend(renumbered);
        writer.push(ids.get(doc), &mut entries)
    })?;
    let vocab = Vocab::new(kept.iter().map(|&word| words[word as usize].clone()).collect())?;
    Ok((vocab, dropped))
}

/// The words to keep, in their new order, and those that are left out.
fn choose(
    words: &[String],
    num_docs: &[u64],
    all_docs: usize,
    filter: &VocabFilter,
    order: Order,
) -> (Vec<u32>, Vec<(u32, Reason)>) {
    let mut dropped = Vec::new();
    let min_docs = filter.min_docs.unwrap_or(0);
    let max_docs = filter.max_share.map_or(u64::MAX, |share| (share * all_docs as f64 + 1e-9) as u64);
    let mut kept: Vec<u32> = Vec::new();
    for (word, &docs) in num_docs.iter().enumerate() {
        if docs < min_docs {
            dropped.push((word as u32, Reason::Rare));
        } else if docs > max_docs {
            dropped.push((word as u32, Reason::Common));
        } else {
            kept.push(word as u32);
        }
    }
    let by_name = |&a: &u32, &b: &u32| words[a as usize].cmp(&words[b as usize]).then(a.cmp(&b));
    let max_words = filter.max_words.unwrap_or(usize::MAX);
    if kept.len() > max_words {
        kept.sort_unstable_by(|a, b| num_docs[*b as usize].cmp(&num_docs[*a as usize]).then_with(|| by_name(a, b)));
        dropped.extend(kept.drain(max_words..).map(|word| (word, Reason::Beyond)));
        kept.sort_unstable();
    }
    if order == Order::Alphabetical {
        kept.sort_unstable_by(by_name);
    }
    (kept, dropped)
}

/// What is said of words that are left out, of each reason at most `most` by name.
fn describe(
    words: &[String],
    (num_docs, tokens): (&[u64], &[f64]),
    mut left_out: Vec<(u32, Reason)>,
    most: usize,
) -> Dropped {
    let docs = |word: u32| num_docs[word as usize];
    let by_name = |a: u32, b: u32| words[a as usize].cmp(&words[b as usize]).then(a.cmp(&b));
    left_out.sort_unstable_by(|a, b| docs(b.0).cmp(&docs(a.0)).then_with(|| by_name(a.0, b.0)));
    let mut dropped = Dropped::default();
    for (word, reason) in left_out {
        let count = match reason {
            Reason::Rare => &mut dropped.rare,
            Reason::Common => &mut dropped.common,
            Reason::Beyond => &mut dropped.beyond,
        };
        *count += 1;
        if *count <= most {
            let (documents, tokens) = (docs(word), tokens[word as usize] as u64);
            dropped.words.push(DroppedWord { word: words[word as usize].clone(), documents, tokens, reason });
        }
    }
    dropped
}

/// Read all documents in order: number, words and counts.
pub(in crate::corpus) fn for_each_doc(
    corpus: &Corpus,
    task: &'static str,
    watch: &mut Watch<'_>,
    mut take: impl FnMut(usize, &[u32], &[f64]) -> Result<()>,
) -> Result<()> {
    let mut rows = Rows::<f64>::sparse(corpus.dim());
    let num_docs = corpus.num_docs();
    let mut start = 0;
    while start < num_docs {
        let count = STRETCH.min(num_docs - start);
        rows.clear();
        corpus.read_f64(start, count, &mut rows)?;
        for doc in 0..count {
            let (words, counts) = rows.sparse_row(doc);
            take(start + doc, words, counts)?;
        }
        start += count;
        watch(&Progress { task, done: start as u64, total: num_docs as u64, docs: start })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(filter: VocabFilter, order: Order) -> (String, Dropped) {
        let words = ["d", "c", "b", "a", "e"].map(String::from);
        let docs = [0, 1, 2, 2, 4];
        let (kept, left_out) = choose(&words, &docs, 4, &filter, order);
        let dropped = describe(&words, (&docs, &[0.0, 1.0, 5.0, 2.0, 9.0]), left_out, 1);
        (kept.iter().map(|&word| words[word as usize].as_str()).collect(), dropped)
    }

    fn dropped(counts: [usize; 3], words: &[(&str, u64, u64, Reason)]) -> Dropped {
        let word = |&(word, documents, tokens, reason): &(&str, u64, u64, Reason)| DroppedWord {
            word: word.to_owned(),
            documents,
            tokens,
            reason,
        };
        let [rare, common, beyond] = counts;
        Dropped { rare, common, beyond, words: words.iter().map(word).collect() }
    }

    #[test]
    fn words_are_chosen_by_their_documents() {
        let none = VocabFilter::default();
        assert_eq!(chosen(none, Order::AsGiven).0, "dcbae");
        assert_eq!(chosen(none, Order::Alphabetical).0, "abcde");
        assert_eq!(
            chosen(none.for_text(), Order::Alphabetical),
            ("ab".into(), dropped([2, 1, 0], &[("e", 4, 9, Reason::Common), ("c", 1, 1, Reason::Rare)]))
        );
        let two = VocabFilter { max_words: Some(2), ..none };
        assert_eq!(chosen(two, Order::AsGiven), ("ae".into(), dropped([0, 0, 3], &[("b", 2, 5, Reason::Beyond)])));
        let seen = VocabFilter { min_docs: Some(1), max_words: Some(usize::MAX), ..none };
        assert_eq!(chosen(seen, Order::AsGiven).0, "cbae");
        for share in [0.0, -1.0, 1.5, f64::NAN] {
            assert!(VocabFilter { max_share: Some(share), ..none }.check().is_err());
        }
    }
}
