//! Rows as steps of sequences: a row of nothing but missing values is a step that nothing is known of.

use std::sync::Arc;

use crate::data::{RowSource, Rows, Scalar, Wrapper};
use crate::error::{Error, Result};

/// Which of some rows are steps without an observation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lacking {
    /// The first row that is known of: those before it and after the last are others' concern.
    first: usize,
    flags: Vec<bool>,
}

impl Lacking {
    /// Of all rows, or of some from `first` on; none where all are there.
    pub fn new(first: usize, flags: Vec<bool>) -> Option<Arc<Self>> {
        flags.contains(&true).then(|| Arc::new(Lacking { first, flags }))
    }

    /// Whether a row is one.
    pub fn has(&self, row: usize) -> bool {
        row.checked_sub(self.first).and_then(|at| self.flags.get(at)).copied().unwrap_or(false)
    }
}

/// Rows of which some are steps without an observation. Those are served as zeros, so that no likelihood needs to know of
/// them, and whoever works on rows asks [`lacking`](Self::lacking) which they are.
pub struct Steps<'a> {
    source: &'a dyn RowSource,
    lacking: Option<Arc<Lacking>>,
}

/// Rows that are looked at at once.
const BLOCK_ROWS: usize = 1 << 12;

impl<'a> Steps<'a> {
    /// Rows that all are there.
    pub fn complete(source: &'a dyn RowSource) -> Self {
        Steps { source, lacking: None }
    }

    /// Rows of which it is known which are steps without an observation.
    pub fn knowing(source: &'a dyn RowSource, lacking: Option<Arc<Lacking>>) -> Self {
        Steps { source, lacking }
    }

    /// Look for rows of nothing but NaN, here or where they are. Rows that lack some values are an error unless
    /// `some_may_lack`.
    pub fn of(source: &'a dyn RowSource, some_may_lack: bool) -> Result<Self> {
        let elsewhere = source.pieces().map_or(Ok(None), |pieces| pieces.lacking(some_may_lack))?;
        let flags = elsewhere.map_or_else(|| lacking_rows(source, some_may_lack), Ok)?;
        Ok(Steps { source, lacking: Lacking::new(0, flags) })
    }

    /// Which rows are steps without an observation; none where all are there.
    pub fn lacking(&self) -> Option<Arc<Lacking>> {
        self.lacking.clone()
    }

    /// Steps that are there.
    pub fn num_there(&self) -> usize {
        let missing = |lacking: &Arc<Lacking>| lacking.flags.iter().filter(|lacks| **lacks).count();
        self.num_rows() - self.lacking.as_ref().map_or(0, missing)
    }

    /// A weight of one for every row that is there and zero for the others; none where all are there.
    pub fn weights(&self) -> Option<Vec<f64>> {
        let lacking = self.lacking.as_ref()?;
        Some((0..self.num_rows()).map(|row| if lacking.has(row) { 0.0 } else { 1.0 }).collect())
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
        while first < start + count {
            let lacks = lacking.has(first);
            let run = (first..start + count).take_while(|&row| lacking.has(row) == lacks).count();
            match lacks {
                true => (0..run).for_each(|_| out.push_dense(&zeros)),
                false => T::read(self.source, first, run, out)?,
            }
            first += run;
        }
        Ok(())
    }
}

/// Which rows are nothing but NaN. Rows that lack some values are an error unless `some_may_lack`.
pub fn lacking_rows(source: &dyn RowSource, some_may_lack: bool) -> Result<Vec<bool>> {
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
                let need =
                    "a number beside the others (a step is there or missing as a whole, but for gauss and diag-gauss)";
                let (name, value) = (source.name().into(), f64::NAN);
                return Err(Error::BadValue { name, row: first + n, column, value, need });
            }
        }
    }
    Ok(lacking)
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
        assert_eq!(steps.lacking(), Lacking::new(0, vec![false, true, true, false, false]));
        assert_eq!(steps.num_there(), 3);
        let part = Lacking::new(2, vec![false, true]).unwrap();
        assert_eq!((0..6).map(|row| part.has(row)).collect::<Vec<_>>(), [false, false, false, true, false, false]);
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
