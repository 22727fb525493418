//! Training a topic model from a configuration and a corpus: seeds, seed words, scores, the saved model.

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::config::{History, TopicInit, TopicMethod, TopicsConfig};
use super::gibbs::{GibbsTask, SviGibbs};
use super::local::Explained;
use super::saved::TopicModel;
use super::score::{CompletionOptions, completion};
use super::summary::{SparseStats, TopicSummary};
use super::{ACTIVE_TOPICS, TopicData, TopicParams, Topics, initial_topics, random_topics};
use crate::checkpoint::{Fingerprint, Sections, Storage, print_numbers, print_rows, print_settings};
use crate::data::{Batches, Element, RowSource, scan};
use crate::error::{Error, Result};
use crate::fit::{LapReport, Outcome, Patience, StopRules, TrainingRecord};
use crate::model::Model;
use crate::observe::Observer;
use crate::train::{self, Around, Plan, Start, StateOf, Task, Trained};

/// What a run has around it besides documents and settings.
#[derive(Default)]
pub struct TopicSurroundings<'a> {
    /// The words, one for each column of the corpus; numbers are used where there are none.
    pub vocab: Option<&'a [String]>,
    /// Documents to score at the end of every lap.
    pub heldout: Option<&'a dyn RowSource>,
    /// Score them after every so many steps instead, and at the end of the run; 0 for laps.
    pub heldout_every: u64,
    /// A model to go on from, with the vocabulary of the corpus (see [`TopicModel::with_vocab`]).
    pub start: Option<&'a TopicModel>,
    /// Words that pull a topic, as columns of the corpus: list k is topic k's.
    pub seed_words: &'a [Vec<u32>],
    /// Told of every step.
    pub observer: Option<&'a mut dyn Observer>,
    /// Set from outside to stop after the current batch.
    pub interrupt: Option<&'a AtomicBool>,
    /// Settings of the tokeniser, kept in the model so that raw text can be scored.
    pub tokenizer: Option<serde_json::Value>,
    /// Checkpoints, and the limit on memory for remembered statistics.
    pub storage: Storage,
}

/// A trained topic model and how its training went.
pub struct FittedTopics {
    /// The model.
    pub model: TopicModel,
    /// How the best run ended.
    pub outcome: Outcome,
    /// Which run was kept, from 0.
    pub run: usize,
    /// Final objective and held-out score of every run.
    pub runs: Vec<(f64, Option<f64>)>,
    /// Set when active topics a document rose lap after lap while the held-out score fell.
    pub decaying: bool,
}

/// Train topics on the documents of `source`, rows of word counts.
///
/// ```
/// use lsparse::data::CsrRows;
/// use lsparse::topics::{TopicsConfig, fit_topics};
///
/// // Documents about words 0 and 1, and documents about words 2 and 3.
/// let (mut indptr, mut words) = (vec![0], Vec::new());
/// for d in 0..40 {
///     words.extend(if d % 2 == 0 { [0, 1] } else { [2, 3] });
///     indptr.push(words.len());
/// }
/// let counts = vec![5.0f32; words.len()];
/// let corpus = CsrRows::new("two subjects", 4, indptr, words, counts)?;
/// let fitted = fit_topics(&corpus, &TopicsConfig { topics: 2, ..Default::default() })?;
/// let top = fitted.model.top_words(0, 2);
/// assert!(top[0].0 / 2 == top[1].0 / 2, "a topic holds words that go together");
/// # Ok::<(), lsparse::Error>(())
/// ```
pub fn fit_topics(source: &dyn RowSource, config: &TopicsConfig) -> Result<FittedTopics> {
    fit_topics_with(source, config, TopicSurroundings::default())
}

/// Train topics with held-out documents, observers and so on.
pub fn fit_topics_with(
    source: &dyn RowSource,
    config: &TopicsConfig,
    around: TopicSurroundings<'_>,
) -> Result<FittedTopics> {
    let config = config.check(source.num_rows())?;
    check_size(&config, source)?;
    check_corpora(&config, source, &around)?;
    check_start(&config, source, around.start)?;
    check_method(&config, &around)?;
    let topics = Topics {
        num_topics: config.topics,
        vocab_size: source.dim(),
        estimate: config.estimate,
        alpha: config.alpha,
        alpha_rule: config.learn_alpha,
        lambda: config.lambda,
        document: config.document(),
        start_width: config.sparsity,
        pull: None,
    };
    let TopicSurroundings { vocab, heldout, heldout_every, start, seed_words, observer, interrupt, tokenizer, storage } =
        around;
    let around = Around { heldout_every, observer, interrupt, storage };
    let (method, samples, seed) = (config.method, config.samples, config.seed);
    let task = TopicTask { model: topics, config, source, vocab, heldout, start, seed_words, tokenizer };
    let Trained { model, outcome, run, runs } = match method {
        TopicMethod::Lsparse => train::train(&mut { task }, around)?,
        TopicMethod::SviGibbs => {
            let step = |topics| SviGibbs::new(topics, samples, seed);
            train::train(&mut task.with_step(step), around)?
        }
        _ => train::train(&mut GibbsTask::new(task)?, around)?,
    };
    let decaying = method == TopicMethod::Lsparse && decaying(&outcome.recent);
    Ok(FittedTopics { model, outcome, run, runs, decaying })
}

