//! The options that say how data are read, shared by all commands that read some.

use std::path::Path;

use clap::{Args, ValueEnum};
use lsparse::corpus::{Corpus, Metadata};
use lsparse::data::{CsvOptions, Groups, PatchGrid, PatchOptions, RowSource, Symbols};
use lsparse::open::{self, GroupBy, OpenOptions};
use lsparse::{Error, Result, SequenceModel};

use crate::topics::refuse_given;
use crate::{messages, output, parse};

/// Whether the first line of a text file names the columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Header {
    /// It does.
    Yes,
    /// It is data.
    No,
    /// It does if its fields are words, which a note then says; words among numbers are an error.
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

/// Rows, and where sequences begin.
pub type Sequences = (Box<dyn RowSource>, Groups);

/// How data are read.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Data")]
pub struct DataArgs {
    /// Whether the first line of a text file names the columns.
    #[arg(long, value_enum, value_name = "WHEN", default_value = "auto")]
    pub header: Header,
    /// What parts the fields of a text file: one character, or comma, semicolon, tab, space [default: guessed].
    #[arg(long, value_name = "CHAR", value_parser = parse::delimiter)]
    pub delimiter: Option<u8>,
    /// A column of a text file that is no data, by its name or, from 1, its number; may be given several times.
    #[arg(long, value_name = "COLUMN")]
    pub leave_out: Vec<String>,
    #[command(flatten)]
    pub patches: PatchArgs,
}

/// How images are cut into patches.
#[derive(Args, Clone, Debug)]
pub struct PatchArgs {
    /// Side of a patch of an image, in pixels [default: 8].
    #[arg(long, value_name = "PIXELS", value_parser = parse::positive_size)]
    pub patch_size: Option<usize>,
    /// Pixels from one patch to the next [default: 4].
    #[arg(long, value_name = "PIXELS", value_parser = parse::positive_size)]
    pub patch_stride: Option<usize>,
    /// Which patches of an image are taken [default: paper].
    #[arg(long, value_enum, value_name = "GRID")]
    pub patch_grid: Option<Grid>,
}

impl PatchArgs {
    pub fn options(&self) -> PatchOptions {
        let default = PatchOptions::default();
        PatchOptions {
            size: self.patch_size.unwrap_or(default.size),
            stride: self.patch_stride.unwrap_or(default.stride),
            grid: match self.patch_grid {
                None => default.grid,
                Some(Grid::Paper) => PatchGrid::Paper,
                Some(Grid::Full) => PatchGrid::Full,
            },
            ..default
        }
    }

    /// Which of the options are given, by name.
    pub fn given(&self) -> [(&'static str, bool); 3] {
        [
            ("patch-size", self.patch_size.is_some()),
            ("patch-stride", self.patch_stride.is_some()),
            ("patch-grid", self.patch_grid.is_some()),
        ]
    }
}

impl DataArgs {
    /// Refuse patches of what are no images.
    pub fn check_patches(&self, paths: &[&Path]) -> Result<()> {
        match paths.iter().any(|path| path.is_dir() && !Corpus::is_corpus(path)) {
            true => Ok(()),
            false => refuse_given(&self.patches.given(), "rows that are not cut from images"),
        }
    }

    /// Open what a path leads to, whose values may be `missing` or not.
    pub fn open(&self, path: &Path, missing: bool) -> Result<Box<dyn RowSource>> {
        open::open(path, &self.options(missing)).inspect(|source| mention(source.as_ref()))
    }

    /// The same as sequences.
    pub fn open_sequences(&self, path: &Path, missing: bool, by: &GroupBy) -> Result<Sequences> {
        open::open_sequences(path, &self.options(missing), by).inspect(|(source, _)| mention(source.as_ref()))
    }

    /// The same for a model, whose rows may be single symbols: then one that is missing is a row of nothing.
    pub fn open_sequences_of(&self, path: &Path, model: &SequenceModel, by: &GroupBy) -> Result<Sequences> {
        let (source, groups) = self.open_sequences(path, model.config.missing, by)?;
        if source.dim() > 1 || model.dim() == 1 || !model.config.likelihood.family().of_categories {
            return Ok((source, groups));
        }
        let rows = Symbols::in_columns(source.as_ref(), &model.columns, model.dim(), model.config.missing)?;
        Ok((Box::new(rows), groups))
    }

    /// Columns of a table that rows are from, `columns` by name or number.
    pub fn metadata(&self, path: &Path, columns: &[String], num_rows: usize) -> Result<Metadata> {
        Metadata::of_table(path, &self.options(false).csv, columns, num_rows)
    }

    fn options(&self, missing: bool) -> OpenOptions {
        let header = match self.header {
            Header::Yes => Some(true),
            Header::No => Some(false),
            Header::Auto => None,
        };
        let csv = CsvOptions { header, delimiter: self.delimiter, missing, leave_out: self.leave_out.clone() };
        OpenOptions { csv, patches: self.patches.options() }
    }

    /// Which of the options that only text files have are given, by name.
    pub fn given(&self) -> [(&'static str, bool); 3] {
        [
            ("header", self.header != Header::Auto),
            ("delimiter", self.delimiter.is_some()),
            ("leave-out", !self.leave_out.is_empty()),
        ]
    }
}

/// Say what people should know about how rows were read.
fn mention(source: &dyn RowSource) {
    if let Some(note) = source.note() {
        output::note(&messages::in_options(note));
    }
}

/// One weight a row: a .npy array of one dimension or with one column, or another file with one column.
pub fn read_row_weights(path: &Path) -> Result<Vec<f64>> {
    let weights = open::read_column(path, &OpenOptions::default())?;
    // The library refuses them too, but does not know the file.
    if let Some(row) = weights.iter().position(|w| !(*w >= 0.0 && w.is_finite())) {
        let (name, value) = (path.display().to_string(), weights[row]);
        return Err(Error::BadValue { name, row, column: 0, value, need: "a finite weight, zero or more" });
    }
    Ok(weights)
}

#[cfg(test)]
mod tests {
    use clap::{Args, Command};

    use super::*;

    #[test]
    fn the_help_shows_the_defaults_of_the_library() {
        let command = PatchArgs::augment_args(Command::new("patches"));
        let default = PatchOptions::default();
        assert_eq!(default.grid, PatchGrid::Paper);
        for (name, value) in [("patch-size", default.size), ("patch-stride", default.stride)] {
            let arg = command.get_arguments().find(|arg| arg.get_long() == Some(name)).unwrap();
            assert!(arg.get_help().unwrap().to_string().contains(&format!("[default: {value}]")), "--{name}");
        }
    }
}
