//! `cargo xtask bench search`: dense, exact and candidate search of a mixture on patches, and the curve over K.

use std::path::Path;

use serde_json::Value;

use super::{copy_images, lines};
use crate::process::{cargo, command, go, output, root};

/// Where all three are compared.
const CLUSTERS: usize = 1600;
/// Where candidate search is timed, with fewer laps at the end since seeding and the first lap are dense.
const CURVE: [(usize, usize); 8] =
    [(100, 3), (200, 3), (400, 3), (800, 3), (1600, 3), (3200, 2), (6400, 2), (12_800, 1)];

pub fn run(images: &Path) -> Result<(), String> {
    go(cargo(&["build", "--release", "--package", "lsparse-cli", "--package", "lsparse-bench"]))?;
    let folder = root().join("target/bench-data");
    let release = root().join("target/release");
    // Ten images of 481 x 321 give 92,040 rows; the last one is held out.
    let cut = |name: &str, skip: usize, count: usize| -> Result<String, String> {
        let some = folder.join(name);
        copy_images(images, &some, skip, count)?;
        let rows = folder.join(format!("{name}.npy")).to_string_lossy().into_owned();
        let some = some.to_string_lossy();
        go(command(release.join("lsparse"), &["patches", &some, "--dtype", "f32", "--out", &rows, "--quiet"]))?;
        Ok(rows)
    };
    let (rows, heldout) = (cut("ten-images", 0, 10)?, cut("held-out-image", 10, 1)?);
    let measure = |likelihood: &str, clusters: usize, laps: usize, searches: &[&str]| -> Result<Vec<Value>, String> {
        let (clusters, laps) = (clusters.to_string(), laps.to_string());
        let args = [&[&rows[..], &heldout, likelihood, &clusters, &laps], searches].concat();
        lines(&output(command(release.join("search"), &args))?)
    };
    let number = |line: &Value, name: &str| line[name].as_f64().unwrap_or(f64::NAN);
    let lap = |line: &Value| number(line, "local_seconds") + number(line, "global_seconds");

    let three = measure("zero-mean-gauss", CLUSTERS, 4, &["dense", "exact", "neighbours"])?;
    three.iter().for_each(|line| println!("{line}"));
    let [dense, exact, near] = &three[..] else { return Err("three measurements expected".into()) };
    let same = dense["objective"] == exact["objective"];
    println!("K = {CLUSTERS}: exact {:.2}x a dense lap, the same objective: {same}", lap(dense) / lap(exact));
    let off = 100.0 * (number(near, "heldout") / number(dense, "heldout") - 1.0);
    println!("K = {CLUSTERS}: neighbours {:.1}x a dense lap, held-out score {off:+.3} %", lap(dense) / lap(near));
    let two = measure("diag-gauss", CLUSTERS, 8, &["dense", "exact"])?;
    two.iter().for_each(|line| println!("{line}"));
    let [dense, exact] = &two[..] else { return Err("two measurements expected".into()) };
    let same = dense["objective"] == exact["objective"];
    println!("K = {CLUSTERS}, diagonal: exact {:.2}x a dense lap, the same objective: {same}", lap(dense) / lap(exact));
    for (clusters, laps) in CURVE {
        let line = &measure("zero-mean-gauss", clusters, laps, &["neighbours"])?[0];
        let (local, global) = (number(line, "local_seconds"), number(line, "global_seconds"));
        println!("K = {clusters}: neighbours, a lap {local:.2} s of local and {global:.2} s of global step");
    }
    Ok(())
}
