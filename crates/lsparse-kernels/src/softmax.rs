//! Responsibilities of the selected clusters, and sums of exponentials.

use crate::elementary::{ExpLane, LnLane, exp, ln, map};
use crate::real::Real;
use crate::simd::{Kernel, Vector};

/// Turns each row of `l` log weights, largest first, into responsibilities that sum to one, and
/// `log_norm` into the logarithm of the sum of the exponentials of each row.
///
/// A row of minus infinities becomes zeros with `log_norm` minus infinity.
///
/// # Panics
/// If `l` is zero or the lengths do not fit.
pub fn softmax_rows<T: Real>(values: &mut [T], l: usize, log_norm: &mut [T]) {
    assert!(l > 0, "a row needs at least one value");
    assert_eq!(Some(values.len()), log_norm.len().checked_mul(l), "one log_norm a row of l values");
    T::softmax(Softmax { values, l, log_norm });
}

/// Turns a tile of log weights, `tile[k * T::TILE + r]` of cluster `k` for row `r`, into responsibilities that sum to one
/// over the clusters of each row; `top` receives the cluster of the largest weight, the first of equal ones, and
/// `entropy` minus the sum of r log r. The entropy of a row that has a NaN or no finite largest weight is NaN.
///
/// Rows are lanes, so that neither the largest weight nor a sum goes across them.
///
/// # Panics
/// If the lengths do not fit.
pub fn softmax_tile<T: Real>(tile: &mut [T], top: &mut [u32], entropy: &mut [T]) {
    assert_eq!(tile.len() % T::TILE, 0, "tile must hold TILE entries a cluster");
    assert!(!tile.is_empty() && tile.len() / T::TILE <= 1 << 24, "numbers of clusters travel in lanes");
    assert_eq!(top.len(), T::TILE, "top must hold TILE entries");
    assert_eq!(entropy.len(), T::TILE, "entropy must hold TILE entries");
    let mut lanes = [T::ZERO; 64];
    const { assert!(T::TILE <= 64) };
    let found = &mut lanes[..T::TILE];
    T::softmax_tile(SoftmaxTile { tile, found, entropy });
    for (top, lane) in top.iter_mut().zip(found) {
        *top = lane.to_f64() as u32;
    }
}

/// The logarithm of the sum of the exponentials; minus infinity for no values, NaN if one is NaN.
pub fn log_sum_exp<T: Real>(values: &[T]) -> f64 {
    T::log_sum_exp(LogSumExp { values })
}

/// Arguments of [`softmax_rows`], lengths checked.
pub struct Softmax<'a, T> {
    values: &'a mut [T],
    l: usize,
    log_norm: &'a mut [T],
}

impl<T: Real> Kernel<T> for Softmax<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector<Elem = T>>(self) {
        /// Rows at a time: rows are short, so the exponentials run over many rows at once.
        const ROWS: usize = 64;
        let blocks = self.values.chunks_mut(ROWS * self.l);
        for (values, log_norm) in blocks.zip(self.log_norm.chunks_mut(ROWS)) {
            for (row, norm) in values.chunks_exact_mut(self.l).zip(&mut *log_norm) {
                let largest = row[0];
                *norm = largest;
                // Minus infinity less itself is NaN; less anything finite it is itself.
                let shift = if largest > T::NEG_INFINITY { largest } else { T::ZERO };
                for value in row {
                    *value -= shift;
                }
            }
            map::<V, ExpLane>(values);
            let mut sums = [T::ONE; ROWS];
            for (row, sum) in values.chunks_exact_mut(self.l).zip(&mut sums) {
                let mut total = row[0];
                for &value in &row[1..] {
                    total += value;
                }
                *sum = total;
                let scale = if total > T::ZERO { T::ONE / total } else { T::ZERO };
                for value in row {
                    *value *= scale;
                }
            }
            let sums = &mut sums[..log_norm.len()];
            map::<V, LnLane>(sums);
            for (norm, &sum) in log_norm.iter_mut().zip(&*sums) {
                *norm += sum;
            }
        }
    }
}

/// Arguments of [`softmax_tile`], lengths checked.
pub struct SoftmaxTile<'a, T> {
    tile: &'a mut [T],
    /// `TILE` entries: numbers of clusters.
    found: &'a mut [T],
    entropy: &'a mut [T],
}

