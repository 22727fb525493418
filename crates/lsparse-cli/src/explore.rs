//! `lsparse explore`: one page that shows a model, to be opened in a browser.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use lsparse::backend::with_threads;
use lsparse::corpus::{Corpus, Metadata, read_metadata, read_texts};
use lsparse::data::{AtomicFile, RowSource};
use lsparse::open::is_table;
use lsparse::topics::{TopicModel, read_names};
use lsparse::{AnyModel, Error, MixtureModel, Result, SequenceModel};
use lsparse_page::explore::{Judge, PageOptions, PageReport, Picture, Reading, RowsReport, clusters_page, topics_page};
use serde::Serialize;

use crate::data_args::DataArgs;
use crate::format::grouped;
use crate::group_args::GroupArgs;
use crate::stdin::Input;
use crate::topics::{TextArgs, refuse_given};
use crate::{interrupt, output, parse};

/// One page that shows a model: a map, a table, and what topics, clusters or states look like.
///
/// The page is a single file that opens in a browser from a disk and makes no request to anywhere. Topics lie near each other
/// on its map by the Hellinger distance of their words, clusters and states by their divergence. With documents it has
/// coherences, the documents that show a topic best, and the topic of every word of them; of raw text it has the text itself,
/// of a corpus folder the counts of words; what --keep of `corpus build` has kept is there as shares over time or by value.
/// With rows it shows how sure they are of their clusters, how much of it L captures, and which rows are typical, doubtful
/// and unlikely; of sequences also states over time and transitions. Of more documents or rows than it can hold a sample is
/// taken, and the page says so.
///
/// Names that are given in the page are saved from it as a file, which `--names` reads again here, those of topics also in
/// `topics` and `assign`.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES:
  lsparse explore topics.safetensors --out page.html
  lsparse explore topics.safetensors articles/ --out page.html            # with the texts of documents
  lsparse explore topics.safetensors corpus --names names.csv --out page.html
  lsparse explore topics.safetensors posts.jsonl --field body --id-field url --keep year --out page.html
  lsparse explore mixture.safetensors data.csv --out page.html            # clusters, and rows that show them
  lsparse explore mixture.safetensors data.csv --keep year --out page.html    # and how large they are by a column
  lsparse explore patches.safetensors images/ --out page.html             # as pictures
  lsparse explore digits.safetensors digits.npy --picture 28x28 --out page.html
  lsparse explore h.safetensors data.npy --groups lengths.npy --out page.html")]
pub struct ExploreArgs {
    /// A model.
    #[arg(value_name = "MODEL")]
    pub model: PathBuf,
    /// Documents to show topics by, raw text or a corpus folder; or rows to show clusters by, in any format that training
    /// reads; - for standard input.
    #[arg(value_name = "DATA")]
    pub data: Option<PathBuf>,
    /// Write the page here (.html).
    #[arg(long, short, value_name = "FILE")]
    pub out: PathBuf,
    /// Names: CSV with the columns topic (or cluster, or state) and name, as the page saves it.
    #[arg(long, value_name = "FILE")]
    pub names: Option<PathBuf>,
    /// What the page is called [default: the name of the model].
    #[arg(long, value_name = "TEXT")]
    pub title: Option<String>,
    /// How many documents or rows the page has at most.
    #[arg(long, value_name = "N", default_value_t = 1000, requires = "data", visible_alias = "rows")]
    pub documents: usize,
    /// Show shares by this field of JSON objects or column of CSV, which is no data unless the model has a column of that
    /// name, or this one of those that the corpus folder has; may be given several times [default: all of a corpus folder].
    #[arg(long, value_name = "NAME", requires = "data")]
    pub keep: Vec<String>,
    /// Rows are pictures of this height and width, with x3 behind it in colour, such as 28x28 [default: as patches of images
    /// are cut].
    #[arg(long, value_name = "HxW", value_parser = Picture::parse)]
    pub picture: Option<Picture>,
    /// Rows may have missing values, and sequences missing steps, whichever way the model was trained.
    #[arg(long)]
    pub missing: bool,
    /// Seed of the map.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
    /// Print what was written as JSON.
    #[arg(long)]
    pub json: bool,
    /// Print nothing but results.
    #[arg(long, short)]
    pub quiet: bool,
    /// Threads; the page is the same with any number [default: one a core].
    #[arg(long, value_name = "N", value_parser = parse::threads)]
    pub threads: Option<usize>,
    #[command(flatten)]
    pub reading: DataArgs,
    #[command(flatten)]
    pub groups: GroupArgs,
    #[command(flatten)]
    pub text: TextArgs,
}

