//! Read rows of numbers from files, folders and memory, a stretch at a time.
//!
//! [`open()`](crate::open::open) turns a path into a [`RowSource`], [`scan`] checks every value once, and [`Batches`]
//! deals the rows out in a seeded order. A new format is one file in `formats/` with a type that implements
//! [`RowSource`], and one line in `open.rs`.
//!
//! Rows and columns are numbered from 0 in the library and from 1 in messages.

mod ahead;
pub(crate) mod atomic;
mod batches;
mod borrowed_csr;
mod chained;
mod check;
mod dealt;
pub(crate) mod formats;
mod groups;
mod memory;
pub(crate) mod part;
mod pieces;
pub(crate) mod positioned;
mod rows;
mod standardized;
mod symbols;
mod thresholded;
mod wrapper;

use lsparse_kernels::Real;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

pub use ahead::{Ahead, Stretch};
pub use atomic::AtomicFile;
pub use batches::{Batches, Panel};
pub use borrowed_csr::{BorrowedCsr, CsrIndex, CsrValue};
pub use chained::Chained;
pub(crate) use check::{FAR, USUAL_VALUES, usual};
pub use check::{Moments, PartialMoments, ValueCheck, scan, scan_part, scan_rows};
pub(crate) use dealt::DealId;
pub use dealt::{Batch, Dealt};
pub use formats::csv::{CsvOptions, read_csv};
pub use formats::images::{ImagePatches, PatchGrid, PatchOptions};
pub use formats::npy::NpyRows;
pub use formats::npy_write::{NpyWriter, write_npy_f32, write_npy_f64, write_npy_i64};
pub use formats::npz::read_csr_npz;
pub use formats::npz_write::write_csr_npz;
pub use groups::{Groups, Window};
pub use memory::{BorrowedRows, CsrRows, MemoryRows};
pub use pieces::{Measuring, Piece, Pieced, Pieces};
pub use rows::{Layout, RowRef, Rows};
pub use standardized::{ColumnUnits, Standardized};
pub use symbols::Symbols;
pub use thresholded::Thresholded;
pub use wrapper::{Picked, Wrapper};

/// A precision of floating point numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Element {
    /// 32 bits.
    F32,
    /// 64 bits.
    F64,
}

/// Rows of numbers that can be read a stretch at a time, from several threads.
pub trait RowSource: Send + Sync {
    /// What messages call it: a path, or "the array".
    fn name(&self) -> &str;

    /// Rows there are, at least one.
    fn num_rows(&self) -> usize;

    /// Columns there are, at least one.
    fn dim(&self) -> usize;

    /// The precision that the rows are best read in: the smaller one that loses nothing.
    fn element(&self) -> Element;

    /// Whether most values are zeros that are not stored.
    fn is_sparse(&self) -> bool;

    /// Values that are stored, where they are few and somebody has counted them.
    fn num_entries(&self) -> Option<usize> {
        None
    }

    /// What people should know about how it was read, such as a line that was taken for a header.
    fn note(&self) -> Option<&str> {
        None
    }

    /// What a column is called, where columns have names.
    fn column_name(&self, _column: usize) -> Option<&str> {
        None
    }

    /// What a row is called, where rows have names.
    fn row_name(&self, _row: usize) -> Option<String> {
        None
    }

    /// The pieces that the rows lie in, where batches are to be these.
    fn pieces(&self) -> Option<&dyn Pieces> {
        None
    }

    /// Append rows `start..start + count` to `out`, in the layout that `out` has.
    ///
    /// Values are not checked here: see [`scan`]. After an error `out` may hold some of the rows.
    fn read_f32(&self, start: usize, count: usize, out: &mut Rows<f32>) -> Result<()>;

    /// As [`read_f32`](RowSource::read_f32), in 64 bits.
    fn read_f64(&self, start: usize, count: usize, out: &mut Rows<f64>) -> Result<()>;
}

