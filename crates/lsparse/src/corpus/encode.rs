//! Turn text into counts of words, with a vocabulary that is given or one that grows.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use hashbrown::HashMap;

use crate::error::{Error, Result};

use crate::corpus::folder::counts::Corpus;
use crate::corpus::folder::write::tidy;
use crate::corpus::format::Format;
use crate::corpus::text::documents::{Documents, TextOptions};
use crate::corpus::text::lines::Lines;
use crate::corpus::text::phrases::{PhraseConfig, PhraseCounts};
use crate::corpus::text::pipeline::{Progress, Watch, for_each_chunk};
use crate::corpus::text::tokenizer::{TokenScratch, Tokenizer, TokenizerConfig};
use crate::corpus::text::vocab::Vocab;

/// Text files to be read.
#[derive(Clone, Copy, Debug)]
pub(in crate::corpus) struct TextInput<'a> {
    pub(in crate::corpus) path: &'a Path,
    pub(in crate::corpus) format: Format,
    pub(in crate::corpus) options: &'a TextOptions,
}

impl TextInput<'_> {
    fn documents(&self) -> Result<Documents> {
        Documents::open(self.path, self.format, self.options)
    }
}

/// Turns text into counts of the words of a vocabulary; other words are passed over.
#[derive(Debug)]
pub struct Encoder {
    tokenizer: Tokenizer,
    vocab: Arc<Vocab>,
}

impl Encoder {
    /// For a vocabulary and the settings that it was made with.
    pub fn new(tokenizer: &TokenizerConfig, vocab: Arc<Vocab>) -> Result<Self> {
        Ok(Encoder { tokenizer: Tokenizer::new(tokenizer)?, vocab })
    }

    /// The vocabulary.
    pub fn vocab(&self) -> &Arc<Vocab> {
        &self.vocab
    }

    /// The words of a text by number, ascending, and how often each is there. `entries` is filled anew.
    ///
    /// Gives the number of words that are not in the vocabulary.
    pub fn encode(&self, text: &str, scratch: &mut TokenScratch, entries: &mut Vec<(u32, u32)>) -> u64 {
        entries.clear();
        let mut unknown = 0;
        self.tokenizer.for_each(text, scratch, |word| match self.vocab.number(word) {
            Some(number) => entries.push((number, 1)),
            None => unknown += 1,
        });
        // A text with more than 2^31 equal words is longer than any that is read.
        let _ = tidy(entries);
        unknown
    }

    /// Call `take` with every word of a text that is in the vocabulary, by number, and the bytes of the
    /// [`normalized`](crate::corpus::normalized) text that it stands at.
    pub fn place(&self, text: &str, scratch: &mut TokenScratch, mut take: impl FnMut(u32, Range<usize>)) {
        self.tokenizer.for_each_placed(text, scratch, |word, place| {
            if let Some(number) = self.vocab.number(word) {
                take(number, place);
            }
        });
    }
}

/// What came to light when text was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TextReport {
    /// Pieces of text that were no UTF-8 and are replaced.
    pub replaced: u64,
    /// Words that are not in the vocabulary, each as often as it is there.
    pub unknown: u64,
}

/// Read text into memory as counts of the words of a vocabulary.
///
/// `format` is one of the text formats, guessed if not given.
pub fn encode_text(
    path: &Path,
    format: Option<Format>,
    options: &TextOptions,
    encoder: &Encoder,
    watch: &mut Watch<'_>,
) -> Result<(Corpus, TextReport)> {
    let format = format.map_or_else(|| Format::guess(path), Ok)?;
    if !format.is_text() {
        return Err(Error::Format {
            path: path.to_owned(),
            detail: "it is not text".to_owned(),
            remedy: "give text files, JSON lines or CSV, or build a corpus from it".to_owned(),
        });
    }
    let (mut indptr, mut words, mut counts, mut ids) = (vec![0], Vec::new(), Vec::new(), Lines::default());
    let report = encode_with(&TextInput { path, format, options }, encoder, watch, |id, entries| {
        words.extend(entries.iter().map(|entry| entry.0));
        counts.extend(entries.iter().map(|entry| entry.1));
        indptr.push(words.len());
        ids.push(id);
        Ok(())
    })?;
    let (name, vocab) = (path.display().to_string(), Arc::clone(&encoder.vocab));
    let corpus = Corpus::from_parts(name, indptr, words, counts, vocab, Some(ids))?;
    Ok((corpus.with_tokenizer(encoder.tokenizer.config().clone()), report))
}

/// The texts of some documents, `wanted` by ascending numbers as [`encode_text`] gives them; the others are not decoded.
pub fn read_texts(
    path: &Path,
    format: Option<Format>,
    options: &TextOptions,
    wanted: &[usize],
    watch: &mut Watch<'_>,
) -> Result<Vec<String>> {
    let format = format.map_or_else(|| Format::guess(path), Ok)?;
    let mut documents = TextInput { path, format, options }.documents()?;
    let (mut texts, mut number) = (Vec::with_capacity(wanted.len()), 0);
    while texts.len() < wanted.len() {
        let Some(doc) = documents.next_doc()? else {
            // The file has become shorter since it was read as counts.
            let name = path.display().to_string();
            return Err(Error::PastEnd { name, end: wanted[texts.len()].saturating_add(1), num_rows: number });
        };
        if number == wanted[texts.len()] {
            texts.push(doc.decode(options)?.text);
        }
        number += 1;
        if number % 4096 == 0 {
            let (done, total) = documents.progress();
            watch(&Progress { task: "reading text", done, total, docs: number })?;
        }
    }
    Ok(texts)
}

