//! A trained topic model as files hold it and users use it: save, load, top words, assign and score documents.

use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use lsparse_cuda::Device;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::backend::{CPU, DeviceChoice, Place};
use crate::data::{AtomicFile, RowSource, Rows};
use crate::error::{Error, Result};
use crate::likelihood::Estimate;
use crate::runs::ModelFile;
use crate::settings::TopicsConfig;
use crate::store::model_file::{self, ReadArray, StoredArray};
use crate::topics::Topics;
use crate::topics::local::device::Assigner;
use crate::topics::local::document::Document;
use crate::topics::score::{Completion, CompletionOptions, completion, completions};
use crate::topics::summary::{SparseStats, TopicSummary, WordStats};
use crate::topics::table::WordTable;
use crate::topics::train::{demand_of_completing, demand_of_solving};
use crate::training::rules::TrainingRecord;

const KIND: &str = "topics";

/// Documents that are assigned at once, by the CPU and by a GPU.
const ASSIGNED_HERE: usize = 1024;
const ASSIGNED_THERE: usize = 1 << 16;

/// A trained topic model.
#[derive(Clone)]
pub struct TopicModel {
    /// The settings it was trained with, as settled for the corpus.
    pub config: TopicsConfig,
    /// How training went.
    pub training: TrainingRecord,
    /// The words.
    pub vocab: Vec<String>,
    /// Settings of the tokeniser that made the corpus, where it was made from text.
    pub tokenizer: Option<serde_json::Value>,
    /// alpha_k.
    pub alpha: Vec<f32>,
    /// Point estimates phi_kv, word by word.
    pub table: WordTable,
    /// The statistics of all documents: what training needs to go on.
    pub total: TopicSummary,
    /// Pseudo-counts of seed words, which are part of the prior wherever the model is used again.
    pub pull: Option<SparseStats<f32>>,
}

#[derive(Serialize, Deserialize)]
struct Metadata {
    config: TopicsConfig,
    training: TrainingRecord,
    tokenizer: Option<serde_json::Value>,
    entropy: f64,
    alloc: f64,
    alpha_total: f64,
    documents: f64,
    vocab: Vec<String>,
}

impl ModelFile for TopicModel {
    fn to_bytes(&self) -> std::io::Result<Vec<u8>> {
        TopicModel::to_bytes(self)
    }

    fn from_bytes(path: &Path, bytes: &[u8]) -> Result<Self> {
        TopicModel::from_bytes(path, bytes)
    }
}

impl TopicModel {
    /// L, the number of topics that a token keeps.
    pub fn sparsity(&self) -> usize {
        self.config.sparsity.within(self.num_topics())
    }

    /// The concentration of documents' topics: as it was given, or what came of it where K was found.
    pub(super) fn concentration(&self) -> f64 {
        match self.config.find_k {
            true => self.alpha.iter().map(|&a| f64::from(a)).sum(),
            false => self.config.alpha,
        }
    }

    /// K.
    pub fn num_topics(&self) -> usize {
        self.alpha.len()
    }

    /// V.
    pub fn vocab_size(&self) -> usize {
        self.vocab.len()
    }

    /// Each topic's share of all tokens.
    pub fn shares(&self) -> Vec<f64> {
        let sum: f64 = self.total.counts.iter().sum();
        self.total.counts.iter().map(|n| n / sum.max(f64::MIN_POSITIVE)).collect()
    }

    /// phi_k: the probability of every word under a topic.
    pub fn topic(&self, k: usize) -> Vec<f64> {
        (0..self.vocab_size()).map(|v| f64::from(self.table.row(v)[k])).collect()
    }

    /// The `count` most probable words of a topic, with their probabilities.
    pub fn top_words(&self, k: usize, count: usize) -> Vec<(u32, f64)> {
        largest(self.topic(k), count)
    }

    /// The `count` most relevant words of a topic: weight log phi_kv + (1 - weight) log(phi_kv / p_v), which brings
    /// words that are the topic's own to the front (Sievert and Shirley 2014; weight 0.6 is their choice).
    pub fn relevant_words(&self, k: usize, count: usize, weight: f64) -> Vec<(u32, f64)> {
        self.relevant_to(k, count, weight, &self.word_shares())
    }

