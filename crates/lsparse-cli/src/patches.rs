//! `lsparse patches`: cut a folder of images into patches and write them as rows of a .npy file.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use lsparse::backend::with_threads;
use lsparse::data::{Element, ImagePatches, NpyWriter, RowSource, Rows};
use lsparse::{Error, Result};
use serde::Serialize;

use crate::data_args::PatchArgs;
use crate::format::grouped;
use crate::interrupt;
use crate::output::{self, message};
use crate::parse;
use crate::progress::RowProgress;

/// Rows cut before they are written.
const ROWS_AT_ONCE: usize = 4096;

/// Element of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Dtype {
    /// 32 bits.
    F32,
    /// 64 bits.
    F64,
}

/// Cut a folder of images into patches.
///
/// PNG and JPEG images become grey and are scaled to [0, 1]; every patch is a row, line by line, with its mean removed.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES:
  lsparse patches photos/ --out patches.npy
  lsparse patches photos/ --out patches.npy --patch-size 12 --patch-stride 6 --patch-grid full
  lsparse patches photos/ --out patches.npy --json --quiet")]
pub struct PatchesArgs {
    /// A folder of PNG and JPEG images.
    #[arg(value_name = "IMAGES")]
    pub images: PathBuf,
    /// Write the patches here (.npy).
    #[arg(long, short, value_name = "FILE")]
    pub out: PathBuf,
    #[command(flatten)]
    pub patches: PatchArgs,
    /// Element of the file.
    #[arg(long, value_enum, value_name = "TYPE", default_value = "f32")]
    pub dtype: Dtype,
    /// Print what was written as JSON.
    #[arg(long)]
    pub json: bool,
    /// Print nothing but errors (and what --json asks for).
    #[arg(long, short)]
    pub quiet: bool,
    /// Threads that read images [default: one a core].
    #[arg(long, value_name = "N", value_parser = parse::threads)]
    pub threads: Option<usize>,
}

pub fn run(args: &PatchesArgs) -> Result<()> {
    with_threads(args.threads, || cut(args))?
}

fn cut(args: &PatchesArgs) -> Result<()> {
    output::check_extension("out", &args.out, &["npy"])?;
    output::check_writable(&args.out)?;
    if !args.images.exists() {
        return Err(Error::NotFound { path: args.images.clone() });
    }
    let source = ImagePatches::open(&args.images, &args.patches.options())?;
    if let Some(note) = source.note() {
        output::note(note);
    }
    let element = match args.dtype {
        Dtype::F32 => Element::F32,
        Dtype::F64 => Element::F64,
    };
    interrupt::listen(true);
    let mut writer = NpyWriter::create(&args.out, element, source.dim())?;
    let mut progress = RowProgress::new(args.quiet, "patches", source.num_rows());
    // Both precisions are cut from bytes in f64, so that f64 files hold all their digits.
    let mut rows = Rows::<f64>::dense(source.dim());
    for start in (0..source.num_rows()).step_by(ROWS_AT_ONCE) {
        let count = ROWS_AT_ONCE.min(source.num_rows() - start);
        rows.clear();
        source.read_f64(start, count, &mut rows)?;
        writer.write_rows(rows.as_dense().unwrap_or_default())?;
        progress.at(start + count);
        interrupt::check("cutting patches")?;
    }
    progress.finish();
    writer.finish()?;
    if !args.quiet {
        let images = if source.num_images() == 1 { "image" } else { "images" };
        message(&format!(
            "{}: {} patches of {} values from {} {images}",
            args.out.display(),
            grouped(source.num_rows()),
            source.dim(),
            grouped(source.num_images()),
        ));
    }
    if args.json {
        let note =
            Note { patches: source.num_rows(), values: source.dim(), images: source.num_images(), out: &args.out };
        output::print_json(&note)?;
    }
    Ok(())
}

/// What was written, as JSON.
#[derive(Serialize)]
struct Note<'a> {
    patches: usize,
    values: usize,
    images: usize,
    out: &'a Path,
}
