//! The options of `lsparse fit mixture`.

use std::path::PathBuf;

use clap::Args;
use lsparse::likelihood::{Estimate, LikelihoodKind, PriorShape};
use lsparse::settings::SearchKind;
use lsparse::settings::{BuiltInSelection, MixtureMethod};
use lsparse::{History, Init, Precision};
use serde::{Serialize, Serializer};

use super::super::args::{RunArgs, RunsSettings, ScheduleSettings, StopSettings};
use crate::data_args::DataArgs;
use crate::parse::{self, Sparsity};

/// Train a mixture on rows of numbers.
#[derive(Args, Debug)]
#[command(
    allow_negative_numbers = true,
    after_help = "\
EXAMPLES:
  lsparse fit mixture data.npy -k 50 --out model.safetensors
  lsparse fit mixture counts.npz --likelihood multinomial -k 100 -l 4 --estimate map
  lsparse fit mixture photos/ --likelihood zero-mean-gauss -k 200 -l 8 --batches 10 --laps 10 \\
      --heldout test-photos/ --out patches.safetensors --trace run.jsonl
  lsparse fit mixture patches.npy --likelihood zero-mean-gauss -k 5000 --search neighbours --out many.safetensors
  lsparse fit mixture data.npy -k 50 --method kmeans --out centres.safetensors
  lsparse fit mixture more.npy --from model.safetensors --history keep --out model.safetensors
  lsparse fit mixture large.npy -k 500 --checkpoint run.ckpt --resume --memo-memory 1GB --out model.safetensors
  lsparse fit mixture data.csv --config run.json --seed 1 --quiet --json

Training ends at the first of --laps, --tolerance, --count-tolerance, --max-seconds and --early-stopping.
Ctrl-C ends it after the current batch, and the model is written all the same.
With --checkpoint a run that was killed or interrupted goes on with --resume and the same settings, and so does one
that has ended, with more --laps say: the rules for stopping may change."
)]
pub struct MixtureArgs {
    /// A .npy, .npz, .csv, .tsv or .txt file (text may be gzipped), or a folder of images.
    #[arg(value_name = "DATA")]
    pub data: PathBuf,

    #[command(flatten)]
    pub settings: Settings,

    /// Go on from this model: it gives likelihood, K, L, estimate and prior, unless they are given here. The rows given
    /// now take the place of those it has counted, unless --history keep is given.
    #[arg(long, value_name = "MODEL", help_heading = "Start", conflicts_with_all = ["init", "init_lloyd", "init_rows"])]
    pub from: Option<PathBuf>,

    #[command(flatten)]
    pub reading: DataArgs,
    /// One weight a row: a .npy of shape (rows,) or (rows, 1) or a text file with one column [default: all 1].
    #[arg(long, value_name = "FILE", help_heading = "Data")]
    pub row_weights: Option<PathBuf>,
    /// Rows to score at the end of every lap, in any format that DATA may have.
    #[arg(long, value_name = "DATA", help_heading = "Data")]
    pub heldout: Option<PathBuf>,

    #[command(flatten)]
    pub run: RunArgs,
}

/// L as given for training.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SparsityChoice {
    Given(Sparsity),
    Auto,
}

impl SparsityChoice {
    fn parse(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(SparsityChoice::Auto),
            _ => Sparsity::parse(text).map(SparsityChoice::Given).map_err(|message| format!("{message}, or auto")),
        }
    }
}

impl Serialize for SparsityChoice {
    /// "auto" is no number: the tolerance asks for it.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            SparsityChoice::Given(sparsity) => sparsity.serialize(serializer),
            SparsityChoice::Auto => serializer.serialize_none(),
        }
    }
}

/// The settings of the library by their own names; what is not given is left to the file, the model or the default.
#[derive(Args, Debug, Serialize)]
pub struct Settings {
    #[command(flatten)]
    #[serde(flatten)]
    pub model: ModelSettings,
    #[command(flatten)]
    #[serde(flatten)]
    pub prior: PriorSettings,
    #[command(flatten)]
    #[serde(flatten)]
    pub methods: MethodSettings,
    #[command(flatten)]
    #[serde(flatten)]
    pub schedule: ScheduleSettings,
    #[command(flatten)]
    #[serde(flatten)]
    pub batches: BatchSettings,
    #[command(flatten)]
    #[serde(flatten)]
    pub start: StartSettings,
    #[command(flatten)]
    #[serde(flatten)]
    pub runs: RunsSettings,
    #[command(flatten)]
    #[serde(flatten)]
    pub stop: StopSettings,
    /// Precision that rows are worked on in; sums are always 64 bits.
    #[arg(long, value_name = "TYPE", help_heading = "Data", value_parser = parse::names::<Precision>(&[
        ("auto", "that of the data"), ("f32", "32 bits, about twice as fast"), ("f64", "64 bits")]))]
    pub precision: Option<Precision>,
}

