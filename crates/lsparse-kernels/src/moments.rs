//! Running means and spreads of columns, a row after the other (Welford).

use crate::simd::{Kernel, Vector, dispatch};

/// Moments of columns that rows are added to, one entry a column each.
pub struct RunningMoments<'a> {
    /// Means of the rows so far.
    pub mean: &'a mut [f64],
    /// Sums of squared distances from them.
    pub spread: &'a mut [f64],
    /// Sums of squares.
    pub squares: &'a mut [f64],
    /// Largest absolute values.
    pub largest: &'a mut [f64],
}

/// The moments of the first rows, none of which was added before, and how many of their entries are not zero. Entries must
/// be numbers. No operation is fused, so that the bits are the same at every level.
///
/// # Panics
/// If the lengths do not fit.
pub fn running_moments(rows: &[f64], moments: RunningMoments<'_>) -> u64 {
    let dim = moments.mean.len();
    assert!(dim > 0 && rows.len().is_multiple_of(dim), "rows must hold dim entries each");
    let RunningMoments { spread, squares, largest, .. } = &moments;
    assert!([spread.len(), squares.len(), largest.len()] == [dim; 3], "one entry a column each");
    dispatch::<f64, _>(AddRows { rows, moments })
}

struct AddRows<'a> {
    rows: &'a [f64],
    moments: RunningMoments<'a>,
}

impl Kernel<f64> for AddRows<'_> {
    type Output = u64;

    #[inline(always)]
    fn run<V: Vector<Elem = f64>>(mut self) -> u64 {
        let (mut start, mut nonzeros) = (0, 0);
        while start < self.moments.mean.len() {
            let left = self.moments.mean.len() - start;
            let vectors = left.div_ceil(V::LANES);
            // SAFETY: so many vectors of columns are left, but for what the last lacks.
            nonzeros += unsafe {
                match vectors {
                    1 => self.block::<V, 1>(start, left),
                    2 | 3 => self.block::<V, 2>(start, left.min(2 * V::LANES)),
                    _ => self.block::<V, 4>(start, left.min(4 * V::LANES)),
                }
            };
            start += V::LANES * if vectors == 1 { 1 } else { (vectors & !1).min(4) };
        }
        nonzeros
    }
}

impl AddRows<'_> {
    /// # Safety
    /// Columns `start..start + width` must exist, and `width` be at most `N` vectors, and more than one vector less.
    #[inline(always)]
    unsafe fn block<V: Vector<Elem = f64>, const N: usize>(&mut self, start: usize, width: usize) -> u64 {
        let RunningMoments { mean: means, spread: spreads, squares: sums, largest: most } = &mut self.moments;
        let (dim, zero, mut zeros) = (means.len(), V::splat(0.0), 0);
        // SAFETY: no more lanes are read or written than there are columns, here and below.
        let load = |from: &[f64], n: usize| unsafe {
            V::load_upto(from.as_ptr().add(start + n * V::LANES), width - n * V::LANES, zero)
        };
        let (mut mean, mut spread, mut squares, mut largest) = ([zero; N], [zero; N], [zero; N], [zero; N]);
        for n in 0..N {
            (mean[n], spread[n]) = (load(means, n), load(spreads, n));
            (squares[n], largest[n]) = (load(sums, n), load(most, n));
        }
        let num_rows = self.rows.len() / dim;
        for (i, row) in self.rows.chunks_exact(dim).enumerate() {
            let share = V::splat(1.0 / (i + 1) as f64);
            for n in 0..N {
                let x = load(row, n);
                let distance = x.sub(mean[n]);
                mean[n] = mean[n].add(distance.mul(share));
                spread[n] = spread[n].add(distance.mul(x.sub(mean[n])));
                squares[n] = squares[n].add(x.mul(x));
                largest[n] = x.max(zero.sub(x)).max(largest[n]);
                zeros += u64::from(V::bits(x.eq(zero)).count_ones());
            }
        }
        for n in 0..N {
            let all = [
                (mean[n], &mut *means),
                (spread[n], &mut *spreads),
                (squares[n], &mut *sums),
                (largest[n], &mut *most),
            ];
            for (vector, to) in all {
                let to = &mut to[start + n * V::LANES..start + width];
                // SAFETY: as above.
                unsafe {
                    match to.len() < V::LANES {
                        true => vector.store_part(to.as_mut_ptr(), to.len()),
                        false => vector.store(to.as_mut_ptr()),
                    }
                }
            }
        }
        // Lanes behind the last column are zero, and were counted so.
        (num_rows * N * V::LANES) as u64 - zeros
    }
}
