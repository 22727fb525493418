//! `cargo xtask bench topics`: held-out scores against seconds of training, next to other systems and by one scorer.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use super::{lines, single};
use crate::process::{cargo, command, go, output, python, release, root};

pub const USAGE: &str = "usage: cargo xtask bench topics --corpus FOLDER [-k 200] [--times 5,10,30] \
    [--peers tomotopy,gensim,sklearn] [--factor 20] [-- SETTINGS of our training]";

/// What was asked for.
struct Plan {
    corpus: PathBuf,
    topics: String,
    times: Vec<f64>,
    peers: Vec<String>,
    factor: f64,
    settings: Vec<String>,
}

impl Plan {
    fn parse(args: &[&str]) -> Result<Self, String> {
        let mut corpus = None;
        let mut plan = Plan {
            corpus: PathBuf::new(),
            topics: "200".into(),
            times: vec![5.0, 10.0, 30.0],
            peers: ["tomotopy", "gensim", "sklearn"].map(String::from).into(),
            factor: 20.0,
            settings: Vec::new(),
        };
        let number = |text: &str| text.parse::<f64>().map_err(|e| format!("{text:?}: {e}"));
        let mut args = args.iter();
        while let Some(&name) = args.next() {
            if name == "--" {
                plan.settings = args.map(|&arg| arg.to_owned()).collect();
                break;
            }
            let value = *args.next().ok_or_else(|| format!("{name} needs a value\n{USAGE}"))?;
            match name {
                "--corpus" => corpus = Some(std::path::absolute(value).map_err(|e| format!("{value}: {e}"))?),
                "-k" => plan.topics = value.into(),
                "--times" => plan.times = value.split(',').map(number).collect::<Result<_, _>>()?,
                "--peers" => plan.peers = value.split(',').filter(|p| !p.is_empty()).map(String::from).collect(),
                "--factor" => plan.factor = number(value)?,
                _ => return Err(format!("there is no {name}\n{USAGE}")),
            }
        }
        plan.corpus = corpus.ok_or(USAGE)?;
        plan.times.sort_by(f64::total_cmp);
        Ok(plan)
    }
}

pub fn run(args: &[&str]) -> Result<(), String> {
    let plan = Plan::parse(args)?;
    let interpreter = python("bench-venv", "bench/requirements.txt")?;
    go(cargo(&["build", "--release", "--package", "lsparse-bench"]))?;
    let folder = root().join("target/bench-data");
    std::fs::create_dir_all(&folder).map_err(|e| e.to_string())?;
    let name = plan.corpus.file_name().map_or_else(String::new, |n| n.to_string_lossy().into_owned());
    let mut log = Log::create(&folder.join(format!("topics-{name}-{}.jsonl", plan.topics)))?;
    // Before the others and after them: the machine may have been busy with something else in between.
    log.add(ours(&plan)?, "first")?;
    for peer in &plan.peers {
        for line in lines(&output(theirs(&plan, &interpreter, peer, &folder))?)? {
            log.add(vec![scored(&plan, line)?], "peer")?;
        }
    }
    log.add(ours(&plan)?, "again")?;
    table(&log.lines);
    verdicts(&plan, &log.lines);
    Ok(())
}

/// Lines as they come, in memory and in a file.
struct Log {
    file: std::fs::File,
    lines: Vec<Value>,
}

impl Log {
    fn create(path: &Path) -> Result<Self, String> {
        eprintln!("# writing {}", path.display());
        let file = std::fs::File::create(path).map_err(|e| format!("{}: {e}", path.display()))?;
        Ok(Log { file, lines: Vec::new() })
    }

    fn add(&mut self, lines: Vec<Value>, run: &str) -> Result<(), String> {
        for mut line in lines {
            line["run"] = json!(run);
            writeln!(self.file, "{line}").map_err(|e| e.to_string())?;
            self.lines.push(line);
        }
        Ok(())
    }
}

fn list(times: impl Iterator<Item = f64>) -> String {
    times.map(|t| t.to_string()).collect::<Vec<_>>().join(",")
}

fn ours(plan: &Plan) -> Result<Vec<Value>, String> {
    let (corpus, times) = (plan.corpus.to_string_lossy(), list(plan.times.iter().copied()));
    let mut curve = command(release("topics"), &["curve", &corpus, "-k", &plan.topics, "--times", &times]);
    curve.args(&plan.settings);
    lines(&output(single(curve))?)
}

fn theirs(plan: &Plan, interpreter: &Path, peer: &str, folder: &Path) -> Command {
    let times = list(plan.times.iter().map(|t| t * plan.factor));
    let (corpus, out) = (plan.corpus.to_string_lossy(), folder.to_string_lossy());
    let args = ["bench/topics.py", &corpus, peer, "-k", &plan.topics, "--times", &times, "--out", &out];
    single(command(interpreter, &args))
}

/// A peer's line with the score of the topics that it names.
fn scored(plan: &Plan, mut line: Value) -> Result<Value, String> {
    let file = line["file"].as_str().ok_or("a snapshot without a file")?.to_owned();
    let result = lines(&output(command(release("topics"), &["score", &plan.corpus.to_string_lossy(), &file]))?)?;
    line["score"] = result.first().map_or(Value::Null, |r| r["score"].clone());
    Ok(line)
}

fn number(line: &Value, key: &str) -> f64 {
    line[key].as_f64().unwrap_or(f64::NAN)
}

/// The lines about a time that was asked for.
fn timed(lines: &[Value]) -> impl Iterator<Item = &Value> {
    lines.iter().filter(|line| line["what"] == "time")
}

fn table(lines: &[Value]) {
    println!("{:<22} {:>8} {:>9} {:>9}", "system", "asked", "seconds", "score");
    for line in timed(lines) {
        let again = if line["run"] == "again" { " again" } else { "" };
        let system = format!("{}{again}", line["system"].as_str().unwrap_or("?"));
        let [asked, seconds, score] = ["asked", "seconds", "score"].map(|key| number(line, key));
        println!("{system:<22} {asked:>8} {seconds:>9.2} {score:>9.4}");
    }
}

/// For each time the worse of our two runs against the best of the others.
fn verdicts(plan: &Plan, lines: &[Value]) {
    for &t in &plan.times {
        let of = |ours: bool, asked: f64| {
            let wanted = move |line: &&Value| (line["run"] != "peer") == ours && number(line, "asked") == asked;
            timed(lines).filter(wanted).map(|line| (number(line, "score"), line["system"].as_str().unwrap_or("?")))
        };
        let later = t * plan.factor;
        let ours = of(true, t).map(|o| o.0).fold(f64::INFINITY, f64::min);
        let Some((score, system)) = of(false, later).max_by(|a, b| a.0.total_cmp(&b.0)) else { continue };
        let verdict = if ours >= score { "at least as good" } else { "worse" };
        println!(
            "{t} s: {ours:.4}, the best peer ({system}) after {later} s: {score:.4}: {verdict} ({:+.4})",
            ours - score
        );
    }
}
