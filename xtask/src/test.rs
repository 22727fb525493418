//! `cargo xtask test`: format, lints, documentation, and every test of the workspace, counted.

use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::Instant;

use crate::process::{cargo, go};

/// Random cases a property when tests run long.
const LONG_CASES: &str = "10000";

pub fn run_all(long: bool) -> Result<(), String> {
    let start = Instant::now();
    go(cargo(&["fmt", "--all", "--check"]))?;
    go(cargo(&["clippy", "--quiet", "--workspace", "--all-targets", "--", "-D", "warnings"]))?;
    let mut doc = cargo(&["doc", "--quiet", "--workspace", "--no-deps", "--document-private-items"]);
    doc.env("RUSTDOCFLAGS", "-D warnings");
    go(doc)?;
    let (passed, failed, ignored) = tests(long)?;
    println!("{passed} passed, {failed} failed, {ignored} skipped");
    eprintln!("in {:.0} s", start.elapsed().as_secs_f64());
    if failed > 0 || passed == 0 { Err("tests failed".into()) } else { Ok(()) }
}

pub fn run(args: &[&str]) -> Result<(), String> {
    match args {
        [] => run_all(false),
        ["--long"] => run_all(true),
        _ => Err("usage: cargo xtask test [--long]".into()),
    }
}

/// Run the tests, showing their output, and add up the counts of every binary.
fn tests(long: bool) -> Result<(usize, usize, usize), String> {
    let mut command = cargo(&["test", "--workspace", "--no-fail-fast"]);
    if long {
        command.env("PROPTEST_CASES", LONG_CASES).env("LSPARSE_LONG", "1");
    }
    eprintln!("$ cargo test --workspace --no-fail-fast");
    let mut child = command.stdout(Stdio::piped()).spawn().map_err(|e| format!("cannot run cargo test: {e}"))?;
    let mut counts = (0, 0, 0);
    if let Some(out) = child.stdout.take() {
        for line in BufReader::new(out).lines() {
            let line = line.map_err(|e| e.to_string())?;
            println!("{line}");
            if let Some((passed, failed, ignored)) = parse_counts(&line) {
                counts = (counts.0 + passed, counts.1 + failed, counts.2 + ignored);
            }
        }
    }
    let status = child.wait().map_err(|e| e.to_string())?;
    if !status.success() && counts.1 == 0 {
        return Err("cargo test did not build or was stopped".into());
    }
    Ok(counts)
}

/// `test result: ok. 3 passed; 0 failed; 1 ignored; ...`
fn parse_counts(line: &str) -> Option<(usize, usize, usize)> {
    let rest = line.strip_prefix("test result: ")?;
    let count = |word: &str| -> Option<usize> {
        let before = rest.split(word).next()?;
        before.split_whitespace().last()?.parse().ok()
    };
    Some((count(" passed")?, count(" failed")?, count(" ignored")?))
}

#[cfg(test)]
mod tests {
    use super::parse_counts;

    #[test]
    fn counts_are_read_from_the_closing_line() {
        let line = "test result: ok. 12 passed; 1 failed; 2 ignored; 0 measured; 0 filtered out; finished in 0.61s";
        assert_eq!(parse_counts(line), Some((12, 1, 2)));
        assert_eq!(parse_counts("running 12 tests"), None);
    }
}
