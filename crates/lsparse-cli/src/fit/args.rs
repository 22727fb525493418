//! The options that all trainings share.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use lsparse::settings::{Given, Settings};
use lsparse::shared::SharedFolder;
use lsparse::training::rules::StopReason;
use lsparse::{Checkpointing, Result, Storage};

use super::options::Options;
use super::together::Fold;
use crate::output::message;
use crate::parse;

/// How a training is run and what it leaves behind.
#[derive(Args, Debug)]
pub struct RunArgs {
    /// Write the model here (.safetensors).
    #[arg(long, short, value_name = "FILE", help_heading = "Output")]
    pub out: Option<PathBuf>,
    /// Write a line of JSON for every step here.
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub trace: Option<PathBuf>,
    /// Serve a page to this machine that shows the training as it goes and can stop it, on this port or any that is free;
    /// the address is printed. lsparse watch shows traces of trainings that have ended.
    #[arg(long, value_name = "PORT", num_args = 0..=1, require_equals = true, help_heading = "Output",
          value_parser = clap::value_parser!(u16).range(1..))]
    pub watch: Option<Option<u16>>,
    /// Score --heldout after every so many steps, and at the end of the run, instead of after every lap: a lap has as many
    /// steps as batches, one for most samplers.
    #[arg(long, value_name = "STEPS", requires = "heldout", help_heading = "Output",
          value_parser = parse::positive)]
    pub heldout_every: Option<u64>,
    /// Print the final report as JSON.
    #[arg(long, help_heading = "Output")]
    pub json: bool,
    /// Print nothing but errors (and the report, with --json).
    #[arg(long, short, help_heading = "Output")]
    pub quiet: bool,
    /// Threads; the result is the same with any number [default: one a core].
    #[arg(long, value_name = "N", value_parser = parse::threads, help_heading = "Schedule")]
    pub threads: Option<usize>,
    /// Batches that are worked out under the same parameters: at the same time on many machines, one after the other
    /// here. The model depends on it, and not on who works [default: 1, with --shared 8].
    #[arg(long, value_name = "N", value_parser = parse::positive_size, help_heading = "Schedule")]
    pub batches_per_round: Option<usize>,
    /// Begin a training whose batches are worked out by lsparse work, on any machine that sees this new folder and the
    /// data. Prints the batches of the first round; lsparse fold goes on from there, and its help has examples.
    #[arg(long, value_name = "FOLDER", requires = "out", help_heading = "Schedule",
          conflicts_with_all = ["checkpoint", "watch"])]
    pub shared: Option<PathBuf>,
    /// Goes on with such a training.
    #[arg(skip)]
    pub fold: Option<Fold>,
    /// Settings as JSON, by the names of the options; options win over it.
    #[arg(long, value_name = "FILE", help_heading = "Model")]
    pub config: Option<PathBuf>,

    /// Write here, now and then, all that is needed to go on after the run was ended.
    ///
    /// While a run goes on, FILE.lock keeps others away. With --memo-memory, FILE.memos and FILE.rows may be written
    /// too: they belong to the checkpoint, so keep, move and remove them with it.
    #[arg(long, value_name = "FILE", help_heading = "Checkpoints")]
    pub checkpoint: Option<PathBuf>,
    /// Time between two checkpoints: seconds, or a number with s, m or h.
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = parse::time, requires = "checkpoint",
          help_heading = "Checkpoints")]
    pub checkpoint_every: Duration,
    /// Go on from the checkpoint, or start if there is none; the result is that of a run that was never ended.
    ///
    /// Only the rules for stopping (--laps, --tolerance, --count-tolerance, --max-seconds, --early-stopping) may differ
    /// from those of the run in the checkpoint; they are looked at from where it is. The data must be the same, by their sizes and a
    /// checksum: of all rows, or where dense data have more than 8 million values, of as many in up to 1024 places.
    #[arg(long, requires = "checkpoint", help_heading = "Checkpoints")]
    pub resume: bool,
    /// Take a batch out of the run in the checkpoint, write the model without it, and end.
    ///
    /// The statistics are then exactly the sum of the other batches, and --resume goes on without it. Seeds, and the
    /// local optimum that training has come to, may still reflect what was taken out: for data that must be forgotten
    /// altogether, train anew without it.
    #[arg(long, value_name = "BATCH", requires = "resume", help_heading = "Checkpoints")]
    pub forget_batch: Option<usize>,
    /// Memory for what is remembered of batches and rows, such as 512MB; the rest goes to files next to the checkpoint
    /// (FILE.memos and FILE.rows), or to temporary ones [default: no limit].
    #[arg(long, value_name = "SIZE", value_parser = parse::size, help_heading = "Checkpoints")]
    pub memo_memory: Option<u64>,
}

impl RunArgs {
    /// What the run is asked for: by options, and by the file of --config.
    pub fn given<C: Settings>(&self, options: &Options<C>) -> Result<Given> {
        let file = self.config.as_deref().map(Given::read::<C>).transpose()?.unwrap_or_default();
        Ok(Given { file, options: options.values.clone() })
    }

    /// What there is to say of any run after its report.
    pub fn conclude(&self, reason: &StopReason) {
        if self.quiet {
            return;
        }
        if self.checkpoint.is_some() && matches!(reason, StopReason::Interrupted) {
            message("the run can go on: give the same command with --resume");
        }
        if self.out.is_none() {
            message("the model was not saved; give --out FILE to keep it");
        }
    }

    /// What the run keeps on disk while it goes.
    pub fn storage(&self) -> Storage {
        if let Some(folder) = self.folder() {
            // Who waits for nobody comes to its end with every round, and must leave what it has come to.
            let every = self.fold.as_ref().filter(|fold| fold.waits).map_or(Duration::ZERO, |_| self.checkpoint_every);
            let path = SharedFolder::checkpoint_in(folder);
            let checkpoint = Some(Checkpointing { path, every, resume: true, forget_batch: None });
            return Storage { checkpoint, memo_memory: self.memo_memory };
        }
        let checkpoint = self.checkpoint.as_ref().map(|path| Checkpointing {
            path: path.clone(),
            every: self.checkpoint_every,
            resume: self.resume,
            forget_batch: self.forget_batch,
        });
        Storage { checkpoint, memo_memory: self.memo_memory }
    }
}
