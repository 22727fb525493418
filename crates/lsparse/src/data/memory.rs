//! Serve rows that are in memory already: owned, borrowed or compressed sparse.

use crate::error::{Error, Result};

use super::{Element, RowSource, Rows, Scalar, check_read, check_size};

/// Dense rows in memory that this value owns.
#[derive(Clone, Debug)]
pub struct MemoryRows<T> {
    name: String,
    dim: usize,
    values: Vec<T>,
    note: Option<String>,
    columns: Vec<String>,
}

impl<T: Scalar> MemoryRows<T> {
    /// Rows of `dim` values each, one after the other; `name` is for messages.
    pub fn new(name: impl Into<String>, dim: usize, values: Vec<T>) -> Result<Self> {
        let name = name.into();
        check_dense(&name, dim, values.len())?;
        Ok(MemoryRows { name, dim, values, note: None, columns: Vec::new() })
    }

    /// The same rows with a word on how they were read.
    pub fn with_note(mut self, note: Option<String>) -> Self {
        self.note = note;
        self
    }

    /// The same rows with names of their columns.
    pub fn with_columns(mut self, columns: Vec<String>) -> Self {
        self.columns = columns;
        self
    }

    /// All values, row by row.
    pub fn values(&self) -> &[T] {
        &self.values
    }

    fn borrow(&self) -> BorrowedRows<'_, T> {
        BorrowedRows { name: &self.name, dim: self.dim, values: &self.values }
    }
}

impl<T: Scalar> RowSource for MemoryRows<T> {
    fn name(&self) -> &str {
        &self.name
    }

    fn num_rows(&self) -> usize {
        self.values.len() / self.dim
    }

    fn dim(&self) -> usize {
        self.dim
    }

    fn element(&self) -> Element {
        T::ELEMENT
    }

    fn is_sparse(&self) -> bool {
        false
    }

    fn note(&self) -> Option<&str> {
        self.note.as_deref()
    }

    fn column_name(&self, column: usize) -> Option<&str> {
        self.columns.get(column).map(String::as_str)
    }

    fn read_f32(&self, start: usize, count: usize, out: &mut Rows<f32>) -> Result<()> {
        self.borrow().append(start, count, out)
    }

    fn read_f64(&self, start: usize, count: usize, out: &mut Rows<f64>) -> Result<()> {
        self.borrow().append(start, count, out)
    }
}

/// Dense rows in memory that belong to someone else, such as an array of another language.
#[derive(Clone, Copy, Debug)]
pub struct BorrowedRows<'a, T> {
    name: &'a str,
    dim: usize,
    values: &'a [T],
}

impl<'a, T: Scalar> BorrowedRows<'a, T> {
    /// Rows of `dim` values each, one after the other; `name` is for messages.
    pub fn new(name: &'a str, dim: usize, values: &'a [T]) -> Result<Self> {
        check_dense(name, dim, values.len())?;
        Ok(BorrowedRows { name, dim, values })
    }

    fn append<S: Scalar>(&self, start: usize, count: usize, out: &mut Rows<S>) -> Result<()> {
        check_read(self, start, count, out)?;
        out.push_dense(&self.values[start * self.dim..(start + count) * self.dim]);
        Ok(())
    }
}

impl<T: Scalar> RowSource for BorrowedRows<'_, T> {
    fn name(&self) -> &str {
        self.name
    }

    fn num_rows(&self) -> usize {
        self.values.len() / self.dim
    }

    fn dim(&self) -> usize {
        self.dim
    }

    fn element(&self) -> Element {
        T::ELEMENT
    }

    fn is_sparse(&self) -> bool {
        false
    }

    fn read_f32(&self, start: usize, count: usize, out: &mut Rows<f32>) -> Result<()> {
        self.append(start, count, out)
    }

    fn read_f64(&self, start: usize, count: usize, out: &mut Rows<f64>) -> Result<()> {
        self.append(start, count, out)
    }
}