impl<T: Real> Kernel<T> for SoftmaxTile<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector<Elem = T>>(self) {
        const { assert!(T::TILE.is_multiple_of(V::LANES)) };
        let (zero, one) = (V::splat(T::ZERO), V::splat(T::ONE));
        // So low that its exponential is zero, but zero times it is not NaN.
        let lowest = V::splat(T::from_f64(-1e30));
        for r in (0..T::TILE).step_by(V::LANES) {
            let (mut best, mut found, mut number) = (V::splat(T::NEG_INFINITY), zero, zero);
            // NaN once a weight is.
            let mut poison = zero;
            for of_cluster in self.tile.chunks_exact(T::TILE) {
                // SAFETY: a cluster has TILE entries, a multiple of LANES.
                let w = unsafe { V::load(of_cluster.as_ptr().add(r)) };
                let above = w.gt(best);
                best = V::select(above, w, best);
                found = V::select(above, number, found);
                number = number.add(one);
                poison = V::select(w.unordered(w), w, poison);
            }
            let (mut sum, mut spread) = (zero, zero);
            for of_cluster in self.tile.chunks_exact_mut(T::TILE) {
                // SAFETY: as above.
                unsafe {
                    let place = of_cluster.as_mut_ptr().add(r);
                    let below = V::load(place).sub(best).max(lowest);
                    let e = exp(below);
                    sum = sum.add(e);
                    spread = e.fma(below, spread);
                    e.store(place);
                }
            }
            let scale = one.div(sum);
            for of_cluster in self.tile.chunks_exact_mut(T::TILE) {
                // SAFETY: as above.
                unsafe {
                    let place = of_cluster.as_mut_ptr().add(r);
                    V::load(place).mul(scale).store(place);
                }
            }
            // -sum r log r, with log r = W - max - log sum.
            let entropy = ln(sum).sub(spread.mul(scale)).add(poison);
            let entropy = V::select(entropy.unordered(entropy), entropy, entropy.max(zero));
            // SAFETY: both have TILE entries.
            unsafe {
                found.store(self.found.as_mut_ptr().add(r));
                entropy.store(self.entropy.as_mut_ptr().add(r));
            }
        }
    }
}

/// Arguments of [`log_sum_exp`].
pub struct LogSumExp<'a, T> {
    values: &'a [T],
}

impl<T: Real> Kernel<T> for LogSumExp<'_, T> {
    type Output = f64;

    #[inline(always)]
    fn run<V: Vector<Elem = T>>(self) -> f64 {
        const N: usize = 4;
        let lowest = V::splat(T::NEG_INFINITY);
        let len = self.values.len();
        let vectors = len.div_ceil(V::LANES);
        let mut top = [lowest; N];
        for v in 0..vectors {
            top[v % N] = self.vector(v, lowest).max(top[v % N]);
        }
        let mut lanes = [T::NEG_INFINITY; 16];
        let top = top[0].max(top[1]).max(top[2].max(top[3]));
        // SAFETY: no vector has more than 16 lanes.
        unsafe { top.store(lanes.as_mut_ptr()) };
        let mut largest = lanes[0];
        for &lane in &lanes[1..V::LANES] {
            largest = largest.max(lane);
        }
        if !largest.is_finite() {
            // All minus infinity, or infinite: the sum says nothing more, unless there is a NaN.
            let nan = self.values.iter().any(|value| value.is_nan());
            return if nan { f64::NAN } else { largest.to_f64() };
        }
        let shift = V::splat(largest);
        let mut sums = [V::splat(T::ZERO); N];
        for v in 0..vectors {
            sums[v % N] = sums[v % N].add(exp(self.vector(v, lowest).sub(shift)));
        }
        let sum = sums[0].add(sums[1]).add(sums[2].add(sums[3])).sum();
        largest.to_f64() + sum.to_f64().ln()
    }
}

impl<T: Real> LogSumExp<'_, T> {
    /// Vector `v` of the values, filled up at the end.
    #[inline(always)]
    fn vector<V: Vector<Elem = T>>(&self, v: usize, fill: V) -> V {
        let rest = &self.values[v * V::LANES..];
        // SAFETY: `rest` has as many entries as are read.
        unsafe { V::load_upto(rest.as_ptr(), rest.len(), fill) }
    }
}
