//! Rows as steps of sequences: a row of nothing but missing values is a step that nothing is known of.

use std::sync::Arc;

use crate::data::{RowSource, Rows, Scalar, Wrapper};
use crate::error::{Error, Result};

/// Rows of which some are steps without an observation. Those are served as zeros, so that no likelihood needs to know of
/// them, and whoever works on rows asks [`lacking`](Self::lacking) which they are.
pub struct Steps<'a> {
    source: &'a dyn RowSource,
    lacking: Option<Arc<Vec<bool>>>,
}

/// Rows that are looked at at once.
const BLOCK_ROWS: usize = 1 << 12;

impl<'a> Steps<'a> {
    /// Rows that all are there.
    pub fn complete(source: &'a dyn RowSource) -> Self {
        Steps { source, lacking: None }
    }

    /// Rows of which it is known which are steps without an observation.
    pub fn knowing(source: &'a dyn RowSource, lacking: Option<Arc<Vec<bool>>>) -> Self {
        Steps { source, lacking }
    }

    /// Look for rows of nothing but NaN. Rows that lack some values are an error unless `some_may_lack`.
    pub fn of(source: &'a dyn RowSource, some_may_lack: bool) -> Result<Self> {
        if source.is_sparse() {
            let problem = format!("{} holds sparse rows, in which what is not stored is zero", source.name());
            return Err(Error::Config { setting: "missing", problem, remedy: "give the rows in full".into() });
        }
        let (num_rows, dim) = (source.num_rows(), source.dim());
        let mut lacking = vec![false; num_rows];
        let mut rows = Rows::<f64>::dense(dim);
        for first in (0..num_rows).step_by(BLOCK_ROWS) {
            rows.clear();
            let count = BLOCK_ROWS.min(num_rows - first);
            source.read_f64(first, count, &mut rows)?;
            for n in 0..count {
                let row = rows.dense_rows(n..n + 1);
                let missing = row.iter().filter(|x| x.is_nan()).count();
                lacking[first + n] = missing == dim;
                if missing > 0 && missing < dim && !some_may_lack {
                    let column = row.iter().position(|x| x.is_nan()).unwrap_or(0);
                    let need = "a number beside the others (a step is there or missing as a whole, but for gauss and diag-gauss)";
                    let (name, value) = (source.name().into(), f64::NAN);
                    return Err(Error::BadValue { name, row: first + n, column, value, need });
                }
            }
        }
        let lacking = lacking.contains(&true).then(|| Arc::new(lacking));
        Ok(Steps { source, lacking })
    }

    /// Which rows are steps without an observation; none where all are there.
    pub fn lacking(&self) -> Option<Arc<Vec<bool>>> {
        self.lacking.clone()
    }

    /// A weight of one for every row that is there and zero for the others; none where all are there.
    pub fn weights(&self) -> Option<Vec<f64>> {
        let lacking = self.lacking.as_ref()?;
        Some(lacking.iter().map(|&lacks| if lacks { 0.0 } else { 1.0 }).collect())
    }
}

impl Wrapper for Steps<'_> {
    fn inside(&self) -> &dyn RowSource {
        self.source
    }

    fn append<T: Scalar>(&self, start: usize, count: usize, out: &mut Rows<T>) -> Result<()> {
        let Some(lacking) = &self.lacking else { return T::read(self.source, start, count, out) };
        // Stretches of rows that are there, and of those that are not.
        let zeros = vec![T::ZERO; self.source.dim()];
        let mut first = start;
        for run in lacking[start..start + count].chunk_by(|a, b| a == b) {
            match run[0] {
                true => run.iter().for_each(|_| out.push_dense(&zeros)),
                false => T::read(self.source, first, run.len(), out)?,
            }
            first += run.len();
        }
        Ok(())
    }

    /// Sequences are not taken in pieces.
    fn piece_ends(&self) -> Option<&[usize]> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::MemoryRows;

    #[test]
    fn rows_of_nothing_are_zeros_and_known() {
        let nan = f64::NAN;
        let source = MemoryRows::new("rows", 2, vec![1.0, 2.0, nan, nan, nan, nan, 3.0, nan, 5.0, 6.0]).unwrap();
        let steps = Steps::of(&source, true).unwrap();
        assert_eq!(*steps.lacking().unwrap(), [false, true, true, false, false]);
        assert_eq!(steps.weights().unwrap(), [1.0, 0.0, 0.0, 1.0, 1.0]);
        let mut rows = Rows::<f64>::dense(2);
        steps.read_f64(1, 4, &mut rows).unwrap();
        assert_eq!(rows.dense_rows(0..2), [0.0; 4]);
        assert!(rows.dense_rows(2..3)[1].is_nan() && rows.dense_rows(3..4) == [5.0, 6.0]);
        let text = Steps::of(&source, false).err().unwrap().to_string();
        assert!(text.contains("row 4, column 2"), "{text}");
        let whole = MemoryRows::new("rows", 1, vec![1.0, 2.0]).unwrap();
        assert!(Steps::of(&whole, false).unwrap().lacking().is_none());
    }
}
