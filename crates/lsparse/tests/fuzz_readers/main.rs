//! Random bytes and random mutations of valid files at every reader: an error or a valid result, never a panic, an
//! endless loop or memory that a lying header asks for.
//!
//! Every reader of the library is in the list below. One more is one line there, a function in `samples.rs` that
//! makes valid files, and one below that reads them. `cargo xtask test --long` runs 10,000 cases a reader.

mod harness;
mod mutate;
mod samples;

use std::io;
use std::path::Path;
use std::sync::Arc;

use lsparse::corpus::{
    BuildOptions, Corpus, Encoder, Format, IndexBase, StopWords, TextOptions, TokenScratch, Vocab, VocabFilter, build,
    corpus_stats, encode_text, read_parts,
};
use lsparse::data::{CsrRows, Element, MemoryRows, RowSource, Rows, scan};
use lsparse::open::{GroupBy, OpenOptions, open, open_sequences, read_column};

use lsparse::settings::TopicsConfig;
use lsparse::topics::score::CompletionOptions;
use lsparse::topics::{TopicInputs, TopicModel, fit_topics_with, read_topic_names};
use lsparse::{
    Beside, Error, MixtureConfig, MixtureInputs, MixtureModel, Result, SequenceConfig, SequenceInputs, SequenceModel,
    fit_mixture_with, fit_sequence_with,
};

/// `test: samples => reader`, where the reader is given the folder that the files of a sample lie in.
macro_rules! readers {
    ($($test:ident: $samples:expr => $read:expr;)*) => {
        $(
            #[test]
            fn $test() {
                harness::attack(stringify!($test), $samples, $read);
            }
        )*
    };
}

readers! {
    npy: samples::npy_files() => |at| read_rows(&at.join("x.npy"));
    npy_column: samples::columns() => |at| read_column(&at.join("x.npy"), &OpenOptions::default()).map(drop);
    npz: samples::npz_files() => |at| read_rows(&at.join("x.npz"));
    csv_with_keys: samples::tables() => |at| open_sequences(&at.join("x.csv"), &OpenOptions::default(), &GroupBy::Column("1".into())).map(drop);
    csv: samples::tables() => |at| read_rows(&at.join("x.csv"));
    images: samples::images() => |at| read_rows(&at.join("images"));
    corpus_folder: samples::corpora() => |at| read_corpus(&at.join("corpus"));
    docword: samples::counts_of(Format::Uci) => |at| read_counts(at, Format::Uci);
    lda_c: samples::counts_of(Format::LdaC) => |at| read_counts(at, Format::LdaC);
    matrix_market: samples::counts_of(Format::Mtx) => |at| read_counts(at, Format::Mtx);
    svmlight: samples::counts_of(Format::Svmlight) => |at| read_counts(at, Format::Svmlight);
    mallet: samples::counts_of(Format::Mallet) => |at| read_counts(at, Format::Mallet);
    npz_counts: samples::npz_files() => |at| build_corpus(&at.join("x.npz"), Some(Format::Npz), &at.join("out"));
    json_lines: samples::json_lines() => |at| read_text(&at.join("x"), Format::Jsonl);
    csv_text: samples::text_tables() => |at| read_text(&at.join("x"), Format::Csv);
    text_lines: samples::plain_text() => |at| read_text(&at.join("x"), Format::Lines);
    text_files: samples::text_folders() => |at| read_text(&at.join("texts"), Format::Files);
    vocabulary: samples::word_lists() => |at| read_vocab(&at.join("words"));
    stop_words: samples::word_lists() => |at| StopWords::read(&at.join("words"))?.words().map(drop);
    split_file: samples::split_files() => |at| read_parts(&at.join("split"), 4).map(drop);
    topic_names: samples::topic_names() => |at| read_topic_names(&at.join("names.csv"), 4).map(drop);
    mixture_model: samples::mixtures() => |at| use_mixture(&at.join("m.safetensors"));
    sequence_model: samples::sequences() => |at| use_sequence(&at.join("m.safetensors"));
    mixture_checkpoint: samples::checkpoints(samples::run_mixture) => |at| samples::run_mixture(&at.join("run.ckpt"), false);
    topics_checkpoint: samples::checkpoints(samples::run_topics) => |at| samples::run_topics(&at.join("run.ckpt"), false);
    topic_model: samples::topic_models() => |at| use_topics(&at.join("m.safetensors"));
}

#[test]
fn what_readers_must_not_do_is_noticed() {
    assert_eq!(harness::verdict(|_| Ok(())), Ok(true));
    assert_eq!(harness::verdict(|_| Err(Error::NoRows { name: "x".into() })), Ok(false));
    for (read, problem) in [
        ((|_| panic!("as a reader must not")) as fn(&Path) -> Result<()>, "a panic"),
        (
            |_| {
                std::hint::black_box(vec![0u8; 300 << 20]);
                Ok(())
            },
            "bytes of memory",
        ),
        (|path| Err(Error::Io { path: path.into(), action: "read", source: io::ErrorKind::Other.into() }), "blamed"),
        (|_| Err(Error::NoRows { name: "line 0".into() }), "no use"),
        (|_| Err(Error::NoRows { name: "x".repeat(2000) }), "no use"),
    ] {
        let found = harness::verdict(read).unwrap_err();
        assert!(found.contains(problem), "{found}");
    }
}

/// Rows are looked at and read, in both precisions.
fn read_rows(path: &Path) -> Result<()> {
    let source = open(path, &OpenOptions::default())?;
    scan(source.as_ref(), Element::F32, None)?;
    let last = source.num_rows() - 1;
    source.read_f32(last, 1, &mut Rows::sparse(source.dim()))?;
    source.read_f64(0, 1, &mut Rows::sparse(source.dim()))
}

