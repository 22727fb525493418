//! The options of `lsparse fit sequence`.

use std::path::PathBuf;

use clap::Args;
use lsparse::SequenceConfig;

use super::super::args::RunArgs;
use super::super::options::Options;
use crate::data_args::DataArgs;
use crate::group_args::GroupArgs;

/// Train a hidden Markov model on sequences of rows.
#[derive(Args, Debug)]
#[command(
    allow_negative_numbers = true,
    after_help = "\
EXAMPLES:
  lsparse fit sequence data.npy --groups lengths.npy -k 200 -l 4 --out h.safetensors
  lsparse fit sequence walks.csv --group-column person -k 30 --likelihood diag-gauss --out h.safetensors
  lsparse fit sequence sensor.npy --time-series -k 12 --missing --stickiness 10 --out h.safetensors
  lsparse fit sequence recordings/ -k 50 --likelihood gauss --out h.safetensors    # a file for each sequence
  lsparse fit sequence symbols.csv --groups lengths.txt --likelihood multinomial -k 40    # one whole number a step
  lsparse fit sequence more.npy --groups lengths.npy --from h.safetensors --history keep --out h.safetensors

Training ends at the first of --laps, --tolerance, --count-tolerance, --max-seconds and --early-stopping.
Ctrl-C ends it after the current batch, and the model is written all the same.
With --checkpoint a run that was killed or interrupted goes on with --resume and the same settings."
)]
pub struct SequenceArgs {
    /// A .npy, .npz, .csv, .tsv or .txt file (text may be gzipped), a folder with a file for each sequence, or - for standard
    /// input.
    #[arg(value_name = "DATA")]
    pub data: PathBuf,

    #[command(flatten)]
    pub groups: GroupArgs,

    #[command(flatten)]
    pub settings: Options<SequenceConfig>,

    /// Go on from this model: it gives likelihood, K, L, estimate and prior, unless they are given here. The sequences given
    /// now take the place of those it has counted, unless --history keep is given.
    #[arg(long, value_name = "MODEL", help_heading = "Start", conflicts_with_all = ["init", "init-lloyd", "init-rows"])]
    pub from: Option<PathBuf>,

    #[command(flatten)]
    pub reading: DataArgs,
    /// Sequences to score at the end of every lap, in any format that DATA may have.
    #[arg(long, value_name = "DATA", help_heading = "Data")]
    pub heldout: Option<PathBuf>,
    /// The number of rows of each held-out sequence, where DATA has --groups.
    #[arg(long, value_name = "LENGTHS", help_heading = "Data", requires = "heldout")]
    pub heldout_groups: Option<PathBuf>,

    #[command(flatten)]
    pub run: RunArgs,
}
