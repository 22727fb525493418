//! The floating-point types the kernels work on: `f32` and `f64` behind one sealed trait.

use std::fmt::{Debug, Display};
use std::iter::Sum;
use std::ops::{Add, AddAssign, Div, Mul, MulAssign, Neg, Sub, SubAssign};

use crate::kernels::Kernels;

/// A floating-point type that every kernel is compiled for: `f32` or `f64`.
///
/// Sealed: the kernels are compiled once, in this crate, for these two types.
pub trait Real:
    Kernels
    + Copy
    + Send
    + Sync
    + PartialOrd
    + Default
    + Debug
    + Display
    + 'static
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
    + AddAssign
    + SubAssign
    + MulAssign
    + Sum
{
    /// 0.
    const ZERO: Self;
    /// 1.
    const ONE: Self;
    /// Minus infinity, the logarithm of zero.
    const NEG_INFINITY: Self;
    /// The distance from 1 to the next larger number.
    const EPSILON: f64;
    /// `"f32"` or `"f64"`.
    const NAME: &'static str;
    /// Rows in a tile: four 512-bit vectors of them.
    const TILE: usize;

    /// The same value in double precision.
    fn to_f64(self) -> f64;
    /// The nearest value of this type.
    fn from_f64(value: f64) -> Self;
    /// Neither infinite nor NaN.
    fn is_finite(self) -> bool;
    /// Not a number.
    fn is_nan(self) -> bool;
    /// Absolute value.
    fn abs(self) -> Self;
    /// Square root.
    fn sqrt(self) -> Self;
    /// Exponential, by the standard library; see [`exp_slice`](crate::exp_slice) for many.
    fn exp(self) -> Self;
    /// Natural logarithm, by the standard library; see [`ln_slice`](crate::ln_slice) for many.
    fn ln(self) -> Self;
    /// The larger of two values, ignoring a NaN.
    fn max(self, other: Self) -> Self;
}

macro_rules! impl_real {
    ($real:ident, $tile:literal) => {
        impl Real for $real {
            const ZERO: Self = 0.0;
            const ONE: Self = 1.0;
            const NEG_INFINITY: Self = $real::NEG_INFINITY;
            const EPSILON: f64 = $real::EPSILON as f64;
            const NAME: &'static str = stringify!($real);
            const TILE: usize = $tile;

            #[inline(always)]
            fn to_f64(self) -> f64 {
                self as f64
            }
            #[inline(always)]
            fn from_f64(value: f64) -> Self {
                value as $real
            }
            #[inline(always)]
            fn is_finite(self) -> bool {
                $real::is_finite(self)
            }
            #[inline(always)]
            fn is_nan(self) -> bool {
                $real::is_nan(self)
            }
            #[inline(always)]
            fn abs(self) -> Self {
                $real::abs(self)
            }
            #[inline(always)]
            fn sqrt(self) -> Self {
                $real::sqrt(self)
            }
            #[inline(always)]
            fn exp(self) -> Self {
                $real::exp(self)
            }
            #[inline(always)]
            fn ln(self) -> Self {
                $real::ln(self)
            }
            #[inline(always)]
            fn max(self, other: Self) -> Self {
                $real::max(self, other)
            }
        }
    };
}

impl_real!(f32, 64);
impl_real!(f64, 32);
