//! `lsparse merge`: clusters of a trained mixture, or topics, that could be merged or given up, and the model without them.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Args;
use lsparse::backend::with_threads;
use lsparse::data::{AtomicFile, RowSource, Rows, Scalar, Wrapper};
use lsparse::topics::TopicModel;
use lsparse::training::moves::{Fewer, Move, MoveKind, Suggestion};
use lsparse::training::rules::TrainingRecord;
use lsparse::{AnyModel, Error, MixtureModel, Result};
use serde::Serialize;

use crate::data_args::DataArgs;
use crate::format::{counted, significant};
use crate::interrupt;
use crate::stdin::Input;
use crate::topics::{TextArgs, refuse_given, top_words};
use crate::{output, parse};

/// Clusters of a mixture, or topics, that could be merged or given up, and what the objective would gain by it.
///
/// Nothing is trained, and no gain is guessed: each is the exact change of the objective, so that a model alone does not
/// do. What two clusters cost that become one depends on the rows that belong to both, and a model does not remember rows.
/// DATA should be what the model was trained on.
///
/// Of a mixture one pass over the rows gives the change for every pair of clusters that some row belongs to both of, and
/// for every cluster that is given up to those its rows keep besides. Models of vb alone: a point estimate gains with every
/// cluster.
///
/// Of topics the objective is the one that -k auto finds K by: each tenth of the documents is scored under topics without
/// it, and a topic costs 100 nats, or what the model says. Every pair of topics is judged with documents as they are (of
/// more than 447 topics the 100,000 pairs that are most alike), and every topic is given up once on trial, its documents
/// worked out again, with the topic that would take its words. That takes several times as long as the training.
///
/// The changes that gain are made, the best first, and looked for again until none does; with --out the model is written.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES:
  lsparse merge model.safetensors data.npy                           # what could go, the best first
  lsparse merge model.safetensors data.npy --out fewer.safetensors   # the model without it
  lsparse fit mixture data.npy --from fewer.safetensors --out again.safetensors
  lsparse merge topics.safetensors corpus                            # duplicates and topics that nobody needs
  lsparse merge topics.safetensors corpus --out fewer.safetensors")]
pub struct MergeArgs {
    /// A model file.
    #[arg(value_name = "MODEL")]
    pub model: PathBuf,
    /// Rows, in any format that training reads; for topics a corpus folder or raw text; - for standard input.
    #[arg(value_name = "DATA")]
    pub data: Option<PathBuf>,
    /// Write the model with the changes that gain made here.
    #[arg(long, short, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Write the model though DATA are not what it was trained on: it becomes one of DATA, and what only other rows or
    /// documents need is gone.
    #[arg(long, requires = "out")]
    pub other_data: bool,
    /// Changes that are listed at most; but for JSON, three where none gains.
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub top: usize,
    /// Threads; the result is the same with any number [default: one a core].
    #[arg(long, value_name = "N", value_parser = parse::threads)]
    pub threads: Option<usize>,
    #[command(flatten)]
    pub reading: DataArgs,
    #[command(flatten)]
    pub text: TextArgs,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// Rows with an objective that is so much lower, in nats each, are not those of training.
const LESS_A_ROW: f64 = 0.05;

/// Changes that are listed where none gains.
const NEAREST: usize = 3;

/// Words that a topic is shown by.
const TOP_WORDS: usize = 3;

#[derive(Serialize)]
struct Listed<'a> {
    change: &'static str,
    clusters: &'a [usize],
    gain: f64,
}

#[derive(Serialize)]
struct Report<'a> {
    clusters: usize,
    clusters_after: usize,
    changes: usize,
    suggestions: Vec<Listed<'a>>,
    /// The changes that were made one after the other, by the numbers that clusters had at first, each kept by the first
    /// of the two that become one.
    made: &'a [Move],
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<String>,
}

fn name(kind: MoveKind) -> &'static str {
    match kind {
        MoveKind::Merge => "merge",
        MoveKind::Delete => "give up",
        MoveKind::Birth => "split",
        MoveKind::Trade => "trade",
    }
}

