//! Training a topic model from a configuration and a corpus: seeds, seed words, scores, the saved model.

use lsparse_cuda::topics::{MOST_COMPLETED_TOPICS, PART_ENTRIES};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use crate::backend::{Demand, Place};
use crate::data::{Batches, Dealt, RowSource};
use crate::error::{Error, Result};
use crate::runs::{self, Beside, Family, Fitted};
use crate::settings::{BestBy, Checked, History, Plan, Sparsity, TopicInit, TopicMethod, TopicsConfig};
use crate::store::checkpoint::{Fingerprint, print_numbers, print_rows, print_settings};
use crate::system::check_room;
use crate::topics::checks::{
    check_corpora, check_method, check_most, check_priors, check_size, check_start, memory_needed,
};
use crate::topics::gibbs::{GibbsFamily, Sampling};
use crate::topics::local::device;
use crate::topics::pull::{prior_pull, seed_pull, seeded_order};
use crate::topics::saved::TopicModel;
use crate::topics::score::{CompletionOptions, completion};
use crate::topics::summary::TopicSummary;
use crate::topics::table::WordTable;
use crate::topics::{ACTIVE_TOPICS, TopicParams, Topics, initial_topics, random_topics};
use crate::training::exchange::Known;
use crate::training::model::Model;
use crate::training::rules::{LapReport, Outcome, Patience, TrainingRecord};
use crate::training::schedule::ScheduleKind;
use crate::training::session::{Session, Start};
use crate::training::trace::Beginning;

/// What topics are trained with besides documents and settings.
#[derive(Clone, Default)]
pub struct TopicInputs<'a> {
    /// The words, one for each column of the corpus; numbers are used where there are none.
    pub vocab: Option<&'a [String]>,
    /// Documents to score at the end of every lap.
    pub heldout: Option<&'a dyn RowSource>,
    /// A model to go on from, with the vocabulary of the corpus (see [`TopicModel::with_vocab`]).
    pub start: Option<&'a TopicModel>,
    /// Words that pull a topic, as columns of the corpus: list k is topic k's.
    pub seed_words: &'a [Vec<u32>],
    /// alpha_k to begin with, one a topic, in place of the same for all; its sum is to be the setting.
    pub alpha: Option<&'a [f64]>,
    /// Pseudo-counts of words in topics, K x V, each at least lambda, in place of lambda for all.
    pub word_prior: Option<&'a [f64]>,
    /// Settings of the tokeniser, kept in the model so that raw text can be scored.
    pub tokenizer: Option<serde_json::Value>,
}

impl Fitted<TopicModel> {
    /// Whether active topics a document rose lap after lap while the held-out score fell.
    pub fn decaying(&self) -> bool {
        self.model.config.method == TopicMethod::Lsparse && decaying(&self.outcome.recent)
    }
}

/// Train topics on the documents of `source`, rows of word counts.
///
/// ```
/// use lsparse::data::CsrRows;
/// use lsparse::settings::TopicsConfig;
/// use lsparse::topics::fit_topics;
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
pub fn fit_topics(source: &dyn RowSource, config: &TopicsConfig) -> Result<Fitted<TopicModel>> {
    fit_topics_with(source, config, TopicInputs::default(), Beside::default())
}

/// Train topics with held-out documents, observers and so on.
pub fn fit_topics_with(
    source: &dyn RowSource,
    config: &TopicsConfig,
    inputs: TopicInputs<'_>,
    beside: Beside<'_>,
) -> Result<Fitted<TopicModel>> {
    check_most(config, inputs.start)?;
    let checked = config.check(source.num_rows())?;
    check_room(
        memory_needed(source, &checked, &beside.storage),
        || format!("training {} topics over {} words", checked.topics, source.dim()),
        || "ask for fewer topics, or build a smaller vocabulary".to_owned(),
    )?;
    let family = TopicFamily::new(source, config, inputs)?;
    match family.config.method.samples_tokens() {
        false => runs::train(&family, beside),
        true => runs::train(&GibbsFamily::new(family)?, beside),
    }
}

/// Products that a core makes in the time that it takes for one entry of a document, with its iterations and restarts: it
/// works out a million and a half of them a second.
const PRODUCTS_AN_ENTRY: f64 = 3e4;

/// What a lap over documents with so many entries would ask of a GPU.
fn demand(source: &dyn RowSource, config: &Checked<TopicsConfig>, entries: usize) -> Demand {
    Demand { cannot: device::cannot(config), ..demand_of_solving(config, source.dim(), entries) }
}