/// A model whose topics are trained by batches of documents, whatever its document step.
pub(super) trait TopicStep {
    /// The topics.
    fn topics(&self) -> &Topics;
    /// The same, to be changed.
    fn topics_mut(&mut self) -> &mut Topics;
    /// Batches visited, where draws depend on it.
    fn visits(&self) -> u64 {
        0
    }
    /// Go on as if so many batches had been visited.
    fn set_visits(&self, _visits: u64) {}
}

impl TopicStep for Topics {
    fn topics(&self) -> &Topics {
        self
    }

    fn topics_mut(&mut self) -> &mut Topics {
        self
    }
}

/// A topic model with all that its training needs.
pub(super) struct TopicTask<'a, M> {
    pub(super) model: M,
    pub(super) config: TopicsConfig,
    pub(super) source: &'a dyn RowSource,
    vocab: Option<&'a [String]>,
    pub(super) heldout: Option<&'a dyn RowSource>,
    pub(super) start: Option<&'a TopicModel>,
    seed_words: &'a [Vec<u32>],
    tokenizer: Option<serde_json::Value>,
}

impl<'a, M: TopicStep> TopicTask<'a, M> {
    pub(super) fn seed(&self, run: usize) -> u64 {
        self.config.seed.wrapping_add((run as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15))
    }

    /// The same task with another document step.
    fn with_step<N>(self, step: impl FnOnce(M) -> N) -> TopicTask<'a, N> {
        let TopicTask { model, config, source, vocab, heldout, start, seed_words, tokenizer } = self;
        TopicTask { model: step(model), config, source, vocab, heldout, start, seed_words, tokenizer }
    }

    /// The held-out score. The split of held-out words does not follow the run's seed, so that runs can be compared.
    pub(super) fn score_of(&self, held: &dyn RowSource, alpha: &[f32], total: &TopicSummary) -> Result<f64> {
        let point = self.model.topics().point_topics(total);
        let found = completion(&point, alpha, held, &CompletionOptions::default())?;
        if found.documents == 0 {
            let problem = "no document has two different words".into();
            return Err(Error::Config { option: "heldout", problem, remedy: "give longer documents".into() });
        }
        Ok(found.score())
    }

    /// The model with these statistics.
    pub(super) fn saved_with(&self, training: TrainingRecord, alpha: &[f32], total: &TopicSummary) -> TopicModel {
        let vocab = match self.vocab {
            Some(vocab) => vocab.to_vec(),
            None => (0..self.source.dim()).map(|v| v.to_string()).collect(),
        };
        TopicModel {
            config: self.config.clone(),
            training,
            vocab,
            tokenizer: self.tokenizer.clone(),
            alpha: alpha.to_vec(),
            table: self.model.topics().point_topics(total),
            total: total.clone(),
        }
    }
}

