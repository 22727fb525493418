//! `lsparse score`: the log likelihood of rows under a model.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use lsparse::backend::{DeviceChoice, with_threads};
use lsparse::data::{AtomicFile, write_npy_f64};
use lsparse::likelihood::Estimate;
use lsparse::math::agreement::Agreement;
use lsparse::training::rules::count_empty;
use lsparse::{AnyModel, Error, Result};
use serde::Serialize;

use crate::assign::{chosen_place, hard_labels};
use crate::data_args::DataArgs;
use crate::format::{grouped, significant};
use crate::group_args::GroupArgs;
use crate::labels::{self, read_labels};
use crate::stdin::Input;
use crate::topics::{self, TextArgs};
use crate::{output, parse, sequence};

/// Log likelihood of rows, or of held-out words of documents, under a model.
///
/// Of a mixture: the mean over rows of log p(x), under vb the posterior predictive, else the density at the estimates.
/// BIC and AIC count the free parameters of a point estimate, so they are given for models trained with map or ml; a
/// posterior (vb) weighs its complexity in its objective (lsparse info), which takes their place.
///
/// Of a hidden Markov model: the mean over steps of log p(x | the steps before it in its sequence), also without the first
/// step of each sequence: how well the next step is foretold.
///
/// Of a topic model: document completion, the mean log probability of the tokens of a fifth of each document's words
/// given the others, and perplexity; and for the ten most probable words of each topic, coherence (NPMI and UMass,
/// over the same documents) and diversity. Pairs with a word that no reference document has are left out of
/// coherence, and how many such words there are is said.
///
/// With --labels, how well the most probable clusters (or topics) of the rows agree with known classes: normalised mutual
/// information, adjusted Rand index and purity.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES:
  lsparse score model.safetensors test.npy
  lsparse score model.safetensors test.npy --per-row scores.npy    # the lowest are the anomalies
  lsparse score model.safetensors photos/ --json
  lsparse score h.safetensors test.npy --groups lengths.npy        # sequences
  lsparse score topics.safetensors test-corpus
  lsparse score topics.safetensors test-corpus --per-row scores.csv     # one line a document
  lsparse score topics.safetensors new.txt --reference corpus --json    # text, one document a line
  lsparse score topics.safetensors test-corpus --alpha 5           # the same topics, documents of more of them
  lsparse score model.safetensors data.npy --labels classes.txt    # one class a line, or a .npy array")]
pub struct ScoreArgs {
    /// A model file.
    #[arg(value_name = "MODEL")]
    pub model: PathBuf,
    /// Rows to score, in any format that training reads; for topics a corpus folder or raw text; - for standard input.
    #[arg(value_name = "DATA")]
    pub data: PathBuf,
    /// Share of each document's words that is held out [default: 0.2].
    #[arg(long, value_name = "SHARE", value_parser = parse::share, help_heading = "Topic models")]
    pub share: Option<f64>,
    /// Seed of the choice of these words: compare models by the same one [default: 0].
    #[arg(long, value_name = "N", help_heading = "Topic models")]
    pub seed: Option<u64>,
    /// Documents that coherence is measured on [default: DATA].
    #[arg(long, value_name = "CORPUS", help_heading = "Topic models")]
    pub reference: Option<PathBuf>,
    /// Concentration of a document's topics in total, in place of the model's: scores depend on it, and documents of many
    /// topics want more. Topics keep their shares of it [default: the model's].
    #[arg(long, value_name = "NUMBER", value_parser = parse::number, help_heading = "Topic models")]
    pub alpha: Option<f64>,
    /// Known classes of the rows or documents, to compare the most probable clusters or topics with: text with one a line,
    /// or a .npy array.
    #[arg(long, value_name = "FILE")]
    pub labels: Option<PathBuf>,
    /// Threads; the result is the same with any number [default: one a core].
    #[arg(long, value_name = "N", value_parser = parse::threads)]
    pub threads: Option<usize>,
    /// What works on the rows of a mixture or the documents of topics: auto (a GPU where there is one and the work is large), cpu, cuda, or cuda:1 for the
    /// second GPU and so on.
    #[arg(long, value_name = "DEVICE", value_parser = DeviceChoice::parse)]
    pub device: Option<DeviceChoice>,
    /// Rows may have missing values (NaN; in text files also empty fields, NA, N/A, null and ?), whichever way the model was
    /// trained: of mixtures those of gauss and diag-gauss; of sequences whole rows, steps that nothing is known of, whatever
    /// the likelihood.
    #[arg(long)]
    pub missing: bool,
    #[command(flatten)]
    pub reading: DataArgs,
    #[command(flatten)]
    pub groups: GroupArgs,
    #[command(flatten)]
    pub text: TextArgs,
    /// Write the log likelihood of every row here, or the mean log probability of every document's held-out tokens, NaN
    /// (.npy) or nothing (.csv) for documents that are too short to score.
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub per_row: Option<PathBuf>,
    /// Print JSON.
    #[arg(long, help_heading = "Output")]
    pub json: bool,
}

#[derive(Serialize)]
struct Scores {
    mean_log_likelihood: f64,
    total_log_likelihood: f64,
    rows: usize,
    clusters: usize,
    empty_clusters: usize,
    parameters: usize,
    /// Criteria count the parameters of a point estimate; a posterior has its objective for that.
    bic: Option<f64>,
    aic: Option<f64>,
    /// Why there are no criteria, where there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    no_criteria: Option<&'static str>,
    /// With the labels.
    #[serde(skip_serializing_if = "Option::is_none")]
    agreement: Option<Agreement>,
}