/// Documents of a chunk, one after the other.
#[derive(Default)]
struct Chunk {
    words: Vec<Box<str>>,
    docs: Vec<(String, Vec<(u32, u32)>)>,
    report: TextReport,
}

/// Hand every document of a text to `take`: its name, and the words of the vocabulary in it.
pub(in crate::corpus) fn encode_with(
    input: &TextInput<'_>,
    encoder: &Encoder,
    watch: &mut Watch<'_>,
    mut take: impl FnMut(&str, &mut Vec<(u32, u32)>) -> Result<()>,
) -> Result<TextReport> {
    let mut report = TextReport::default();
    let work = |docs: Vec<_>| {
        let (mut chunk, mut scratch) = (Chunk::default(), TokenScratch::default());
        for doc in docs {
            let doc = crate::corpus::text::documents::RawDoc::decode(doc, input.options)?;
            let mut entries = Vec::new();
            chunk.report.unknown += encoder.encode(&doc.text, &mut scratch, &mut entries);
            chunk.report.replaced += doc.replaced;
            chunk.docs.push((doc.id, entries));
        }
        Ok(chunk)
    };
    for_each_chunk("reading text", input.documents()?, watch, work, |chunk| {
        report.unknown += chunk.report.unknown;
        report.replaced += chunk.report.replaced;
        chunk.docs.into_iter().try_for_each(|(id, mut entries)| take(&id, &mut entries))
    })?;
    Ok(report)
}

/// As [`encode_with`], but words get numbers as they come; gives all of them in that order.
pub(in crate::corpus) fn encode_growing(
    input: &TextInput<'_>,
    tokenizer: &Tokenizer,
    watch: &mut Watch<'_>,
    mut take: impl FnMut(&str, &mut Vec<(u32, u32)>) -> Result<()>,
) -> Result<(Vec<String>, TextReport)> {
    let mut growing = GrowingVocab::default();
    let mut report = TextReport::default();
    let work = |docs: Vec<_>| {
        // Numbers of the chunk itself; each word is looked up once a chunk in the vocabulary of all.
        let (mut local, mut chunk, mut scratch) = (GrowingVocab::default(), Chunk::default(), TokenScratch::default());
        for doc in docs {
            let doc = crate::corpus::text::documents::RawDoc::decode(doc, input.options)?;
            let mut entries = Vec::new();
            tokenizer.for_each(&doc.text, &mut scratch, |word| entries.push((local.number(word), 1)));
            let _ = tidy(&mut entries);
            chunk.report.replaced += doc.replaced;
            chunk.docs.push((doc.id, entries));
        }
        chunk.words = local.words;
        Ok(chunk)
    };
    for_each_chunk("reading text", input.documents()?, watch, work, |chunk| {
        let numbers: Vec<u32> = chunk.words.iter().map(|word| growing.number(word)).collect();
        report.replaced += chunk.report.replaced;
        chunk.docs.into_iter().try_for_each(|(id, mut entries)| {
            entries.iter_mut().for_each(|entry| entry.0 = numbers[entry.0 as usize]);
            take(&id, &mut entries)
        })
    })?;
    Ok((growing.words.into_iter().map(String::from).collect(), report))
}

/// The phrases of a text.
pub(in crate::corpus) fn find_phrases(
    input: &TextInput<'_>,
    tokenizer: &Tokenizer,
    config: &PhraseConfig,
    watch: &mut Watch<'_>,
) -> Result<Vec<String>> {
    let mut all = PhraseCounts::default();
    let work = |docs: Vec<_>| {
        let (mut counts, mut scratch) = (PhraseCounts::default(), TokenScratch::default());
        for doc in docs {
            let doc = crate::corpus::text::documents::RawDoc::decode(doc, input.options)?;
            counts.add_text(tokenizer, &doc.text, &mut scratch);
        }
        Ok(counts)
    };
    for_each_chunk("looking for phrases", input.documents()?, watch, work, |counts| {
        all.merge(counts);
        Ok(())
    })?;
    Ok(all.phrases(config))
}

/// Words that get numbers as they come.
#[derive(Debug, Default)]
pub(in crate::corpus) struct GrowingVocab {
    numbers: HashMap<Box<str>, u32>,
    pub(in crate::corpus) words: Vec<Box<str>>,
}

impl GrowingVocab {
    pub(in crate::corpus) fn number(&mut self, word: &str) -> u32 {
        if let Some(&number) = self.numbers.get(word) {
            return number;
        }
        // Text with 2^32 different words does not fit into memory.
        let number = self.words.len() as u32;
        self.numbers.insert(word.into(), number);
        self.words.push(word.into());
        number
    }
}
