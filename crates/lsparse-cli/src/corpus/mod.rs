//! `lsparse corpus`: build corpora from text and counts, look at them, cut them.

mod build;
mod info;
mod split;
mod watch;

use clap::{Args, Subcommand};
use lsparse::Result;

use build::BuildArgs;
use info::InfoArgs;
use split::SplitArgs;

#[derive(Args)]
#[command(
    arg_required_else_help = true,
    after_help = "\
EXAMPLES:
  lsparse corpus build articles/ --out corpus          a folder of text files
  lsparse corpus info corpus
  lsparse corpus split corpus --test 0.1 --out parts   parts/train and parts/test"
)]
pub struct CorpusArgs {
    #[command(subcommand)]
    pub command: CorpusCommand,
}

/// What can be done with corpora; each describes itself where its arguments are.
#[derive(Subcommand)]
pub enum CorpusCommand {
    Build(Box<BuildArgs>),
    Info(InfoArgs),
    Split(SplitArgs),
}

pub fn run(args: &CorpusArgs) -> Result<()> {
    match &args.command {
        CorpusCommand::Build(args) => build::run(args),
        CorpusCommand::Info(args) => info::run(args),
        CorpusCommand::Split(args) => split::run(args),
    }
}