/// A model that clusters may be spared of.
trait Spared {
    /// One of what it has, and several.
    const NAMES: (&'static str, &'static str);

    /// What people know a cluster by, beside its number.
    fn shown(&self, k: usize) -> Option<String>;
    fn number(&self) -> usize;
    fn training(&self) -> &TrainingRecord;
    fn save(&self, file: AtomicFile) -> Result<()>;
}

impl Spared for MixtureModel {
    const NAMES: (&'static str, &'static str) = ("cluster", "clusters");

    fn shown(&self, _: usize) -> Option<String> {
        None
    }

    fn number(&self) -> usize {
        self.num_clusters()
    }

    fn training(&self) -> &TrainingRecord {
        &self.training
    }

    fn save(&self, file: AtomicFile) -> Result<()> {
        MixtureModel::save(self, file)
    }
}

impl Spared for TopicModel {
    const NAMES: (&'static str, &'static str) = ("topic", "topics");

    fn shown(&self, k: usize) -> Option<String> {
        let is_empty = self.total.counts.get(k).is_some_and(|&count| count <= 0.0);
        Some(if is_empty { "empty".into() } else { top_words(self, k, TOP_WORDS).join(" ") })
    }

    fn number(&self) -> usize {
        self.num_topics()
    }

    fn training(&self) -> &TrainingRecord {
        &self.training
    }

    fn save(&self, file: AtomicFile) -> Result<()> {
        TopicModel::save(self, file)
    }
}

/// Rows that cannot be read any more once somebody has asked to stop.
struct WhileWanted<'a>(&'a dyn RowSource);

impl Wrapper for WhileWanted<'_> {
    fn inside(&self) -> &dyn RowSource {
        self.0
    }

    fn append<T: Scalar>(&self, start: usize, count: usize, out: &mut Rows<T>) -> Result<()> {
        interrupt::check("merging")?;
        T::read(self.0, start, count, out)
    }
}

pub fn run(args: &MergeArgs) -> Result<()> {
    interrupt::listen(true);
    with_threads(args.threads, || merge(args))?
}

fn merge(args: &MergeArgs) -> Result<()> {
    let model = AnyModel::load(&args.model)?;
    let Some(data) = &args.data else {
        return Err(Error::Config {
            setting: "data",
            problem: "what a change gains depends on the rows or documents that it concerns, and none are given".into(),
            remedy: "give those that the model was trained on".into(),
        });
    };
    if let Some(out) = &args.out {
        output::check_not_input("out", out, &[data])?;
    }
    let out = args.out.as_deref().map(AtomicFile::create).transpose()?;
    match model {
        AnyModel::Mixture(model) => {
            refuse_given(&args.text.given(), "a mixture")?;
            let data = Input::open(data, ".csv")?;
            args.reading.check_patches(&[data.path()])?;
            let source = args.reading.open(data.path(), model.config.missing)?;
            check_other_data(args, model.as_ref(), source.num_rows(), "rows")?;
            if model.num_clusters() > 1 && model.sparsity() == 1 {
                output::note(
                    "rows keep one cluster (L is 1), so that no two can be compared: train on with a larger L",
                );
            }
            let fewer = model.fewer(&WhileWanted(source.as_ref()))?;
            check_objective(args, model.as_ref(), &fewer, source.num_rows())?;
            report(args, model.as_ref(), &fewer, out)
        }
        AnyModel::Topics(model) => {
            let documents = args.text.open(data, &model, Some(&args.reading))?;
            check_other_data(args, model.as_ref(), documents.num_rows(), "documents")?;
            report(args, model.as_ref(), &model.fewer(&WhileWanted(&documents))?, out)
        }
        AnyModel::Sequence(_) => Err(Error::Config {
            setting: "model",
            problem: format!("{} is a hidden Markov model", args.model.display()),
            remedy: "give a mixture or topics".into(),
        }),
    }
}

