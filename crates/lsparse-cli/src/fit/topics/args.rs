//! The options of `lsparse fit topics`.

use std::path::PathBuf;

use clap::Args;
use lsparse::History;
use lsparse::allocation::AlphaRule;
use lsparse::likelihood::Estimate;
use lsparse::settings::{Selection, TopicInit, TopicMethod};
use serde::Serialize;

use super::super::args::{RunArgs, RunsSettings, ScheduleSettings, StopSettings};
use crate::parse::{self, Sparsity};

/// Train topics on the documents of a corpus.
///
/// A topic is a list of words with probabilities, and a document a mix of a few topics: latent Dirichlet allocation
/// in which every token keeps the L most probable of the K topics.
#[derive(Args, Debug)]
#[command(
    allow_negative_numbers = true,
    after_help = "\
EXAMPLES:
  lsparse corpus build articles/ --out corpus                  from text to a corpus
  lsparse fit topics corpus -k 100 --out topics.safetensors
  lsparse fit topics corpus -k 200 -l 8 --schedule memoized --batches 5 --laps 10 --seed 0 --threads 2 \\
      --heldout test-corpus --out topics.safetensors --trace run.jsonl
  lsparse fit topics corpus -k 50 --seed-words seeds.txt --learn-alpha asymmetric --out topics.safetensors
  lsparse fit topics new-corpus --from topics.safetensors --out topics.safetensors
  lsparse fit topics corpus -k 100 --method sparse-lda --laps 500 --out gibbs.safetensors
  lsparse fit topics large-corpus -k 500 --checkpoint run.ckpt --resume --memo-memory 1GB --out topics.safetensors
  lsparse fit topics corpus --config run.json --seed 1 --quiet --json
  lsparse topics topics.safetensors                            read the topics

Training ends at the first of --laps, --tolerance, --count-tolerance, --max-seconds and --early-stopping.
Ctrl-C ends it after the current batch, and the model is written all the same.
With --checkpoint a run that was killed or interrupted goes on with --resume and the same settings, and so does one
that has ended, with more --laps say: the rules for stopping may change."
)]
pub struct TopicsArgs {
    /// A corpus folder, as lsparse corpus build makes it.
    #[arg(value_name = "CORPUS")]
    pub corpus: PathBuf,

    #[command(flatten)]
    pub settings: TopicSettings,

    /// Words that pull a topic: one line a topic, words parted by blanks; the first line is topic 0's.
    #[arg(long, value_name = "FILE", help_heading = "Start")]
    pub seed_words: Option<PathBuf>,
    /// Go on from this model: it gives K, L, estimate, prior and document step; words new to it are added. The documents
    /// given now take the place of those it has counted, unless --history keep is given.
    #[arg(long, value_name = "MODEL", help_heading = "Start", conflicts_with_all = ["init", "init_lloyd"])]
    pub from: Option<PathBuf>,

    /// Documents to score at the end of every lap: another corpus folder; words are matched by name.
    #[arg(long, value_name = "CORPUS", help_heading = "Data")]
    pub heldout: Option<PathBuf>,

    #[command(flatten)]
    pub run: RunArgs,
}

/// The settings of the library by their own names; what is not given is left to the file, the model or the default.
#[derive(Args, Debug, Serialize)]
pub struct TopicSettings {
    #[command(flatten)]
    #[serde(flatten)]
    pub model: ModelSettings,
    #[command(flatten)]
    #[serde(flatten)]
    pub prior: PriorSettings,
    #[command(flatten)]
    #[serde(flatten)]
    pub documents: DocumentSettings,
    #[command(flatten)]
    #[serde(flatten)]
    pub sampling: SamplingSettings,
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
}

#[derive(Args, Debug, Serialize)]
#[command(next_help_heading = "Model")]
#[serde(rename_all = "kebab-case")]
pub struct ModelSettings {
    /// How topics are trained. Samplers give every token one topic and need hundreds of laps: set --laps.
    #[arg(long, value_name = "NAME", value_parser = parse::names::<TopicMethod>(&[
        ("lsparse", "L-sparse responsibilities"),
        ("sparse-lda", "collapsed Gibbs sampling in three buckets (Yao et al. 2009)"),
        ("alias-lda", "collapsed Gibbs sampling with stale alias tables (Li et al. 2014)"),
        ("light-lda", "cheap proposals from document and word in turn (Yuan et al. 2015)"),
        ("svi-gibbs", "stochastic training, documents by Gibbs samples (Mimno et al. 2012)")]))]
    pub method: Option<TopicMethod>,
    /// K, the number of topics.
    #[arg(long, short = 'k', value_name = "K")]
    pub topics: Option<usize>,
    /// L, the number of topics that a token keeps, from 1 to K, or "K" for all [default: 8, or K if smaller].
    #[arg(long, short = 'l', value_name = "L", value_parser = Sparsity::parse)]
    pub sparsity: Option<Sparsity>,
    /// How topics are estimated; documents always have a full posterior.
    #[arg(long, value_name = "HOW", value_parser = parse::names::<Estimate>(&[
        ("map", "maximum a posteriori"),
        ("vb", "full posterior (variational Bayes)")]))]
    pub estimate: Option<Estimate>,
}