impl<'a, M> Task for TopicTask<'a, M>
where
    M: TopicStep + Model<TopicData<'a>, Params = TopicParams, Summary = TopicSummary>,
{
    type Data = TopicData<'a>;
    type Model = M;
    type Saved = TopicModel;

    fn plan(&self) -> Plan {
        let config = &self.config;
        Plan {
            runs: config.runs,
            best_by: config.best_by,
            rules: StopRules {
                laps: config.laps,
                tolerance: config.tolerance,
                count_tolerance: config.count_tolerance,
                max_seconds: config.max_seconds,
                stride: 1,
            },
            schedule: config.schedule,
            delay: config.delay,
            decay: config.decay,
            leave_out: config.leave_out,
        }
    }

    fn model(&self) -> &M {
        &self.model
    }

    fn deal(&self, run: usize) -> Result<TopicData<'a>> {
        let num_docs = self.source.num_rows();
        let mut data = TopicData::new(self.source, Batches::new(num_docs, self.config.batches, self.seed(run))?);
        if self.config.warm_start {
            data.warm = Some(Mutex::new(vec![Vec::new(); num_docs]));
        }
        if self.config.leave_out {
            data.explained = Mutex::new(vec![Explained::default(); num_docs]);
        }
        Ok(data)
    }

    fn start(
        &mut self,
        _data: &TopicData<'a>,
        run: usize,
        patience: Patience<'_>,
    ) -> Result<Start<TopicParams, TopicSummary>> {
        let mut rng = ChaCha8Rng::seed_from_u64(self.seed(run));
        // Every run draws by itself.
        self.model.set_visits((run as u64) << 32);
        let topics = self.model.topics_mut();
        topics.pull = None;
        let total = match (self.start, self.config.init) {
            (Some(start), _) => start.total.clone(),
            (None, TopicInit::Random) => random_topics(topics, self.source, &mut rng)?,
            (None, TopicInit::Auto | TopicInit::Bregman) => {
                let first = initial_topics(topics, self.source, self.config.init_lloyd, &mut rng, patience)?;
                first.reordered(&seeded_order(&first, self.seed_words))
            }
        };
        topics.pull = seed_pull(topics, &total, self.seed_words, self.config.seed_weight)?;
        let mut params = self.model.global_step(&total, None)?;
        if let Some(start) = self.start {
            params.alpha = start.alpha.clone();
        }
        let stays = self.start.is_some() && self.config.history == History::Keep;
        Ok(Start { params, total, stays, rng })
    }

    fn score(&self) -> Option<Box<dyn Fn(&TopicParams, &TopicSummary) -> Result<f64> + '_>> {
        let held = self.heldout?;
        Some(Box::new(move |params, total| self.score_of(held, &params.alpha, total)))
    }

    fn saved(&self, state: &StateOf<Self>, outcome: &Outcome) -> TopicModel {
        let observations = self.source.num_rows() - state.progress.forgotten;
        let training = TrainingRecord::new(observations, state, outcome);
        self.saved_with(training, &state.params.alpha, &state.total)
    }

    fn encode(&self, model: &TopicModel) -> std::io::Result<Vec<u8>> {
        model.to_bytes()
    }

    fn decode(&self, path: &Path, bytes: &[u8]) -> Result<TopicModel> {
        TopicModel::from_bytes(path, bytes)
    }

    fn fingerprint(&self) -> Result<Fingerprint> {
        let mut print = vec![("model".into(), "topics".into()), ("data".into(), print_rows(self.source)?)];
        if let Some(held) = self.heldout {
            print.push(("heldout".into(), print_rows(held)?));
        }
        if let Some(start) = self.start {
            print.push(("from".into(), print_numbers(&start.total.total().mass)));
        }
        if let Some(vocab) = self.vocab {
            let hash = crc32fast::hash(vocab.join("\n").as_bytes());
            print.push(("vocab".into(), format!("{} words with checksum {hash:08x}", vocab.len())));
        }
        if !self.seed_words.is_empty() {
            print.push(("seed-words".into(), format!("{:?}", self.seed_words)));
        }
        print.extend(print_settings(&self.config));
        Ok(print)
    }

    /// The total gives everything but alpha, which is learned step by step, and the pull of seed words, which came from
    /// the first total.
    fn sections(&self, params: &TopicParams, data: &TopicData<'a>) -> Sections {
        let mut sections = Sections::default();
        sections.put("alpha", &params.alpha);
        sections.put("pull", &self.model.topics().pull);
        sections.put("visits", &self.model.visits());
        sections.put("tally", &*data.tally.lock().unwrap_or_else(|e| e.into_inner()));
        if let Some(warm) = &data.warm {
            sections.put("warm", &*warm.lock().unwrap_or_else(|e| e.into_inner()));
        }
        sections.put("explained", &*data.explained.lock().unwrap_or_else(|e| e.into_inner()));
        sections
    }

    fn restore(
        &mut self,
        total: &TopicSummary,
        sections: &Sections,
        data: &TopicData<'a>,
    ) -> Result<Option<TopicParams>> {
        let (Some(alpha), Some(pull), Some(tally), Some(visits)) =
            (sections.get("alpha"), sections.get("pull"), sections.get("tally"), sections.get("visits"))
        else {
            return Ok(None);
        };
        let Some(explained) = sections.get::<Vec<Explained>>("explained") else { return Ok(None) };
        *data.explained.lock().unwrap_or_else(|e| e.into_inner()) = explained;
        self.model.topics_mut().pull = pull;
        self.model.set_visits(visits);
        *data.tally.lock().unwrap_or_else(|e| e.into_inner()) = tally;
        if let Some(warm) = &data.warm {
            let Some(counts) = sections.get::<Vec<Vec<(u32, f32)>>>("warm") else { return Ok(None) };
            *warm.lock().unwrap_or_else(|e| e.into_inner()) = counts;
        }
        let params = self.model.global_step(total, None)?;
        Ok(Some(TopicParams { alpha, ..params }))
    }
}

