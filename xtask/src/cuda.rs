//! `cargo xtask cuda`: compile the kernels of crates/lsparse-cuda, with a compiler that is installed under target/;
//! `cargo xtask cuda test`: the tests that need a GPU; `cargo xtask cuda emulate`: kernels against double precision where
//! there is none, with the C++ compiler of the machine.

use std::fs;
use std::path::{Path, PathBuf};

use crate::process::{cargo, command, go, python, root};

#[path = "../../crates/lsparse-cuda/src/manifest.rs"]
mod manifest;

use manifest::{ARTEFACTS, KERNELS, OPTIONS, PTX_VERSION, SOURCES, TARGETS};

const CRATE: &str = "crates/lsparse-cuda";

pub fn run(args: &[&str]) -> Result<(), String> {
    match args {
        [] => compile(),
        ["test", rest @ ..] => test(rest),
        ["emulate"] => emulate(),
        _ => Err("usage: cargo xtask cuda [test|emulate]".into()),
    }
}

/// Tests on a GPU are left out of `cargo xtask test`.
fn test(rest: &[&str]) -> Result<(), String> {
    for (package, name) in
        [("lsparse-cuda", "cuda"), ("lsparse-cuda", "centers"), ("lsparse", "cuda"), ("lsparse", "cuda_topics")]
    {
        let program = ["test", "--release", "--package", package, "--test", name, "--"];
        // One at a time: one of them takes all memory of the GPU.
        let tests = [&program[..], &["--ignored", "--nocapture", "--test-threads", "1"]].concat();
        go(cargo(&[&tests[..], rest].concat()))?;
    }
    Ok(())
}

/// Kernels of documents as fibers, against the same rules in double precision.
fn emulate() -> Result<(), String> {
    let program = root().join("target/emulated-topics");
    let source = format!("{CRATE}/{SOURCES}/emulated/topics.cpp");
    let options = ["-std=c++17", "-O1", "-DEMULATED", "-Wno-unknown-pragmas", "-o"];
    let mut compiler = command("c++", &options);
    compiler.arg(&program).arg(&source);
    go(compiler)?;
    go(command(&program, &[] as &[&str]))
}

/// Compile every source for every target that is not listed as it is, and list what came of it.
fn compile() -> Result<(), String> {
    let compiler = compiler()?;
    let folder = root().join(CRATE);
    fs::create_dir_all(folder.join(ARTEFACTS)).map_err(|e| format!("{ARTEFACTS}: {e}"))?;
    let listed = fs::read_to_string(folder.join(ARTEFACTS).join("list.txt")).unwrap_or_default();
    for kernel in KERNELS {
        for (ending, target) in TARGETS {
            if manifest::line(&folder, kernel, (ending, target)).is_ok_and(|line| listed.contains(&line)) {
                continue;
            }
            let source = format!("{CRATE}/{SOURCES}/{kernel}.cu");
            let artefact = format!("{CRATE}/{ARTEFACTS}/{kernel}.{ending}");
            let form = if ending == "ptx" { "--ptx" } else { "--cubin" };
            let mut nvcc = command(&compiler, &OPTIONS);
            nvcc.args([form, "-gencode", target, "-o", &artefact, &source]);
            go(nvcc)?;
            if ending == "ptx" {
                relabel(&root().join(&artefact))?;
            }
        }
    }
    let list = manifest::list(&folder).map_err(|e| e.to_string())?;
    fs::write(folder.join(ARTEFACTS).join("list.txt"), list).map_err(|e| e.to_string())
}

/// Let older drivers take PTX: the compiler labels it with its own version, whatever is in it.
fn relabel(path: &Path) -> Result<(), String> {
    let text = fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
    let relabelled = |line: &str| match line.starts_with(".version ") {
        true => format!(".version {PTX_VERSION}\n"),
        false => format!("{line}\n"),
    };
    // Comments say who compiled it, and debug information where.
    let kept = text.lines().filter(|line| !line.starts_with("//"));
    let text: String = kept.map(relabelled).collect();
    fs::write(path, text).map_err(|e| format!("{}: {e}", path.display()))
}

/// The compiler, from packages of Python's index.
fn compiler() -> Result<PathBuf, String> {
    let interpreter = python("cuda-venv", "crates/lsparse-cuda/kernels/requirements.txt")?;
    let library = interpreter.parent().and_then(Path::parent).map(|venv| venv.join("lib")).unwrap_or_default();
    let folders = fs::read_dir(&library).map_err(|e| format!("{}: {e}", library.display()))?;
    let nvcc = folders.flatten().map(|version| version.path().join("site-packages/nvidia/cu13/bin/nvcc"));
    nvcc.into_iter().find(|path| path.exists()).ok_or_else(|| format!("no nvcc under {}", library.display()))
}
