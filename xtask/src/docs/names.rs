//! What texts name is there: commands with their options, and names and keywords of Python, between backticks and in blocks
//! of code that are not run.

use std::path::Path;

use pulldown_cmark::{Event, Parser, Tag, TagEnd};
use serde_json::{Value, json};

use super::pages::{self, Kind, Page};
use super::{GENERATED, Tools, write};
use crate::bench;
use crate::process::{command, output, root};

/// What is named and is not there, a line each.
pub fn check(pages: &[Page], tools: &Tools, reference: &Path) -> Result<Vec<String>, String> {
    // What was once there may be named in the history.
    let texts: Vec<Value> =
        pages.iter().filter(|page| !page.source.ends_with("CHANGELOG.md")).flat_map(named).collect();
    let list = root().join(GENERATED).join("named.json");
    write(&list, json!(texts).to_string())?;
    let script = root().join("xtask/src/docs/check_names.py");
    let mut check = command(&tools.python, &[]);
    check.arg(script).arg(list).arg(reference).arg(bench::names().join(","));
    Ok(output(check)?.lines().map(str::to_owned).collect())
}

/// Code between the words of a page, and its blocks that are not run.
fn named(page: &Page) -> Vec<Value> {
    let mut found = Vec::new();
    let mut in_block = false;
    for (event, range) in Parser::new_ext(&page.text, pages::options()).into_offset_iter() {
        match event {
            Event::Start(Tag::CodeBlock(_)) => in_block = true,
            Event::End(TagEnd::CodeBlock) => in_block = false,
            Event::Code(text) if !in_block => {
                let line = page.text[..range.start].lines().count();
                found.push(json!({ "page": page.source, "line": line, "language": "", "text": text.as_ref() }));
            }
            _ => {}
        }
    }
    let not_run = page.blocks.iter().filter(|block| matches!(block.kind, Kind::NotRun(_)));
    found.extend(not_run.map(
        |block| json!({ "page": page.source, "line": block.line, "language": block.language, "text": block.text }),
    ));
    found
}
