//! What documents, priors and settings of topics must be before training, and what it will take.

use crate::data::{Element, PartialMoments, RowSource, scan_part};
use crate::error::{Error, Result};
use crate::settings::{History, TopicMethod, TopicsConfig};
use crate::store::checkpoint::Storage;
use crate::system::OF_A_TRAINING;
use crate::topics::saved::TopicModel;
use crate::topics::train::TopicInputs;
use crate::training::schedule::ScheduleKind;

/// Bytes that training with checked settings takes at most at one time, by and large, besides what the process has already:
/// a number for each word and topic, once in training and once to be scored or saved, the topics that a word starts with,
/// what documents give, which is sparse, and lists of all topics.
pub fn memory_needed(source: &dyn RowSource, config: &TopicsConfig, storage: &Storage) -> u64 {
    let (words, topics) = (source.dim() as u64, config.topics as u64);
    let sparsity = config.sparsity.within(config.topics) as u64;
    let pairs = words.saturating_mul(topics);
    let start = words.saturating_mul(sparsity).saturating_mul(8);
    // At most L topics for each word of a document, and in the sum of all at most all topics for each word.
    let given = (source.num_entries().unwrap_or(0) as u64).saturating_mul(sparsity);
    let remembered = match config.schedule {
        ScheduleKind::Full | ScheduleKind::Memoized => {
            let most = pairs.saturating_mul(config.batches.unwrap_or(1) as u64);
            given.min(most).saturating_mul(OF_A_BATCH_ENTRY).min(storage.memo_memory.unwrap_or(u64::MAX))
        }
        ScheduleKind::Stochastic | ScheduleKind::Streaming => 0,
    };
    let total = given.min(pairs).saturating_mul(2 * OF_A_TOTAL_ENTRY);
    let table = pairs.saturating_mul(2 * size_of::<f32>() as u64);
    let lists = topics.saturating_mul(OF_A_TOPIC);
    [start, remembered, total, lists, OF_A_TRAINING].iter().fold(table, |sum, &bytes| sum.saturating_add(bytes))
}

/// Bytes that it takes to write a model of so many words and topics: as it is, as arrays in double precision, and as the
/// bytes of an array and of the file.
pub fn memory_to_save(words: usize, topics: usize) -> u64 {
    const COPIES: usize = 4;
    (words as u64)
        .saturating_mul(topics as u64)
        .saturating_mul((2 * size_of::<f32>() + COPIES * size_of::<f64>()) as u64)
}

/// Bytes of a topic of a word with its mass: in what is remembered of a batch, and in the sum of all, of which there are
/// two while one takes the place of the other.
const OF_A_BATCH_ENTRY: u64 = 8;
const OF_A_TOTAL_ENTRY: u64 = 12;

/// Bytes of a topic in what is held topic by topic, whatever the vocabulary: shares and sums, what a start is made of, and
/// the lists of a document in each thread, of which a few are at work. Measured, with a vocabulary of a few words.
const OF_A_TOPIC: u64 = 1000;

/// Topics times words that are trained at most: the word table holds 4 bytes for each.
const MOST_ENTRIES: u128 = 1 << 32;

/// Refuse what could only end by running out of memory.
pub(super) fn check_size(config: &TopicsConfig, source: &dyn RowSource) -> Result<()> {
    if config.topics as u128 * source.dim() as u128 <= MOST_ENTRIES {
        return Ok(());
    }
    let problem = format!("{} topics over {} words do not fit into memory", config.topics, source.dim());
    Err(Error::Config {
        setting: "topics",
        problem,
        remedy: "ask for fewer topics, or build a smaller vocabulary".into(),
    })
}

/// Counts must be finite and not negative, whole where tokens are sampled, and held-out documents of the same
/// vocabulary. Gives how many entries the corpus has.
pub(super) fn check_corpora(config: &TopicsConfig, source: &dyn RowSource, inputs: &TopicInputs<'_>) -> Result<usize> {
    let whole = config.method != TopicMethod::Lsparse;
    let mut entries = None;
    for (corpus, whole) in [(Some(source), whole), (inputs.heldout, false)] {
        let Some(corpus) = corpus else { continue };
        if corpus.dim() != source.dim() {
            let (name, model, data) = (corpus.name().into(), source.dim(), corpus.dim());
            return Err(Error::DimensionMismatch { name, model, data });
        }
        let found = check_counts(corpus, whole)?;
        entries = entries.or(Some(found));
    }
    if let Some(vocab) = inputs.vocab
        && vocab.len() != source.dim()
    {
        let problem = format!("{} words for {} columns", vocab.len(), source.dim());
        return Err(Error::Config { setting: "vocab", problem, remedy: "give one word a column".into() });
    }
    Ok(entries.unwrap_or(0))
}

