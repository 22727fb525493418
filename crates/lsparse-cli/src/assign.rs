//! `lsparse assign`: the L most probable clusters of every row, as a sparse matrix or a table.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use lsparse::backend::{DeviceChoice, Place, with_threads};
use lsparse::data::{AtomicFile, Element, RowSource, write_csr_npz, write_npy_i64};
use lsparse::system::check_result;
use lsparse::{AnyModel, Error, MixtureModel, Precision, Result, Sparsity};
use serde::Serialize;

use crate::data_args::DataArgs;
use crate::format::share;
use crate::group_args::GroupArgs;
use crate::messages::in_options;
use crate::output::message;
use crate::parse;
use crate::stdin::Input;
use crate::topics::{self, TextArgs};
use crate::{interrupt, output, sequence};

/// The L most probable clusters of every row, the states of every step, or the topics of every document.
///
/// A .npz file holds a sparse matrix of rows x clusters (or documents x topics) as scipy.sparse.load_npz reads it. CSV
/// has the columns row, cluster and responsibility, the most probable cluster of a row first; for topics document,
/// topic and share. JSON has an object a line for each row, with its clusters and responsibilities, or for each
/// document, with its topics and shares. A .npy file has the most probable cluster of every row alone, or the main topic
/// of every document, as whole numbers (-1 for a document without words that the model knows). Rows, clusters and topics
/// count from 0; documents go by name.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES:
  lsparse assign model.safetensors data.npy --out clusters.npz
  lsparse assign model.safetensors data.npy -l 1 > clusters.csv    # hard assignment
  lsparse assign model.safetensors data.npy --out labels.npy       # the same as an array of whole numbers
  lsparse assign model.safetensors data.csv --json | head -1       # one object a row
  lsparse assign h.safetensors data.npy --groups lengths.npy --out states.npz   # smoothed states of sequences
  lsparse assign h.safetensors data.npy --groups lengths.npy --path --out path.npy
  lsparse assign topics.safetensors corpus --out topics.npz
  lsparse assign topics.safetensors articles/ --out topics.csv     # a folder of text files")]
pub struct AssignArgs {
    /// A model file.
    #[arg(value_name = "MODEL")]
    pub model: PathBuf,
    /// Rows to assign, in any format that training reads; for topics a corpus folder or raw text; - for standard input.
    #[arg(value_name = "DATA")]
    pub data: PathBuf,
    /// L, the number of clusters a row keeps, or of topics a token keeps, from 1 to K, or "K" for all [default: as trained].
    #[arg(long, short = 'l', value_name = "L", value_parser = Sparsity::parse)]
    pub sparsity: Option<Sparsity>,
    /// Threads; the result is the same with any number [default: one a core].
    #[arg(long, value_name = "N", value_parser = parse::threads)]
    pub threads: Option<usize>,
    /// What works on the rows of a mixture or the documents of topics: auto (a GPU where there is one and the work is large), cpu, cuda, or cuda:1 for the
    /// second GPU and so on.
    #[arg(long, value_name = "DEVICE", value_parser = DeviceChoice::parse)]
    pub device: Option<DeviceChoice>,
    /// Rows may have missing values (NaN; in text files also empty fields, NA, N/A, null and ?), whichever way the model was
    /// trained: of mixtures those of gauss and diag-gauss; of sequences whole rows, steps that nothing is known of, whatever
    /// the likelihood.
    #[arg(long)]
    pub missing: bool,
    #[command(flatten)]
    pub reading: DataArgs,
    #[command(flatten)]
    pub groups: GroupArgs,
    /// The most probable path through every sequence of a hidden Markov model, instead of the states of every step by
    /// themselves.
    #[arg(long, help_heading = "Sequences")]
    pub path: bool,
    #[command(flatten)]
    pub text: TextArgs,
    /// Names of topics, which CSV and JSON then have too: CSV with the columns topic and name, as the page of lsparse
    /// explore saves it.
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub names: Option<PathBuf>,
    /// Write here (.npy, .npz, .csv or .jsonl) [default: CSV to standard output].
    #[arg(long, short, value_name = "FILE", help_heading = "Output")]
    pub out: Option<PathBuf>,
    /// Print JSON: an object a line for each row, or with --out what was written.
    #[arg(long, help_heading = "Output")]
    pub json: bool,
}

impl AssignArgs {
    /// Refuse the options that are for sequences.
    fn refuse_sequences(&self, model: &str) -> Result<()> {
        topics::refuse_given(&self.groups.given(), model)?;
        topics::refuse_given(&[("path", self.path)], model)
    }

