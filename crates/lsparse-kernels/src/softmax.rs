//! Responsibilities of the selected clusters, and sums of exponentials.

use crate::elementary::{ExpLane, LnLane, exp, map};
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
