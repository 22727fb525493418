//! `cargo xtask docs`: the documentation as one folder of pages that needs no network; every block of code in it is run on
//! the way, and what it prints and draws is what the pages show.
//!
//! 1. The command writes the reference of its options, Python that of the package ([`generate`]).
//! 2. Pages are read in the order of docs/contents.md ([`pages`]).
//! 3. What they name is there: commands and their options, names and keywords of Python ([`names`]).
//! 4. Their blocks of code are run, page by page ([`blocks`]).
//! 5. Pages are written, with what came of their blocks, and their links are checked ([`site`]).

mod blocks;
mod highlight;
mod names;
mod pages;
mod site;

use std::path::{Path, PathBuf};

use crate::process::{Build, cargo, command, go, root};
use crate::python;

/// Where the pages come to be.
const SITE: &str = "target/docs";

/// Pages that are made rather than written.
const GENERATED: &str = "target/docs-generated";

/// What the blocks of code are run with.
pub struct Tools {
    pub lsparse: PathBuf,
    pub python: PathBuf,
}

/// `cargo xtask docs [PAGE...]`: all of it; with the names of pages, blocks of the others are not run.
pub fn run(args: &[&str]) -> Result<(), String> {
    let tools = if args.contains(&"--installed") {
        // What the last build has left, for those who write.
        Tools { lsparse: Build::Checked.program("lsparse"), python: python::interpreter() }
    } else {
        let python = python::install(Build::Release, false)?;
        go(cargo(&["build", "--quiet", "--release", "--package", "lsparse-cli"]))?;
        Tools { lsparse: Build::Release.program("lsparse"), python }
    };
    let only: Vec<&str> = args.iter().copied().filter(|arg| !arg.starts_with("--")).collect();
    let (passed, failed, skipped) = build(&tools, &only)?;
    if look(&tools)? == Some(false) {
        return Err("the pages do not do in a browser what they should".into());
    }
    println!("{passed} blocks of code ran, {failed} failed, {skipped} are not run, for reasons that stand beside them");
    println!("{}", root().join(SITE).join("index.html").display());
    if failed > 0 { Err("blocks of code failed".into()) } else { Ok(()) }
}

/// The documentation with the command and the package that the tests before have left; counts of its blocks of code.
pub fn tests(build: Build) -> Result<(usize, usize, usize), String> {
    let tools = Tools { lsparse: build.program("lsparse"), python: python::interpreter() };
    let (passed, failed, skipped) = self::build(&tools, &[])?;
    Ok(match look(&tools)? {
        Some(true) => (passed + 1, failed, skipped),
        Some(false) => (passed, failed + 1, skipped),
        None => (passed, failed, skipped + 1),
    })
}

/// Run the blocks of a text outside the site with these tools; how many ran and failed.
pub fn try_alone(tools: &Tools, source: &str) -> Result<(usize, usize), String> {
    let page = pages::beside(&root(), source)?;
    let (passed, failed, _) = blocks::run(&[page], tools, &[])?.counts;
    Ok((passed, failed))
}

/// Whether the pages do in a browser what they should; none where there is no browser.
fn look(tools: &Tools) -> Result<Option<bool>, String> {
    let script = root().join("xtask/src/docs/check_site.py");
    let mut look = command(&tools.python, &[&script.to_string_lossy(), SITE]);
    let status = look.status().map_err(|e| format!("{}: {e}", script.display()))?;
    Ok(if status.code() == Some(77) { None } else { Some(status.success()) })
}

/// Write all pages; counts of blocks that ran, failed, and are not to be run.
pub fn build(tools: &Tools, only: &[&str]) -> Result<(usize, usize, usize), String> {
    generate(tools)?;
    let contents = pages::read(&root(), &root().join(GENERATED))?;
    let mut problems = names::check(&contents, tools, &root().join(GENERATED).join("reference"))?;
    let outcome = blocks::run(&contents, tools, only)?;
    let site = root().join(SITE);
    problems.extend(site::write_site(&contents, &outcome, &site)?);
    if problems.is_empty() {
        Ok(outcome.counts)
    } else {
        Err(format!("{} things are wrong in the documentation:\n  {}", problems.len(), problems.join("\n  ")))
    }
}

/// The reference of the command's options and of the Python package.
fn generate(tools: &Tools) -> Result<(), String> {
    let folder = root().join(GENERATED);
    if folder.exists() {
        std::fs::remove_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    }
    let path = |name: &str| folder.join(name).to_string_lossy().into_owned();
    go(command(&tools.lsparse, &["manual", "--markdown", &path("reference")]))?;
    let script = root().join("xtask/src/docs/api.py");
    go(command(&tools.python, &[&script.to_string_lossy(), &path("api")]))
}

fn write(path: &Path, text: impl AsRef<[u8]>) -> Result<(), String> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    }
    std::fs::write(path, text).map_err(|e| format!("{}: {e}", path.display()))
}

fn read_text(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))
}
