//! `lsparse topics`: each topic with its share, its top words, and documents that it has most of.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use lsparse::backend::with_threads;
use lsparse::topics::TopicModel;
use lsparse::{Error, Result};
use serde::Serialize;

use super::{TextArgs, by_share};
use crate::format::grouped;
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
/// names those that have the largest share of it, of equal ones the longest.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES:
  lsparse topics topics.safetensors
  lsparse topics topics.safetensors --top 20 --by relevance
  lsparse topics topics.safetensors --corpus corpus --examples 3
  lsparse topics topics.safetensors --json | jq '.topics[0]'")]
pub struct TopicsListArgs {
    /// A topic model.
    #[arg(value_name = "MODEL")]
    pub model: PathBuf,
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
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    /// Threads, 0 for one a core; the result is the same with any number.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = parse::threads)]
    pub threads: usize,
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

#[derive(Serialize)]
struct Topic<'a> {
    topic: usize,
    share: f64,
    words: Vec<Word<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    examples: Option<Vec<Example>>,
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
        return Err(Error::Config { option: "relevance", problem: problem.into(), remedy: remedy.into() });
    }
    let model = TopicModel::load(&args.model)?;
    let ranked = ranked_words(&model, args);
    let examples = args.corpus.is_some().then(|| examples(&model, args)).transpose()?;
    let topic = |(k, share): (usize, f64)| Topic {
        topic: k,
        share,
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
        topics: by_share(&model).into_iter().map(topic).collect(),
    };
    if args.json {
        return output::print_json(&listing);
    }
    let mut text = format!(
        "{}: {} topics over {} words, the most common first\n\n",
        args.model.display(),
        model.num_topics(),
        grouped(listing.vocabulary),
    );
    text += "  topic    share  words\n";
    for topic in &listing.topics {
        let words: Vec<&str> = topic.words.iter().map(|word| word.word).collect();
        text += &format!("  {:>5}  {:>5.2} %  {}\n", topic.topic, 100.0 * topic.share, words.join(" "));
        for example in topic.examples.iter().flatten() {
            text += &format!("                  {:.0} % of {}\n", 100.0 * example.share, example.document);
        }
    }
    output::print(&text)
}

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
    let lengths = documents.lengths()?;
    let mut best: Vec<Vec<(f32, f32, usize)>> = vec![Vec::new(); model.num_topics()];
    model.assign(&documents, &mut |n, shares| {
        for &(k, share) in shares {
            let list = &mut best[k as usize];
            let better = |other: &(f32, f32, usize)| (share, lengths[n]) > (other.0, other.1);
            let place = list.iter().position(better).unwrap_or(list.len());
            if place < args.examples {
                list.insert(place, (share, lengths[n], n));
                list.truncate(args.examples);
            }
        }
        Ok(())
    })?;
    let name = |&(share, _, n): &(f32, f32, usize)| {
        Ok(Example { document: documents.corpus().id(n)?.to_owned(), share: f64::from(share) })
    };
    best.iter().map(|list| list.iter().map(name).collect()).collect()
}
