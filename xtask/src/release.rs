//! `cargo xtask release`: everything that a release consists of, made by one command into target/dist.
//!
//! What cannot be made on this machine (a target whose standard library is not installed, say) is named with the reason, and
//! the rest is made.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use crate::docs;
use crate::process::{Build, cargo, command, go, interpreter, output, python, root};

/// What wheels are built for: the oldest Linux (glibc 2.17), which zig links for on any machine.
const WHEELS: [&str; 2] = ["x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"];

/// Commands that need nothing of the system they run on: all of the C library is in them. (With musl it would be a target
/// that few have installed, and an allocator that makes threads wait for each other.)
const STATIC: [&str; 2] = ["x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"];

/// Bytes that a static command has at most: all models for f32 and f64, and dictionaries of languages without blanks
/// (docs/benchmarks.md has the parts).
const LARGEST: u64 = 25_000_000;

/// Seconds of computing that the import of the package takes at most, beyond what it takes of scikit-learn.
const LONGEST_IMPORT: f64 = 0.5;

/// Seconds of computing that installing the wheel, without what it needs of others, and the blocks of the README take at most.
const LONGEST_TRIAL: f64 = 10.0;

/// Says how long the import takes.
const IMPORT: &str = "
import time, sklearn.base, sklearn.decomposition, sklearn.mixture
before = time.process_time()
import lsparse
print(round(time.process_time() - before, 2))";

/// Systems that are looked at, and not built for.
const CHECKED: [&str; 3] = ["aarch64-unknown-linux-gnu", "aarch64-apple-darwin", "x86_64-pc-windows-msvc"];

const USAGE: &str =
    "usage: cargo xtask release [crates|targets|command|extras|wheels|sdist|trial|emulated|conda|offline]...";

