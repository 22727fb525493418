//! Rows that lie in pieces, here or with other processes: a batch is then a piece, in the order of its rows.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

use super::{ColumnUnits, Element, PartialMoments, RowSource, Rows, Scalar, Wrapper};

/// Rows in pieces, none of them empty, that may be elsewhere.
pub trait Pieces: Send + Sync {
    /// The row that each piece ends before, ascending; the last is the number of rows.
    fn ends(&self) -> &[usize];

    /// These rows are about to be read: those that are elsewhere are best brought here at once.
    fn bring(&self, _stretches: &[Range<usize>]) -> Result<()> {
        Ok(())
    }

    /// The moments of all pieces, merged in order, every value checked where the rows are; none where they are here.
    fn measure(&self, _how: &Measuring) -> Result<Option<PartialMoments>> {
        Ok(None)
    }

    /// Which rows are nothing but missing values, every row looked at where it is; none where they are here. Rows that lack
    /// some are an error unless `some_may_lack`.
    fn lacking(&self, _some_may_lack: bool) -> Result<Option<Vec<bool>>> {
        Ok(None)
    }

    /// A checksum of all rows in words; none where they are here.
    fn print(&self) -> Result<Option<String>> {
        Ok(None)
    }
}

/// How rows are to be looked at where they are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measuring {
    /// The precision that values must fit into.
    pub target: Element,
    /// Whether values may be missing.
    pub missing: bool,
    /// Values above this are ones, all others zeros.
    pub threshold: Option<f64>,
    /// The units that columns are put into.
    pub units: Option<ColumnUnits>,
}

/// Ends of pieces are those of rows that there are.
fn check_ends(name: &str, ends: &[usize], num_rows: usize) -> Result<()> {
    let ascending = ends.first().is_some_and(|&end| end > 0) && ends.windows(2).all(|pair| pair[0] < pair[1]);
    match ascending && ends.last() == Some(&num_rows) {
        true => Ok(()),
        false => Err(Error::Config {
            setting: "batches",
            problem: format!("the pieces of {name} are not its {num_rows} rows"),
            remedy: "leave out pieces without rows".into(),
        }),
    }
}

/// Rows that are here, to be taken in pieces: what others train who have a piece each, in one process.
pub struct Pieced<'a> {
    inner: &'a dyn RowSource,
    ends: Vec<usize>,
}

impl<'a> Pieced<'a> {
    /// The rows of `inner` in pieces that end before these.
    pub fn new(inner: &'a dyn RowSource, ends: Vec<usize>) -> Result<Self> {
        check_ends(inner.name(), &ends, inner.num_rows())?;
        Ok(Pieced { inner, ends })
    }
}

/// One piece that is here, of rows that are not: it can be read by the numbers that its rows have among all.
pub struct Piece<'a> {
    rows: &'a dyn RowSource,
    first: usize,
    ends: Vec<usize>,
}

impl<'a> Piece<'a> {
    /// These rows as the piece of this number.
    pub fn new(rows: &'a dyn RowSource, number: usize, ends: Vec<usize>) -> Result<Self> {
        check_ends(rows.name(), &ends, ends.last().copied().unwrap_or(0))?;
        let first = number.checked_sub(1).map_or(Some(0), |before| ends.get(before).copied());
        let fits = first.zip(ends.get(number)).is_some_and(|(first, end)| end - first == rows.num_rows());
        let Some(first) = first.filter(|_| fits) else { return Err(Error::Exchange { what: "rows of this piece" }) };
        Ok(Piece { rows, first, ends })
    }

    /// The number of its first row among all.
    pub fn first(&self) -> usize {
        self.first
    }
}

impl Wrapper for Pieced<'_> {
    fn inside(&self) -> &dyn RowSource {
        self.inner
    }

    fn append<T: Scalar>(&self, start: usize, count: usize, out: &mut Rows<T>) -> Result<()> {
        T::read(self.inner, start, count, out)
    }

    fn piece_ends(&self) -> Option<&[usize]> {
        Some(&self.ends)
    }
}

impl Wrapper for Piece<'_> {
    fn inside(&self) -> &dyn RowSource {
        self.rows
    }

    fn append<T: Scalar>(&self, start: usize, count: usize, out: &mut Rows<T>) -> Result<()> {
        let Some(start) = start.checked_sub(self.first) else {
            return Err(Error::Exchange { what: "a ticket of this piece" });
        };
        T::read(self.rows, start, count, out)
    }

    fn count(&self) -> usize {
        self.ends.last().copied().unwrap_or(0)
    }

    /// Rows of other pieces have no names here.
    fn number_inside(&self, row: usize) -> Option<usize> {
        row.checked_sub(self.first).filter(|&row| row < self.rows.num_rows())
    }

    fn piece_ends(&self) -> Option<&[usize]> {
        Some(&self.ends)
    }
}
