//! `cargo xtask bench samplers`: tokens a CPU second of the samplers and of tomotopy's, lap by lap on one thread.

use serde_json::Value;

use super::{lines, single};
use crate::process::{cargo, command, go, output, python, release};

const USAGE: &str = "usage: cargo xtask bench samplers --corpus FOLDER [-k 200] [--laps 40]";

pub fn run(args: &[&str]) -> Result<(), String> {
    let (mut corpus, mut topics, mut laps) = (None, "200", "40");
    let mut words = args.iter();
    while let Some(&name) = words.next() {
        let value = *words.next().ok_or(USAGE)?;
        match name {
            "--corpus" => corpus = Some(std::path::absolute(value).map_err(|e| format!("{value}: {e}"))?),
            "-k" => topics = value,
            "--laps" => laps = value,
            _ => return Err(USAGE.into()),
        }
    }
    let corpus = corpus.ok_or(USAGE)?;
    let corpus = corpus.to_string_lossy();
    let interpreter = python("bench-venv", "bench/requirements.txt")?;
    go(cargo(&["build", "--release", "--package", "lsparse-bench"]))?;
    let ours = || lines(&output(command(release("topics"), &["samplers", &corpus, "-k", topics, "--laps", laps]))?);
    let peer = ["bench/topics.py", &corpus, "tomotopy", "-k", topics, "--laps", laps];
    // Before the other and after it: the machine may have been busy with something else in between.
    let first = ours()?;
    let theirs = lines(&output(single(command(&interpreter, &peer)))?)?;
    let again = ours()?;
    let peer = theirs.first().ok_or("tomotopy printed nothing")?;
    println!("{:<12} {:>16} {:>16} {:>10}", "tokens/CPU s", "first half", "second half", "tomotopy/");
    row(peer, &rates(peer), &rates(peer));
    for (line, other) in first.iter().zip(&again) {
        let best = [0, 1].map(|half| rates(line)[half].max(rates(other)[half]));
        row(line, &best, &rates(peer));
    }
    Ok(())
}

/// Tokens a second of the first and of the second half of the laps; the first lap is left out, since it may hold what
/// is done once.
fn rates(line: &Value) -> [f64; 2] {
    let seconds: Vec<f64> = line["cpu_seconds"].as_array().into_iter().flatten().filter_map(Value::as_f64).collect();
    let tokens = line["tokens"].as_f64().unwrap_or(f64::NAN);
    let last = seconds.len().saturating_sub(1);
    let rate = |from: usize, to: usize| match (seconds.get(from), seconds.get(to)) {
        (Some(begin), Some(end)) => (to - from) as f64 * tokens / (end - begin),
        _ => f64::NAN,
    };
    [rate(0, last / 2), rate(last / 2, last)]
}

fn row(line: &Value, rates: &[f64; 2], peer: &[f64; 2]) {
    let name = line["system"].as_str().unwrap_or("?");
    let ratios = [0, 1].map(|half| peer[half] / rates[half]);
    println!("{name:<12} {:>16.0} {:>16.0} {:>5.2} {:>5.2}", rates[0], rates[1], ratios[0], ratios[1]);
}
