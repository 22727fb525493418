//! Rows as steps of sequences: a row of nothing but missing values is a step that nothing is known of.

use std::sync::Arc;

use crate::data::{RowSource, Rows, Scalar, Wrapper};
use crate::error::{Error, Result};
use crate::likelihood::Family;

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

/// What rows may lack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MayLack {
    /// Some of their values.
    pub values: bool,
    /// All that they count, so that a sparse row of nothing is a step without an observation: a symbol that is missing.
    pub counts: bool,
}

impl MayLack {
    /// What rows of a family may lack.
    pub fn of(family: &Family) -> Self {
        MayLack { values: family.allows_missing, counts: family.of_categories }
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

    /// Look for rows of nothing, here or where they are, as [`lacking_rows`] does.
    pub fn of(source: &'a dyn RowSource, may: MayLack) -> Result<Self> {
        let elsewhere = source.pieces().map_or(Ok(None), |pieces| pieces.lacking(may.values))?;
        let flags = elsewhere.map_or_else(|| lacking_rows(source, may), Ok)?;
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

/// Which rows are nothing but NaN, or of sparse counts nothing at all. Rows that lack some values are an error where they may
/// not.
pub fn lacking_rows(source: &dyn RowSource, may: MayLack) -> Result<Vec<bool>> {
    if source.is_sparse() && may.counts {
        return rows_of_nothing(source);
    }
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
            if missing > 0 && missing < dim && !may.values {
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

/// Which sparse rows have no entries.
fn rows_of_nothing(source: &dyn RowSource) -> Result<Vec<bool>> {
    let mut lacking = Vec::with_capacity(source.num_rows());
    let mut rows = Rows::<f64>::sparse(source.dim());
    while lacking.len() < source.num_rows() {
        rows.clear();
        source.read_f64(lacking.len(), BLOCK_ROWS.min(source.num_rows() - lacking.len()), &mut rows)?;
        lacking.extend((0..rows.len()).map(|n| rows.sparse_row(n).0.is_empty()));
    }
    Ok(lacking)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{CsrRows, MemoryRows};

    #[test]
    fn rows_of_nothing_are_zeros_and_known() {
        let nan = f64::NAN;
        let source = MemoryRows::new("rows", 2, vec![1.0, 2.0, nan, nan, nan, nan, 3.0, nan, 5.0, 6.0]).unwrap();
        let steps = Steps::of(&source, MayLack { values: true, counts: false }).unwrap();
        assert_eq!(steps.lacking(), Lacking::new(0, vec![false, true, true, false, false]));
        assert_eq!(steps.num_there(), 3);
        let part = Lacking::new(2, vec![false, true]).unwrap();
        assert_eq!((0..6).map(|row| part.has(row)).collect::<Vec<_>>(), [false, false, false, true, false, false]);
        assert_eq!(steps.weights().unwrap(), [1.0, 0.0, 0.0, 1.0, 1.0]);
        let mut rows = Rows::<f64>::dense(2);
        steps.read_f64(1, 4, &mut rows).unwrap();
        assert_eq!(rows.dense_rows(0..2), [0.0; 4]);
        assert!(rows.dense_rows(2..3)[1].is_nan() && rows.dense_rows(3..4) == [5.0, 6.0]);
        let text = Steps::of(&source, MayLack::default()).err().unwrap().to_string();
        assert!(text.contains("row 4, column 2"), "{text}");
        let whole = MemoryRows::new("rows", 1, vec![1.0, 2.0]).unwrap();
        assert!(Steps::of(&whole, MayLack::default()).unwrap().lacking().is_none());
        let counts = CsrRows::new("counts", 2, vec![0, 1, 1, 2], vec![1, 0], vec![1.0, 2.0]).unwrap();
        let may = MayLack { values: false, counts: true };
        assert_eq!(Steps::of(&counts, may).unwrap().lacking(), Lacking::new(0, vec![false, true, false]));
        assert!(Steps::of(&counts, MayLack::default()).err().unwrap().to_string().contains("sparse rows"));
    }
}
