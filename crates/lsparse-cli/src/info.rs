//! `lsparse info`: what a model is, how it was trained, and its largest clusters or topics.

use std::path::PathBuf;

use clap::Args;
use lsparse::training::rules::{Merged, TrainingRecord, count_empty};
use lsparse::{AnyModel, MixtureConfig, MixtureModel, Result, ScheduleKind};
use serde::Serialize;

use crate::data_args::DataArgs;
use crate::examples::{Example, examples, read_names};
use crate::format::{counted, grouped, significant, table};
use crate::output;
use crate::sequence;
use crate::topics;

/// Columns named for a cluster of counts or bits.
const TOP_COLUMNS: usize = 5;

/// What a model is, how it was trained, its largest clusters or topics.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES:
  lsparse info model.safetensors
  lsparse info model.safetensors --top 3 --json
  lsparse info model.safetensors data.csv --examples 5 --names names.txt    # typical rows of each cluster")]
pub struct InfoArgs {
    /// A model file.
    #[arg(value_name = "MODEL")]
    pub model: PathBuf,
    /// Rows to take examples of each cluster from, in any format that training reads.
    #[arg(value_name = "DATA")]
    pub data: Option<PathBuf>,
    /// How many rows of DATA to name for each cluster: those at its middle; of clusters without means, those that are most
    /// clearly of it.
    #[arg(long, value_name = "N", default_value_t = 3, requires = "data")]
    pub examples: usize,
    /// Names of the rows of DATA, one a line [default: those that documents and images have].
    #[arg(long, value_name = "FILE", requires = "data")]
    pub names: Option<PathBuf>,
    /// How many of the largest clusters or topics to show.
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub top: usize,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub reading: DataArgs,
}

/// A cluster in a few numbers; which ones depends on the family.
#[derive(Serialize)]
struct ClusterNote {
    cluster: usize,
    weight: f64,
    count: f64,
    /// Root of the mean variance of the columns.
    #[serde(skip_serializing_if = "Option::is_none")]
    std: Option<f64>,
    /// Length of the mean.
    #[serde(skip_serializing_if = "Option::is_none")]
    mean_norm: Option<f64>,
    /// The most probable columns, from 0, and their probabilities.
    #[serde(skip_serializing_if = "Option::is_none")]
    top_columns: Option<Vec<(usize, f64)>>,
    /// Typical rows.
    #[serde(skip_serializing_if = "Option::is_none")]
    examples: Option<Vec<Example>>,
}

#[derive(Serialize)]
struct Info {
    kind: &'static str,
    dim: usize,
    clusters: usize,
    empty_clusters: usize,
    rows: usize,
    #[serde(flatten)]
    trained: Trained,
    /// Of the stick, where K was found.
    #[serde(skip_serializing_if = "Option::is_none")]
    gamma: Option<f64>,
    /// Root of the mean variance of the prior, where its scale was learned.
    #[serde(skip_serializing_if = "Option::is_none")]
    prior_std: Option<f64>,
    /// Rows that the prior of means is worth, where that was learned.
    #[serde(skip_serializing_if = "Option::is_none")]
    prior_kappa: Option<f64>,
    /// Its degrees of freedom, where they were learned.
    #[serde(skip_serializing_if = "Option::is_none")]
    prior_nu: Option<f64>,
    config: MixtureConfig,
    largest: Vec<ClusterNote>,
}

pub fn run(args: &InfoArgs) -> Result<()> {
    let model = match AnyModel::load(&args.model)? {
        AnyModel::Mixture(model) => model,
        AnyModel::Sequence(model) => return sequence::info::run(args, &model),
        AnyModel::Topics(model) => return topics::info::run(args, &model),
    };
    let mut info = describe(&model, args.top);
    if let Some(path) = &args.data {
        args.reading.check_patches(&[path])?;
        let source = args.reading.open(path, model.config.missing)?;
        let names = args.names.as_deref().map(|names| read_names(names, source.num_rows())).transpose()?;
        let mut found = examples(&model, source.as_ref(), names.as_deref(), args.examples)?;
        info.largest.iter_mut().for_each(|note| note.examples = Some(std::mem::take(&mut found[note.cluster])));
    }
    if args.json {
        return output::print_json(&info);
    }
    output::print(&text(&args.model.display().to_string(), &info))
}

