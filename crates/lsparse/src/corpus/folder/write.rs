//! Write a corpus folder document by document.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

use crate::corpus::folder::array::ArrayWriter;
use crate::corpus::folder::meta::Meta;
use crate::corpus::text::lines::Lines;
use crate::corpus::text::tokenizer::TokenizerConfig;
use crate::corpus::text::vocab::Vocab;
use crate::corpus::{COUNTS, IDS, INDPTR, META, VOCAB, WORDS};

/// The largest count of a word in a document.
pub(in crate::corpus) const MAX_COUNT: u32 = i32::MAX as u32;

/// A corpus folder that grows by documents.
///
/// Words and counts are written as int32, which SciPy takes as they are.
#[derive(Debug)]
pub(in crate::corpus) struct CorpusWriter {
    folder: PathBuf,
    indptr: ArrayWriter,
    words: ArrayWriter,
    counts: ArrayWriter,
    ids: TextWriter,
    /// What documents are called, if that is given apart from them.
    names: Option<Lines>,
    num_docs: usize,
    num_empty: usize,
    num_tokens: u64,
    max_count: u32,
}

impl CorpusWriter {
    /// Start the files of a corpus in a folder that is there.
    pub(in crate::corpus) fn create(folder: &Path) -> Result<Self> {
        let mut indptr = ArrayWriter::create(&folder.join(INDPTR), "<i8")?;
        indptr.extend([0i64.to_le_bytes()].into_iter())?;
        Ok(CorpusWriter {
            folder: folder.to_owned(),
            indptr,
            words: ArrayWriter::create(&folder.join(WORDS), "<i4")?,
            counts: ArrayWriter::create(&folder.join(COUNTS), "<i4")?,
            ids: TextWriter::create(&folder.join(IDS))?,
            names: None,
            num_docs: 0,
            num_empty: 0,
            num_tokens: 0,
            max_count: 0,
        })
    }

    /// Call the documents by these names, whatever names they come with.
    pub(in crate::corpus) fn with_names(mut self, names: Option<Lines>) -> Self {
        self.names = names;
        self
    }

    /// Forget all documents.
    pub(in crate::corpus) fn restart(self) -> Result<Self> {
        Ok(CorpusWriter::create(&self.folder)?.with_names(self.names))
    }

    /// The file with the names of the documents.
    pub(in crate::corpus) fn ids_path(&self) -> PathBuf {
        self.folder.join(IDS)
    }

    /// Documents written.
    pub(in crate::corpus) fn num_docs(&self) -> usize {
        self.num_docs
    }

    /// Documents written that have no words.
    pub(in crate::corpus) fn num_empty(&self) -> usize {
        self.num_empty
    }

    /// Words written, each as often as it is counted.
    pub(in crate::corpus) fn num_tokens(&self) -> u64 {
        self.num_tokens
    }

    /// Append a document: words and their counts in any order, repeated ones to be summed. It is called by its
    /// number where it has no name. `entries` is sorted on the way.
    pub(in crate::corpus) fn push(&mut self, id: Option<&str>, entries: &mut Vec<(u32, u32)>) -> Result<()> {
        tidy(entries).map_err(|word| Error::Format {
            path: self.folder.clone(),
            detail: format!("document {} has word {} more than {MAX_COUNT} times", self.num_docs + 1, word + 1),
            remedy: "mend the counts".to_owned(),
        })?;
        self.words.extend(entries.iter().map(|entry| entry.0.to_le_bytes()))?;
        self.counts.extend(entries.iter().map(|entry| entry.1.to_le_bytes()))?;
        self.indptr.extend([(self.words.len() as i64).to_le_bytes()].into_iter())?;
        self.num_docs += 1;
        self.num_empty += usize::from(entries.is_empty());
        for &(_, count) in entries.iter() {
            self.num_tokens += u64::from(count);
            self.max_count = self.max_count.max(count);
        }
        let given = self.names.as_ref().and_then(|names| names.get(self.num_docs - 1));
        match given.or(id) {
            Some(id) if !id.trim().is_empty() => self.ids.line(id),
            _ => self.ids.line(&self.num_docs.to_string()),
        }
    }

    /// Write what is left: the vocabulary, and how text becomes its words.
    pub(in crate::corpus) fn finish(self, vocab: &Vocab, tokenizer: Option<&TokenizerConfig>) -> Result<()> {
        let meta = Meta::new(
            self.num_docs,
            vocab.len(),
            self.words.len(),
            self.num_tokens,
            self.max_count,
            tokenizer.cloned(),
        );
        self.indptr.finish()?;
        self.words.finish()?;
        self.counts.finish()?;
        self.ids.finish()?;
        let mut words = TextWriter::create(&self.folder.join(VOCAB))?;
        for word in vocab.words() {
            words.line(word)?;
        }
        words.finish()?;
        meta.write(&self.folder.join(META))
    }
}

/// Sort entries by word, sum repeated ones and drop zeros; the error is the word that is too frequent.
pub(in crate::corpus) fn tidy(entries: &mut Vec<(u32, u32)>) -> std::result::Result<(), u32> {
    if !entries.is_sorted_by(|a, b| a.0 < b.0) {
        entries.sort_unstable();
        let mut kept = 0;
        for at in 0..entries.len() {
            if kept > 0 && entries[kept - 1].0 == entries[at].0 {
                entries[kept - 1].1 = entries[kept - 1].1.saturating_add(entries[at].1);
            } else {
                entries[kept] = entries[at];
                kept += 1;
            }
        }
        entries.truncate(kept);
    }
    entries.retain(|entry| entry.1 > 0);
    match entries.iter().find(|entry| entry.1 > MAX_COUNT) {
        Some(entry) => Err(entry.0),
        None => Ok(()),
    }
}

/// A text file of lines.
#[derive(Debug)]
struct TextWriter {
    path: PathBuf,
    file: BufWriter<File>,
}

impl TextWriter {
    fn create(path: &Path) -> Result<Self> {
        let created = fs::File::create(path);
        let file = created.map_err(|source| Error::Unwritable { path: path.to_owned(), source })?;
        Ok(TextWriter { path: path.to_owned(), file: BufWriter::new(file) })
    }

    /// Append a line; what would break it becomes a blank.
    fn line(&mut self, text: &str) -> Result<()> {
        let written = if text.contains(['\n', '\r']) {
            writeln!(self.file, "{}", text.replace(['\n', '\r'], " "))
        } else {
            writeln!(self.file, "{text}")
        };
        written.map_err(|source| Error::Unwritable { path: self.path.clone(), source })
    }

    fn finish(mut self) -> Result<()> {
        self.file.flush().map_err(|source| Error::Unwritable { path: self.path, source })
    }
}
