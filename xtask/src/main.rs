//! Chores of the workspace: `cargo xtask test` checks everything, `cargo xtask python` the Python package alone,
//! `cargo xtask docs` writes the documentation, `cargo xtask release` makes what is released, `cargo xtask bench NAME`
//! measures, `cargo xtask cuda` compiles the kernels for GPUs, `cargo xtask paper FIGURE` repeats the paper's experiments.

mod bench;
mod cuda;
mod docs;
mod paper;
mod process;
mod python;
mod release;
mod test;

use std::process::ExitCode;

const USAGE: &str = "\
Usage: cargo xtask COMMAND

Commands:
  test [--long]                  format, lints, documentation and all tests (--long: thousands of random cases a reader)
  python [ARGUMENTS of pytest]   the wheel of the Python package, installed in an environment of its own and tested
  docs [PAGE...]                 the documentation as a folder of pages, every block of code run (or those of PAGE alone)
  release [PART...]              crates, static command, wheels, sources, man pages: all that a release has, in target/dist
  cuda [test|emulate]            compile the kernels for GPUs, run the tests that need one, or run kernels without one
  bench mixture --images DIR     one lap against a scikit-learn EM iteration on the patches of the first images of DIR
  bench topics --corpus FOLDER -k K   held-out score over time against tomotopy, gensim and scikit-learn
  bench python [--rows N]        what the Python layer costs, and scikit-learn on the same data
  bench memory [--images DIR]    peak memory of training on 2 million documents and 3.68 million patches, K = 500
  bench threads --images DIR --corpus FOLDER   every kind of work on one thread and on many, in one run
  bench list                     what can be measured
  paper fig1|...|fig5|all        the figures of the paper [--data DIR] [--quick] [--jobs N]

Everything that is needed besides a Rust toolchain and python3 is installed under target/ by the command itself.";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let result = match words.split_first() {
        Some((&"test", rest)) => test::run(rest),
        Some((&"python", rest)) => python::run(rest),
        Some((&"docs", rest)) => docs::run(rest),
        Some((&"release", rest)) => release::run(rest),
        Some((&"bench", rest)) => bench::run(rest),
        Some((&"cuda", rest)) => cuda::run(rest),
        Some((&"paper", rest)) => paper::run(rest),
        Some((&("help" | "--help" | "-h"), _)) => {
            println!("{USAGE}");
            Ok(())
        }
        _ => Err(USAGE.to_owned()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::from(2)
        }
    }
}
