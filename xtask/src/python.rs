//! The Python package: its wheel is built and installed in an environment of its own, and tested there.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::process::{self, Build, cargo, command, counted, go, python, root};

/// Where the package is.
const PACKAGE: &str = "crates/lsparse-python";

/// The name of the environment under target/.
const ENVIRONMENT: &str = "python-venv";

/// `cargo xtask python [ARGUMENTS of pytest]`: the wheel that users get, tested in the environment of the last time.
pub fn run(args: &[&str]) -> Result<(), String> {
    let (passed, failed, skipped) = tests(Build::Release, false, false, args)?;
    println!("{passed} passed, {failed} failed, {skipped} skipped");
    if failed > 0 || passed == 0 { Err("tests failed".into()) } else { Ok(()) }
}

/// Build the wheel, install it, and run its tests and the examples of its documentation; counts of passed, failed and
/// skipped ones.
pub fn tests(build: Build, fresh: bool, long: bool, args: &[&str]) -> Result<(usize, usize, usize), String> {
    let interpreter = install(build, fresh)?;
    if fresh {
        find_browser();
    }
    if long {
        // Too large for every day.
        go(command(&interpreter, &["-m", "pip", "install", "--quiet", "ray", "pyspark"]))?;
    }
    // Where tests have run there is the command that they ran.
    if !matches!(build, Build::Checked) {
        go(cargo(&["build", "--quiet", "--profile", build.profile(), "--package", "lsparse-cli"]))?;
    }
    // Tests run elsewhere, so that nothing but the installed wheel can be imported.
    let elsewhere = std::env::temp_dir().join(format!("lsparse-python-{}", std::process::id()));
    std::fs::create_dir_all(&elsewhere).map_err(|e| format!("{}: {e}", elsewhere.display()))?;
    let folder = root().join(PACKAGE).join("tests");
    let mut tests = pytest(&interpreter, &build.program("lsparse"), &elsewhere);
    tests.arg(folder).args(args);
    if long {
        tests.env("LSPARSE_LONG", "1");
    }
    let mut counts = counted(tests, parse_summary)?;
    if args.is_empty() {
        let mut examples = pytest(&interpreter, &build.program("lsparse"), &elsewhere);
        // Modules for what is not installed, or needs more than a package, have their tests elsewhere.
        examples.args(["--ignore-glob=*/lsparse/ray.py", "--ignore-glob=*/lsparse/spark.py"]);
        examples.args(["--doctest-modules", "--doctest-ignore-import-errors", "--pyargs", "lsparse"]);
        let more = counted(examples, parse_summary)?;
        counts = (counts.0 + more.0, counts.1 + more.1, counts.2 + more.2);
    }
    // What is left behind there is nothing that anybody needs.
    let _ = std::fs::remove_dir_all(&elsewhere);
    Ok(counts)
}

/// The interpreter of the environment, as the last build has left it.
pub fn interpreter() -> PathBuf {
    process::interpreter(ENVIRONMENT)
}

/// The interpreter of an environment that has the package as it is now.
pub fn install(build: Build, fresh: bool) -> Result<PathBuf, String> {
    check_python()?;
    if fresh {
        let old = root().join("target").join(ENVIRONMENT);
        if old.exists() {
            std::fs::remove_dir_all(&old).map_err(|e| format!("{}: {e}", old.display()))?;
        }
    }
    let interpreter = python(ENVIRONMENT, &format!("{PACKAGE}/tests/requirements.txt"))?;
    let wheels = root().join("target/wheels");
    if wheels.exists() {
        std::fs::remove_dir_all(&wheels).map_err(|e| format!("{}: {e}", wheels.display()))?;
    }
    let (manifest, out) = (format!("{PACKAGE}/Cargo.toml"), wheels.to_string_lossy().into_owned());
    let wheel = ["-m", "maturin", "build", "--profile", build.profile(), "--manifest-path", &manifest, "--out", &out];
    let mut wheel = command(&interpreter, &wheel);
    // Built for the interpreter of the environment, whatever else is active.
    wheel.env_remove("CONDA_PREFIX").env("PYO3_PYTHON", &interpreter);
    go(wheel)?;
    let files = std::fs::read_dir(&wheels).map_err(|e| format!("{}: {e}", wheels.display()))?;
    let wheel = files.flatten().map(|file| file.path()).find(|path| path.extension().is_some_and(|e| e == "whl"));
    let wheel = wheel.ok_or_else(|| format!("no wheel was built in {}", wheels.display()))?;
    let install = ["-m", "pip", "install", "--quiet", "--force-reinstall", "--no-deps", "--no-index"];
    let mut install = command(&interpreter, &install);
    install.arg(wheel);
    go(install)?;
    Ok(interpreter)
}

/// See to it that there is a browser for the tests of pages, where the system's packages have one and may be installed;
/// where not, these tests are skipped, and counted as that.
fn find_browser() {
    let has = |program: &str| command(program, &["--version"]).output().is_ok_and(|found| found.status.success());
    if has("chromium") && has("chromedriver") {
        return;
    }
    let install = ["install", "--yes", "--quiet", "--no-install-recommends", "chromium", "chromium-driver"];
    let installed = command("apt-get", &install).env("DEBIAN_FRONTEND", "noninteractive").output();
    if !installed.is_ok_and(|done| done.status.success()) {
        eprintln!("no browser: tests of pages are skipped; install chromium and chromium-driver to run them");
    }
}

/// Say what is missing before anything fails for want of it.
fn check_python() -> Result<(), String> {
    let code = "import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 10))";
    let found = command("python3", &["-c", code]).output();
    if found.is_ok_and(|found| found.status.success()) {
        return Ok(());
    }
    Err("the Python package needs python3 (3.10 or later) with its venv module to be built and tested; \
         install it (python3 and python3-venv, say), and run this again"
        .into())
}

/// pytest, run in another folder, with the command to compare with.
fn pytest(interpreter: &Path, lsparse: &Path, folder: &Path) -> Command {
    let mut pytest = command(interpreter, &["-m", "pytest", "-q", "-p", "no:cacheprovider"]);
    pytest
        .current_dir(folder)
        .env("LSPARSE_COMMAND", lsparse)
        .env("MPLBACKEND", "agg")
        .env("PYTHONDONTWRITEBYTECODE", "1");
    pytest
}

/// `12 passed, 1 failed, 2 skipped, 3 xfailed in 5.20s`: what fails as it is known to counts as skipped.
fn parse_summary(line: &str) -> Option<(usize, usize, usize)> {
    let (words, _) = line.trim_matches(|c: char| c == '=' || c == ' ').split_once(" in ")?;
    let mut counts = (0, 0, 0);
    for part in words.split(", ") {
        let (count, what) = part.split_once(' ')?;
        let count: usize = count.parse().ok()?;
        match what {
            "passed" => counts.0 += count,
            "failed" | "error" | "errors" => counts.1 += count,
            "skipped" | "xfailed" | "xpassed" => counts.2 += count,
            "warning" | "warnings" | "deselected" => {}
            _ => return None,
        }
    }
    Some(counts)
}

#[cfg(test)]
mod tests {
    use super::parse_summary;

    #[test]
    fn counts_are_read_from_the_closing_line() {
        assert_eq!(parse_summary("12 passed, 1 skipped, 2 xfailed, 5 warnings in 1.20s"), Some((12, 0, 3)));
        assert_eq!(parse_summary("=== 1 failed, 12 passed, 1 error in 61.20s (0:01:01) ==="), Some((12, 2, 0)));
        assert_eq!(parse_summary("tests/test_a.py ... in order"), None);
    }
}