/// The same for documents under topics that stay as they are.
pub(super) fn demand_of_solving(config: &TopicsConfig, vocab_size: usize, entries: usize) -> Demand {
    let products = entries as f64 * PRODUCTS_AN_ENTRY;
    let bytes = device::bytes_needed(config, vocab_size, entries);
    Demand { products, bytes, cannot: device::cannot_solve(config) }
}

/// The same for documents that are completed.
pub(super) fn demand_of_completing(topics: &WordTable, entries: usize) -> Demand {
    let bytes = 4 * topics.values.len() + 16 * entries.min(PART_ENTRIES);
    let many = topics.num_topics > MOST_COMPLETED_TOPICS;
    let cannot = many.then(|| format!("documents are completed with up to {MOST_COMPLETED_TOPICS} topics there"));
    Demand { products: entries as f64 * PRODUCTS_AN_ENTRY, bytes: bytes as u64, cannot }
}

/// Streams of randomness of a run besides that of where it starts.
#[derive(Clone, Copy)]
pub(super) enum Stream {
    Batches,
    Schedule,
}

/// Topic models with all that their training needs.
pub struct TopicFamily<'a> {
    pub(super) source: &'a dyn RowSource,
    pub(super) config: Checked<TopicsConfig>,
    pub(super) inputs: TopicInputs<'a>,
    /// Where documents are worked out.
    place: Place,
    remarks: Vec<String>,
}

impl<'a> TopicFamily<'a> {
    /// Check settings and documents.
    pub fn new(source: &'a dyn RowSource, config: &TopicsConfig, inputs: TopicInputs<'a>) -> Result<Self> {
        let (asked, finds_k) = (config.sparsity, config.find_k);
        let alone = config.remark_on_finding(source.num_rows());
        // Where K is found it is found from that of a model to go on from.
        let start = inputs.start.filter(|_| config.find_k && config.k_start.is_none());
        check_most(config, inputs.start)?;
        let k_start = start.map_or(config.k_start, |start| Some(start.num_topics()));
        let config = TopicsConfig { k_start, ..config.clone() }.check(source.num_rows())?;
        check_size(&config, source)?;
        let entries = check_corpora(&config, source, &inputs)?;
        check_start(&config, source, inputs.start)?;
        check_method(&config, &inputs)?;
        check_priors(&config, source, &inputs)?;
        if config.best_by == BestBy::Heldout && inputs.heldout.is_none() {
            let problem = "there are no held-out documents to compare runs by".into();
            return Err(Error::Config { setting: "best-by", problem, remedy: "give held-out documents".into() });
        }
        if config.early_stopping.is_some() && inputs.heldout.is_none() {
            let problem = "there are no held-out documents to stop by".into();
            return Err(Error::Config { setting: "early-stopping", problem, remedy: "give `heldout` too".into() });
        }
        let place = Place::choose(config.device, &demand(source, &config, entries))?;
        let clipped = asked.remark(config.topics).filter(|_| !finds_k);
        let remarks = place.remark.iter().cloned().chain(clipped).chain(alone).collect();
        Ok(TopicFamily { source, config, inputs, place, remarks })
    }

    /// The same with settings that were settled elsewhere: the documents are not read.
    pub fn of(source: &'a dyn RowSource, config: &TopicsConfig, inputs: TopicInputs<'a>) -> Result<Self> {
        let config = config.check(source.num_rows())?;
        // How large the work is nobody has looked: a GPU that is asked for by name is taken.
        let place = Place::choose(config.device, &demand(source, &config, 0))?;
        let remarks = place.remark.iter().cloned().collect();
        Ok(TopicFamily { source, config, inputs, place, remarks })
    }

