//! `cargo xtask bench`: measurements against other systems, taken side by side in one run and given as ratios.

mod memory;
mod rivals;
mod samplers;
mod search;
mod sequence;
mod threads;
mod topics;

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::process::{Build, cargo, command, go, output, python, release, root};

/// What can be measured, and what it takes.
const LIST: &str = "\
mixture   one lap against a scikit-learn EM iteration; needs --images DIR
cuda      laps of a mixture on a GPU by K, and PyTorch where it is installed; needs --images DIR
kmeans    one lap of k-means against faiss and scikit-learn; needs --images DIR
python    what the Python layer costs, and scikit-learn on the same data [--rows N] [--corpus FOLDER]
dask      training on a Dask cluster by the number of its workers [--workers 1,2,4] [--rows N]
finding   K that is found, fixed K, scikit-learn's BayesianGaussianMixture and tomotopy's HDP
          [--rows N] [--images DIR [--stride N]] [--corpus FOLDER]... [--times 5,20,60]
explore   pages of many topics: CPU time, bytes, a browser's times, pyLDAvis [--topics 1000,10000]
watched   what pages that watch a training cost it, with slow and half-open readers [--turns N]
memory    peak memory on 2 million documents and 3.68 million patches; may take --images DIR
rivals    held-out scores and CPU time against others at their defaults:
          --mixtures [--data DIR] scikit-learn, --topics --data DIR tomotopy [--jobs N] [--quick]
search    dense, exact and candidate search of a mixture, by K; needs --images DIR
sequence  laps of a hidden Markov model by K and L, and hmmlearn's on the same rows
chains    held-out scores of planted chains, lsparse and hmmlearn at their defaults [NAMES]
beams     what few states a step lose, planted and real sequences [--images DIR] [NAMES]
samplers  tokens a second of the samplers against tomotopy; needs --corpus FOLDER
threads   every kind of work on one thread and on many; needs --images DIR and --corpus FOLDER
cuda-topics  documents a second on a GPU, and the CPU's scores beside it; needs --corpus FOLDER
topics    held-out score by seconds of training against other systems; needs --corpus FOLDER
";

/// The names of what can be measured.
pub fn names() -> Vec<&'static str> {
    LIST.lines().filter(|line| !line.starts_with(' ')).filter_map(|line| line.split_whitespace().next()).collect()
}

pub fn run_named(name: &str, args: &[&str]) -> Result<(), String> {
    match (name, args) {
        ("list", []) => {
            print!("{LIST}");
            Ok(())
        }
        ("mixture", ["--images", images]) => mixture(Path::new(images)),
        ("mixture", _) => Err("usage: cargo xtask bench mixture --images DIR".into()),
        ("kmeans", ["--images", images]) => kmeans(Path::new(images)),
        ("kmeans", _) => Err("usage: cargo xtask bench kmeans --images DIR".into()),
        ("cuda", ["--images", images]) => cuda(images),
        ("cuda", _) => Err("usage: cargo xtask bench cuda --images DIR".into()),
        ("search", ["--images", images]) => search::run(Path::new(images)),
        ("search", _) => Err("usage: cargo xtask bench search --images DIR".into()),
        ("sequence", []) => sequence::run(),
        ("sequence", _) => Err("usage: cargo xtask bench sequence".into()),
        ("chains", rest) => sequence::chains(rest),
        ("beams", rest) => sequence::beams(rest),
        ("rivals", rest) => rivals::run(rest),
        ("samplers", rest) => samplers::run(rest),
        ("threads", rest) => threads::run(rest),
        ("cuda-topics", ["--corpus", folder, rest @ ..]) => cuda_topics(folder, rest),
        ("cuda-topics", _) => Err("usage: cargo xtask bench cuda-topics --corpus FOLDER [--copies N]".into()),
        ("topics", rest) => topics::run(rest),
        ("python", rest) => package(rest),
        ("dask", rest) => workers(rest),
        ("finding", rest) => finding(rest),
        ("explore", rest) => explore(rest),
        ("watched", rest) => watched(rest),
        ("memory", rest) => memory::run(rest),
        _ => Err(format!("there is no benchmark {name:?}; see cargo xtask bench list")),
    }
}

pub fn run(args: &[&str]) -> Result<(), String> {
    match args.split_first() {
        Some((name, rest)) => run_named(name, rest),
        None => Err("usage: cargo xtask bench NAME; see cargo xtask bench list".into()),
    }
}

/// Pages of many topics, pyLDAvis's beside them, and what a browser makes of them.
fn explore(args: &[&str]) -> Result<(), String> {
    go(cargo(&["build", "--release", "--package", "lsparse-cli"]))?;
    let folder = root().join("target/bench-data/explore").to_string_lossy().into_owned();
    let script = root().join("bench/explore.py").to_string_lossy().into_owned();
    let lsparse = release("lsparse").to_string_lossy().into_owned();
    let all: Vec<&str> = [&*script, &*lsparse, &*folder].into_iter().chain(args.iter().copied()).collect();
    go(single(command(python("bench-venv", "bench/requirements.txt")?, &all)))
}