    /// As [`relevant_words`](TopicModel::relevant_words), for every topic.
    pub fn all_relevant_words(&self, count: usize, weight: f64) -> Vec<Vec<(u32, f64)>> {
        let overall = self.word_shares();
        (0..self.num_topics()).into_par_iter().map(|k| self.relevant_to(k, count, weight, &overall)).collect()
    }

    /// p_v: the probability of every word under all topics by their shares.
    pub fn word_shares(&self) -> Vec<f64> {
        let shares = self.shares();
        let of_word = |v| self.table.row(v).iter().zip(&shares).map(|(&p, s)| f64::from(p) * s).sum();
        (0..self.vocab_size()).into_par_iter().map(of_word).collect()
    }

    fn relevant_to(&self, k: usize, count: usize, weight: f64, overall: &[f64]) -> Vec<(u32, f64)> {
        let relevance = |(p, all): (f64, &f64)| {
            let p = p.max(f64::MIN_POSITIVE);
            weight * p.ln() + (1.0 - weight) * (p / all.max(f64::MIN_POSITIVE)).ln()
        };
        largest(self.topic(k).into_iter().zip(overall).map(relevance).collect(), count)
    }

    /// Share of the average share below which a topic is tiny.
    pub const TINY: f64 = 0.1;

    /// The model that this is a state of.
    pub(crate) fn topics(&self) -> Topics {
        let pull = self.pull.clone();
        Topics { warm_start: false, lends: false, finding: None, pull, ..Topics::new(&self.config, self.vocab_size()) }
    }

    /// Topics of documents as training would assign them, handed to `visit` in order: (topic, share) of each document,
    /// shares summing to one; an empty document has none.
    pub fn assign(
        &self,
        source: &dyn RowSource,
        visit: &mut dyn FnMut(usize, &[(u32, f32)]) -> Result<()>,
    ) -> Result<()> {
        self.assign_at(source, &CPU, visit)
    }

    /// Where to [assign](Self::assign_at) documents: a GPU where there is one and it is asked for, or the work is large.
    pub fn place(&self, choice: DeviceChoice, source: &dyn RowSource) -> Result<Place> {
        let entries = source.num_entries().unwrap_or(0);
        Place::choose(choice, &demand_of_solving(&self.config, self.vocab_size(), entries))
    }

    /// As [`assign`](TopicModel::assign), at a [`place`](Self::place) of this model's.
    pub fn assign_at(
        &self,
        source: &dyn RowSource,
        place: &Place,
        visit: &mut dyn FnMut(usize, &[(u32, f32)]) -> Result<()>,
    ) -> Result<()> {
        let shares = |document: &Document, _| shares_of(document.topic_counts());
        let on = |assigned: Vec<(u32, f32)>| shares_of(assigned.into_iter());
        let there = place.device.as_ref().map(|device| (device, &on as &(dyn Fn(Vec<(u32, f32)>) -> _ + Sync)));
        self.solve_each(source, there, shares, &mut |n, _, shares: Vec<_>| visit(n, &shares))
    }

    /// As [`assign`](TopicModel::assign), and word by word: `visit` is also given the words of the document and, for each,
    /// the topic with its largest responsibility.
    pub fn assign_words(
        &self,
        source: &dyn RowSource,
        visit: &mut dyn FnMut(usize, &[(u32, f32)], &[u32], &[u32]) -> Result<()>,
    ) -> Result<()> {
        let of_word = |document: &Document, u: usize| {
            let most = document.responsibilities(u).reduce(|best, other| if other.1 > best.1 { other } else { best });
            most.map_or(0, |(topic, _)| topic)
        };
        let solved = |document: &Document, words: usize| {
            (shares_of(document.topic_counts()), (0..words).map(|u| of_word(document, u)).collect::<Vec<_>>())
        };
        self.solve_each(source, None, solved, &mut |n, words, (shares, topics): (Vec<_>, Vec<_>)| {
            visit(n, &shares, words, &topics)
        })
    }

