//! Hold a stretch of rows in memory, dense or sparse.

use std::ops::Range;

use lsparse_kernels::Real;
use rayon::prelude::*;

/// Rows that a task copies.
const ROWS_A_TASK: usize = 1024;

/// How rows lie in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Every value of every row.
    Dense,
    /// The values that are not zero, with their columns.
    Sparse,
}

/// A stretch of rows, one after the other.
///
/// The buffers are meant to be kept and filled again: [`clear`](Rows::clear) keeps their capacity.
#[derive(Clone, Debug, PartialEq)]
pub enum Rows<T> {
    /// Row `i` is `values[i * dim..(i + 1) * dim]`.
    Dense {
        /// Columns.
        dim: usize,
        /// All values, row by row.
        values: Vec<T>,
    },
    /// Row `i` has `value[j]` in column `index[j]` for `j` in `indptr[i]..indptr[i + 1]`, and zero elsewhere.
    Sparse {
        /// Columns.
        dim: usize,
        /// Where each row starts, and where the last one ends: one more entry than rows.
        indptr: Vec<usize>,
        /// Columns of the values, ascending within a row.
        index: Vec<u32>,
        /// Values, none of them zero.
        value: Vec<T>,
    },
}

/// One row of [`Rows`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RowRef<'a, T> {
    /// Every value.
    Dense(&'a [T]),
    /// Columns, ascending, and the values in them.
    Sparse(&'a [u32], &'a [T]),
}

impl<T: Real> Rows<T> {
    /// No rows yet, to be kept dense.
    pub fn dense(dim: usize) -> Self {
        Rows::Dense { dim, values: Vec::new() }
    }

    /// No rows yet, to be kept sparse.
    pub fn sparse(dim: usize) -> Self {
        Rows::Sparse { dim, indptr: vec![0], index: Vec::new(), value: Vec::new() }
    }

    /// No rows yet, in the given layout.
    pub fn new(layout: Layout, dim: usize) -> Self {
        match layout {
            Layout::Dense => Rows::dense(dim),
            Layout::Sparse => Rows::sparse(dim),
        }
    }

    /// How the rows lie in memory.
    pub fn layout(&self) -> Layout {
        match self {
            Rows::Dense { .. } => Layout::Dense,
            Rows::Sparse { .. } => Layout::Sparse,
        }
    }

    /// Columns.
    pub fn dim(&self) -> usize {
        match self {
            Rows::Dense { dim, .. } | Rows::Sparse { dim, .. } => *dim,
        }
    }

    /// Rows held.
    pub fn len(&self) -> usize {
        match self {
            Rows::Dense { dim, values } => values.len().checked_div(*dim).unwrap_or(0),
            Rows::Sparse { indptr, .. } => indptr.len() - 1,
        }
    }

    /// Whether no rows are held.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Forget the rows, keep the memory.
    pub fn clear(&mut self) {
        match self {
            Rows::Dense { values, .. } => values.clear(),
            Rows::Sparse { indptr, index, value, .. } => {
                indptr.truncate(1);
                index.clear();
                value.clear();
            }
        }
    }

    /// Forget the rows, keep the memory for rows of `columns` columns.
    pub(crate) fn reset(&mut self, columns: usize) {
        self.clear();
        match self {
            Rows::Dense { dim, .. } | Rows::Sparse { dim, .. } => *dim = columns,
        }
    }

    /// Take memory for so many more rows and no more than that, where it is known what they need.
    pub fn reserve(&mut self, rows: usize) {
        match self {
            Rows::Dense { dim, values } => values.reserve_exact(rows * *dim),
            Rows::Sparse { indptr, .. } => indptr.reserve_exact(rows),
        }
    }

    /// Bytes of memory held, spare capacity included.
    pub fn resident_bytes(&self) -> usize {
        match self {
            Rows::Dense { values, .. } => values.capacity() * size_of::<T>(),
            Rows::Sparse { indptr, index, value, .. } => {
                indptr.capacity() * size_of::<usize>()
                    + index.capacity() * size_of::<u32>()
                    + value.capacity() * size_of::<T>()
            }
        }
    }

