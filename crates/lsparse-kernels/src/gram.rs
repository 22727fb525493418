//! Weighted sums of outer products: the second moments of full-covariance Gaussians.

use std::hint::black_box;

use crate::real::Real;
use crate::reduce::CHUNK;
use crate::simd::{Kernel, Vector};

/// `out += sum_m weights[m] * x_m x_m^T`, the lower triangle packed row by row: entry `(i, j)` with
/// `j <= i` at `i * (i + 1) / 2 + j`.
///
/// Summed in `T` over a few rows at a time (256 in `f64`, 32 in `f32`), then in `f64`. Directions
/// without variance, which mean-removed patches have, must not get one by rounding, nor a negative
/// one, even where the statistics of a sample are scaled up to millions of rows: 256 rows in `f32`
/// were too many. `scratch` is resized as needed and may be shared between calls of all kinds.
///
/// # Panics
/// If `dim` is zero or the lengths do not fit.
pub fn weighted_gram<T: Real>(rows: &[T], weights: &[T], dim: usize, scratch: &mut Vec<T>, out: &mut [f64]) {
    assert!(dim > 0, "dim must be positive");
    assert_eq!(Some(rows.len()), weights.len().checked_mul(dim), "one weight a row of dim entries");
    assert_eq!(out.len(), dim * (dim + 1) / 2, "out must hold a packed triangle");
    // Both copies are padded, by less than MAX_PAD a row.
    let size = 2 * rows_at_once::<T>().min(weights.len()) * (dim + MAX_PAD);
    if scratch.len() < size {
        scratch.resize(size, T::ZERO);
    }
    T::weighted_gram(WeightedGram { rows, weights, dim, scratch, out });
}

/// Rows that are summed in `T`.
const fn rows_at_once<T>() -> usize {
    if size_of::<T>() < size_of::<f64>() { CHUNK / 8 } else { CHUNK }
}

/// The most that rows are padded to a multiple of.
const MAX_PAD: usize = 16;

/// Arguments of [`weighted_gram`], lengths checked.
pub struct WeightedGram<'a, T> {
    rows: &'a [T],
    weights: &'a [T],
    dim: usize,
    scratch: &'a mut [T],
    out: &'a mut [f64],
}

impl<T: Real> Kernel<T> for WeightedGram<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector<Elem = T>>(self) {
        // Accumulators, vectors and a broadcast scalar fit the registers.
        if V::REGISTERS >= 32 {
            self.chunks::<V, 8, 3>();
        } else {
            self.chunks::<V, 6, 2>();
        }
    }
}

impl<T: Real> WeightedGram<'_, T> {
    /// Tiles of `C` rows and up to `R` vectors of columns of the sum.
    #[inline(always)]
    fn chunks<V: Vector<Elem = T>, const C: usize, const R: usize>(self) {
        const { assert!(V::LANES <= MAX_PAD && C <= MAX_PAD) };
        let dim = self.dim;
        let (scaled_stride, stride) = (dim.next_multiple_of(C), dim.next_multiple_of(V::LANES));
        let at_once = rows_at_once::<T>();
        let row_chunks = self.rows.chunks(at_once * dim);
        for (rows, weights) in row_chunks.zip(self.weights.chunks(at_once)) {
            let num = weights.len();
            let (scaled, padded) = self.scratch.split_at_mut(num * scaled_stride);
            scale_rows(rows, weights, dim, scaled_stride, scaled);
            // Vectors may reach beyond the end of a row only if rows are padded.
            let plain = if stride == dim {
                rows
            } else {
                pad_rows(rows, dim, stride, padded);
                &padded[..num * stride]
            };
            for i0 in (0..dim).step_by(C) {
                // Only vectors that reach to or below the diagonal.
                let vectors = (dim.min(i0 + C) - 1) / V::LANES + 1;
                let mut v = 0;
                while v < vectors {
                    let j0 = v * V::LANES;
                    let tile = Tile { num, scaled, scaled_stride, plain, stride, i0, j0 };
                    // Four are better taken as two and two than as three and one.
                    let left = vectors - v;
                    if left >= 3 && left != 4 && R >= 3 {
                        tile.add::<V, C, 3>(dim, self.out);
                        v += 3;
                    } else if left >= 2 {
                        tile.add::<V, C, 2>(dim, self.out);
                        v += 2;
                    } else {
                        tile.add::<V, C, 1>(dim, self.out);
                        v += 1;
                    }
                }
            }
        }
    }
}

/// `w_m x_m`, padded with zeros.
#[inline(always)]
fn scale_rows<T: Real>(rows: &[T], weights: &[T], dim: usize, stride: usize, scaled: &mut [T]) {
    let pairs = rows.chunks_exact(dim).zip(scaled.chunks_exact_mut(stride));
    for ((row, to), &w) in pairs.zip(weights) {
        for (to, &x) in to.iter_mut().zip(row) {
            *to = w * x;
        }
        to[dim..].fill(T::ZERO);
    }
}

/// `x_m`, padded with zeros.
#[inline(always)]
fn pad_rows<T: Real>(rows: &[T], dim: usize, stride: usize, padded: &mut [T]) {
    for (row, to) in rows.chunks_exact(dim).zip(padded.chunks_exact_mut(stride)) {
        to[..dim].copy_from_slice(row);
        to[dim..].fill(T::ZERO);
    }
}

/// A tile of the sum: rows from `i0` on, columns from `j0` on.
struct Tile<'a, T> {
    /// Rows that are summed over.
    num: usize,
    scaled: &'a [T],
    scaled_stride: usize,
    plain: &'a [T],
    stride: usize,
    i0: usize,
    j0: usize,
}

impl<T: Real> Tile<'_, T> {
    /// Adds `C` rows times `R` vectors of columns to the totals.
    #[inline(always)]
    fn add<V: Vector<Elem = T>, const C: usize, const R: usize>(&self, dim: usize, out: &mut [f64]) {
        let mut acc = [[V::splat(T::ZERO); R]; C];
        assert!(self.scaled.len() == self.num * self.scaled_stride);
        assert!(self.plain.len() == self.num * self.stride);
        assert!(self.i0 + C <= self.scaled_stride && self.j0 + R * V::LANES <= self.stride);
        // SAFETY: both buffers have `num` rows of their strides, and the tile is within a row.
        unsafe {
            let mut a = self.scaled.as_ptr().add(self.i0);
            let mut b = self.plain.as_ptr().add(self.j0);
            for _ in 0..self.num {
                let mut x = [V::splat(T::ZERO); R];
                for r in 0..R {
                    x[r] = V::load(b.add(r * V::LANES));
                }
                for c in 0..C {
                    let wx = V::splat(*a.add(c));
                    for r in 0..R {
                        acc[c][r] = wx.fma(x[r], acc[c][r]);
                    }
                }
                // Behind the last row these may point beyond the buffer, where nothing is read.
                a = a.wrapping_add(self.scaled_stride);
                b = b.wrapping_add(self.stride);
            }
        }
        // The rows and vectors below depend on the diagonal. Without the barrier the accumulators
        // would be kept in memory for that, also in the loop above.
        let sums = black_box(acc);
        for (i, sums) in (self.i0..dim).zip(&sums) {
            let start = i * (i + 1) / 2;
            for (j, sum) in (self.j0..=i).step_by(V::LANES).zip(sums) {
                let totals = &mut out[start + j..start + i + 1];
                // SAFETY: no more lanes are added than there are totals.
                unsafe { sum.add_to(totals.as_mut_ptr(), totals.len()) };
            }
        }
    }
}
