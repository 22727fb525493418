//! `lsparse corpus build`: a corpus folder from text or from counts of words.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use lsparse::backend::with_threads;
use lsparse::corpus::{
    BuildOptions, BuildReport, DroppedWord, Format, IndexBase, PhraseConfig, Reason, StopWords, TextOptions,
    TokenizerConfig, VocabFilter, build,
};
use lsparse::data::AtomicFile;
use lsparse::{Error, Result};
use serde::Serialize;

use super::watch::TaskProgress;
use crate::format::grouped;
use crate::info::setting;
use crate::output::{self, message};
use crate::parse;
use crate::stdin::Input;
use crate::topics::assign::csv_field;

/// Build a corpus from text or from counts of words.
///
/// A corpus is a folder of indptr.npy, words.npy, counts.npy, vocab.txt, ids.txt and corpus.json, which SciPy reads as
/// csr_matrix((counts, words, indptr)). Text becomes words, of which those are kept that are in enough documents and
/// not in too many; they are numbered by the alphabet. Counts are taken as they are, with the vocabulary as given.
/// Files may be gzipped.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES:
  lsparse corpus build articles/ --out corpus                       one document a file
  lsparse corpus build posts.jsonl.gz --field body --id-field url --out corpus
  lsparse corpus build talks.jsonl --keep year --keep speaker --out corpus    shares over time in lsparse explore
  lsparse corpus build reviews.csv --column text --min-docs 5 --phrases --out corpus
  lsparse corpus build zeilen.txt --stop-words german --stem german --out corpus
  lsparse corpus build wenzhang.jsonl --stop-words chinese --out corpus    words by a dictionary
  lsparse corpus build docword.kos.txt.gz --vocab vocab.kos.txt --out corpus
  lsparse corpus build new.txt --like corpus --out new              words of another corpus
  lsparse corpus build corpus --vocab-size 10000 --out smaller      fewer words")]
pub struct BuildArgs {
    /// A file or folder of text, or a file of counts; - for standard input.
    #[arg(value_name = "INPUT")]
    pub input: PathBuf,
    /// Write the corpus to this folder.
    #[arg(long, short, value_name = "FOLDER")]
    pub out: PathBuf,
    /// Replace a corpus that is there already; what else is in its folder stays.
    #[arg(long)]
    pub force: bool,
    #[command(flatten)]
    pub input_args: InputArgs,
    #[command(flatten)]
    pub words: WordArgs,
    #[command(flatten)]
    pub vocabulary: VocabularyArgs,
    /// Print what was built as JSON.
    #[arg(long)]
    pub json: bool,
    /// Print nothing but errors.
    #[arg(long, short)]
    pub quiet: bool,
    /// Threads; the corpus is the same for any number [default: one a core].
    #[arg(long, value_name = "N", value_parser = parse::threads)]
    pub threads: Option<usize>,
}

/// How the input is read.
#[derive(Args, Debug)]
#[command(next_help_heading = "Input")]
pub struct InputArgs {
    /// What the input is [default: guessed from its first bytes and its name].
    #[arg(long, value_name = "FORMAT", value_parser = parse::names::<Format>(FORMATS))]
    pub format: Option<Format>,
    /// The field of JSON objects with the text, or the column of CSV, by name or number from 1 [default: text].
    #[arg(long, value_name = "NAME", visible_alias = "column")]
    pub field: Option<String>,
    /// The field or column with the name of a document [default: none, documents are called by number or path].
    #[arg(long, value_name = "NAME", visible_alias = "id-column")]
    pub id_field: Option<String>,
    /// Keep this field of JSON objects or column of CSV beside the counts, such as a year, for the page of lsparse explore;
    /// may be given several times.
    #[arg(long, value_name = "NAME")]
    pub keep: Vec<String>,
    /// The first line of CSV is a document.
    #[arg(long)]
    pub no_header: bool,
    /// What parts the fields of CSV: one character, or comma, semicolon, tab [default: guessed].
    #[arg(long, value_name = "CHAR", value_parser = parse::delimiter)]
    pub delimiter: Option<u8>,
    /// Read only files with this ending from a folder.
    #[arg(long, value_name = "ENDING")]
    pub extension: Option<String>,
    /// The number of the first word in SVMlight files.
    #[arg(long, value_name = "BASE", default_value = "one", value_parser = parse::names::<IndexBase>(BASES))]
    pub index_base: IndexBase,
    /// A file with the names of the documents, one a line.
    #[arg(long, value_name = "FILE")]
    pub ids: Option<PathBuf>,
    /// Refuse text that is not valid UTF-8 instead of replacing it.
    #[arg(long)]
    pub strict: bool,
}

