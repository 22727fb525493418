//! `lsparse fold`: bring what workers left into a training, and say what is to be worked out next.

use std::path::{Path, PathBuf};

use clap::{Args, Parser};
use lsparse::shared::{SharedFolder, Stage};
use lsparse::{Error, Result};

use crate::cli::{Cli, Command, Family, Fit};
use crate::fit::{self, Fold};
use crate::output::message;
use crate::parse;

/// Fold the batches that lsparse work has worked out into a training, and print those to be worked out next.
///
/// A training that was begun with lsparse fit ... --shared FOLDER goes on round by round. When all batches of a round are
/// there they are folded in, in their order, and those of the next round are printed as job arrays take them: 0,4,7. With
/// the last the model is written, and nothing is printed. The model is, byte for byte, that of lsparse fit with the same
/// --batches-per-round and without --shared, however many workers there were and whatever became of them (with one set of
/// instructions: LSPARSE_SIMD=portable makes machines agree). Who folds may be ended and started again at any time.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES:
  A job array of Slurm for every round:
    batches=$(lsparse fit mixture data.npy -k 500 --batches 32 --batches-per-round 16 --shared run --out m.safetensors)
    while [ -n \"$batches\" ]; do
        sbatch --wait --array=\"$batches\" --wrap 'lsparse work run --batch $SLURM_ARRAY_TASK_ID --threads 4'
        batches=$(lsparse fold run) || exit
    done
    Where tasks failed it ends and names their batches; batches=$(lsparse fold run --missing) and the loop go on.
  Workers that stay, as many as the cluster gives; more may come, and any may be killed:
    lsparse fit topics corpus -k 500 --batches 40 --batches-per-round 20 --shared run --out t.safetensors
    sbatch --array=1-20 --wrap 'lsparse work run --wait --threads 4'
    lsparse fold run --wait
  A loop of the shell, without any cluster:
    lsparse fit mixture data.npy -k 50 --shared run --out m.safetensors
    while lsparse work run && batches=$(lsparse fold run) && [ -n \"$batches\" ]; do :; done

Batches of some seconds to a minute each are best. Without --wait who folds reads the data once for every round.")]
pub struct FoldArgs {
    /// The folder of the training.
    #[arg(value_name = "FOLDER")]
    pub folder: PathBuf,
    /// Stay until all is done, and wait for workers that stay too.
    #[arg(long)]
    pub wait: bool,
    /// Print the batches of this round that nobody has worked out yet, and fold nothing in.
    #[arg(long, conflicts_with = "wait")]
    pub missing: bool,
    /// Threads; the result is the same with any number [default: one a core].
    #[arg(long, value_name = "N", value_parser = parse::threads)]
    pub threads: Option<usize>,
    /// Print batches, and at the end the report, as JSON.
    #[arg(long)]
    pub json: bool,
    /// Print nothing but batches and errors.
    #[arg(long, short)]
    pub quiet: bool,
}

pub fn run(args: &FoldArgs) -> Result<()> {
    let folder = open_folder(&args.folder)?;
    let stage = folder.stage()?;
    if stage == Some(Stage::Ended) {
        if !args.quiet {
            message(&format!("the training of {} has ended", args.folder.display()));
        }
        return fit::print_batches(&[], args.json);
    }
    if args.missing {
        let missing = match &stage {
            Some(Stage::Round(round)) => folder.missing(round),
            _ => Vec::new(),
        };
        return fit::print_batches(&missing, args.json);
    }
    match begun_with(&folder)? {
        Family::Mixture(mut fit) => {
            fit.run.go_on(folder, args);
            fit::run_mixture(&fit)
        }
        Family::Topics(mut fit) => {
            fit.run.go_on(folder, args);
            fit::run_topics(&fit)
        }
        Family::Sequence(mut fit) => {
            fit.run.go_on(folder, args);
            fit::run_sequence(&fit)
        }
    }
}

impl fit::RunArgs {
    fn go_on(&mut self, folder: SharedFolder, args: &FoldArgs) {
        self.fold = Some(Fold { folder, waits: args.wait });
        (self.threads, self.json, self.quiet) = (args.threads, args.json, args.quiet);
    }
}

/// The folder of a training, with a path that stays right wherever one goes.
pub fn open_folder(path: &Path) -> Result<SharedFolder> {
    let place = std::path::absolute(path).map_err(|_| Error::NotFound { path: path.to_owned() })?;
    if !place.exists() {
        return Err(Error::NotFound { path: path.to_owned() });
    }
    SharedFolder::open(&place)
}

/// What a training was begun with; from now on paths start from where that was.
pub fn begun_with(folder: &SharedFolder) -> Result<Family> {
    let training = folder.training();
    let gone = |source| Error::Io { path: training.started_in.clone(), action: "go to", source };
    std::env::set_current_dir(&training.started_in).map_err(gone)?;
    let words = std::iter::once("lsparse").chain(training.arguments.iter().map(String::as_str));
    match Cli::try_parse_from(words).map(|cli| cli.command) {
        Ok(Command::Fit(Fit { family })) => Ok(family),
        _ => Err(Error::Format {
            path: folder.path().to_owned(),
            detail: "what it was begun with is no lsparse fit".into(),
            remedy: "begin the training again with another folder".into(),
        }),
    }
}
