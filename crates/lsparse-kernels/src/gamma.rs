//! The digamma function and the logarithm of the gamma function for positive arguments.

use crate::elementary::{LaneFunction, ln_positive, map, polynomial};
use crate::real::Real;
use crate::simd::{Kernel, Vector, dispatch};

/// Replaces every entry by its digamma function; NaN for an entry that is not positive.
///
/// Computed in `f64` whatever the type, to about 1e-15 of the larger of 1 and the result. Lanes
/// never interact: an entry's result does not depend on its position or its neighbours.
pub fn digamma_slice<T: Real>(values: &mut [T]) {
    through_f64(values, |buffer| dispatch::<f64, _>(Map::<Digamma>::new(buffer)));
}

/// Replaces every entry by the logarithm of its gamma function; NaN for an entry that is not
/// positive.
///
/// Computed in `f64` whatever the type, to about 1e-14 of the larger of 1 and the result. Lanes
/// never interact: an entry's result does not depend on its position or its neighbours.
pub fn ln_gamma_slice<T: Real>(values: &mut [T]) {
    through_f64(values, |buffer| dispatch::<f64, _>(Map::<LnGamma>::new(buffer)));
}

/// The digamma function of one number: the same bits as [`digamma_slice`] at the same level.
pub fn digamma(x: f64) -> f64 {
    let mut values = [x];
    digamma_slice(&mut values);
    values[0]
}

/// The logarithm of the gamma function of one number: the same bits as [`ln_gamma_slice`] at the
/// same level.
pub fn ln_gamma(x: f64) -> f64 {
    let mut values = [x];
    ln_gamma_slice(&mut values);
    values[0]
}

/// Applies a function on `f64` to any slice, a buffer at a time.
fn through_f64<T: Real>(values: &mut [T], function: impl Fn(&mut [f64])) {
    let mut buffer = [0.0; 128];
    for chunk in values.chunks_mut(buffer.len()) {
        let buffer = &mut buffer[..chunk.len()];
        for (wide, &value) in buffer.iter_mut().zip(&*chunk) {
            *wide = value.to_f64();
        }
        function(buffer);
        for (value, &wide) in chunk.iter_mut().zip(&*buffer) {
            *value = T::from_f64(wide);
        }
    }
}

struct Map<'a, F> {
    values: &'a mut [f64],
    function: std::marker::PhantomData<F>,
}

impl<'a, F> Map<'a, F> {
    fn new(values: &'a mut [f64]) -> Self {
        let function = std::marker::PhantomData;
        Self { values, function }
    }
}

impl<F: LaneFunction> Kernel<f64> for Map<'_, F> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector<Elem = f64>>(self) {
        map::<V, F>(self.values);
    }
}

/// From here on the asymptotic series are good to the last bit or two; smaller arguments are
/// shifted up by as much, which takes this many factors.
const SHIFT: usize = 8;

/// `B_2k / 2k`: the series of the digamma function in powers of `1 / x^2`.
const DIGAMMA_SERIES: [f64; 8] =
    [1.0 / 12.0, -1.0 / 120.0, 1.0 / 252.0, -1.0 / 240.0, 1.0 / 132.0, -691.0 / 32760.0, 1.0 / 12.0, -3617.0 / 8160.0];

/// `B_2k / (2k (2k - 1))`: the series of the logarithm of the gamma function.
const LN_GAMMA_SERIES: [f64; 8] = [
    1.0 / 12.0,
    -1.0 / 360.0,
    1.0 / 1260.0,
    -1.0 / 1680.0,
    1.0 / 1188.0,
    -691.0 / 360360.0,
    1.0 / 156.0,
    -3617.0 / 122400.0,
];

/// A vector of `f64` constants; the functions below run on `f64` lanes only.
#[inline(always)]
fn splat<V: Vector>(value: f64) -> V {
    V::splat(V::Elem::from_f64(value))
}

#[inline(always)]
fn series<V: Vector>(x: V, coefficients: [f64; 8]) -> V {
    polynomial(x, &coefficients.map(V::Elem::from_f64))
}

/// `result` where `x` is positive and finite, infinity where `x` is infinite, else NaN.
#[inline(always)]
fn with_special_cases<V: Vector>(x: V, result: V) -> V {
    let infinity = splat::<V>(f64::INFINITY);
    let result = V::select(infinity.gt(x), result, x);
    V::select(x.gt(splat(0.0)), result, splat(f64::NAN))
}

struct Digamma;

impl LaneFunction for Digamma {
    #[inline(always)]
    fn apply<V: Vector>(x: V) -> V {
        // psi(x) = psi(x + 8) - sum_{i < 8} 1 / (x + i), the sum as p'(x) / p(x) with
        // p(x) = x (x + 1) ... (x + 7): one division instead of eight.
        let (mut p, mut dp) = (x, splat::<V>(1.0));
        for i in 1..SHIFT {
            let factor = x.add(splat(i as f64));
            dp = dp.fma(factor, p);
            p = p.mul(factor);
        }
        let small = splat::<V>(SHIFT as f64).gt(x);
        let y = V::select(small, x.add(splat(SHIFT as f64)), x);
        let shift = V::select(small, dp.div(p), splat(0.0));
        // psi(y) = ln y - 1 / 2y - sum_k B_2k / (2k y^2k)
        let inverse = splat::<V>(1.0).div(y);
        let square = inverse.mul(inverse);
        let tail = square.mul(series(square, DIGAMMA_SERIES));
        let correction = inverse.fma(splat(0.5), tail);
        with_special_cases(x, ln_positive(y).sub(correction).sub(shift))
    }
}

struct LnGamma;

impl LaneFunction for LnGamma {
    #[inline(always)]
    fn apply<V: Vector>(x: V) -> V {
        // ln Gamma(x) = ln Gamma(x + 8) - ln (x (x + 1) ... (x + 7))
        let mut p = x;
        for i in 1..SHIFT {
            p = p.mul(x.add(splat(i as f64)));
        }
        let small = splat::<V>(SHIFT as f64).gt(x);
        let y = V::select(small, x.add(splat(SHIFT as f64)), x);
        let shift = ln_positive(V::select(small, p, splat(1.0)));
        // ln Gamma(y) = (y - 1/2) (ln y - 1) + ln(2 pi) / 2 - 1/2 + sum_k B_2k / (2k (2k - 1) y^(2k - 1))
        let inverse = splat::<V>(1.0).div(y);
        let tail = inverse.mul(series(inverse.mul(inverse), LN_GAMMA_SERIES));
        let constant = splat::<V>(0.418_938_533_204_672_7).add(tail);
        let main = ln_positive(y).sub(splat(1.0));
        let stirling = y.sub(splat(0.5)).fma(main, constant);
        with_special_cases(x, stirling.sub(shift))
    }
}
