//! `cargo xtask bench sequence`: laps of a hidden Markov model by K and L on one thread, and hmmlearn's beside them.
//! `cargo xtask bench chains`: what fits of planted chains are worth, and hmmlearn's. `cargo xtask bench beams`: what a few
//! states a step lose.

use serde_json::Value;

use super::{lines, single};
use crate::process::{cargo, command, go, output, python, release, root};

const STEPS: &str = "20000";
const SEQUENCES: &str = "20";
const COLUMNS: &str = "16";

pub fn run() -> Result<(), String> {
    go(cargo(&["build", "--release", "--package", "lsparse-bench", "--bin", "sequence"]))?;
    let folder = root().join("target/bench-data");
    std::fs::create_dir_all(&folder).map_err(|e| format!("target/bench-data: {e}"))?;
    let rows = folder.join("sequence.npy").to_string_lossy().into_owned();
    let measure = |states: &str, threads: &str, sparsities: &[&str]| -> Result<Vec<Value>, String> {
        let args = [&[&rows[..], STEPS, states, COLUMNS, "5", threads], sparsities].concat();
        lines(&output(command(release("sequence"), &args))?)
    };
    // On one thread by the processor's clock, which others on the machine do not slow down.
    let speed = |line: &Value| line["steps_per_cpu_second"].as_f64().unwrap_or(f64::NAN);
    let by_the_clock = |line: &Value| line["steps_per_second"].as_f64().unwrap_or(f64::NAN);
    let many = measure("2000", "1", &["4"])?;
    let two = measure("200", "2", &["4"])?;
    let few = measure("200", "1", &["4", "K"])?;
    let interpreter = python("bench-venv", "bench/requirements.txt")?;
    let script = command(interpreter, &["bench/sequence.py", &rows, SEQUENCES, "200", "3"]);
    let peer = lines(&output(single(script))?)?;
    [&many, &two, &few, &peer].into_iter().flatten().for_each(|line| println!("{line}"));
    let ([sparse, dense], [many], [two], [peer]) = (&few[..], &many[..], &two[..], &peer[..]) else {
        return Err("two, one, one and one measurements expected".into());
    };
    println!(
        "K = 200, L = 4: {:.1} times hmmlearn; dense: {:.1} times",
        speed(sparse) / speed(peer),
        speed(dense) / speed(peer)
    );
    println!("K = 2,000, L = 4: {:.2} of the steps a second of K = 200", speed(many) / speed(sparse));
    println!("two threads, K = 200, L = 4: {:.2} times one", by_the_clock(two) / by_the_clock(sparse));
    Ok(())
}

/// Fits at defaults, those whose name has the first of `args` in it; the others are options of `lsparse fit sequence`.
pub fn chains(args: &[&str]) -> Result<(), String> {
    go(cargo(&["build", "--release", "--package", "lsparse-cli"]))?;
    let interpreter = python("bench-venv", "bench/requirements.txt")?;
    let program = release("lsparse").to_string_lossy().into_owned();
    let all: Vec<&str> = ["bench/chains.py", &program].into_iter().chain(args.iter().copied()).collect();
    go(single(command(interpreter, &all)))
}

/// Fits by the number of states that a step keeps; `args` are --images DIR and a part of the names of cases, if any.
pub fn beams(args: &[&str]) -> Result<(), String> {
    let (images, filter) = match args {
        ["--images", images, rest @ ..] => (*images, rest),
        rest => ("-", rest),
    };
    go(cargo(&["build", "--release", "--package", "lsparse-cli"]))?;
    let interpreter = python("bench-venv", "bench/requirements.txt")?;
    let program = release("lsparse").to_string_lossy().into_owned();
    let all: Vec<&str> =
        ["bench/beams.py", &program, "docs", images].into_iter().chain(filter.iter().copied()).collect();
    go(single(command(interpreter, &all)))
}
