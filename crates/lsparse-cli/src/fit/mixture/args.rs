//! The options of `lsparse fit mixture`.

use std::path::PathBuf;

use clap::Args;
use lsparse::MixtureConfig;

use super::super::args::RunArgs;
use super::super::options::Options;
use crate::data_args::DataArgs;

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
  lsparse fit mixture table.csv -k 20 --method kmeans --standardize --out centres.safetensors
  lsparse fit mixture more.npy --from model.safetensors --history keep --out model.safetensors
  lsparse fit mixture large.npy -k 500 --checkpoint run.ckpt --resume --memo-memory 1GB --out model.safetensors
  lsparse fit mixture data.csv --config run.json --seed 1 --quiet --json

Training ends at the first of --laps, --tolerance, --count-tolerance, --max-seconds and --early-stopping.
Ctrl-C ends it after the current batch, and the model is written all the same.
With --checkpoint a run that was killed or interrupted goes on with --resume and the same settings, and so does one
that has ended, with more --laps say: the rules for stopping may change."
)]
pub struct MixtureArgs {
    /// A .npy, .npz, .csv, .tsv or .txt file (text may be gzipped), a folder of images, or - for standard input.
    #[arg(value_name = "DATA")]
    pub data: PathBuf,

    #[command(flatten)]
    pub settings: Options<MixtureConfig>,

    /// Go on from this model: it gives likelihood, K, L, estimate and prior, unless they are given here. The rows given
    /// now take the place of those it has counted, unless --history keep is given.
    #[arg(long, value_name = "MODEL", help_heading = "Start", conflicts_with_all = ["init", "init-lloyd", "init-rows"])]
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