#[derive(Args, Debug, Serialize)]
#[command(next_help_heading = "Model")]
#[serde(rename_all = "kebab-case")]
pub struct ModelSettings {
    /// How the mixture is trained.
    #[arg(long, value_name = "NAME", value_parser = parse::names::<MixtureMethod>(&[
        ("lsparse", "L-sparse responsibilities"),
        ("sparse-em", "dense responsibilities, of which most laps renew the L largest (Neal and Hinton 1998)"),
        ("truncation", "L clusters chosen before weights are computed (Luecke and Eggert 2010)"),
        ("kmeans", "nearest centres; saved as diag-gauss clusters of one variance"),
        ("dp-means", "k-means that opens clusters, at most K (Kulis and Jordan 2012)"),
        ("hard-em", "the best cluster alone, with --estimate map or ml [default: map]")]))]
    pub method: Option<MixtureMethod>,
    /// What a cluster looks like.
    #[arg(long, value_name = "NAME", value_parser = parse::likelihoods())]
    pub likelihood: Option<LikelihoodKind>,
    /// Rows may have missing values (NaN; in text files also empty fields and NA), which gauss and diag-gauss integrate
    /// out.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub missing: Option<bool>,
    /// Values above this number are ones and all others zeros, now and whenever the model is used [default: values count
    /// as they are].
    #[arg(long, value_name = "NUMBER", value_parser = parse::number)]
    pub binarize: Option<f64>,
    /// K, the number of clusters [default: none, it must be given].
    #[arg(long, short = 'k', value_name = "K")]
    pub clusters: Option<usize>,
    /// L, the number of clusters that a row keeps, from 1 to K, "K" for all, or "auto" for as few as lose less than
    /// --sparsity-tolerance [default: 8, or K if smaller].
    #[arg(long, short = 'l', value_name = "L", value_parser = SparsityChoice::parse)]
    pub sparsity: Option<SparsityChoice>,
    /// Share of its responsibility that a row may lose on average under --sparsity auto; L is checked on a sample of
    /// rows before every lap, and may only rise [default: 0.01].
    #[arg(long, value_name = "SHARE", value_parser = parse::number)]
    pub sparsity_tolerance: Option<f64>,
    /// How the L clusters of a row are found; dense and exact give the same model.
    #[arg(long, value_name = "HOW", value_parser = parse::names::<SearchKind>(&[
        ("auto", "exact where it is faster, dense elsewhere"),
        ("dense", "all weights of all rows"),
        ("exact", "only weights that a bound does not rule out (Gaussians but for tied ones; dense for the others)"),
        ("neighbours", "the row's last clusters, those near them and a few random ones: cost does not grow with K")]))]
    pub search: Option<SearchKind>,
    /// How clusters are estimated.
    #[arg(long, value_name = "HOW", value_parser = parse::names::<Estimate>(&[
        ("vb", "full posterior (variational Bayes)"),
        ("map", "maximum a posteriori"),
        ("ml", "maximum likelihood (EM)")]))]
    pub estimate: Option<Estimate>,
}

