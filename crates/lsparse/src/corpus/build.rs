//! Build a corpus folder from text or from counts.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use hashbrown::HashSet;

use crate::error::{Error, Result};

use crate::corpus::encode::{Encoder, TextInput, TextReport, encode_growing, encode_with, find_phrases};
use crate::corpus::folder::counts::Corpus;
use crate::corpus::folder::filter::{Dropped, Order, VocabFilter, filter_corpus};
use crate::corpus::folder::metadata::{Metadata, known_fields, read_metadata};
use crate::corpus::folder::staging::{Kind, Staging};
use crate::corpus::folder::write::CorpusWriter;
use crate::corpus::format::Format;
use crate::corpus::import::{Import, Imported, IndexBase, Words, import};
use crate::corpus::text::documents::TextOptions;
use crate::corpus::text::lines::Lines;
use crate::corpus::text::phrases::PhraseConfig;
use crate::corpus::text::pipeline::Watch;
use crate::corpus::text::tokenizer::{Tokenizer, TokenizerConfig};
use crate::corpus::text::vocab::Vocab;

/// How a corpus is built.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BuildOptions {
    /// What the input is; guessed if not given.
    pub format: Option<Format>,
    /// Which part of text files is text. Whether it is read strictly goes for all formats.
    pub text: TextOptions,
    /// How text becomes words.
    pub tokenizer: TokenizerConfig,
    /// Join pairs of words that are phrases in this text.
    pub phrases: Option<PhraseConfig>,
    /// Which words are kept.
    pub filter: VocabFilter,
    /// A file with the words in the order of their numbers. Of text, only these words are counted.
    pub vocab: Option<PathBuf>,
    /// Treat text as another corpus was: its settings, its vocabulary, and what it keeps beside the counts.
    pub like: Option<PathBuf>,
    /// A file with the names of the documents, one a line.
    pub ids: Option<PathBuf>,
    /// Fields of JSON objects or columns of CSV that are kept beside the counts; of a corpus folder all are.
    pub keep: Vec<String>,
    /// The number of the first word in SVMlight files.
    pub index_base: IndexBase,
    /// Replace a corpus that is there already.
    pub force: bool,
    /// Name all words that are left out in the report, not a few of them.
    pub list_dropped: bool,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuildReport {
    /// What the input was.
    pub format: Format,
    /// Documents.
    pub num_docs: usize,
    /// Documents without words.
    pub num_empty: usize,
    /// Words of the vocabulary.
    pub vocab_size: usize,
    /// Words of all documents, each as often as it is there.
    pub num_tokens: u64,
    /// Words that were left out of the vocabulary.
    pub dropped: Dropped,
    /// Phrases that are joined.
    pub num_phrases: usize,
    /// What came to light when text was read.
    pub text: TextReport,
    /// Words that the vocabulary has more than once; each keeps its own number.
    pub repeated_words: Repeated,
    /// Names that several documents have.
    pub repeated_ids: Repeated,
}

/// Texts that should be different and are not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Repeated {
    /// How many are like an earlier one.
    pub count: usize,
    /// The first of them.
    pub first: Option<String>,
}

impl Repeated {
    /// Look for texts that are there more than once.
    pub fn among<'a>(texts: impl Iterator<Item = &'a str>) -> Self {
        let (mut seen, mut repeated) = (HashSet::new(), Repeated::default());
        for text in texts {
            if !seen.insert(text) {
                repeated.count += 1;
                repeated.first.get_or_insert_with(|| text.to_owned());
            }
        }
        repeated
    }
}

/// Build the corpus folder `out` from a file or folder. Nothing is there before it is whole.
pub fn build(input: &Path, options: &BuildOptions, out: &Path, watch: &mut Watch<'_>) -> Result<BuildReport> {
    options.filter.check()?;
    let format = options.format.map_or_else(|| Format::guess(input), Ok)?;
    check_options(format, options)?;
    let staging = Staging::create(out, Kind::Corpus, options.force)?;
    let job = Job { input, format, options, staging: &staging };
    let mut written = || {
        let built = if format.is_text() { job.text(watch)? } else { job.counts(watch)? };
        let report = built.finish(input, format)?;
        job.metadata()?.map_or(Ok(()), |metadata| metadata.write(&staging.out()))?;
        Ok(report)
    };
    let report = written().map_err(|error| staging.rename_error(error))?;
    staging.finish(options.force)?;
    Ok(report)
}

/// Options that contradict each other or the format.
fn check_options(format: Format, options: &BuildOptions) -> Result<()> {
    let refuse = |setting: &'static str, problem: &str, remedy: &str| {
        Err(Error::Config { setting, problem: problem.to_owned(), remedy: remedy.to_owned() })
    };
    if let Some(phrases) = &options.phrases {
        phrases.check()?;
    }
    let fixed = options.like.is_some() || options.vocab.is_some();
    match format.is_text() {
        false if options.like.is_some() => refuse("like", "counts have their words already", "leave it out"),
        false if options.phrases.is_some() => {
            refuse("phrases", "counts do not say which words follow each other", "give text")
        }
        false if format == Format::Corpus && options.vocab.is_some() => {
            refuse("vocab", "a corpus folder has its vocabulary", "leave it out")
        }
        true if options.like.is_some() && options.vocab.is_some() => {
            refuse("like", "the other corpus has a vocabulary", "leave out one of like and vocab")
        }
        true if fixed && options.filter.is_asked() => {
            refuse("vocab", "a vocabulary that is given is not filtered", "leave out what chooses words")
        }
        true if options.like.is_some() && options.phrases.is_some() => {
            refuse("phrases", "the other corpus says which phrases there are", "leave it out")
        }
        _ => Ok(()),
    }
}

