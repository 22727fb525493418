//! `lsparse explore`: one page that shows the topics of a model, to be opened in a browser.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use lsparse::backend::with_threads;
use lsparse::corpus::{Corpus, read_texts};
use lsparse::data::AtomicFile;
use lsparse::topics::{TopicModel, read_topic_names};
use lsparse::{Error, Result};
use lsparse_page::explore::{PageOptions, PageReport, Reading, topics_page};
use serde::Serialize;

use crate::format::grouped;
use crate::stdin::Input;
use crate::topics::TextArgs;
use crate::{interrupt, output, parse};

/// One page that shows the topics of a model: a map, a table, words, documents.
///
/// The page is a single file that opens in a browser from a disk and makes no request to anywhere. Topics lie near each other
/// on its map by the Hellinger distance of their words. With documents it has coherences, the documents that show a topic
/// best, and the topic of every word of them; of raw text it has the text itself, of a corpus folder the counts of words. Of
/// more documents than it can hold a sample is taken, and the page says so.
///
/// Names that are given to topics in the page are saved from it as a file, which `--names` reads again here and in `topics`
/// and `assign`.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES:
  lsparse explore topics.safetensors --out page.html
  lsparse explore topics.safetensors articles/ --out page.html            # with the texts of documents
  lsparse explore topics.safetensors corpus --names names.csv --out page.html
  lsparse explore topics.safetensors posts.jsonl --field body --id-field url --documents 3000 --out page.html")]
pub struct ExploreArgs {
    /// A topic model.
    #[arg(value_name = "MODEL")]
    pub model: PathBuf,
    /// Documents to show topics by: raw text or a corpus folder.
    #[arg(value_name = "CORPUS")]
    pub corpus: Option<PathBuf>,
    /// Write the page here (.html).
    #[arg(long, short, value_name = "FILE")]
    pub out: PathBuf,
    /// Names of topics: CSV with the columns topic and name, as the page saves it.
    #[arg(long, value_name = "FILE")]
    pub names: Option<PathBuf>,
    /// What the page is called [default: the name of the model].
    #[arg(long, value_name = "TEXT")]
    pub title: Option<String>,
    /// How many documents the page has at most.
    #[arg(long, value_name = "N", default_value_t = 1000, requires = "corpus")]
    pub documents: usize,
    /// Seed of the map.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
    /// Print what was written as JSON.
    #[arg(long)]
    pub json: bool,
    /// Print nothing but results.
    #[arg(long, short)]
    pub quiet: bool,
    /// Threads, 0 for one a core; the page is the same with any number.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = parse::threads)]
    pub threads: usize,
    #[command(flatten)]
    pub text: TextArgs,
}

/// What was written, as JSON.
#[derive(Serialize)]
struct Written<'a> {
    out: &'a Path,
    #[serde(flatten)]
    report: PageReport,
}

pub fn run(args: &ExploreArgs) -> Result<()> {
    with_threads(args.threads, || explore(args))?
}

fn explore(args: &ExploreArgs) -> Result<()> {
    output::check_extension("out", &args.out, &["html", "htm"])?;
    let inputs = [Some(&args.model), args.corpus.as_ref(), args.names.as_ref()];
    let inputs: Vec<&Path> = inputs.into_iter().flatten().map(AsRef::as_ref).collect();
    output::check_not_input("out", &args.out, &inputs)?;
    output::check_writable(&args.out)?;
    let model = TopicModel::load(&args.model)?;
    let names = args.names.as_deref().map(|path| read_topic_names(path, model.num_topics())).transpose()?;
    let name = args.model.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let options = PageOptions {
        title: args.title.clone().unwrap_or(name),
        names: names.unwrap_or_default(),
        documents: args.documents,
        seed: args.seed,
    };
    let (page, report) = match &args.corpus {
        Some(path) => with_documents(args, path, &model, &options)?,
        None => topics_page(&model, None, &options)?,
    };
    let mut file = AtomicFile::create(&args.out)?;
    let failed = |source| Error::Unwritable { path: args.out.clone(), source };
    file.write_all(page.as_bytes()).map_err(failed)?;
    file.finish()?;
    if args.json {
        return output::print_json(&Written { out: &args.out, report });
    }
    if !args.quiet {
        output::message(&said(&args.out, &report));
    }
    Ok(())
}

fn with_documents(
    args: &ExploreArgs,
    path: &Path,
    model: &TopicModel,
    options: &PageOptions,
) -> Result<(String, PageReport)> {
    let input = Input::open(path, "")?;
    let documents = args.text.open_input(&input, model, None)?;
    let (format, how) = (args.text.format, args.text.options(None));
    let texts =
        |wanted: &[usize]| read_texts(input.path(), format, &how, wanted, &mut |_| interrupt::check("reading text"));
    let reading = Reading {
        rows: &documents,
        name: &|n| documents.corpus().id(n).map(str::to_owned),
        texts: if Corpus::is_corpus(input.path()) { None } else { Some(&texts) },
    };
    topics_page(model, Some(&reading), options)
}

fn said(out: &Path, report: &PageReport) -> String {
    let mut text = format!("{}: {} topics", out.display(), grouped(report.topics));
    if report.documents > 0 {
        text += &format!(", {} of {} documents", grouped(report.documents_shown), grouped(report.documents));
    }
    if report.documents_looked_at < report.documents {
        text += &format!(" (chosen from a sample of {})", grouped(report.documents_looked_at));
    }
    text + &format!(", {:.1} MB; open it in a browser", report.bytes as f64 / 1e6)
}
