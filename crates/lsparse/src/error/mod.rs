//! Say what went wrong, where, and how to mend it.
//!
//! Rows and columns are stored counted from 0, as everywhere in the library, and shown counted from 1, as people
//! and spreadsheets count them. Lines of text files are stored and shown counted from 1.
//!
//! Messages do not know who reads them. They name a setting between backticks, `` `laps` ``, or `` `schedule memoized` ``
//! with the value to give it, and [`call_settings`] puts in how a front end calls it: the command `--laps`, Python
//! `max_iter`.

mod words;

use std::io;
use std::path::PathBuf;

use thiserror::Error;

pub(crate) use words::{brief, show_number};
pub use words::{call_settings, show_bytes};
use words::{describe_batches, describe_checkpoint, describe_field, describe_kind, describe_line, what_to_do};

/// What a call of this library gives back.
pub type Result<T> = std::result::Result<T, Error>;

/// Everything that can go wrong, with the data needed to find the place.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no such file or folder.
    #[error("{} does not exist; check the spelling of the path", path.display())]
    NotFound {
        /// What was asked for.
        path: PathBuf,
    },

    /// The system could not read a file.
    #[error("cannot {action} {}: {source}; {}", path.display(), what_to_do(source))]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What was being done, as a verb: "open", "read".
        action: &'static str,
        /// What the system said.
        source: io::Error,
    },

    /// The system could not write a file; nothing half written is left behind.
    #[error("cannot write {}: {source}; choose a file in a folder that exists, may be written and has room", path.display())]
    Unwritable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },

    /// A file is not what its format demands.
    #[error("{}: {detail}; {remedy}", path.display())]
    Format {
        /// The file or folder.
        path: PathBuf,
        /// What is wrong with it.
        detail: String,
        /// What to do about it.
        remedy: String,
    },

    /// A GPU failed in the middle of the work.
    #[error("{detail}; {remedy}")]
    Gpu {
        /// What it said.
        detail: String,
        /// What to do about it.
        remedy: String,
    },

    /// A file ends before its data does.
    #[error(
        "{} is cut short: its header promises {expected} bytes of data, it holds {found}; copy or save it again",
        path.display()
    )]
    Truncated {
        /// The file.
        path: PathBuf,
        /// Bytes of data that the header promises.
        expected: u64,
        /// Bytes of data that are there.
        found: u64,
    },

    /// An array has the wrong number of dimensions or the wrong sizes.
    #[error("{name}: the shape is {found}, expected {expected}; {remedy}")]
    WrongShape {
        /// The file or array.
        name: String,
        /// The shape found.
        found: String,
        /// The shape wanted.
        expected: String,
        /// What to do about it.
        remedy: String,
    },

    /// An array holds a type of element that is not read.
    #[error("{name}: elements of type {found} are not read, only {expected}; {remedy}")]
    WrongType {
        /// The file or array.
        name: String,
        /// The type found.
        found: String,
        /// The types read.
        expected: &'static str,
        /// What to do about it.
        remedy: String,
    },

    /// There is not one row of data.
    #[error("{name} has no rows; give data with at least one row")]
    NoRows {
        /// The file or array.
        name: String,
    },

    /// The rows have no columns.
    #[error("{name} has no columns; give data with at least one column")]
    NoColumns {
        /// The file or array.
        name: String,
    },

    /// Rows beyond the last one were asked for.
    #[error("{name} has {num_rows} rows, row {end} was asked for; ask for rows that are there")]
    PastEnd {
        /// The file or array.
        name: String,
        /// One past the last row asked for.
        end: usize,
        /// Rows there are.
        num_rows: usize,
    },

    /// A line of a text file has too many or too few fields.
    #[error(
        "{} line {line}: {found} fields where the lines before have {expected}; give every line the same number of fields, or set the delimiter",
        path.display()
    )]
    Ragged {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// Fields of the first line of data.
        expected: usize,
        /// Fields of this line.
        found: usize,
    },

    /// A field of a text file is empty or no number.
    #[error(
        "{} line {line}, column {}: {}; put a number there, drop the line, or leave the column out (`leave-out COLUMN`){}",
        path.display(),
        column + 1,
        describe_field(text),
        if *is_missing { " (with `missing` full and diagonal Gaussians take it for a missing value, and sequences a row of nothing else for a \
             missing step)" } else { "" }
    )]
    NotANumber {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// The column, from 0.
        column: usize,
        /// What is there, shortened.
        text: String,
        /// Whether that is how tables say that a value is missing, where a model might do without.
        is_missing: bool,
    },

    /// A text file has the names of columns, and no rows.
    #[error(
        "{}: there are no rows: {note}; give data with at least one row (text becomes rows of counts by `build-corpus`)",
        path.display()
    )]
    NamesAlone {
        /// The file.
        path: PathBuf,
        /// What was taken for names.
        note: String,
    },

    /// A line of a text file cannot be used.
    #[error("{} line {line}: {detail}; {remedy}", path.display())]
    BadLine {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// What is wrong with it.
        detail: String,
        /// What to do about it.
        remedy: String,
    },

    /// Something is already where a folder is to be written.
    #[error("{} {detail}; {remedy}", path.display())]
    Exists {
        /// The folder.
        path: PathBuf,
        /// What is there, to be read after the path: "exists already".
        detail: &'static str,
        /// What to do about it.
        remedy: &'static str,
    },

    /// A value is NaN or infinite.
    #[error(
        "{name} {}row {}, column {}: {value} is not finite; replace it by a number or drop the row{}",
        describe_line(*line),
        row + 1,
        column + 1,
        if value.is_nan() { " (trained with `missing`, full and diagonal Gaussians take NaN, and sequences a row of nothing else)" } else { "" }
    )]
    NotFinite {
        /// The file or array.
        name: String,
        /// The line, from 1, in a text file.
        line: Option<u64>,
        /// The row, from 0.
        row: usize,
        /// The column, from 0.
        column: usize,
        /// The value found.
        value: f64,
    },

    /// A value is finite but not one that the model can explain, such as a negative count.
    #[error(
        "{name} row {}, column {}: {} is not {need}; mend the value, or choose a model that allows it",
        row + 1,
        column + 1,
        show_number(*value)
    )]
    BadValue {
        /// The file or array.
        name: String,
        /// The row, from 0.
        row: usize,
        /// The column, from 0.
        column: usize,
        /// The value found.
        value: f64,
        /// What is needed, to be read after "is not": "a count (a whole number, zero or more)".
        need: &'static str,
    },

    /// All values of a column are so small that their squares, which variances are made of, would be zero.
    #[error(
        "{name} column {}: no value is larger than {}, and variances need values of {} or more; give the column in other \
         units{}",
        column + 1,
        show_number(*largest),
        show_number(*least),
        if *in_f32 { ", or in f64" } else { "" }
    )]
    TinyColumn {
        /// The file or array.
        name: String,
        /// The column, from 0.
        column: usize,
        /// The size of its largest value.
        largest: f64,
        /// What it should be at least.
        least: f64,
        /// Whether f64 would hold what they are.
        in_f32: bool,
    },

    /// A setting has a value that cannot be used.
    #[error("{setting}: {problem}; {remedy}")]
    Config {
        /// The setting's name.
        setting: &'static str,
        /// What is wrong with its value.
        problem: String,
        /// What to do about it.
        remedy: String,
    },

    /// More clusters are asked for than there are rows.
    #[error(
        "{clusters} clusters cannot be started from {rows} rows; ask for at most {rows} clusters or give more data"
    )]
    TooManyClusters {
        /// Clusters asked for.
        clusters: usize,
        /// Rows there are.
        rows: usize,
    },

    /// More responsibilities a row or token are asked for than there are clusters or topics.
    #[error("a sparsity of {sparsity} is more than K = {clusters}; choose one from 1 to {clusters}")]
    SparsityTooLarge {
        /// Responsibilities a row or token asked for.
        sparsity: usize,
        /// Clusters or topics there are.
        clusters: usize,
    },

    /// The data does not have the columns that the model was trained on.
    #[error("{name} has {data} columns, the model was trained on {model}; give data with the same {model} columns")]
    DimensionMismatch {
        /// The file or array.
        name: String,
        /// Columns of the model.
        model: usize,
        /// Columns of the data.
        data: usize,
    },

    /// The log weight of a row under a cluster is not a number.
    #[error(
        "the weight of row {} under cluster {cluster} is not a number; rescale the data, use f64, or strengthen the prior",
        row + 1
    )]
    NanWeight {
        /// The row, from 0.
        row: usize,
        /// The cluster, from 0.
        cluster: usize,
    },

    /// Every cluster gives a row a density of zero.
    #[error("every cluster gives row {} zero density; rescale the data, use f64, or train with more clusters", row + 1)]
    RowOutOfRange {
        /// The row, from 0.
        row: usize,
    },

    /// The covariance of a cluster is not positive definite.
    #[error(
        "the covariance of cluster {cluster} is not positive definite (pivot {pivot:e}); strengthen the prior, ask for fewer clusters, use f64 (`precision f64`), or drop columns that repeat others"
    )]
    NotPositiveDefinite {
        /// The cluster, from 0.
        cluster: usize,
        /// The pivot that is not above zero.
        pivot: f64,
    },

    /// A file is not a model of this library.
    #[error("{} is not a model that can be read: {detail}; {remedy}", path.display())]
    ModelFormat {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        detail: String,
        /// What to do about it.
        remedy: String,
    },

    /// A file holds a model, but of the other family.
    #[error("{} is {}, not one of kind {wanted:?}; give another model", path.display(), describe_kind(found))]
    WrongKind {
        /// The file.
        path: PathBuf,
        /// The kind that it is: "mixture" or "topics", or one that later versions know.
        found: String,
        /// The kind that was needed.
        wanted: String,
    },

    /// What was folded into a session is not what it waits for.
    #[error(
        "batch {batch} of visit {visit} is not the one to fold in, which is that of visit {expected}; fold tickets in the order in which they were handed out"
    )]
    OutOfTurn {
        /// The batch.
        batch: usize,
        /// Its visit.
        visit: u64,
        /// The visit to be folded in.
        expected: u64,
    },

    /// Bytes from another process are not what they should be.
    #[error("these bytes are not {what}; exchange bytes between processes of the same version, rows and settings")]
    Exchange {
        /// What they should be.
        what: &'static str,
    },

    /// Those who work batches out elsewhere, or have the rows, did not do so.
    #[error("{what}")]
    Elsewhere {
        /// What they say.
        what: String,
    },

    /// Batches that others are to work out are not worked out yet.
    #[error(
        "{}: {} not worked out yet; see what kept those who had {}, or work on {}",
        folder.display(),
        describe_batches(batches),
        if batches.len() == 1 { "it" } else { "them" },
        if batches.len() == 1 { "it" } else { "them" }
    )]
    Awaiting {
        /// The folder where they are waited for.
        folder: PathBuf,
        /// The batches.
        batches: Vec<usize>,
        /// Whether nobody could know of them before.
        is_new: bool,
    },

    /// The objective is not a number any more.
    #[error("the objective is {value} after step {step}; give less extreme priors, rescale the data, or use f64")]
    Diverged {
        /// The step, from 1.
        step: u64,
        /// What the objective came to.
        value: f64,
    },

    /// A checkpoint could not be written; the one before it is as it was.
    #[error("cannot write the checkpoint {}: {source}; {}", path.display(), describe_checkpoint(path))]
    Checkpoint {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },

    /// Somebody asked to stop before there was anything to keep.
    #[error("interrupted while {during}; nothing was written")]
    Interrupted {
        /// What was being done: "looking for the first clusters".
        during: &'static str,
    },

    /// It would take more memory than there is.
    #[error(
        "{what} needs about {} of memory, and {} are left {left}; {remedy}",
        show_bytes(*needed),
        show_bytes(*available)
    )]
    TooLarge {
        /// What would take it.
        what: String,
        /// Bytes that it would take.
        needed: u64,
        /// Bytes that there are.
        available: u64,
        /// Where they are left: "on this machine".
        left: &'static str,
        /// What to do about it.
        remedy: String,
    },

    /// There is not one word in any document.
    #[error("{name} has no words in any document; check the filters that built it, or give other documents")]
    EmptyCorpus {
        /// The corpus.
        name: String,
    },

    /// An array that the clusters of a model need is not there, or has another shape.
    #[error("the array {name:?} {detail}; give a model of the same likelihood and dimension")]
    BadArray {
        /// The array's name.
        name: String,
        /// What is wrong with it.
        detail: String,
    },

    /// A model was written by a later version of this library.
    #[error(
        "{} has model format {found}, this version reads up to {supported}; update lsparse to read it",
        path.display()
    )]
    NewerModel {
        /// The file.
        path: PathBuf,
        /// Its format version.
        found: u32,
        /// The latest format version that is read.
        supported: u32,
    },
}

