//! `lsparse fit mixture`: check everything first, train, save, report.

mod args;
mod config;
mod report;

use std::path::Path;

use lsparse::backend::with_threads;
use lsparse::corpus::Corpus;
use lsparse::data::{Element, RowSource};
use lsparse::elsewhere::WholeData;
use lsparse::mixture::memory_needed;
use lsparse::settings::{Checked, MixtureMethod, SearchKind};
use lsparse::system::resident_memory;
use lsparse::training::exchange::Engine;
use lsparse::{Beside, History, MixtureConfig, MixtureInputs, MixtureModel, Result, fit_mixture_with};

use super::Watchers;
use crate::data_args::read_row_weights;
use crate::format::{bytes, counted};
use crate::interrupt;
use crate::output::{self, message, save_model};
use crate::progress::{Plan, TrainingProgress};
use crate::stdin::{self, Input};

pub use args::MixtureArgs;
use report::Report;

pub fn run(args: &MixtureArgs) -> Result<()> {
    with_threads(args.run.threads, || train(args))?
}

/// The rows that a training is on and their weights, for those who work for it.
pub fn rows_of(args: &MixtureArgs) -> Result<(Box<dyn RowSource>, Option<Vec<f64>>)> {
    let start = args.from.as_deref().map(MixtureModel::load).transpose()?;
    let rows = args.reading.open(&args.data, args.config(start.as_ref())?.missing)?;
    Ok((rows, args.row_weights.as_deref().map(read_row_weights).transpose()?))
}

fn train(args: &MixtureArgs) -> Result<()> {
    let start = args.from.as_deref().map(MixtureModel::load).transpose()?;
    let config = args.config(start.as_ref())?;
    stdin::check_once("heldout", args.heldout.as_deref(), &args.data)?;
    let data = Input::open(&args.data, ".csv")?;
    let heldout = args.heldout.as_deref().map(|path| Input::open(path, ".csv")).transpose()?;
    let inputs = [Some(&args.data), args.heldout.as_ref(), args.row_weights.as_ref(), args.run.config.as_ref()];
    let inputs: Vec<&Path> = inputs.into_iter().flatten().map(AsRef::as_ref).collect();
    args.run.check_outputs(&inputs, args.from.as_deref())?;
    let paths: Vec<&Path> = [Some(&data), heldout.as_ref()].into_iter().flatten().map(Input::path).collect();
    args.reading.check_patches(&paths)?;
    let open = |path: &Path| args.reading.open(path, config.missing);
    let source = open(data.path())?;
    if Corpus::is_corpus(data.path()) && config.likelihood.family().spread.is_of_variances() {
        output::note(
            "these are counts of words, which no Gaussian is made for: --likelihood multinomial finds clusters of \
             documents, lsparse fit topics the topics in them",
        );
    }
    let heldout = heldout.as_ref().map(|input| open(input.path())).transpose()?;
    let row_weights = args.row_weights.as_deref().map(read_row_weights).transpose()?;
    output::note_remark(config.sparsity.remark(config.clusters).filter(|_| !config.find_k));
    let config = config.check(source.num_rows())?;
    let trace = args.run.open_trace()?;
    // A training that others work for is at rest in its folder whenever it is ended.
    let interrupt = args.run.folder().is_none().then(|| interrupt::listen(args.run.quiet));
    if !args.run.quiet {
        let more = memory_needed(source.as_ref(), &config, &args.run.storage()).total();
        let memory = resident_memory().saturating_add(more);
        message(&format!("{}; about {} of memory", introduction(source.as_ref(), &config), bytes(memory)));
        if config.search == SearchKind::Exact
            && config.search.settle(config.likelihood, config.clusters, source.dim()) == SearchKind::Dense
        {
            let name = config.likelihood.name();
            message(&format!("there is no bound for {name} that is cheaper than a weight: --search exact is dense"));
        }
    }
    let weight = row_weights.as_ref().map_or(source.num_rows() as f64, |weights| weights.iter().sum());
    let kept =
        start.as_ref().filter(|_| config.history == History::Keep).map_or(0.0, |start| start.total.total_weight());
    let plan = Plan::new(&config.plan(), "rows", "row").over(weight + kept);
    let progress = TrainingProgress::new(args.run.quiet, "", plan);
    let mut watchers = Watchers::new(progress, trace, &args.run, &args.data)?;
    let whole = WholeData { weights: row_weights.as_deref(), ..WholeData::of(source.as_ref()) };
    let folder = args.run.open_folder(&whole)?;
    let mut engine = args.run.engine(folder.as_ref(), whole);
    let fitted = fit_mixture_with(
        source.as_ref(),
        &config,
        MixtureInputs {
            heldout: heldout.as_deref(),
            row_weights: row_weights.as_deref(),
            start: start.as_ref(),
            ..Default::default()
        },
        Beside {
            heldout_every: args.run.heldout_every,
            observer: Some(&mut watchers),
            interrupt,
            storage: args.run.storage(),
            engine: engine.as_mut().map(|engine| engine.as_mut() as &mut dyn Engine),
        },
    )?;
    watchers.progress.finish();
    if let Some(path) = &args.run.out {
        save_model(path, |place| fitted.model.save_to(place))?;
    }
    args.run.print_report(&Report::new(&fitted, &watchers.trades_of(fitted.run), args.run.out.as_deref()))?;
    if !args.run.quiet && config.method == MixtureMethod::DpMeans && fitted.model.num_clusters() == config.clusters {
        message(&format!(
            "warning: all of the {} clusters that there is room for are in use, so rows may be farther from their centre \
             than the penalty; raise -k or --penalty",
            config.clusters
        ));
    }
    args.run.conclude(&fitted.outcome.reason);
    watchers.finish()
}

fn introduction(source: &dyn RowSource, config: &Checked<MixtureConfig>) -> String {
    let element = match source.element() {
        Element::F32 => "f32",
        Element::F64 => "f64",
    };
    let sparsity = match config.sparsity_tolerance {
        None if config.method != MixtureMethod::Lsparse => {
            format!("L = {} by {}", config.sparsity, config.method.name())
        }
        None if config.find_k && config.sparsity == config.k_max() => "L = K".to_owned(),
        None => format!("L = {}", config.sparsity),
        Some(tolerance) => format!("L = {} or as many as lose less than {tolerance}", config.sparsity),
    };
    let batches = counted(config.batches, "batch", "batches");
    let clusters = match config.find_k {
        true => format!("K to be found from {} on, at most {}", config.clusters, config.k_max()),
        false => format!("K = {}", config.clusters),
    };
    format!(
        "{}: {} of {}, {element}; {} with {clusters}, {sparsity}, {batches}",
        source.name(),
        counted(source.num_rows(), "row", "rows"),
        counted(source.dim(), "column", "columns"),
        config.likelihood.name(),
    )
}
