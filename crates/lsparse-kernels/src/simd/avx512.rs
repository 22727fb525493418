//! Vectors of 512 bits: AVX-512 F and DQ.
//!
//! Every `unsafe` block here calls instructions that are safe but for the CPU having them, which
//! the dispatch rule (see [`Vector`](super::Vector)) guarantees, or dereferences a pointer under
//! the contract of the method it is in.

use std::arch::x86_64::*;

use super::Vector;

/// Sixteen `f32`.
#[derive(Clone, Copy)]
pub struct F32x16(__m512);

/// Eight `f64`.
#[derive(Clone, Copy)]
pub struct F64x8(__m512d);

/// Methods that are one instruction on whole vectors.
macro_rules! lanewise {
    ($($name:ident($($arg:ident),*) = $intrinsic:ident;)*) => {$(
        #[inline(always)]
        fn $name(self, $($arg: Self),*) -> Self {
            // SAFETY: the dispatch rule.
            Self(unsafe { $intrinsic(self.0, $($arg.0),*) })
        }
    )*};
}

/// Comparisons that are one instruction with a predicate.
macro_rules! compare {
    ($intrinsic:ident: $($name:ident = $predicate:ident;)*) => {$(
        #[inline(always)]
        fn $name(self, b: Self) -> Self::Mask {
            // SAFETY: the dispatch rule.
            unsafe { $intrinsic::<$predicate>(self.0, b.0) }
        }
    )*};
}

impl Vector for F32x16 {
    type Elem = f32;
    type Mask = __mmask16;
    const LANES: usize = 16;
    const REGISTERS: usize = 32;

    #[inline(always)]
    fn splat(value: f32) -> Self {
        // SAFETY: the dispatch rule.
        Self(unsafe { _mm512_set1_ps(value) })
    }
    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: the dispatch rule, and the caller's promise.
        Self(unsafe { _mm512_loadu_ps(from) })
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: the dispatch rule, and the caller's promise.
        unsafe { _mm512_storeu_ps(to, self.0) }
    }
    #[inline(always)]
    unsafe fn load_part(from: *const f32, count: usize, fill: Self) -> Self {
        // SAFETY: the dispatch rule; masked-off lanes are not read.
        Self(unsafe { _mm512_mask_loadu_ps(fill.0, (1u16 << count) - 1, from) })
    }
    #[inline(always)]
    unsafe fn store_part(self, to: *mut f32, count: usize) {
        // SAFETY: the dispatch rule; masked-off lanes are not written.
        unsafe { _mm512_mask_storeu_ps(to, (1u16 << count) - 1, self.0) }
    }

    lanewise! {
        add(b) = _mm512_add_ps;
        sub(b) = _mm512_sub_ps;
        mul(b) = _mm512_mul_ps;
        div(b) = _mm512_div_ps;
        fma(b, c) = _mm512_fmadd_ps;
        fnma(b, c) = _mm512_fnmadd_ps;
        max(b) = _mm512_max_ps;
        min(b) = _mm512_min_ps;
        ldexp(exponent) = _mm512_scalef_ps;
    }
    #[inline(always)]
    fn round(self) -> Self {
        // SAFETY: the dispatch rule.
        Self(unsafe { _mm512_roundscale_ps::<_MM_FROUND_TO_NEAREST_INT>(self.0) })
    }
    #[inline(always)]
    fn frexp(self) -> (Self, Self) {
        // SAFETY: the dispatch rule.
        unsafe {
            let m = _mm512_getmant_ps::<_MM_MANT_NORM_P75_1P5, _MM_MANT_SIGN_ZERO>(self.0);
            let e = _mm512_sub_ps(_mm512_getexp_ps(self.0), _mm512_getexp_ps(m));
            (Self(m), Self(e))
        }
    }

    compare! { _mm512_cmp_ps_mask:
        gt = _CMP_GT_OQ;
        ge = _CMP_GE_OQ;
        eq = _CMP_EQ_OQ;
        unordered = _CMP_UNORD_Q;
    }
    #[inline(always)]
    fn select(mask: Self::Mask, yes: Self, no: Self) -> Self {
        // SAFETY: the dispatch rule.
        Self(unsafe { _mm512_mask_blend_ps(mask, no.0, yes.0) })
    }
    #[inline(always)]
    fn bits(mask: Self::Mask) -> u64 {
        u64::from(mask)
    }

    #[inline(always)]
    unsafe fn add_to(self, totals: *mut f64, count: usize) {
        // SAFETY: the dispatch rule, and the caller's promise.
        unsafe {
            let low = _mm512_cvtps_pd(_mm512_castps512_ps256(self.0));
            let high = _mm512_cvtps_pd(_mm512_extractf32x8_ps::<1>(self.0));
            F64x8(low).add_to(totals, count);
            if count > 8 {
                F64x8(high).add_to(totals.add(8), count - 8);
            }
        }
    }
}

