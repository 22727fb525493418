//! Vectors in plain Rust: short arrays that the compiler maps to whatever its target has.

use super::Vector;

/// `N` numbers, 128 bits of them.
#[derive(Clone, Copy)]
pub struct Array<T, const N: usize>([T; N]);

/// Whether a program compiled for one machine fuses a multiplication with an addition. Where the target does not say so
/// `mul_add` may be a library call; ARM could, and does not, so that plain Rust rounds alike on all machines.
const FUSED: bool = cfg!(target_feature = "fma");

macro_rules! impl_vector {
    (
        $real:ident, $lanes:literal, $int:ident,
        mantissa $mantissa:literal, bias $bias:literal, subnormal_shift $shift:literal
    ) => {
        impl Array<$real, $lanes> {
            #[inline(always)]
            fn zip(self, b: Self, f: impl Fn($real, $real) -> $real) -> Self {
                Self(std::array::from_fn(|i| f(self.0[i], b.0[i])))
            }
            #[inline(always)]
            fn compare(self, b: Self, f: impl Fn($real, $real) -> bool) -> [bool; $lanes] {
                std::array::from_fn(|i| f(self.0[i], b.0[i]))
            }
        }

        impl Vector for Array<$real, $lanes> {
            type Elem = $real;
            type Mask = [bool; $lanes];
            const LANES: usize = $lanes;
            const REGISTERS: usize = 16;

            #[inline(always)]
            fn splat(value: $real) -> Self {
                Self([value; $lanes])
            }
            #[inline(always)]
            unsafe fn load(from: *const $real) -> Self {
                // SAFETY: the caller's promise; an array is as aligned as its elements.
                Self(unsafe { from.cast::<[$real; $lanes]>().read() })
            }
            #[inline(always)]
            unsafe fn store(self, to: *mut $real) {
                // SAFETY: the caller's promise; an array is as aligned as its elements.
                unsafe { to.cast::<[$real; $lanes]>().write(self.0) }
            }
            #[inline(always)]
            unsafe fn load_part(from: *const $real, count: usize, fill: Self) -> Self {
                let mut lanes = fill;
                for i in 0..count.min($lanes) {
                    // SAFETY: the caller promises `count` readable numbers.
                    lanes.0[i] = unsafe { from.add(i).read() };
                }
                lanes
            }
            #[inline(always)]
            unsafe fn store_part(self, to: *mut $real, count: usize) {
                for i in 0..count.min($lanes) {
                    // SAFETY: the caller promises `count` writable numbers.
                    unsafe { to.add(i).write(self.0[i]) };
                }
            }

            #[inline(always)]
            fn add(self, b: Self) -> Self {
                self.zip(b, |a, b| a + b)
            }
            #[inline(always)]
            fn sub(self, b: Self) -> Self {
                self.zip(b, |a, b| a - b)
            }
            #[inline(always)]
            fn mul(self, b: Self) -> Self {
                self.zip(b, |a, b| a * b)
            }
            #[inline(always)]
            fn div(self, b: Self) -> Self {
                self.zip(b, |a, b| a / b)
            }
            #[inline(always)]
            fn sqrt(self) -> Self {
                Self(self.0.map($real::sqrt))
            }
            #[inline(always)]
            fn fma(self, b: Self, c: Self) -> Self {
                if FUSED {
                    Self(std::array::from_fn(|i| self.0[i].mul_add(b.0[i], c.0[i])))
                } else {
                    self.mul(b).add(c)
                }
            }
            #[inline(always)]
            fn fnma(self, b: Self, c: Self) -> Self {
                if FUSED {
                    Self(std::array::from_fn(|i| (-self.0[i]).mul_add(b.0[i], c.0[i])))
                } else {
                    c.sub(self.mul(b))
                }
            }
            #[inline(always)]
            fn max(self, b: Self) -> Self {
                self.zip(b, |a, b| if a > b { a } else { b })
            }
            #[inline(always)]
            fn min(self, b: Self) -> Self {
                self.zip(b, |a, b| if a < b { a } else { b })
            }
            #[inline(always)]
            fn round(self) -> Self {
                // Adding 1.5 * 2^mantissa leaves no room for a fraction.
                let magic = Self::splat(1.5 * (1u64 << $mantissa) as $real);
                self.add(magic).sub(magic)
            }
            #[inline(always)]
            fn ldexp(self, exponent: Self) -> Self {
                // In two steps, because 2^exponent alone may not be representable.
                let first = exponent.mul(Self::splat(0.5)).round();
                let second = exponent.sub(first);
                // The low bits of 1.5 * 2^mantissa + n are those of n.
                let magic = Self::splat(1.5 * (1u64 << $mantissa) as $real + $bias as $real);
                let pow2 = |n: Self| {
                    let lanes = n.add(magic).0;
                    Self(lanes.map(|x| $real::from_bits(x.to_bits() << $mantissa)))
                };
                self.mul(pow2(first)).mul(pow2(second))
            }
            #[inline(always)]
            fn frexp(self) -> (Self, Self) {
                let scale = (1u64 << $shift) as $real;
                let mut m = self.0;
                let mut e = [0.0; $lanes];
                for i in 0..$lanes {
                    let tiny = m[i] < $real::MIN_POSITIVE;
                    let bits = (if tiny { m[i] * scale } else { m[i] }).to_bits();
                    let above = bits.wrapping_sub((0.75 as $real).to_bits()) as $int;
                    let exponent = above >> $mantissa;
                    m[i] = $real::from_bits(bits.wrapping_sub((exponent << $mantissa) as _));
                    // Exponents fit 32 bits, which every target converts quickly.
                    e[i] = (exponent as i32) as $real - if tiny { $shift as $real } else { 0.0 };
                }
                (Self(m), Self(e))
            }

            #[inline(always)]
            fn gt(self, b: Self) -> Self::Mask {
                self.compare(b, |a, b| a > b)
            }
            #[inline(always)]
            fn ge(self, b: Self) -> Self::Mask {
                self.compare(b, |a, b| a >= b)
            }
            #[inline(always)]
            fn eq(self, b: Self) -> Self::Mask {
                self.compare(b, |a, b| a == b)
            }
            #[inline(always)]
            fn unordered(self, b: Self) -> Self::Mask {
                self.compare(b, |a, b| a.is_nan() || b.is_nan())
            }
            #[inline(always)]
            fn select(mask: Self::Mask, yes: Self, no: Self) -> Self {
                Self(std::array::from_fn(|i| if mask[i] { yes.0[i] } else { no.0[i] }))
            }
            #[inline(always)]
            fn bits(mask: Self::Mask) -> u64 {
                let mut bits = 0;
                for i in 0..$lanes {
                    bits |= u64::from(mask[i]) << i;
                }
                bits
            }
        }
    };
}

impl_vector!(f32, 4, i32, mantissa 23, bias 127, subnormal_shift 25);
impl_vector!(f64, 2, i64, mantissa 52, bias 1023, subnormal_shift 54);
