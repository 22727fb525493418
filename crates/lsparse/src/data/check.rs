//! Look at every value once: refuse what cannot be fitted, and measure the columns on the way.

use std::ops::Range;

use lsparse_kernels::{RunningMoments, running_moments};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::backend::with_buffers;
use crate::error::{Error, Result};

use super::{Element, Measuring, RowRef, RowSource, Rows, natural_layout};

/// Values in a block of dense rows.
const BLOCK_VALUES: usize = 1 << 17;

/// Blocks that are in memory at once, at most.
const BLOCKS_AT_ONCE: usize = 32;

/// Columns, counted over all blocks, that are in memory at once.
const COLUMNS_AT_ONCE: usize = 1 << 23;

/// Refuses values for reasons of its own, given row, column (from 0) and value.
pub type ValueCheck<'a> = dyn Fn(usize, usize, f64) -> Result<()> + Sync + 'a;

/// Column by column measures of a set of rows.
#[derive(Clone, Debug, PartialEq)]
pub struct Moments {
    /// Rows.
    pub count: usize,
    /// The mean of each column.
    pub mean: Vec<f64>,
    /// The mean squared distance of each column from its mean.
    pub variance: Vec<f64>,
    /// The mean square of each column.
    pub second_moment: Vec<f64>,
    /// The size of the largest value of each column.
    pub largest: Vec<f64>,
    /// Rows that have each column: all, but for missing values.
    pub present: Vec<usize>,
    /// Values that are not zero.
    pub nonzeros: u64,
}

impl Moments {
    /// Moments of so many columns with nothing known of them: mean 0, variance 1.
    pub fn unknown(dim: usize) -> Self {
        Moments {
            count: 0,
            mean: vec![0.0; dim],
            variance: vec![1.0; dim],
            second_moment: vec![1.0; dim],
            largest: vec![1.0; dim],
            present: vec![0; dim],
            nonzeros: 0,
        }
    }
}

/// Read all rows once, check every value, and give the moments of the columns.
///
/// A value must be finite, and its square must fit into the `target` precision. `check` may refuse
/// it for further reasons; of sparse rows it sees only what is stored. The first error in the order of the rows is the one returned. Blocks are fixed and
/// merged in order, so the result does not depend on the number of threads.
pub fn scan(source: &dyn RowSource, target: Element, check: Option<&ValueCheck<'_>>) -> Result<Moments> {
    scan_rows(source, target, false, check)
}

/// The same; where values may be `missing`, those of dense rows may be NaN, and the moments are of what is there. `check`
/// does not see them.
pub fn scan_rows(
    source: &dyn RowSource,
    target: Element,
    missing: bool,
    check: Option<&ValueCheck<'_>>,
) -> Result<Moments> {
    scan_part(source, target, missing, check).map(PartialMoments::finish)
}

/// The same of rows that are a part of the data: what other parts have is merged with it.
pub fn scan_part(
    source: &dyn RowSource,
    target: Element,
    missing: bool,
    check: Option<&ValueCheck<'_>>,
) -> Result<PartialMoments> {
    let Some(pieces) = source.pieces() else {
        return scan_stretch(source, 0..source.num_rows(), (target, missing), check);
    };
    if let Some(measured) = pieces.measure(&Measuring { target, missing, threshold: None, units: None })? {
        return Ok(measured);
    }
    let (mut total, mut start) = (PartialMoments::new(source.dim()), 0);
    for &end in pieces.ends() {
        total.merge(&scan_stretch(source, start..end, (target, missing), check)?)?;
        start = end;
    }
    Ok(total)
}