/// A part of a release: its name, and what makes it.
type Part = (&'static str, fn(&Path) -> Result<Vec<String>, String>);

const PARTS: [Part; 10] = [
    ("crates", crates),
    ("targets", targets),
    ("command", static_command),
    ("extras", extras),
    ("wheels", wheels),
    ("sdist", sdist),
    ("trial", trial),
    ("emulated", emulated),
    ("conda", conda),
    ("offline", offline),
];

/// All parts, or those that are named.
pub fn run(args: &[&str]) -> Result<(), String> {
    if let Some(unknown) = args.iter().find(|arg| !PARTS.iter().any(|(name, _)| name == *arg)) {
        return Err(format!("there is no {unknown}\n{USAGE}"));
    }
    let dist = root().join("target/dist");
    fs::create_dir_all(&dist).map_err(|e| format!("{}: {e}", dist.display()))?;
    let (mut missing, mut failed, mut times) = (Vec::new(), Vec::new(), Vec::new());
    for (name, make) in PARTS.iter().filter(|(name, _)| args.is_empty() || args.contains(name)) {
        eprintln!("# {name}");
        let begun = Instant::now();
        // What fails is told at the end too, and does not keep the others from being made.
        match make(&dist) {
            Ok(left_out) => missing.extend(left_out.into_iter().map(|why| format!("{name}: {why}"))),
            Err(why) => {
                eprintln!("{name} failed: {why}");
                failed.push(format!("{name}: {why}"));
            }
        }
        times.push((name, begun.elapsed().as_secs_f64()));
    }
    for (name, seconds) in times {
        println!("{name:>10} {seconds:7.1} s");
    }
    for (name, bytes) in sums(&dist)? {
        println!("{:7.2} MB  {name}", bytes as f64 / 1e6);
    }
    missing.iter().for_each(|why| println!("not made here: {why}"));
    failed.iter().for_each(|why| println!("failed: {why}"));
    println!("{}", dist.display());
    if failed.is_empty() { Ok(()) } else { Err(format!("{} parts of the release failed", failed.len())) }
}

/// What cargo would publish, crate by crate, packed and compiled from its package.
fn crates(_: &Path) -> Result<Vec<String>, String> {
    // All at once, since each needs the ones before it, which no registry has yet.
    go(cargo(&["publish", "--workspace", "--dry-run", "--allow-dirty"]))?;
    Ok(Vec::new())
}

/// The code of other systems compiles: counts of systems that it was tried for, none failed, and those left out.
pub fn check_targets() -> Result<(usize, usize, usize), String> {
    let missing = targets(&root())?;
    missing.iter().for_each(|why| println!("not checked here: {why}"));
    Ok((CHECKED.len() - missing.len(), 0, missing.len()))
}

fn targets(_: &Path) -> Result<Vec<String>, String> {
    let mut missing = Vec::new();
    for target in CHECKED {
        let mut check =
            cargo(&["check", "--quiet", "--target", target, "--package", "lsparse-cli", "--package", "lsparse-python"]);
        // There is one interface to all Pythons, so that none is asked.
        check.env("PYO3_NO_PYTHON", "1");
        if !installed(target)? {
            if !has_sources_of_std()? {
                missing.push(format!("{target} (rustup target add {target}, or rustup component add rust-src)"));
                continue;
            }
            // Its standard library is checked with it; a stable toolchain does that if it is told that it may.
            check.args(["-Z", "build-std=std,panic_unwind"]).env("RUSTC_BOOTSTRAP", "1");
        }
        go(check)?;
    }
    Ok(missing)
}

/// The command, static and stripped, in an archive with its man pages and completions.
fn static_command(dist: &Path) -> Result<Vec<String>, String> {
    extras(dist)?;
    let mut missing = Vec::new();
    for target in STATIC {
        let Some(linker) = linker_of(target)? else {
            missing.push(format!("{target} ({})", lacks(target)?));
            continue;
        };
        let built = build_static(target, linker)?;
        let program = Program::read(&built)?;
        if program.asks_for_loader() {
            return Err(format!("{} is not static", built.display()));
        }
        if program.has_symbols() {
            return Err(format!("{} is not stripped", built.display()));
        }
        let name = static_name(target);
        let folder = dist.join(&name);
        remove_folder(&folder)?;
        fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        let text = |name: &str| root().join(name).to_string_lossy().into_owned();
        let files = ["README.md", "LICENSE-MIT", "LICENSE-APACHE", "CHANGELOG.md"].map(text);
        let mut copy = command("cp", &["-r", &built.to_string_lossy(), &dist.join("share").to_string_lossy()]);
        copy.args(files).arg(&folder);
        go(copy)?;
        let archive = dist.join(format!("{name}.tar.gz"));
        let parts = [archive.to_string_lossy(), dist.to_string_lossy(), name.as_str().into()];
        go(command("tar", &["-czf", &parts[0], "-C", &parts[1], &parts[2]]))?;
        remove_folder(&folder)?;
    }
    Ok(missing)
}

/// The command for a target, with all of the C library in it.
fn build_static(target: &str, linker: Option<String>) -> Result<PathBuf, String> {
    // The target is named so that programs which run while it is built are not static too.
    let mut build = cargo(&["build", "--release", "--locked", "--target", target, "--package", "lsparse-cli"]);
    build.env("RUSTFLAGS", "-C target-feature=+crt-static");
    if let Some(linker) = linker {
        build.env(format!("CARGO_TARGET_{}_LINKER", target.to_uppercase().replace('-', "_")), linker);
    }
    go(build)?;
    let target_folder = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| "target".into(), PathBuf::from);
    Ok(root().join(target_folder).join(target).join("release/lsparse"))
}

/// The name of the archive for a target: `lsparse-0.1.0-x86_64-linux`.
fn static_name(target: &str) -> String {
    format!("lsparse-{}-{}-linux", env!("CARGO_PKG_VERSION"), machine_of(target))
}

/// The machine of a target: `aarch64` of `aarch64-unknown-linux-gnu`.
fn machine_of(target: &str) -> &str {
    target.split_once('-').map_or(target, |(machine, _)| machine)
}

/// What links programs for another machine, as Debian calls it; none where that is this one.
fn cross_linker(target: &str) -> Result<Option<String>, String> {
    Ok((target != host()?).then(|| format!("{}-linux-gnu-gcc", machine_of(target))))
}

