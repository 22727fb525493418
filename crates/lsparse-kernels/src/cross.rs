//! Sums of outer products of two panels of columns: all scalar products of one set of vectors with another.

use crate::real::Real;
use crate::simd::{Kernel, Vector};

/// Columns of a panel: whole register tiles at every level.
pub const PANEL: usize = 96;

/// `out[i * PANEL + j] += sum_m left[m * PANEL + i] * right[m * PANEL + j]`, the sum over all rows taken in `T` by itself
/// and then added.
///
/// # Panics
/// If the lengths do not fit.
pub fn cross_products<T: Real>(left: &[T], right: &[T], out: &mut [T]) {
    assert!(left.len() == right.len() && left.len().is_multiple_of(PANEL), "panels must have the same whole rows");
    assert_eq!(out.len(), PANEL * PANEL, "out must hold a product of two panels");
    T::cross_products(CrossProducts { left, right, out });
}

/// Arguments of [`cross_products`], lengths checked.
pub struct CrossProducts<'a, T> {
    left: &'a [T],
    right: &'a [T],
    out: &'a mut [T],
}

impl<T: Real> Kernel<T> for CrossProducts<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector<Elem = T>>(self) {
        // Accumulators, vectors and a broadcast scalar fit the registers.
        if V::REGISTERS >= 32 { self.tiles::<V, 8, 3>() } else { self.tiles::<V, 6, 2>() }
    }
}

impl<T: Real> CrossProducts<'_, T> {
    /// Tiles of `C` columns of the left panel and `R` vectors of columns of the right one.
    #[inline(always)]
    fn tiles<V: Vector<Elem = T>, const C: usize, const R: usize>(self) {
        const { assert!(PANEL.is_multiple_of(C) && PANEL.is_multiple_of(R * V::LANES)) };
        let Self { left, right, out } = self;
        let rows = left.len() / PANEL;
        assert!(left.len() == rows * PANEL && right.len() == rows * PANEL && out.len() == PANEL * PANEL);
        for j0 in (0..PANEL).step_by(R * V::LANES) {
            for i0 in (0..PANEL).step_by(C) {
                let mut sums = [[V::splat(T::ZERO); R]; C];
                // SAFETY: both panels have `rows` rows of PANEL entries, of which a tile is a part, and so has `out`.
                unsafe {
                    let (mut a, mut b) = (left.as_ptr().wrapping_add(i0), right.as_ptr().wrapping_add(j0));
                    for _ in 0..rows {
                        let mut x = [V::splat(T::ZERO); R];
                        for r in 0..R {
                            x[r] = V::load(b.add(r * V::LANES));
                        }
                        for c in 0..C {
                            let y = V::splat(*a.add(c));
                            for r in 0..R {
                                sums[c][r] = y.fma(x[r], sums[c][r]);
                            }
                        }
                        // Behind the last row these may point beyond the panel, where nothing is read.
                        (a, b) = (a.wrapping_add(PANEL), b.wrapping_add(PANEL));
                    }
                    for c in 0..C {
                        for r in 0..R {
                            let to = out.as_mut_ptr().add((i0 + c) * PANEL + j0 + r * V::LANES);
                            V::load(to).add(sums[c][r]).store(to);
                        }
                    }
                }
            }
        }
    }
}