impl Error {
    /// Kernels and copies that failed: what there is no GPU for was found out before the work began.
    pub(crate) fn gpu(error: lsparse_cuda::Error) -> Error {
        let remedy = match error {
            lsparse_cuda::Error::OutOfMemory { .. } => {
                "end what else runs there, ask for more `batches`, or choose `device cpu`"
            }
            _ => "go on from the last checkpoint with `resume`, there or with `device cpu`",
        };
        Error::Gpu { detail: error.to_string(), remedy: remedy.into() }
    }

    /// The time that training may take was over before this: "a step was done".
    pub(crate) fn out_of_time(before: &str) -> Error {
        Error::Config {
            setting: "max-seconds",
            problem: format!("the time was over before {before}"),
            remedy: "give more time, ask for fewer clusters or topics, or for fewer columns".into(),
        }
    }

    /// Whether it is that of [`out_of_time`](Error::out_of_time).
    pub(crate) fn is_out_of_time(&self) -> bool {
        matches!(self, Error::Config { setting: "max-seconds", .. })
    }

    /// Whether it came of where a run had come to: from another seed it may not.
    pub fn is_of_a_run(&self) -> bool {
        matches!(
            self,
            Error::NanWeight { .. }
                | Error::RowOutOfRange { .. }
                | Error::NotPositiveDefinite { .. }
                | Error::Diverged { .. }
        )
    }