    /// Work documents out, in parallel, and hand what `take` makes of each (of its number of words too) to `visit` in order,
    /// with its words; for an empty document that is nothing. A GPU, if there is one, gives the counts of a document's topics,
    /// of which the function beside it makes the same.
    fn solve_each<R: Default + Send>(
        &self,
        source: &dyn RowSource,
        there: Option<(&Arc<Device>, &(dyn Fn(Vec<(u32, f32)>) -> R + Sync))>,
        take: impl Fn(&Document, usize) -> R + Sync,
        visit: &mut dyn FnMut(usize, &[u32], R) -> Result<()>,
    ) -> Result<()> {
        self.check_vocab(source)?;
        let topics = self.topics();
        // Documents see the saved topics themselves under MAP, and exp(E[log phi]) under a posterior.
        let expected = match self.config.estimate {
            Estimate::Posterior => Some(topics.expected_topics(&self.total, Estimate::Posterior)),
            _ => None,
        };
        let table = expected.as_ref().unwrap_or(&self.table);
        let mut assigner = match there {
            Some((device, on)) => Assigner::new(device, table, &self.alpha, &topics.document)?.map(|made| (made, on)),
            None => None,
        };
        let mut rows = Rows::sparse(source.dim());
        let mut first = 0;
        while first < source.num_rows() {
            let at_once = if assigner.is_some() { ASSIGNED_THERE } else { ASSIGNED_HERE };
            let count = (source.num_rows() - first).min(at_once);
            rows.clear();
            source.read_f32(first, count, &mut rows)?;
            let mut known: Vec<Option<R>> = Vec::new();
            if let Some((made, on)) = &mut assigner {
                match made.assign(&rows)? {
                    Some(found) => known = found.into_par_iter().map(|found| found.map(*on)).collect(),
                    // Its memory does not suffice: the CPU goes on.
                    None => assigner = None,
                }
            }
            known.resize_with(count, || None);
            let solve = |document: &mut Document, (n, known): (usize, Option<R>)| {
                let (words, counts) = rows.sparse_row(n);
                if words.is_empty() {
                    return R::default();
                }
                known.unwrap_or_else(|| {
                    document.solve(table, &self.alpha, words, counts, &topics.document, None);
                    take(document, words.len())
                })
            };
            let found: Vec<R> = known.into_par_iter().enumerate().map_init(Document::default, solve).collect();
            for (n, found) in found.into_iter().enumerate() {
                visit(first + n, rows.sparse_row(n).0, found)?;
            }
            first += count;
        }
        Ok(())
    }

    /// Document completion on held-out documents.
    pub fn score(&self, source: &dyn RowSource, options: &CompletionOptions) -> Result<Completion> {
        self.check_vocab(source)?;
        completion(&self.table, &self.alpha, source, options, &CPU)
    }

    /// As [`score`](TopicModel::score), for each document, handed to `visit` in order.
    pub fn score_documents(
        &self,
        source: &dyn RowSource,
        options: &CompletionOptions,
        visit: &mut dyn FnMut(&Completion),
    ) -> Result<()> {
        self.score_documents_at(source, options, &CPU, visit)
    }

    /// Where to [score](Self::score_documents_at) documents: a GPU where there is one and it is asked for, or the work is
    /// large.
    pub fn place_of_scores(&self, choice: DeviceChoice, source: &dyn RowSource) -> Result<Place> {
        Place::choose(choice, &demand_of_completing(&self.table, source.num_entries().unwrap_or(0)))
    }

    /// The same at a [`place_of_scores`](Self::place_of_scores) of this model's.
    pub fn score_documents_at(
        &self,
        source: &dyn RowSource,
        options: &CompletionOptions,
        place: &Place,
        visit: &mut dyn FnMut(&Completion),
    ) -> Result<()> {
        self.check_vocab(source)?;
        completions(&self.table, &self.alpha, source, options, place, visit)
    }

    pub(crate) fn check_vocab(&self, source: &dyn RowSource) -> Result<()> {
        if source.dim() == self.vocab_size() {
            return Ok(());
        }
        Err(Error::DimensionMismatch { name: source.name().into(), model: self.vocab_size(), data: source.dim() })
    }

