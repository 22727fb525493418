//! Topics: training, the trained model, and scores of any topics.

use std::path::PathBuf;

use lsparse::SequenceModel;
use lsparse::backend::Place;
use lsparse::corpus::document_lengths;
use lsparse::data::RowSource;
use lsparse::settings::TopicsConfig;
use lsparse::system::{check_growth, check_result};
use lsparse::topics::coherence::coherence as coherence_of;
use lsparse::topics::score::{Completion, CompletionOptions, completion as complete};
use lsparse::topics::{TopicInputs, TopicModel, WordTable, fit_topics_with};
use lsparse_page::explore::{PageOptions, Reading, topics_page};
use numpy::{PyArray1, PyArrayDyn, PyReadonlyArray1, PyReadonlyArray2, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::around::{Around, Reported};
use crate::gate::{raise, run};
use crate::mixture::{chosen, increment};
use crate::page::{Columns, metadata_of};
use crate::rows::{Braked, Held, array};
use crate::saved::{self, Pickled, json, settings};

/// A trained topic model.
#[pyclass(frozen, module = "lsparse._core")]
pub struct Topics {
    model: TopicModel,
}

/// What topics are trained with besides documents and settings, every entry there.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Given<'py> {
    /// The words of the columns.
    vocabulary: Option<Vec<String>>,
    /// How text became them, as JSON.
    tokenizer: Option<String>,
    /// Columns that pull a topic, list by list.
    seed_words: Vec<Vec<u32>>,
    /// alpha of each topic.
    alpha: Option<Vec<f64>>,
    /// Pseudo-counts of words in topics, K x V.
    word_prior: Option<PyReadonlyArray2<'py, f64>>,
}

/// Train topics; gives the model and a dict that says how it went.
#[pyfunction]
#[pyo3(signature = (x, config, around, given, *, start=None))]
pub fn fit_topics<'py>(
    py: Python<'py>,
    x: &Bound<'py, PyAny>,
    config: &str,
    around: Around<'py>,
    given: Given<'py>,
    start: Option<&Bound<'py, Topics>>,
) -> PyResult<Reported<'py, Topics>> {
    let config: TopicsConfig = settings(config)?;
    let Given { vocabulary, tokenizer, seed_words, alpha, word_prior } = given;
    let tokenizer = tokenizer.as_deref().map(settings).transpose()?;
    let word_prior = word_prior.as_ref().map(|prior| prior.as_slice()).transpose()?;
    let start = start.map(|start| &start.get().model);
    let (model, report) = around.fit(py, x, |rows, heldout, beside| {
        let (vocab, alpha, seed_words) = (vocabulary.as_deref(), alpha.as_deref(), &seed_words[..]);
        let inputs = TopicInputs { vocab, heldout, start, seed_words, alpha, word_prior, tokenizer };
        fit_topics_with(rows, &config, inputs, beside)
    })?;
    report.set_item("reached", (config.find_k && model.num_topics() >= config.k_max()).then(|| config.k_max()))?;
    Ok((Topics { model }, report))
}

#[pymethods]
impl Topics {
    /// A model from a file.
    #[staticmethod]
    fn load(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        Ok(Topics { model: saved::load(py, &path)? })
    }

