//! Serve the rows of another source with each column in units of its own.

use serde::{Deserialize, Serialize};

use crate::error::Result;

use super::{Measuring, RowSource, Rows, Scalar, Wrapper};

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
}

impl Wrapper for Standardized<'_> {
    fn inside(&self) -> &dyn RowSource {
        self.inner
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

    /// What is zero is not zero any more.
    fn keeps_zeros(&self) -> bool {
        false
    }

    fn measuring(&self, how: &Measuring) -> Measuring {
        Measuring { units: Some(self.units.clone()), ..how.clone() }
    }
}
