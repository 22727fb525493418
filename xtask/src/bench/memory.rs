//! `cargo xtask bench memory`: the most memory that training takes on data that is larger than that.

use std::path::Path;

use serde_json::Value;

use crate::process::{cargo, command, go, output, root};

const DOCUMENTS: &str = "2000000";
const ROWS: &str = "3680000";
const USAGE: &str = "usage: cargo xtask bench memory [--images DIR] [--laps N]";

pub fn run(args: &[&str]) -> Result<(), String> {
    let (mut images, mut laps) = (None, "1");
    for pair in args.chunks(2) {
        match pair {
            ["--images", folder] => images = Some(*folder),
            ["--laps", count] => laps = *count,
            _ => return Err(USAGE.into()),
        }
    }
    go(cargo(&["build", "--release", "--package", "lsparse-cli", "--package", "lsparse-bench"]))?;
    let release = root().join("target/release");
    let (lsparse, draw) = (release.join("lsparse"), release.join("memory"));
    let folder = root().join("target/bench-data");
    std::fs::create_dir_all(&folder).map_err(|e| e.to_string())?;
    let file = |name: &str| folder.join(name).to_string_lossy().into_owned();

    let corpus = file("large-corpus");
    if !Path::new(&corpus).exists() {
        let text = file("large-corpus.ldac");
        go(command(&draw, &["corpus", &text, DOCUMENTS]))?;
        go(command(&lsparse, &["corpus", "build", &text, "--format", "lda-c", "--out", &corpus, "--quiet"]))?;
        std::fs::remove_file(&text).map_err(|e| e.to_string())?;
    }
    let patches = file(if images.is_some() { "large-patches-images.npy" } else { "large-patches.npy" });
    if !Path::new(&patches).exists() {
        match images {
            Some(images) => {
                go(command(&lsparse, &["patches", images, "--dtype", "f32", "--out", &patches, "--quiet"]))?
            }
            None => go(command(&draw, &["patches", &patches, ROWS]))?,
        }
    }
    let common = ["-k", "500", "--laps", laps, "--tolerance", "0", "--quiet", "--json"];
    let likelihood = ["--likelihood", "zero-mean-gauss", "--memo-memory", "100MB"];
    measure(command(&lsparse, &[&["fit", "mixture", &patches], &common[..], &likelihood].concat()), 600.0)?;
    let memos = ["--memo-memory", "100MB"];
    measure(command(&lsparse, &[&["fit", "topics", &corpus], &common[..], &memos].concat()), 1000.0)
}

/// Run a training and hold its peak memory against the target, in megabytes.
fn measure(training: std::process::Command, target: f64) -> Result<(), String> {
    let report: Value = serde_json::from_str(&output(training)?).map_err(|e| e.to_string())?;
    let number = |key: &str| report[key].as_f64().unwrap_or(f64::NAN);
    let count = report["rows"].as_u64().or(report["documents"].as_u64()).unwrap_or_default();
    let peak = number("peak_memory_bytes") / 1e6;
    println!(
        "{count} rows, {} laps in {:.0} s: peak {peak:.0} MB, target {target:.0} MB: {}",
        number("laps"),
        number("seconds"),
        if peak < target { "met" } else { "missed" },
    );
    Ok(())
}
