//! `cargo xtask bench threads`: every kind of work on one thread and on many, in one run.

use std::path::Path;

use super::copy_images;
use crate::process::{cargo, command, go, root};

const USAGE: &str = "usage: cargo xtask bench threads --images DIR --corpus FOLDER [--threads 1,16] [--only NAME,...]";

/// Images of 481 x 321 that give 1.47 million patches, and those that are held out.
const IMAGES: (usize, usize) = (160, 16);

pub fn run(args: &[&str]) -> Result<(), String> {
    let (mut images, mut corpus, mut rest) = (None, None, vec!["--parts"]);
    for pair in args.chunks(2) {
        match pair {
            ["--images", folder] => images = Some(Path::new(folder)),
            ["--corpus", folder] => corpus = Some(*folder),
            ["--threads" | "--only", _] => rest.extend(pair),
            _ => return Err(USAGE.into()),
        }
    }
    let (images, corpus) = images.zip(corpus).ok_or(USAGE)?;
    go(cargo(&["build", "--release", "--package", "lsparse-cli", "--package", "lsparse-bench"]))?;
    let (folder, release) = (root().join("target/bench-data"), root().join("target/release"));
    let cut = |name: &str, skip: usize, count: usize| -> Result<String, String> {
        let some = folder.join(name);
        copy_images(images, &some, skip, count)?;
        let rows = folder.join(format!("{name}.npy")).to_string_lossy().into_owned();
        let some = some.to_string_lossy();
        go(command(release.join("lsparse"), &["patches", &some, "--dtype", "f32", "--out", &rows, "--quiet"]))?;
        Ok(rows)
    };
    let rows = cut("many-images", 0, IMAGES.0)?;
    let heldout = cut("many-images-held-out", IMAGES.0, IMAGES.1)?;
    go(command(release.join("threads"), &[&[&rows[..], &heldout, corpus], &rest[..]].concat()))
}
