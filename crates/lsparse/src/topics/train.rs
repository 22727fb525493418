//! Training a topic model from a configuration and a corpus: seeds, schedule, loop, best of several runs.

use std::sync::Mutex;
use std::sync::atomic::AtomicBool;

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::config::{History, TopicInit, TopicsConfig};
use super::saved::TopicModel;
use super::score::{CompletionOptions, completion};
use super::summary::{SparseStats, TopicSummary};
use super::{ACTIVE_TOPICS, TopicData, TopicParams, Topics, initial_topics, random_topics};
use crate::config::BestBy;
use crate::data::{Batches, Element, RowSource, scan};
use crate::error::{Error, Result};
use crate::fit::{self, Outcome, State, StopReason, StopRules, TrainingRecord, Watch};
use crate::model::Model;
use crate::observe::{Observer, StepInfo, Stopwatch};
use crate::schedule::{Memoized, Schedule, ScheduleKind, Stochastic};

/// What a run has around it besides documents and settings.
#[derive(Default)]
pub struct TopicSurroundings<'a> {
    /// The words, one for each column of the corpus; numbers are used where there are none.
    pub vocab: Option<&'a [String]>,
    /// Documents to score at the end of every lap.
    pub heldout: Option<&'a dyn RowSource>,
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
    check_corpora(source, &around)?;
    let mut topics = Topics {
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
    check_start(&config, source, around.start)?;
    // The split of held-out words does not follow the run's seed, so that runs can be compared.
    let scoring = CompletionOptions::default();
    let TopicSurroundings { vocab, heldout: held, start, seed_words, observer, interrupt, tokenizer } = around;
    let mut silent = ();
    let observer: &mut dyn Observer = match observer {
        Some(observer) => observer,
        None => &mut silent,
    };
    let mut best: Option<FittedTopics> = None;
    let mut runs = Vec::new();
    for run in 0..config.runs {
        let mut clock = Stopwatch::default();
        clock.start();
        let seed = config.seed.wrapping_add((run as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let initial = match start {
            Some(start) => start.total.clone(),
            None => match config.init {
                TopicInit::Bregman => {
                    let first = initial_topics(&topics, source, config.init_lloyd, &mut rng)?;
                    first.reordered(&seeded_order(&first, seed_words))
                }
                TopicInit::Random => random_topics(&topics, source, &mut rng)?,
            },
        };
        topics.pull = seed_pull(&topics, &initial, seed_words, config.seed_weight)?;
        let mut data = TopicData::new(source, Batches::new(source.num_rows(), config.batches, seed)?);
        if config.warm_start {
            data.warm = Some(Mutex::new(vec![Vec::new(); source.num_rows()]));
        }
        let mut params = Model::<TopicData<'_>>::global_step(&topics, &initial, None)?;
        if let Some(start) = start {
            params.alpha = start.alpha.clone();
        }
        let mut schedule = build_schedule(&topics, &data, &config, &initial, start.is_some(), rng);
        let mut state = State { params, total: initial, step: 0, laps: 0 };
        let score = |params: &TopicParams, total: &TopicSummary| match held {
            Some(held) => Ok(completion(&topics.point_topics(total), &params.alpha, held, &scoring)?.score()),
            None => Ok(f64::NAN),
        };
        let mut lap_watch = LapWatch { inner: &mut *observer, laps: Vec::new() };
        let mut watch = Watch {
            score: held.map(|_| &score as &dyn Fn(&TopicParams, &TopicSummary) -> Result<f64>),
            observer: &mut lap_watch,
            interrupt,
            run,
            clock,
        };
        let outcome = fit::run(&topics, &data, schedule.as_mut(), &mut state, &rules(&config), &mut watch)?;
        let laps = lap_watch.laps;
        runs.push((outcome.objective.total(), outcome.heldout));
        let interrupted = outcome.reason == StopReason::Interrupted;
        let better = best.as_ref().is_none_or(|b| quality(&config, &outcome) > quality(&config, &b.outcome));
        if better {
            let words = Words { vocab, tokenizer: tokenizer.clone() };
            let model = saved_model(&topics, &config, source, words, state, &outcome);
            best = Some(FittedTopics { model, outcome, run, runs: Vec::new(), decaying: decaying(&laps) });
        }
        if interrupted {
            break;
        }
    }
    let mut best = best.ok_or_else(|| Error::NoRows { name: source.name().into() })?;
    best.runs = runs;
    Ok(best)
}

/// Passes steps on, and remembers how each lap went.
struct LapWatch<'a> {
    inner: &'a mut dyn Observer,
    /// Active topics a document, and the held-out score.
    laps: Vec<(f64, Option<f64>)>,
}

impl Observer for LapWatch<'_> {
    fn step(&mut self, info: &StepInfo) -> Result<()> {
        if let Some((_, active)) = info.report.iter().find(|(name, _)| *name == ACTIVE_TOPICS) {
            self.laps.push((*active, info.heldout));
        }
        self.inner.step(info)
    }
}

/// The symptom of a cold start without restarts on short documents: over the last three laps active topics a document
/// rose and the held-out score fell each time.
fn decaying(laps: &[(f64, Option<f64>)]) -> bool {
    laps.len() >= 3
        && laps[laps.len() - 3..].windows(2).all(|pair| {
            let worse = matches!((pair[0].1, pair[1].1), (Some(a), Some(b)) if b < a);
            worse && pair[1].0 > pair[0].0
        })
}

