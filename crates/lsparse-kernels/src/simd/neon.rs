//! Vectors of 128 bits of 64-bit ARM: NEON, which every such CPU has.
//!
//! Every `unsafe` block here calls instructions that are safe but for the CPU having them, which the target guarantees, or
//! dereferences a pointer under the contract of the method it is in.

use std::arch::aarch64::*;

use super::Vector;

/// Four `f32`.
#[derive(Clone, Copy)]
pub struct F32x4(float32x4_t);

/// Two `f64`.
#[derive(Clone, Copy)]
pub struct F64x2(float64x2_t);

/// What both widths have in common: methods that are an instruction or two on whole vectors.
macro_rules! lanewise {
    (
        $real:ident, $mask:ident, add $add:ident, sub $sub:ident, mul $mul:ident, div $div:ident, sqrt $sqrt:ident,
        fma $fma:ident, fnma $fnma:ident, round $round:ident, gt $gt:ident, ge $ge:ident, eq $eq:ident,
        select $select:ident, splat $splat:ident, load $load:ident, store $store:ident
    ) => {
        #[inline(always)]
        fn splat(value: $real) -> Self {
            // SAFETY: the target has it.
            Self(unsafe { $splat(value) })
        }
        #[inline(always)]
        unsafe fn load(from: *const $real) -> Self {
            // SAFETY: the caller's promise.
            Self(unsafe { $load(from) })
        }
        #[inline(always)]
        unsafe fn store(self, to: *mut $real) {
            // SAFETY: the caller's promise.
            unsafe { $store(to, self.0) }
        }
        #[inline(always)]
        unsafe fn load_part(from: *const $real, count: usize, fill: Self) -> Self {
            let mut lanes = [0.0; Self::LANES];
            // SAFETY: the array holds all lanes; the caller promises `count` readable numbers, fewer than there are lanes.
            unsafe {
                fill.store(lanes.as_mut_ptr());
                for i in 0..count.min(Self::LANES) {
                    lanes[i] = from.add(i).read();
                }
                Self::load(lanes.as_ptr())
            }
        }
        #[inline(always)]
        unsafe fn store_part(self, to: *mut $real, count: usize) {
            let mut lanes = [0.0; Self::LANES];
            // SAFETY: the array holds all lanes; the caller promises `count` writable numbers.
            unsafe {
                self.store(lanes.as_mut_ptr());
                for i in 0..count.min(Self::LANES) {
                    to.add(i).write(lanes[i]);
                }
            }
        }

        #[inline(always)]
        fn add(self, b: Self) -> Self {
            // SAFETY: the target has it.
            Self(unsafe { $add(self.0, b.0) })
        }
        #[inline(always)]
        fn sub(self, b: Self) -> Self {
            // SAFETY: the target has it.
            Self(unsafe { $sub(self.0, b.0) })
        }
        #[inline(always)]
        fn mul(self, b: Self) -> Self {
            // SAFETY: the target has it.
            Self(unsafe { $mul(self.0, b.0) })
        }
        #[inline(always)]
        fn div(self, b: Self) -> Self {
            // SAFETY: the target has it.
            Self(unsafe { $div(self.0, b.0) })
        }
        #[inline(always)]
        fn sqrt(self) -> Self {
            // SAFETY: the target has it.
            Self(unsafe { $sqrt(self.0) })
        }
        #[inline(always)]
        fn fma(self, b: Self, c: Self) -> Self {
            // SAFETY: the target has it.
            Self(unsafe { $fma(c.0, self.0, b.0) })
        }
        #[inline(always)]
        fn fnma(self, b: Self, c: Self) -> Self {
            // SAFETY: the target has it.
            Self(unsafe { $fnma(c.0, self.0, b.0) })
        }
        #[inline(always)]
        fn max(self, b: Self) -> Self {
            // SAFETY: the target has it.
            Self(unsafe { $select($gt(self.0, b.0), self.0, b.0) })
        }
        #[inline(always)]
        fn min(self, b: Self) -> Self {
            // SAFETY: the target has it.
            Self(unsafe { $select($gt(b.0, self.0), self.0, b.0) })
        }
        #[inline(always)]
        fn round(self) -> Self {
            // SAFETY: the target has it.
            Self(unsafe { $round(self.0) })
        }
        #[inline(always)]
        fn ldexp(self, exponent: Self) -> Self {
            // In two steps, because 2^exponent alone may not be representable.
            let first = exponent.mul(Self::splat(0.5)).round();
            let second = exponent.sub(first);
            self.mul(first.pow2()).mul(second.pow2())
        }

        #[inline(always)]
        fn gt(self, b: Self) -> $mask {
            // SAFETY: the target has it.
            unsafe { $gt(self.0, b.0) }
        }
        #[inline(always)]
        fn ge(self, b: Self) -> $mask {
            // SAFETY: the target has it.
            unsafe { $ge(self.0, b.0) }
        }
        #[inline(always)]
        fn eq(self, b: Self) -> $mask {
            // SAFETY: the target has it.
            unsafe { $eq(self.0, b.0) }
        }
        #[inline(always)]
        fn select(mask: $mask, yes: Self, no: Self) -> Self {
            // SAFETY: the target has it.
            Self(unsafe { $select(mask, yes.0, no.0) })
        }
    };
}