/// What was written, as JSON.
#[derive(Serialize)]
struct Written<'a> {
    out: &'a Path,
    #[serde(flatten)]
    report: Report,
}

/// What a page has, by what it is of.
#[derive(Serialize)]
#[serde(untagged)]
enum Report {
    Topics(PageReport),
    Clusters(RowsReport),
    States(RowsReport),
}

pub fn run(args: &ExploreArgs) -> Result<()> {
    with_threads(args.threads, || explore(args))?
}

fn explore(args: &ExploreArgs) -> Result<()> {
    output::check_extension("out", &args.out, &["html", "htm"])?;
    let inputs = [Some(&args.model), args.data.as_ref(), args.names.as_ref()];
    let inputs: Vec<&Path> = inputs.into_iter().flatten().map(AsRef::as_ref).collect();
    output::check_not_input("out", &args.out, &inputs)?;
    output::check_writable(&args.out)?;
    let model = AnyModel::load(&args.model)?;
    let (num, what) = match &model {
        AnyModel::Topics(model) => (model.num_topics(), "topic"),
        AnyModel::Mixture(model) => (model.num_clusters(), "cluster"),
        AnyModel::Sequence(model) => (model.num_states(), "state"),
    };
    let names = args.names.as_deref().map(|path| read_names(path, num, what)).transpose()?;
    let name = args.model.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let options = PageOptions {
        title: args.title.clone().unwrap_or(name),
        names: names.unwrap_or_default(),
        documents: args.documents,
        seed: args.seed,
    };
    let (page, report) = match model {
        AnyModel::Topics(model) => of_topics(args, &model, &options)?,
        AnyModel::Mixture(model) => of_mixture(args, *model, &options)?,
        AnyModel::Sequence(model) => of_sequence(args, *model, &options)?,
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

fn of_topics(args: &ExploreArgs, model: &TopicModel, options: &PageOptions) -> Result<(String, Report)> {
    refuse_given(&args.groups.given(), "topics")?;
    refuse_given(&[("picture", args.picture.is_some()), ("missing", args.missing)], "topics")?;
    refuse_given(&args.reading.patches.given(), "topics")?;
    let (page, report) = match &args.data {
        Some(path) => with_documents(args, path, model, options)?,
        None => topics_page(model, None, options)?,
    };
    Ok((page, Report::Topics(report)))
}

fn with_documents(
    args: &ExploreArgs,
    path: &Path,
    model: &TopicModel,
    options: &PageOptions,
) -> Result<(String, PageReport)> {
    let input = Input::open(path, "")?;
    let documents = args.text.open_input(&input, model, Some(&args.reading))?;
    let (format, how) = (args.text.format, args.text.options(Some(&args.reading)));
    let is_corpus = Corpus::is_corpus(input.path());
    let metadata = metadata_of(args, input.path())?;
    let metadata = match metadata {
        None if !is_corpus && !args.keep.is_empty() => Some(read_metadata(input.path(), format, &how, &args.keep)?),
        metadata => metadata,
    };
    let texts =
        |wanted: &[usize]| read_texts(input.path(), format, &how, wanted, &mut |_| interrupt::check("reading text"));
    let reading = Reading {
        rows: &documents,
        name: &|n| documents.corpus().id(n).map(str::to_owned),
        texts: if is_corpus { None } else { Some(&texts) },
        metadata: metadata.as_ref(),
    };
    topics_page(model, Some(&reading), options)
}

/// What a corpus folder has kept of its documents.
fn metadata_of(args: &ExploreArgs, path: &Path) -> Result<Option<Metadata>> {
    if !Corpus::is_corpus(path) {
        return Ok(None);
    }
    match Corpus::open(path)?.metadata()? {
        known if args.keep.is_empty() => Ok(known),
        known => known.unwrap_or_default().only(&args.keep).map(Some),
    }
}

/// How rows are read: columns of a table that are shown by are no data, unless the model has columns of these names.
fn reading(args: &ExploreArgs, path: &Path, columns: &[String]) -> Result<DataArgs> {
    let mut reading = args.reading.clone();
    if !Corpus::is_corpus(path) {
        if !is_table(path) {
            refuse_given(&[("keep", !args.keep.is_empty())], "rows that are no table of text and no corpus folder")?;
        }
        reading.leave_out.extend(args.keep.iter().filter(|&name| !columns.contains(name)).cloned());
    }
    Ok(reading)
}

/// A column that is not there was asked for as one to keep, unless it was to be left out too.
fn of_keep(args: &ExploreArgs, error: Error) -> Error {
    match error {
        Error::Config { setting: "leave-out", problem, remedy } if args.reading.leave_out.is_empty() => {
            Error::Config { setting: "keep", problem, remedy }
        }
        error => error,
    }
}

/// What is known of rows: what a corpus folder has kept, or columns of their table.
fn metadata_of_rows(args: &ExploreArgs, path: &Path, num_rows: usize) -> Result<Option<Metadata>> {
    match metadata_of(args, path)? {
        None if !args.keep.is_empty() => args.reading.metadata(path, &args.keep, num_rows).map(Some),
        metadata => Ok(metadata),
    }
}

fn of_mixture(args: &ExploreArgs, model: MixtureModel, options: &PageOptions) -> Result<(String, Report)> {
    refuse_given(&args.groups.given(), "a mixture")?;
    refuse_given(&args.text.given(), "a mixture")?;
    let model = if args.missing { model.allowing_missing()? } else { model };
    let Some(path) = &args.data else {
        let (page, report) = clusters_page(&Judge::Mixture(&model), None, None, &model.columns, args.picture, options)?;
        return Ok((page, Report::Clusters(report)));
    };
    let input = Input::open(path, ".csv")?;
    args.reading.check_patches(&[input.path()])?;
    let reading = reading(args, input.path(), &model.columns)?;
    let source = reading.open(input.path(), model.config.missing).map_err(|error| of_keep(args, error))?;
    let metadata = metadata_of_rows(args, input.path(), source.num_rows())?;
    let (columns, picture) = columns_and_picture(args, input.path(), source.as_ref(), &model.columns);
    let judge = Judge::Mixture(&model);
    let (page, report) = clusters_page(&judge, Some(source.as_ref()), metadata.as_ref(), &columns, picture, options)?;
    Ok((page, Report::Clusters(report)))
}

fn of_sequence(args: &ExploreArgs, model: SequenceModel, options: &PageOptions) -> Result<(String, Report)> {
    refuse_given(&args.text.given(), "sequences")?;
    let model = if args.missing { model.allowing_missing_steps() } else { model };
    let Some(path) = &args.data else {
        refuse_given(&args.groups.given(), "a page without data")?;
        let nothing = lsparse::data::Groups::one(0);
        let judge = Judge::Sequence(&model, &nothing);
        let (page, report) = clusters_page(&judge, None, None, &model.columns, args.picture, options)?;
        return Ok((page, Report::States(report)));
    };
    let input = Input::open(path, ".csv")?;
    let reading = reading(args, input.path(), &model.columns)?;
    let opened = args.groups.open_for(&reading, input.path(), &model);
    let (source, groups) = opened.map_err(|error| of_keep(args, error))?;
    let metadata = metadata_of_rows(args, input.path(), source.num_rows())?;
    let (columns, picture) = columns_and_picture(args, input.path(), source.as_ref(), &model.columns);
    let judge = Judge::Sequence(&model, &groups);
    let (page, report) = clusters_page(&judge, Some(source.as_ref()), metadata.as_ref(), &columns, picture, options)?;
    Ok((page, Report::States(report)))
}

/// Names of columns, as the model has them or else the data; and what rows are as pictures, if they are patches.
fn columns_and_picture(
    args: &ExploreArgs,
    path: &Path,
    source: &dyn RowSource,
    known: &[String],
) -> (Vec<String>, Option<Picture>) {
    let named = || (0..source.dim()).map(|d| source.column_name(d).map(str::to_owned)).collect::<Option<Vec<_>>>();
    let columns = if known.is_empty() { named().unwrap_or_default() } else { known.to_vec() };
    let side = args.reading.patches.options().size;
    let is_patches = path.is_dir() && !Corpus::is_corpus(path) && side * side == source.dim();
    let patch = Picture { height: side, width: side, channels: 1 };
    (columns, args.picture.or(is_patches.then_some(patch)))
}

fn said(out: &Path, report: &Report) -> String {
    let (num, many, shown, all, looked_at, docs, bytes) = match report {
        Report::Topics(r) => {
            (r.topics, "topics", r.documents_shown, r.documents, r.documents_looked_at, "documents", r.bytes)
        }
        Report::Clusters(r) | Report::States(r) => {
            let many = if matches!(report, Report::States(_)) { "states" } else { "clusters" };
            (r.clusters, many, r.rows_shown, r.rows, r.rows_looked_at, "rows", r.bytes)
        }
    };
    let mut text = format!("{}: {} {many}", out.display(), grouped(num));
    if all > 0 {
        text += &format!(", {} of {} {docs}", grouped(shown), grouped(all));
    }
    if looked_at < all {
        text += &format!(" (chosen from a sample of {})", grouped(looked_at));
    }
    text + &format!(", {:.1} MB; open it in a browser", bytes as f64 / 1e6)
}