    /// The same model over another list of words: statistics follow their words, new words start without any, and
    /// words that are not in the list are dropped.
    pub fn with_vocab(&self, vocab: &[String]) -> TopicModel {
        let old: HashMap<&str, usize> = self.vocab.iter().enumerate().rev().map(|(v, w)| (w.as_str(), v)).collect();
        let num = self.num_topics();
        let place = |at: usize| {
            let word = &vocab[at];
            // A word that is there twice stays where it is.
            let in_place = (self.vocab.get(at) == Some(word)).then_some(at);
            in_place.or_else(|| old.get(word.as_str()).copied())
        };
        let words = self.total.total().moved(vocab.len(), place);
        let pull = self.pull.as_ref().map(|pull| pull.moved(vocab.len(), place));
        let mut counts = vec![0.0; num];
        words.topic.iter().zip(&words.mass).for_each(|(&k, m)| counts[k as usize] += m);
        let total = TopicSummary { words: WordStats::Total(words), counts, ..self.total.clone() };
        let topics = Topics { vocab_size: vocab.len(), pull: pull.clone(), ..self.topics() };
        TopicModel {
            config: self.config.clone(),
            training: self.training.clone(),
            vocab: vocab.to_vec(),
            tokenizer: self.tokenizer.clone(),
            alpha: self.alpha.clone(),
            table: topics.point_topics(&total),
            total,
            pull,
        }
    }

    /// Write the model to `file`, which takes its name when all is written.
    pub fn save(&self, file: AtomicFile) -> Result<()> {
        model_file::write_model(file, self.to_bytes())
    }

    /// The model as a file has it.
    pub fn to_bytes(&self) -> std::io::Result<Vec<u8>> {
        let (num, vocab) = (self.num_topics(), self.vocab_size());
        let stats = self.total.total();
        let topics = (0..num).flat_map(|k| (0..vocab).map(move |v| f64::from(self.table.row(v)[k]))).collect();
        let entries = stats.topic.len();
        let array = |name: &str, shape: Vec<usize>, values: Vec<f64>| StoredArray { name: name.into(), shape, values };
        let mut arrays = vec![
            array("topics", vec![num, vocab], topics),
            array("topic_counts", vec![num], self.total.counts.clone()),
            array("alpha", vec![num], self.alpha.iter().map(|&a| f64::from(a)).collect()),
            // S_kv word by word, as SciPy's CSR has it: words are rows, topics columns.
            array("total_indptr", vec![vocab + 1], stats.indptr.iter().map(|&i| i as f64).collect()),
            array("total_topic", vec![entries], stats.topic.iter().map(|&k| f64::from(k)).collect()),
            array("total_mass", vec![entries], stats.mass.clone()),
            array("total_alpha", vec![num], self.total.alpha_topic.clone()),
        ];
        if self.total.alpha_slope.iter().any(|&slope| slope != 0.0) {
            arrays.push(array("total_alpha_slope", vec![num], self.total.alpha_slope.clone()));
        }
        if let Some(pull) = &self.pull {
            let entries = pull.topic.len();
            arrays.push(array("pull_indptr", vec![vocab + 1], pull.indptr.iter().map(|&i| i as f64).collect()));
            arrays.push(array("pull_topic", vec![entries], pull.topic.iter().map(|&k| f64::from(k)).collect()));
            arrays.push(array("pull_mass", vec![entries], pull.mass.iter().map(|&m| f64::from(m)).collect()));
        }
        let metadata = Metadata {
            config: self.config.clone(),
            training: self.training.clone(),
            tokenizer: self.tokenizer.clone(),
            entropy: self.total.entropy,
            alloc: self.total.alloc,
            alpha_total: self.total.alpha_total,
            documents: self.total.documents,
            vocab: self.vocab.clone(),
        };
        model_file::encode_model(KIND, &metadata, &arrays)
    }

    /// Write the model to a path, all or nothing.
    pub fn save_to(&self, path: &Path) -> Result<()> {
        self.save(AtomicFile::create(path)?)
    }

    /// Whether a file says that it holds a topic model, by its first bytes. Loading it says what is wrong with a file
    /// that does not.
    pub fn is_model(path: &Path) -> bool {
        model_file::kind_of(path).is_some_and(|kind| kind == KIND)
    }

    /// Read a model.
    pub fn load(path: &Path) -> Result<Self> {
        Self::from_bytes(path, &model_file::read_bytes(path)?)
    }