    /// Whether the one who called can mend it (a wrong setting, path or value), as opposed to a failing disk.
    pub fn is_bad_input(&self) -> bool {
        match self {
            Error::Interrupted { .. } | Error::Awaiting { .. } => false,
            Error::Io { source, .. } | Error::Unwritable { source, .. } | Error::Checkpoint { source, .. } => matches!(
                source.kind(),
                io::ErrorKind::NotFound
                    | io::ErrorKind::PermissionDenied
                    | io::ErrorKind::IsADirectory
                    | io::ErrorKind::NotADirectory
                    | io::ErrorKind::ReadOnlyFilesystem
                    | io::ErrorKind::InvalidInput
                    | io::ErrorKind::InvalidData
            ),
            _ => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_count_rows_and_columns_from_one() {
        let error = Error::NotFinite { name: "x.npy".into(), line: None, row: 0, column: 2, value: f64::NAN };
        assert_eq!(
            error.to_string(),
            "x.npy row 1, column 3: NaN is not finite; replace it by a number or drop the row (trained with `missing`, \
             full and diagonal Gaussians take NaN, and sequences a row of nothing else)"
        );
        let error =
            Error::NotANumber { path: "x.csv".into(), line: 7, column: 0, text: String::new(), is_missing: false };
        assert!(error.to_string().starts_with("x.csv line 7, column 1: empty field; "));
    }

    #[test]
    fn numbers_are_short() {
        let error = Error::BadValue { name: "x".into(), row: 0, column: 0, value: -1e300, need: "a count" };
        assert!(error.to_string().contains(": -1e300 is not a count"), "{error}");
        assert_eq!(
            [0.0, 1e15, 0.25, 1e-300, f64::NAN].map(show_number),
            ["0", "1000000000000000", "0.25", "1e-300", "NaN"]
        );
        let comma = Error::NotANumber { path: "x".into(), line: 1, column: 0, text: "-1,5".into(), is_missing: false };
        assert!(comma.to_string().contains("decimals take a point"), "{comma}");
    }

    #[test]
    fn a_failing_disk_is_nobodys_input() {
        let io = |kind| Error::Io { path: "x".into(), action: "read", source: io::Error::from(kind) };
        assert!(!io(io::ErrorKind::Other).is_bad_input());
        assert!(io(io::ErrorKind::PermissionDenied).is_bad_input());
        assert!(Error::NoRows { name: "x".into() }.is_bad_input());
        let full = io::Error::from(io::ErrorKind::StorageFull);
        assert!(!Error::Unwritable { path: "x".into(), source: full }.is_bad_input());
    }
}