/// Sparse rows in memory (compressed sparse rows), columns ascending and no zeros stored.
#[derive(Clone, Debug)]
pub struct CsrRows<T> {
    name: String,
    dim: usize,
    indptr: Vec<usize>,
    index: Vec<u32>,
    value: Vec<T>,
}

impl<T: Scalar> CsrRows<T> {
    /// Row `i` has `value[j]` in column `index[j]` for `j` in `indptr[i]..indptr[i + 1]`.
    ///
    /// Columns are sorted, repeated ones summed and zeros dropped; `name` is for messages.
    pub fn new(
        name: impl Into<String>,
        dim: usize,
        indptr: Vec<usize>,
        index: Vec<u32>,
        value: Vec<T>,
    ) -> Result<Self> {
        let name = name.into();
        let malformed = |found: String, expected: String| Error::WrongShape {
            name: name.clone(),
            found,
            expected,
            remedy: "build the matrix with scipy.sparse.csr_matrix, which keeps these rules".to_owned(),
        };
        check_size(&name, indptr.len().saturating_sub(1), dim)?;
        if index.len() != value.len() {
            return Err(malformed(
                format!("{} columns for {} values", index.len(), value.len()),
                "as many columns as values".to_owned(),
            ));
        }
        if indptr[0] != 0 || indptr[indptr.len() - 1] != index.len() {
            return Err(malformed(
                format!("rows from entry {} to {}", indptr[0], indptr[indptr.len() - 1]),
                format!("rows from entry 0 to {}", index.len()),
            ));
        }
        if let Some(row) = indptr.windows(2).position(|pair| pair[0] > pair[1]) {
            return Err(malformed(
                format!("row {} ending before it starts", row + 1),
                "row starts that ascend".to_owned(),
            ));
        }
        if let Some(at) = index.iter().position(|&column| column as usize >= dim) {
            let row = indptr.partition_point(|&start| start <= at);
            return Err(malformed(
                format!("column {} in row {row}", u64::from(index[at]) + 1),
                format!("columns up to {dim}"),
            ));
        }
        let mut rows = CsrRows { name, dim, indptr, index, value };
        rows.tidy();
        Ok(rows)
    }

    /// Sort columns within rows, sum repeated ones and drop zeros, in place.
    fn tidy(&mut self) {
        let mut pairs: Vec<(u32, T)> = Vec::new();
        let mut kept = 0;
        for row in 0..self.indptr.len() - 1 {
            // The entries kept never overtake those still to be read.
            let stretch = self.indptr[row]..self.indptr[row + 1];
            self.indptr[row] = kept;
            pairs.clear();
            pairs.extend(stretch.map(|j| (self.index[j], self.value[j])));
            if !pairs.is_sorted_by_key(|pair| pair.0) {
                pairs.sort_by_key(|pair| pair.0);
            }
            for same in pairs.chunk_by(|a, b| a.0 == b.0) {
                let sum: f64 = same.iter().map(|pair| pair.1.to_f64()).sum();
                if sum != 0.0 {
                    self.index[kept] = same[0].0;
                    self.value[kept] = T::from_f64(sum);
                    kept += 1;
                }
            }
        }
        let last = self.indptr.len() - 1;
        self.indptr[last] = kept;
        self.index.truncate(kept);
        self.value.truncate(kept);
    }

    /// Values stored.
    pub fn nonzeros(&self) -> usize {
        self.index.len()
    }

    fn append<S: Scalar>(&self, start: usize, count: usize, out: &mut Rows<S>) -> Result<()> {
        check_read(self, start, count, out)?;
        for row in start..start + count {
            let stretch = self.indptr[row]..self.indptr[row + 1];
            out.push_sparse(&self.index[stretch.clone()], &self.value[stretch]);
        }
        Ok(())
    }
}

impl<T: Scalar> RowSource for CsrRows<T> {
    fn name(&self) -> &str {
        &self.name
    }

    fn num_rows(&self) -> usize {
        self.indptr.len() - 1
    }

    fn dim(&self) -> usize {
        self.dim
    }

    fn element(&self) -> Element {
        T::ELEMENT
    }