    /// The model to go on from whose statistics stay; stochastic steps let them fade.
    fn kept(&self) -> Option<&'a TopicModel> {
        let TopicsConfig { history, schedule, .. } = *self.config;
        self.inputs.start.filter(|_| history == History::Keep && schedule != ScheduleKind::Stochastic)
    }

    pub(super) fn seed(&self, run: usize) -> u64 {
        self.config.seed.wrapping_add((run as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15))
    }

    /// A stream of randomness of a run that is independent of the others, as a seed. That of [`seed`](Self::seed) itself
    /// is for where the run starts.
    pub(super) fn stream(&self, run: usize, stream: Stream) -> u64 {
        self.seed(run) ^ (stream as u64 + 1).wrapping_mul(0xD1B5_4A32_D192_ED03)
    }

    /// The held-out score. The split of held-out words does not follow the run's seed, so that runs can be compared.
    pub(super) fn score_of(&self, topics: &Topics, alpha: &[f32], total: &TopicSummary) -> Result<Option<f64>> {
        let Some(held) = self.inputs.heldout else { return Ok(None) };
        let (table, options) = (topics.point_topics(total), CompletionOptions::default());
        let found = completion(&table, alpha, held, &options, &self.place)?;
        if found.documents == 0 {
            let problem = "no document has two different words".into();
            return Err(Error::Config { setting: "heldout", problem, remedy: "give longer documents".into() });
        }
        Ok(Some(found.score()))
    }

    /// Settings as a model of so many topics has them.
    fn record_of(&self, num_topics: usize) -> TopicsConfig {
        let mut config = TopicsConfig { topics: num_topics, ..self.config.of_record() };
        if config.find_k {
            // What was asked for, so that these settings give the same run again.
            config.k_start.get_or_insert(self.config.topics);
            config.sparsity = Sparsity::of_found(self.config.sparsity, num_topics);
        }
        config
    }

    /// The model with these statistics.
    pub(super) fn saved_with(
        &self,
        topics: &Topics,
        training: TrainingRecord,
        alpha: &[f32],
        total: &TopicSummary,
    ) -> TopicModel {
        let vocab = match self.inputs.vocab {
            Some(vocab) => vocab.to_vec(),
            None => (0..self.source.dim()).map(|v| v.to_string()).collect(),
        };
        TopicModel {
            config: self.record_of(total.num_topics),
            training,
            vocab,
            tokenizer: self.inputs.tokenizer.clone(),
            alpha: alpha.to_vec(),
            table: topics.point_topics(total),
            total: total.clone(),
            pull: topics.pull.clone(),
        }
    }
}

