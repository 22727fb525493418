//! `lsparse corpus info`: what is in a corpus.

use std::path::PathBuf;

use clap::Args;
use lsparse::Result;
use lsparse::corpus::{Corpus, CorpusStats, Spread, corpus_stats};

use super::watch::TaskProgress;
use crate::format::{grouped, table};
use crate::output;

/// What is in a corpus.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES:
  lsparse corpus info corpus
  lsparse corpus info corpus --top 50 --json")]
pub struct InfoArgs {
    /// A corpus folder.
    #[arg(value_name = "CORPUS")]
    pub corpus: PathBuf,
    /// How many of the most common words and longest documents to show.
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub top: usize,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

pub fn run(args: &InfoArgs) -> Result<()> {
    let corpus = Corpus::open(&args.corpus)?;
    let mut progress = TaskProgress::new(false);
    let stats = corpus_stats(&corpus, args.top, &mut |at| progress.at(at))?;
    drop(progress);
    if args.json {
        return output::print_json(&stats);
    }
    output::print(&text(&args.corpus.display().to_string(), &corpus, &stats))
}

fn text(name: &str, corpus: &Corpus, stats: &CorpusStats) -> String {
    let number = |count: u64| grouped(count as usize);
    let spread = |spread: &Spread| {
        format!("{:.1} on average, median {}, most {}", spread.mean, number(spread.median), number(spread.max))
    };
    let mut text = format!("{name}: a corpus of {} documents\n", grouped(stats.documents));
    text += &format!("  vocabulary  {} words", grouped(stats.vocabulary));
    text += &match stats.unused_words {
        0 => "\n".to_owned(),
        unused => format!(", {} of them in no document\n", grouped(unused)),
    };
    text += &format!("  tokens      {}, {} a document\n", number(stats.tokens), spread(&stats.tokens_per_document));
    text += &format!("  types       {} a document\n", spread(&stats.types_per_document));
    text += &format!("  empty       {} documents\n", grouped(stats.empty_documents));
    text += match corpus.tokenizer() {
        Some(_) => "  made from   text; new text can be treated alike\n",
        None => "  made from   counts\n",
    };
    if !stats.common_words.is_empty() {
        text += "\nmost common words\n";
        let rows: Vec<Vec<String>> = (stats.common_words.iter())
            .map(|word| vec![word.word.clone(), number(word.tokens), number(word.documents)])
            .collect();
        text += &table(&["word", "tokens", "documents"], &rows);
    }
    if !stats.longest_documents.is_empty() {
        text += "\nlongest documents\n";
        let rows: Vec<Vec<String>> = (stats.longest_documents.iter())
            .map(|doc| vec![shorten(&doc.id), number(doc.tokens), number(doc.types)])
            .collect();
        text += &table(&["document", "tokens", "types"], &rows);
    }
    text
}

fn shorten(id: &str) -> String {
    let mut short: String = id.chars().take(60).collect();
    if short.len() < id.len() {
        short.push_str("...");
    }
    short
}