    fn is_sparse(&self) -> bool {
        true
    }

    fn num_entries(&self) -> Option<usize> {
        Some(self.value.len())
    }

    fn read_f32(&self, start: usize, count: usize, out: &mut Rows<f32>) -> Result<()> {
        self.append(start, count, out)
    }

    fn read_f64(&self, start: usize, count: usize, out: &mut Rows<f64>) -> Result<()> {
        self.append(start, count, out)
    }
}

fn check_dense(name: &str, dim: usize, len: usize) -> Result<()> {
    check_size(name, if dim == 0 { 1 } else { len.div_ceil(dim) }, dim)?;
    if !len.is_multiple_of(dim) {
        return Err(Error::WrongShape {
            name: name.to_owned(),
            found: format!("{len} values"),
            expected: format!("whole rows of {dim} values"),
            remedy: "give every row the same number of values".to_owned(),
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dense_rows_are_read_in_both_layouts() {
        let source = MemoryRows::new("x", 2, vec![1.0f32, 0.0, 0.0, 4.0, 5.0, 6.0]).unwrap();
        let mut dense = Rows::<f64>::dense(2);
        source.read_f64(1, 2, &mut dense).unwrap();
        assert_eq!(dense.as_dense(), Some(&[0.0, 4.0, 5.0, 6.0][..]));
        let mut sparse = Rows::<f32>::sparse(2);
        source.read_f32(0, 2, &mut sparse).unwrap();
        assert_eq!(sparse.as_sparse(), Some((&[0, 1, 2][..], &[0, 1][..], &[1.0, 4.0][..])));
    }

    #[test]
    fn csr_is_sorted_summed_and_cleaned() {
        let source =
            CsrRows::new("x", 4, vec![0, 3, 3, 5, 6], vec![3, 0, 3, 1, 1, 2], vec![1.0, 2.0, 5.0, 1.0, -1.0, 0.0])
                .unwrap();
        let mut out = Rows::<f64>::sparse(4);
        source.read_f64(0, 4, &mut out).unwrap();
        let expected = (&[0, 2, 2, 2, 2][..], &[0, 3][..], &[2.0, 6.0][..]);
        assert_eq!(out.as_sparse(), Some(expected));
        assert_eq!(source.nonzeros(), 2);
        let mut dense = Rows::<f32>::dense(4);
        source.read_f32(0, 1, &mut dense).unwrap();
        assert_eq!(dense.as_dense(), Some(&[2.0, 0.0, 0.0, 6.0][..]));
    }

    #[test]
    fn wrong_sizes_are_errors() {
        let message = |result: Result<MemoryRows<f32>>| result.unwrap_err().to_string();
        assert!(message(MemoryRows::new("x", 2, vec![1.0; 3])).contains("3 values"));
        assert!(message(MemoryRows::new("x", 2, vec![])).contains("no rows"));
        assert!(message(MemoryRows::new("x", 0, vec![])).contains("no columns"));
        let source = BorrowedRows::new("x", 1, &[1.0f64, 2.0]).unwrap();
        let mut out = Rows::dense(1);
        assert!(matches!(source.read_f64(1, 2, &mut out), Err(Error::PastEnd { end: 3, .. })));
        assert!(source.read_f64(usize::MAX, 2, &mut out).is_err());
        assert!(source.read_f64(0, 1, &mut Rows::dense(2)).is_err());
    }

    #[test]
    fn malformed_csr_is_an_error() {
        let csr = |indptr: &[usize], index: &[u32]| {
            let value = vec![1.0f64; index.len()];
            CsrRows::new("x", 2, indptr.to_vec(), index.to_vec(), value).unwrap_err().to_string()
        };
        assert!(csr(&[0, 1, 3], &[0, 1, 2]).contains("column 3 in row 2"));
        assert!(csr(&[0, 2, 1, 3], &[0, 1, 0]).contains("row 2 ending before it starts"));
        assert!(csr(&[0, 2], &[0, 1, 0]).contains("entry 0 to 2"));
        assert!(csr(&[], &[]).contains("no rows"));
    }
}
