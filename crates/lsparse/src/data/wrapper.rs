//! Rows that are another source's, seen in another way.

use std::ops::Range;

use crate::error::{Error, Result};

use super::{Element, Measuring, PartialMoments, Pieces, RowSource, Rows, Scalar};

/// A source made of another. What it does not say itself is as the rows inside have it, names and notes too, so that
/// none of them is lost on the way.
///
/// ```
/// use lsparse::data::{MemoryRows, RowSource, Rows, Scalar, Wrapper};
///
/// struct Doubled<'a>(&'a dyn RowSource);
///
/// impl Wrapper for Doubled<'_> {
///     fn inside(&self) -> &dyn RowSource {
///         self.0
///     }
///
///     fn append<T: Scalar>(&self, start: usize, count: usize, out: &mut Rows<T>) -> lsparse::Result<()> {
///         let mut rows = Rows::<T>::dense(self.dim());
///         T::read(self.0, start, count, &mut rows)?;
///         let doubled: Vec<T> = rows.dense_rows(0..count).iter().map(|&x| x + x).collect();
///         out.push_dense(&doubled);
///         Ok(())
///     }
/// }
///
/// let rows = MemoryRows::new("metres", 1, vec![1.0, 2.0])?;
/// assert_eq!((Doubled(&rows).name(), Doubled(&rows).num_rows()), ("metres", 2));
/// # Ok::<(), lsparse::Error>(())
/// ```
pub trait Wrapper: Send + Sync + Sized {
    /// The rows inside.
    fn inside(&self) -> &dyn RowSource;

    /// Append rows `start..start + count` of this source to `out`.
    fn append<T: Scalar>(&self, start: usize, count: usize, out: &mut Rows<T>) -> Result<()>;

    /// Rows there are.
    fn count(&self) -> usize {
        self.inside().num_rows()
    }

    /// The number that a row has inside, where it is there.
    fn number_inside(&self, row: usize) -> Option<usize> {
        Some(row)
    }

    /// Whether what is not stored inside is zero here too.
    fn keeps_zeros(&self) -> bool {
        true
    }

    /// The row that each piece ends before, where the rows lie in pieces.
    fn piece_ends(&self) -> Option<&[usize]> {
        self.inside().pieces().map(Pieces::ends)
    }

    /// How the rows inside are to be looked at where they are, for this source to be looked at so.
    fn measuring(&self, how: &Measuring) -> Measuring {
        how.clone()
    }
}

impl<W: Wrapper> Pieces for W {
    fn ends(&self) -> &[usize] {
        self.piece_ends().unwrap_or(&[])
    }

    fn bring(&self, stretches: &[Range<usize>]) -> Result<()> {
        self.inside().pieces().map_or(Ok(()), |pieces| pieces.bring(stretches))
    }

    fn measure(&self, how: &Measuring) -> Result<Option<PartialMoments>> {
        self.inside().pieces().map_or(Ok(None), |pieces| pieces.measure(&self.measuring(how)))
    }

    fn lacking(&self, some_may_lack: bool) -> Result<Option<Vec<bool>>> {
        self.inside().pieces().map_or(Ok(None), |pieces| pieces.lacking(some_may_lack))
    }

    fn print(&self) -> Result<Option<String>> {
        self.inside().pieces().map_or(Ok(None), Pieces::print)
    }
}

impl<W: Wrapper> RowSource for W {
    fn name(&self) -> &str {
        self.inside().name()
    }

    fn num_rows(&self) -> usize {
        self.count()
    }

    fn dim(&self) -> usize {
        self.inside().dim()
    }

    fn element(&self) -> Element {
        self.inside().element()
    }

    fn is_sparse(&self) -> bool {
        self.keeps_zeros() && self.inside().is_sparse()
    }

    /// At most, where rows are a part of those inside.
    fn num_entries(&self) -> Option<usize> {
        self.inside().num_entries().filter(|_| self.keeps_zeros())
    }

    fn note(&self) -> Option<&str> {
        self.inside().note()
    }

    fn column_name(&self, column: usize) -> Option<&str> {
        self.inside().column_name(column)
    }

    fn row_name(&self, row: usize) -> Option<String> {
        self.inside().row_name(self.number_inside(row)?)
    }

    fn pieces(&self) -> Option<&dyn Pieces> {
        self.piece_ends().map(|_| self as &dyn Pieces)
    }

    fn read_f32(&self, start: usize, count: usize, out: &mut Rows<f32>) -> Result<()> {
        self.append(start, count, out)
    }

