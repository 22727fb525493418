//! Sums of logarithms over a tile: the heavy tails of diagonal Student t densities.

use crate::elementary::ln_positive;
use crate::simd::{Kernel, Vector, dispatch};

/// Factors that are multiplied before the exponent of the product is set aside.
const FACTORS: usize = 8;

/// The largest factor: as many as are multiplied must stay finite.
const LARGEST: f64 = 1e37;

/// `out[r] = sum_d ln(1 + rate[d] * (x_rd - mean[d])^2)` for every row of a tile of `out.len()` rows,
/// `tile[d * out.len() + r]` being entry `d` of row `r`.
///
/// The logarithm is taken of products, a few factors at a time, each of which counts for 1e37 at most.
///
/// # Panics
/// If the lengths do not fit, or `out` is not a multiple of 8 long.
pub fn log_form_sums(tile: &[f64], mean: &[f64], rate: &[f64], out: &mut [f64]) {
    assert_eq!(tile.len(), mean.len() * out.len(), "tile must hold an entry a column and row");
    assert_eq!(rate.len(), mean.len(), "rate must hold an entry a column");
    assert_eq!(out.len() % 8, 0, "rows come by eights");
    dispatch::<f64, _>(LogFormSums { tile, mean, rate, out });
}

/// Arguments of [`log_form_sums`], lengths checked.
struct LogFormSums<'a> {
    tile: &'a [f64],
    mean: &'a [f64],
    rate: &'a [f64],
    out: &'a mut [f64],
}

impl Kernel<f64> for LogFormSums<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector<Elem = f64>>(mut self) {
        const { assert!(8 % V::LANES == 0) };
        // Products of a few vectors of rows at a time, none of which waits for itself.
        let rows = self.out.len();
        let together = rows / (4 * V::LANES) * 4 * V::LANES;
        (0..together).step_by(4 * V::LANES).for_each(|r0| self.rows::<V, 4>(r0));
        (together..rows).step_by(V::LANES).for_each(|r0| self.rows::<V, 1>(r0));
    }
}

impl LogFormSums<'_> {
    /// `R` vectors of rows from `r0` on, which must be there.
    #[inline(always)]
    fn rows<V: Vector<Elem = f64>, const R: usize>(&mut self, r0: usize) {
        let Self { tile, mean, rate, out } = self;
        let rows = out.len();
        assert!(r0 + R * V::LANES <= rows && tile.len() == mean.len() * rows);
        let (one, largest) = (V::splat(1.0), V::splat(LARGEST));
        let (mut product, mut exponent) = ([one; R], [V::splat(0.0); R]);
        for d in 0..mean.len() {
            let (m, factor) = (V::splat(mean[d]), V::splat(rate[d]));
            for r in 0..R {
                // SAFETY: row d of the tile has `rows` entries, and so many vectors from r0 on.
                let x = unsafe { V::load(tile.as_ptr().add(d * rows + r0 + r * V::LANES)) };
                let centred = x.sub(m);
                let factor = centred.mul(factor).fma(centred, one);
                product[r] = product[r].mul(factor.min(largest));
            }
            if d % FACTORS == FACTORS - 1 {
                for r in 0..R {
                    let (mantissa, power) = product[r].frexp();
                    (product[r], exponent[r]) = (mantissa, exponent[r].add(power));
                }
            }
        }
        for r in 0..R {
            let sum = exponent[r].fma(V::splat(std::f64::consts::LN_2), ln_positive(product[r]));
            // SAFETY: `out` has so many vectors from r0 on.
            unsafe { sum.store(out.as_mut_ptr().add(r0 + r * V::LANES)) };
        }
    }
}
