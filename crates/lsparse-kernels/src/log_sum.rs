//! The weighted sum of logarithms: the log likelihood of a document's words.

use crate::elementary::ln;
use crate::real::Real;
use crate::simd::{Kernel, Vector};

/// `sum_u counts[u] * ln(norms[u])` over the `u` with a positive count.
///
/// The products are formed in `T` and summed in `f64`, in an order that only depends on the length
/// and the level.
///
/// # Panics
/// If the lengths differ.
pub fn weighted_log_sum<T: Real>(counts: &[T], norms: &[T]) -> f64 {
    assert_eq!(counts.len(), norms.len(), "one count a norm");
    T::weighted_log_sum(WeightedLogSum { counts, norms })
}

/// Arguments of [`weighted_log_sum`], lengths checked.
pub struct WeightedLogSum<'a, T> {
    counts: &'a [T],
    norms: &'a [T],
}

impl<T: Real> Kernel<T> for WeightedLogSum<'_, T> {
    type Output = f64;

    #[inline(always)]
    fn run<V: Vector<Elem = T>>(self) -> f64 {
        let (zero, one) = (V::splat(T::ZERO), V::splat(T::ONE));
        let mut totals = [0.0; 16];
        const { assert!(V::LANES <= 16) };
        for (counts, norms) in self.counts.chunks(V::LANES).zip(self.norms.chunks(V::LANES)) {
            // SAFETY: both chunks have as many entries as are read, and there is a total a lane.
            unsafe {
                let count = V::load_upto(counts.as_ptr(), counts.len(), zero);
                let norm = V::load_upto(norms.as_ptr(), norms.len(), one);
                let term = V::select(count.gt(zero), count.mul(ln(norm)), zero);
                term.add_to(totals.as_mut_ptr(), V::LANES);
            }
        }
        let mut half = V::LANES / 2;
        while half > 0 {
            for i in 0..half {
                totals[i] += totals[i + half];
            }
            half /= 2;
        }
        totals[0]
    }
}
