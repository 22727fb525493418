//! The page that shows all figures: picture, machine, command, date, claims, and the notes on what was looked into.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::Result;
use crate::figure::Claim;

/// Figures and their titles.
const FIGURES: [(&str, &str); 5] = [
    ("fig1", "Figure 1: what a pass over image patches costs"),
    ("fig2", "Figure 2: image patches, held-out likelihood over time"),
    ("fig3", "Figure 3: what a pass over documents costs"),
    ("fig4", "Figure 4: topics, held-out score over time"),
    ("fig5", "Figure 5: warm and cold starts, with and without restarts"),
];

/// The head of a page without notes.
const TRIAL: &str = "# The experiments of the paper, tried out\nSmall data drawn by the program: how it goes, and no \
    evidence. `cargo xtask paper all --data DIR` repeats the experiments.\n";

/// Write the page for what is in `results`, with NAME.md of `notes` under each figure; notes are on evidence alone.
pub fn write(results: &Path, notes: Option<&Path>, out: &Path) -> Result<()> {
    let note = |name: &str| {
        let file = notes.map(|notes| fs::read_to_string(notes.join(format!("{name}.md"))));
        file.and_then(std::result::Result::ok).unwrap_or_default()
    };
    let mut page = if notes.is_some() { note("head") } else { TRIAL.into() };
    for (name, title) in FIGURES {
        let Ok(about) = fs::read_to_string(results.join(format!("{name}.json"))) else { continue };
        let about: Value = serde_json::from_str(&about)?;
        let field = |key: &str| about[key].as_str().unwrap_or_default();
        let claims: Vec<Claim> = serde_json::from_value(about["claims"].clone())?;
        writeln!(page, "\n## {title}\n\n![{title}](results/{name}.svg)\n\n{}\n", field("scope"))?;
        writeln!(page, "`{}`, {}, {}. ", field("command"), field("machine"), field("date"))?;
        writeln!(page, "Measurements: [lines](results/{name}.jsonl), [table](results/{name}.csv).\n")?;
        writeln!(page, "| the paper says | here | found |\n| --- | --- | --- |")?;
        for Claim { claim, holds, found } in claims {
            let verdict = holds.map_or("not measured", |holds| if holds { "holds" } else { "does not hold" });
            writeln!(page, "| {claim} | {verdict} | {found} |")?;
        }
        let note = note(name);
        if !note.is_empty() {
            writeln!(page, "\n{}", note.trim_end())?;
        }
    }
    fs::write(out, page)?;
    Ok(())
}