    fn read_f64(&self, start: usize, count: usize, out: &mut Rows<f64>) -> Result<()> {
        self.append(start, count, out)
    }
}

/// Some rows of a source.
pub struct Picked<'a> {
    rows: &'a dyn RowSource,
    picked: Vec<usize>,
}

impl<'a> Picked<'a> {
    /// The rows of these ascending numbers.
    pub fn new(rows: &'a dyn RowSource, picked: Vec<usize>) -> Self {
        Picked { rows, picked }
    }

    /// The numbers.
    pub fn numbers(&self) -> &[usize] {
        &self.picked
    }
}

impl Wrapper for Picked<'_> {
    fn inside(&self) -> &dyn RowSource {
        self.rows
    }

    fn append<T: Scalar>(&self, start: usize, count: usize, out: &mut Rows<T>) -> Result<()> {
        let end = start.saturating_add(count);
        let Some(picked) = self.picked.get(start..end) else {
            return Err(Error::PastEnd { name: self.name().into(), end, num_rows: self.picked.len() });
        };
        // Rows that follow each other are read together.
        for run in picked.chunk_by(|a, b| a + 1 == *b) {
            T::read(self.rows, run[0], run.len(), out)?;
        }
        Ok(())
    }

    fn count(&self) -> usize {
        self.picked.len()
    }

    fn number_inside(&self, row: usize) -> Option<usize> {
        self.picked.get(row).copied()
    }

    /// They do not lie as all of them do.
    fn piece_ends(&self) -> Option<&[usize]> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::super::{ColumnUnits, MemoryRows, Pieced, Standardized, Thresholded};
    use super::*;

    /// Rows with everything that a source can say.
    struct Talkative(MemoryRows<f64>);

    impl RowSource for Talkative {
        fn name(&self) -> &str {
            self.0.name()
        }

        fn num_rows(&self) -> usize {
            self.0.num_rows()
        }

        fn dim(&self) -> usize {
            self.0.dim()
        }

        fn element(&self) -> Element {
            self.0.element()
        }

        fn is_sparse(&self) -> bool {
            true
        }

        fn num_entries(&self) -> Option<usize> {
            Some(4)
        }

        fn note(&self) -> Option<&str> {
            Some("a note")
        }

        fn column_name(&self, column: usize) -> Option<&str> {
            ["first", "second"].get(column).copied()
        }

        fn row_name(&self, row: usize) -> Option<String> {
            Some(format!("row {row}"))
        }

        fn read_f32(&self, start: usize, count: usize, out: &mut Rows<f32>) -> Result<()> {
            self.0.read_f32(start, count, out)
        }

        fn read_f64(&self, start: usize, count: usize, out: &mut Rows<f64>) -> Result<()> {
            self.0.read_f64(start, count, out)
        }
    }

    #[test]
    fn wrappers_hand_on_all_that_rows_say_of_themselves() {
        let rows = Talkative(MemoryRows::new("x", 2, vec![0.0, 1.0, 2.0, 3.0, 4.0, 5.0]).unwrap());
        let units = ColumnUnits { shift: vec![0.0; 2], scale: vec![1.0; 2] };
        let standardized = Standardized::new(&rows, &units);
        let (ones, pieced) = (Thresholded::new(&rows, 0.5), Pieced::new(&rows, vec![1, 3]).unwrap());
        let wrappers: [(&dyn RowSource, bool); 3] = [(&standardized, false), (&ones, true), (&pieced, true)];
        for (wrapper, sparse) in wrappers {
            assert_eq!((wrapper.name(), wrapper.note(), wrapper.dim()), ("x", Some("a note"), 2));
            assert_eq!(wrapper.column_name(1), Some("second"));
            assert_eq!(wrapper.row_name(2).as_deref(), Some("row 2"));
            assert_eq!((wrapper.is_sparse(), wrapper.num_entries()), (sparse, sparse.then_some(4)));
        }
    }

    #[test]
    fn picked_rows_keep_their_names() {
        let rows = Talkative(MemoryRows::new("x", 2, vec![0.0, 1.0, 2.0, 3.0, 4.0, 5.0]).unwrap());
        let picked = Picked::new(&rows, vec![0, 2]);
        assert_eq!((picked.num_rows(), picked.row_name(1).as_deref()), (2, Some("row 2")));
        let mut out = Rows::<f64>::dense(2);
        picked.read_f64(0, 2, &mut out).unwrap();
        assert_eq!(out.as_dense().unwrap(), [0.0, 1.0, 4.0, 5.0]);
        assert!(picked.read_f64(1, 2, &mut out).is_err());
    }
}