const FORMATS: &[(&str, &str)] = &[
    ("files", "a folder of text files, one document each"),
    ("jsonl", "one JSON object a line"),
    ("csv", "CSV or TSV with a column of text"),
    ("lines", "text, one document a line"),
    ("uci", "UCI bag of words (docword)"),
    ("lda-c", "LDA-C: N word:count word:count ..., words from 0"),
    ("mtx", "Matrix Market coordinates, documents as rows"),
    ("svmlight", "SVMlight: label word:count word:count ..."),
    ("npz", "a SciPy CSR matrix, documents as rows"),
    ("mallet", "MALLET: name label word word ... (never guessed, but for files named .mallet)"),
    ("corpus", "a corpus folder"),
];

const BASES: &[(&str, &str)] = &[
    ("one", "words are numbered from 1, as the format has it"),
    ("zero", "words are numbered from 0"),
    ("auto", "from 0 if there is a word 0, else from 1"),
];

/// How text becomes words.
#[derive(Args, Debug)]
#[command(next_help_heading = "Words (of text)")]
pub struct WordArgs {
    /// Words left out: a language by name or code, a file of words, or none [default: english].
    #[arg(long, value_name = "WHICH")]
    pub stop_words: Option<String>,
    /// Cut off endings, by the rules of a language [default: none].
    #[arg(long, value_name = "LANGUAGE")]
    pub stem: Option<String>,
    /// Do not put words into lower case.
    #[arg(long)]
    pub keep_case: bool,
    /// Keep words without a letter, such as 1984.
    #[arg(long)]
    pub numbers: bool,
    /// Letters that a word has at least [default: 2].
    #[arg(long, value_name = "N")]
    pub min_length: Option<usize>,
    /// Letters that a word has at most [default: 40].
    #[arg(long, value_name = "N")]
    pub max_length: Option<usize>,
    /// Whether text in scripts without blanks (Chinese, Japanese, Thai, Lao, Khmer, Burmese) is cut into words; every letter
    /// is a word where not [default: on].
    #[arg(long, value_name = "ON", value_parser = parse::on_off())]
    pub segment: Option<bool>,
    /// Join pairs of words that follow each other far more often than by chance, as new_york.
    #[arg(long)]
    pub phrases: bool,
    /// How often a phrase occurs at least [default: 10].
    #[arg(long, value_name = "N", requires = "phrases")]
    pub phrase_min_count: Option<u64>,
    /// Normalised pointwise mutual information of a phrase at least, from 0 to 1 [default: 0.5].
    #[arg(long, value_name = "NPMI", requires = "phrases", value_parser = parse::number)]
    pub phrase_threshold: Option<f64>,
    /// Treat text as another corpus was: its settings, its words, and what it keeps of each document unless --keep is given.
    #[arg(long, value_name = "CORPUS", conflicts_with_all = [
        "stop_words", "stem", "keep_case", "numbers", "min_length", "max_length", "segment", "phrases",
    ])]
    pub like: Option<PathBuf>,
}

/// Which words have a number.
#[derive(Args, Debug)]
#[command(next_help_heading = "Vocabulary")]
pub struct VocabularyArgs {
    /// A file with the words, one a line, in the order of their numbers. Of text, only these are counted.
    #[arg(long, value_name = "FILE")]
    pub vocab: Option<PathBuf>,
    /// Documents that a word is in at least [default: 2 for text, all words stay for counts].
    #[arg(long, value_name = "N", visible_alias = "min-df")]
    pub min_docs: Option<u64>,
    /// Share of the documents that a word is in at most [default: 0.5 for text].
    #[arg(long, value_name = "SHARE", visible_alias = "max-df", value_parser = parse::number)]
    pub max_share: Option<f64>,
    /// Words at most, those in most documents; none for no limit [default: 100000 for text].
    #[arg(long, value_name = "N", value_parser = parse::limit)]
    pub vocab_size: Option<usize>,
    /// Write the words that these choices leave out here, as CSV with the documents and tokens of each and why: rare,
    /// common or beyond the size.
    #[arg(long, value_name = "FILE")]
    pub dropped: Option<PathBuf>,
}