fn describe(model: &MixtureModel, top: usize) -> Info {
    let mut order: Vec<usize> = (0..model.num_clusters()).collect();
    // Centres alone have no weights of their own: then rows decide.
    let size = |k: usize| (model.weights[k], model.total.counts[k]);
    order.sort_by(|&a, &b| size(b).0.total_cmp(&size(a).0).then(size(b).1.total_cmp(&size(a).1)));
    let training = &model.training;
    Info {
        kind: "mixture",
        dim: model.dim(),
        clusters: model.num_clusters(),
        empty_clusters: count_empty(&model.total.counts),
        rows: training.observations,
        trained: Trained::of(training),
        gamma: model.gamma(),
        prior_std: learned_std(model),
        prior_kappa: Some(model.prior.kappa).filter(|_| model.config.kappa.is_none()),
        prior_nu: Some(model.prior.nu).filter(|_| model.config.nu.is_none()),
        config: model.config.clone(),
        largest: order.iter().take(top).map(|&k| note(model, k)).collect(),
    }
}

/// Root of the mean variance of a prior whose scale was learned, in the units of the data.
fn learned_std(model: &MixtureModel) -> Option<f64> {
    let learned = model.config.prior_scale.is_none() && model.units.is_none();
    let variance = Some(&model.prior.variance).filter(|variance| learned && !variance.is_empty())?;
    Some((variance.iter().sum::<f64>() / variance.len() as f64).sqrt())
}

fn note(model: &MixtureModel, k: usize) -> ClusterNote {
    let dim = model.dim();
    let of_cluster = |name: &str| {
        model.array(name).map(|array| {
            // Clusters may share what all have.
            let sharers = if name == "covariances" && array.shape.len() == 2 { 1 } else { model.num_clusters() };
            let width = array.values.len() / sharers;
            &array.values[k.min(sharers - 1) * width..][..width]
        })
    };
    let average = |variances: &[f64]| variances.iter().sum::<f64>() / variances.len() as f64;
    let of_matrix = |c: &[f64]| average(&c.iter().step_by(dim + 1).copied().collect::<Vec<f64>>());
    let mean_variance = of_cluster("variances").map(average).or_else(|| of_cluster("covariances").map(of_matrix));
    let top_columns = of_cluster("probabilities").or_else(|| of_cluster("rates")).map(|values| {
        let mut columns: Vec<(usize, f64)> = values.iter().copied().enumerate().collect();
        columns.sort_by(|a, b| b.1.total_cmp(&a.1));
        columns.truncate(TOP_COLUMNS);
        columns
    });
    ClusterNote {
        cluster: k,
        weight: model.weights[k],
        count: model.total.counts[k],
        std: mean_variance.map(f64::sqrt),
        mean_norm: of_cluster("means").map(|mean| mean.iter().map(|m| m * m).sum::<f64>().sqrt()),
        top_columns,
        examples: None,
    }
}

/// How a training went, whatever it was of.
#[derive(Serialize)]
pub struct Trained {
    laps: usize,
    steps: u64,
    stopped_by: String,
    objective: f64,
    objective_data: f64,
    objective_entropy: f64,
    objective_alloc: f64,
    /// How it came to fewer clusters or topics afterwards.
    #[serde(skip_serializing_if = "Option::is_none")]
    merged: Option<Merged>,
}

impl Trained {
    pub fn of(training: &TrainingRecord) -> Self {
        Trained {
            laps: training.laps,
            steps: training.steps,
            stopped_by: training.stopped_by.clone(),
            objective: training.objective,
            objective_data: training.objective_data,
            objective_entropy: training.objective_entropy,
            objective_alloc: training.objective_alloc,
            merged: training.merged.clone(),
        }
    }

    /// The line that says how it was trained on `what`.
    pub fn line(&self, schedule: &ScheduleKind, what: &str, batches: Option<usize>, seed: u64) -> String {
        let batches = counted(batches.unwrap_or(1), "batch", "batches");
        let laps = if self.laps == 1 { "lap" } else { "laps" };
        let schedule = setting(schedule);
        format!(
            "  trained     {schedule} on {what} in {batches}, seed {seed}, {} {laps}, stopped by {}\n",
            self.laps, self.stopped_by
        )
    }