/// What links programs for a target, if it needs more than this machine's own; none where the target cannot be built for.
fn linker_of(target: &str) -> Result<Option<Option<String>>, String> {
    let linker = cross_linker(target)?;
    let there = linker.as_ref().is_none_or(|linker| output(command(linker, &["--version"])).is_ok());
    Ok((installed(target)? && there).then_some(linker))
}

/// What to install in order to build for a target.
fn lacks(target: &str) -> Result<String, String> {
    let linker = cross_linker(target)?.map_or(String::new(), |linker| format!(", and {linker}"));
    Ok(format!("rustup target add {target}{linker}"))
}

/// An ELF program of 64 bits.
struct Program(Vec<u8>);

impl Program {
    fn read(path: &Path) -> Result<Self, String> {
        let bytes = fs::read(path).map_err(|e| format!("{}: {e}", path.display()))?;
        match bytes.starts_with(b"\x7fELF\x02") {
            true => Ok(Program(bytes)),
            false => Err(format!("{} is no program", path.display())),
        }
    }

    fn number(&self, place: usize, len: usize) -> Option<usize> {
        let bytes = self.0.get(place..place + len)?;
        Some(bytes.iter().rev().fold(0, |number, &byte| number << 8 | usize::from(byte)))
    }

    /// Whether a table, whose start, size of entries and number of entries are in these places, has an entry of this kind.
    fn has(&self, [start, size, count]: [(usize, usize); 3], (place, kind): (usize, usize)) -> bool {
        let read = |(place, len)| self.number(place, len).unwrap_or(0);
        let (start, size) = (read(start), read(size));
        (0..read(count)).any(|entry| self.number(start + entry * size + place, 4) == Some(kind))
    }

    /// Whether it names another that is to load it, as those do which are not static.
    fn asks_for_loader(&self) -> bool {
        self.has([(32, 8), (54, 2), (56, 2)], (0, 3))
    }

    /// Whether it has the names of its functions, and line tables perhaps.
    fn has_symbols(&self) -> bool {
        self.has([(40, 8), (58, 2), (60, 2)], (4, 2))
    }
}

/// Man pages and completions, for those who make packages.
fn extras(dist: &Path) -> Result<Vec<String>, String> {
    let host = host()?;
    let lsparse = if STATIC.contains(&host.as_str()) {
        build_static(&host, None)?
    } else {
        go(cargo(&["build", "--release", "--locked", "--package", "lsparse-cli"]))?;
        Build::Release.program("lsparse")
    };
    manuals(&lsparse, &dist.join("share"))?;
    Ok(Vec::new())
}