    /// Row `i`.
    ///
    /// # Panics
    /// If there is no row `i`.
    pub fn row(&self, i: usize) -> RowRef<'_, T> {
        match self {
            Rows::Dense { dim, values } => RowRef::Dense(&values[i * dim..(i + 1) * dim]),
            Rows::Sparse { indptr, index, value, .. } => {
                let stretch = indptr[i]..indptr[i + 1];
                RowRef::Sparse(&index[stretch.clone()], &value[stretch])
            }
        }
    }

    /// All values row by row if the layout is dense.
    pub fn as_dense(&self) -> Option<&[T]> {
        match self {
            Rows::Dense { values, .. } => Some(values),
            Rows::Sparse { .. } => None,
        }
    }

    /// `(indptr, index, value)` if the layout is sparse.
    pub fn as_sparse(&self) -> Option<(&[usize], &[u32], &[T])> {
        match self {
            Rows::Dense { .. } => None,
            Rows::Sparse { indptr, index, value, .. } => Some((indptr, index, value)),
        }
    }

    /// The values of rows `range`, one row after the other.
    ///
    /// # Panics
    /// If the layout is sparse or a row is not there.
    pub fn dense_rows(&self, range: Range<usize>) -> &[T] {
        match self {
            Rows::Dense { dim, values } => &values[range.start * dim..range.end * dim],
            Rows::Sparse { .. } => panic!("dense rows were asked of a sparse block"),
        }
    }

    /// Columns and values of row `i`.
    ///
    /// # Panics
    /// If the layout is dense or there is no row `i`.
    pub fn sparse_row(&self, i: usize) -> (&[u32], &[T]) {
        match self.row(i) {
            RowRef::Sparse(index, value) => (index, value),
            RowRef::Dense(_) => panic!("a sparse row was asked of a dense block"),
        }
    }

    /// Append rows given by all their values, of any precision, one row after the other.
    ///
    /// # Panics
    /// If `values` is not a whole number of rows.
    pub fn push_dense<S: Real>(&mut self, values: &[S]) {
        let width = self.dim();
        if values.is_empty() {
            return;
        }
        assert!(width > 0 && values.len().is_multiple_of(width), "{} values are no rows of {width}", values.len());
        match self {
            Rows::Dense { values: all, .. } => all.extend(values.iter().map(|&v| convert::<S, T>(v))),
            Rows::Sparse { indptr, index, value, .. } => {
                for row in values.chunks_exact(width) {
                    for (column, &v) in row.iter().enumerate() {
                        let v = convert::<S, T>(v);
                        if !is_zero(v) {
                            index.push(column as u32);
                            value.push(v);
                        }
                    }
                    indptr.push(index.len());
                }
            }
        }
    }

    /// Append one row given by its columns, ascending, and the values in them.
    ///
    /// # Panics
    /// If the lengths differ or a column is not below `dim`.
    pub fn push_sparse<S: Real>(&mut self, columns: &[u32], row: &[S]) {
        assert_eq!(columns.len(), row.len(), "as many columns as values");
        let width = self.dim();
        match self {
            Rows::Dense { values, .. } => {
                let start = values.len();
                values.resize(start + width, T::ZERO);
                for (&column, &v) in columns.iter().zip(row) {
                    values[start..][column as usize] = convert(v);
                }
            }
            Rows::Sparse { indptr, index, value, .. } => {
                debug_assert!(columns.windows(2).all(|pair| pair[0] < pair[1]), "columns ascend");
                assert!(columns.last().is_none_or(|&last| (last as usize) < width), "columns below {width}");
                for (&column, &v) in columns.iter().zip(row) {
                    let v = convert::<S, T>(v);
                    if !is_zero(v) {
                        index.push(column);
                        value.push(v);
                    }
                }
                indptr.push(index.len());
            }
        }
    }

    /// Append a row of other rows.
    pub fn push(&mut self, row: RowRef<'_, T>) {
        match row {
            RowRef::Dense(values) => self.push_dense(values),
            RowRef::Sparse(index, value) => self.push_sparse(index, value),
        }
    }

    /// Append the rows numbered by `order`, in that order, to `out`, in the layout of `out`.
    ///
    /// # Panics
    /// If a row is not there or the dimensions differ.
    pub fn gather_into(&self, order: &[u32], out: &mut Rows<T>) {
        // Room for all at once: many threads that ask for more and more wait for one another.
        match (self, &mut *out) {
            (Rows::Sparse { indptr, .. }, Rows::Sparse { indptr: ends, index, value, .. }) => {
                let entries = order.iter().map(|&i| indptr[i as usize + 1] - indptr[i as usize]).sum();
                ends.reserve(order.len());
                index.reserve(entries);
                value.reserve(entries);
            }
            (_, Rows::Dense { dim, values }) => values.reserve(order.len() * *dim),
            _ => {}
        }
        for &i in order {
            out.push(self.row(i as usize));
        }
    }

    /// Rows of this block, in the given order.
    ///
    /// # Panics
    /// If a row is not there.
    pub(crate) fn gathered(&self, order: &[u32]) -> Rows<T> {
        let mut out = Rows::new(self.layout(), self.dim());
        match (self, &mut out) {
            (Rows::Dense { dim, .. }, Rows::Dense { values, .. }) if *dim > 0 => {
                values.resize(order.len() * dim, T::ZERO);
                let rows = values.par_chunks_mut(dim * ROWS_A_TASK).zip(order.par_chunks(ROWS_A_TASK));
                rows.for_each(|(to, order)| {
                    let places = to.chunks_exact_mut(*dim).zip(order);
                    places.for_each(|(to, &i)| to.copy_from_slice(self.dense_rows(i as usize..i as usize + 1)));
                });
            }
            (_, out) => self.gather_into(order, out),
        }
        out
    }

    /// All rows of some blocks, one block after the other, by many threads: memory that is fresh comes page by page.
    pub(crate) fn together(layout: Layout, dim: usize, blocks: &[Rows<T>]) -> Rows<T> {
        let mut out = Rows::new(layout, dim);
        match &mut out {
            Rows::Dense { values, .. } => *values = joined(blocks, |block| block.as_dense().unwrap_or_default()),
            Rows::Sparse { indptr, index, value, .. } => {
                for (ends, ..) in blocks.iter().filter_map(Rows::as_sparse) {
                    let before = indptr[indptr.len() - 1];
                    indptr.extend(ends[1..].iter().map(|end| before + end));
                }
                *index = joined(blocks, |block| block.as_sparse().map_or(&[], |(_, index, _)| index));
                *value = joined(blocks, |block| block.as_sparse().map_or(&[], |(_, _, value)| value));
            }
        }
        out
    }

    /// Add the rows of another block of the same layout and width behind those that are there.
    pub(crate) fn append(&mut self, other: &Rows<T>) {
        match (self, other) {
            (Rows::Dense { values, .. }, Rows::Dense { values: more, .. }) => values.extend_from_slice(more),
            (
                Rows::Sparse { indptr, index, value, .. },
                Rows::Sparse { indptr: ends, index: columns, value: more, .. },
            ) => {
                let before = index.len();
                index.extend_from_slice(columns);
                value.extend_from_slice(more);
                indptr.extend(ends[1..].iter().map(|end| before + end));
            }
            (rows, other) => (0..other.len()).for_each(|i| rows.push(other.row(i))),
        }
    }

    /// The same rows in the given layout; free of charge where they have it already.
    pub fn convert_into(self, layout: Layout) -> Rows<T> {
        if self.layout() == layout {
            return self;
        }
        let mut out = Rows::new(layout, self.dim());
        for i in 0..self.len() {
            out.push(self.row(i));
        }
        out
    }

    /// The same rows, dense.
    pub fn into_dense(self) -> Rows<T> {
        self.convert_into(Layout::Dense)
    }

    /// The same rows, sparse.
    pub fn into_sparse(self) -> Rows<T> {
        self.convert_into(Layout::Sparse)
    }
}

