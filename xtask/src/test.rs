//! `cargo xtask test`: format, lints, documentation, and every test of the workspace, of the Python package
//! and of the documentation (whose blocks of code are run, and its links checked), counted.

use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

use crate::process::{Build, cargo, command, counted, go, root};
use crate::{docs, paper, python, release};

/// Random cases a property when tests run long.
const LONG_CASES: &str = "10000";

/// Families of likelihoods are declared by a macro, whose modules `cargo fmt` does not find.
fn format_of_families() -> Result<Command, String> {
    let folder = root().join("crates/lsparse/src/likelihood");
    let entries = std::fs::read_dir(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let mut files: Vec<PathBuf> = entries.filter_map(|entry| entry.ok().map(|e| e.path())).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "rs"));
    files.sort();
    let mut check = command("rustfmt", &["--check", "--edition", "2024"]);
    check.args(files);
    Ok(check)
}

pub fn run_all(long: bool) -> Result<(), String> {
    let start = Instant::now();
    go(cargo(&["fmt", "--all", "--check"]))?;
    go(format_of_families()?)?;
    go(cargo(&["clippy", "--quiet", "--workspace", "--all-targets", "--", "-D", "warnings"]))?;
    let mut doc = cargo(&["doc", "--quiet", "--workspace", "--no-deps", "--document-private-items"]);
    doc.env("RUSTDOCFLAGS", "-D warnings");
    go(doc)?;
    let rust = tests(long)?;
    let package = python::tests(if long { Build::Release } else { Build::Checked }, true, long, &[])?;
    let documentation = docs::tests(if long { Build::Release } else { Build::Checked })?;
    let mut counts = vec![rust, package, documentation];
    if long {
        paper::run(&["all", "--quick"])?;
        counts.push(release::check_targets()?);
    }
    let sum = |of: fn(&(usize, usize, usize)) -> usize| counts.iter().map(of).sum::<usize>();
    let (passed, failed, ignored) = (sum(|c| c.0), sum(|c| c.1), sum(|c| c.2));
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
    counted(command, parse_counts)
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