pub fn run(args: &BuildArgs) -> Result<()> {
    output::check_named(&args.out, "folder")?;
    let input = Input::open(&args.input, "")?;
    let format = args.input_args.format.map_or_else(|| Format::guess(input.path()), Ok)?;
    if !format.is_text() {
        args.words.check_unused()?;
    }
    let options = args.options(format)?;
    if let Some(path) = &args.vocabulary.dropped {
        output::check_not_input("dropped", path, &[&args.input])?;
        output::check_writable(path)?;
    }
    let report = with_threads(args.threads, || {
        let mut progress = TaskProgress::new(args.quiet);
        build(input.path(), &options, &args.out, &mut |at| progress.at(at))
    })??;
    if let Some(path) = &args.vocabulary.dropped {
        write_dropped(path, &report.dropped.words)?;
    }
    if !args.quiet {
        say(args, &report);
    }
    if args.json { output::print_json(&Note::from(&report)) } else { Ok(()) }
}

impl BuildArgs {
    fn options(&self, format: Format) -> Result<BuildOptions> {
        let (input, words, vocabulary) = (&self.input_args, &self.words, &self.vocabulary);
        Ok(BuildOptions {
            format: Some(format),
            text: TextOptions {
                field: input.field.clone(),
                id_field: input.id_field.clone(),
                header: !input.no_header,
                delimiter: input.delimiter,
                extension: input.extension.clone(),
                strict: input.strict,
            },
            tokenizer: words.tokenizer()?,
            phrases: words.phrases(),
            filter: VocabFilter {
                min_docs: vocabulary.min_docs,
                max_share: vocabulary.max_share,
                max_words: vocabulary.vocab_size,
            },
            vocab: vocabulary.vocab.clone(),
            like: words.like.clone(),
            ids: input.ids.clone(),
            keep: input.keep.clone(),
            index_base: input.index_base,
            force: self.force,
            list_dropped: vocabulary.dropped.is_some(),
        })
    }
}

impl WordArgs {
    fn tokenizer(&self) -> Result<TokenizerConfig> {
        let default = TokenizerConfig::default();
        Ok(TokenizerConfig {
            lowercase: !self.keep_case,
            min_length: self.min_length.unwrap_or(default.min_length),
            max_length: self.max_length.unwrap_or(default.max_length),
            numbers: self.numbers,
            stop_words: match &self.stop_words {
                Some(which) => stop_words(which)?,
                None => default.stop_words,
            },
            stem: self.stem.clone(),
            segment: self.segment.unwrap_or(default.segment),
            phrases: Vec::new(),
        })
    }

    fn phrases(&self) -> Option<PhraseConfig> {
        let default = PhraseConfig::default();
        self.phrases.then(|| PhraseConfig {
            min_count: self.phrase_min_count.unwrap_or(default.min_count),
            threshold: self.phrase_threshold.unwrap_or(default.threshold),
        })
    }

    /// Counts have their words already.
    fn check_unused(&self) -> Result<()> {
        let given = [
            ("stop-words", self.stop_words.is_some()),
            ("stem", self.stem.is_some()),
            ("keep-case", self.keep_case),
            ("numbers", self.numbers),
            ("min-length", self.min_length.is_some()),
            ("max-length", self.max_length.is_some()),
            ("segment", self.segment.is_some()),
        ];
        match given.into_iter().find(|(_, given)| *given) {
            Some((option, _)) => Err(Error::Config {
                setting: option,
                problem: "the input holds counts of words, not text".to_owned(),
                remedy: "leave it out, or say what the input is with --format".to_owned(),
            }),
            None => Ok(()),
        }
    }
}

/// None, a file or a language.
fn stop_words(which: &str) -> Result<StopWords> {
    let path = Path::new(which);
    if which == "none" {
        Ok(StopWords::None)
    } else if path.is_file() || which.contains(['/', '.']) {
        StopWords::read(path)
    } else {
        Ok(StopWords::Language(which.to_lowercase()))
    }
}

/// A line for each word that was left out.
fn write_dropped(path: &Path, words: &[DroppedWord]) -> Result<()> {
    let mut file = AtomicFile::create(path)?;
    let write = |file: &mut AtomicFile| -> std::io::Result<()> {
        writeln!(file, "word,documents,tokens,reason")?;
        words.iter().try_for_each(|DroppedWord { word, documents, tokens, reason }| {
            writeln!(file, "{},{documents},{tokens},{}", csv_field(word), setting(reason))
        })
    };
    write(&mut file).map_err(|source| Error::Unwritable { path: path.to_owned(), source })?;
    file.finish()
}

/// Words that are named where some are left out.
const NAMED: usize = 5;