    /// Write the model to a file.
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        saved::save(py, &self.model, &path)
    }

    /// A model from the bytes of a file.
    #[staticmethod]
    fn from_bytes(py: Python<'_>, bytes: &[u8]) -> PyResult<Self> {
        Ok(Topics { model: saved::from_bytes(py, bytes)? })
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Pickled<'py>> {
        saved::reduce(slf.as_any(), &slf.get().model)
    }

    /// The settings it was trained with, as settled for the corpus, as JSON.
    #[getter]
    fn config(&self) -> PyResult<String> {
        json(&self.model.config)
    }

    /// How training went, as JSON.
    #[getter]
    fn training(&self) -> PyResult<String> {
        json(&self.model.training)
    }

    /// The words, by column.
    #[getter]
    fn vocabulary(&self) -> Vec<String> {
        self.model.vocab.clone()
    }

    /// How text became words, as JSON, where that is known.
    #[getter]
    fn tokenizer(&self) -> Option<String> {
        self.model.tokenizer.as_ref().map(serde_json::Value::to_string)
    }

    /// `topics` (K x V, rows sum to one), `counts` (K x V, words of all documents by topic, with the pull of seed words),
    /// `alpha` and `shares` (K).
    fn arrays<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (num, vocab) = (self.model.num_topics(), self.model.vocab_size());
        let stats = self.model.total.total();
        let mut counts = vec![0.0; num * vocab];
        for v in 0..vocab {
            let (topic, mass) = stats.word(v);
            topic.iter().zip(mass).for_each(|(&k, &m)| counts[k as usize * vocab + v] = m);
            if let Some((topic, mass)) = self.model.pull.as_ref().map(|pull| pull.word(v)) {
                topic.iter().zip(mass).for_each(|(&k, &m)| counts[k as usize * vocab + v] += f64::from(m));
            }
        }
        let topics = (0..num).flat_map(|k| self.model.topic(k)).collect();
        let alpha = self.model.alpha.iter().map(|&a| f64::from(a)).collect();
        let dict = PyDict::new(py);
        dict.set_item("topics", array::<f64>(py, &[num, vocab], topics)?)?;
        dict.set_item("counts", array::<f64>(py, &[num, vocab], counts)?)?;
        dict.set_item("alpha", PyArray1::<f64>::from_vec(py, alpha))?;
        dict.set_item("shares", PyArray1::from_vec(py, self.model.shares()))?;
        Ok(dict)
    }

    /// Topics of every document and their shares, as compressed sparse rows: (indptr, indices, data). A document
    /// without words has none.
    #[pyo3(signature = (x, threads=None, *, device="cpu"))]
    fn assign<'py>(
        &self,
        py: Python<'py>,
        x: &Bound<'py, PyAny>,
        threads: Option<usize>,
        device: &str,
    ) -> PyResult<(Bound<'py, PyArray1<i64>>, Bound<'py, PyArray1<i64>>, Bound<'py, PyArray1<f64>>)> {
        let held = Held::borrow(x)?;
        let rows = held.rows()?;
        let device = chosen(device)?;
        let (indptr, index, value) = run(py, threads, |brake| {
            let rows = Braked { rows: rows.as_ref(), now: &brake.now };
            let (mut indptr, mut index, mut value) = (vec![0i64], Vec::new(), Vec::new());
            self.model.assign_at(&rows, &self.model.place(device, &rows)?, &mut |_, shares| {
                let mut shares = shares.to_vec();
                shares.sort_unstable_by_key(|share| share.0);
                let (what, remedy) = (|| "assigning topics".to_owned(), "give fewer documents at a time");
                check_growth(what, &index, shares.len(), remedy)?;
                check_growth(what, &value, shares.len(), remedy)?;
                index.extend(shares.iter().map(|share| i64::from(share.0)));
                value.extend(shares.iter().map(|share| f64::from(share.1)));
                indptr.push(index.len() as i64);
                Ok(())
            })?;
            Ok((indptr, index, value))
        })?;
        Ok((PyArray1::from_vec(py, indptr), PyArray1::from_vec(py, index), PyArray1::from_vec(py, value)))
    }

    /// N_dk + alpha_k of every document, the pseudo-counts of its topics: one row a document.
    #[pyo3(signature = (x, threads=None, *, device="cpu"))]
    fn transform<'py>(
        &self,
        py: Python<'py>,
        x: &Bound<'py, PyAny>,
        threads: Option<usize>,
        device: &str,
    ) -> PyResult<Bound<'py, PyArrayDyn<f64>>> {
        let held = Held::borrow(x)?;
        let rows = held.rows()?;
        let (num, device) = (self.model.num_topics(), chosen(device)?);
        let values = run(py, threads, |brake| {
            let rows = Braked { rows: rows.as_ref(), now: &brake.now };
            check_result("transforming", rows.num_rows(), "documents", ((num + 1) * size_of::<f64>()) as u64)?;
            let lengths = document_lengths(&rows)?;
            let alpha: Vec<f64> = self.model.alpha.iter().map(|&a| f64::from(a)).collect();
            let mut values = Vec::with_capacity(rows.num_rows() * num);
            self.model.assign_at(&rows, &self.model.place(device, &rows)?, &mut |document, shares| {
                let start = values.len();
                values.extend_from_slice(&alpha);
                // Shares are rounded to 32 bits; together they are to be all words in 64.
                let mass: f64 = shares.iter().map(|share| f64::from(share.1)).sum();
                for &(k, share) in shares {
                    values[start + k as usize] += f64::from(share) / mass * lengths[document];
                }
                Ok(())
            })?;
            Ok(values)
        })?;
        array(py, &[values.len() / num, num], values)
    }

    /// Document completion of every document: the sum of log probabilities of its held-out words, and how many there are.
    #[pyo3(signature = (x, share, seed, threads=None, *, device="cpu"))]
    fn completions<'py>(
        &self,
        py: Python<'py>,
        x: &Bound<'py, PyAny>,
        share: f64,
        seed: u64,
        threads: Option<usize>,
        device: &str,
    ) -> PyResult<(Bound<'py, PyArray1<f64>>, Bound<'py, PyArray1<f64>>)> {
        let held = Held::borrow(x)?;
        let rows = held.rows()?;
        let device = chosen(device)?;
        let (sums, tokens) = run(py, threads, |brake| {
            let rows = Braked { rows: rows.as_ref(), now: &brake.now };
            let (mut sums, mut tokens) = (Vec::new(), Vec::new());
            // What a row scores does not depend on where it stands.
            let options = CompletionOptions { by_number: false, ..options(share, seed)? };
            let place = self.model.place_of_scores(device, &rows)?;
            self.model.score_documents_at(&rows, &options, &place, &mut |found| {
                sums.push(found.log_probability);
                tokens.push(found.tokens);
            })?;
            Ok((sums, tokens))
        })?;
        Ok((PyArray1::from_vec(py, sums), PyArray1::from_vec(py, tokens)))
    }

    /// Document completion: (sum of log probabilities, held-out tokens, documents, documents skipped).
    #[pyo3(signature = (x, share, seed, threads=None, *, device="cpu"))]
    fn completion<'py>(
        &self,
        py: Python<'py>,
        x: &Bound<'py, PyAny>,
        share: f64,
        seed: u64,
        threads: Option<usize>,
        device: &str,
    ) -> PyResult<(f64, f64, usize, usize)> {
        let held = Held::borrow(x)?;
        let rows = held.rows()?;
        let device = chosen(device)?;
        run(py, threads, |brake| {
            let rows = Braked { rows: rows.as_ref(), now: &brake.now };
            let place = self.model.place_of_scores(device, &rows)?;
            let mut found = Completion::default();
            self.model.score_documents_at(&rows, &options(share, seed)?, &place, &mut |one| found.add(one))?;
            Ok(parts(&found))
        })
    }

    /// Documents drawn from the model, as compressed sparse rows of counts: (indptr, indices, data).
    #[pyo3(signature = (documents, words, seed))]
    fn sample<'py>(
        &self,
        py: Python<'py>,
        documents: usize,
        words: Option<usize>,
        seed: u64,
    ) -> PyResult<(Bound<'py, PyArray1<i64>>, Bound<'py, PyArray1<i64>>, Bound<'py, PyArray1<i64>>)> {
        let drawn = run(py, 1, |brake| self.model.sample_until(documents, words, seed, &brake.now))?;
        let (mut indptr, mut index, mut value) = (vec![0i64], Vec::new(), Vec::new());
        for document in drawn {
            index.extend(document.iter().map(|word| i64::from(word.0)));
            value.extend(document.iter().map(|word| i64::from(word.1)));
            indptr.push(index.len() as i64);
        }
        Ok((PyArray1::from_vec(py, indptr), PyArray1::from_vec(py, index), PyArray1::from_vec(py, value)))
    }

    /// The `count` most relevant words of every topic, by number.
    #[pyo3(signature = (count, weight))]
    fn relevant_words(&self, py: Python<'_>, count: usize, weight: f64) -> PyResult<Vec<Vec<u32>>> {
        let all = run(py, None, |_| Ok(self.model.all_relevant_words(count, weight)))?;
        Ok(all.into_iter().map(|words| words.into_iter().map(|word| word.0).collect()).collect())
    }

    /// The page that shows the topics, as HTML, and what is in it, as JSON. `x` are documents to show them by, `documents`
    /// their names, and `texts` the documents themselves, where they are known.
    #[pyo3(signature = (title, names, *, x=None, documents=None, texts=None, metadata=None, most=1000, seed=0, threads=None))]
    #[allow(clippy::too_many_arguments)]
    fn page<'py>(
        &self,
        py: Python<'py>,
        title: String,
        names: Vec<Option<String>>,
        x: Option<&Bound<'py, PyAny>>,
        documents: Option<Vec<String>>,
        texts: Option<Vec<String>>,
        metadata: Option<Columns>,
        most: usize,
        seed: u64,
        threads: Option<usize>,
    ) -> PyResult<(String, String)> {
        let held = x.map(Held::borrow).transpose()?;
        let rows = held.as_ref().map(Held::rows).transpose()?;
        let options = PageOptions { title, names, documents: most, seed };
        let metadata = metadata.map(metadata_of);
        let number = |n: usize| (n + 1).to_string();
        let name =
            |n: usize| Ok(documents.as_ref().and_then(|names| names.get(n).cloned()).unwrap_or_else(|| number(n)));
        let texts_of = |wanted: &[usize]| {
            let texts = texts.as_deref().unwrap_or_default();
            Ok(wanted.iter().map(|&n| texts.get(n).cloned().unwrap_or_default()).collect())
        };
        let (page, report) = run(py, threads, |brake| match &rows {
            None => topics_page(&self.model, None, &options),
            Some(rows) => {
                let rows = Braked { rows: rows.as_ref(), now: &brake.now };
                let texts: Option<&dyn Fn(&[usize]) -> _> = if texts.is_some() { Some(&texts_of) } else { None };
                let reading = Reading { rows: &rows, name: &name, texts, metadata: metadata.as_ref() };
                topics_page(&self.model, Some(&reading), &options)
            }
        })?;
        Ok((page, json(&report)?))
    }

    /// The model after a step on documents that it has not seen: added to what was there, or blended in at a rate.
    #[pyo3(signature = (x, *, rate=None, population=None, threads=None))]
    fn update<'py>(
        &self,
        py: Python<'py>,
        x: &Bound<'py, PyAny>,
        rate: Option<f64>,
        population: Option<f64>,
        threads: Option<usize>,
    ) -> PyResult<Self> {
        let held = Held::borrow(x)?;
        let rows = held.rows()?;
        let seen = self.model.total.documents + rows.num_rows() as f64;
        let how = increment(rate, population.unwrap_or(seen));
        let model = run(py, threads, |brake| self.model.update(&Braked { rows: rows.as_ref(), now: &brake.now }, how))?;
        Ok(Topics { model })
    }
}