/// One precision to the other; nothing at all where they are the same.
fn convert<S: Real, T: Real>(value: S) -> T {
    T::from_f64(value.to_f64())
}

/// What blocks have of something, one block after the other.
fn joined<T: Real, V: Copy + Default + Send + Sync>(blocks: &[Rows<T>], of: impl Fn(&Rows<T>) -> &[V]) -> Vec<V> {
    let parts: Vec<&[V]> = blocks.iter().map(of).collect();
    // Zeros that nobody has written yet.
    let mut all = vec![V::default(); parts.iter().map(|part| part.len()).sum()];
    let (mut tasks, mut rest) = (Vec::with_capacity(parts.len()), &mut all[..]);
    for part in parts {
        let (to, behind) = rest.split_at_mut(part.len());
        tasks.push((part, to));
        rest = behind;
    }
    tasks.into_par_iter().with_max_len(1).for_each(|(part, to)| to.copy_from_slice(part));
    all
}

fn is_zero<T: Real>(value: T) -> bool {
    value.to_f64() == 0.0
}

#[cfg(test)]
mod tests {
    use super::*;

    const VALUES: [f64; 9] = [1.0, 0.0, 2.0, 0.0, 0.0, 0.0, 0.0, 3.0, -4.0];

    fn dense() -> Rows<f64> {
        let mut rows = Rows::dense(3);
        rows.push_dense(&VALUES);
        rows
    }

    #[test]
    fn layouts_convert_into_each_other() {
        let sparse = dense().into_sparse();
        assert_eq!(sparse.len(), 3);
        assert_eq!(sparse.row(1), RowRef::Sparse(&[], &[]));
        assert_eq!(sparse.row(2), RowRef::Sparse(&[1, 2], &[3.0, -4.0]));
        assert_eq!(sparse.into_dense(), dense());
    }

    #[test]
    fn gather_follows_the_order() {
        let mut out = Rows::sparse(3);
        dense().gather_into(&[2, 0, 2], &mut out);
        assert_eq!(out.into_dense().as_dense(), Some(&[0.0, 3.0, -4.0, 1.0, 0.0, 2.0, 0.0, 3.0, -4.0][..]));
    }

    #[test]
    fn clear_keeps_the_memory() {
        for mut rows in [dense(), dense().into_sparse()] {
            let bytes = rows.resident_bytes();
            rows.clear();
            assert!(rows.is_empty());
            assert_eq!(rows.resident_bytes(), bytes);
            rows.push_sparse(&[1], &[5.0f32]);
            assert_eq!(rows.len(), 1);
        }
    }

    #[test]
    fn precisions_mix() {
        let mut rows = Rows::<f32>::dense(2);
        rows.push_dense(&[0.1f64, 2.0]);
        rows.push_sparse(&[1], &[0.5f64]);
        assert_eq!(rows.as_dense(), Some(&[0.1f32, 2.0, 0.0, 0.5][..]));
    }
}
