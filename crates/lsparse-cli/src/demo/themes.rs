//! Last part of the demonstration: documents about themes that are known, and the topics that training finds.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use lsparse::corpus::TokenizerConfig;
use lsparse::data::RowSource;
use lsparse::settings::TopicsConfig;
use lsparse::synthetic::{ThemedCorpus, themed_corpus};
use lsparse::topics::coherence::{Coherence, coherence};
use lsparse::topics::{TopicInputs, TopicModel, fit_topics_with};
use lsparse::{Beside, Result};
use serde::Serialize;

use super::DemoArgs;
use crate::format::{duration, grouped, rate, significant};
use crate::interrupt;
use crate::progress::{Plan, TrainingProgress};
use crate::topics::top_words;

/// Topics to train: some more than there are themes, for the common words and for themes that are found in parts.
const TOPICS: usize = 30;
/// Words that a theme and a topic are shown and compared by.
const WORDS: usize = 6;
const COMPARED: usize = 10;

/// How well the themes were found.
#[derive(Serialize)]
pub struct Results {
    documents: usize,
    themes: usize,
    themes_found: usize,
    topics: usize,
    heldout: f64,
    perplexity: f64,
    npmi: Option<f64>,
    seconds: f64,
    model: PathBuf,
}

pub fn run(args: &DemoArgs, path: &Path) -> Result<Results> {
    let num_docs = args.rows as usize / 5;
    let num_heldout = num_docs / 10;
    let truth = themed_corpus(num_docs + num_heldout, args.seed);
    let train = truth.rows("documents about themes", 0..num_docs)?;
    let heldout = truth.rows("held-out documents", num_docs..num_docs + num_heldout)?;
    args.say(&format!(
        "Topics: {} documents drawn from {} known themes of {} words, 1 to 3 themes each, {} more held out; K = {TOPICS}\n",
        grouped(num_docs),
        truth.names.len(),
        grouped(truth.vocab.len()),
        grouped(num_heldout),
    ))?;
    let config =
        TopicsConfig { topics: TOPICS, batches: Some(4), laps: Some(20), seed: args.seed, ..Default::default() };
    let config = config.check(train.num_rows())?;
    let mut progress = TrainingProgress::new(args.quiet, "themes  ", Plan::new(&config.plan(), "documents", "token"));
    let fitted = fit_topics_with(
        &train,
        &config,
        TopicInputs {
            vocab: Some(&truth.vocab),
            heldout: Some(&heldout),
            tokenizer: serde_json::to_value(TokenizerConfig::default()).ok(),
            ..Default::default()
        },
        Beside { observer: Some(&mut progress), interrupt: Some(interrupt::listen(args.quiet)), ..Default::default() },
    )?;
    drop(progress);
    let model = &fitted.model;
    let matches = match_themes(&truth, model);
    let mut text = String::new();
    text += &side_by_side(&truth, model, &matches);
    let found = matches.iter().filter(|found| found.is_found()).count();
    let score = fitted.outcome.heldout.unwrap_or(f64::NAN);
    let lists: Vec<Vec<u32>> =
        (0..TOPICS).map(|k| model.top_words(k, COMPARED).into_iter().map(|word| word.0).collect()).collect();
    let npmi = Coherence::mean(&coherence(&lists, &train)?).map(|mean| mean.npmi);
    text += &format!(
        "   {found} of {} themes found (at least half of the {COMPARED} top words), in {} at {} documents/s\n",
        truth.names.len(),
        duration(fitted.outcome.seconds),
        rate(fitted.outcome.rows_per_second),
    );
    text += &format!(
        "   held-out log probability a token {}, perplexity {} of {} words; coherence (NPMI) {}\n",
        significant(score, 5),
        significant((-score).exp(), 4),
        grouped(truth.vocab.len()),
        npmi.map_or("unknown".to_owned(), |npmi| significant(npmi, 3)),
    );
    model.save_to(path)?;
    let out = path.display();
    text += &format!(
        "\nThe topics are in {out}. Next:\n\
         \x20 lsparse topics {out}\n\
         \x20 lsparse assign {out} YOUR-TEXT.txt\n\
         \x20 lsparse corpus build FOLDER-OF-TEXT --out corpus\n\
         \x20 lsparse fit topics corpus -k 50 --out topics.safetensors\n"
    );
    args.say(&text)?;
    Ok(Results {
        documents: num_docs,
        themes: truth.names.len(),
        themes_found: found,
        topics: TOPICS,
        heldout: score,
        perplexity: (-score).exp(),
        npmi,
        seconds: fitted.outcome.seconds,
        model: path.to_owned(),
    })
}

/// A theme and the topic that is most like it.
struct Match {
    topic: usize,
    /// Top words that the two share.
    shared: usize,
}

impl Match {
    fn is_found(&self) -> bool {
        2 * self.shared >= COMPARED
    }
}

/// For each theme the topic that shares most of the top words, and of equal ones that with the largest overlap.
fn match_themes(truth: &ThemedCorpus, model: &TopicModel) -> Vec<Match> {
    let tops: Vec<Vec<u32>> = (0..model.num_topics())
        .map(|k| model.top_words(k, COMPARED).into_iter().map(|word| word.0).collect())
        .collect();
    let best_of = |theme: &Vec<(u32, f64)>| {
        let words: HashSet<u32> = theme.iter().take(COMPARED).map(|word| word.0).collect();
        let shared = |k: usize| tops[k].iter().filter(|word| words.contains(word)).count();
        let overlap = |k: usize| -> f64 {
            theme.iter().map(|&(word, p)| p.min(f64::from(model.table.row(word as usize)[k]))).sum()
        };
        let better = |&a: &usize, &b: &usize| shared(a).cmp(&shared(b)).then(overlap(a).total_cmp(&overlap(b)));
        let topic = (0..model.num_topics()).max_by(better).unwrap_or(0);
        Match { topic, shared: shared(topic) }
    };
    truth.themes.iter().map(best_of).collect()
}

/// Themes and topics next to each other, words aligned to the left.
fn side_by_side(truth: &ThemedCorpus, model: &TopicModel, matches: &[Match]) -> String {
    let rows = matches.iter().enumerate().map(|(theme, found)| {
        let words = truth.themes[theme].iter().take(WORDS);
        let words: Vec<&str> = words.map(|word| truth.vocab[word.0 as usize].as_str()).collect();
        let shared = format!("{}/{COMPARED}", found.shared);
        let topic = found.topic.to_string();
        [truth.names[theme].to_owned(), words.join(" "), topic, top_words(model, found.topic, WORDS).join(" "), shared]
    });
    let header = ["theme", "true words", "topic", "found words", "shared"].map(str::to_owned);
    let rows: Vec<[String; 5]> = std::iter::once(header).chain(rows).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..5).map(width).collect();
    let mut text = "\n".to_owned();
    for row in &rows {
        let cells: String = row.iter().zip(&widths).map(|(cell, width)| format!("  {cell:<width$}")).collect();
        text += cells.trim_end();
        text += "\n";
    }
    text
}