/// A fall of the held-out score over two laps that is more than a wobble, as a share of it.
const FALL: f64 = 3e-3;

/// The symptom of a cold start without restarts on short documents: lap after lap active topics a document rose while
/// the held-out score fell, and it never came back to what it was.
fn decaying(laps: &[LapReport]) -> bool {
    let fell = |pair: &[LapReport]| matches!((pair[0].heldout, pair[1].heldout), (Some(a), Some(b)) if b < a);
    let rose = |pair: &[LapReport]| pair[1].get(ACTIVE_TOPICS) > pair[0].get(ACTIVE_TOPICS);
    let worse = |three: &[LapReport]| {
        let below = |lap: &LapReport| match (lap.heldout, three[0].heldout) {
            (Some(now), Some(before)) => now < before - FALL * before.abs(),
            _ => false,
        };
        three.windows(2).all(|pair| fell(pair) && rose(pair)) && below(&three[2]) && laps.last().is_some_and(below)
    };
    laps.windows(3).any(worse)
}

/// Topics times words that are trained at most: the word table holds 4 bytes for each.
const MOST_ENTRIES: u128 = 1 << 32;

/// Refuse what could only end by running out of memory.
fn check_size(config: &TopicsConfig, source: &dyn RowSource) -> Result<()> {
    if config.topics as u128 * source.dim() as u128 <= MOST_ENTRIES {
        return Ok(());
    }
    let problem = format!("{} topics over {} words do not fit into memory", config.topics, source.dim());
    Err(Error::Config {
        option: "topics",
        problem,
        remedy: "ask for fewer topics, or build a smaller vocabulary".into(),
    })
}

/// Counts must be finite and not negative, whole where tokens are sampled, and held-out documents of the same
/// vocabulary.
fn check_corpora(config: &TopicsConfig, source: &dyn RowSource, around: &TopicSurroundings<'_>) -> Result<()> {
    let whole = config.method != TopicMethod::Lsparse;
    for (corpus, whole) in [(Some(source), whole), (around.heldout, false)] {
        let Some(corpus) = corpus else { continue };
        if corpus.dim() != source.dim() {
            let (name, model, data) = (corpus.name().into(), source.dim(), corpus.dim());
            return Err(Error::DimensionMismatch { name, model, data });
        }
        check_counts(corpus, whole)?;
    }
    if let Some(vocab) = around.vocab
        && vocab.len() != source.dim()
    {
        let problem = format!("{} words for {} columns", vocab.len(), source.dim());
        return Err(Error::Config { option: "vocab", problem, remedy: "give one word a column".into() });
    }
    Ok(())
}

/// Samplers of all tokens know one prior for all words, and count the tokens they have and no others.
fn check_method(config: &TopicsConfig, around: &TopicSurroundings<'_>) -> Result<()> {
    let refuse = |option: &'static str, problem: &str, remedy: &str| {
        let problem = format!("{} {problem}", config.method.name());
        Err(Error::Config { option, problem, remedy: remedy.into() })
    };
    if !config.method.samples_tokens() {
        return Ok(());
    }
    if around.seed_words.iter().any(|list| !list.is_empty()) {
        return refuse("seed-words", "has no seed words", "leave them out, or choose --method lsparse");
    }
    if around.start.is_some() && config.history == History::Keep {
        let remedy = "give --history replace: the new documents take the place of the old";
        return refuse("history", "cannot keep the counts of documents that it does not have", remedy);
    }
    if around.storage.checkpoint.as_ref().is_some_and(|options| options.forget_batch.is_some()) {
        return refuse("forget-batch", "has drawn all topics given this batch", "train again without its documents");
    }
    Ok(())
}

/// Counts are finite and not negative, whole where tokens are sampled, and some are there.
pub(super) fn check_counts(corpus: &dyn RowSource, whole: bool) -> Result<()> {
    let check = |row: usize, column: usize, value: f64| {
        let name = corpus.name().to_owned();
        if value < 0.0 {
            Err(Error::BadValue { name, row, column, value, need: "a count, zero or more" })
        } else if whole && value.fract() != 0.0 {
            let need = "a whole number: a sampler gives every token a topic of its own";
            Err(Error::BadValue { name, row, column, value, need })
        } else {
            Ok(())
        }
    };
    match scan(corpus, Element::F32, Some(&check))?.nonzeros {
        0 => Err(Error::EmptyCorpus { name: corpus.name().into() }),
        _ => Ok(()),
    }
}

