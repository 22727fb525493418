//! `lsparse topics`: each topic with its share, its top words, and documents that it has most of.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use lsparse::backend::with_threads;
use lsparse::corpus::document_lengths;
use lsparse::data::AtomicFile;
use lsparse::topics::{TopicModel, read_topic_names};
use lsparse::{Error, Result};
use serde::Serialize;

use super::assign::csv_field;
use super::{TextArgs, by_share, top_words};
use crate::format::{grouped, significant, table};
use crate::output::stdout_failed;
use crate::{output, parse};

/// How words are ranked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RankBy {
    /// By their probability in the topic.
    Probability,
    /// Words that are the topic's own come first.
    Relevance,
}

/// Read the topics of a model: share, top words, example documents.
///
/// Topics come by their share of all words, the most common first, and count from 0. With documents, each topic also
/// names those that have the largest share of it, of equal ones the longest. Topics that are tiny, with less than a tenth
/// of the average share, and pairs that are nearly the same, by the cosine of their counts of words, are named at the end.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES:
  lsparse topics topics.safetensors
  lsparse topics topics.safetensors --top 20 --by relevance
  lsparse topics topics.safetensors --corpus corpus --examples 3
  lsparse topics topics.safetensors --topic 7 --top 30        # one topic, with the probabilities of its words
  lsparse topics topics.safetensors --out topics.csv          # a line for each word of each topic
  lsparse topics topics.safetensors --json | jq '.topics[0]'")]
pub struct TopicsListArgs {
    /// A topic model.
    #[arg(value_name = "MODEL")]
    pub model: PathBuf,
    /// Show this topic alone, from 0, with the probabilities of its words; may be given several times.
    #[arg(long, value_name = "N")]
    pub topic: Vec<usize>,
    /// How many words of each topic to show.
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub top: usize,
    /// How words are ranked [default: probability, or relevance if --relevance is given].
    #[arg(long, value_enum, value_name = "HOW")]
    pub by: Option<RankBy>,
    /// Weight of log p(word | topic) against log p(word | topic) / p(word), from 0 to 1 [default: 0.6].
    #[arg(long, value_name = "WEIGHT", value_parser = parse::share)]
    pub relevance: Option<f64>,
    /// Documents to take examples from: a corpus folder or raw text.
    #[arg(long, value_name = "CORPUS")]
    pub corpus: Option<PathBuf>,
    /// How many documents to name for each topic.
    #[arg(long, value_name = "N", default_value_t = 2, requires = "corpus")]
    pub examples: usize,
    /// Names of topics: CSV with the columns topic and name, as the page of lsparse explore saves it.
    #[arg(long, value_name = "FILE")]
    pub names: Option<PathBuf>,
    /// Write here (.csv with a line for each word, .json or .txt) [default: standard output].
    #[arg(long, short, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Print JSON: the topics, or with --out what was written.
    #[arg(long)]
    pub json: bool,
    /// Threads; the result is the same with any number [default: one a core].
    #[arg(long, value_name = "N", value_parser = parse::threads)]
    pub threads: Option<usize>,
    #[command(flatten)]
    pub text: TextArgs,
}

#[derive(Serialize)]
struct Word<'a> {
    word: &'a str,
    probability: f64,
}

#[derive(Clone, Serialize)]
struct Example {
    document: String,
    share: f64,
}

/// Another topic that is nearly the same.
#[derive(Clone, Serialize)]
struct Alike {
    topic: usize,
    cosine: f64,
}

#[derive(Serialize)]
struct Topic<'a> {
    topic: usize,
    /// What people call it.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    share: f64,
    tokens: f64,
    /// Less than a tenth of the average share.
    tiny: bool,
    /// Topics that are nearly the same.
    near_duplicates: Vec<Alike>,
    words: Vec<Word<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    examples: Option<Vec<Example>>,
}

/// What was written to a file, as JSON.
#[derive(Serialize)]
struct Written<'a> {
    topics: usize,
    out: &'a Path,
}

#[derive(Serialize)]
struct Listing<'a> {
    vocabulary: usize,
    documents: usize,
    topics: Vec<Topic<'a>>,
}

pub fn run(args: &TopicsListArgs) -> Result<()> {
    with_threads(args.threads, || list(args))?
}