/// "topics" or "mixture": what a file says that it holds. Loading it says what is wrong with one that holds neither.
#[pyfunction]
pub fn model_kind(path: PathBuf) -> &'static str {
    match () {
        () if TopicModel::is_model(&path) => "topics",
        () if SequenceModel::is_model(&path) => "sequence",
        () => "mixture",
    }
}

/// Names from a file, one a topic, cluster or state (`what` says which) or none.
#[pyfunction]
pub fn read_names(path: PathBuf, num: usize, what: &str) -> PyResult<Vec<Option<String>>> {
    lsparse::topics::read_names(&path, num, what).map_err(raise)
}

/// Document completion for topics of any origin, K x V with rows that sum to one.
#[pyfunction]
#[pyo3(signature = (topics, alpha, x, share, seed, threads=None))]
pub fn completion<'py>(
    py: Python<'py>,
    topics: PyReadonlyArray2<'py, f64>,
    alpha: PyReadonlyArray1<'py, f64>,
    x: &Bound<'py, PyAny>,
    share: f64,
    seed: u64,
    threads: Option<usize>,
) -> PyResult<(f64, f64, usize, usize)> {
    let held = Held::borrow(x)?;
    let rows = held.rows()?;
    let (num, vocab) = (topics.shape()[0], topics.shape()[1]);
    let (values, alpha) = (topics.as_slice()?, alpha.as_slice()?);
    if alpha.len() != num || num == 0 || rows.dim() != vocab {
        let found = format!("{num} topics of {vocab} words with {} priors", alpha.len());
        return Err(raise(lsparse::Error::WrongShape {
            name: "topics".into(),
            found,
            expected: format!("a prior a topic, and {} words", rows.dim()),
            remedy: "give topics over the words of the documents".into(),
        }));
    }
    let alpha: Vec<f32> = alpha.iter().map(|&a| a as f32).collect();
    run(py, threads, |brake| {
        let rows = Braked { rows: rows.as_ref(), now: &brake.now };
        let table = WordTable::new(vocab, num, 0, |v, out| {
            out.iter_mut().enumerate().for_each(|(k, o)| *o = values[k * vocab + v] as f32);
        });
        Ok(parts(&complete(&table, &alpha, &rows, &options(share, seed)?, &Place::default())?))
    })
}

