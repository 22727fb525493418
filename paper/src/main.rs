//! `paper figN`: run the experiment of a figure and write its measurements; `paper page`: the page of all figures.

use std::path::{Path, PathBuf};

use lsparse_paper::runs::Workshop;
use lsparse_paper::{Result, Settings, Size, fig1, fig2, fig3, fig4, fig5, page};

const USAGE: &str = "\
usage: paper fig1|fig2|fig3|fig4|fig5 --lsparse PROGRAM --work DIR --out DIR [--data DIR] [--quick] [--jobs N]
       paper page --results DIR [--notes DIR] --out FILE.md

--work keeps data sets and the traces of runs: what was run is not run again. --jobs runs so many at the same time,
each on one thread; times are CPU seconds. --jobs 0 runs nothing and shows what was run before.";

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let mut words = args.iter().map(String::as_str);
    let command = words.next().ok_or(USAGE)?;
    let (mut paths, mut quick, mut jobs) = (std::collections::BTreeMap::new(), false, 1);
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} needs a value\n\n{USAGE}"));
        match word {
            "--quick" => quick = true,
            "--jobs" => jobs = value()?.parse()?,
            "--lsparse" | "--work" | "--out" | "--data" | "--results" | "--notes" => {
                paths.insert(word, PathBuf::from(value()?));
            }
            _ => return Err(format!("there is no {word}\n\n{USAGE}").into()),
        }
    }
    let path = |name: &str| paths.get(name).cloned().ok_or_else(|| format!("{name} is needed\n\n{USAGE}"));
    if command == "page" {
        return page::write(&path("--results")?, paths.get("--notes").map(PathBuf::as_path), &path("--out")?);
    }
    let data = paths.get("--data").cloned();
    let workshop = Workshop { program: path("--lsparse")?, data: data.clone(), folder: path("--work")?, jobs };
    let settings = Settings { data, size: if quick { Size::Quick } else { Size::Full }, workshop };
    let run = match command {
        "fig1" => fig1::run,
        "fig2" => fig2::run,
        "fig3" => fig3::run,
        "fig4" => fig4::run,
        "fig5" => fig5::run,
        _ => return Err(USAGE.into()),
    };
    let figure = run(&settings)?;
    for claim in &figure.claims {
        let verdict = claim.holds.map_or("not measured", |holds| if holds { "holds" } else { "does not hold" });
        println!("{}: {verdict}: {}", claim.claim, claim.found);
    }
    figure.write(Path::new(&path("--out")?), command, &shown(command, settings.data.is_some(), quick))
}

/// The command that repeats a figure.
fn shown(figure: &str, data: bool, quick: bool) -> String {
    let (data, quick) = (if data { " --data DIR" } else { "" }, if quick { " --quick" } else { "" });
    format!("cargo xtask paper {figure}{data}{quick}")
}
