//! `cargo xtask release`: everything that a release consists of, made by one command into target/dist.
//!
//! What cannot be made on this machine (a target whose standard library is not installed, say) is named with the reason, and
//! the rest is made.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::process::{Build, cargo, command, go, output, python, root};

/// What wheels are built for: the oldest Linux (glibc 2.17), which zig links for on any machine.
const WHEELS: [&str; 2] = ["x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"];

/// Commands that need nothing of the system they run on.
const STATIC: [&str; 1] = ["x86_64-unknown-linux-musl"];

/// Systems that are looked at, and not built for.
const CHECKED: [&str; 3] = ["aarch64-unknown-linux-gnu", "aarch64-apple-darwin", "x86_64-pc-windows-gnu"];

const USAGE: &str = "usage: cargo xtask release [crates|command|wheels|sdist|targets|extras]...";

/// A part of a release: its name, and what makes it.
type Part = (&'static str, fn(&Path) -> Result<Vec<String>, String>);

const PARTS: [Part; 6] = [
    ("crates", crates),
    ("targets", targets),
    ("command", static_command),
    ("extras", extras),
    ("wheels", wheels),
    ("sdist", sdist),
];

/// All parts, or those that are named.
pub fn run(args: &[&str]) -> Result<(), String> {
    if let Some(unknown) = args.iter().find(|arg| !PARTS.iter().any(|(name, _)| name == *arg)) {
        return Err(format!("there is no {unknown}\n{USAGE}"));
    }
    let dist = root().join("target/dist");
    std::fs::create_dir_all(&dist).map_err(|e| format!("{}: {e}", dist.display()))?;
    let mut missing = Vec::new();
    for (name, make) in PARTS.iter().filter(|(name, _)| args.is_empty() || args.contains(name)) {
        eprintln!("# {name}");
        missing.extend(make(&dist)?.into_iter().map(|why| format!("{name}: {why}")));
    }
    sums(&dist)?;
    for why in &missing {
        println!("not made here: {why}");
    }
    println!("{}", dist.display());
    Ok(())
}

/// What cargo would publish, crate by crate, packed and compiled from its package.
fn crates(_: &Path) -> Result<Vec<String>, String> {
    // All at once, since each needs the ones before it, which no registry has yet.
    go(cargo(&["publish", "--workspace", "--dry-run", "--allow-dirty"]))?;
    Ok(Vec::new())
}

/// The code of other systems compiles.
fn targets(_: &Path) -> Result<Vec<String>, String> {
    let mut missing = Vec::new();
    for target in CHECKED {
        if !installed(target)? {
            missing.push(format!("{target} (rustup target add {target})"));
            continue;
        }
        go(cargo(&["check", "--quiet", "--target", target, "--package", "lsparse-cli"]))?;
    }
    Ok(missing)
}

/// The command, static and stripped, in an archive with its man pages and completions.
fn static_command(dist: &Path) -> Result<Vec<String>, String> {
    let mut missing = Vec::new();
    for target in STATIC {
        if !installed(target)? {
            missing.push(format!("{target} (rustup target add {target})"));
            continue;
        }
        go(cargo(&["build", "--release", "--target", target, "--package", "lsparse-cli"]))?;
        let built = Build::Release.program("lsparse");
        let built = built.parent().and_then(Path::parent).unwrap_or(Path::new("target"));
        let built = built.join(target).join("release/lsparse");
        let name = format!("lsparse-{}-{target}", env!("CARGO_PKG_VERSION"));
        let folder = dist.join(&name);
        let put = |from: &Path, to: &str| {
            let to = folder.join(to);
            to.parent()
                .map_or(Ok(()), std::fs::create_dir_all)
                .and_then(|()| std::fs::copy(from, &to))
                .map_err(|e| format!("{}: {e}", from.display()))
        };
        put(&built, "lsparse")?;
        for file in ["README.md", "LICENSE-MIT", "LICENSE-APACHE", "CHANGELOG.md"] {
            put(&root().join(file), file)?;
        }
        manuals(&folder.join("lsparse"), &folder.join("share"))?;
        let archive = dist.join(format!("{name}.tar.gz"));
        let parts = [archive.to_string_lossy(), dist.to_string_lossy(), name.as_str().into()];
        go(command("tar", &["-czf", &parts[0], "-C", &parts[1], &parts[2]]))?;
        std::fs::remove_dir_all(&folder).map_err(|e| e.to_string())?;
    }
    Ok(missing)
}

/// Man pages and completions, for those who make packages.
fn extras(dist: &Path) -> Result<Vec<String>, String> {
    go(cargo(&["build", "--release", "--package", "lsparse-cli"]))?;
    manuals(&Build::Release.program("lsparse"), &dist.join("share"))?;
    Ok(Vec::new())
}

fn manuals(lsparse: &Path, share: &Path) -> Result<(), String> {
    go(command(lsparse, &["manual", "--man", &share.join("man/man1").to_string_lossy()]))?;
    for (shell, file) in [("bash", "lsparse.bash"), ("zsh", "_lsparse"), ("fish", "lsparse.fish")] {
        let script = output(command(lsparse, &["completions", shell]))?;
        let folder = share.join("completions");
        std::fs::create_dir_all(&folder)
            .and_then(|()| std::fs::write(folder.join(file), script))
            .map_err(|e| e.to_string())?;
    }
    Ok(())
}

/// Wheels for any Linux since 2014, of one interface to all Pythons from 3.10 on.
fn wheels(dist: &Path) -> Result<Vec<String>, String> {
    let interpreter = tools()?;
    let mut missing = Vec::new();
    for target in WHEELS {
        if !installed(target)? {
            missing.push(format!("{target} (rustup target add {target})"));
            continue;
        }
        let mut wheel = maturin(&interpreter, "build", dist);
        wheel.args(["--release", "--zig", "--compatibility", "manylinux2014", "--target", target]);
        go(wheel)?;
    }
    Ok(missing)
}

/// The sources of the Python package, and a wheel built from them alone, to see that it can be.
fn sdist(dist: &Path) -> Result<Vec<String>, String> {
    let interpreter = tools()?;
    go(maturin(&interpreter, "sdist", dist))?;
    let sources = newest(dist, ".tar.gz", "lsparse-")?;
    let scratch = root().join("target/sdist-wheel");
    let mut build = command(&interpreter, &["-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]);
    build.arg("--wheel-dir").arg(scratch).arg(sources);
    go(build)?;
    Ok(Vec::new())
}

fn maturin(interpreter: &Path, what: &str, dist: &Path) -> Command {
    let mut maturin =
        command(interpreter, &["-m", "maturin", what, "--manifest-path", "crates/lsparse-python/Cargo.toml"]);
    // It asks `python3` on the path for zig.
    let here = interpreter.parent().unwrap_or(Path::new("")).to_path_buf();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths(std::iter::once(here).chain(std::env::split_paths(&path))).unwrap_or(path);
    maturin.arg("--out").arg(dist).env_remove("CONDA_PREFIX").env("PATH", path);
    maturin
}

/// An environment with what builds wheels for other machines.
fn tools() -> Result<PathBuf, String> {
    python("release-venv", "xtask/release-requirements.txt")
}

/// Whether the standard library of a target is there.
fn installed(target: &str) -> Result<bool, String> {
    let folder = output(command("rustc", &["--print", "target-libdir", "--target", target]))?;
    Ok(Path::new(folder.trim()).is_dir())
}

fn newest(folder: &Path, ending: &str, start: &str) -> Result<PathBuf, String> {
    let files = std::fs::read_dir(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let fits = |path: &PathBuf| {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        name.starts_with(start) && name.ends_with(ending) && !name.contains("linux")
    };
    let files = files.flatten().map(|file| file.path()).filter(fits);
    let time = |path: &PathBuf| path.metadata().and_then(|m| m.modified()).ok();
    files.max_by_key(time).ok_or_else(|| format!("there is no {start}*{ending} in {}", folder.display()))
}

/// Checksums of all files, as `sha256sum --check` reads them.
fn sums(dist: &Path) -> Result<(), String> {
    let files = std::fs::read_dir(dist).map_err(|e| format!("{}: {e}", dist.display()))?;
    let mut names: Vec<String> = files
        .flatten()
        .filter(|file| file.path().is_file())
        .map(|file| file.file_name().to_string_lossy().into_owned())
        .filter(|name| name != "SHA256SUMS")
        .collect();
    names.sort();
    if names.is_empty() {
        return Ok(());
    }
    let mut sum = Command::new("sha256sum");
    sum.args(names).current_dir(dist);
    std::fs::write(dist.join("SHA256SUMS"), output(sum)?).map_err(|e| e.to_string())
}
