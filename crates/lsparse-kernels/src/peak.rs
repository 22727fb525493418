//! Measure what the arithmetic units can do: bursts of independent multiply-adds.

use std::hint::black_box;

use crate::real::Real;
use crate::simd::{Kernel, Vector};

/// Runs `iterations` rounds of independent multiply-add chains at the current level and returns
/// how many multiply-adds that were, counting each lane; time it to know the peak.
pub fn fma_burst<T: Real>(iterations: u64) -> f64 {
    T::fma_burst(FmaBurst { iterations })
}

/// Arguments of [`fma_burst`].
pub struct FmaBurst {
    iterations: u64,
}

impl<T: Real> Kernel<T> for FmaBurst {
    type Output = f64;

    #[inline(always)]
    fn run<V: Vector<Elem = T>>(self) -> f64 {
        // As many chains as the register tiles of the kernels have accumulators.
        if V::REGISTERS >= 32 { self.chains::<V, 24>() } else { self.chains::<V, 12>() }
    }
}

impl FmaBurst {
    #[inline(always)]
    fn chains<V: Vector, const N: usize>(self) -> f64 {
        let a = V::splat(black_box(V::Elem::from_f64(1e-3)));
        let b = V::splat(black_box(V::Elem::ONE));
        let mut sums = [V::splat(black_box(V::Elem::ZERO)); N];
        for _ in 0..self.iterations {
            for n in 0..N {
                sums[n] = a.fma(b, sums[n]);
            }
        }
        let mut total = sums[0];
        for n in 1..N {
            total = total.add(sums[n]);
        }
        black_box(total.sum());
        self.iterations as f64 * (N * V::LANES) as f64
    }
}