impl<'a> Family<'a> for TopicFamily<'a> {
    type Model = Topics;
    type Saved = TopicModel;

    fn plan(&self) -> Plan {
        let mut plan = self.config.plan();
        plan.pace.leave_out = self.config.leave_out;
        plan
    }

    fn beginning(&self) -> Beginning {
        Beginning::new("topics", self.source.num_rows(), self.source.dim(), &*self.config)
    }

    fn remarks(&self) -> &[String] {
        &self.remarks
    }

    fn backend(&self) -> String {
        self.place.name()
    }

    fn fingerprint(&self) -> Result<Fingerprint> {
        let TopicInputs { vocab, heldout, start, seed_words, alpha, word_prior, .. } = self.inputs;
        let mut print = vec![("model".into(), "topics".into()), ("data".into(), print_rows(self.source)?)];
        if let Some(held) = heldout {
            print.push(("heldout".into(), print_rows(held)?));
        }
        if let Some(start) = start {
            print.push(("from".into(), print_numbers(&start.total.total().mass)));
            let pull = start.pull.iter().flat_map(|pull| &pull.mass);
            let pull: Vec<f64> = pull.map(|&m| f64::from(m)).collect();
            if !pull.is_empty() {
                print.push(("seed words of from".into(), print_numbers(&pull)));
            }
        }
        if let Some(vocab) = vocab {
            let hash = crc32fast::hash(vocab.join("\n").as_bytes());
            print.push(("vocab".into(), format!("{} words with checksum {hash:08x}", vocab.len())));
        }
        if !seed_words.is_empty() {
            print.push(("seed-words".into(), format!("{seed_words:?}")));
        }
        for (name, numbers) in [("given alpha", alpha), ("given word prior", word_prior)] {
            print.extend(numbers.map(|numbers| (name.into(), print_numbers(numbers))));
        }
        print.extend(print_settings(&*self.config));
        Ok(print)
    }

    fn known(&self) -> Result<Known> {
        let config: &TopicsConfig = &self.config;
        let settings = serde_json::to_string(config).map_err(|_| Error::Exchange { what: "settings" })?;
        let ends = self.source.pieces().map_or(Vec::new(), |pieces| pieces.ends().to_vec());
        Ok(Known { family: "topics".into(), settings, double: false, ends })
    }

    fn deal(&self, run: usize) -> Result<Dealt<'a>> {
        let batches = Batches::of(self.source, self.config.batches, self.stream(run, Stream::Batches))?;
        Ok(Dealt::new(self.source, batches))
    }

    fn model(&self, run: usize) -> Topics {
        let TopicsConfig { method, samples, seed, .. } = *self.config;
        // Every run draws by itself.
        let sampling = Sampling { samples, seed, first_visit: (run as u64) << 32 };
        let sampling = (method == TopicMethod::SviGibbs).then_some(sampling);
        let device = self.place.device.clone();
        let mut topics = Topics { sampling, device, ..Topics::new(&self.config, self.source.dim()) };
        if let Some(start) = self.inputs.start.filter(|_| self.config.find_k) {
            // How much documents mix is learned where K is found, and goes on from what it was.
            topics.alpha = start.concentration();
        }
        topics
    }

    fn start(
        &self,
        model: &mut Topics,
        _data: &Dealt<'a>,
        run: usize,
        patience: Patience<'_>,
    ) -> Result<Start<Topics>> {
        let TopicInputs { start, seed_words, .. } = self.inputs;
        let mut rng = ChaCha8Rng::seed_from_u64(self.seed(run));
        let mut total = match (start, self.config.init) {
            (Some(start), _) => start.total.clone(),
            (None, TopicInit::Random) => random_topics(model, self.source, &mut rng)?,
            (None, TopicInit::Auto | TopicInit::Bregman) => {
                let first = initial_topics(model, self.source, self.config.init_lloyd, &mut rng, patience)?;
                first.words.bring()?;
                first.reordered(&seeded_order(&first, seed_words))
            }
        };
        // Words that are given now take the place of those that the model to go on from was trained with.
        let pull = match self.inputs.word_prior {
            Some(prior) => Some(prior_pull(model, prior)),
            None => seed_pull(model, &total, seed_words, self.config.seed_weight)?,
        };
        model.pull = pull.or_else(|| start.and_then(|start| start.pull.clone()));
        let given = || self.inputs.alpha.map(|alpha| alpha.iter().map(|&a| a as f32).collect());
        let alpha = match start {
            Some(start) => start.alpha.clone(),
            None => given().unwrap_or_else(|| model.initial_alpha()),
        };
        model.stand_in(&mut total, &alpha, self.source.num_rows());
        let params = TopicParams { alpha, ..model.global_step(&total, None)? };
        let stays = self.kept().is_some();
        let rng = ChaCha8Rng::seed_from_u64(self.stream(run, Stream::Schedule));
        Ok(Start { params, total, stays, rng })
    }

    fn score(&self, model: &Topics, params: &TopicParams, total: &TopicSummary) -> Result<Option<f64>> {
        self.score_of(model, &params.alpha, total)
    }

    fn saved(&self, session: &Session<'a, Topics>, outcome: &Outcome) -> TopicModel {
        let before = self.kept().map_or(0, |start| start.training.observations);
        let observations = before + self.source.num_rows() - session.progress().forgotten;
        let training = TrainingRecord::new(observations, session.progress(), outcome);
        self.saved_with(session.model(), training, &session.params().alpha, session.total())
    }

    fn kept(&self, mut earlier: TopicModel, outcome: &Outcome) -> TopicModel {
        earlier.config = self.record_of(earlier.num_topics());
        earlier.training.stopped_by = outcome.reason.rule().into();
        earlier
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::CsrRows;

    /// Batches, order of visits and start are drawn by themselves, in samplers too.
    #[test]
    fn purposes_have_streams_of_their_own() {
        let words: Vec<u32> = (0..400).map(|n| n % 7).collect();
        let rows = CsrRows::new("words", 7, (0..=400).collect(), words, vec![1.0f32; 400]).unwrap();
        let start_of = |method| {
            let config = TopicsConfig { method, topics: 2, batches: Some(10), seed: 3, ..Default::default() };
            (TopicFamily::new(&rows, &config, TopicInputs::default()).unwrap(), ChaCha8Rng::seed_from_u64(3))
        };
        let (family, seeding) = start_of(TopicMethod::Lsparse);
        let data = family.deal(0).unwrap();
        let start = family.start(&mut family.model(0), &data, 0, Patience::default()).unwrap();
        let dealing = ChaCha8Rng::seed_from_u64(family.stream(0, Stream::Batches));
        assert!(start.rng.get_seed() != seeding.get_seed() && start.rng.get_seed() != dealing.get_seed());
        let dealt = |seed: u64| Batches::new(400, 10, seed).unwrap().row_ids(0);
        assert_ne!(data.batches.row_ids(0), dealt(3));
        let (family, chain) = start_of(TopicMethod::SparseLda);
        let family = GibbsFamily::new(family).unwrap();
        let data = family.deal(0).unwrap();
        let start = family.start(&mut family.model(0), &data, 0, Patience::default()).unwrap();
        assert_ne!(start.rng.get_seed(), chain.get_seed());
    }

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