fn list(args: &TopicsListArgs) -> Result<()> {
    if let (Some(RankBy::Probability), Some(_)) = (args.by, args.relevance) {
        let (problem, remedy) = ("words are ranked by probability", "leave it out, or give --by relevance");
        return Err(Error::Config { setting: "relevance", problem: problem.into(), remedy: remedy.into() });
    }
    let model = TopicModel::load(&args.model)?;
    if let Some(topic) = args.topic.iter().find(|&&topic| topic >= model.num_topics()) {
        let problem = format!("{topic} is asked for, the model has topics 0 to {}", model.num_topics() - 1);
        return Err(Error::Config { setting: "topic", problem, remedy: "choose one of them".into() });
    }
    let names = args.names.as_deref().map(|path| read_topic_names(path, model.num_topics())).transpose()?;
    let format = args.out.as_deref().map(|path| check_out(args, path)).transpose()?;
    let mut near: Vec<Vec<Alike>> = vec![Vec::new(); model.num_topics()];
    for (a, b, cosine) in model.alike(TopicModel::NEARLY_THE_SAME) {
        near[a].push(Alike { topic: b, cosine });
        near[b].push(Alike { topic: a, cosine });
    }
    let ranked = ranked_words(&model, args);
    let examples = args.corpus.is_some().then(|| examples(&model, args)).transpose()?;
    let topic = |(k, share): (usize, f64)| Topic {
        topic: k,
        name: names.as_ref().and_then(|names| names[k].as_deref()),
        share,
        tokens: model.total.counts[k],
        tiny: share * (model.num_topics() as f64) < TopicModel::TINY,
        near_duplicates: near[k].clone(),
        words: (ranked[k].iter())
            .map(|&(v, _)| Word {
                word: &model.vocab[v as usize],
                probability: f64::from(model.table.row(v as usize)[k]),
            })
            .collect(),
        examples: examples.as_ref().map(|examples| examples[k].clone()),
    };
    let listing = Listing {
        vocabulary: model.vocab_size(),
        documents: model.training.observations,
        topics: by_share(&model)
            .into_iter()
            .filter(|(k, _)| args.topic.is_empty() || args.topic.contains(k))
            .map(topic)
            .collect(),
    };
    let text = || match args.topic.is_empty() {
        true => overview(&args.model.display().to_string(), model.num_topics(), &listing),
        false => listing.topics.iter().map(|topic| in_detail(&model, topic)).collect::<Vec<_>>().join("\n"),
    };
    match (&args.out, format) {
        (Some(path), Some(format)) => {
            let content = match format {
                "csv" => csv(&listing, names.is_some()),
                "json" => serde_json::to_string_pretty(&listing).map_err(|e| stdout_failed(e.into()))? + "\n",
                _ => text(),
            };
            let mut file = AtomicFile::create(path)?;
            let failed = |source| Error::Unwritable { path: path.clone(), source };
            file.write_all(content.as_bytes()).map_err(failed)?;
            file.finish()?;
            if args.json { output::print_json(&Written { topics: listing.topics.len(), out: path }) } else { Ok(()) }
        }
        _ if args.json => output::print_json(&listing),
        _ => output::print(&text()),
    }
}

fn check_out(args: &TopicsListArgs, path: &Path) -> Result<&'static str> {
    let format = output::check_extension("out", path, &["csv", "json", "txt"])?;
    let inputs = [Some(&args.model), args.corpus.as_ref(), args.names.as_ref()];
    let inputs: Vec<&Path> = inputs.into_iter().flatten().map(AsRef::as_ref).collect();
    output::check_not_input("out", path, &inputs)?;
    output::check_writable(path)?;
    Ok(format)
}