    /// L of so many clusters, topics or states; what is above that is said and left out.
    pub fn kept(&self, clusters: usize, usual: usize) -> Result<usize> {
        let sparsity = self.sparsity.unwrap_or_default();
        output::note_remark(sparsity.remark(clusters));
        sparsity.of(clusters, usual)
    }
}

/// What was written to a file, as JSON.
#[derive(Serialize)]
struct Written<'a> {
    rows: usize,
    columns: usize,
    sparsity: usize,
    out: &'a Path,
}

/// A row as JSON.
#[derive(Serialize)]
struct Row<'a> {
    row: usize,
    clusters: &'a [u32],
    responsibilities: &'a [f64],
}

/// How rows are written as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lines {
    Csv,
    Json,
}

pub fn run(args: &AssignArgs) -> Result<()> {
    with_threads(args.threads, || assign(args))?
}

fn assign(args: &AssignArgs) -> Result<()> {
    let model = AnyModel::load(&args.model)?;
    let format = match &args.out {
        None if args.json => "jsonl",
        None => "csv",
        Some(path) => {
            let format = output::check_extension("out", path, &["npy", "npz", "csv", "jsonl"])?;
            if format == "npy" && args.sparsity.is_some_and(|sparsity| sparsity != Sparsity::Of(1)) {
                let problem = "a .npy file has one cluster or topic a row".into();
                let remedy = "leave it out, or end the file in .npz, .csv or .jsonl".into();
                return Err(Error::Config { setting: "sparsity", problem, remedy });
            }
            output::check_not_input("out", path, &[&args.model, &args.data])?;
            output::check_writable(path)?;
            interrupt::listen(true);
            format
        }
    };
    let model = match model {
        AnyModel::Mixture(model) => model,
        AnyModel::Sequence(model) => {
            topics::refuse_given(&[("device", args.device.is_some())], "a hidden Markov model")?;
            return sequence::assign::run(args, *model, format);
        }
        AnyModel::Topics(model) => {
            args.refuse_sequences("topics")?;
            return topics::assign::run(args, *model, format);
        }
    };
    args.refuse_sequences("a mixture")?;
    topics::refuse_given(&args.text.given(), "a mixture")?;
    topics::refuse_given(&[("names", args.names.is_some())], "a mixture")?;
    let clusters = model.num_clusters();
    let sparsity = match format {
        "npy" => 1,
        _ => args.kept(clusters, model.sparsity())?,
    };
    let model = if args.missing { model.allowing_missing()? } else { *model };
    let data = Input::open(&args.data, ".csv")?;
    args.reading.check_patches(&[data.path()])?;
    let source = args.reading.open(data.path(), model.config.missing)?;
    let source = source.as_ref();
    let place = &chosen_place(&model, args.device, source)?;
    match (&args.out, format) {
        (Some(path), "npy") => {
            let labels = hard_labels(&model, source, place)?;
            write_npy_i64(path, &labels.iter().map(|&k| i64::from(k)).collect::<Vec<i64>>())?;
        }
        (Some(path), "npz") => write_npz(&model, source, (sparsity, place), path)?,
        (out, format) => {
            write_text(out.as_deref(), format, |lines, out, failed| {
                write_rows(&model, source, (sparsity, place), lines, out, failed)
            })?;
        }
    }
    report(args, source.num_rows(), clusters, sparsity)
}

/// What works on the rows, where nothing was asked for said in a line if it is not the CPU.
pub fn chosen_place(model: &MixtureModel, asked: Option<DeviceChoice>, source: &dyn RowSource) -> Result<Place> {
    let place = model.place(asked.unwrap_or_default(), source.num_rows())?;
    say_of(&place);
    Ok(place)
}

/// Say where the work is done, if it is not the CPU.
pub fn say_of(place: &Place) {
    if let Some(remark) = place.remark.as_ref().filter(|_| place.device.is_some()) {
        message(&in_options(remark));
    }
}

/// The most probable cluster of every row.
pub fn hard_labels(model: &MixtureModel, source: &dyn RowSource, place: &Place) -> Result<Vec<u32>> {
    // As they are found and as they are written.
    check_result("assigning", source.num_rows(), "rows", (size_of::<u32>() + size_of::<i64>()) as u64)?;
    let mut labels = Vec::with_capacity(source.num_rows());
    model.assign_at(source, 1, place, &mut |clusters, _| {
        interrupt::check("assigning")?;
        labels.extend(clusters);
        Ok(())
    })?;
    Ok(labels)
}