fn manuals(lsparse: &Path, share: &Path) -> Result<(), String> {
    go(command(lsparse, &["manual", "--man", &share.join("man/man1").to_string_lossy()]))?;
    for (shell, file) in [("bash", "lsparse.bash"), ("zsh", "_lsparse"), ("fish", "lsparse.fish")] {
        let script = output(command(lsparse, &["completions", shell]))?;
        let folder = share.join("completions");
        fs::create_dir_all(&folder).and_then(|()| fs::write(folder.join(file), script)).map_err(|e| e.to_string())?;
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
    // Crates of others need not be compiled again for it.
    build.arg("--wheel-dir").arg(scratch).arg(sources).env("CARGO_TARGET_DIR", root().join("target"));
    go(on_path(build, &interpreter))?;
    Ok(Vec::new())
}

/// What was made for this machine, tried as by somebody who has nothing: the wheel in a fresh environment, with the blocks of
/// the README, and the static command where there is no file but itself.
fn trial(dist: &Path) -> Result<Vec<String>, String> {
    let mut missing = Vec::new();
    let host = host()?;
    let machine = machine_of(&host);
    let alone = root().join("target/trial-root");
    let lsparse = alone.join("lsparse");
    if unpack(dist, &host, &alone)? {
        let folder = alone.to_string_lossy();
        if output(command("id", &["-u"]))?.trim() == "0" {
            go(command("chroot", &[&folder, "/lsparse", "demo", "--quiet"]))?;
        } else {
            missing.push("an empty root for the static command (only root can make one)".into());
            go(command(&lsparse, &["demo", "--quiet"]))?;
        }
        let bytes = fs::metadata(&lsparse).map_or(0, |found| found.len());
        println!("the static command has {:.1} MB", bytes as f64 / 1e6);
        if bytes > LARGEST {
            return Err(format!("the static command has more than {} MB; see what came into it", LARGEST / 1_000_000));
        }
    } else {
        missing.push("the static command (it is not there)".into());
    }
    let Ok(wheel) = newest(dist, &format!("{machine}.whl"), "lsparse-") else {
        missing.push(format!("a wheel for {machine} (none is there)"));
        return Ok(missing);
    };
    remove_folder(&root().join("target/trial-venv"))?;
    go(command("python3", &["-m", "venv", "target/trial-venv"]))?;
    let python = interpreter("trial-venv");
    // First the wheel, then what it needs of others: they take most of the time, and nothing here makes them faster.
    let start = Instant::now();
    let clock = || computing().unwrap_or(start.elapsed().as_secs_f64());
    let install = |options: &[&str]| {
        let begun = clock();
        let mut pip = command(&python, &["-m", "pip", "install", "--quiet"]);
        pip.args(options).arg(&wheel);
        go(pip).map(|()| clock() - begun)
    };
    let (own, others) = (install(&["--no-deps"])?, install(&[])?);
    let tools = docs::Tools { lsparse, python };
    let begun = clock();
    let (_, failed) = docs::try_alone(&tools, "README.md")?;
    let example = clock() - begun;
    println!(
        "{own:.1} s of computing for the wheel, {others:.1} s for what it needs, {example:.1} s for the README; {:.1} s in all \
         by the clock",
        start.elapsed().as_secs_f64()
    );
    if failed > 0 {
        return Err(format!("{failed} blocks of the README failed"));
    }
    if own + example > LONGEST_TRIAL {
        return Err(format!("the wheel and the README take more than {LONGEST_TRIAL} s"));
    }
    let import = output(command(&tools.python, &["-c", IMPORT]))?;
    println!("imported in {} s beyond scikit-learn, of {LONGEST_IMPORT} s", import.trim());
    match import.trim().parse::<f64>() {
        Ok(seconds) if seconds < LONGEST_IMPORT => Ok(missing),
        _ => Err("importing the package takes too long".into()),
    }
}

/// Seconds that the programs which were run so far have computed, whatever else the machine was busy with; none where the
/// system does not say.
fn computing() -> Option<f64> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // Behind the name, which may hold anything, the 14th and 15th: hundredths of a second of children that have ended.
    let (_, fields) = stat.rsplit_once(')')?;
    let hundredths = fields.split_whitespace().skip(13).take(2).map(|field| field.parse::<f64>().ok());
    Some(hundredths.sum::<Option<f64>>()? / 100.0)
}

/// What was made for another machine, tried where that machine is emulated: its static command, and its kernels against
/// those in plain Rust.
fn emulated(dist: &Path) -> Result<Vec<String>, String> {
    let host = host()?;
    let mut missing = Vec::new();
    for target in STATIC.into_iter().filter(|target| *target != host) {
        let machine = machine_of(target);
        let emulator = format!("qemu-{machine}");
        if output(command(&emulator, &["--version"])).is_err() {
            missing.push(format!("{target} ({emulator}, of Debian's qemu-user)"));
            continue;
        }
        let folder = root().join("target").join(format!("trial-{machine}"));
        if unpack(dist, target, &folder)? {
            if !gives_the_same_bytes(dist, &host, &emulator, &folder)? {
                missing
                    .push(format!("bytes of {target} beside those of this machine (there is no command for {host})"));
            }
        } else {
            missing.push(format!("the static command for {target} (it is not there)"));
        }
        let Some(linker) = linker_of(target)? else {
            missing.push(format!("kernels of {target} ({})", lacks(target)?));
            continue;
        };
        let mut kernels = cargo(&["test", "--quiet", "--target", target, "--package", "lsparse-kernels"]);
        let setting = |name: &str| format!("CARGO_TARGET_{}_{name}", target.to_uppercase().replace('-', "_"));
        // Debian has the libraries of other machines in folders of their names.
        kernels.env(setting("RUNNER"), format!("{emulator} -L /usr/{machine}-linux-gnu"));
        if let Some(linker) = linker {
            kernels.env(setting("LINKER"), linker);
        }
        go(kernels)?;
    }
    Ok(missing)
}