/// Priors that are given number by number are whole and positive, and agree with the settings.
pub(super) fn check_priors(config: &TopicsConfig, source: &dyn RowSource, inputs: &TopicInputs<'_>) -> Result<()> {
    let refuse = |setting: &'static str, problem: String, remedy: &str| {
        Err(Error::Config { setting, problem, remedy: remedy.into() })
    };
    let (topics, words) = (config.topics, source.dim());
    let priors = [
        ("alpha", inputs.alpha, topics, f64::MIN_POSITIVE),
        ("lambda", inputs.word_prior, topics * words, config.lambda),
    ];
    for (setting, given, length, least) in priors {
        let Some(given) = given else { continue };
        if given.len() != length {
            return refuse(setting, format!("{} numbers are given, {length} are needed", given.len()), "give them all");
        }
        if let Some(value) = given.iter().find(|value| !(value.is_finite() && **value >= least)) {
            return refuse(setting, format!("{value} is below {least} or not finite"), "give positive numbers");
        }
        if config.method.samples_tokens() {
            let problem = format!("{} has the same prior for all topics and words", config.method.name());
            return refuse(setting, problem, "give one number, or choose `method lsparse`");
        }
    }
    if config.find_k {
        // (Lists of seed words, and numbers one a topic, name topics by where they stand.)
        let given = [
            ("seed-words", inputs.seed_words.iter().any(|list| !list.is_empty())),
            ("alpha", inputs.alpha.is_some()),
            ("lambda", inputs.word_prior.is_some()),
        ];
        if let Some((setting, _)) = given.into_iter().find(|(_, is_given)| *is_given) {
            return refuse(
                setting,
                "it names topics by number, and K is to be found".into(),
                "give K, or leave it out",
            );
        }
    }
    if inputs.word_prior.is_some() && !inputs.seed_words.is_empty() {
        let problem = "pseudo-counts of words are given too".into();
        return refuse("seed-words", problem, "put the pull of seed words into them");
    }
    Ok(())
}

/// Samplers of all tokens know one prior for all words, and count the tokens they have and no others.
pub(super) fn check_method(config: &TopicsConfig, inputs: &TopicInputs<'_>) -> Result<()> {
    let refuse = |setting: &'static str, problem: &str, remedy: &str| {
        let problem = format!("{} {problem}", config.method.name());
        Err(Error::Config { setting, problem, remedy: remedy.into() })
    };
    if !config.method.samples_tokens() {
        return Ok(());
    }
    if inputs.seed_words.iter().any(|list| !list.is_empty()) {
        return refuse("seed-words", "has no seed words", "leave them out, or choose `method lsparse`");
    }
    if inputs.start.is_some() && config.history == History::Keep {
        let remedy = "give `history replace`: the new documents take the place of the old";
        return refuse("history", "cannot keep the counts of documents that it does not have", remedy);
    }
    Ok(())
}

/// Counts are finite and not negative, whole where tokens are sampled, and some are there: so many.
pub(crate) fn check_counts(corpus: &dyn RowSource, whole: bool) -> Result<usize> {
    match scan_counts(corpus, whole)?.finish().nonzeros {
        0 => Err(Error::EmptyCorpus { name: corpus.name().into() }),
        entries => Ok(entries as usize),
    }
}

/// The moments of documents that are a part of the data, every count checked.
pub(crate) fn scan_counts(corpus: &dyn RowSource, whole: bool) -> Result<PartialMoments> {
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
    scan_part(corpus, Element::F32, false, Some(&check))
}

/// Where K is found, it is found from that of a model to go on from.
pub(super) fn check_most(config: &TopicsConfig, start: Option<&TopicModel>) -> Result<()> {
    match start.map(TopicModel::num_topics).filter(|&topics| config.find_k && topics > config.k_max()) {
        None => Ok(()),
        Some(topics) => {
            let problem = format!("the model to go on from has {topics} topics, and {} is the most", config.k_max());
            Err(Error::Config { setting: "k-max", problem, remedy: "give a larger one".into() })
        }
    }
}

pub(super) fn check_start(config: &TopicsConfig, source: &dyn RowSource, start: Option<&TopicModel>) -> Result<()> {
    let Some(start) = start else { return Ok(()) };
    if start.num_topics() != config.topics {
        let problem = format!("the model to go on from has {} topics", start.num_topics());
        return Err(Error::Config {
            setting: "topics",
            problem,
            remedy: format!("give `topics {}`", start.num_topics()),
        });
    }
    if start.vocab_size() != source.dim() {
        let (name, model, data) = (source.name().into(), start.vocab_size(), source.dim());
        return Err(Error::DimensionMismatch { name, model, data });
    }
    Ok(())
}