/// Other data than the model was trained on: what they do not need is not what those did not. A list of changes is told so,
/// and a model is written of them only where that is asked for.
fn check_other_data<M: Spared>(args: &MergeArgs, model: &M, given: usize, what: &str) -> Result<()> {
    let trained = model.training().observations;
    if trained == given {
        return Ok(());
    }
    refuse_or_note(args, format!("the model was trained on {trained} {what}, and is judged by {given}"))
}

/// The same where there are as many: what a model was trained on has at least the objective that training ended with.
fn check_objective<M: Spared>(args: &MergeArgs, model: &M, fewer: &Fewer<M>, rows: usize) -> Result<()> {
    let before = model.training().objective;
    let Some(now) = fewer.objective.filter(|now| before - now > LESS_A_ROW * rows as f64) else { return Ok(()) };
    refuse_or_note(
        args,
        format!(
            "these rows have an objective of {} under the model, and those it was trained on had {}: they are others",
            significant(now, 6),
            significant(before, 6)
        ),
    )
}

fn refuse_or_note(args: &MergeArgs, problem: String) -> Result<()> {
    if args.out.is_some() && !args.other_data {
        let remedy = "give those that it was trained on, or --other-data for a model of these".into();
        return Err(Error::Config { setting: "data", problem, remedy });
    }
    output::note(&problem);
    Ok(())
}

fn report<M: Spared>(args: &MergeArgs, model: &M, fewer: &Fewer<M>, out: Option<AtomicFile>) -> Result<()> {
    let (before, after) = (model.number(), fewer.model.number());
    if let Some(file) = out {
        fewer.model.save(file)?;
    }
    let most = if args.json || !fewer.made.is_empty() { args.top } else { args.top.min(NEAREST) };
    let shown = &fewer.suggestions[..fewer.suggestions.len().min(most)];
    if args.json {
        let suggestions = shown.iter().map(|found| {
            let Suggestion { kind, clusters, gain } = found;
            Listed { change: name(*kind), clusters, gain: *gain }
        });
        return output::print_json(&Report {
            clusters: before,
            clusters_after: after,
            changes: fewer.made.len(),
            suggestions: suggestions.collect(),
            made: &fewer.made,
            model: args.out.as_ref().map(|path| path.display().to_string()),
        });
    }
    let (one, several) = M::NAMES;
    let mut text = String::new();
    if fewer.made.is_empty() {
        let nearest = if shown.is_empty() { "" } else { "; what would lose least:" };
        let _ = writeln!(text, "no change gains: {} left{nearest}", counted(after, one, several));
    }
    if !shown.is_empty() {
        let _ = writeln!(text, "{:>14}  change, by itself", "gain in nats");
    }
    for Suggestion { kind, clusters, gain } in shown {
        let called = |k: &usize| model.shown(*k).map_or_else(|| k.to_string(), |words| format!("{k} ({words})"));
        let names: Vec<String> = clusters.iter().map(called).collect();
        let what = match (kind, names.split_first()) {
            (MoveKind::Delete, Some((first, rest))) if !rest.is_empty() => {
                let shown = rest.iter().take(8).cloned().collect::<Vec<_>>().join(", ");
                format!("give up {first}, to {shown}{}", if rest.len() > 8 { ", ..." } else { "" })
            }
            (MoveKind::Delete, Some((first, _))) => format!("give up {first}"),
            _ => format!("merge {}", names.join(" and ")),
        };
        let _ = writeln!(text, "{:>14}  {what}", significant(*gain, 6));
    }
    if !fewer.made.is_empty() {
        let verb = if args.out.is_some() { "left" } else { "would be left" };
        let turn = if fewer.made.len() > 1 { ", one after the other" } else { "" };
        let changes = counted(fewer.made.len(), "change that gains", "changes that gain");
        let _ = writeln!(text, "{after} of {} {verb} by {changes}{turn}", counted(before, one, several));
    }
    if let Some(out) = &args.out {
        let _ = writeln!(text, "written to {}", out.display());
    }
    output::print(&text)
}
