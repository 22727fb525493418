//! Serve the rows of another source with each column in units of its own.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::error::Result;

use super::{Element, Measuring, PartialMoments, Pieces, RowSource, Rows, Scalar};

/// The units of columns: x is worked on as (x - shift) / scale.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ColumnUnits {
    /// What counts as zero in each column.
    pub shift: Vec<f64>,
    /// What counts as one, above zero.
    pub scale: Vec<f64>,
}

impl ColumnUnits {
    /// Put rows, one after the other, into these units.
    pub fn apply(&self, rows: &mut [f64]) {
        for row in rows.chunks_exact_mut(self.scale.len()) {
            let units = self.shift.iter().zip(&self.scale);
            row.iter_mut().zip(units).for_each(|(x, (shift, scale))| *x = (*x - shift) / scale);
        }
    }

    /// Put rows in these units into the data's own.
    pub fn undo(&self, rows: &mut [f64]) {
        for row in rows.chunks_exact_mut(self.scale.len()) {
            let units = self.shift.iter().zip(&self.scale);
            row.iter_mut().zip(units).for_each(|(x, (shift, scale))| *x = *x * scale + shift);
        }
    }

    /// What the log density of a row changes by from these units to the data's own: less the sum of log scale.
    pub fn log_density_change(&self) -> f64 {
        -self.scale.iter().map(|scale| scale.ln()).sum::<f64>()
    }
}

/// The rows of another source in the units of their columns.
///
/// ```
/// use lsparse::data::{ColumnUnits, MemoryRows, RowSource, Rows, Standardized};
///
/// let metres = MemoryRows::new("metres", 2, vec![10.0f32, 0.5, 30.0, 0.25])?;
/// let units = ColumnUnits { shift: vec![20.0, 0.0], scale: vec![10.0, 0.5] };
/// let mut rows = Rows::<f32>::dense(2);
/// Standardized::new(&metres, &units).read_f32(0, 2, &mut rows)?;
/// assert_eq!(rows.as_dense().unwrap(), [-1.0, 1.0, 1.0, 0.5]);
/// # Ok::<(), lsparse::Error>(())
/// ```
#[derive(Clone, Copy)]
pub struct Standardized<'a> {
    inner: &'a dyn RowSource,
    units: &'a ColumnUnits,
}

impl<'a> Standardized<'a> {
    /// The rows of `inner` in these units.
    pub fn new(inner: &'a dyn RowSource, units: &'a ColumnUnits) -> Self {
        Standardized { inner, units }
    }

    fn append<T: Scalar>(&self, start: usize, count: usize, out: &mut Rows<T>) -> Result<()> {
        // In double precision, since a column far from zero has its digits behind the shift.
        let mut rows = Rows::<f64>::dense(self.dim());
        self.inner.read_f64(start, count, &mut rows)?;
        if let Rows::Dense { values, .. } = &mut rows {
            self.units.apply(values);
            out.push_dense(values);
        }
        Ok(())
    }
}

impl Pieces for Standardized<'_> {
    fn ends(&self) -> &[usize] {
        self.inner.pieces().map_or(&[], Pieces::ends)
    }

    fn bring(&self, stretches: &[Range<usize>]) -> Result<()> {
        self.inner.pieces().map_or(Ok(()), |pieces| pieces.bring(stretches))
    }

    fn measure(&self, how: &Measuring) -> Result<Option<PartialMoments>> {
        let how = Measuring { units: Some(self.units.clone()), ..how.clone() };
        self.inner.pieces().map_or(Ok(None), |pieces| pieces.measure(&how))
    }

    fn print(&self) -> Result<Option<String>> {
        self.inner.pieces().map_or(Ok(None), Pieces::print)
    }
}

impl RowSource for Standardized<'_> {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn num_rows(&self) -> usize {
        self.inner.num_rows()
    }

    fn dim(&self) -> usize {
        self.inner.dim()
    }

    fn element(&self) -> Element {
        self.inner.element()
    }

    /// What is zero is not zero any more.
    fn is_sparse(&self) -> bool {
        false
    }

    fn note(&self) -> Option<&str> {
        self.inner.note()
    }

    fn row_name(&self, row: usize) -> Option<String> {
        self.inner.row_name(row)
    }

    fn pieces(&self) -> Option<&dyn Pieces> {
        self.inner.pieces().map(|_| self as &dyn Pieces)
    }

    fn read_f32(&self, start: usize, count: usize, out: &mut Rows<f32>) -> Result<()> {
        self.append(start, count, out)
    }

    fn read_f64(&self, start: usize, count: usize, out: &mut Rows<f64>) -> Result<()> {
        self.append(start, count, out)
    }
}