/// A number that rows can be read into: `f32` or `f64`.
pub trait Scalar: Real + lsparse_cuda::centers::Precision + Send + Sync + 'static {
    /// Which of the two it is.
    const ELEMENT: Element;

    /// Append rows `start..start + count` of `source` to `out`.
    fn read(source: &dyn RowSource, start: usize, count: usize, out: &mut Rows<Self>) -> Result<()>;
}

impl Scalar for f32 {
    const ELEMENT: Element = Element::F32;

    fn read(source: &dyn RowSource, start: usize, count: usize, out: &mut Rows<f32>) -> Result<()> {
        source.read_f32(start, count, out)
    }
}

impl Scalar for f64 {
    const ELEMENT: Element = Element::F64;

    fn read(source: &dyn RowSource, start: usize, count: usize, out: &mut Rows<f64>) -> Result<()> {
        source.read_f64(start, count, out)
    }
}

/// Append rows `start..start + count` of `source` to `out`, in the layout that `out` has.
pub fn read<T: Scalar>(source: &dyn RowSource, start: usize, count: usize, out: &mut Rows<T>) -> Result<()> {
    T::read(source, start, count, out)
}

/// The layout that the rows of `source` are best kept in.
pub fn natural_layout(source: &dyn RowSource) -> Layout {
    if source.is_sparse() { Layout::Sparse } else { Layout::Dense }
}

/// What every source checks before it reads: the rows are there, and `out` is as wide as they are.
pub(crate) fn check_read<T: Real>(source: &dyn RowSource, start: usize, count: usize, out: &Rows<T>) -> Result<()> {
    let (end, overflow) = start.overflowing_add(count);
    if overflow || end > source.num_rows() {
        return Err(Error::PastEnd {
            name: source.name().to_owned(),
            end: if overflow { usize::MAX } else { end },
            num_rows: source.num_rows(),
        });
    }
    if out.dim() != source.dim() {
        return Err(Error::WrongShape {
            name: source.name().to_owned(),
            found: format!("(rows, {})", source.dim()),
            expected: format!("(rows, {})", out.dim()),
            remedy: "read into rows with as many columns as the data".to_owned(),
        });
    }
    Ok(())
}

/// A sparse file may claim any number of columns, and memory is taken for each of them; no model has so many.
pub(crate) const MAX_DIM: usize = 1 << 27;

/// Refuse numbers of rows or columns that the rest of a sparse file makes a lie: each costs memory or disk.
///
/// The second part of the error is what to do about it.
pub(crate) fn check_claim(what: &str, claimed: usize, entries: usize) -> std::result::Result<(), (String, String)> {
    if claimed <= entries.saturating_add(1000).saturating_mul(100) {
        return Ok(());
    }
    let detail = format!("{claimed} {what} are claimed, but there are only {entries} entries");
    Err((detail, "mend the numbers".to_owned()))
}

/// Columns or words that a sparse file may claim however few entries it has: words that are hashed to numbers have as many
/// columns as somebody thought enough (2^20 in scikit-learn).
const MODEST_DIM: usize = 1 << 20;

/// The same for columns or words, of which a modest number need no entries.
pub(crate) fn check_columns(what: &str, claimed: usize, entries: usize) -> std::result::Result<(), (String, String)> {
    if claimed <= MODEST_DIM { Ok(()) } else { check_claim(what, claimed, entries) }
}

/// What every source checks when it is made: at least one row and one column.
pub(crate) fn check_size(name: &str, num_rows: usize, dim: usize) -> Result<()> {
    if num_rows == 0 {
        return Err(Error::NoRows { name: name.to_owned() });
    }
    if dim == 0 {
        return Err(Error::NoColumns { name: name.to_owned() });
    }
    if dim > MAX_DIM {
        return Err(Error::WrongShape {
            name: name.to_owned(),
            found: format!("({num_rows}, {dim})"),
            expected: format!("at most {MAX_DIM} columns"),
            remedy: "drop columns".to_owned(),
        });
    }
    Ok(())
}
