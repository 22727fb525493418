//! `lsparse fit sequence`: check everything first, train, save, report.

mod args;
mod report;

use std::path::Path;

use lsparse::backend::with_threads;
use lsparse::data::{Groups, RowSource, Symbols};
use lsparse::elsewhere::WholeData;
use lsparse::settings::{Checked, SequenceMethod, check_fixed, passed_on};
use lsparse::training::exchange::Engine;
use lsparse::{
    Beside, BestBy, Error, History, Result, ScheduleKind, SequenceConfig, SequenceInputs, SequenceModel, Sparsity,
    fit_sequence_with,
};

use super::Watchers;
use crate::format::{counted, grouped};
use crate::group_args::GroupArgs;
use crate::interrupt;
use crate::output::{self, message, save_model};
use crate::progress::{Plan, TrainingProgress};
use crate::stdin::{self, Input};

pub use args::SequenceArgs;
use report::Report;

pub fn run(args: &SequenceArgs) -> Result<()> {
    with_threads(args.run.threads, || train(args))?
}

/// The sequences that a training is on, for those who work for it.
pub fn sequences_of(args: &SequenceArgs) -> Result<(Box<dyn RowSource>, Groups)> {
    let start = args.from.as_deref().map(SequenceModel::load).transpose()?;
    let config = args.config(start.as_ref())?;
    let (mut source, groups) = args.groups.open(&args.reading, &args.data, config.missing)?;
    as_symbols(&mut source, None, &config, start.as_ref())?;
    Ok((source, groups))
}

impl SequenceArgs {
    /// The settings of the run: defaults, then those of the model to go on from, then the file's, then the options'.
    fn config(&self, start: Option<&SequenceModel>) -> Result<SequenceConfig> {
        let refuse = |option: &'static str, problem: &str, remedy: &str| {
            Err(Error::Config { setting: option, problem: problem.into(), remedy: remedy.into() })
        };
        let base = start.map_or_else(SequenceConfig::default, |start| passed_on(&start.config));
        let given = self.run.given(&self.settings)?;
        if start.is_none() && !given.has("states") {
            return refuse("states", "the number of states is not given", "give it with `states`");
        }
        let mut config: SequenceConfig = given.over(&base)?;
        if config.method == SequenceMethod::Viterbi && !given.has("sparsity") {
            // A model to go on from may have kept more.
            config.sparsity = Sparsity::Usual;
        }
        if given.options.contains_key("sparsity-tolerance") && config.sparsity != Sparsity::Auto {
            return refuse("sparsity-tolerance", "L is not chosen by it", "give `sparsity auto` too");
        }
        if given.options.contains_key("history") {
            if start.is_none() {
                let problem = "there is no model whose counts it could be about";
                return refuse("history", problem, "leave it out, or give `from` too");
            }
            if config.history == History::Keep && config.schedule == ScheduleKind::Stochastic {
                let problem = "stochastic steps let what was there before fade";
                return refuse("history", problem, "leave it out, or choose `schedule memoized`");
            }
        }
        if let Some(start) = start {
            check_fixed(&config, &start.config)?;
        }
        let one_file = self.heldout.as_ref().is_some_and(|path| !path.is_dir());
        if one_file && self.groups.groups.is_some() && self.heldout_groups.is_none() {
            let problem = "it is not said where held-out sequences begin";
            return refuse("heldout-groups", problem, "give the lengths of those, too");
        }
        if config.best_by == BestBy::Heldout && self.heldout.is_none() {
            return refuse("best-by", "there are no held-out rows to be best by", "give `heldout` too");
        }
        Ok(config)
    }

    /// Where held-out sequences begin: by their own lengths, or as those of the data do.
    fn heldout_groups(&self) -> GroupArgs {
        GroupArgs {
            groups: self.heldout_groups.clone(),
            group_column: self.groups.group_column.clone(),
            time_series: self.groups.time_series,
        }
    }
}

