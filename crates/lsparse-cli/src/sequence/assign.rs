//! `lsparse assign` of a hidden Markov model: the L most probable states of every step given its sequence, or the best path.

use std::io::{self, Write};

use lsparse::data::{write_csr_npz, write_npy_i64};
use lsparse::system::check_result;
use lsparse::{Error, Result, SequenceModel};
use serde::Serialize;

use crate::assign::{AssignArgs, Lines, report, write_text};
use crate::format::share;
use crate::stdin::Input;
use crate::{interrupt, topics};

/// A step as JSON.
#[derive(Serialize)]
struct Step<'a> {
    row: usize,
    states: &'a [u32],
    responsibilities: &'a [f64],
}

pub fn run(args: &AssignArgs, model: SequenceModel, format: &str) -> Result<()> {
    topics::refuse_given(&args.text.given(), "a hidden Markov model")?;
    topics::refuse_given(&[("names", args.names.is_some())], "a hidden Markov model")?;
    let model = if args.missing { model.allowing_missing_steps() } else { model };
    let num = model.num_states();
    let one = args.path || format == "npy";
    if args.path && args.sparsity.is_some() {
        let problem = "the best path has one state a step".into();
        return Err(Error::Config { setting: "sparsity", problem, remedy: "leave it out".into() });
    }
    let sparsity = if one { 1 } else { args.kept(num, model.sparsity())? };
    let data = Input::open(&args.data, ".csv")?;
    let (source, groups) = args.groups.open_for(&args.reading, data.path(), &model)?;
    let (source, rows) = (source.as_ref(), source.num_rows());
    let entry = size_of::<u32>() + size_of::<f64>();
    check_result("assigning", rows, "steps", (sparsity * entry) as u64)?;
    let (mut states, mut shares) = (Vec::with_capacity(rows * sparsity), Vec::with_capacity(rows * sparsity));
    if args.path {
        states = model.best_paths(source, Some(&groups))?.0;
        shares.resize(rows, 1.0);
    } else {
        model.assign(source, Some(&groups), sparsity, &mut |index, value| {
            interrupt::check("assigning")?;
            states.extend_from_slice(index);
            shares.extend_from_slice(value);
            Ok(())
        })?;
    }
    match (&args.out, format) {
        (Some(path), "npy") => write_npy_i64(path, &states.iter().map(|&k| i64::from(k)).collect::<Vec<i64>>())?,
        (Some(path), "npz") => {
            let (mut indptr, mut indices, mut values) = (vec![0i64], Vec::new(), Vec::new());
            for (states, shares) in states.chunks_exact(sparsity).zip(shares.chunks_exact(sparsity)) {
                // Ascending, as SciPy likes them best; a step may have fewer states than it may keep.
                let mut pairs: Vec<(u32, f64)> = states.iter().copied().zip(shares.iter().copied()).collect();
                pairs.retain(|pair| pair.1 > 0.0);
                pairs.sort_unstable_by_key(|pair| pair.0);
                indices.extend(pairs.iter().map(|pair| pair.0 as i32));
                values.extend(pairs.iter().map(|pair| pair.1));
                indptr.push(indices.len() as i64);
            }
            write_csr_npz(path, rows, num, &indptr, &indices, &values)?;
        }
        (out, format) => write_text(out.as_deref(), format, |lines, out, failed| {
            if lines == Lines::Csv {
                writeln!(out, "row,state,responsibility").map_err(failed)?;
            }
            let steps = states.chunks_exact(sparsity).zip(shares.chunks_exact(sparsity));
            steps
                .enumerate()
                .try_for_each(|(row, (states, shares))| write_step(row, states, shares, lines, out).map_err(failed))
        })?,
    }
    report(args, rows, num, sparsity)
}

fn write_step(row: usize, states: &[u32], shares: &[f64], lines: Lines, out: &mut dyn Write) -> io::Result<()> {
    let there = shares.iter().take_while(|share| **share > 0.0).count().max(1);
    let (states, responsibilities) = (&states[..there], &shares[..there]);
    match lines {
        Lines::Csv => {
            let mut pairs = states.iter().zip(responsibilities);
            pairs.try_for_each(|(k, r)| writeln!(out, "{row},{k},{}", share(*r)))
        }
        Lines::Json => {
            serde_json::to_writer(&mut *out, &Step { row, states, responsibilities })?;
            writeln!(out)
        }
    }
}
