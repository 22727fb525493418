//! `lsparse sample`: draw a sequence of steps from a hidden Markov model, or rows from a mixture.

use std::io::{self, Write};
use std::path::PathBuf;

use clap::Args;
use lsparse::data::{Symbols, write_npy_f64, write_npy_i64};
use lsparse::{AnyModel, Error, Result};
use serde::Serialize;

use crate::assign::{Lines, write_text};
use crate::{interrupt, output, parse};

/// Draw a sequence of steps from a hidden Markov model, or rows from a mixture.
///
/// CSV has the columns state (or cluster) and those of the data; JSON an object a line for each step. A .npy file has the
/// values alone, and --states writes the states beside it.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES:
  lsparse sample h.safetensors --steps 1000 > drawn.csv
  lsparse sample h.safetensors --steps 1000 --seed 7 --out drawn.npy --states states.npy
  lsparse sample h.safetensors --steps 10 --after 3        # what may follow state 3
  lsparse sample model.safetensors --steps 500 --out rows.npy")]
pub struct SampleArgs {
    /// A model file.
    #[arg(value_name = "MODEL")]
    pub model: PathBuf,
    /// Steps of the sequence, or rows.
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub steps: usize,
    /// The state that the sequence goes on from [default: it begins].
    #[arg(long, value_name = "STATE")]
    pub after: Option<u32>,
    /// Counts of a row, of models of counts [default: as many as rows of the training data had on average].
    #[arg(long, value_name = "N", value_parser = parse::positive_size)]
    pub trials: Option<usize>,
    /// Seed of what is drawn.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
    /// Write here (.npy, .csv or .jsonl) [default: CSV to standard output].
    #[arg(long, short, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Write the states (or clusters) here, one a row (.npy).
    #[arg(long, value_name = "FILE")]
    pub states: Option<PathBuf>,
    /// Print JSON: an object a line for each step.
    #[arg(long)]
    pub json: bool,
}

/// A step as JSON.
#[derive(Serialize)]
struct Step<'a> {
    state: u32,
    values: &'a [f64],
}

pub fn run(args: &SampleArgs) -> Result<()> {
    let format = match &args.out {
        None if args.json => "jsonl",
        None => "csv",
        Some(path) => output::check_extension("out", path, &["npy", "csv", "jsonl"])?,
    };
    for (option, path) in [("out", &args.out), ("states", &args.states)] {
        if let Some(path) = path {
            output::check_not_input(option, path, &[&args.model])?;
            output::check_writable(path)?;
        }
    }
    if let Some(path) = &args.states {
        output::check_extension("states", path, &["npy"])?;
    }
    let flag = interrupt::listen(true);
    let (values, states, dim, header) = match AnyModel::load(&args.model)? {
        AnyModel::Sequence(model) => {
            let symbols = Symbols::of_names(&model.columns);
            let trials = if symbols.is_some() { args.trials.or(Some(1)) } else { args.trials };
            let drawn = model.sample_until(args.steps, args.after, trials, args.seed, flag)?;
            match symbols.filter(|_| trials == Some(1)) {
                None => (drawn.values, drawn.states, model.dim(), "state"),
                Some(symbols) => {
                    // A row has a single one, in the column of its symbol.
                    let one = |row: &[f64]| row.iter().position(|value| *value > 0.0).map_or(0, |at| symbols[at]);
                    let values = drawn.values.chunks_exact(model.dim()).map(|row| one(row) as f64).collect();
                    (values, drawn.states, 1, "state")
                }
            }
        }
        AnyModel::Mixture(_) if args.after.is_some() => {
            let problem = "rows of a mixture do not follow each other".into();
            return Err(Error::Config { setting: "after", problem, remedy: "leave it out".into() });
        }
        AnyModel::Mixture(model) => {
            let drawn = model.sample_until(args.steps, args.trials, args.seed, flag)?;
            (drawn.values, drawn.clusters, model.dim(), "cluster")
        }
        AnyModel::Topics(_) => {
            let (path, found) = (args.model.clone(), "topics".into());
            return Err(Error::WrongKind { path, found, wanted: "sequence".into() });
        }
    };
    if let Some(path) = &args.states {
        write_npy_i64(path, &states.iter().map(|&k| i64::from(k)).collect::<Vec<i64>>())?;
    }
    match (&args.out, format) {
        (Some(path), "npy") => write_npy_f64(path, dim, &values),
        (out, format) => write_text(out.as_deref(), format, |lines, out, failed| {
            let steps = || states.iter().zip(values.chunks_exact(dim));
            let write = |out: &mut dyn Write| -> io::Result<()> {
                match lines {
                    Lines::Csv => {
                        let columns: Vec<String> = (1..=dim).map(|d| format!(",x{d}")).collect();
                        writeln!(out, "{header}{}", columns.concat())?;
                        steps().try_for_each(|(state, values)| {
                            let values: Vec<String> = values.iter().map(|value| format!(",{value}")).collect();
                            writeln!(out, "{state}{}", values.concat())
                        })
                    }
                    Lines::Json => steps().try_for_each(|(&state, values)| {
                        serde_json::to_writer(&mut *out, &Step { state, values })?;
                        writeln!(out)
                    }),
                }
            };
            write(out).map_err(failed)
        }),
    }
}
