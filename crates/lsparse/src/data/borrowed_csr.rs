//! Serve compressed sparse rows that belong to someone else, such as a matrix of another language, without a copy.

use crate::error::{Error, Result};

use super::{Element, RowSource, Rows, Scalar, check_read, check_size};

/// An integer that says where rows start or which column a value is in.
pub trait CsrIndex: Copy + Send + Sync {
    /// As a place in memory; none if it is negative.
    fn place(self) -> Option<usize>;
}

impl CsrIndex for i32 {
    fn place(self) -> Option<usize> {
        usize::try_from(self).ok()
    }
}

impl CsrIndex for i64 {
    fn place(self) -> Option<usize> {
        usize::try_from(self).ok()
    }
}

/// A number that can be the value of a sparse row.
pub trait CsrValue: Copy + Send + Sync {
    /// The smaller precision that loses nothing.
    const ELEMENT: Element;

    /// In 64 bits.
    fn wide(self) -> f64;
}

macro_rules! csr_value {
    ($($number:ty => $element:ident),*) => {$(
        impl CsrValue for $number {
            const ELEMENT: Element = Element::$element;

            fn wide(self) -> f64 {
                self as f64
            }
        }
    )*};
}

csr_value!(f32 => F32, i8 => F32, u8 => F32, i16 => F32, u16 => F32);
csr_value!(f64 => F64, i32 => F64, u32 => F64, i64 => F64, u64 => F64);

/// Sparse rows in memory that belong to someone else: columns ascend within a row, none is there twice.
///
/// ```
/// use lsparse::data::{BorrowedCsr, RowSource, Rows};
///
/// let (indptr, index, value) = ([0i64, 2, 3], [0i64, 2, 1], [5u8, 7, 1]);
/// let source = BorrowedCsr::new("counts", 3, &indptr, &index, &value)?;
/// let mut rows = Rows::<f32>::dense(3);
/// source.read_f32(0, 2, &mut rows)?;
/// assert_eq!(rows.as_dense().unwrap(), [5.0, 0.0, 7.0, 0.0, 1.0, 0.0]);
/// # Ok::<(), lsparse::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct BorrowedCsr<'a, I, V> {
    name: &'a str,
    dim: usize,
    indptr: &'a [I],
    index: &'a [I],
    value: &'a [V],
}

impl<'a, I: CsrIndex, V: CsrValue> BorrowedCsr<'a, I, V> {
    /// Row `i` has `value[j]` in column `index[j]` for `j` in `indptr[i]..indptr[i + 1]`; `name` is for messages.
    ///
    /// All of it is checked here, so that reading later meets nothing unexpected.
    pub fn new(name: &'a str, dim: usize, indptr: &'a [I], index: &'a [I], value: &'a [V]) -> Result<Self> {
        check_size(name, indptr.len().saturating_sub(1), dim)?;
        let malformed = |found: String, expected: String| Error::WrongShape {
            name: name.to_owned(),
            found,
            expected,
            remedy: "call sum_duplicates() on the matrix, which keeps these rules".to_owned(),
        };
        if index.len() != value.len() {
            let found = format!("{} columns for {} values", index.len(), value.len());
            return Err(malformed(found, "as many columns as values".to_owned()));
        }
        let mut start = match indptr[0].place() {
            Some(0) => 0,
            _ => return Err(malformed("rows that do not start at entry 0".to_owned(), "a start at 0".to_owned())),
        };
        for (row, end) in indptr[1..].iter().enumerate() {
            let end = end.place().filter(|&end| start <= end && end <= index.len()).ok_or_else(|| {
                let found = format!("row {} ending before it starts or beyond the entries", row + 1);
                malformed(found, "row starts that ascend".to_owned())
            })?;
            let mut last = None;
            for column in &index[start..end] {
                let column = column.place().filter(|&column| column < dim);
                if column.is_none() || column <= last {
                    let found = format!("columns of row {} that do not ascend or are beyond {dim}", row + 1);
                    return Err(malformed(found, "columns that ascend".to_owned()));
                }
                last = column;
            }
            start = end;
        }
        if start != index.len() {
            return Err(malformed(format!("rows up to entry {start}"), format!("rows up to entry {}", index.len())));
        }
        Ok(BorrowedCsr { name, dim, indptr, index, value })
    }

    fn append<T: Scalar>(&self, start: usize, count: usize, out: &mut Rows<T>) -> Result<()> {
        check_read(self, start, count, out)?;
        let (mut columns, mut values) = (Vec::new(), Vec::new());
        for row in self.indptr[start..=start + count].windows(2) {
            // Both were checked to be places among the entries.
            let stretch = row[0].place().unwrap_or(0)..row[1].place().unwrap_or(0);
            columns.clear();
            columns.extend(self.index[stretch.clone()].iter().map(|column| column.place().unwrap_or(0) as u32));
            values.clear();
            values.extend(self.value[stretch].iter().map(|value| T::from_f64(value.wide())));
            out.push_sparse(&columns, &values);
        }
        Ok(())
    }
}

impl<I: CsrIndex, V: CsrValue> RowSource for BorrowedCsr<'_, I, V> {
    fn name(&self) -> &str {
        self.name
    }

    fn num_rows(&self) -> usize {
        self.indptr.len() - 1
    }

    fn dim(&self) -> usize {
        self.dim
    }

    fn element(&self) -> Element {
        V::ELEMENT
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

#[cfg(test)]
mod tests {
    use super::super::CsrRows;
    use super::*;

    #[test]
    fn rows_are_those_of_an_owned_matrix() {
        let (indptr, index, value) = ([0i32, 2, 2, 5], [0i32, 3, 1, 2, 3], [1.5f32, 0.0, 2.0, -1.0, 4.0]);
        let borrowed = BorrowedCsr::new("x", 4, &indptr, &index, &value).unwrap();
        let owned = CsrRows::new("x", 4, vec![0, 2, 2, 5], vec![0, 3, 1, 2, 3], value.to_vec()).unwrap();
        let (mut a, mut b) = (Rows::<f64>::sparse(4), Rows::<f64>::sparse(4));
        borrowed.read_f64(0, 3, &mut a).unwrap();
        owned.read_f64(0, 3, &mut b).unwrap();
        assert_eq!(a, b);
        assert!(borrowed.read_f64(2, 2, &mut a).is_err());
    }

    #[test]
    fn malformed_matrices_are_errors() {
        let refused = |indptr: &[i64], index: &[i64], word: &str| {
            let value = vec![1.0f64; index.len()];
            let error = BorrowedCsr::new("x", 3, indptr, index, &value).unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        };
        refused(&[], &[], "no rows");
        refused(&[1, 2], &[0, 1], "do not start at entry 0");
        refused(&[0, 2, 1], &[0, 1], "row 2 ending");
        refused(&[0, -1], &[0], "row 1 ending");
        refused(&[0, 9], &[0], "row 1 ending");
        refused(&[0, 2], &[1, 0], "columns of row 1");
        refused(&[0, 2], &[1, 1], "columns of row 1");
        refused(&[0, 1], &[3], "columns of row 1");
        refused(&[0, 1], &[-1], "columns of row 1");
        refused(&[0, 1], &[0, 1], "up to entry 1");
        assert!(BorrowedCsr::new("x", 3, &[0i32, 1], &[0i32], &[1u8, 2]).is_err());
    }
}
