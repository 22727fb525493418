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

/// `first += sum_m weights[m] * y_m` over the rows `members` of `rows`, `dim` entries each, where y is a row less
/// `center` in `f64`; and `second += sum_m weights[m] * y_m^2`, entry by entry, unless it is empty.
///
/// The bits are those of rows that are gathered in `f64` and then summed with [`weighted_sum`] and
/// [`weighted_square_sum`], 256 at a time.
///
/// # Panics
/// If the lengths do not fit, or a member is beyond the rows.
pub fn weighted_moments<T: Real>(
    rows: &[T],
    members: &[u32],
    weights: &[T],
    center: &[f64],
    first: &mut [f64],
    second: &mut [f64],
) {
    let dim = center.len();
    assert!(dim > 0, "dim must be positive");
    assert_eq!(members.len(), weights.len(), "one weight a member");
    assert_eq!(first.len(), dim, "first must hold dim entries");
    assert!(second.is_empty() || second.len() == dim, "second must hold dim entries or none");
    let largest = members.iter().fold(0, |largest, &m| largest.max(m));
    assert!(members.is_empty() || (largest as usize) < rows.len() / dim, "row {largest} of {}", rows.len() / dim);
    T::weighted_moments(WeightedMoments { rows, members, weights, center, first, second });
}

/// Arguments of [`weighted_moments`], lengths and members checked.
pub struct WeightedMoments<'a, T> {
    rows: &'a [T],
    members: &'a [u32],
    weights: &'a [T],
    center: &'a [f64],
    first: &'a mut [f64],
    second: &'a mut [f64],
}

impl<T: Real> Kernel<f64> for WeightedMoments<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector<Elem = f64>>(mut self) {
        if self.second.is_empty() {
            self.columns::<V, false>();
        } else {
            self.columns::<V, true>();
        }
    }
}

impl<T: Real> WeightedMoments<'_, T> {
    #[inline(always)]
    fn columns<V: Vector<Elem = f64>, const SECOND: bool>(&mut self) {
        const N: usize = 4;
        let (members, weights, dim) = (self.members, self.weights, self.center.len());
        for (members, weights) in members.chunks(CHUNK).zip(weights.chunks(CHUNK)) {
            let mut start = 0;
            while start < dim {
                // As few blocks as there can be, of about the same size: a lone vector waits for its own additions.
                let vectors = (dim - start).div_ceil(V::LANES);
                let vectors = vectors.div_ceil(vectors.div_ceil(N));
                let width = (vectors * V::LANES).min(dim - start);
                // SAFETY: `width` columns from `start` on are within each row, and fill so many vectors but for the last.
                unsafe {
                    match vectors {
                        1 if dim < V::LANES => self.block::<V, 1, SECOND, false>(members, weights, start, width),
                        1 => self.block::<V, 1, SECOND, true>(members, weights, start, width),
                        2 => self.block::<V, 2, SECOND, true>(members, weights, start, width),
                        3 => self.block::<V, 3, SECOND, true>(members, weights, start, width),
                        _ => self.block::<V, N, SECOND, true>(members, weights, start, width),
                    }
                }
                start += width;
            }
        }
    }

    /// # Safety
    /// `members` must be rows, columns `start..start + width` exist, and `width` be at most `N * LANES`, and more than one
    /// vector less; and if `WHOLE`, a row must have `LANES` columns, else `start` be zero.
    #[inline(always)]
    unsafe fn block<V: Vector<Elem = f64>, const N: usize, const SECOND: bool, const WHOLE: bool>(
        &mut self,
        members: &[u32],
        weights: &[T],
        start: usize,
        width: usize,
    ) {
        let zero = V::splat(0.0);
        let (mut first, mut second, mut center) = ([zero; N], [zero; N], [zero; N]);
        // The last vector ends where the columns do, so that it is read whole; what it has of columns before is not added.
        let last = (start + width).saturating_sub(V::LANES);
        let place = |n: usize| if n + 1 < N { start + n * V::LANES } else { last };
        let count = if WHOLE { V::LANES } else { width };
        for n in 0..N {
            // SAFETY: no more is read than there is.
            center[n] = unsafe { V::load_upto(self.center.as_ptr().add(place(n)), count, zero) };
        }
        for (&m, &w) in members.iter().zip(weights) {
            // SAFETY: the caller's promise.
            let row = unsafe { self.rows.as_ptr().add(m as usize * self.center.len()) };
            let w = V::splat(w.to_f64());
            for n in 0..N {
                // SAFETY: as above.
                let y = unsafe { widened::<T, V>(row.add(place(n)), count) }.sub(center[n]);
                first[n] = w.fma(y, first[n]);
                if SECOND {
                    second[n] = w.mul(y).fma(y, second[n]);
                }
            }
        }
        for n in 0..N {
            let (from, place) = (start + n * V::LANES, place(n));
            add_lanes(first[n], &mut self.first[place..place + count], from - place);
            if SECOND {
                add_lanes(second[n], &mut self.second[place..place + count], from - place);
            }
        }
    }
}

/// `totals[i] += lane i`, but for the first `skip`.
#[inline(always)]
fn add_lanes<V: Vector<Elem = f64>>(vector: V, totals: &mut [f64], skip: usize) {
    let mut lanes = [0.0; 16];
    const { assert!(V::LANES <= 16) };
    // SAFETY: no vector has more than 16 lanes.
    unsafe { vector.store(lanes.as_mut_ptr()) };
    totals.iter_mut().zip(&lanes).skip(skip).for_each(|(total, lane)| *total += lane);
}

/// The first `count` numbers as lanes if there are fewer than `LANES`, else all; zero behind them.
///
/// # Safety
/// `min(count, LANES)` numbers must be readable at `from`.
#[inline(always)]
unsafe fn widened<T: Real, V: Vector<Elem = f64>>(from: *const T, count: usize) -> V {
    let mut lanes = [0.0; 16];
    const { assert!(V::LANES <= 16) };
    // SAFETY: the caller's promise; no vector has more than 16 lanes.
    unsafe {
        if count >= V::LANES {
            for i in 0..V::LANES {
                lanes[i] = from.add(i).read().to_f64();
            }
        } else {
            for i in 0..count {
                lanes[i] = from.add(i).read().to_f64();
            }
        }
        V::load(lanes.as_ptr())
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
