//! `lsparse demo`: train on data with known truth, see what L does, and leave models behind; needs no file.

mod leaves;
mod planted;
mod themes;

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use lsparse::backend::with_threads;
use lsparse::data::RowSource;
use lsparse::training::observe::Observer;
use lsparse::training::trace::StepInfo;
use lsparse::{Beside, Error, Fitted, MixtureConfig, MixtureInputs, MixtureModel, Result, fit_mixture_with};
use serde::Serialize;

use crate::progress::{Plan, TrainingProgress};
use crate::{interrupt, output, parse};

/// The parts of the demonstration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Part {
    /// Known clusters, and patches of an image.
    Mixture,
    /// Documents about known themes.
    Topics,
}

/// Train on data with known truth, compare, and see what L does.
///
/// Mixtures: first, rows are drawn from a mixture that is known, and what training finds is put next to it. Then a
/// mixture is trained on the patches of an image of overlapping discs, whose statistics are like those of
/// photographs, for several L. Topics: documents are drawn from themes that are known, words that anyone can read, and
/// the topics that training finds are put next to them.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES:
  lsparse demo
  lsparse demo topics
  lsparse demo --json --quiet
  lsparse demo mixture --seed 7 --out seven.safetensors")]
pub struct DemoArgs {
    /// What to show [default: both].
    #[arg(value_enum, value_name = "PART")]
    pub part: Option<Part>,
    /// Seed of data and training.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
    /// Write the model here; with both parts this is the mixture, and the topics go into a file that ends in
    /// -topics.safetensors [default: demo.safetensors, demo-topics.safetensors].
    #[arg(long, short, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Print the results as JSON, without tables.
    #[arg(long)]
    pub json: bool,
    /// Print results only, no progress.
    #[arg(long, short)]
    pub quiet: bool,
    /// Threads; the result is the same with any number [default: one a core].
    #[arg(long, value_name = "N", value_parser = parse::threads)]
    pub threads: Option<usize>,
    /// Rows to train on in each part, about.
    #[arg(long, value_name = "N", default_value_t = 20_000, hide = true, value_parser = clap::value_parser!(u32).range(2_000..))]
    pub rows: u32,
}

pub fn run(args: &DemoArgs) -> Result<()> {
    with_threads(args.threads, || demo(args))?
}

/// What came of the parts that were shown, as JSON.
#[derive(Serialize)]
struct Results {
    #[serde(skip_serializing_if = "Option::is_none")]
    mixture: Option<MixtureResults>,
    #[serde(skip_serializing_if = "Option::is_none")]
    topics: Option<themes::Results>,
}

#[derive(Serialize)]
struct MixtureResults {
    planted: planted::Results,
    leaves: Vec<leaves::Results>,
    model: PathBuf,
}

fn demo(args: &DemoArgs) -> Result<()> {
    let (mixture, topics) = args.outputs();
    for out in [&mixture, &topics].into_iter().flatten() {
        // A name that nobody gave is not one to write over.
        if args.out.is_none() && out.exists() {
            let (detail, remedy) = ("exists already", "remove it, or say where the model goes with --out");
            return Err(Error::Exists { path: out.clone(), detail, remedy });
        }
        output::check_writable(out)?;
    }
    let mut results = Results { mixture: None, topics: None };
    if let Some(out) = &mixture {
        results.mixture = Some(demo_mixture(args, out)?);
    }
    if let Some(out) = &topics {
        if mixture.is_some() {
            args.say("\n")?;
            interrupt::check("getting to the topics")?;
        }
        results.topics = Some(themes::run(args, out)?);
    }
    if args.json { output::print_json(&results) } else { Ok(()) }
}

impl DemoArgs {
    /// Print results for people, unless they are wanted as JSON.
    fn say(&self, text: &str) -> Result<()> {
        if self.json { Ok(()) } else { output::print(text) }
    }

    /// Where the mixture and the topics go, of those that are shown.
    fn outputs(&self) -> (Option<PathBuf>, Option<PathBuf>) {
        let out = |default: &str| self.out.clone().unwrap_or_else(|| PathBuf::from(default));
        match self.part {
            Some(Part::Mixture) => (Some(out("demo.safetensors")), None),
            Some(Part::Topics) => (None, Some(out("demo-topics.safetensors"))),
            None => {
                let mixture = out("demo.safetensors");
                let name = mixture.file_stem().unwrap_or_default().to_string_lossy();
                let topics = mixture.with_file_name(format!("{name}-topics.safetensors"));
                (Some(mixture), Some(topics))
            }
        }
    }
}

fn demo_mixture(args: &DemoArgs, path: &Path) -> Result<MixtureResults> {
    let planted = planted::run(args)?;
    interrupt::check("looking for planted clusters")?;
    let (model, leaves) = leaves::run(args)?;
    model.save_to(path)?;
    let (out, sparsity) = (path.display(), model.sparsity());
    args.say(&format!(
        "\nThe model with L = {sparsity} is in {out}. Next:\n\
         \x20 lsparse info {out}\n\
         \x20 lsparse score {out} FOLDER-OF-IMAGES\n\
         \x20 lsparse assign {out} FOLDER-OF-IMAGES --out clusters.npz\n\
         \x20 lsparse fit mixture YOUR-DATA.npy -k 50 --out model.safetensors\n"
    ))?;
    Ok(MixtureResults { planted, leaves, model: path.to_owned() })
}

/// A training with what the demonstration shows of it.
struct Shown {
    fitted: Fitted<MixtureModel>,
    /// Of every run, seconds of training and objective at the end of every lap.
    laps: Vec<Vec<(f64, f64)>>,
}

impl Shown {
    fn laps_of(&self, run: usize) -> &[(f64, f64)] {
        self.laps.get(run).map_or(&[], Vec::as_slice)
    }

    /// Seconds a lap, without seeding and the first lap, which warms up.
    fn seconds_a_lap(&self) -> f64 {
        match self.laps_of(self.fitted.run) {
            [first, .., last] => {
                let laps = self.laps_of(self.fitted.run).len() - 1;
                (last.0 - first.0) / laps as f64
            }
            _ => self.fitted.outcome.seconds,
        }
    }
}

fn fit(
    args: &DemoArgs,
    label: &str,
    source: &dyn RowSource,
    heldout: &dyn RowSource,
    config: &MixtureConfig,
) -> Result<Shown> {
    let config = config.check(source.num_rows())?;
    let plan = Plan::new(&config.plan(), "rows", "row").over(source.num_rows() as f64);
    let progress = TrainingProgress::new(args.quiet, label, plan);
    let mut watcher = Watcher { progress, laps: Vec::new() };
    let inputs = MixtureInputs { heldout: Some(heldout), ..Default::default() };
    let beside =
        Beside { observer: Some(&mut watcher), interrupt: Some(interrupt::listen(args.quiet)), ..Default::default() };
    let fitted = fit_mixture_with(source, &config, inputs, beside)?;
    Ok(Shown { fitted, laps: std::mem::take(&mut watcher.laps) })
}

struct Watcher {
    progress: TrainingProgress,
    laps: Vec<Vec<(f64, f64)>>,
}

impl Observer for Watcher {
    fn step(&mut self, info: &StepInfo) -> Result<()> {
        if let Some(objective) = info.objective.filter(|_| info.ends_lap) {
            self.laps.resize(info.run + 1, Vec::new());
            self.laps[info.run].push((info.seconds, objective.total()));
        }
        self.progress.step(info)
    }
}
