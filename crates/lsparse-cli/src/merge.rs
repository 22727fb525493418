//! `lsparse merge`: clusters of a trained mixture that could be merged or given up, and the model without them.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Args;
use lsparse::backend::with_threads;
use lsparse::data::AtomicFile;
use lsparse::mixture::Suggestion;
use lsparse::training::moves::MoveKind;
use lsparse::{AnyModel, Error, Result};
use serde::Serialize;

use crate::data_args::DataArgs;
use crate::format::{counted, significant};
use crate::stdin::Input;
use crate::{output, parse};

/// Clusters of a mixture that could be merged or given up, and what the objective would gain by it.
///
/// One pass over the rows gives the exact change of the objective for every pair of clusters that some row belongs to both
/// of, and for every cluster that is given up to those its rows keep besides; nothing is trained. The changes that gain are
/// made, the best first, and looked for again until none does; with --out the model is written. Rows should be those that
/// the model was trained on. Models of vb alone: a point estimate gains with every cluster.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES:
  lsparse merge model.safetensors data.npy                           # what could go, the best first
  lsparse merge model.safetensors data.npy --out fewer.safetensors   # the model without it
  lsparse fit mixture data.npy --from fewer.safetensors --out again.safetensors")]
pub struct MergeArgs {
    /// A model file.
    #[arg(value_name = "MODEL")]
    pub model: PathBuf,
    /// Rows, in any format that training reads; - for standard input.
    #[arg(value_name = "DATA")]
    pub data: PathBuf,
    /// Write the model with the changes that gain made here.
    #[arg(long, short, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Changes that are listed at most; but for JSON, three where none gains.
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub top: usize,
    /// Threads; the result is the same with any number [default: one a core].
    #[arg(long, value_name = "N", value_parser = parse::threads)]
    pub threads: Option<usize>,
    #[command(flatten)]
    pub reading: DataArgs,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// Changes that are listed where none gains.
const NEAREST: usize = 3;

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

pub fn run(args: &MergeArgs) -> Result<()> {
    with_threads(args.threads, || merge(args))?
}

fn merge(args: &MergeArgs) -> Result<()> {
    let AnyModel::Mixture(model) = AnyModel::load(&args.model)? else {
        return Err(Error::Config {
            setting: "model",
            problem: format!("{} is no mixture", args.model.display()),
            remedy: "give a mixture; lsparse topics names near-duplicates of topics".into(),
        });
    };
    if let Some(out) = &args.out {
        output::check_not_input("out", out, &[&args.data])?;
    }
    let out = args.out.as_deref().map(AtomicFile::create).transpose()?;
    let data = Input::open(&args.data, ".csv")?;
    args.reading.check_patches(&[data.path()])?;
    let source = args.reading.open(data.path(), model.config.missing)?;
    let fewer = model.fewer(source.as_ref())?;
    let after = fewer.model.num_clusters();
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
            clusters: model.num_clusters(),
            clusters_after: after,
            changes: fewer.made.len(),
            suggestions: suggestions.collect(),
            model: args.out.as_ref().map(|path| path.display().to_string()),
        });
    }
    let mut text = String::new();
    if fewer.made.is_empty() {
        let nearest = if shown.is_empty() { "" } else { "; what would lose least:" };
        let _ = writeln!(text, "no change gains: {} left{nearest}", counted(after, "cluster", "clusters"));
    }
    if !shown.is_empty() {
        let _ = writeln!(text, "{:>14}  change, by itself", "gain in nats");
    }
    for Suggestion { kind, clusters, gain } in shown {
        let numbers: Vec<String> = clusters.iter().map(usize::to_string).collect();
        let what = match (kind, numbers.split_first()) {
            (MoveKind::Delete, Some((first, rest))) if !rest.is_empty() => {
                let shown = rest.iter().take(8).cloned().collect::<Vec<_>>().join(", ");
                format!("give up {first}, to {shown}{}", if rest.len() > 8 { ", ..." } else { "" })
            }
            (MoveKind::Delete, Some((first, _))) => format!("give up {first}"),
            _ => format!("merge {}", numbers.join(" and ")),
        };
        let _ = writeln!(text, "{:>14}  {what}", significant(*gain, 6));
    }
    if fewer.made.is_empty() {
        return output::print(&text);
    }
    let verb = if args.out.is_some() { "left" } else { "would be left" };
    let _ = writeln!(
        text,
        "{after} of {} {verb} by {}, one after the other",
        counted(model.num_clusters(), "cluster", "clusters"),
        counted(fewer.made.len(), "change that gains", "changes that gain"),
    );
    output::print(&text)
}