    /// Read a model from the bytes of a file; `path` is for messages.
    pub fn from_bytes(path: &Path, bytes: &[u8]) -> Result<Self> {
        let bad = |detail: String| Error::ModelFormat {
            path: path.to_owned(),
            detail,
            remedy: "write the model again".into(),
        };
        let (metadata, stored) = model_file::decode_model::<Metadata>(path, bytes, KIND)?;
        let (num, vocab) = (metadata.config.topics, metadata.vocab.len());
        let any = |name: &str| -> Result<&ReadArray<'_>> {
            stored.iter().find(|a| a.name == name).ok_or_else(|| bad(format!("array {name:?} is missing")))
        };
        let find = |name: &str, shape: &[usize]| -> Result<&ReadArray<'_>> {
            let found = any(name)?;
            match found.shape == shape {
                true => Ok(found),
                false => Err(bad(format!("array {name:?} has shape {:?}, expected {shape:?}", found.shape))),
            }
        };
        if num == 0 || vocab == 0 {
            return Err(bad("it has no topics or no words".into()));
        }
        metadata.config.check(usize::MAX).map_err(|error| bad(error.to_string()))?;
        model_file::check_finite(&stored).map_err(bad)?;
        let topics = find("topics", &[num, vocab])?;
        for (name, shape) in [("topics", vec![num, vocab]), ("topic_counts", vec![num]), ("alpha", vec![num])] {
            if find(name, &shape)?.values().any(|value| value < 0.0) {
                return Err(bad(format!("array {name:?} has negative numbers")));
            }
        }
        let whole = |value: f64| value.fract() == 0.0 && (0.0..9e15).contains(&value);
        let numbers = |name: &str, length: usize| -> Result<Vec<usize>> {
            let values = find(name, &[length])?.values();
            match values.clone().all(whole) {
                true => Ok(values.map(|v| v as usize).collect()),
                false => Err(bad(format!("array {name:?} does not hold whole numbers"))),
            }
        };
        let lists = |kind: &str| -> Result<SparseStats<f64>> {
            let mass = any(&format!("{kind}_mass"))?.values().collect::<Vec<f64>>();
            let topic = numbers(&format!("{kind}_topic"), mass.len())?;
            let topic = topic.iter().map(|&k| k.min(u32::MAX as usize) as u32).collect();
            let stats = SparseStats { indptr: numbers(&format!("{kind}_indptr"), vocab + 1)?, topic, mass };
            stats.check(num).map_err(bad)?;
            Ok(stats)
        };
        let stats = lists("total")?;
        let pull = match any("pull_mass") {
            Ok(_) => {
                let SparseStats { indptr, topic, mass } = lists("pull")?;
                Some(SparseStats { indptr, topic, mass: mass.into_iter().map(|m| m as f32).collect() })
            }
            Err(_) => None,
        };
        let total = TopicSummary {
            num_topics: num,
            words: WordStats::Total(stats),
            counts: find("topic_counts", &[num])?.values().collect(),
            entropy: metadata.entropy,
            alloc: metadata.alloc,
            alpha_topic: find("total_alpha", &[num])?.values().collect(),
            alpha_slope: match any("total_alpha_slope") {
                Ok(_) => find("total_alpha_slope", &[num])?.values().collect(),
                Err(_) => vec![0.0; num],
            },
            alpha_total: metadata.alpha_total,
            documents: metadata.documents,
            bound: 0.0,
            trial: None,
        };
        let of_topic = |k: usize, words: Range<usize>| {
            topics.part(k * vocab + words.start..k * vocab + words.end).map(|p| p as f32)
        };
        let table = WordTable::by_topics(vocab, num, metadata.config.sparsity.within(num), of_topic);
        Ok(TopicModel {
            alpha: find("alpha", &[num])?.values().map(|a| a as f32).collect(),
            config: metadata.config,
            training: metadata.training,
            vocab: metadata.vocab,
            tokenizer: metadata.tokenizer,
            table,
            total,
            pull,
        })
    }
}

/// The topics of a document that was worked out, with their shares.
/// Shares of a document's topics, from their counts.
fn shares_of(counts: impl Iterator<Item = (u32, f32)>) -> Vec<(u32, f32)> {
    let counts: Vec<(u32, f32)> = counts.collect();
    let sum: f32 = counts.iter().map(|c| c.1).sum();
    counts.into_iter().filter(|c| c.1 > 0.0).map(|(k, n)| (k, n / sum)).collect()
}

/// The largest values with their positions, largest first, ties to the lower position.
fn largest(values: Vec<f64>, count: usize) -> Vec<(u32, f64)> {
    let mut order: Vec<u32> = (0..values.len() as u32).collect();
    order.sort_by(|&a, &b| values[b as usize].total_cmp(&values[a as usize]).then(a.cmp(&b)));
    order.into_iter().take(count).map(|v| (v, values[v as usize])).collect()
}
