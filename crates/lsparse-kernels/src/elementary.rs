//! Exponential and natural logarithm, lane by lane.

use crate::real::Real;
use crate::simd::{Kernel, Vector};

/// Replaces every entry by its exponential, to within 1 ulp (2 without fused multiply-add).
///
/// Minus infinity gives 0, what is too large gives infinity, NaN stays NaN. Lanes never interact:
/// an entry's result does not depend on its position or its neighbours.
pub fn exp_slice<T: Real>(values: &mut [T]) {
    T::exp_in_place(Exp { values });
}

/// Replaces every entry by its natural logarithm, to within 1 ulp (2 without fused multiply-add).
///
/// Zero gives minus infinity, a negative number gives NaN. Lanes never interact: an entry's result
/// does not depend on its position or its neighbours.
pub fn ln_slice<T: Real>(values: &mut [T]) {
    T::ln_in_place(Ln { values });
}

/// Arguments of [`exp_slice`].
pub struct Exp<'a, T> {
    values: &'a mut [T],
}

impl<T: Real> Kernel<T> for Exp<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector<Elem = T>>(self) {
        map::<V, ExpLane>(self.values);
    }
}

/// Arguments of [`ln_slice`].
pub struct Ln<'a, T> {
    values: &'a mut [T],
}

impl<T: Real> Kernel<T> for Ln<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector<Elem = T>>(self) {
        map::<V, LnLane>(self.values);
    }
}

/// A function of one number, applied to all lanes.
pub trait LaneFunction {
    /// The function.
    fn apply<V: Vector>(x: V) -> V;
}

/// The exponential as a [`LaneFunction`].
pub struct ExpLane;

impl LaneFunction for ExpLane {
    #[inline(always)]
    fn apply<V: Vector>(x: V) -> V {
        exp(x)
    }
}

/// The logarithm as a [`LaneFunction`].
pub struct LnLane;

impl LaneFunction for LnLane {
    #[inline(always)]
    fn apply<V: Vector>(x: V) -> V {
        ln(x)
    }
}

/// Applies a function to every entry.
#[inline(always)]
pub fn map<V: Vector, F: LaneFunction>(values: &mut [V::Elem]) {
    let mut chunks = values.chunks_exact_mut(V::LANES);
    for chunk in &mut chunks {
        // SAFETY: a chunk has LANES entries.
        unsafe { F::apply(V::load(chunk.as_ptr())).store(chunk.as_mut_ptr()) };
    }
    let rest = chunks.into_remainder();
    if !rest.is_empty() {
        let one = V::splat(V::Elem::ONE);
        // SAFETY: `rest` has as many entries as are read and written, fewer than LANES.
        unsafe {
            F::apply(V::load_part(rest.as_ptr(), rest.len(), one)).store_part(rest.as_mut_ptr(), rest.len());
        }
    }
}

/// Constants of the approximations for one element type.
pub trait Coefficients: Sized + 'static {
    /// `1 / ln 2`.
    const LOG2_E: Self;
    /// `ln 2` with so few digits that its product with an exponent is exact.
    const LN_2_HI: Self;
    /// The rest of `ln 2`.
    const LN_2_LO: Self;
    /// Below it the exponential is zero.
    const EXP_MIN: Self;
    /// Above it the exponential is infinite.
    const EXP_MAX: Self;
    /// `(exp(r) - 1 - r) / r^2` for `|r| <= ln(2) / 2`: Chebyshev fit, lowest degree first.
    const EXP_POLY: &'static [Self];
    /// `(2 artanh(s) - 2 s) / s^3` in powers of `s^2 <= 0.04`: Chebyshev fit, lowest degree first.
    const LN_POLY: &'static [Self];
}

impl Coefficients for f32 {
    const LOG2_E: f32 = std::f32::consts::LOG2_E;
    const LN_2_HI: f32 = 0.693_359_4;
    const LN_2_LO: f32 = -2.121_944_4e-4;
    const EXP_MIN: f32 = -104.0;
    const EXP_MAX: f32 = 89.0;
    const EXP_POLY: &'static [f32] = &[0.5, 0.166_665_77, 0.041_666_556, 0.008_363_203, 0.001_392_621_3];
    const LN_POLY: &'static [f32] = &[0.666_666_7, 0.400_003_14, 0.285_325_44, 0.237_513_42];
}

