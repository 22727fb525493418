//! Sums over rows and entries in a fixed order: weighted first and second moments, dot products.

use crate::real::Real;
use crate::simd::{Kernel, Vector, dispatch};

/// Rows summed in the element type before the sum is added to the `f64` totals.
pub(crate) const CHUNK: usize = 256;

/// `out += sum_m weights[m] * x_m`, with `dim` entries a row of `rows`.
///
/// Summed in `T` over at most 256 rows at a time, then in `f64`.
///
/// # Panics
/// If the lengths do not fit.
pub fn weighted_sum<T: Real>(rows: &[T], weights: &[T], dim: usize, out: &mut [f64]) {
    check(rows, weights, dim, out);
    T::weighted_sum(WeightedSum { rows, weights, dim, square: false, out });
}

/// `out += sum_m weights[m] * x_m^2`, entry by entry, with `dim` entries a row of `rows`.
///
/// Summed in `T` over at most 256 rows at a time, then in `f64`.
///
/// # Panics
/// If the lengths do not fit.
pub fn weighted_square_sum<T: Real>(rows: &[T], weights: &[T], dim: usize, out: &mut [f64]) {
    check(rows, weights, dim, out);
    T::weighted_sum(WeightedSum { rows, weights, dim, square: true, out });
}

fn check<T>(rows: &[T], weights: &[T], dim: usize, out: &[f64]) {
    assert_eq!(Some(rows.len()), weights.len().checked_mul(dim), "one weight a row of dim entries");
    assert_eq!(out.len(), dim, "out must hold dim entries");
}

/// Arguments of [`weighted_sum`] and [`weighted_square_sum`], lengths checked.
pub struct WeightedSum<'a, T> {
    rows: &'a [T],
    weights: &'a [T],
    dim: usize,
    square: bool,
    out: &'a mut [f64],
}

impl<T: Real> Kernel<T> for WeightedSum<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector<Elem = T>>(mut self) {
        if self.dim == 0 {
            return;
        }
        if self.square {
            self.columns::<V, true>();
        } else {
            self.columns::<V, false>();
        }
    }
}

impl<T: Real> WeightedSum<'_, T> {
    #[inline(always)]
    fn columns<V: Vector<Elem = T>, const SQUARE: bool>(&mut self) {
        const N: usize = 4;
        let chunks = self.rows.chunks(CHUNK * self.dim);
        for (rows, weights) in chunks.zip(self.weights.chunks(CHUNK)) {
            let mut start = 0;
            while start + N * V::LANES <= self.dim {
                // SAFETY: N vectors of columns from `start` on are within each row.
                unsafe { self.block::<V, N, SQUARE>(rows, weights, start, N * V::LANES) };
                start += N * V::LANES;
            }
            while start < self.dim {
                let width = V::LANES.min(self.dim - start);
                // SAFETY: `width` columns from `start` on are within each row.
                unsafe { self.block::<V, 1, SQUARE>(rows, weights, start, width) };
                start += width;
            }
        }
    }

    /// # Safety
    /// Columns `start..start + width` must exist, and `width` be `N * LANES`, or less if `N` is 1.
    #[inline(always)]
    unsafe fn block<V: Vector<Elem = T>, const N: usize, const SQUARE: bool>(
        &mut self,
        rows: &[T],
        weights: &[T],
        start: usize,
        width: usize,
    ) {
        let zero = V::splat(T::ZERO);
        let mut acc = [zero; N];
        for (row, &w) in rows.chunks_exact(self.dim).zip(weights) {
            let w = V::splat(w);
            for n in 0..N {
                let offset = n * V::LANES;
                // SAFETY: the caller's promise.
                let x = unsafe { V::load_upto(row.as_ptr().add(start + offset), width - offset, zero) };
                let wx = w.mul(x);
                acc[n] = if SQUARE { wx.fma(x, acc[n]) } else { w.fma(x, acc[n]) };
            }
        }
        for n in 0..N {
            let totals = &mut self.out[start + n * V::LANES..start + width];
            // SAFETY: no more lanes are added than there are totals.
            unsafe { acc[n].add_to(totals.as_mut_ptr(), totals.len()) };
        }
    }
}

/// The dot product of two slices of the same length, summed in an order that only depends on the
/// length and the level.
///
/// # Panics
/// If the lengths differ.
pub fn dot_f64(a: &[f64], b: &[f64]) -> f64 {
    assert_eq!(a.len(), b.len(), "a dot product needs equal lengths");
    dispatch::<f64, _>(Dot { a, b })
}

struct Dot<'a> {
    a: &'a [f64],
    b: &'a [f64],
}

impl Kernel<f64> for Dot<'_> {
    type Output = f64;

    #[inline(always)]
    fn run<V: Vector<Elem = f64>>(self) -> f64 {
        const N: usize = 4;
        let zero = V::splat(0.0);
        let (a, b, len) = (self.a.as_ptr(), self.b.as_ptr(), self.a.len());
        let mut acc = [zero; N];
        let mut i = 0;
        // SAFETY: both slices have `len` entries, and no more than `len - i` are read at `i`.
        unsafe {
            while i + N * V::LANES <= len {
                for n in 0..N {
                    let at = i + n * V::LANES;
                    acc[n] = V::load(a.add(at)).fma(V::load(b.add(at)), acc[n]);
                }
                i += N * V::LANES;
            }
            let mut n = 0;
            while i < len {
                let x = V::load_upto(a.add(i), len - i, zero);
                let y = V::load_upto(b.add(i), len - i, zero);
                acc[n] = x.fma(y, acc[n]);
                n += 1;
                i += V::LANES;
            }
        }
        acc[0].add(acc[1]).add(acc[2].add(acc[3])).sum()
    }
}
