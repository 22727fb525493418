//! The options that say where sequences begin.

use std::path::{Path, PathBuf};

use clap::Args;
use lsparse::open::GroupBy;
use lsparse::{Error, Result, SequenceModel};

use crate::data_args::{DataArgs, Sequences};
use crate::topics::refuse_given;

/// Where sequences begin.
#[derive(Args, Debug)]
#[command(next_help_heading = "Sequences")]
pub struct GroupArgs {
    /// The number of rows of each sequence, in the order of the rows: a .npy array or a text file with one a line.
    #[arg(long, value_name = "LENGTHS", conflicts_with_all = ["group_column", "time_series"])]
    pub groups: Option<PathBuf>,
    /// The column of a text file that says which sequence a row is of, by its name or its number from 1. Rows of a sequence
    /// lie next to each other, in the order of time; the column itself is no data.
    #[arg(long, value_name = "COLUMN", conflicts_with = "time_series")]
    pub group_column: Option<String>,
    /// All rows are one sequence.
    #[arg(long)]
    pub time_series: bool,
}

impl GroupArgs {
    /// What is asked for, of the data at a path: a folder has a file for each sequence unless something else is said.
    fn by(&self, data: &Path) -> Result<GroupBy> {
        match (&self.groups, &self.group_column, self.time_series) {
            (Some(lengths), ..) => Ok(GroupBy::Lengths(lengths.clone())),
            (_, Some(column), _) => Ok(GroupBy::Column(column.clone())),
            (_, _, true) => Ok(GroupBy::One),
            _ if data.is_dir() => Ok(GroupBy::Files),
            _ => Err(Error::Config {
                setting: "groups",
                problem: "it is not said where sequences begin".into(),
                remedy: "give `groups`, `group-column` or `time-series`, or a folder with a file for each sequence"
                    .into(),
            }),
        }
    }

    /// Open the sequences at a path for a model.
    pub fn open_for(&self, reading: &DataArgs, path: &Path, model: &SequenceModel) -> Result<Sequences> {
        refuse_given(&reading.patches.given(), "sequences")?;
        reading.open_sequences_of(path, model, &self.by(path)?)
    }

    /// Open the sequences at a path.
    pub fn open(&self, reading: &DataArgs, path: &Path, missing: bool) -> Result<Sequences> {
        refuse_given(&reading.patches.given(), "sequences")?;
        reading.open_sequences(path, missing, &self.by(path)?)
    }

    /// Which of the options are given, by name.
    pub fn given(&self) -> [(&'static str, bool); 3] {
        [
            ("groups", self.groups.is_some()),
            ("group-column", self.group_column.is_some()),
            ("time-series", self.time_series),
        ]
    }
}