/// A line for each topic, and what stands out among them.
fn overview(name: &str, num_topics: usize, listing: &Listing<'_>) -> String {
    let words = grouped(listing.vocabulary);
    let mut text = format!("{name}: {num_topics} topics over {words} words, the most common first\n\n");
    text += "  topic    share  words\n";
    for topic in &listing.topics {
        let words: Vec<&str> = topic.words.iter().map(|word| word.word).collect();
        let name = topic.name.map(|name| format!("{name}: ")).unwrap_or_default();
        text += &format!("  {:>5}  {:>5.2} %  {name}{}\n", topic.topic, 100.0 * topic.share, words.join(" "));
        for example in topic.examples.iter().flatten() {
            text += &format!("                  {:.0} % of {}\n", 100.0 * example.share, example.document);
        }
    }
    let tiny: Vec<String> = listing.topics.iter().filter(|topic| topic.tiny).map(|t| t.topic.to_string()).collect();
    if !tiny.is_empty() {
        text += &format!("\ntiny, with less than a tenth of the average share: {}\n", tiny.join(", "));
    }
    let pairs = listing.topics.iter().flat_map(|topic| {
        let later = topic.near_duplicates.iter().filter(|other| other.topic > topic.topic);
        later.map(|other| format!("{} and {} ({:.2})", topic.topic, other.topic, other.cosine))
    });
    let pairs: Vec<String> = pairs.collect();
    if !pairs.is_empty() {
        text += &format!("\nnearly the same, by the cosine of their words: {}\n", pairs.join(", "));
    }
    text
}

/// One topic: its words with their probabilities, and what stands out.
fn in_detail(model: &TopicModel, topic: &Topic<'_>) -> String {
    let mut text = format!(
        "topic {}{}: {:.2} % of all words, {} tokens, alpha {}\n",
        topic.topic,
        topic.name.map(|name| format!(", {name}")).unwrap_or_default(),
        100.0 * topic.share,
        grouped(topic.tokens.round() as usize),
        significant(f64::from(model.alpha[topic.topic]), 4),
    );
    if topic.tiny {
        text += "  tiny, with less than a tenth of the average share\n";
    }
    for other in &topic.near_duplicates {
        let words = top_words(model, other.topic, SHOWN_WORDS).join(" ");
        text += &format!("  nearly the same as topic {} (cosine {:.2}): {words}\n", other.topic, other.cosine);
    }
    let row = |word: &Word<'_>| vec![word.word.to_owned(), significant(word.probability, 3)];
    text += &table(&["word", "probability"], &topic.words.iter().map(row).collect::<Vec<_>>());
    for example in topic.examples.iter().flatten() {
        text += &format!("  {:.0} % of {}\n", 100.0 * example.share, example.document);
    }
    text
}

/// A line for each word of each topic, with names where there are such.
fn csv(listing: &Listing<'_>, named: bool) -> String {
    let mut text = String::from(if named { "topic,name," } else { "topic," }) + "share,rank,word,probability\n";
    for Topic { topic, name, share, words, .. } in &listing.topics {
        let name = if named { csv_field(name.unwrap_or_default()) + "," } else { String::new() };
        for (rank, Word { word, probability }) in words.iter().enumerate() {
            text += &format!("{topic},{name}{share},{},{},{probability}\n", rank + 1, csv_field(word));
        }
    }
    text
}

/// Words that a topic is named by.
const SHOWN_WORDS: usize = 6;

fn ranked_words(model: &TopicModel, args: &TopicsListArgs) -> Vec<Vec<(u32, f64)>> {
    let by = args.by.unwrap_or(match args.relevance {
        Some(_) => RankBy::Relevance,
        None => RankBy::Probability,
    });
    match by {
        RankBy::Relevance => model.all_relevant_words(args.top, args.relevance.unwrap_or(0.6)),
        RankBy::Probability => (0..model.num_topics()).map(|k| model.top_words(k, args.top)).collect(),
    }
}

/// For each topic the documents with the largest share of it, of equal ones the longest.
fn examples(model: &TopicModel, args: &TopicsListArgs) -> Result<Vec<Vec<Example>>> {
    let Some(path) = &args.corpus else { return Ok(Vec::new()) };
    let documents = args.text.open(path, model, None)?;
    let lengths = document_lengths(&documents)?;
    let mut best: Vec<Vec<(f32, f64, usize)>> = vec![Vec::new(); model.num_topics()];
    model.assign(&documents, &mut |n, shares| {
        for &(k, share) in shares {
            let list = &mut best[k as usize];
            let better = |other: &(f32, f64, usize)| (share, lengths[n]) > (other.0, other.1);
            let place = list.iter().position(better).unwrap_or(list.len());
            if place < args.examples {
                list.insert(place, (share, lengths[n], n));
                list.truncate(args.examples);
            }
        }
        Ok(())
    })?;
    let name = |&(share, _, n): &(f32, f64, usize)| {
        Ok(Example { document: documents.corpus().id(n)?.to_owned(), share: f64::from(share) })
    };
    best.iter().map(|list| list.iter().map(name).collect()).collect()
}
