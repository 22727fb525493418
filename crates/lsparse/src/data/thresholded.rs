//! Serve the rows of another source as zeros and ones.

use std::ops::Range;

use crate::error::Result;

use super::{Element, Measuring, PartialMoments, Pieces, RowSource, Rows, Scalar, natural_layout};

/// Rows with a one for every value above a threshold and a zero for every other.
///
/// ```
/// use lsparse::data::{MemoryRows, RowSource, Rows, Thresholded};
///
/// let grey = MemoryRows::new("grey", 3, vec![0.1, 0.9, 0.5])?;
/// let mut rows = Rows::<f32>::dense(3);
/// Thresholded::new(&grey, 0.4).read_f32(0, 1, &mut rows)?;
/// assert_eq!(rows.as_dense().unwrap(), [0.0, 1.0, 1.0]);
/// # Ok::<(), lsparse::Error>(())
/// ```
#[derive(Clone, Copy)]
pub struct Thresholded<'a> {
    inner: &'a dyn RowSource,
    threshold: f64,
}

impl<'a> Thresholded<'a> {
    /// The rows of `inner` with values above `threshold` as ones. What is no number stays none, to be found by others.
    pub fn new(inner: &'a dyn RowSource, threshold: f64) -> Self {
        Thresholded { inner, threshold }
    }

    fn append<T: Scalar>(&self, start: usize, count: usize, out: &mut Rows<T>) -> Result<()> {
        // Zeros that are not stored become ones below a negative threshold, so rows are read in full then.
        let mut rows = match self.is_sparse() {
            true => Rows::new(natural_layout(self.inner), self.dim()),
            false => Rows::dense(self.dim()),
        };
        T::read(self.inner, start, count, &mut rows)?;
        let one_or_zero = |value: &mut T| {
            let wide = value.to_f64();
            if !wide.is_nan() {
                *value = if wide > self.threshold { T::ONE } else { T::ZERO };
            }
        };
        match &mut rows {
            Rows::Dense { values, .. } => values.iter_mut().for_each(one_or_zero),
            Rows::Sparse { value, .. } => value.iter_mut().for_each(one_or_zero),
        }
        for row in 0..rows.len() {
            out.push(rows.row(row));
        }
        Ok(())
    }
}

impl Pieces for Thresholded<'_> {
    fn ends(&self) -> &[usize] {
        self.inner.pieces().map_or(&[], Pieces::ends)
    }

    fn bring(&self, stretches: &[Range<usize>]) -> Result<()> {
        self.inner.pieces().map_or(Ok(()), |pieces| pieces.bring(stretches))
    }

    fn measure(&self, how: &Measuring) -> Result<Option<PartialMoments>> {
        let how = Measuring { threshold: Some(self.threshold), ..how.clone() };
        self.inner.pieces().map_or(Ok(None), |pieces| pieces.measure(&how))
    }

    fn print(&self) -> Result<Option<String>> {
        self.inner.pieces().map_or(Ok(None), Pieces::print)
    }
}

impl RowSource for Thresholded<'_> {
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

    fn is_sparse(&self) -> bool {
        self.inner.is_sparse() && self.threshold >= 0.0
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

#[cfg(test)]
mod tests {
    use super::super::CsrRows;
    use super::*;

    #[test]
    fn sparse_rows_below_a_negative_threshold_are_full_of_ones() {
        let source = CsrRows::new("x", 3, vec![0, 2], vec![0, 2], vec![2.0, -3.0]).unwrap();
        for (threshold, sparse, expected) in [(0.0, true, [1.0, 0.0, 0.0]), (-1.0, false, [1.0, 1.0, 0.0])] {
            let ones = Thresholded::new(&source, threshold);
            assert_eq!(ones.is_sparse(), sparse);
            let mut rows = Rows::<f64>::sparse(3);
            ones.read_f64(0, 1, &mut rows).unwrap();
            assert_eq!(rows.into_dense().as_dense().unwrap(), expected);
        }
    }
}
