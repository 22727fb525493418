//! Trainings as experiments need them: each a command `lsparse fit`, its trace kept under a name made of its settings,
//! so that what was run is not run again and what was interrupted goes on.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use lsparse::training::trace::{Line, read_trace};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::Result;
use crate::data::{DataSet, Files, Part, Store};

/// What is trained.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// `lsparse fit mixture`.
    Mixture,
    /// `lsparse fit topics`.
    Topics,
}

/// One training.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// What is trained.
    pub kind: Kind,
    /// On what.
    pub data: DataSet,
    /// The part of a corpus that is scored.
    pub part: Part,
    /// Settings that differ from the defaults, by the names of the options.
    pub config: Map<String, Value>,
    /// Score after so many steps besides laps; 0 for laps only.
    pub heldout_every: u64,
}

/// A training that was made: the lines of its trace.
#[derive(Clone, Debug)]
pub struct Curve {
    /// What was run.
    pub run: Run,
    /// The steps of its trace.
    pub lines: Vec<Value>,
}

impl Run {
    /// A run with settings given as JSON.
    pub fn new(kind: Kind, data: &DataSet, part: Part, config: Value, heldout_every: u64) -> Self {
        let config = config.as_object().cloned().unwrap_or_default();
        Run { kind, data: data.clone(), part, config, heldout_every }
    }

    /// A name that no other run has.
    pub fn name(&self) -> String {
        let words: Vec<String> = ["method", "schedule", "estimate", "clusters", "topics", "sparsity", "seed"]
            .iter()
            .filter_map(|&key| self.config.get(key).map(|value| (key, value)))
            .map(|(key, value)| match value {
                Value::String(word) => word.clone(),
                value => format!("{}{value}", &key[..1]),
            })
            .collect();
        let all = serde_json::to_vec(self).unwrap_or_default();
        format!("{}-{}-{:08x}", self.data.name(), words.join("-"), crc32fast::hash(&all))
    }

    /// The paper's own settings, where they are not the defaults.
    fn of_the_paper(&self) -> Vec<&'static str> {
        let given = |name: &str| self.config.get(name).is_some();
        match self.kind {
            Kind::Mixture if given("method") => vec!["--init", "bregman", "--init-lloyd", "1"],
            Kind::Mixture => vec!["--init", "bregman", "--init-lloyd", "1", "--trades", "off"],
            Kind::Topics if given("method") => vec!["--lambda", "0.1"],
            Kind::Topics => {
                // Documents that convince themselves, and restarts as figures were made with: more for short documents.
                let mut words = vec!["--lambda", "0.1", "--leave-out", "off"];
                if !given("restarts") {
                    words.extend(["--restarts", if self.data.name() == "arxiv" { "10" } else { "5" }]);
                }
                words
            }
        }
    }

    /// The command, with the files of its data.
    fn words(&self, files: &Files, config: &Path, trace: &Path, checkpoint: &Path) -> Vec<String> {
        let text = |path: &Path| path.to_string_lossy().into_owned();
        let kind = match self.kind {
            Kind::Mixture => "mixture",
            Kind::Topics => "topics",
        };
        let mut words: Vec<String> = vec!["fit".into(), kind.into(), text(&files.train)];
        words.extend(self.of_the_paper().into_iter().map(String::from));
        words.extend(["--config".into(), text(config), "--heldout".into(), text(&files.heldout)]);
        words.extend(["--trace".into(), text(trace)]);
        if self.heldout_every > 0 {
            words.extend(["--heldout-every".into(), self.heldout_every.to_string()]);
        }
        words.extend(["--checkpoint".into(), text(checkpoint), "--resume".into()]);
        // Writing what is remembered of a hundred batches takes computing time that counts; seldom is often enough.
        words.extend(["--checkpoint-every", "5m"].map(String::from));
        words.extend(["--threads", "1", "--quiet", "--json"].map(String::from));
        words
    }
}

impl Curve {
    /// (CPU seconds, held-out score) where there is a score.
    pub fn scores(&self) -> Vec<(f64, f64)> {
        let scored =
            self.lines.iter().filter_map(|line| Some((line["cpu_seconds"].as_f64()?, line["heldout"].as_f64()?)));
        scored.collect()
    }

    /// Laps made, in part too.
    pub fn laps(&self) -> f64 {
        self.lines.last().and_then(|line| line["lap"].as_f64()).unwrap_or(0.0)
    }

    /// The score that the run ended with.
    pub fn last(&self) -> f64 {
        self.scores().last().map_or(f64::NAN, |point| point.1)
    }

    /// A setting as a number.
    pub fn number(&self, name: &str) -> f64 {
        self.run.config.get(name).and_then(Value::as_f64).unwrap_or(f64::NAN)
    }

    /// A setting as a word.
    pub fn word(&self, name: &str) -> &str {
        self.run.config.get(name).and_then(Value::as_str).unwrap_or_default()
    }
}

/// How the traces of runs end that are done, and of those that are not.
const DONE: &str = ".jsonl";
const UNFINISHED: &str = ".part.jsonl";