/// Training alone and with pages that watch it.
fn watched(args: &[&str]) -> Result<(), String> {
    go(cargo(&["build", "--release", "--package", "lsparse-cli"]))?;
    let folder = root().join("target/bench-data").to_string_lossy().into_owned();
    let script = root().join("bench/watched.py").to_string_lossy().into_owned();
    let lsparse = release("lsparse").to_string_lossy().into_owned();
    let all: Vec<&str> = [&*script, &*lsparse, &*folder].into_iter().chain(args.iter().copied()).collect();
    go(command("python3", &all))
}

/// K that is found beside other ways to find it and fixed K.
fn finding(args: &[&str]) -> Result<(), String> {
    const USAGE: &str = "usage: cargo xtask bench finding [--rows N] [--images DIR [--stride N]] [--corpus FOLDER]... \
        [--times 5,20,60] [--fixed 50,100,200,400,800] [--peer-rows N] [--peer-iterations N]";
    go(cargo(&["build", "--release", "--package", "lsparse-cli", "--package", "lsparse-bench"]))?;
    let data = root().join("target/bench-data");
    let path = |name: &str| data.join(name).to_string_lossy().into_owned();
    let (mut options, mut images, mut stride) = (Vec::new(), None, "9");
    for pair in args.chunks(2) {
        match *pair {
            ["--images", folder] => images = Some(folder),
            ["--stride", number] => stride = number,
            [name @ ("--rows" | "--corpus" | "--times" | "--fixed" | "--peer-rows" | "--peer-iterations"), value] => {
                options.extend([name.to_owned(), value.to_owned()]);
            }
            _ => return Err(USAGE.into()),
        }
    }
    if let Some(images) = images {
        for (folder, name) in [("train", "patches.npy"), ("val", "patches-held.npy")] {
            let images = Path::new(images).join(folder).to_string_lossy().into_owned();
            let cut = ["patches", &images, "--out", &path(name), "--patch-stride", stride, "-q"];
            go(command(release("lsparse"), &cut))?;
        }
        options.extend(["--patches".to_owned(), path("patches.npy"), path("patches-held.npy")]);
    }
    let script = root().join("bench/finding.py").to_string_lossy().into_owned();
    let programs = ["lsparse", "topics"].map(|name| release(name).to_string_lossy().into_owned());
    let folder = path("finding");
    let all = [&script, &programs[0], &programs[1], &folder].into_iter().chain(&options);
    let all: Vec<&str> = all.map(String::as_str).collect();
    go(single(command(python("bench-venv", "bench/requirements.txt")?, &all)))
}

/// Laps on a GPU over all patches of the images, and PyTorch's (that of the system: it is large) beside them.
fn cuda(images: &str) -> Result<(), String> {
    go(cargo(&["build", "--release", "--package", "lsparse-cli", "--package", "lsparse-bench"]))?;
    let rows = root().join("target/bench-data/patches.npy").to_string_lossy().into_owned();
    std::fs::create_dir_all(root().join("target/bench-data")).map_err(|e| format!("target/bench-data: {e}"))?;
    go(command(release("lsparse"), &["patches", images, "--out", &rows, "--quiet"]))?;
    for likelihood in ["zero-mean-gauss", "gauss", "tied-gauss"] {
        go(command(release("cuda"), &[&rows, likelihood, "cuda", "7", "200", "1600", "3200"]))?;
    }
    for likelihood in ["diag-gauss", "spherical-gauss"] {
        go(command(release("cuda"), &["embeddings:10000000:128", likelihood, "cuda", "3", "10000"]))?;
    }
    for clusters in ["200", "1600", "3200"] {
        if go(command("python3", &["bench/cuda_torch.py", &rows, clusters])).is_err() {
            println!("PyTorch: not measured");
        }
    }
    Ok(())
}

/// Laps on a GPU over the documents of a corpus many times over, and the same laps on the CPU and there.
fn cuda_topics(folder: &str, rest: &[&str]) -> Result<(), String> {
    let program = ["run", "--release", "--package", "lsparse-bench", "--bin", "cuda_topics", "--"];
    go(cargo(&[&program[..], &["speed", folder], rest].concat()))?;
    go(cargo(&[&program[..], &["check", folder]].concat()))
}