fn scan_stretch(
    source: &dyn RowSource,
    stretch: Range<usize>,
    (target, missing): (Element, bool),
    check: Option<&ValueCheck<'_>>,
) -> Result<PartialMoments> {
    let dim = source.dim();
    let block_rows = if source.is_sparse() {
        // Each block costs `dim` whatever it holds, so wide data comes in large blocks.
        dim.clamp(1024, 1 << 16)
    } else {
        (BLOCK_VALUES / dim).clamp(1, 1 << 13)
    };
    let blocks_at_once = (COLUMNS_AT_ONCE / dim).clamp(1, BLOCKS_AT_ONCE);
    let num_blocks = stretch.len().div_ceil(block_rows);
    let mut total = PartialMoments::new(dim);
    let mut first = 0;
    while first < num_blocks {
        let last = num_blocks.min(first + blocks_at_once);
        let blocks: Vec<Result<PartialMoments>> = (first..last)
            .into_par_iter()
            .map(|block| {
                let start = stretch.start + block * block_rows;
                let count = block_rows.min(stretch.end - start);
                scan_block(source, start, count, (target, missing), check)
            })
            .collect();
        for block in blocks {
            total.merge(&block?)?;
        }
        first = last;
    }
    Ok(total)
}

/// The rows of a block, in memory that a thread has for all of its blocks.
#[derive(Default)]
struct Block(Option<Rows<f64>>);

impl Block {
    fn read(&mut self, source: &dyn RowSource, start: usize, count: usize) -> Result<&Rows<f64>> {
        let (layout, dim) = (natural_layout(source), source.dim());
        let fits = |rows: &Rows<f64>| rows.layout() == layout && rows.dim() == dim;
        let held = self.0.take().filter(fits);
        let rows = self.0.insert(held.unwrap_or_else(|| Rows::new(layout, dim)));
        rows.clear();
        source.read_f64(start, count, rows)?;
        Ok(rows)
    }
}

fn scan_block(
    source: &dyn RowSource,
    start: usize,
    count: usize,
    (target, missing): (Element, bool),
    check: Option<&ValueCheck<'_>>,
) -> Result<PartialMoments> {
    with_buffers(|block: &mut Block| {
        let rows = block.read(source, start, count)?;
        measure_block(source, (start, rows), (target, missing), check)
    })
}

fn measure_block(
    source: &dyn RowSource,
    (start, rows): (usize, &Rows<f64>),
    (target, missing): (Element, bool),
    check: Option<&ValueCheck<'_>>,
) -> Result<PartialMoments> {
    let (limit, need) = match target {
        Element::F32 => (1e18, "below 1e18 in size, as f32 needs (rescale, or use f64)"),
        Element::F64 => (1e150, "below 1e150 in size (rescale)"),
    };
    let refuse = |row: usize, column: usize, value: f64| {
        let name = source.name().to_owned();
        let row = start + row;
        if value.is_finite() {
            Error::BadValue { name, row, column, value, need }
        } else {
            Error::NotFinite { name, line: None, row, column, value }
        }
    };
    // Not a number is not below the limit either.
    let fits = |value: f64| value.abs() <= limit;
    let mut block = PartialMoments::new(source.dim());
    let holed = missing && rows.as_dense().is_some_and(|values| values.iter().any(|value| value.is_nan()));
    if let Some(values) = rows.as_dense().filter(|_| check.is_none() && !holed)
        && values.iter().fold(true, |all, &value| all & fits(value))
    {
        block.add_first_rows(values);
        return Ok(block);
    }
    let mut seen = vec![0u64; if source.is_sparse() || holed { source.dim() } else { 0 }];
    for i in 0..rows.len() {
        match rows.row(i) {
            RowRef::Dense(values) if holed => {
                for (column, &value) in values.iter().enumerate().filter(|(_, value)| !value.is_nan()) {
                    if !fits(value) {
                        return Err(refuse(i, column, value));
                    }
                    if let Some(check) = check {
                        check(start + i, column, value)?;
                    }
                    seen[column] += 1;
                    block.add(column, value, 1.0 / seen[column] as f64);
                }
            }
            RowRef::Dense(values) => {
                // No early exit, so that the loop goes over many columns at once.
                if !values.iter().fold(true, |all, &value| all & fits(value)) {
                    let column = values.iter().position(|&value| !fits(value)).unwrap_or(0);
                    return Err(refuse(i, column, values[column]));
                }
                if let Some(check) = check {
                    for (column, &value) in values.iter().enumerate() {
                        check(start + i, column, value)?;
                    }
                }
                block.add_row(values, 1.0 / (i + 1) as f64);
            }
            RowRef::Sparse(index, values) => {
                for (&column, &value) in index.iter().zip(values) {
                    let column = column as usize;
                    if !fits(value) {
                        return Err(refuse(i, column, value));
                    }
                    if let Some(check) = check {
                        check(start + i, column, value)?;
                    }
                    seen[column] += 1;
                    block.add(column, value, 1.0 / seen[column] as f64);
                }
            }
        }
    }
    block.count = rows.len() as f64;
    if holed {
        block.missing.iter_mut().zip(&seen).for_each(|(missing, &seen)| *missing = block.count - seen as f64);
        return Ok(block);
    }
    for (column, &stored) in seen.iter().enumerate() {
        block.add_zeros(column, stored as f64);
    }
    Ok(block)
}