/// NPMI and UMass of each list of words, best first, over the documents of `x`.
#[pyfunction]
#[pyo3(signature = (words, x, threads=None))]
pub fn coherence<'py>(
    py: Python<'py>,
    words: Vec<Vec<u32>>,
    x: &Bound<'py, PyAny>,
    threads: Option<usize>,
) -> PyResult<(Vec<f64>, Vec<f64>)> {
    let held = Held::borrow(x)?;
    let rows = held.rows()?;
    let dim = rows.dim();
    if let Some(word) = words.iter().flatten().find(|&&word| word as usize >= dim) {
        let problem = format!("there is no word {word} in documents of {dim} words");
        let remedy = "give documents in the words of the model".into();
        return Err(raise(lsparse::Error::Config { setting: "words", problem, remedy }));
    }
    let found = run(py, threads, |brake| coherence_of(&words, &Braked { rows: rows.as_ref(), now: &brake.now }))?;
    Ok((found.iter().map(|c| c.npmi).collect(), found.iter().map(|c| c.umass).collect()))
}

fn parts(completion: &Completion) -> (f64, f64, usize, usize) {
    (completion.log_probability, completion.tokens, completion.documents, completion.skipped)
}

fn options(share: f64, seed: u64) -> lsparse::Result<CompletionOptions> {
    if share > 0.0 && share < 1.0 {
        return Ok(CompletionOptions { share, seed, ..Default::default() });
    }
    let problem = format!("{share} leaves no words to score or none to score them by");
    Err(lsparse::Error::Config { setting: "share", problem, remedy: "give a share between 0 and 1".into() })
}