/// Why a posterior has no BIC and AIC.
pub const NO_CRITERIA: &str =
    "BIC and AIC are for point estimates (map, ml); compare posteriors (vb) by their objective";

impl ScoreArgs {
    /// Refuse the options that are for topics.
    fn refuse_topics(&self, model: &str) -> Result<()> {
        let foreign = [
            ("share", self.share.is_some()),
            ("seed", self.seed.is_some()),
            ("reference", self.reference.is_some()),
            ("alpha", self.alpha.is_some()),
        ];
        topics::refuse_given(&foreign, model)
    }
}

pub fn run(args: &ScoreArgs) -> Result<()> {
    with_threads(args.threads, || score(args))?
}

fn score(args: &ScoreArgs) -> Result<()> {
    let model = match AnyModel::load(&args.model)? {
        AnyModel::Mixture(model) => model,
        AnyModel::Sequence(model) => {
            args.refuse_topics("a hidden Markov model")?;
            topics::refuse_given(&[("device", args.device.is_some())], "a hidden Markov model")?;
            return sequence::score::run(args, *model);
        }
        AnyModel::Topics(model) => {
            topics::refuse_given(&args.groups.given(), "topics")?;
            return topics::score::run(args, *model);
        }
    };
    topics::refuse_given(&args.groups.given(), "a mixture")?;
    args.refuse_topics("a mixture")?;
    topics::refuse_given(&args.text.given(), "a mixture")?;
    let per_row = args.per_row.as_deref().map(|path| check_per_row(args, path)).transpose()?;
    let model = if args.missing { model.allowing_missing()? } else { *model };
    let data = Input::open(&args.data, ".csv")?;
    args.reading.check_patches(&[data.path()])?;
    let source = args.reading.open(data.path(), model.config.missing)?;
    let labels = args.labels.as_deref().map(|path| read_labels(path, source.num_rows())).transpose()?;
    let place = chosen_place(&model, args.device, source.as_ref())?;
    let rows = model.score_at(source.as_ref(), &place)?;
    let agreement = labels.map(|labels| Ok(Agreement::of(&labels, &hard_labels(&model, source.as_ref(), &place)?)));
    let agreement = agreement.transpose()?;
    if let Some((path, format)) = per_row {
        match format {
            "npy" => write_npy_f64(path, 1, &rows.log_density)?,
            _ => write_csv(path, "row,log_likelihood", &rows.log_density, |row| row.to_string())?,
        }
    }
    let is_point = model.config.estimate != Estimate::Posterior;
    let scores = Scores {
        mean_log_likelihood: rows.mean(),
        total_log_likelihood: rows.total(),
        rows: rows.log_density.len(),
        clusters: model.num_clusters(),
        empty_clusters: count_empty(&model.total.counts),
        parameters: rows.num_parameters,
        bic: is_point.then(|| rows.bic()),
        aic: is_point.then(|| rows.aic()),
        no_criteria: (!is_point).then_some(NO_CRITERIA),
        agreement,
    };
    if args.json {
        return output::print_json(&scores);
    }
    let mut text = format!("mean log likelihood   {}\n", significant(scores.mean_log_likelihood, 9));
    text += &format!("total                 {}\n", significant(scores.total_log_likelihood, 9));
    text += &format!("rows                  {}\n", grouped(scores.rows));
    if let (Some(bic), Some(aic)) = (scores.bic, scores.aic) {
        text += &format!("BIC                   {}\n", significant(bic, 9));
        text += &format!("AIC                   {}\n", significant(aic, 9));
        text += &format!("parameters            {}\n", grouped(scores.parameters));
    }
    if let Some(reason) = scores.no_criteria {
        text += &format!("BIC, AIC              none: {reason}\n");
    }
    text += &format!("clusters              {}, of which {} empty\n", scores.clusters, scores.empty_clusters);
    text += &scores.agreement.as_ref().map(labels::lines).unwrap_or_default();
    if let Some((path, _)) = per_row {
        text += &format!("scores of the rows    {}\n", path.display());
    }
    output::print(&text)
}

pub fn check_per_row<'a>(args: &ScoreArgs, path: &'a Path) -> Result<(&'a Path, &'static str)> {
    let format = output::check_extension("per-row", path, &["npy", "csv"])?;
    let inputs: Vec<&Path> =
        [Some(&args.model), Some(&args.data), args.labels.as_ref()].into_iter().flatten().map(AsRef::as_ref).collect();
    output::check_not_input("per-row", path, &inputs)?;
    output::check_writable(path)?;
    Ok((path, format))
}

/// Write a line a score with what it is the score of; a score that is not a number leaves its field empty.
pub fn write_csv(path: &Path, header: &str, scores: &[f64], name: impl Fn(usize) -> String) -> Result<()> {
    let mut file = AtomicFile::create(path)?;
    let write = |file: &mut AtomicFile| -> std::io::Result<()> {
        writeln!(file, "{header}")?;
        scores.iter().enumerate().try_for_each(|(row, score)| match score.is_nan() {
            true => writeln!(file, "{},", name(row)),
            false => writeln!(file, "{},{score}", name(row)),
        })
    };
    write(&mut file).map_err(|source| Error::Unwritable { path: path.to_owned(), source })?;
    file.finish()
}
