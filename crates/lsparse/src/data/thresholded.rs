//! Serve the rows of another source as zeros and ones.

use crate::error::Result;

use super::{Measuring, RowSource, Rows, Scalar, Wrapper, natural_layout};

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
}

impl Wrapper for Thresholded<'_> {
    fn inside(&self) -> &dyn RowSource {
        self.inner
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

    fn keeps_zeros(&self) -> bool {
        self.threshold >= 0.0
    }

    fn measuring(&self, how: &Measuring) -> Measuring {
        Measuring { threshold: Some(self.threshold), ..how.clone() }
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