/// A corpus whose documents are written.
struct Built {
    writer: CorpusWriter,
    names: Option<(PathBuf, usize)>,
    vocab: Arc<Vocab>,
    tokenizer: Option<TokenizerConfig>,
    dropped: Dropped,
    text: TextReport,
}

impl Built {
    fn finish(self, input: &Path, format: Format) -> Result<BuildReport> {
        let (num_docs, num_tokens) = (self.writer.num_docs(), self.writer.num_tokens());
        if num_docs == 0 {
            return Err(Error::NoRows { name: input.display().to_string() });
        }
        if num_tokens == 0 {
            return Err(Error::Format {
                path: input.to_owned(),
                detail: format!("the {num_docs} documents have no words"),
                remedy: "give a corpus that is not empty, with its own vocabulary".to_owned(),
            });
        }
        if let Some((path, found)) = self.names.filter(|(_, found)| *found != num_docs) {
            return Err(Error::Format {
                path,
                detail: format!("{found} names for {num_docs} documents"),
                remedy: "give one name a line".to_owned(),
            });
        }
        let report = BuildReport {
            format,
            num_docs,
            num_empty: self.writer.num_empty(),
            vocab_size: self.vocab.len(),
            num_tokens,
            dropped: self.dropped,
            num_phrases: self.tokenizer.as_ref().map_or(0, |tokenizer| tokenizer.phrases.len()),
            text: self.text,
            repeated_words: Repeated::among(self.vocab.words().iter().map(String::as_str)),
            repeated_ids: Repeated::default(),
        };
        let ids = self.writer.ids_path();
        self.writer.finish(&self.vocab, self.tokenizer.as_ref())?;
        let repeated_ids = Repeated::among(Lines::read(&ids)?.iter());
        Ok(BuildReport { repeated_ids, ..report })
    }
}

impl Job<'_> {
    /// What is kept of documents besides their words.
    fn metadata(&self) -> Result<Option<Metadata>> {
        let keep = &self.options.keep;
        if self.format == Format::Corpus {
            let known = Corpus::open(self.input)?.metadata()?;
            return match known {
                Some(known) if !keep.is_empty() => Ok(Some(known.only(keep)?)),
                None if !keep.is_empty() => Metadata::default().only(keep).map(Some),
                known => Ok(known),
            };
        }
        if let (true, Some(other)) = (keep.is_empty(), &self.options.like) {
            // What the other corpus has kept is kept here too, as far as it is there.
            let names = Corpus::open(other)?.metadata()?.unwrap_or_default().names;
            let known = known_fields(self.input, self.format, &self.options.text, &names)?;
            return match known.is_empty() {
                true => Ok(None),
                false => read_metadata(self.input, Some(self.format), &self.options.text, &known).map(Some),
            };
        }
        if keep.is_empty() {
            return Ok(None);
        }
        read_metadata(self.input, Some(self.format), &self.options.text, keep).map(Some)
    }
}

struct Job<'a> {
    input: &'a Path,
    format: Format,
    options: &'a BuildOptions,
    staging: &'a Staging,
}

