//! Blocks of code are run in order, those of a page in a folder of its own, and what they print and write is kept.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::pages::{Kind, Page};
use super::{Tools, read_text, write};
use crate::process::{command, go, root};

/// Where blocks are run: a folder a page, which the pictures that they draw are taken from.
const FOLDER: &str = "target/docs-run";

/// What came of the blocks.
#[derive(Default)]
pub struct Outcome {
    /// Output by page and number of the block.
    output: HashMap<(PathBuf, usize), String>,
    /// Ran, failed, not to be run.
    pub counts: (usize, usize, usize),
    /// Whether pictures may be missing since their page was not run.
    pub partial: bool,
}

impl Outcome {
    /// What a block printed.
    pub fn of(&self, page: &Page, number: usize) -> Option<&str> {
        self.output.get(&(page.source.clone(), number)).map(String::as_str)
    }

    /// The folder that the blocks of a page were run in.
    pub fn folder(page: &Page) -> PathBuf {
        root().join(FOLDER).join(page.source.to_string_lossy().replace(['/', '\\', '.'], "-"))
    }
}

/// Run the blocks of all pages, or of those that are named; failures are shown with their place.
pub fn run(pages: &[Page], tools: &Tools, only: &[&str]) -> Result<Outcome, String> {
    run_by(pages, tools, only, &root().join(FOLDER))
}

/// The same by a plan that is written into this folder.
fn run_by(pages: &[Page], tools: &Tools, only: &[&str], folder: &Path) -> Result<Outcome, String> {
    let wanted = |page: &&Page| only.is_empty() || only.iter().any(|name| page.source.to_string_lossy().contains(name));
    let list: Vec<Value> = pages.iter().filter(wanted).map(plan).filter(|page| page["blocks"] != json!([])).collect();
    let (plan, results) = (folder.join("plan.json"), folder.join("results.json"));
    write(&plan, json!({ "lsparse": tools.lsparse, "pages": list }).to_string())?;
    let script = root().join("xtask/src/docs/run_blocks.py");
    go(command(&tools.python, &[&script.to_string_lossy(), &plan.to_string_lossy(), &results.to_string_lossy()]))?;
    let results: Vec<Value> = serde_json::from_str(&read_text(&results)?).map_err(|e| e.to_string())?;
    let not_run = pages.iter().flat_map(|page| &page.blocks).filter(|block| matches!(block.kind, Kind::NotRun(_)));
    let mut outcome = Outcome { output: HashMap::new(), counts: (0, 0, not_run.count()), partial: !only.is_empty() };
    for result in results {
        let key = (PathBuf::from(text(&result["page"])), result["number"].as_u64().unwrap_or(0) as usize);
        match result["ok"].as_bool() {
            Some(true) => outcome.counts.0 += 1,
            _ => outcome.counts.1 += 1,
        }
        outcome.output.insert(key, text(&result["output"]).to_owned());
    }
    Ok(outcome)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("")
}

/// What is to be run of a page.
fn plan(page: &Page) -> Value {
    let blocks = page.blocks.iter().enumerate().filter_map(|(number, block)| match block.kind {
        Kind::Run { fails, .. } => Some(json!({
            "number": number, "language": block.language, "line": block.line, "text": block.text, "fails": fails,
        })),
        _ => None,
    });
    json!({ "page": page.source, "folder": Outcome::folder(page), "blocks": blocks.collect::<Vec<_>>() })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::run_by;
    use crate::docs::{Tools, pages};
    use crate::process::root;

    /// Counts of blocks that ran, failed and are not run, of a page with these blocks.
    fn counts(name: &str, text: &str) -> (usize, usize, usize) {
        let page = pages::of_text(name.into(), text).unwrap();
        let tools = Tools { lsparse: "lsparse".into(), python: "python3".into() };
        let folder = root().join("target/docs-run").join(format!("tests-{name}"));
        let counts = run_by(&[page], &tools, &[], &folder).unwrap().counts;
        assert!(Path::new(&folder).join("results.json").is_file());
        counts
    }

    #[test]
    fn blocks_that_fail_are_counted_whatever_way_they_fail() {
        let good = "```sh\ntrue\n```\n\n```python\nx = 1\n```\n\n```python\nassert x == 1\n```\n";
        assert_eq!(counts("good", good), (3, 0, 0));
        for (name, block) in [
            ("exit-status", "```sh\nfalse\n```\n"),
            ("in-the-middle", "```sh\nfalse\ntrue\n```\n"),
            ("in-a-pipe", "```sh\nfalse | cat\n```\n"),
            ("no-such-name", "```sh\necho \"$no_such_name\"\n```\n"),
            ("assertion", "```python\nassert x == 2\n```\n"),
            ("syntax", "```python\nx = = 2\n```\n"),
            ("exit", "```python\nraise SystemExit(0)\n```\n"),
            ("death", "```python\nimport os\nos._exit(0)\n```\n"),
            ("was-to-fail", "```sh fails\ntrue\n```\n"),
            ("hidden", "<!-- run python\nassert x == 2\n-->\n"),
        ] {
            let (_, failed, _) = counts(name, &format!("{good}\n{block}\n{good}"));
            assert_eq!(failed, 1, "{name}");
        }
        assert_eq!(counts("fails", "```sh fails\nfalse\n```\n\n```sh not-run=\"no\"\nfalse\n```\n"), (1, 0, 1));
    }
}
