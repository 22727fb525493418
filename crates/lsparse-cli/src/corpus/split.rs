//! `lsparse corpus split`: cut a corpus into documents to train on, to choose settings by, and to test on.

use std::path::{Path, PathBuf};

use clap::Args;
use lsparse::Result;
use lsparse::corpus::{Corpus, Part, draw_parts, read_parts, split};
use serde::Serialize;

use super::watch::TaskProgress;
use crate::format::grouped;
use crate::output::{self, message};
use crate::parse;

/// Cut a corpus into documents to train on, to choose settings by, and to test on.
///
/// Writes FOLDER/train, FOLDER/val and FOLDER/test, corpora with the same vocabulary and the order that the documents
/// had. A part with a share of 0, or that no line of --file names, is not written.
#[derive(Args, Debug)]
#[command(
    allow_negative_numbers = true,
    after_help = "\
EXAMPLES:
  lsparse corpus split corpus --out parts                           80, 10 and 10 percent
  lsparse corpus split corpus --val 0 --test 0.2 --seed 3 --out parts
  lsparse corpus split corpus --file split.txt --out parts          train, val or test on each line"
)]
pub struct SplitArgs {
    /// A corpus folder.
    #[arg(value_name = "CORPUS")]
    pub corpus: PathBuf,
    /// Write the parts to this folder.
    #[arg(long, short, value_name = "FOLDER")]
    pub out: PathBuf,
    /// Share of the documents to choose settings by.
    #[arg(long, value_name = "SHARE", default_value_t = 0.1, value_parser = parse::number)]
    pub val: f64,
    /// Share of the documents to test on.
    #[arg(long, value_name = "SHARE", default_value_t = 0.1, value_parser = parse::number)]
    pub test: f64,
    /// Seed of the draw.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
    /// A file with train, val or test on a line for each document, instead of a draw.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["val", "test", "seed"])]
    pub file: Option<PathBuf>,
    /// Replace parts that are there already; what else is in their folders stays.
    #[arg(long)]
    pub force: bool,
    /// Print how many documents went where as JSON.
    #[arg(long)]
    pub json: bool,
    /// Print nothing but errors (and what --json asks for).
    #[arg(long, short)]
    pub quiet: bool,
}

/// How many documents went where, as JSON.
#[derive(Serialize)]
struct Note<'a> {
    train: usize,
    val: usize,
    test: usize,
    out: &'a Path,
}

pub fn run(args: &SplitArgs) -> Result<()> {
    output::check_named(&args.out, "folder")?;
    let corpus = Corpus::open(&args.corpus)?;
    let parts = match &args.file {
        Some(file) => read_parts(file, corpus.num_docs())?,
        None => draw_parts(corpus.num_docs(), args.val, args.test, args.seed)?,
    };
    let mut progress = TaskProgress::new(args.quiet);
    let num_docs = split(&corpus, &parts, &args.out, args.force, &mut |at| progress.at(at))?;
    drop(progress);
    if !args.quiet {
        let list: Vec<String> = (Part::ALL.iter().zip(num_docs))
            .filter(|(_, count)| *count > 0)
            .map(|(part, count)| format!("{} in {}", grouped(count), part.name()))
            .collect();
        message(&format!("{}: documents: {}", args.out.display(), list.join(", ")));
    }
    if args.json {
        let [train, val, test] = num_docs;
        output::print_json(&Note { train, val, test, out: &args.out })?;
    }
    Ok(())
}