fn say(args: &BuildArgs, report: &BuildReport) {
    message(&format!(
        "{}: {} documents, {} words, {} tokens",
        args.out.display(),
        grouped(report.num_docs),
        grouped(report.vocab_size),
        grouped(report.num_tokens as usize),
    ));
    if args.input_args.format.is_none() {
        let name = serde_json::to_value(report.format).unwrap_or_default();
        let name = name.as_str().unwrap_or_default();
        let what = FORMATS.iter().find(|(known, _)| *known == name).map_or("", |(_, what)| what);
        message(&format!("  {} was read as {name}: {what}", args.input.display()));
    }
    let repeated = [
        (&report.repeated_words, "in the vocabulary, words that it has already"),
        (&report.repeated_ids, "among the names of documents, names that earlier ones have"),
    ];
    for (repeated, what) in repeated {
        if let Some(first) = &repeated.first {
            message(&format!("  warning: {what}: {}, the first is {first:?}", grouped(repeated.count)));
        }
    }
    let dropped = &report.dropped;
    let left_out = [
        (dropped.rare, Reason::Rare, "in too few documents"),
        (dropped.common, Reason::Common, "in too many"),
        (dropped.beyond, Reason::Beyond, "beyond the size of the vocabulary"),
    ];
    let named = |(count, reason, what): &(usize, Reason, &str)| {
        let words = dropped.words.iter().filter(|word| word.reason == *reason).map(|word| word.word.as_str());
        let shown: Vec<&str> = words.take(NAMED).collect();
        let more = if *count > shown.len() { ", ..." } else { "" };
        format!("{} {what} ({}{more})", grouped(*count), shown.join(", "))
    };
    let left_out: Vec<String> = left_out.iter().filter(|(count, ..)| *count > 0).map(named).collect();
    if !left_out.is_empty() {
        message(&format!("  words left out: {}", left_out.join("; ")));
    }
    for (count, what) in [
        (report.num_phrases as u64, "phrases that are joined"),
        (report.num_empty as u64, "documents without words"),
        (report.text.unknown, "words of the text that are not in the vocabulary"),
        (report.text.replaced, "pieces of text that were not valid UTF-8 and are replaced (--strict refuses them)"),
    ] {
        if count > 0 {
            message(&format!("  {what}: {}", grouped(count as usize)));
        }
    }
}

/// What was built, as JSON.
#[derive(Serialize)]
struct Note {
    format: Format,
    documents: usize,
    empty_documents: usize,
    vocabulary: usize,
    tokens: u64,
    dropped_rare: usize,
    dropped_common: usize,
    dropped_beyond: usize,
    /// Those in most documents of each kind, at least.
    dropped_words: Vec<DroppedWord>,
    phrases: usize,
    unknown_words: u64,
    replaced: u64,
    repeated_words: usize,
    repeated_ids: usize,
}

impl From<&BuildReport> for Note {
    fn from(report: &BuildReport) -> Self {
        Note {
            format: report.format,
            documents: report.num_docs,
            empty_documents: report.num_empty,
            vocabulary: report.vocab_size,
            tokens: report.num_tokens,
            dropped_rare: report.dropped.rare,
            dropped_common: report.dropped.common,
            dropped_beyond: report.dropped.beyond,
            dropped_words: report.dropped.words.clone(),
            phrases: report.num_phrases,
            unknown_words: report.text.unknown,
            replaced: report.text.replaced,
            repeated_words: report.repeated_words.count,
            repeated_ids: report.repeated_ids.count,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::{Args, Command};

    use super::*;
    use lsparse::corpus::TEXT_FILTER;

    #[test]
    fn the_help_shows_the_defaults_of_the_library() {
        let command = BuildArgs::augment_args(Command::new("build"));
        let help = |name: &str| {
            let arg = command.get_arguments().find(|arg| arg.get_long() == Some(name));
            arg.and_then(|arg| arg.get_help()).map(ToString::to_string).unwrap_or_default()
        };
        let (words, phrases) = (TokenizerConfig::default(), PhraseConfig::default());
        for (name, default) in [
            ("min-length", words.min_length.to_string()),
            ("max-length", words.max_length.to_string()),
            ("phrase-min-count", phrases.min_count.to_string()),
            ("phrase-threshold", phrases.threshold.to_string()),
            ("min-docs", TEXT_FILTER.min_docs.unwrap().to_string()),
            ("max-share", TEXT_FILTER.max_share.unwrap().to_string()),
            ("vocab-size", TEXT_FILTER.max_words.unwrap().to_string()),
        ] {
            assert!(help(name).contains(&format!("[default: {default}")), "--{name}: {}", help(name));
        }
        assert_eq!(words.stop_words, StopWords::Language("english".into()));
    }

    #[test]
    fn every_format_has_a_name() {
        for (name, _) in FORMATS {
            assert!(serde_json::from_value::<Format>((*name).into()).is_ok(), "{name}");
        }
    }
}
