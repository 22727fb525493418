//! `cargo xtask paper`: repeat the figures of the paper, draw them and write their page.

use std::path::{Path, PathBuf};

use crate::process::{cargo, command, go, python, release, root};

const FIGURES: [&str; 5] = ["fig1", "fig2", "fig3", "fig4", "fig5"];
const USAGE: &str = "usage: cargo xtask paper fig1|fig2|fig3|fig4|fig5|all|page [--data DIR] [--quick] [--jobs N]";

pub fn run(args: &[&str]) -> Result<(), String> {
    let (names, rest): (Vec<&str>, &[&str]) = match args.split_first() {
        Some((&"all", rest)) => (FIGURES.to_vec(), rest),
        Some((&"page", rest)) => (Vec::new(), rest),
        Some((name, rest)) if FIGURES.contains(name) => (vec![*name], rest),
        _ => return Err(USAGE.into()),
    };
    let (mut quick, mut data, mut jobs) = (false, None, "1");
    let mut words = rest.iter();
    while let Some(&word) = words.next() {
        match word {
            "--quick" => quick = true,
            "--data" => data = Some(*words.next().ok_or(USAGE)?),
            "--jobs" => jobs = words.next().ok_or(USAGE)?,
            _ => return Err(USAGE.into()),
        }
    }
    go(cargo(&["build", "--release", "--package", "lsparse-cli", "--package", "lsparse-paper"]))?;
    let interpreter = python("paper-venv", "paper/requirements.txt")?;
    // What is quick or embedded is no evidence and does not take the place of any.
    let work = root().join("target/paper");
    let (page, evidence) = match (quick, data) {
        (true, _) => (work.join("quick"), false),
        (false, None) if !names.is_empty() => (work.join("embedded"), false),
        (false, _) => (root().join("paper"), true),
    };
    let results = page.join("results");
    for name in names {
        let mut experiment = command(release("paper"), &[name, "--jobs", jobs]);
        experiment.arg("--lsparse").arg(release("lsparse")).arg("--work").arg(&work).arg("--out").arg(&results);
        if let Some(data) = data {
            // A folder is meant as seen by who gives the command.
            let data: PathBuf = std::path::absolute(Path::new(data)).map_err(|e| e.to_string())?;
            experiment.arg("--data").arg(data);
        }
        if quick {
            experiment.arg("--quick");
        }
        go(experiment)?;
        let mut draw = command(&interpreter, &["paper/draw.py"]);
        draw.arg(&results).arg(name);
        go(draw)?;
    }
    let mut write = command(release("paper"), &["page"]);
    write.arg("--results").arg(&results).arg("--out").arg(page.join("README.md"));
    if evidence {
        write.arg("--notes").arg(root().join("paper/notes"));
    }
    go(write)
}