/// Train with the command in a folder that was unpacked, on its own instructions and on plain ones, where it gives the bytes
/// that this machine's command gives; false where there is none to compare with.
fn gives_the_same_bytes(dist: &Path, host: &str, emulator: &str, folder: &Path) -> Result<bool, String> {
    let rows = folder.join("rows.csv");
    let row = |n: u32| format!("{},{},{}\n", 10 * (n % 5) + n * 7919 % 997, n * 104_729 % 991, n * 31 % 17);
    fs::write(&rows, (0..3000).map(row).collect::<String>()).map_err(|e| format!("{}: {e}", rows.display()))?;
    let train = |mut command: Command, name: &str| {
        let out = folder.join(name);
        command.args(["fit", "mixture", "-k", "5", "--quiet", "--out"]).args([&out, &rows]);
        go(command)?;
        fs::read(&out).map_err(|e| format!("{}: {e}", out.display()))
    };
    let there = || command(emulator, &[&folder.join("lsparse").to_string_lossy()]);
    train(there(), "own.safetensors")?;
    let mut plain = there();
    plain.env("LSPARSE_SIMD", "portable");
    let found = train(plain, "plain.safetensors")?;
    let here = folder.join("here");
    if !unpack(dist, host, &here)? {
        return Ok(false);
    }
    let mut plain = command(here.join("lsparse"), &[]);
    plain.env("LSPARSE_SIMD", "portable");
    match train(plain, "here.safetensors")? == found {
        true => Ok(true),
        false => Err("plain instructions give other bytes on another machine".into()),
    }
}

/// The static command for a target, taken out of its archive into a folder with nothing else but a place for files; false
/// where there is no archive.
fn unpack(dist: &Path, target: &str, folder: &Path) -> Result<bool, String> {
    let archive = dist.join(format!("{}.tar.gz", static_name(target)));
    if !archive.exists() {
        return Ok(false);
    }
    remove_folder(folder)?;
    fs::create_dir_all(folder.join("tmp")).map_err(|e| format!("{}: {e}", folder.display()))?;
    let name = format!("{}/lsparse", static_name(target));
    let (archive, folder) = (archive.to_string_lossy(), folder.to_string_lossy());
    go(command("tar", &["-xzf", &archive, "-C", &folder, "--strip-components=1", &name]))?;
    Ok(true)
}

/// The steps of the conda recipe, run in a plain environment, and then its tests.
fn conda(_: &Path) -> Result<Vec<String>, String> {
    let recipe = fs::read_to_string(root().join("packaging/conda/meta.yaml")).map_err(|e| e.to_string())?;
    let interpreter = python("conda-venv", "xtask/conda-requirements.txt")?;
    let prefix = interpreter.parent().and_then(Path::parent).unwrap_or(Path::new("")).to_string_lossy().into_owned();
    let mut missing = Vec::new();
    for section in ["script", "commands"] {
        let steps = steps_of(&recipe, section);
        if steps.is_empty() {
            return Err(format!("the recipe has no {section}"));
        }
        for step in steps {
            let step = step.replace("{{ PYTHON }}", &interpreter.to_string_lossy()).replace("{{ PREFIX }}", &prefix);
            let program = step.split_whitespace().next().unwrap_or_default();
            if program == "cargo-bundle-licenses" && output(command(program, &["--version"])).is_err() {
                missing.push(format!("{step} (cargo install {program})"));
                continue;
            }
            let mut step = command("sh", &["-c", &step]);
            // Crates of others need not be compiled again for it.
            step.env("CARGO_TARGET_DIR", root().join("target")).env("PREFIX", &prefix);
            go(on_path(step, &interpreter))?;
        }
    }
    go(command(&interpreter, &["-c", "import lsparse"]))?;
    // The licences of others are for the package that is made of a copy of the sources.
    let _ = fs::remove_file(root().join("THIRDPARTY.yml"));
    Ok(missing)
}

