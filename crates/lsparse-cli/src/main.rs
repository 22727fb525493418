//! The `lsparse` command: read the arguments, run the command, turn errors into exit codes.

#![forbid(unsafe_code)]

mod assign;
mod cli;
mod completions;
mod corpus;
mod data_args;
mod demo;
mod examples;
mod explore;
mod fit;
mod fold;
mod format;
mod group_args;
mod info;
mod interrupt;
mod labels;
mod manual;
mod merge;
mod messages;
mod output;
mod parse;
mod patches;
mod progress;
mod sample;
mod score;
mod select;
mod sequence;
mod stdin;
mod topics;
mod watch;
mod work;

use std::io;
use std::process::ExitCode;

use clap::{ArgMatches, FromArgMatches};
use lsparse::backend::check_instructions;
use lsparse::{Error, Result};

use cli::{Cli, Command, Family, Fit};

fn main() -> ExitCode {
    share_addresses();
    interrupt::outlive_full_files();
    let matches = cli::command().get_matches();
    if asks_for_quiet(&matches) {
        output::be_quiet();
    }
    let outcome = match Cli::from_arg_matches(&matches) {
        Ok(cli) => check_instructions().and_then(|()| run(cli.command)),
        Err(error) => error.exit(),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever read the output has seen enough.
        Err(Error::Unwritable { path, source })
            if path.as_os_str() == output::STDOUT && source.kind() == io::ErrorKind::BrokenPipe =>
        {
            ExitCode::SUCCESS
        }
        Err(error @ Error::Interrupted { .. }) => {
            output::message(&error.to_string());
            ExitCode::from(interrupt::status())
        }
        Err(error) => {
            output::message(&format!("error: {}", messages::of_error(&error)));
            ExitCode::from(if error.is_bad_input() { 2 } else { 1 })
        }
    }
}

/// Under a limit on addresses (`ulimit -v`), start anew with an allocator that keeps no addresses for each thread: it would
/// take 64 MB for every one, and what is left for data would be anybody's guess.
#[cfg(target_os = "linux")]
fn share_addresses() {
    use lsparse::system::{ARENAS, address_limit};
    use std::os::unix::process::CommandExt;
    if address_limit().is_none() || std::env::var_os(ARENAS).is_some() {
        return;
    }
    if let Ok(program) = std::env::current_exe() {
        // It comes back only if it cannot be done, and then all goes on as it is.
        let _ = std::process::Command::new(program).args(std::env::args_os().skip(1)).env(ARENAS, "1").exec();
    }
}

/// Elsewhere no limit is known.
#[cfg(not(target_os = "linux"))]
fn share_addresses() {}

/// Whether the command that was given has a --quiet that was given too.
fn asks_for_quiet(matches: &ArgMatches) -> bool {
    let here = matches.try_get_one::<bool>("quiet").ok().flatten().is_some_and(|&quiet| quiet);
    here || matches.subcommand().is_some_and(|(_, matches)| asks_for_quiet(matches))
}

fn run(command: Command) -> Result<()> {
    match command {
        Command::Fit(Fit { family: Family::Mixture(args) }) => fit::run_mixture(&args),
        Command::Fit(Fit { family: Family::Topics(args) }) => fit::run_topics(&args),
        Command::Work(args) => work::run(&args),
        Command::Fold(args) => fold::run(&args),
        Command::Fit(Fit { family: Family::Sequence(args) }) => fit::run_sequence(&args),
        Command::Topics(args) => topics::list::run(&args),
        Command::Similar(args) => topics::similar::run(&args),
        Command::Explore(args) => explore::run(&args),
        Command::Score(args) => score::run(&args),
        Command::Merge(args) => merge::run(&args),
        Command::Assign(args) => assign::run(&args),
        Command::Info(args) => info::run(&args),
        Command::Sample(args) => sample::run(&args),
        Command::Corpus(args) => corpus::run(&args),
        Command::Patches(args) => patches::run(&args),
        Command::Select(args) => select::run(&args),
        Command::Watch(args) => watch::run(&args),
        Command::Demo(args) => demo::run(&args),
        Command::Completions(args) => completions::run(&args),
        Command::Manual(args) => manual::run(&args),
    }
}
