//! `lsparse similar`: the documents whose topics are nearest to those of one document.

use std::path::PathBuf;

use clap::Args;
use lsparse::backend::with_threads;
use lsparse::data::RowSource;
use lsparse::topics::TopicModel;
use lsparse::{Error, Result};
use serde::Serialize;

use super::{TextArgs, top_words};
use crate::format::{grouped, table};
use crate::{output, parse};

/// Words that a topic is shown by.
const SHOWN_WORDS: usize = 6;

/// Topics shown for a neighbour.
const SHOWN_TOPICS: usize = 3;

/// The documents whose topics are nearest to those of one document.
///
/// Nearness is the Hellinger distance of the shares of topics: 0 for the same shares, 1 for no topic in common.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES:
  lsparse similar topics.safetensors corpus --doc 17
  lsparse similar topics.safetensors articles/ --doc physics/light.txt --top 20
  lsparse similar topics.safetensors posts.jsonl --field body --id-field url --doc https://... --json")]
pub struct SimilarArgs {
    /// A topic model.
    #[arg(value_name = "MODEL")]
    pub model: PathBuf,
    /// The documents: a corpus folder or raw text.
    #[arg(value_name = "CORPUS")]
    pub corpus: PathBuf,
    /// The name of the document to compare with: a line of ids.txt, a number of a line, a path in a folder.
    #[arg(long, value_name = "ID")]
    pub doc: String,
    /// How many documents to show.
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub top: usize,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    /// Threads, 0 for one a core; the result is the same with any number.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = parse::threads)]
    pub threads: usize,
    #[command(flatten)]
    pub text: TextArgs,
}

/// A topic of a document.
#[derive(Serialize)]
struct Part {
    topic: u32,
    share: f32,
}

#[derive(Serialize)]
struct Neighbour {
    document: String,
    distance: f64,
    topics: Vec<Part>,
}

#[derive(Serialize)]
struct Similar {
    document: String,
    topics: Vec<Part>,
    similar: Vec<Neighbour>,
}

pub fn run(args: &SimilarArgs) -> Result<()> {
    with_threads(args.threads, || similar(args))?
}

fn similar(args: &SimilarArgs) -> Result<()> {
    let model = TopicModel::load(&args.model)?;
    let documents = args.text.open(&args.corpus, &model, None)?;
    let corpus = documents.corpus();
    let refuse = |problem: String, remedy: &str| Error::Config { option: "doc", problem, remedy: remedy.to_owned() };
    let query = corpus.find(&args.doc)?.ok_or_else(|| {
        let (name, first) = (corpus.name(), corpus.id(0).unwrap_or_default());
        refuse(format!("{name} has no document {:?}", args.doc), &format!("give a name such as {first:?}"))
    })?;
    // All shares, since the document may come after those that it is compared with.
    let mut all: Vec<Vec<(u32, f32)>> = Vec::with_capacity(documents.num_rows());
    model.assign(&documents, &mut |_, shares| {
        all.push(shares.to_vec());
        Ok(())
    })?;
    if all[query].is_empty() {
        let problem = format!("{:?} has no words that the model knows", args.doc);
        return Err(refuse(problem, "choose another document"));
    }
    let mut dense = vec![0.0; model.num_topics()];
    all[query].iter().for_each(|&(k, share)| dense[k as usize] = f64::from(share));
    let others = (0..all.len()).filter(|&n| n != query && !all[n].is_empty());
    let mut distances: Vec<(f64, usize)> = others.map(|n| (hellinger(&dense, &all[n]), n)).collect();
    distances.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    distances.truncate(args.top);
    let neighbour = |&(distance, n): &(f64, usize)| {
        Ok(Neighbour { document: corpus.id(n)?.to_owned(), distance, topics: parts(&all[n]) })
    };
    let found = Similar {
        document: args.doc.clone(),
        topics: parts(&all[query]),
        similar: distances.iter().map(neighbour).collect::<Result<_>>()?,
    };
    if args.json { output::print_json(&found) } else { output::print(&text(&model, &found, all.len())) }
}

/// sqrt(1 - sum_k sqrt(p_k q_k))
fn hellinger(dense: &[f64], shares: &[(u32, f32)]) -> f64 {
    let overlap: f64 = shares.iter().map(|&(k, share)| (dense[k as usize] * f64::from(share)).sqrt()).sum();
    (1.0 - overlap).max(0.0).sqrt()
}

/// The topics of a document, the largest share first.
fn parts(shares: &[(u32, f32)]) -> Vec<Part> {
    let mut parts: Vec<Part> = shares.iter().map(|&(topic, share)| Part { topic, share }).collect();
    parts.sort_by(|a, b| b.share.total_cmp(&a.share).then(a.topic.cmp(&b.topic)));
    parts
}

fn text(model: &TopicModel, found: &Similar, count: usize) -> String {
    let mut text = format!("{}, one of {} documents\n", found.document, grouped(count));
    for part in found.topics.iter().filter(|part| part.share >= 0.01) {
        let words = top_words(model, part.topic as usize, SHOWN_WORDS).join(" ");
        text += &format!("  {:>3.0} % topic {:<4} {words}\n", 100.0 * part.share, part.topic);
    }
    let shown = |parts: &[Part]| {
        let parts = parts.iter().take(SHOWN_TOPICS);
        parts.map(|part| format!("{} ({:.0} %)", part.topic, 100.0 * part.share)).collect::<Vec<_>>().join(", ")
    };
    let row = |other: &Neighbour| vec![other.document.clone(), format!("{:.4}", other.distance), shown(&other.topics)];
    let rows: Vec<Vec<String>> = found.similar.iter().map(row).collect();
    text + "\n" + &table(&["document", "distance", "topics"], &rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_hellinger() {
        let query = [0.5, 0.5, 0.0];
        assert!(hellinger(&query, &[(0, 0.5), (1, 0.5)]) < 1e-7);
        assert_eq!(hellinger(&query, &[(2, 1.0)]), 1.0);
        assert!((hellinger(&query, &[(0, 1.0)]) - (1.0 - 0.5f64.sqrt()).sqrt()).abs() < 1e-12);
    }
}