/// Means and sums of squared distances that rows can be added to (Welford) and that can be merged
/// (Chan, Golub and LeVeque), wherever the rows are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PartialMoments {
    count: f64,
    /// Rows that lack a column.
    missing: Vec<f64>,
    mean: Vec<f64>,
    spread: Vec<f64>,
    squares: Vec<f64>,
    largest: Vec<f64>,
    nonzeros: u64,
}

impl PartialMoments {
    /// Those of several parts of the data, taken together in this order.
    pub fn merged(dim: usize, parts: impl IntoIterator<Item = Self>) -> Result<Self> {
        let mut total = PartialMoments::new(dim);
        parts.into_iter().try_for_each(|part| total.merge(&part))?;
        Ok(total)
    }

    pub(crate) fn new(dim: usize) -> Self {
        let zeros = || vec![0.0; dim];
        PartialMoments {
            count: 0.0,
            missing: zeros(),
            mean: zeros(),
            spread: zeros(),
            squares: zeros(),
            largest: zeros(),
            nonzeros: 0,
        }
    }

    /// Add a value to a column; `share` is one over the values in it then.
    fn add(&mut self, column: usize, value: f64, share: f64) {
        let distance = value - self.mean[column];
        self.mean[column] += distance * share;
        self.spread[column] += distance * (value - self.mean[column]);
        self.squares[column] += value * value;
        self.largest[column] = self.largest[column].max(value.abs());
        self.nonzeros += u64::from(value != 0.0);
    }

    /// Add these rows, which are the first, to the same bits as one by one.
    fn add_first_rows(&mut self, values: &[f64]) {
        let PartialMoments { mean, spread, squares, largest, .. } = self;
        self.count = (values.len() / mean.len().max(1)) as f64;
        self.nonzeros = running_moments(values, RunningMoments { mean, spread, squares, largest });
    }

    /// Add a value to every column; `share` is one over the rows then.
    fn add_row(&mut self, values: &[f64], share: f64) {
        let columns = self.mean.iter_mut().zip(&mut self.spread).zip(&mut self.squares).zip(&mut self.largest);
        for ((((mean, spread), squares), largest), &value) in columns.zip(values) {
            let distance = value - *mean;
            *mean += distance * share;
            *spread += distance * (value - *mean);
            *squares += value * value;
            *largest = largest.max(value.abs());
        }
        self.nonzeros += values.iter().map(|&value| u64::from(value != 0.0)).sum::<u64>();
    }

    /// Fill a column that has `stored` values up to `count` with zeros.
    fn add_zeros(&mut self, column: usize, stored: f64) {
        let mean = self.mean[column];
        self.mean[column] = mean * (stored / self.count);
        self.spread[column] += mean * mean * stored * ((self.count - stored) / self.count);
    }

    /// Take up those of other rows with as many columns.
    pub fn merge(&mut self, other: &PartialMoments) -> Result<()> {
        let (model, data) = (self.mean.len(), other.mean.len());
        if model != data {
            return Err(Error::DimensionMismatch { name: "a part of the data".into(), model, data });
        }
        for column in 0..self.mean.len() {
            let (own, others) = (self.count - self.missing[column], other.count - other.missing[column]);
            let share = others / (own + others).max(1.0);
            let distance = other.mean[column] - self.mean[column];
            self.mean[column] += distance * share;
            self.spread[column] += other.spread[column] + distance * distance * own * share;
            self.squares[column] += other.squares[column];
            self.largest[column] = self.largest[column].max(other.largest[column]);
            self.missing[column] += other.missing[column];
        }
        self.count += other.count;
        self.nonzeros += other.nonzeros;
        Ok(())
    }