fn rules(config: &TopicsConfig) -> StopRules {
    StopRules {
        laps: config.laps,
        tolerance: config.tolerance,
        count_tolerance: config.count_tolerance,
        max_seconds: config.max_seconds,
    }
}

fn quality(config: &TopicsConfig, outcome: &Outcome) -> f64 {
    match (config.best_by, outcome.heldout) {
        (BestBy::Heldout, Some(score)) => score,
        _ => outcome.objective.total(),
    }
}

/// Topics times words that are trained at most: 12 bytes each are held in memory.
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

/// Counts must be finite and not negative, and held-out documents of the same vocabulary.
fn check_corpora(source: &dyn RowSource, around: &TopicSurroundings<'_>) -> Result<()> {
    for corpus in [Some(source), around.heldout].into_iter().flatten() {
        if corpus.dim() != source.dim() {
            let (name, model, data) = (corpus.name().into(), source.dim(), corpus.dim());
            return Err(Error::DimensionMismatch { name, model, data });
        }
        check_counts(corpus)?;
    }
    if let Some(vocab) = around.vocab
        && vocab.len() != source.dim()
    {
        let problem = format!("{} words for {} columns", vocab.len(), source.dim());
        return Err(Error::Config { option: "vocab", problem, remedy: "give one word a column".into() });
    }
    Ok(())
}

/// Counts are finite and not negative, and some are there.
pub(super) fn check_counts(corpus: &dyn RowSource) -> Result<()> {
    let check = |row: usize, column: usize, value: f64| {
        let name = corpus.name().to_owned();
        if value < 0.0 {
            Err(Error::BadValue { name, row, column, value, need: "a count, zero or more" })
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
    let stats = first.dense().unwrap_or(&[]);
    let mut free: Vec<usize> = (0..num).collect();
    let mut order = Vec::with_capacity(num);
    for list in lists.iter().take(num) {
        // Shares of words rather than counts, so that one common word does not decide.
        let holds = |k: usize| -> f64 {
            let share = |&v: &u32| {
                let row = &stats[v as usize * num..(v as usize + 1) * num];
                row[k] / row.iter().sum::<f64>().max(f64::MIN_POSITIVE)
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
fn seed_pull(topics: &Topics, initial: &TopicSummary, lists: &[Vec<u32>], weight: f64) -> Result<Option<SparseStats>> {
    if lists.iter().all(Vec::is_empty) {
        return Ok(None);
    }
    if lists.len() > topics.num_topics {
        let problem = format!("{} lists for {} topics", lists.len(), topics.num_topics);
        return Err(Error::Config { option: "seed-words", problem, remedy: "give at most one list a topic".into() });
    }
    let stats = initial.dense().unwrap_or(&[]);
    let mut by_word: Vec<Vec<(u32, f32)>> = vec![Vec::new(); topics.vocab_size];
    for (k, list) in lists.iter().enumerate() {
        for &v in list {
            let total: f64 = stats[v as usize * topics.num_topics..(v as usize + 1) * topics.num_topics].iter().sum();
            by_word[v as usize].push((k as u32, (weight * total).max(1.0) as f32));
        }
    }
    let mut pull = SparseStats::empty(topics.vocab_size);
    for (v, entries) in by_word.iter().enumerate() {
        pull.topic.extend(entries.iter().map(|e| e.0));
        pull.mass.extend(entries.iter().map(|e| e.1));
        pull.indptr[v + 1] = pull.topic.len();
    }
    Ok(Some(pull))
}

fn build_schedule(
    topics: &Topics,
    data: &TopicData<'_>,
    config: &TopicsConfig,
    initial: &TopicSummary,
    goes_on: bool,
    rng: ChaCha8Rng,
) -> Box<dyn Schedule<TopicSummary>> {
    let shares: Vec<f64> = (0..config.batches).map(|b| topics.batch_share(data, b)).collect();
    let keep = config.schedule != ScheduleKind::Streaming;
    match config.schedule {
        ScheduleKind::Stochastic => Box::new(Stochastic::new(shares, config.delay, config.decay, rng)),
        _ if goes_on && config.history == History::Keep => {
            Box::new(Memoized::on_top_of(shares, initial.clone(), keep, rng))
        }
        _ => Box::new(Memoized::new(shares, initial.clone(), keep, rng)),
    }
}

/// What a model keeps of the words.
struct Words<'a> {
    vocab: Option<&'a [String]>,
    tokenizer: Option<serde_json::Value>,
}

fn saved_model(
    topics: &Topics,
    config: &TopicsConfig,
    source: &dyn RowSource,
    words: Words<'_>,
    state: State<TopicParams, TopicSummary>,
    outcome: &Outcome,
) -> TopicModel {
    let table = topics.point_topics(&state.total);
    let vocab = match words.vocab {
        Some(vocab) => vocab.to_vec(),
        None => (0..source.dim()).map(|v| v.to_string()).collect(),
    };
    TopicModel {
        config: config.clone(),
        training: TrainingRecord::new(source.num_rows(), &state, outcome),
        vocab,
        tokenizer: words.tokenizer,
        alpha: state.params.alpha,
        table,
        total: state.total,
    }
}
