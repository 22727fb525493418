//! `lsparse similar`: the documents whose topics are nearest to those of one document.

use std::path::PathBuf;

use clap::Args;
use lsparse::backend::with_threads;
use lsparse::corpus::Corpus;
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
  lsparse similar topics.safetensors corpus --doc 17            # by number, from 1
  lsparse similar topics.safetensors articles/ --doc physics/light.txt --top 20
  lsparse similar topics.safetensors posts.jsonl --field body --id-field url --doc URL --json")]
pub struct SimilarArgs {
    /// A topic model.
    #[arg(value_name = "MODEL")]
    pub model: PathBuf,
    /// The documents, which a model does not hold: a corpus folder or raw text.
    #[arg(value_name = "CORPUS")]
    pub corpus: Option<PathBuf>,
    /// The document to compare with, by name (a line of ids.txt, a path in a folder) or by number from 1.
    #[arg(long, value_name = "ID")]
    pub doc: String,
    /// How many documents to show.
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub top: usize,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    /// Threads; the result is the same with any number [default: one a core].
    #[arg(long, value_name = "N", value_parser = parse::threads)]
    pub threads: Option<usize>,
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
    let path = args.corpus.as_deref().ok_or_else(|| Error::Config {
        setting: "CORPUS",
        problem: "a model holds topics and words, but no documents to compare".to_owned(),
        remedy: format!(
            "name the corpus or text they are in: lsparse similar {} CORPUS --doc {}",
            args.model.display(),
            args.doc
        ),
    })?;
    let documents = args.text.open(path, &model, None)?;
    let corpus = documents.corpus();
    let refuse = |problem: String, remedy: &str| Error::Config { setting: "doc", problem, remedy: remedy.to_owned() };
    let query = find(corpus, &args.doc)?;
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
        document: corpus.id(query)?.to_owned(),
        topics: parts(&all[query]),
        similar: distances.iter().map(neighbour).collect::<Result<_>>()?,
    };
    if args.json { output::print_json(&found) } else { output::print(&text(&model, &found, all.len())) }
}

/// The document with a name, or with a number from 1.
fn find(corpus: &Corpus, doc: &str) -> Result<usize> {
    let ids = corpus.ids()?;
    let same = ids.iter().filter(|id| *id == doc).count();
    if same > 1 {
        output::note(&format!("{} documents of {} are called {doc:?}; the first is taken", same, corpus.name()));
    }
    if let Some(found) = corpus.find(doc)? {
        return Ok(found);
    }
    let numbered = doc.parse::<usize>().ok().filter(|number| (1..=ids.len()).contains(number));
    if let Some(number) = numbered {
        return Ok(number - 1);
    }
    let lower = doc.to_lowercase();
    let like: Vec<String> = (ids.iter().filter(|id| !lower.is_empty() && id.to_lowercase().contains(&lower)))
        .take(3)
        .map(|id| format!("{id:?}"))
        .collect();
    let first = format!("{:?}", ids.get(0).unwrap_or_default());
    let names = if like.is_empty() { first } else { like.join(", ") };
    Err(Error::Config {
        setting: "doc",
        problem: format!("{} has no document {doc:?}", corpus.name()),
        remedy: format!("give a name such as {names}, or a number from 1 to {}", grouped(ids.len())),
    })
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
        let parts = parts.iter().filter(|part| part.share >= 0.01).take(SHOWN_TOPICS);
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