    /// The line that says how many `things` of it were merged or given up after the training.
    pub fn merging(&self, things: &str) -> String {
        self.merged.as_ref().map_or_else(String::new, |Merged { from, to, changes, gain }| {
            let changes = counted(*changes, "change", "changes");
            let gain = significant(*gain, 6);
            format!("  merged      from {from} {things} to {to} by {changes} after the training, gaining {gain} nats\n")
        })
    }

    /// The line of the objective and its terms.
    pub fn objective(&self) -> String {
        format!(
            "  objective   {} = data {} + entropy {} + allocation {}\n",
            significant(self.objective, 9),
            significant(self.objective_data, 9),
            significant(self.objective_entropy, 6),
            significant(self.objective_alloc, 6),
        )
    }
}

/// A setting by its name.
pub fn setting<T: Serialize>(value: &T) -> String {
    let value = serde_json::to_value(value).unwrap_or_default();
    value.as_str().map(str::to_owned).unwrap_or_default()
}

fn text(name: &str, info: &Info) -> String {
    let config = &info.config;
    let mut text = format!("{name}: a mixture of {} {} clusters", info.clusters, config.likelihood.name());
    text += &format!(" over {} columns, {} of them empty\n", grouped(info.dim), info.empty_clusters);
    let estimate = setting(&config.estimate);
    text += &format!("  sparsity    L = {} of K = {}\n", config.sparsity.within(info.clusters), info.clusters);
    if config.method.name() != "lsparse" {
        text += &format!("  method      {}\n", config.method.name());
    }
    text += &match (info.gamma, config.gamma.is_some()) {
        (None, _) => format!("  estimate    {estimate}, alpha {}\n", config.alpha),
        (Some(gamma), given) => format!(
            "  estimate    {estimate}, K found while training, gamma {}{}\n",
            significant(gamma, 4),
            if given { "" } else { " (learned)" }
        ),
    };
    let of_std = info.prior_std.map(|std| format!("variances about {}^2", significant(std, 4)));
    let of_means = info.prior_kappa.map(|kappa| format!("a mean worth {} of a row", significant(kappa, 4)));
    let of_shape = info.prior_nu.map(|nu| format!("{} degrees of freedom", significant(nu, 4)));
    let learned: Vec<String> = of_std.into_iter().chain(of_means).chain(of_shape).collect();
    if !learned.is_empty() {
        text += &format!("  prior       {} (learned)\n", learned.join(", "));
    }
    if config.standardize {
        text += "  columns     worked on in units of their own (--standardize), shown in those of the data\n";
    }
    let rows = format!("{} rows", grouped(info.rows));
    text += &info.trained.line(&config.schedule, &rows, config.batches, config.seed);
    text += &info.trained.merging("clusters");
    text += &info.trained.objective();
    if info.largest.is_empty() {
        return text;
    }
    text += "\nlargest clusters (clusters and columns count from 0)\n";
    let mut header = vec!["cluster", "weight", "rows"];
    let first = &info.largest[0];
    header.extend(first.mean_norm.map(|_| "|mean|"));
    header.extend(first.std.map(|_| "std"));
    header.extend(first.top_columns.as_ref().map(|_| "most probable columns"));
    let rows: Vec<Vec<String>> = info.largest.iter().map(cells).collect();
    text += &table(&header, &rows);
    if first.examples.is_some() {
        text += "\ntypical rows of each (rows count from 0)\n";
        let rows =
            |note: &ClusterNote| note.examples.iter().flatten().map(Example::text).collect::<Vec<_>>().join("  ");
        let lines = info.largest.iter().map(|note| format!("  {:>7}  {}\n", note.cluster, rows(note)));
        text.extend(lines);
    }
    text
}

fn cells(note: &ClusterNote) -> Vec<String> {
    let mut row = vec![note.cluster.to_string(), format!("{:.4}", note.weight), format!("{:.1}", note.count)];
    row.extend(note.mean_norm.map(|norm| significant(norm, 4)));
    row.extend(note.std.map(|std| significant(std, 4)));
    row.extend(note.top_columns.as_ref().map(|columns| {
        let pairs: Vec<String> = columns.iter().map(|(column, p)| format!("{column} ({p:.3})")).collect();
        pairs.join("  ")
    }));
    row
}