#[derive(Args, Debug, Serialize)]
#[command(next_help_heading = "Prior")]
#[serde(rename_all = "kebab-case")]
pub struct PriorSettings {
    /// Concentration of the cluster frequencies, Dirichlet(alpha/K).
    #[arg(long, value_name = "NUMBER", value_parser = parse::number)]
    pub alpha: Option<f64>,
    /// Pseudo-count of each category (multinomial) or outcome (bernoulli).
    #[arg(long, value_name = "NUMBER", value_parser = parse::number)]
    pub lambda: Option<f64>,
    /// Degrees of freedom of the covariance prior, more than columns + 1, or 2 for diag-gauss [default: one more
    /// than that].
    #[arg(long, value_name = "NUMBER", value_parser = parse::number)]
    pub nu: Option<f64>,
    /// Pseudo-count of the prior mean.
    #[arg(long, value_name = "NUMBER", value_parser = parse::number)]
    pub kappa: Option<f64>,
    /// Variance that the prior expects of a cluster, in units of the variance that the data has [default: 0.1 where
    /// clusters have as many rows as columns or fewer, less where they have more, down to 0.001].
    #[arg(long, value_name = "NUMBER", value_parser = parse::number)]
    pub prior_scale: Option<f64>,
    /// Which variance of the data that is.
    #[arg(long, value_name = "SHAPE", value_parser = parse::names::<PriorShape>(&[
        ("columns", "each column's own"),
        ("isotropic", "the average over the columns, the same for all: as in the paper")]))]
    pub prior_shape: Option<PriorShape>,
    /// Smallest variance under --estimate ml, in the same units.
    #[arg(long, value_name = "NUMBER", value_parser = parse::number)]
    pub variance_floor: Option<f64>,
}

#[derive(Args, Debug, Serialize)]
#[command(next_help_heading = "Methods")]
#[serde(rename_all = "kebab-case")]
pub struct MethodSettings {
    /// Laps of sparse-em from one full lap to the next [default: 5].
    #[arg(long, value_name = "N")]
    pub refresh: Option<usize>,
    /// Smallest responsibility that sparse-em renews among the L largest; with -l K, all above it are renewed
    /// [default: 0].
    #[arg(long, value_name = "SHARE", value_parser = parse::share)]
    pub threshold: Option<f64>,
    /// What truncation chooses the L clusters of a row by.
    #[arg(long, value_name = "NAME", value_parser = parse::names::<BuiltInSelection>(&[
        ("auto", "means for Gaussians, products for multinomial and bernoulli"),
        ("means", "the nearest means by Euclidean distance"),
        ("products", "the largest products of row and probabilities: clusters that share its words")]))]
    pub selection_function: Option<BuiltInSelection>,
    /// Squared distance from all centres at which dp-means opens a cluster [default: one that opens about K].
    #[arg(long, value_name = "NUMBER", value_parser = parse::number)]
    pub penalty: Option<f64>,
}

#[derive(Args, Debug, Serialize)]
#[command(next_help_heading = "Schedule")]
#[serde(rename_all = "kebab-case")]
pub struct BatchSettings {
    /// Number of batches [default: one for every 2,000 rows, or 10 K if that is more; at most 20].
    #[arg(long, value_name = "N", conflicts_with = "rows_per_batch")]
    pub batches: Option<usize>,
    /// Rows a batch, instead of a number of batches [default: none].
    #[arg(long, value_name = "N")]
    pub rows_per_batch: Option<usize>,
}

#[derive(Args, Debug, Serialize)]
#[command(next_help_heading = "Start")]
#[serde(rename_all = "kebab-case")]
pub struct StartSettings {
    /// How the first clusters are found.
    #[arg(long, value_name = "HOW", value_parser = parse::names::<Init>(&[
        ("auto", "the best of k-means, k-means in units of standard deviations and bregman; bregman where clusters have no means"),
        ("bregman", "k-means++ under the likelihood's own divergence"),
        ("kmeans", "k-means++ with Euclidean distance"),
        ("examples", "rows drawn at random"),
        ("responsibilities", "random responsibilities")]))]
    pub init: Option<Init>,
    /// Passes over the sample that gather rows around the seeds; 0 starts from the seeds alone [default: 1; up to 10 of
    /// the k-means of auto].
    #[arg(long, value_name = "N")]
    pub init_lloyd: Option<usize>,
    /// Rows of the sample that seeds are drawn from; 0 for the default [default: 100 a cluster, at least 10,000; for the
    /// contest of auto 250 a cluster, at least 10,000, fewer where K or the columns are many].
    #[arg(long, value_name = "N")]
    pub init_rows: Option<usize>,
    /// What becomes of what the model of --from has counted [default: replace].
    #[arg(long, value_name = "WHAT", value_parser = parse::names::<History>(&[
        ("keep", "it stays, the new rows come on top"),
        ("replace", "it is where training starts, the new rows take its place")]))]
    pub history: Option<History>,
}