fn check_start(config: &TopicsConfig, source: &dyn RowSource, start: Option<&TopicModel>) -> Result<()> {
    let Some(start) = start else { return Ok(()) };
    if start.num_topics() != config.topics {
        let problem = format!("the model to go on from has {} topics", start.num_topics());
        return Err(Error::Config { option: "topics", problem, remedy: format!("give -k {}", start.num_topics()) });
    }
    if start.vocab_size() != source.dim() {
        let (name, model, data) = (source.name().into(), start.vocab_size(), source.dim());
        return Err(Error::DimensionMismatch { name, model, data });
    }
    Ok(())
}

/// The order of the first topics in which list k of seed words meets the topic that holds most of its words.
fn seeded_order(first: &TopicSummary, lists: &[Vec<u32>]) -> Vec<usize> {
    let num = first.num_topics;
    let stats = first.total();
    let mut free: Vec<usize> = (0..num).collect();
    let mut order = Vec::with_capacity(num);
    for list in lists.iter().take(num) {
        // Shares of words rather than counts, so that one common word does not decide.
        let holds = |k: usize| -> f64 {
            let share = |&v: &u32| {
                let (topic, mass) = stats.word(v as usize);
                let own = topic.binary_search(&(k as u32)).map_or(0.0, |at| mass[at]);
                own / mass.iter().sum::<f64>().max(f64::MIN_POSITIVE)
            };
            list.iter().map(share).sum()
        };
        let best = (0..free.len()).max_by(|&a, &b| holds(free[a]).total_cmp(&holds(free[b])).then(b.cmp(&a)));
        order.extend(best.map(|at| free.remove(at)));
    }
    order.extend(free);
    order
}

/// Pseudo-counts of seed words: a share of each word's count in the corpus, for its topic.
fn seed_pull(
    topics: &Topics,
    initial: &TopicSummary,
    lists: &[Vec<u32>],
    weight: f64,
) -> Result<Option<SparseStats<f32>>> {
    if lists.iter().all(Vec::is_empty) {
        return Ok(None);
    }
    if lists.len() > topics.num_topics {
        let problem = format!("{} lists for {} topics", lists.len(), topics.num_topics);
        return Err(Error::Config { option: "seed-words", problem, remedy: "give at most one list a topic".into() });
    }
    let stats = initial.total();
    let mut by_word: Vec<Vec<(u32, f32)>> = vec![Vec::new(); topics.vocab_size];
    for (k, list) in lists.iter().enumerate() {
        for &v in list {
            let total: f64 = stats.word(v as usize).1.iter().sum();
            by_word[v as usize].push((k as u32, (weight * total).max(1.0) as f32));
        }
    }
    let pull = SparseStats::by_word(topics.vocab_size, |v, row| row.append(&mut by_word[v]));
    Ok(Some(pull))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_decays_when_its_score_falls_while_active_topics_rise_for_good() {
        let laps = |list: &[(f64, f64)]| -> Vec<LapReport> {
            let lap = |&(active, score): &(f64, f64)| LapReport {
                heldout: Some(score),
                report: vec![(ACTIVE_TOPICS.to_owned(), active)],
            };
            list.iter().map(lap).collect()
        };
        assert!(decaying(&laps(&[(5.0, -7.0), (6.0, -7.1), (7.0, -7.2)])));
        assert!(decaying(&laps(&[(5.0, -7.0), (6.0, -7.1), (7.0, -7.2), (6.9, -7.19), (6.8, -7.18)])));
        assert!(!decaying(&laps(&[(5.0, -7.0), (6.0, -7.1), (7.0, -7.2), (6.0, -6.9)])), "it recovered");
        assert!(!decaying(&laps(&[(7.0, -7.0), (6.0, -7.1), (5.0, -7.2)])), "documents became sparser");
        assert!(!decaying(&laps(&[(5.0, -7.2), (6.0, -7.1), (7.0, -7.0)])), "it got better");
        assert!(!decaying(&laps(&[(5.0, -7.0), (6.0, -7.1)])), "too early to say");
        assert!(!decaying(&laps(&[(5.0, -7.0), (5.1, -7.0001), (5.2, -7.0002)])), "a wobble");
    }
}