impl Vector for F32x4 {
    type Elem = f32;
    type Mask = uint32x4_t;
    const LANES: usize = 4;
    const REGISTERS: usize = 32;

    lanewise! {
        f32, uint32x4_t, add vaddq_f32, sub vsubq_f32, mul vmulq_f32, div vdivq_f32, sqrt vsqrtq_f32,
        fma vfmaq_f32, fnma vfmsq_f32, round vrndnq_f32, gt vcgtq_f32, ge vcgeq_f32, eq vceqq_f32,
        select vbslq_f32, splat vdupq_n_f32, load vld1q_f32, store vst1q_f32
    }

    #[inline(always)]
    fn unordered(self, b: Self) -> uint32x4_t {
        // SAFETY: the target has them.
        unsafe { vmvnq_u32(vandq_u32(vceqq_f32(self.0, self.0), vceqq_f32(b.0, b.0))) }
    }
    #[inline(always)]
    fn bits(mask: uint32x4_t) -> u64 {
        const PLACES: [u32; 4] = [1, 2, 4, 8];
        // SAFETY: the target has them, and there are four places.
        unsafe { vaddvq_u32(vandq_u32(mask, vld1q_u32(PLACES.as_ptr()))).into() }
    }
    #[inline(always)]
    fn frexp(self) -> (Self, Self) {
        let tiny = Self::splat(f32::MIN_POSITIVE).gt(self);
        let x = Self::select(tiny, self.mul(Self::splat(33554432.0)), self);
        let bias = Self::select(tiny, Self::splat(25.0), Self::splat(0.0));
        // SAFETY: the target has them.
        unsafe {
            let bits = vreinterpretq_s32_f32(x.0);
            let above = vsubq_s32(bits, vdupq_n_s32(0.75f32.to_bits() as i32));
            let e = vshrq_n_s32::<23>(above);
            let m = vsubq_s32(bits, vshlq_n_s32::<23>(e));
            (Self(vreinterpretq_f32_s32(m)), Self(vcvtq_f32_s32(e)).sub(bias))
        }
    }

    #[inline(always)]
    unsafe fn transpose_four(from: [*const f32; 4], to: *mut f32, stride: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            let [a, b, c, d] = from.map(|from| vld1q_f32(from));
            // Pairs of columns of the first two and of the last two rows.
            let (ab, cd) = ([vtrn1q_f32(a, b), vtrn2q_f32(a, b)], [vtrn1q_f32(c, d), vtrn2q_f32(c, d)]);
            for j in 0..2 {
                let (ab, cd) = (vreinterpretq_f64_f32(ab[j]), vreinterpretq_f64_f32(cd[j]));
                vst1q_f32(to.add(j * stride), vreinterpretq_f32_f64(vtrn1q_f64(ab, cd)));
                vst1q_f32(to.add((j + 2) * stride), vreinterpretq_f32_f64(vtrn2q_f64(ab, cd)));
            }
        }
    }

    #[inline(always)]
    fn sum_four([a, b, c, d]: [Self; 4]) -> [f32; 4] {
        let mut sums = [0.0; 4];
        // SAFETY: the target has them, and the array holds four.
        unsafe { vst1q_f32(sums.as_mut_ptr(), vpaddq_f32(vpaddq_f32(a.0, b.0), vpaddq_f32(c.0, d.0))) };
        sums
    }
}

