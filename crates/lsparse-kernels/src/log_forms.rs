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
    fn run<V: Vector<Elem = f64>>(self) {
        const { assert!(8 % V::LANES == 0) };
        let Self { tile, mean, rate, out } = self;
        let rows = out.len();
        let (one, largest) = (V::splat(1.0), V::splat(LARGEST));
        for r0 in (0..rows).step_by(V::LANES) {
            let (mut product, mut exponent) = (one, V::splat(0.0));
            for d in 0..mean.len() {
                // SAFETY: row d of the tile has `rows` entries, a multiple of LANES.
                let x = unsafe { V::load(tile.as_ptr().add(d * rows + r0)) };
                let centred = x.sub(V::splat(mean[d]));
                let factor = centred.mul(V::splat(rate[d])).fma(centred, one);
                product = product.mul(factor.min(largest));
                if d % FACTORS == FACTORS - 1 {
                    let (mantissa, power) = product.frexp();
                    (product, exponent) = (mantissa, exponent.add(power));
                }
            }
            let sum = exponent.fma(V::splat(std::f64::consts::LN_2), ln_positive(product));
            // SAFETY: `out` has `rows` entries, a multiple of LANES.
            unsafe { sum.store(out.as_mut_ptr().add(r0)) };
        }
    }
}
