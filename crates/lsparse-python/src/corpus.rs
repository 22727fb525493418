//! Text to word counts, and corpus folders.

use std::path::PathBuf;

use lsparse::corpus::{BuildOptions, Corpus, PhraseConfig, TokenizerConfig, VocabFilter, build};
use pyo3::prelude::*;

use crate::gate::{raise, run};
use crate::page::Columns;
use crate::saved::{json, settings};

/// Vocabulary, names of the documents, how text becomes words (as JSON) and columns of metadata of a corpus folder.
type Opened = (Vec<String>, Vec<String>, Option<String>, Columns);

/// Check a corpus folder and say what is in it besides the counts, which are plain `.npy` files.
#[pyfunction]
pub fn open_corpus(py: Python<'_>, path: PathBuf) -> PyResult<Opened> {
    let (corpus, metadata) = run(py, 1, |_| {
        let corpus = Corpus::open(&path)?;
        corpus.ids()?;
        let metadata = corpus.metadata()?;
        Ok((corpus, metadata))
    })?;
    let ids = corpus.ids().map_err(raise)?.iter().map(str::to_owned).collect();
    let tokenizer = corpus.tokenizer().map(json).transpose()?;
    let metadata = metadata.map(|found| found.names.into_iter().zip(found.values).collect());
    Ok((corpus.vocab().words().to_vec(), ids, tokenizer, metadata.unwrap_or_default()))
}

/// Build a corpus folder from a file or folder of text or counts.
#[pyfunction]
#[pyo3(signature = (input, out, *, tokenizer, phrases, min_docs, max_share, max_words, format, force, keep=None, threads=None))]
#[allow(clippy::too_many_arguments)]
pub fn build_corpus(
    py: Python<'_>,
    input: PathBuf,
    out: PathBuf,
    tokenizer: &str,
    phrases: bool,
    min_docs: Option<u64>,
    max_share: Option<f64>,
    max_words: Option<usize>,
    format: Option<&str>,
    force: bool,
    keep: Option<Vec<String>>,
    threads: Option<usize>,
) -> PyResult<()> {
    let options = BuildOptions {
        tokenizer: settings::<TokenizerConfig>(tokenizer)?,
        phrases: phrases.then(PhraseConfig::default),
        filter: VocabFilter { min_docs, max_share, max_words },
        format: format.map(|name| settings(&format!("{name:?}"))).transpose()?,
        force,
        keep: keep.unwrap_or_default(),
        ..Default::default()
    };
    run(py, threads, |_| build(&input, &options, &out, &mut |_| Ok(())).map(|_| ()))
}