/// Where runs are made and kept.
pub struct Workshop {
    /// The command `lsparse`.
    pub program: PathBuf,
    /// The folder with `images/` and `text/`.
    pub data: Option<PathBuf>,
    /// Data sets and traces are kept here.
    pub folder: PathBuf,
    /// Runs at the same time, each on one thread; 0 for none, but what was made before.
    pub jobs: usize,
}

impl Workshop {
    /// The data sets.
    pub fn store(&self) -> Store<'_> {
        Store { data: self.data.as_deref(), program: &self.program, folder: &self.folder }
    }

    /// Make the runs that were not made before; the curve of each, in order. With no jobs, those that were made before,
    /// the unfinished ones as far as they came, and none where there is nothing.
    pub fn perform(&self, runs: &[Run]) -> Result<Vec<Option<Curve>>> {
        let folder = self.folder.join("runs");
        fs::create_dir_all(&folder)?;
        let read = |run: &Run, end: &str| {
            let trace = folder.join(run.name() + end);
            trace.exists().then(|| Ok(Curve { run: run.clone(), lines: steps(&trace)? })).transpose()
        };
        if self.jobs == 0 {
            let either = |run| Ok(read(run, DONE)?.or(read(run, UNFINISHED)?));
            return runs.iter().map(either).collect();
        }
        // Files of data sets are made one at a time, before runs ask for them side by side.
        let store = self.store();
        let files = runs.iter().map(|run| store.files(&run.data, run.part)).collect::<Result<Vec<_>>>()?;
        let (next, failed) = (AtomicUsize::new(0), Mutex::new(None));
        std::thread::scope(|scope| {
            for _ in 0..self.jobs {
                scope.spawn(|| {
                    while failed.lock().is_ok_and(|failed| failed.is_none()) {
                        let n = next.fetch_add(1, Ordering::Relaxed);
                        let Some(run) = runs.get(n) else { break };
                        match self.make(run, &files[n], &folder) {
                            Ok(true) => eprintln!("[{}/{}] {}", n + 1, runs.len(), run.name()),
                            Ok(false) => {}
                            Err(error) => {
                                if let Ok(mut failed) = failed.lock() {
                                    *failed = Some(error);
                                }
                            }
                        }
                    }
                });
            }
        });
        if let Ok(Some(error)) = failed.into_inner() {
            return Err(error);
        }
        runs.iter().map(|run| read(run, DONE)).collect()
    }

    /// Make one run; false if it was there.
    fn make(&self, run: &Run, files: &Files, folder: &Path) -> Result<bool> {
        let file = |end: &str| folder.join(run.name() + end);
        let (done, trace, config, checkpoint) = (file(DONE), file(UNFINISHED), file(".json"), file(".checkpoint"));
        if done.exists() {
            return Ok(false);
        }
        fs::write(&config, serde_json::to_vec_pretty(&run.config)?)?;
        let words = run.words(files, &config, &trace, &checkpoint);
        let output = Command::new(&self.program).args(&words).stderr(Stdio::inherit()).output()?;
        if !output.status.success() {
            return Err(format!("failed: lsparse {}", words.join(" ")).into());
        }
        // A run that is asked to stop ends well, with what it has, and can go on; but it is not what was wanted.
        let report: Value = serde_json::from_slice(&output.stdout)?;
        if report["stopped_by"] == "interrupt" {
            return Err(format!("interrupted: lsparse {}", words.join(" ")).into());
        }
        fs::rename(&trace, &done)?;
        fs::remove_file(&checkpoint)?;
        Ok(true)
    }
}

/// The steps of a trace.
fn steps(path: &Path) -> Result<Vec<Value>> {
    let is_step = |line: &Line| matches!(line, Line::Step(_));
    let steps = read_trace(path)?.into_iter().filter(is_step).map(serde_json::to_value);
    Ok(steps.collect::<std::result::Result<_, _>>()?)
}

/// The lines of a file that is no trace, each an object.
pub fn read_lines(path: &Path) -> Result<Vec<Value>> {
    let text = fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
    Ok(text.lines().map(serde_json::from_str).collect::<std::result::Result<_, _>>()?)
}

/// Settings over others.
pub fn with(base: &Value, over: Value) -> Value {
    let mut merged = base.clone();
    if let (Some(merged), Some(over)) = (merged.as_object_mut(), over.as_object()) {
        merged.extend(over.iter().map(|(key, value)| (key.clone(), value.clone())));
    }
    merged
}

/// The points of curves as rows of a table: what is the same for a curve, then seconds and score.
pub fn rows_of(curve: &Curve, labels: Value) -> Vec<Value> {
    let point = |line: &Value| {
        let (seconds, score) = (line["cpu_seconds"].as_f64()?, line["heldout"].as_f64()?);
        Some(with(&labels, json!({"lap": line["lap"], "cpu_seconds": seconds, "heldout": score})))
    };
    curve.lines.iter().filter_map(point).collect()
}