/// Patches of four images (36,816 rows from images of 481 x 321), as f32 and f64, through both programs.
fn mixture(images: &Path) -> Result<(), String> {
    let interpreter = python("bench-venv", "bench/requirements.txt")?;
    go(cargo(&["build", "--release", "--package", "lsparse-cli", "--package", "lsparse-bench"]))?;
    let folder = root().join("target/bench-data");
    let some = folder.join("four-images");
    copy_images(images, &some, 0, 4)?;
    let release = root().join("target/release");
    for element in ["f32", "f64"] {
        let rows = folder.join(format!("patches-{element}.npy"));
        let (some, rows) = (some.to_string_lossy(), rows.to_string_lossy());
        go(command(release.join("lsparse"), &["patches", &some, "--dtype", element, "--out", &rows, "--quiet"]))?;
        let ours = output(command(release.join("mixture"), &[&rows]))?;
        let theirs = output(single(command(&interpreter, &["bench/mixture.py", &rows])))?;
        // Once more: the machine may have been busy with something else in between.
        let again = output(command(release.join("mixture"), &[&rows]))?;
        report(element, &ours, &theirs, &again)?;
    }
    Ok(())
}

/// Patches of 16 images (147,264 rows from images of 481 x 321), as f32 and f64, K = 200, in laps of k-means.
fn kmeans(images: &Path) -> Result<(), String> {
    let interpreter = python("bench-venv", "bench/requirements.txt")?;
    go(cargo(&["build", "--release", "--package", "lsparse-cli"]))?;
    let folder = root().join("target/bench-data");
    let some = folder.join("sixteen-images");
    copy_images(images, &some, 0, 16)?;
    let program = release("lsparse");
    for element in ["f32", "f64"] {
        let rows = folder.join(format!("sixteen-{element}.npy"));
        let (some, rows) = (some.to_string_lossy(), rows.to_string_lossy());
        go(command(&program, &["patches", &some, "--dtype", element, "--out", &rows, "--quiet"]))?;
        go(single(command(&interpreter, &["bench/kmeans.py", &rows, &program.to_string_lossy()])))?;
    }
    Ok(())
}

/// The installed Python package on a cluster of this machine's processes.
fn workers(args: &[&str]) -> Result<(), String> {
    let interpreter = crate::python::install(Build::Release, false)?;
    let mut bench = command(&interpreter, &["bench/cluster.py"]);
    bench.args(args);
    go(single(bench))
}

/// The installed Python package against Rust and scikit-learn, on one thread.
fn package(args: &[&str]) -> Result<(), String> {
    let interpreter = crate::python::install(Build::Release, false)?;
    go(cargo(&["build", "--release", "--package", "lsparse-bench", "--bin", "fit"]))?;
    let mut bench = command(&interpreter, &["bench/python.py", "--rust", &release("fit").to_string_lossy()]);
    bench.args(args);
    go(single(bench))
}

/// One thread for every library that a program may bring along.
fn single(mut command: Command) -> Command {
    for name in ["OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"] {
        command.env(name, "1");
    }
    command
}

/// What a program printed, an object a line.
fn lines(text: &str) -> Result<Vec<Value>, String> {
    text.lines().map(|line| serde_json::from_str(line).map_err(|e| format!("{line}: {e}"))).collect()
}

/// Copy `count` images after the first `skip`, by name.
fn copy_images(from: &Path, to: &Path, skip: usize, count: usize) -> Result<(), String> {
    std::fs::create_dir_all(to).map_err(|e| e.to_string())?;
    let folder = std::fs::read_dir(from).map_err(|e| format!("{}: {e}", from.display()))?;
    let mut names: Vec<_> = folder.filter_map(|entry| entry.ok().map(|e| e.path())).collect();
    names.retain(|p| p.extension().is_some_and(|e| e == "jpg" || e == "png"));
    names.sort();
    for path in names.iter().skip(skip).take(count) {
        if let Some(name) = path.file_name() {
            std::fs::copy(path, to.join(name)).map_err(|e| e.to_string())?;
        }
    }
    Ok(())
}

/// The measurements, and the ratio of the peer's time to the better of our two.
fn report(element: &str, ours: &str, theirs: &str, again: &str) -> Result<(), String> {
    let (ours, theirs, again) = (lines(ours)?, lines(theirs)?, lines(again)?);
    let lap = |lines: &[Value], threads: u64| {
        let found = lines.iter().find(|v| v["what"] == "lap" && v["threads"] == threads);
        found.and_then(|v| v["seconds"].as_f64()).unwrap_or(f64::NAN)
    };
    for line in ours.iter().chain(&theirs) {
        println!("{line}");
    }
    let one = lap(&ours, 1).min(lap(&again, 1));
    let two = lap(&ours, 2).min(lap(&again, 2));
    let peer = theirs.first().and_then(|v| v["seconds"].as_f64()).unwrap_or(f64::NAN);
    println!(
        "{element}: a lap {one:.3} s, scikit-learn {peer:.3} s: {:.1}x; two threads {:.2}x",
        peer / one,
        one / two
    );
    Ok(())
}