/// All that is done with a corpus: names, counts, statistics, more text.
fn read_corpus(path: &Path) -> Result<()> {
    let corpus = Corpus::open(path)?;
    corpus.ids()?;
    corpus.read_f64(0, corpus.num_docs(), &mut Rows::sparse(corpus.dim()))?;
    corpus_stats(&corpus, 3, &mut |_| Ok(()))?;
    if let Some(tokenizer) = corpus.tokenizer() {
        let encoder = Encoder::new(tokenizer, Arc::clone(corpus.vocab()))?;
        let (mut scratch, mut entries) = (TokenScratch::default(), Vec::new());
        for text in samples::TEXTS {
            encoder.encode(text, &mut scratch, &mut entries);
        }
    }
    Ok(())
}

/// What is built is a corpus that can be read.
fn build_corpus(input: &Path, format: Option<Format>, out: &Path) -> Result<()> {
    let text = format.is_some_and(Format::is_text);
    let filter = VocabFilter { min_docs: Some(1), max_share: Some(1.0), max_words: None };
    let filter = if text { filter } else { VocabFilter::default() };
    let options = BuildOptions { format, filter, index_base: IndexBase::Auto, ..BuildOptions::default() };
    let report = build(input, &options, out, &mut |_| Ok(()))?;
    let corpus = Corpus::open(out).expect("what was built can be opened");
    assert_eq!((corpus.num_docs(), corpus.num_tokens()), (report.num_docs, report.num_tokens));
    read_corpus(out).expect("what was built can be read");
    Ok(())
}

/// A file of counts, as what it is and as what it looks like.
fn read_counts(at: &Path, format: Format) -> Result<()> {
    let guessed = build_corpus(&at.join("x"), None, &at.join("guessed"));
    assert!(guessed.as_ref().err().is_none_or(|error| error.is_bad_input()), "{guessed:?}");
    build_corpus(&at.join("x"), Some(format), &at.join("out"))
}

/// Text becomes a corpus, and counts of words that are known.
fn read_text(input: &Path, format: Format) -> Result<()> {
    let out = input.with_file_name("out");
    build_corpus(input, Some(format), &out)?;
    let corpus = Corpus::open(&out)?;
    let tokenizer = corpus.tokenizer().expect("it was made from text");
    let encoder = Encoder::new(tokenizer, Arc::clone(corpus.vocab()))?;
    let (again, report) = encode_text(input, Some(format), &TextOptions::default(), &encoder, &mut |_| Ok(()))?;
    assert_eq!((again.num_tokens(), report.unknown), (corpus.num_tokens(), 0));
    Ok(())
}

fn read_vocab(path: &Path) -> Result<()> {
    Vocab::read(path, true)?;
    let (vocab, _) = Vocab::read(path, false)?;
    vocab.number("fig");
    Ok(())
}

/// A model that can be read scores and assigns rows and goes on training, or says why it cannot.
fn use_mixture(path: &Path) -> Result<()> {
    let model = MixtureModel::load(path)?;
    let dim = model.dim();
    let rows = MemoryRows::new("rows", dim, (0..4 * dim).map(|i| f64::from(u8::from(i % 3 == 0))).collect())?;
    model.score(&rows)?;
    model.assign(&rows, model.num_clusters(), &mut |_, _| Ok(()))?;
    let config = MixtureConfig { laps: Some(1), runs: 1, batches: None, rows_per_batch: None, ..model.config.clone() };
    let inputs = MixtureInputs { start: Some(&model), ..Default::default() };
    fit_mixture_with(&rows, &config, inputs, Beside::default()).map(drop)
}

/// The same of a hidden Markov model, which draws sequences too.
fn use_sequence(path: &Path) -> Result<()> {
    let model = SequenceModel::load(path)?;
    let dim = model.dim();
    let rows = MemoryRows::new("rows", dim, (0..4 * dim).map(|i| f64::from(u8::from(i % 3 == 0))).collect())?;
    model.score(&rows, None)?;
    model.assign(&rows, None, model.sparsity(), &mut |_, _| Ok(()))?;
    model.best_paths(&rows, None)?;
    let trials = model.config.likelihood.family().of_categories.then_some(2);
    model.sample(3, None, trials, 0)?;
    let config = SequenceConfig { laps: Some(1), runs: 1, batches: None, ..model.config.clone() };
    let inputs = SequenceInputs { start: Some(&model), ..Default::default() };
    fit_sequence_with(&rows, &config, inputs, Beside::default()).map(drop)
}

/// A model that can be read assigns and scores documents and goes on training, or says why it cannot.
fn use_topics(path: &Path) -> Result<()> {
    assert!(TopicModel::is_model(path) || TopicModel::load(path).is_err());
    let model = TopicModel::load(path)?;
    model.all_relevant_words(3, 0.6);
    let vocab = model.vocab_size();
    let words: Vec<u32> = (0..vocab as u32).collect();
    let rows = CsrRows::new("rows", vocab, vec![0, vocab, vocab], words, vec![2.0f32; vocab])?;
    model.assign(&rows, &mut |_, _| Ok(()))?;
    model.score(&rows, &CompletionOptions::default())?;
    let config = TopicsConfig { laps: Some(1), runs: 1, batches: None, docs_per_batch: None, ..model.config.clone() };
    let inputs = TopicInputs { start: Some(&model), vocab: Some(&model.vocab), ..Default::default() };
    fit_topics_with(&rows, &config, inputs, Beside::default()).map(drop)
}