/// The list under a key of a recipe: lines that open with a dash, as deep as the first.
fn steps_of(recipe: &str, key: &str) -> Vec<String> {
    let lines = recipe.lines().skip_while(|line| line.trim() != format!("{key}:")).skip(1);
    lines.map_while(|line| line.trim().strip_prefix("- ").map(str::to_owned)).collect()
}

/// What the Dockerfile does to the sources, done to the sources as they were committed last, without a network: crates of
/// others are vendored before, as it says.
fn offline(_: &Path) -> Result<Vec<String>, String> {
    let place = root().join("target/offline");
    let (sources, home) = (place.join("source"), place.join("empty"));
    remove_folder(&home)?;
    fs::create_dir_all(sources.join(".cargo")).and_then(|()| fs::create_dir_all(&home)).map_err(|e| e.to_string())?;
    let folder = |path: &Path| path.to_string_lossy().into_owned();
    go(command("sh", &["-c", &format!("git archive HEAD | tar -x -C '{}'", folder(&sources))]))?;
    let mut vendor = cargo(&["vendor", "--locked", "--versioned-dirs", "vendor"]);
    vendor.current_dir(&sources);
    let settings = sources.join(".cargo/config.toml");
    let both = output(vendor)? + &fs::read_to_string(&settings).unwrap_or_default();
    fs::write(&settings, both).map_err(|e| e.to_string())?;
    let text = fs::read_to_string(root().join("Dockerfile")).map_err(|e| e.to_string())?;
    let built = place.join("lsparse");
    for step in run_steps(&text) {
        let step = step.replace(" /lsparse", &format!(" '{}'", folder(&built)));
        // Where a process may be given a network of its own, it has none.
        let alone = output(command("unshare", &["--net", "true"])).is_ok();
        let mut run =
            if alone { command("unshare", &["--net", "sh", "-c", &step]) } else { command("sh", &["-c", &step]) };
        run.current_dir(&sources)
            .env("CARGO_HOME", &home)
            .env("CARGO_NET_OFFLINE", "true")
            .env_remove("CARGO_TARGET_DIR");
        go(run)?;
    }
    if Program::read(&built)?.asks_for_loader() {
        return Err(format!("{} is not static", built.display()));
    }
    go(command(&built, &["--version"]))?;
    let engine = output(command("docker", &["version"])).is_ok();
    Ok(if engine { Vec::new() } else { vec!["the image itself (no Docker answers; its steps were run)".into()] })
}

/// What a Dockerfile runs, each step on one line.
fn run_steps(text: &str) -> Vec<String> {
    let joined = text.replace("\\\n", " ");
    joined.lines().filter_map(|line| line.strip_prefix("RUN ")).map(str::to_owned).collect()
}

fn maturin(interpreter: &Path, what: &str, dist: &Path) -> Command {
    let mut maturin =
        command(interpreter, &["-m", "maturin", what, "--manifest-path", "crates/lsparse-python/Cargo.toml"]);
    maturin.arg("--out").arg(dist).env_remove("CONDA_PREFIX");
    // It asks `python3` on the path for zig.
    on_path(maturin, interpreter)
}

/// The same command, which finds the programs of an environment first.
fn on_path(mut command: Command, interpreter: &Path) -> Command {
    let here = interpreter.parent().unwrap_or(Path::new("")).to_path_buf();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths(std::iter::once(here).chain(std::env::split_paths(&path))).unwrap_or(path);
    command.env("PATH", path);
    command
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

/// Whether the sources of the standard library are there, as a component of the toolchain.
fn has_sources_of_std() -> Result<bool, String> {
    let sysroot = output(command("rustc", &["--print", "sysroot"]))?;
    Ok(Path::new(sysroot.trim()).join("lib/rustlib/src/rust/library/std/Cargo.toml").is_file())
}

/// The target of this machine.
fn host() -> Result<String, String> {
    let version = output(command("rustc", &["--version", "--verbose"]))?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or_else(|| "rustc does not say what it is for".into())
}

fn remove_folder(folder: &Path) -> Result<(), String> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(format!("{}: {error}", folder.display())),
        _ => Ok(()),
    }
}

