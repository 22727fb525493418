//! The options that say how data are read, shared by all commands that read some.

use std::path::Path;

use clap::{Args, ValueEnum};
use lsparse::data::{self, CsvOptions, OpenOptions, PatchGrid, PatchOptions, RowSource};
use lsparse::{Error, Result};

use crate::parse;

/// Whether the first line of a text file names the columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Header {
    /// It does.
    Yes,
    /// It is data.
    No,
    /// It does if a field of it is not a number.
    Auto,
}

/// Which patches of an image are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Grid {
    /// floor((side - size) / stride) in each direction, as in the paper.
    Paper,
    /// All that fit: one more in each direction.
    Full,
}

/// How data are read.
#[derive(Args, Debug)]
#[command(next_help_heading = "Data")]
pub struct DataArgs {
    /// Whether the first line of a text file names the columns.
    #[arg(long, value_enum, value_name = "WHEN", default_value = "auto")]
    pub header: Header,
    /// What parts the fields of a text file: one character, or comma, semicolon, tab, space [default: guessed].
    #[arg(long, value_name = "CHAR", value_parser = parse::delimiter)]
    pub delimiter: Option<u8>,
    #[command(flatten)]
    pub patches: PatchArgs,
}

/// How images are cut into patches.
#[derive(Args, Debug)]
pub struct PatchArgs {
    /// Side of a patch of an image, in pixels.
    #[arg(long, value_name = "PIXELS", default_value_t = PatchOptions::default().size)]
    pub patch_size: usize,
    /// Pixels from one patch to the next.
    #[arg(long, value_name = "PIXELS", default_value_t = PatchOptions::default().stride)]
    pub patch_stride: usize,
    /// Which patches of an image are taken.
    #[arg(long, value_enum, value_name = "GRID", default_value = "paper")]
    pub patch_grid: Grid,
}

impl PatchArgs {
    pub fn options(&self) -> PatchOptions {
        let grid = match self.patch_grid {
            Grid::Paper => PatchGrid::Paper,
            Grid::Full => PatchGrid::Full,
        };
        PatchOptions { size: self.patch_size, stride: self.patch_stride, grid, ..PatchOptions::default() }
    }
}

impl DataArgs {
    /// Open what a path leads to.
    pub fn open(&self, path: &Path) -> Result<Box<dyn RowSource>> {
        let header = match self.header {
            Header::Yes => Some(true),
            Header::No => Some(false),
            Header::Auto => None,
        };
        let csv = CsvOptions { header, delimiter: self.delimiter };
        data::open(path, &OpenOptions { csv, patches: self.patches.options() })
    }
}

/// One weight a row, from a file with one column.
pub fn read_row_weights(path: &Path) -> Result<Vec<f64>> {
    let source = data::open(path, &OpenOptions::default())?;
    if source.dim() != 1 {
        return Err(Error::WrongShape {
            name: source.name().to_owned(),
            found: format!("({}, {})", source.num_rows(), source.dim()),
            expected: format!("({}, 1)", source.num_rows()),
            remedy: "give row weights as one column".to_owned(),
        });
    }
    let mut rows = data::Rows::<f64>::dense(1);
    source.read_f64(0, source.num_rows(), &mut rows)?;
    let weights = rows.as_dense().unwrap_or_default().to_vec();
    // The library refuses them too, but does not know the file.
    if let Some(row) = weights.iter().position(|w| !(*w >= 0.0 && w.is_finite())) {
        let (name, value) = (source.name().to_owned(), weights[row]);
        return Err(Error::BadValue { name, row, column: 0, value, need: "a finite weight, zero or more" });
    }
    Ok(weights)
}