#[derive(Args, Debug, Serialize)]
#[command(next_help_heading = "Prior")]
#[serde(rename_all = "kebab-case")]
pub struct PriorSettings {
    /// Concentration of a document's topics, Dirichlet(alpha/K).
    #[arg(long, value_name = "NUMBER", value_parser = parse::number)]
    pub alpha: Option<f64>,
    /// Whether alpha is learned.
    #[arg(long, value_name = "HOW", value_parser = parse::names::<AlphaRule>(&[
        ("fixed", "it stays as given"),
        ("symmetric", "one number for all topics is learned"),
        ("asymmetric", "a number a topic is learned"),
        ("direction", "a share a topic is learned, of the concentration as given")]))]
    pub learn_alpha: Option<AlphaRule>,
    /// Pseudo-count of every word in every topic.
    #[arg(long, value_name = "NUMBER", value_parser = parse::number)]
    pub lambda: Option<f64>,
}

#[derive(Args, Debug, Serialize)]
#[command(next_help_heading = "Documents")]
#[serde(rename_all = "kebab-case")]
pub struct DocumentSettings {
    /// Iterations a document at most.
    #[arg(long, value_name = "N")]
    pub doc_iterations: Option<usize>,
    /// A document rests when no topic's count in it changes by more than this.
    #[arg(long, value_name = "NUMBER", value_parser = parse::number)]
    pub doc_tolerance: Option<f64>,
    /// A topic with no more tokens than this in a document leaves it for good; no effect with L = K.
    #[arg(long, value_name = "NUMBER", value_parser = parse::number)]
    pub active_floor: Option<f64>,
    /// Topics a document starts with at most, those its words like best; 0 for no limit, no effect with L = K.
    #[arg(long, value_name = "N")]
    pub max_active: Option<usize>,
    /// When the L topics of a token are chosen: `end` (once, for what leaves the document), `always` (in every
    /// iteration), `paper` (in the first 5 and every 10th), or two numbers in place of those, as in 3,20.
    #[arg(long, value_name = "WHEN")]
    pub selection: Option<Selection>,
    /// Restart proposals a document at most, 0 for none: each of its topics is tried once; short documents need them.
    #[arg(long, value_name = "N")]
    pub restarts: Option<usize>,
    /// Start documents from their last visit.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub warm_start: Option<bool>,
}

#[derive(Args, Debug, Serialize)]
#[command(next_help_heading = "Sampling")]
#[serde(rename_all = "kebab-case")]
pub struct SamplingSettings {
    /// Laps of a sampler after which its statistics are averaged over laps [default: those of the last lap alone].
    #[arg(long, value_name = "LAPS")]
    pub burn_in: Option<usize>,
    /// Sweeps over a document of svi-gibbs, of which the first half is burn-in [default: 10].
    #[arg(long, value_name = "N")]
    pub samples: Option<usize>,
    /// Steps a token of alias-lda, or cycles of two steps of light-lda [default: 2].
    #[arg(long, value_name = "N")]
    pub mh_steps: Option<usize>,
    /// Tokens that a word's table of alias-lda or light-lda serves before it is made anew, at the latest with the next
    /// batch [default: 4 times its size]. Tables that are made anew from the state of the chain bend its distribution
    /// a little; 1 does not.
    #[arg(long, value_name = "N")]
    pub table_draws: Option<usize>,
}

#[derive(Args, Debug, Serialize)]
#[command(next_help_heading = "Schedule")]
#[serde(rename_all = "kebab-case")]
pub struct BatchSettings {
    /// Number of batches [default: 10, with --leave-out off one for every 250 documents and at most 10].
    #[arg(long, value_name = "N", conflicts_with = "docs_per_batch")]
    pub batches: Option<usize>,
    /// Documents a batch, instead of a number of batches [default: none].
    #[arg(long, value_name = "N")]
    pub docs_per_batch: Option<usize>,
    /// Whether memoized training works a batch out under topics without what the batch gave them at its last visit.
    /// `off` is the paper's algorithm, in which documents help to convince themselves.
    #[arg(long, value_name = "WHETHER", value_parser = parse::on_off())]
    pub leave_out: Option<bool>,
}

#[derive(Args, Debug, Serialize)]
#[command(next_help_heading = "Start")]
#[serde(rename_all = "kebab-case")]
pub struct StartSettings {
    /// How the first topics are found.
    #[arg(long, value_name = "HOW", value_parser = parse::names::<TopicInit>(&[
        ("auto", "random for sparse-lda, alias-lda and light-lda, else bregman"),
        ("bregman", "k-means++ over documents"),
        ("random", "random groups of documents, or random topics of tokens")]))]
    pub init: Option<TopicInit>,
    /// Passes that gather documents around the seeds.
    #[arg(long, value_name = "N")]
    pub init_lloyd: Option<usize>,
    /// What becomes of what the model of --from has counted.
    #[arg(long, value_name = "WHAT", value_parser = parse::names::<History>(&[
        ("keep", "it stays, the new documents come on top"),
        ("replace", "it is where training starts, the new documents take its place")]))]
    pub history: Option<History>,
    /// Pull of a seed word, as a share of its count in the corpus.
    #[arg(long, value_name = "NUMBER", value_parser = parse::number)]
    pub seed_weight: Option<f64>,
}