impl Job<'_> {
    /// Start a corpus of which documents have the names that are given, if any.
    fn writer(&self, folder: &Path) -> Result<(CorpusWriter, Option<(PathBuf, usize)>)> {
        let writer = CorpusWriter::create(folder)?;
        let Some(path) = &self.options.ids else { return Ok((writer, None)) };
        let names = Lines::read(path)?;
        let found = names.len();
        Ok((writer.with_names(Some(names)), Some((path.clone(), found))))
    }

    fn read_vocab(&self) -> Result<Option<(Vocab, u64)>> {
        let strict = self.options.text.strict;
        self.options.vocab.as_deref().map(|path| Vocab::read(path, strict)).transpose()
    }

    fn text(&self, watch: &mut Watch<'_>) -> Result<Built> {
        let input = TextInput { path: self.input, format: self.format, options: &self.options.text };
        let mut config = self.options.tokenizer.clone();
        let mut vocab = self.read_vocab()?;
        if let Some(like) = &self.options.like {
            let like = Corpus::open(like)?;
            config = like.tokenizer().cloned().ok_or_else(|| Error::Config {
                setting: "like",
                problem: format!(
                    "{} was not made from text",
                    self.options.like.as_deref().unwrap_or(Path::new("")).display()
                ),
                remedy: "give its vocabulary (`vocab`) and say how text becomes words".to_owned(),
            })?;
            vocab = Some((Vocab::clone(like.vocab()), 0));
        }
        if let Some(phrases) = &self.options.phrases {
            config.phrases = find_phrases(&input, &Tokenizer::new(&config)?, phrases, watch)?;
        }
        if let Some((vocab, replaced)) = vocab {
            let encoder = Encoder::new(&config, Arc::new(vocab))?;
            let (mut writer, names) = self.writer(&self.staging.out())?;
            let mut text = encode_with(&input, &encoder, watch, |id, entries| writer.push(Some(id), entries))?;
            text.replaced += replaced;
            let vocab = Arc::clone(encoder.vocab());
            return Ok(Built { writer, names, vocab, tokenizer: Some(config), dropped: Dropped::default(), text });
        }
        let scratch = self.staging.scratch()?;
        let (mut raw, names) = self.writer(&scratch)?;
        let tokenizer = Tokenizer::new(&config)?;
        let (words, text) = encode_growing(&input, &tokenizer, watch, |id, entries| raw.push(Some(id), entries))?;
        let filter = self.options.filter.for_text();
        let (writer, vocab, dropped) = self.refine(raw, words, &scratch, &filter, watch)?;
        Ok(Built { writer, names, vocab: Arc::new(vocab), tokenizer: Some(config), dropped, text })
    }

    /// Finish a corpus with words in the order that they came, and filter it into the final one.
    fn refine(
        &self,
        raw: CorpusWriter,
        words: Vec<String>,
        scratch: &Path,
        filter: &VocabFilter,
        watch: &mut Watch<'_>,
    ) -> Result<(CorpusWriter, Vocab, Dropped)> {
        if raw.num_docs() == 0 || words.is_empty() {
            return Err(Error::Format {
                path: self.input.to_owned(),
                detail: format!("there are {} documents with {} different words", raw.num_docs(), words.len()),
                remedy: "give text with words that are not all left out".to_owned(),
            });
        }
        raw.finish(&Vocab::new(words)?, None)?;
        let mut writer = CorpusWriter::create(&self.staging.out())?;
        let corpus = Corpus::open(scratch)?;
        let (vocab, dropped) = filter_corpus(
            &corpus,
            self.input,
            filter,
            (Order::Alphabetical, self.options.list_dropped),
            &mut writer,
            watch,
        )?;
        Ok((writer, vocab, dropped))
    }

    fn counts(&self, watch: &mut Watch<'_>) -> Result<Built> {
        let filter = &self.options.filter;
        let dropped = Dropped::default();
        if self.format == Format::Corpus {
            let corpus = Corpus::open(self.input)?;
            let (mut writer, names) = self.writer(&self.staging.out())?;
            let (vocab, dropped) = filter_corpus(
                &corpus,
                self.input,
                filter,
                (Order::AsGiven, self.options.list_dropped),
                &mut writer,
                watch,
            )?;
            let (tokenizer, vocab) = (corpus.tokenizer().cloned(), Arc::new(vocab));
            return Ok(Built { writer, names, vocab, tokenizer, dropped, text: TextReport::default() });
        }
        let vocab = self.read_vocab()?;
        let vocab_path = self.options.vocab.as_deref().unwrap_or(Path::new(""));
        let given = Import {
            path: self.input,
            vocab: vocab.as_ref().map(|(vocab, _)| (vocab, vocab_path)),
            index_base: self.options.index_base,
            strict: self.options.text.strict,
        };
        // Words that are not numbered yet, or to be chosen from, take a second step.
        let two_steps = filter.is_asked() || (self.format == Format::Mallet && vocab.is_none());
        let folder = if two_steps { self.staging.scratch()? } else { self.staging.out() };
        let (writer, names) = self.writer(&folder)?;
        let Imported { writer, words, replaced } = import(self.format, &given, writer, watch)?;
        let text = TextReport { replaced: replaced + vocab.as_ref().map_or(0, |(_, replaced)| *replaced), unknown: 0 };
        let vocab = match (vocab, words) {
            (Some((vocab, _)), _) => vocab,
            (None, Words::Count(count)) => Vocab::numbered(count),
            (None, Words::Seen(words)) => {
                let (writer, vocab, dropped) = self.refine(writer, words, &folder, filter, watch)?;
                return Ok(Built { writer, names, vocab: Arc::new(vocab), tokenizer: None, dropped, text });
            }
        };
        if !filter.is_asked() {
            return Ok(Built { writer, names, vocab: Arc::new(vocab), tokenizer: None, dropped, text });
        }
        if writer.num_docs() == 0 || vocab.is_empty() {
            return Err(Error::NoRows { name: self.input.display().to_string() });
        }
        writer.finish(&vocab, None)?;
        let mut writer = CorpusWriter::create(&self.staging.out())?;
        let corpus = Corpus::open(&folder)?;
        let (vocab, dropped) = filter_corpus(
            &corpus,
            self.input,
            filter,
            (Order::AsGiven, self.options.list_dropped),
            &mut writer,
            watch,
        )?;
        Ok(Built { writer, names, vocab: Arc::new(vocab), tokenizer: None, dropped, text })
    }
}
