//! Documents as counts of words: a corpus folder, and how it is built from text and from other formats.
//!
//! A corpus is a folder that NumPy and SciPy read without this library:
//!
//! - `indptr.npy` (int64): where each document starts among the entries, and where the last one ends;
//! - `words.npy` and `counts.npy` (int32): the words of each document by number, ascending, and how often each is
//!   there: `csr_matrix((counts, words, indptr))`;
//! - `vocab.txt`: one word a line, in the order of their numbers; `ids.txt`: one name a document;
//! - `corpus.json`: sizes, and how text became words, so that new text is treated alike;
//! - `metadata.csv`, where it was asked for: named columns with what else is known of each document.
//!
//! [`Corpus`] opens it as rows for everything else in this library; [`build()`] makes one from text ([`Tokenizer`],
//! [`VocabFilter`]) or from counts ([`Format`]); [`split()`] cuts it; [`corpus_stats`] looks at it; [`Encoder`] and
//! [`encode_text`] turn new text into counts of the same words.
//!
//! ```
//! use lsparse::corpus::{BuildOptions, Corpus, build};
//!
//! # let folder = tempfile::tempdir().unwrap();
//! let (input, out) = (folder.path().join("pets.txt"), folder.path().join("pets"));
//! std::fs::write(&input, "The cat sleeps.\nA dog barks.\nCat and bird.\nBird and dog.\n").unwrap();
//! build(&input, &BuildOptions::default(), &out, &mut |_| Ok(()))?;
//! let corpus = Corpus::open(&out)?;
//! assert_eq!((corpus.num_docs(), corpus.num_tokens()), (4, 6));
//! assert_eq!(corpus.vocab().words(), ["bird", "cat", "dog"]);
//! # Ok::<(), lsparse::Error>(())
//! ```

mod build;
mod encode;
mod folder;
mod format;
mod import;
mod matched;
#[cfg(test)]
mod tests;
mod text;

pub use build::{BuildOptions, BuildReport, Repeated, build};
pub use encode::{Encoder, TextReport, encode_text, read_texts};
pub use folder::counts::Corpus;
pub use folder::filter::{Dropped, DroppedWord, Reason, TEXT_FILTER, VocabFilter};
pub use folder::metadata::{Metadata, read_metadata};
pub use folder::split::{Part, draw_parts, read_parts, save, split};
pub use folder::stats::{CorpusStats, DocStats, Spread, WordStats, corpus_stats};
pub use format::Format;
pub use import::IndexBase;
pub use matched::{Documents, document_lengths};
pub use text::documents::TextOptions;
pub use text::language::{StopWords, stem_languages, stop_languages};
pub use text::lines::Lines;
pub use text::phrases::PhraseConfig;
pub use text::pipeline::{Progress, Watch};
pub use text::tokenizer::{TokenScratch, Tokenizer, TokenizerConfig, normalized};
pub use text::vocab::Vocab;

/// The files of a corpus folder.
const INDPTR: &str = "indptr.npy";
const WORDS: &str = "words.npy";
const COUNTS: &str = "counts.npy";
const VOCAB: &str = "vocab.txt";
const IDS: &str = "ids.txt";
const META: &str = "corpus.json";
const METADATA: &str = "metadata.csv";