fn train(args: &SequenceArgs) -> Result<()> {
    let start = args.from.as_deref().map(SequenceModel::load).transpose()?;
    let config = args.config(start.as_ref())?;
    stdin::check_once("heldout", args.heldout.as_deref(), &args.data)?;
    let data = Input::open(&args.data, ".csv")?;
    let heldout = args.heldout.as_deref().map(|path| Input::open(path, ".csv")).transpose()?;
    let inputs = [
        Some(&args.data),
        args.groups.groups.as_ref(),
        args.heldout.as_ref(),
        args.heldout_groups.as_ref(),
        args.run.config.as_ref(),
    ];
    let inputs: Vec<&Path> = inputs.into_iter().flatten().map(AsRef::as_ref).collect();
    args.run.check_outputs(&inputs, args.from.as_deref())?;
    let (mut source, groups) = args.groups.open(&args.reading, data.path(), config.missing)?;
    let open_held = |input: &Input| args.heldout_groups().open(&args.reading, input.path(), config.missing);
    let mut heldout = heldout.as_ref().map(open_held).transpose()?;
    let columns = as_symbols(&mut source, heldout.as_mut().map(|held| &mut held.0), &config, start.as_ref())?;
    output::note_remark(config.sparsity.remark(config.states));
    let config = config.check(source.num_rows())?;
    let trace = args.run.open_trace()?;
    // A training that others work for is at rest in its folder whenever it is ended.
    let interrupt = args.run.folder().is_none().then(|| interrupt::listen(args.run.quiet));
    if !args.run.quiet {
        message(&introduction(source.as_ref(), &groups, &config));
    }
    let kept =
        start.as_ref().filter(|_| config.history == History::Keep).map_or(0, |start| start.training.observations);
    let plan = Plan::new(&config.plan(), "steps", "step").over((source.num_rows() + kept) as f64);
    let progress = TrainingProgress::new(args.run.quiet, "", plan);
    let mut watchers = Watchers::new(progress, trace, &args.run, &args.data)?;
    let whole = WholeData { groups: Some(&groups), ..WholeData::of(source.as_ref()) };
    let folder = args.run.open_folder(&whole)?;
    let mut engine = args.run.engine(folder.as_ref(), whole);
    let inputs = SequenceInputs {
        groups: Some(&groups),
        heldout: heldout.as_ref().map(|(rows, groups)| (rows.as_ref(), Some(groups))),
        start: start.as_ref(),
        columns: columns.as_deref(),
    };
    let beside = Beside {
        heldout_every: args.run.heldout_every,
        observer: Some(&mut watchers),
        interrupt,
        storage: args.run.storage(),
        engine: engine.as_mut().map(|engine| engine.as_mut() as &mut dyn Engine),
    };
    let fitted = fit_sequence_with(source.as_ref(), &config, inputs, beside)?;
    watchers.progress.finish();
    if let Some(path) = &args.run.out {
        save_model(path, |place| fitted.model.save_to(place))?;
    }
    args.run.print_report(&Report::new(&fitted, groups.len(), args.run.out.as_deref()))?;
    args.run.conclude(&fitted.outcome.reason);
    watchers.finish()
}

/// Where a row is to be shared out among categories, a single column is symbols: take data and held-out data as rows of one
/// symbol each. Gives the symbols.
fn as_symbols(
    source: &mut Box<dyn RowSource>,
    heldout: Option<&mut Box<dyn RowSource>>,
    config: &SequenceConfig,
    start: Option<&SequenceModel>,
) -> Result<Option<Vec<String>>> {
    if source.dim() > 1 || !config.likelihood.family().of_categories {
        return Ok(None);
    }
    let symbols = match start {
        None => Symbols::of(source.as_ref(), config.missing)?,
        Some(start) => Symbols::in_columns(source.as_ref(), &start.columns, start.dim(), config.missing)?,
    };
    let names: Vec<String> = (0..symbols.dim()).filter_map(|d| symbols.column_name(d).map(str::to_owned)).collect();
    if let Some(held) = heldout {
        *held = Box::new(Symbols::in_columns(held.as_ref(), &names, names.len(), config.missing)?);
    }
    let num = counted(names.len(), "symbol", "symbols");
    output::note(&format!("{}: a single column is one symbol a step, of {num}", symbols.name()));
    *source = Box::new(symbols);
    Ok(Some(names))
}

fn introduction(source: &dyn RowSource, groups: &Groups, config: &Checked<SequenceConfig>) -> String {
    let windows = config.windows(groups).len();
    // Where nobody has asked for it, training says so itself.
    let cut = match windows > groups.num_filled() && config.cut.is_some() {
        true => format!(", worked on in {} stretches", grouped(windows)),
        false => String::new(),
    };
    format!(
        "{}: {} steps of {} columns in {}{cut}; {} with K = {}, L = {}, {}",
        source.name(),
        grouped(source.num_rows()),
        grouped(source.dim()),
        counted(groups.len(), "sequence", "sequences"),
        config.likelihood.name(),
        config.states,
        config.sparsity,
        counted(config.batches.min(windows), "batch", "batches"),
    )
}
