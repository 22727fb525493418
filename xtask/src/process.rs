//! Running other programs from the root of the workspace, and the Python environment that benchmarks use.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The root of the workspace.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map_or_else(|| PathBuf::from("."), Path::to_path_buf)
}

/// How programs are built.
#[derive(Clone, Copy)]
pub enum Build {
    /// As tests are, with all checks: after `cargo test` there is little left to compile.
    Checked,
    /// As users get them.
    Release,
}

impl Build {
    /// The profile's name.
    pub fn profile(self) -> &'static str {
        match self {
            Build::Checked => "dev",
            Build::Release => "release",
        }
    }

    /// Where a program of the workspace comes to be.
    pub fn program(self, name: &str) -> PathBuf {
        let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
        let folder = match self {
            Build::Checked => "debug",
            Build::Release => "release",
        };
        root().join(target).join(folder).join(format!("{name}{}", std::env::consts::EXE_SUFFIX))
    }
}

/// A program of the workspace that was built for release.
pub fn release(name: &str) -> PathBuf {
    Build::Release.program(name)
}

/// A command that will run in the root of the workspace.
pub fn command(program: impl AsRef<std::ffi::OsStr>, args: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(args).current_dir(root());
    command
}

/// The cargo that runs this program.
pub fn cargo(args: &[&str]) -> Command {
    command(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()), args)
}

/// Run to the end, output shown as it comes; an error if it fails.
pub fn go(mut command: Command) -> Result<(), String> {
    let shown = show(&command);
    eprintln!("$ {shown}");
    let status = command.status().map_err(|e| format!("cannot run {shown}: {e}"))?;
    if status.success() { Ok(()) } else { Err(format!("failed: {shown}")) }
}

/// Run to the end and give what it printed to stdout.
pub fn output(mut command: Command) -> Result<String, String> {
    let shown = show(&command);
    eprintln!("$ {shown}");
    let output = command.stderr(Stdio::inherit()).output().map_err(|e| format!("cannot run {shown}: {e}"))?;
    if !output.status.success() {
        return Err(format!("failed: {shown}"));
    }
    String::from_utf8(output.stdout).map_err(|e| format!("{shown}: {e}"))
}

/// Run to the end, output shown as it comes, and add up the (passed, failed, skipped) that `parse` finds in its lines.
pub fn counted(
    mut command: Command,
    parse: fn(&str) -> Option<(usize, usize, usize)>,
) -> Result<(usize, usize, usize), String> {
    let shown = show(&command);
    eprintln!("$ {shown}");
    let mut child = command.stdout(Stdio::piped()).spawn().map_err(|e| format!("cannot run {shown}: {e}"))?;
    let mut counts = (0, 0, 0);
    if let Some(out) = child.stdout.take() {
        for line in BufReader::new(out).lines() {
            let line = line.map_err(|e| e.to_string())?;
            println!("{line}");
            if let Some((passed, failed, ignored)) = parse(&line) {
                counts = (counts.0 + passed, counts.1 + failed, counts.2 + ignored);
            }
        }
    }
    let status = child.wait().map_err(|e| e.to_string())?;
    if !status.success() && counts.1 == 0 {
        return Err(format!("did not build or was stopped: {shown}"));
    }
    Ok(counts)
}

fn show(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}

/// The interpreter of a virtual environment under target/, which may have to be made.
pub fn interpreter(name: &str) -> PathBuf {
    root().join("target").join(name).join(if cfg!(windows) { "Scripts/python.exe" } else { "bin/python" })
}

/// The interpreter of a virtual environment under target/ with `requirements` (a file in the repository) installed.
pub fn python(name: &str, requirements: &str) -> Result<PathBuf, String> {
    let folder = root().join("target").join(name);
    let interpreter = interpreter(name);
    let stamp = folder.join("requirements.installed");
    let wanted = std::fs::read_to_string(root().join(requirements)).map_err(|e| format!("{requirements}: {e}"))?;
    if std::fs::read_to_string(&stamp).is_ok_and(|found| found == wanted) {
        return Ok(interpreter);
    }
    go(command("python3", &["-m", "venv", &folder.to_string_lossy()]))?;
    go(command(&interpreter, &["-m", "pip", "install", "--quiet", "--requirement", requirements]))?;
    std::fs::write(&stamp, wanted).map_err(|e| e.to_string())?;
    Ok(interpreter)
}
