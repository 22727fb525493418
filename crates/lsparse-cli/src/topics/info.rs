//! `lsparse info` of a topic model: what it is, how it was trained, its most common topics.

use lsparse::allocation::AlphaRule;
use lsparse::settings::TopicsConfig;
use lsparse::topics::TopicModel;
use lsparse::training::rules::count_empty;
use lsparse::{Error, Result};
use serde::Serialize;

use super::{by_share, top_words};
use crate::format::{grouped, significant};
use crate::info::{InfoArgs, Trained, setting};
use crate::output;

/// Words that a topic is shown by.
const TOP_WORDS: usize = 8;

/// A topic in a few words.
#[derive(Serialize)]
struct TopicNote<'a> {
    topic: usize,
    share: f64,
    count: f64,
    alpha: f32,
    top_words: Vec<&'a str>,
}

#[derive(Serialize)]
struct Info<'a> {
    kind: &'static str,
    topics: usize,
    empty_topics: usize,
    vocabulary: usize,
    documents: usize,
    tokens: f64,
    #[serde(flatten)]
    trained: Trained,
    alpha: f64,
    tokenizer: &'a Option<serde_json::Value>,
    config: &'a TopicsConfig,
    largest: Vec<TopicNote<'a>>,
}

pub fn run(args: &InfoArgs, model: &TopicModel) -> Result<()> {
    if args.data.is_some() {
        let problem = "documents are no examples of clusters".into();
        let remedy = "leave the data out; lsparse topics MODEL --corpus DATA names documents of each topic".into();
        return Err(Error::Config { setting: "DATA", problem, remedy });
    }
    let info = describe(model, args.top);
    if args.json {
        return output::print_json(&info);
    }
    output::print(&text(&args.model.display().to_string(), &info))
}

fn describe(model: &TopicModel, top: usize) -> Info<'_> {
    let training = &model.training;
    let note = |&(topic, share): &(usize, f64)| TopicNote {
        topic,
        share,
        count: model.total.counts[topic],
        alpha: model.alpha[topic],
        top_words: top_words(model, topic, TOP_WORDS),
    };
    Info {
        kind: "topics",
        topics: model.num_topics(),
        empty_topics: count_empty(&model.total.counts),
        vocabulary: model.vocab_size(),
        documents: training.observations,
        tokens: model.total.counts.iter().sum(),
        trained: Trained::of(training),
        alpha: model.alpha.iter().map(|&alpha| f64::from(alpha)).sum(),
        tokenizer: &model.tokenizer,
        config: &model.config,
        largest: by_share(model).iter().take(top).map(note).collect(),
    }
}

fn text(name: &str, info: &Info<'_>) -> String {
    let config = info.config;
    let mut text = format!("{name}: {} topics over {} words", info.topics, grouped(info.vocabulary));
    text += &format!(", {} of them empty\n", info.empty_topics);
    text += &format!("  sparsity    L = {} of K = {}\n", config.sparsity.within(info.topics), info.topics);
    let learned = match config.learn_alpha {
        AlphaRule::Fixed => "",
        AlphaRule::Symmetric => " (learned)",
        AlphaRule::Asymmetric => " (learned, one number a topic)",
        AlphaRule::Direction => " (as given, its share a topic learned)",
        AlphaRule::Stick if config.find_k => " (shared out by a stick; K found while training)",
        AlphaRule::Stick => " (shared out by a stick)",
    };
    let estimate = setting(&config.estimate);
    let alpha = significant(info.alpha, 4);
    if config.method.name() != "lsparse" {
        text += &format!("  method      {}\n", config.method.name());
    }
    text += &format!("  estimate    {estimate}, alpha {alpha} in total{learned}, lambda {}\n", config.lambda);
    let documents = format!("{} documents", grouped(info.documents));
    text += &info.trained.line(&config.schedule, &documents, config.batches, config.seed);
    text += &format!("  counts      {} tokens\n", grouped(info.tokens.round() as usize));
    text += match info.tokenizer {
        Some(_) => "  words       made from text; raw text can be scored and assigned\n",
        None => "  words       from counts; raw text is cut into plain words\n",
    };
    text += &info.trained.merging("topics");
    text += &info.trained.objective();
    if !info.largest.is_empty() {
        text += "\nmost common topics (topics count from 0)\n  topic    share  words\n";
    }
    for note in &info.largest {
        text += &format!("  {:>5}  {:>5.2} %  {}\n", note.topic, 100.0 * note.share, note.top_words.join(" "));
    }
    text
}
