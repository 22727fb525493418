//! Read the formats that others keep counts of words in.
//!
//! Each importer is one function that hands documents to a [`CorpusWriter`] and says which words there are. Memory
//! grows with what a file holds, never with what its header says.

mod lda_c;
mod mallet;
mod mtx;
mod npz;
mod numbers;
mod svmlight;
mod triplets;
mod uci;

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::data::check_columns;
use crate::error::{Error, Result};

use crate::corpus::folder::write::CorpusWriter;
use crate::corpus::format::Format;
use crate::corpus::text::pipeline::{Progress, Watch};
use crate::corpus::text::text_file::TextFile;
use crate::corpus::text::vocab::Vocab;

/// The number of the first word in SVMlight files, which do not say it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum IndexBase {
    /// Words are numbered from 0.
    Zero,
    /// Words are numbered from 1, as the format has it.
    #[default]
    One,
    /// From 0 if the file has a word 0, else from 1.
    Auto,
}

/// What an importer is given.
pub(in crate::corpus) struct Import<'a> {
    pub(in crate::corpus) path: &'a Path,
    /// The vocabulary, if there is one, and the file that it is from.
    pub(in crate::corpus) vocab: Option<(&'a Vocab, &'a Path)>,
    pub(in crate::corpus) index_base: IndexBase,
    pub(in crate::corpus) strict: bool,
}

/// The words that an importer found.
pub(in crate::corpus) enum Words {
    /// So many, numbered from 0.
    Count(usize),
    /// These, in the order that they came.
    Seen(Vec<String>),
}

/// What an importer found.
pub(in crate::corpus) struct Imported {
    pub(in crate::corpus) writer: CorpusWriter,
    pub(in crate::corpus) words: Words,
    /// Pieces of text that were no UTF-8.
    pub(in crate::corpus) replaced: u64,
}

impl Imported {
    fn counts(writer: CorpusWriter, num_words: usize) -> Self {
        Imported { writer, words: Words::Count(num_words), replaced: 0 }
    }
}

/// Read a file of counts, in any format but text and corpora.
pub(in crate::corpus) fn import(
    format: Format,
    import: &Import<'_>,
    writer: CorpusWriter,
    watch: &mut Watch<'_>,
) -> Result<Imported> {
    match format {
        Format::Uci => uci::read(import, writer, watch),
        Format::LdaC => lda_c::read(import, writer, watch),
        Format::Mtx => mtx::read(import, writer, watch),
        Format::Svmlight => svmlight::read(import, writer, watch),
        Format::Npz => npz::read(import, writer, watch),
        Format::Mallet => mallet::read(import, writer, watch),
        Format::Files | Format::Jsonl | Format::Csv | Format::Lines | Format::Corpus => Err(Error::Format {
            path: import.path.to_owned(),
            detail: "it holds no counts of words".to_owned(),
            remedy: "choose another format".to_owned(),
        }),
    }
}

impl Import<'_> {
    /// The vocabulary has as many words as the file says.
    fn check_vocab(&self, found: usize, at: impl Fn(String, &str) -> Error) -> Result<()> {
        match self.vocab {
            Some((vocab, path)) if vocab.len() != found => {
                let detail = format!("{found} words, but the vocabulary {} has {}", path.display(), vocab.len());
                Err(at(detail, "give the vocabulary that belongs to the file"))
            }
            _ => Ok(()),
        }
    }

    /// The numbers of words that a file without a header may have end here.
    fn word_limit(&self) -> usize {
        self.vocab.map_or(crate::data::MAX_DIM, |(vocab, _)| vocab.len())
    }

    /// What messages say about a word beyond [`word_limit`](Import::word_limit).
    fn beyond(&self) -> String {
        match self.vocab {
            Some((vocab, path)) => format!("the vocabulary {} has {} words", path.display(), vocab.len()),
            None => format!("{} words are the most that are read", crate::data::MAX_DIM),
        }
    }

    /// How many words there are in a file without a header whose largest word number is given.
    fn num_words(&self, largest: Option<u32>, entries: usize) -> Result<usize> {
        if let Some((vocab, _)) = self.vocab {
            return Ok(vocab.len());
        }
        let found = largest.map_or(0, |largest| largest as usize + 1);
        check_columns("words", found, entries).map_err(|(detail, remedy)| Error::Format {
            path: self.path.to_owned(),
            detail,
            remedy,
        })?;
        Ok(found)
    }
}

/// Tells a watcher about a file that is read line by line, now and then.
struct Ticker {
    taken: std::sync::Arc<std::sync::atomic::AtomicU64>,
    total: u64,
    lines: u64,
}

impl Ticker {
    fn new(file: &TextFile) -> Self {
        let total = std::fs::metadata(file.path()).map(|found| found.len()).unwrap_or(0);
        Ticker { taken: file.taken(), total, lines: 0 }
    }

    fn tick(&mut self, docs: usize, watch: &mut Watch<'_>) -> Result<()> {
        self.lines += 1;
        if !self.lines.is_multiple_of(1 << 12) {
            return Ok(());
        }
        let done = self.taken.load(std::sync::atomic::Ordering::Relaxed);
        watch(&Progress { task: "reading counts", done, total: self.total, docs })
    }
}