/// Say what was written to a file, if that is asked for.
pub fn report(args: &AssignArgs, rows: usize, columns: usize, sparsity: usize) -> Result<()> {
    match &args.out {
        Some(out) if args.json => output::print_json(&Written { rows, columns, sparsity, out }),
        _ => Ok(()),
    }
}

/// Let `write` fill a file, all or nothing, or standard output.
pub fn write_text(
    path: Option<&Path>,
    format: &str,
    write: impl FnOnce(Lines, &mut dyn Write, &dyn Fn(io::Error) -> Error) -> Result<()>,
) -> Result<()> {
    let lines = if format == "jsonl" { Lines::Json } else { Lines::Csv };
    match path {
        Some(path) => {
            let mut file = AtomicFile::create(path)?;
            write(lines, &mut file, &|source| Error::Unwritable { path: path.to_owned(), source })?;
            file.finish()
        }
        None => {
            let mut out = BufWriter::with_capacity(1 << 16, io::stdout().lock());
            write(lines, &mut out, &output::stdout_failed)?;
            out.flush().map_err(output::stdout_failed)
        }
    }
}

fn write_rows(
    model: &MixtureModel,
    source: &dyn RowSource,
    (sparsity, place): (usize, &Place),
    lines: Lines,
    out: &mut dyn Write,
    failed: &dyn Fn(io::Error) -> Error,
) -> Result<()> {
    let mut row = 0;
    model.assign_at(source, sparsity, place, &mut |clusters, values| {
        interrupt::check("assigning")?;
        // Only now is it certain that there are rows to follow.
        if row == 0 && lines == Lines::Csv {
            writeln!(out, "row,cluster,responsibility").map_err(failed)?;
        }
        for (clusters, values) in clusters.chunks_exact(sparsity).zip(values.chunks_exact(sparsity)) {
            match lines {
                Lines::Csv => {
                    let mut pairs = clusters.iter().zip(values);
                    pairs.try_for_each(|(k, r)| writeln!(out, "{row},{k},{}", share(*r)))
                }
                Lines::Json => serde_json::to_writer(&mut *out, &Row { row, clusters, responsibilities: values })
                    .map_err(io::Error::from)
                    .and_then(|()| writeln!(out)),
            }
            .map_err(failed)?;
            row += 1;
        }
        Ok(())
    })
}

fn write_npz(
    model: &MixtureModel,
    source: &dyn RowSource,
    (sparsity, place): (usize, &Place),
    path: &Path,
) -> Result<()> {
    let (rows, num_clusters) = (source.num_rows(), model.num_clusters());
    let is_f64 = match model.config.precision {
        Precision::Auto => source.element() == Element::F64,
        precision => precision == Precision::F64,
    };
    let entry = size_of::<i32>() + if is_f64 { size_of::<f64>() } else { size_of::<f32>() };
    check_result("assigning", rows, "rows", (sparsity * entry + size_of::<i64>()) as u64)?;
    let mut indices: Vec<i32> = Vec::with_capacity(rows * sparsity);
    let indptr: Vec<i64> = (0..=rows).map(|n| (n * sparsity) as i64).collect();
    // In the precision they were worked out in; the file is no larger than what it says.
    if is_f64 {
        let mut values = Vec::with_capacity(rows * sparsity);
        gather(model, source, (sparsity, place), &mut indices, &mut |r| values.push(r))?;
        write_csr_npz(path, rows, num_clusters, &indptr, &indices, &values)
    } else {
        let mut values = Vec::with_capacity(rows * sparsity);
        gather(model, source, (sparsity, place), &mut indices, &mut |r| values.push(r as f32))?;
        write_csr_npz(path, rows, num_clusters, &indptr, &indices, &values)
    }
}

/// The clusters of every row in ascending order, as SciPy likes them best.
fn gather(
    model: &MixtureModel,
    source: &dyn RowSource,
    (sparsity, place): (usize, &Place),
    indices: &mut Vec<i32>,
    push: &mut dyn FnMut(f64),
) -> Result<()> {
    let mut pairs: Vec<(u32, f64)> = Vec::with_capacity(sparsity);
    model.assign_at(source, sparsity, place, &mut |clusters, values| {
        interrupt::check("assigning")?;
        for (of_row, values) in clusters.chunks_exact(sparsity).zip(values.chunks_exact(sparsity)) {
            pairs.clear();
            pairs.extend(of_row.iter().copied().zip(values.iter().copied()));
            pairs.sort_unstable_by_key(|pair| pair.0);
            for &(k, r) in &pairs {
                indices.push(k as i32);
                push(r);
            }
        }
        Ok(())
    })
}