    /// The moments of all rows.
    pub fn finish(self) -> Moments {
        let counts = self.missing.iter().map(|missing| (self.count - missing).max(1.0));
        let average = |sums: Vec<f64>| sums.iter().zip(counts.clone()).map(|(sum, count)| sum / count).collect();
        let present = self.missing.iter().map(|missing| (self.count - missing) as usize).collect();
        Moments {
            count: self.count as usize,
            present,
            largest: self.largest,
            mean: self.mean,
            variance: average(self.spread),
            second_moment: average(self.squares),
            nonzeros: self.nonzeros,
        }
    }
}

/// Values of a column that are looked at to tell what is usual.
pub(crate) const USUAL_VALUES: usize = 2048;

/// A variance that is so many times that of all but a few values is theirs alone.
pub(crate) const FAR: f64 = 1000.0;

impl Moments {
    /// The same with mean and variance of what is usual in columns whose variance a few far values make up: what is
    /// measured in units of such a variance would take all other values for one. Of sparse rows nothing changes.
    pub fn without_far_values(mut self, source: &dyn RowSource) -> Result<Self> {
        const RUNS: usize = 64;
        let (dim, num_rows) = (source.dim(), source.num_rows());
        if source.is_sparse() || num_rows == 0 {
            return Ok(self);
        }
        // Runs of rows from all over the source.
        let run_at = |run: usize| {
            let first = (num_rows - USUAL_VALUES / RUNS) as u128 * run as u128 / (RUNS - 1) as u128;
            first as usize..first as usize + USUAL_VALUES / RUNS
        };
        let runs: Vec<Range<usize>> = match num_rows <= USUAL_VALUES {
            true => std::iter::once(0..num_rows).collect(),
            false => (0..RUNS).map(run_at).collect(),
        };
        source.pieces().map_or(Ok(()), |pieces| pieces.bring(&runs))?;
        let mut rows = Rows::<f64>::new(natural_layout(source), dim);
        runs.into_iter().try_for_each(|run| source.read_f64(run.start, run.len(), &mut rows))?;
        let values = rows.as_dense().unwrap_or_default();
        for d in 0..dim {
            let column = values[d..].iter().step_by(dim).copied().filter(|x| !x.is_nan()).collect();
            (self.mean[d], self.variance[d]) = usual(column, self.mean[d], self.variance[d]);
        }
        Ok(self)
    }
}

/// Mean and variance of a column: as they are, or, where a few of its `values` make up nearly all of the variance, those
/// of the others.
pub(crate) fn usual(mut values: Vec<f64>, mean: f64, variance: f64) -> (f64, f64) {
    let few = values.len().div_ceil(100);
    if values.len() < 3 * few || few == 0 {
        return (mean, variance);
    }
    if is_spread_out(&values, few, mean, variance) {
        return (mean, variance);
    }
    values.select_nth_unstable_by(few, f64::total_cmp);
    let last = values.len() - 2 * few;
    let middle = &mut values[few..];
    middle.select_nth_unstable_by(last, f64::total_cmp);
    let middle = &middle[..last];
    let count = middle.len() as f64;
    let usual_mean = middle.iter().sum::<f64>() / count;
    let usual = middle.iter().map(|x| (x - usual_mean).powi(2)).sum::<f64>() / count;
    // Rounding may leave a spread where there is none.
    let is_real = usual > (1e-12 * usual_mean).powi(2);
    if is_real && variance > FAR * usual { (usual_mean, usual) } else { (mean, variance) }
}