fn newest(folder: &Path, ending: &str, start: &str) -> Result<PathBuf, String> {
    let files = fs::read_dir(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let fits = |path: &PathBuf| {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        name.starts_with(start) && name.ends_with(ending) && !name.contains("-linux.")
    };
    let files = files.flatten().map(|file| file.path()).filter(fits);
    let time = |path: &PathBuf| path.metadata().and_then(|m| m.modified()).ok();
    files.max_by_key(time).ok_or_else(|| format!("there is no {start}*{ending} in {}", folder.display()))
}

/// Checksums of all files, as `sha256sum --check` reads them; their names and sizes.
fn sums(dist: &Path) -> Result<Vec<(String, u64)>, String> {
    let files = fs::read_dir(dist).map_err(|e| format!("{}: {e}", dist.display()))?;
    let mut names: Vec<String> = files
        .flatten()
        .filter(|file| file.path().is_file())
        .map(|file| file.file_name().to_string_lossy().into_owned())
        .filter(|name| name != "SHA256SUMS")
        .collect();
    names.sort();
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let mut sum = Command::new("sha256sum");
    sum.args(&names).current_dir(dist);
    fs::write(dist.join("SHA256SUMS"), output(sum)?).map_err(|e| e.to_string())?;
    let size = |name: &String| fs::metadata(dist.join(name)).map_or(0, |found| found.len());
    Ok(names.into_iter().map(|name| (name.clone(), size(&name))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_of_recipe_and_image_are_found() {
        let recipe = fs::read_to_string(root().join("packaging/conda/meta.yaml")).unwrap();
        let (script, tests) = (steps_of(&recipe, "script"), steps_of(&recipe, "commands"));
        assert_eq!((script.len(), tests.len()), (3, 2));
        assert!(script[1].contains("pip install ./crates/lsparse-python") && tests[1].starts_with("lsparse demo"));
        let steps = run_steps(&fs::read_to_string(root().join("Dockerfile")).unwrap());
        assert_eq!(steps.len(), 1);
        assert!(steps[0].contains("cargo build --release --locked") && steps[0].ends_with(" /lsparse"), "{steps:?}");
    }

    #[test]
    fn the_recipe_has_the_version_and_requirements_of_the_package() {
        let read = |name: &str| fs::read_to_string(root().join(name)).unwrap();
        let (recipe, package) = (read("packaging/conda/meta.yaml"), read("crates/lsparse-python/pyproject.toml"));
        assert!(recipe.contains(&format!("version = \"{}\"", env!("CARGO_PKG_VERSION"))));
        let citation = read("CITATION.cff");
        assert!(citation.contains(&format!("version: {}\n", env!("CARGO_PKG_VERSION"))));
        // An expression is no licence there: readers of the format refuse it.
        assert!(citation.contains("\nlicense: [MIT, Apache-2.0]\n"));
        for needed in ["numpy", "scipy", "scikit-learn"] {
            let (_, least) = package.split_once(&format!("\"{needed}>=")).unwrap();
            let (least, _) = least.split_once('"').unwrap();
            assert!(recipe.contains(&format!("- {needed} >={least}")), "{needed} >={least}");
        }
    }

    /// Lines of the code that is released, without those of tests, file by file.
    fn released_code() -> Vec<(PathBuf, Vec<String>)> {
        fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
            for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
                if path.is_dir() {
                    walk(&path, found);
                } else if path.extension().is_some_and(|ending| ending == "rs") {
                    found.push(path);
                }
            }
        }
        let mut files = Vec::new();
        for entry in fs::read_dir(root().join("crates")).unwrap() {
            walk(&entry.unwrap().path().join("src"), &mut files);
        }
        let read = |path: PathBuf| {
            let text = fs::read_to_string(&path).unwrap();
            let of_tests = |line: &&str| line.starts_with("#[cfg(test)]") || line.starts_with("#[cfg(all(test");
            (path, text.lines().take_while(|line| !of_tests(line)).map(str::to_owned).collect())
        };
        files.into_iter().map(read).collect()
    }

    /// The system that an attribute is for, `unix` of `#[cfg(unix)]`.
    fn system_of(line: &str) -> Option<&str> {
        let system = line.trim().strip_prefix("#[cfg(")?.strip_suffix(")]")?;
        ["unix", "windows", "target_os", "target_family"].iter().any(|word| system.starts_with(word)).then_some(system)
    }

    #[test]
    fn code_for_one_system_has_a_counterpart_for_the_others() {
        let indent = |line: &str| line.len() - line.trim_start().len();
        let (mut items, mut calls) = (0, 0);
        for (path, lines) in released_code() {
            let place = |at: usize| format!("{}:{}: {}", path.display(), at + 1, lines[at].trim());
            for (at, line) in lines.iter().enumerate() {
                if let Some(system) = system_of(line) {
                    let next =
                        lines[at + 1..].iter().map(|line| line.trim()).find(|line| !line.starts_with(['#', '/']));
                    let next = next.unwrap_or_default();
                    // A statement that others can do without defines nothing.
                    let item = ["fn ", "pub", "impl", "struct ", "enum ", "mod ", "use ", "const ", "static ", "type "];
                    let field = next.ends_with(',') && next.contains(": ");
                    if field || item.iter().any(|word| next.starts_with(word)) {
                        let other = format!("#[cfg(not({system}))]");
                        assert!(lines.iter().any(|line| line.trim() == other), "{} has no counterpart", place(at));
                        items += 1;
                    }
                }
                // What only some systems have stands behind such an attribute, whose item has not ended before it.
                let words =
                    ["std::os::unix", "std::os::linux", "std::os::windows", "rustix::", "libc::", "signal_hook::"];
                let code = line.split("//").next().unwrap_or_default();
                if words.iter().any(|word| code.contains(word)) {
                    let guarded = (0..at)
                        .rev()
                        .find(|&before| system_of(&lines[before]).is_some() && indent(&lines[before]) <= indent(line));
                    let guarded = guarded.is_some_and(|from| {
                        let end = |line: &String| line.starts_with(&format!("{}}}", " ".repeat(indent(&lines[from]))));
                        !lines[from..at].iter().any(end)
                    });
                    assert!(guarded, "{} is for some systems alone", place(at));
                    calls += 1;
                }
            }
        }
        assert!(items >= 5 && calls >= 5, "{items} items and {calls} calls: the sources are not read");
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn programs_are_timed_by_what_they_compute() {
        let before = computing().unwrap();
        output(command("python3", &["-c", "import time\nwhile time.process_time() < 0.3: pass"])).unwrap();
        let spent = computing().unwrap() - before;
        // Other tests of this process run programs too.
        assert!(spent >= 0.28, "{spent}");
        assert!(before < 3600.0);
    }

    #[test]
    fn programs_say_whether_they_are_static_and_stripped() {
        // Tests are linked as most programs are, with their symbols; a text is no program.
        let own = std::env::current_exe().unwrap();
        if cfg!(all(target_os = "linux", target_env = "gnu", not(target_feature = "crt-static"))) {
            let own = Program::read(&own).unwrap();
            assert!(own.asks_for_loader() && own.has_symbols());
        }
        assert!(Program::read(&root().join("README.md")).is_err());
        // What users get has no symbols: the program with line tables is twice as large and more.
        let read = |name: &str| fs::read_to_string(root().join(name)).unwrap();
        assert!(read("Cargo.toml").contains("[profile.release]\nstrip = \"symbols\"\n"));
        assert!(read("crates/lsparse-python/pyproject.toml").contains("\nstrip = true\n"));
        assert_eq!(
            static_name("x86_64-unknown-linux-gnu"),
            format!("lsparse-{}-x86_64-linux", env!("CARGO_PKG_VERSION"))
        );
    }
}