impl Vector for F64x8 {
    type Elem = f64;
    type Mask = __mmask8;
    const LANES: usize = 8;
    const REGISTERS: usize = 32;

    #[inline(always)]
    fn splat(value: f64) -> Self {
        // SAFETY: the dispatch rule.
        Self(unsafe { _mm512_set1_pd(value) })
    }
    #[inline(always)]
    unsafe fn load(from: *const f64) -> Self {
        // SAFETY: the dispatch rule, and the caller's promise.
        Self(unsafe { _mm512_loadu_pd(from) })
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f64) {
        // SAFETY: the dispatch rule, and the caller's promise.
        unsafe { _mm512_storeu_pd(to, self.0) }
    }
    #[inline(always)]
    unsafe fn load_part(from: *const f64, count: usize, fill: Self) -> Self {
        // SAFETY: the dispatch rule; masked-off lanes are not read.
        Self(unsafe { _mm512_mask_loadu_pd(fill.0, (1u8 << count) - 1, from) })
    }
    #[inline(always)]
    unsafe fn store_part(self, to: *mut f64, count: usize) {
        // SAFETY: the dispatch rule; masked-off lanes are not written.
        unsafe { _mm512_mask_storeu_pd(to, (1u8 << count) - 1, self.0) }
    }

    lanewise! {
        add(b) = _mm512_add_pd;
        sub(b) = _mm512_sub_pd;
        mul(b) = _mm512_mul_pd;
        div(b) = _mm512_div_pd;
        fma(b, c) = _mm512_fmadd_pd;
        fnma(b, c) = _mm512_fnmadd_pd;
        max(b) = _mm512_max_pd;
        min(b) = _mm512_min_pd;
        ldexp(exponent) = _mm512_scalef_pd;
    }
    #[inline(always)]
    fn round(self) -> Self {
        // SAFETY: the dispatch rule.
        Self(unsafe { _mm512_roundscale_pd::<_MM_FROUND_TO_NEAREST_INT>(self.0) })
    }
    #[inline(always)]
    fn frexp(self) -> (Self, Self) {
        // SAFETY: the dispatch rule.
        unsafe {
            let m = _mm512_getmant_pd::<_MM_MANT_NORM_P75_1P5, _MM_MANT_SIGN_ZERO>(self.0);
            let e = _mm512_sub_pd(_mm512_getexp_pd(self.0), _mm512_getexp_pd(m));
            (Self(m), Self(e))
        }
    }

    compare! { _mm512_cmp_pd_mask:
        gt = _CMP_GT_OQ;
        ge = _CMP_GE_OQ;
        eq = _CMP_EQ_OQ;
        unordered = _CMP_UNORD_Q;
    }
    #[inline(always)]
    fn select(mask: Self::Mask, yes: Self, no: Self) -> Self {
        // SAFETY: the dispatch rule.
        Self(unsafe { _mm512_mask_blend_pd(mask, no.0, yes.0) })
    }
    #[inline(always)]
    fn bits(mask: Self::Mask) -> u64 {
        u64::from(mask)
    }

    #[inline(always)]
    unsafe fn add_to(self, totals: *mut f64, count: usize) {
        // SAFETY: the dispatch rule, and the caller's promise.
        unsafe {
            if count >= 8 {
                Self::load(totals).add(self).store(totals);
            } else {
                Self::load_part(totals, count, self).add(self).store_part(totals, count);
            }
        }
    }
}