/// Whether it is plain that values without the `few` smallest and largest spread so far that `usual` takes them as they are,
/// which counting tells for less than finding those does.
fn is_spread_out(values: &[f64], few: usize, mean: f64, variance: f64) -> bool {
    // Of the values that lie this far or farther below and above, those beyond the few are of the middle, and so many on
    // either side of a gap spread at least as far as if they all lay at its edges.
    let far = 0.125 * variance.sqrt();
    let below = values.iter().filter(|&&x| x <= mean - far).count().saturating_sub(few) as f64;
    let above = values.iter().filter(|&&x| x >= mean + far).count().saturating_sub(few) as f64;
    let spread = below * above / (below + above) * (2.0 * far).powi(2);
    // Twice as much, so that rounding does not matter.
    2.0 * variance * values.len() as f64 <= FAR * spread
}

#[cfg(test)]
mod tests {
    use super::super::{CsrRows, MemoryRows};
    use super::*;

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() <= 1e-9 * b.abs().max(1e-3)
    }

    /// What is told by counting is what finding the few says.
    #[test]
    fn values_that_are_plainly_spread_out_are_taken_as_they_are() {
        let mut told = [0, 0];
        for far in [0.0, 1.0, 30.0, 1e3, 1e5] {
            for kind in 0..4 {
                let value = |i: usize| match kind {
                    0 => ((i * 7919) % 1000) as f64 / 1000.0,
                    1 => (((i * 7919) % 1000) as f64 / 250.0 - 2.0).powi(5),
                    2 => f64::from(u8::from(i.is_multiple_of(40))),
                    _ => 3.0,
                };
                let values: Vec<f64> = (0..2000).map(|i| if i % 300 == 0 { far } else { value(i) }).collect();
                let mean = values.iter().sum::<f64>() / 2000.0;
                let variance = values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / 2000.0;
                let mut sorted = values.clone();
                sorted.sort_by(f64::total_cmp);
                let middle = &sorted[20..1980];
                let center = middle.iter().sum::<f64>() / 1960.0;
                let spread = middle.iter().map(|x| (x - center).powi(2)).sum::<f64>() / 1960.0;
                let is_plain = is_spread_out(&values, 20, mean, variance);
                assert!(!is_plain || variance <= FAR * spread, "{kind} {far}: {variance} and {spread}");
                assert_eq!(usual(values, mean, variance).1 == variance, variance <= FAR * spread || spread <= 1e-20);
                told[usize::from(is_plain)] += 1;
            }
        }
        assert!(told[0] > 4 && told[1] > 4, "{told:?}");
    }

    #[test]
    fn moments_agree_with_two_passes() {
        // Far from zero, where sums of squares alone would lose all digits.
        let n = 30_000;
        let values: Vec<f64> = (0..3 * n).map(|i| 1e6 + ((i * 7919) % 1000) as f64 / 1000.0).collect();
        let source = MemoryRows::new("x", 3, values.clone()).unwrap();
        let moments = scan(&source, Element::F64, None).unwrap();
        assert_eq!((moments.count, moments.nonzeros), (n, 3 * n as u64));
        for column in 0..3 {
            let column_values = || values.iter().skip(column).step_by(3);
            let mean = 1e6 + column_values().map(|v| v - 1e6).sum::<f64>() / n as f64;
            let variance = column_values().map(|v| (v - mean).powi(2)).sum::<f64>() / n as f64;
            assert!(close(moments.mean[column], mean));
            assert!(close(moments.variance[column], variance));
            assert!(close(moments.second_moment[column], mean * mean + variance));
        }
    }

    #[test]
    fn parts_of_the_data_merge_to_the_whole() {
        let n = 20_000;
        let mut values: Vec<f64> = (0..3 * n).map(|i| 50.0 + ((i * 7919) % 1000) as f64 / 10.0).collect();
        values.iter_mut().step_by(11).for_each(|v| *v = f64::NAN);
        let part = |from: usize, to: usize| {
            let source = MemoryRows::new("x", 3, values[3 * from..3 * to].to_vec()).unwrap();
            let bytes = postcard::to_stdvec(&scan_part(&source, Element::F64, true, None).unwrap()).unwrap();
            postcard::from_bytes::<PartialMoments>(&bytes).unwrap()
        };
        let mut merged = part(0, 7);
        [(7, 9000), (9000, n)].iter().for_each(|&(from, to)| merged.merge(&part(from, to)).unwrap());
        let (merged, whole) = (merged.finish(), part(0, n).finish());
        assert_eq!((merged.count, merged.nonzeros), (whole.count, whole.nonzeros));
        for (a, b) in [(&merged.mean, &whole.mean), (&merged.variance, &whole.variance)] {
            assert!(a.iter().zip(b).all(|(a, b)| close(*a, *b)), "{a:?} and {b:?}");
        }
        let narrow = MemoryRows::new("y", 1, vec![1.0; 4]).unwrap();
        assert!(part(0, 5).merge(&scan_part(&narrow, Element::F64, true, None).unwrap()).is_err());
    }

    #[test]
    fn sparse_and_dense_agree() {
        let (n, dim) = (5000, 7);
        let values: Vec<f64> = (0..n * dim).map(|i| if i % 3 == 0 { (i % 11) as f64 } else { 0.0 }).collect();
        let dense = MemoryRows::new("x", dim, values.clone()).unwrap();
        let mut rows = Rows::<f64>::sparse(dim);
        rows.push_dense(&values);
        let (indptr, index, value) = rows.as_sparse().unwrap();
        let sparse = CsrRows::new("x", dim, indptr.to_vec(), index.to_vec(), value.to_vec()).unwrap();
        let a = scan(&dense, Element::F32, None).unwrap();
        let b = scan(&sparse, Element::F32, None).unwrap();
        assert_eq!((a.count, a.nonzeros), (b.count, b.nonzeros));
        for column in 0..dim {
            assert!(close(a.mean[column], b.mean[column]));
            assert!(close(a.variance[column], b.variance[column]));
            assert!(close(a.second_moment[column], b.second_moment[column]));
        }
    }

    #[test]
    fn far_values_are_left_out_where_they_are_all_of_the_variance() {
        let column = |far: f64| -> Vec<f64> {
            (0..1000).map(|n| if n % 400 == 7 { far } else { 5.0 + f64::from(n % 10) }).collect()
        };
        let moments = |values: &[f64]| {
            let mean = values.iter().sum::<f64>() / values.len() as f64;
            (mean, values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / values.len() as f64)
        };
        let of = |far: f64| {
            let (mean, variance) = moments(&column(far));
            (usual(column(far), mean, variance), (mean, variance))
        };
        let (near, plain) = of(60.0);
        assert_eq!(near, plain);
        let (far, _) = of(1e6);
        assert!((far.0 - 9.5).abs() < 0.1 && (far.1 - 8.25).abs() < 0.5, "{far:?}");
        // A column of zeros but for a few has no other scale, and neither do a few values.
        let (sparse, few) = ([vec![0.0; 995], vec![3.0; 5]].concat(), vec![1.0, 2.0]);
        assert_eq!(usual(sparse, 0.015, 0.04), (0.015, 0.04));
        assert_eq!(usual(few, 1.5, 1e9), (1.5, 1e9));
    }

    #[test]
    fn the_first_bad_value_is_named() {
        let mut values = vec![1.0f32; 4 * 100_000];
        values[4 * 70_000 + 2] = f32::NAN;
        values[4 * 90_000] = f32::INFINITY;
        let source = MemoryRows::new("x.npy", 4, values).unwrap();
        let error = scan(&source, Element::F32, None).unwrap_err();
        assert!(error.to_string().contains("x.npy row 70001, column 3: NaN"), "{error}");
    }

    #[test]
    fn further_checks_and_sizes_are_looked_at() {
        let source = MemoryRows::new("x", 2, vec![1.0, 2.0, 3.0, -4.0]).unwrap();
        let counts = |row, column, value: f64| {
            if value >= 0.0 {
                return Ok(());
            }
            Err(Error::BadValue { name: "x".into(), row, column, value, need: "a count" })
        };
        let error = scan(&source, Element::F64, Some(&counts)).unwrap_err();
        assert!(error.to_string().contains("x row 2, column 2: -4 is not a count"), "{error}");
        let source = MemoryRows::new("x", 1, vec![1e30]).unwrap();
        assert!(scan(&source, Element::F32, None).is_err());
        assert!(scan(&source, Element::F64, None).is_ok());
    }
}