impl Coefficients for f64 {
    const LOG2_E: f64 = std::f64::consts::LOG2_E;
    const LN_2_HI: f64 = 6.931_471_803_691_238e-1;
    const LN_2_LO: f64 = 1.908_214_929_270_587_7e-10;
    const EXP_MIN: f64 = -746.0;
    const EXP_MAX: f64 = 710.0;
    const EXP_POLY: &'static [f64] = &[
        0.500_000_000_000_000_1,
        0.166_666_666_666_666_69,
        0.041_666_666_666_623_99,
        0.008_333_333_333_330_051,
        0.001_388_888_891_728_179_4,
        0.000_198_412_698_631_059_68,
        0.000_024_801_521_190_217_73,
        2.755_726_837_868_419_2e-6,
        2.762_013_871_973_399_4e-7,
        2.510_042_415_700_506_7e-8,
    ];
    const LN_POLY: &'static [f64] = &[
        0.666_666_666_666_666_6,
        0.400_000_000_000_079_4,
        0.285_714_285_672_759_36,
        0.222_222_230_483_515_9,
        0.181_817_376_263_029_38,
        0.153_888_678_056_137_18,
        0.132_097_082_420_594_62,
        0.136_090_302_628_584_99,
    ];
}

/// `coefficients[0] + coefficients[1] * x + ...`
#[inline(always)]
pub fn polynomial<V: Vector>(x: V, coefficients: &[V::Elem]) -> V {
    let mut sum = V::splat(coefficients[coefficients.len() - 1]);
    for i in (0..coefficients.len() - 1).rev() {
        sum = sum.fma(x, V::splat(coefficients[i]));
    }
    sum
}

/// `exp(x)`: `2^n * exp(r)` with `x = n ln 2 + r` and `|r| <= ln(2) / 2`.
#[inline(always)]
pub fn exp<V: Vector>(x: V) -> V {
    // The bound comes first, because `min` and `max` return the second argument for NaN.
    let x = V::splat(V::Elem::EXP_MIN).max(x);
    let x = V::splat(V::Elem::EXP_MAX).min(x);
    let n = x.mul(V::splat(V::Elem::LOG2_E)).round();
    let r = n.fnma(V::splat(V::Elem::LN_2_HI), x);
    let r = n.fnma(V::splat(V::Elem::LN_2_LO), r);
    let q = polynomial(r, V::Elem::EXP_POLY);
    let exp_r = r.mul(r).fma(q, r).add(V::splat(V::Elem::ONE));
    exp_r.ldexp(n)
}

/// `ln(x)` with the special cases.
#[inline(always)]
pub fn ln<V: Vector>(x: V) -> V {
    let zero = V::splat(V::Elem::ZERO);
    let infinity = V::splat(-V::Elem::NEG_INFINITY);
    let nan = infinity.sub(infinity);
    let special = V::select(x.eq(zero), V::splat(V::Elem::NEG_INFINITY), nan);
    let special = V::select(x.eq(infinity), infinity, special);
    let below_infinity = V::select(infinity.gt(x), ln_positive(x), special);
    V::select(x.gt(zero), below_infinity, special)
}

/// `ln(x)` for finite `x > 0`: `e ln 2 + ln(1 + f)` with `x = 2^e (1 + f)`, in the arrangement of
/// fdlibm that keeps the rounding error of `f - f^2 / 2` out of the sum.
#[inline(always)]
pub fn ln_positive<V: Vector>(x: V) -> V {
    let (m, e) = x.frexp();
    let f = m.sub(V::splat(V::Elem::ONE));
    let s = f.div(f.add(V::splat(V::Elem::from_f64(2.0))));
    let z = s.mul(s);
    let rest = z.mul(polynomial(z, V::Elem::LN_POLY));
    let half_square = f.mul(f).mul(V::splat(V::Elem::from_f64(0.5)));
    let low = s.fma(half_square.add(rest), e.mul(V::splat(V::Elem::LN_2_LO)));
    e.fma(V::splat(V::Elem::LN_2_HI), f.sub(half_square.sub(low)))
}