impl F32x4 {
    /// `2^self` for integral lanes within the exponent range.
    #[inline(always)]
    fn pow2(self) -> Self {
        // SAFETY: the target has them.
        unsafe {
            let biased = vaddq_s32(vcvtnq_s32_f32(self.0), vdupq_n_s32(127));
            Self(vreinterpretq_f32_s32(vshlq_n_s32::<23>(biased)))
        }
    }
}

impl Vector for F64x2 {
    type Elem = f64;
    type Mask = uint64x2_t;
    const LANES: usize = 2;
    const REGISTERS: usize = 32;

    lanewise! {
        f64, uint64x2_t, add vaddq_f64, sub vsubq_f64, mul vmulq_f64, div vdivq_f64, sqrt vsqrtq_f64,
        fma vfmaq_f64, fnma vfmsq_f64, round vrndnq_f64, gt vcgtq_f64, ge vcgeq_f64, eq vceqq_f64,
        select vbslq_f64, splat vdupq_n_f64, load vld1q_f64, store vst1q_f64
    }

    #[inline(always)]
    fn unordered(self, b: Self) -> uint64x2_t {
        // SAFETY: the target has them.
        unsafe {
            let ordered = vandq_u64(vceqq_f64(self.0, self.0), vceqq_f64(b.0, b.0));
            veorq_u64(ordered, vdupq_n_u64(u64::MAX))
        }
    }
    #[inline(always)]
    fn bits(mask: uint64x2_t) -> u64 {
        // SAFETY: the target has them.
        unsafe { vgetq_lane_u64::<0>(mask) & 1 | vgetq_lane_u64::<1>(mask) & 2 }
    }
    #[inline(always)]
    fn frexp(self) -> (Self, Self) {
        let tiny = Self::splat(f64::MIN_POSITIVE).gt(self);
        let x = Self::select(tiny, self.mul(Self::splat(18014398509481984.0)), self);
        let bias = Self::select(tiny, Self::splat(54.0), Self::splat(0.0));
        // SAFETY: the target has them.
        unsafe {
            let bits = vreinterpretq_s64_f64(x.0);
            let above = vsubq_s64(bits, vdupq_n_s64(0.75f64.to_bits() as i64));
            let e = vshrq_n_s64::<52>(above);
            let m = vsubq_s64(bits, vshlq_n_s64::<52>(e));
            (Self(vreinterpretq_f64_s64(m)), Self(vcvtq_f64_s64(e)).sub(bias))
        }
    }

    #[inline(always)]
    unsafe fn transpose_four(from: [*const f64; 4], to: *mut f64, stride: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            for half in [0, 2] {
                let [a, b, c, d] = from.map(|from| vld1q_f64(from.add(half)));
                let to = to.add(half * stride);
                vst1q_f64(to, vtrn1q_f64(a, b));
                vst1q_f64(to.add(2), vtrn1q_f64(c, d));
                vst1q_f64(to.add(stride), vtrn2q_f64(a, b));
                vst1q_f64(to.add(stride + 2), vtrn2q_f64(c, d));
            }
        }
    }

    #[inline(always)]
    fn sum_four([a, b, c, d]: [Self; 4]) -> [f64; 4] {
        let mut sums = [0.0; 4];
        // SAFETY: the target has them, and the array holds four.
        unsafe {
            vst1q_f64(sums.as_mut_ptr(), vpaddq_f64(a.0, b.0));
            vst1q_f64(sums.as_mut_ptr().add(2), vpaddq_f64(c.0, d.0));
        }
        sums
    }
}

impl F64x2 {
    /// `2^self` for integral lanes within the exponent range.
    #[inline(always)]
    fn pow2(self) -> Self {
        // SAFETY: the target has them.
        unsafe {
            let biased = vaddq_s64(vcvtnq_s64_f64(self.0), vdupq_n_s64(1023));
            Self(vreinterpretq_f64_s64(vshlq_n_s64::<52>(biased)))
        }
    }
}
