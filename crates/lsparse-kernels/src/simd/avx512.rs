//! Vectors of 512 bits: AVX-512 F and DQ.
//!
//! Every `unsafe` block here calls instructions that are safe but for the CPU having them, which
//! the dispatch rule (see [`Vector`]) guarantees, or dereferences a pointer under
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

    #[inline(always)]
    unsafe fn transpose_four(from: [*const f32; 4], to: *mut f32, stride: usize) {
        // SAFETY: the dispatch rule, and the caller's promise.
        unsafe { super::transpose::four_f32(from, to, stride) }
    }
    #[inline(always)]
    unsafe fn copy_four(from: [*const f32; 4], offset: usize, to: *mut f32) {
        // SAFETY: the dispatch rule, and the caller's promise.
        unsafe {
            let [a, b, c, d] = from.map(|from| *from.add(offset));
            _mm_storeu_ps(to, _mm_setr_ps(a, b, c, d));
        }
    }

    lanewise! {
        add(b) = _mm512_add_ps;
        sub(b) = _mm512_sub_ps;
        mul(b) = _mm512_mul_ps;
        div(b) = _mm512_div_ps;
        sqrt() = _mm512_sqrt_ps;
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
    fn sum_four([a, b, c, d]: [Self; 4]) -> [f32; 4] {
        // SAFETY: the dispatch rule.
        unsafe {
            let ab = _mm512_add_ps(_mm512_unpacklo_ps(a.0, b.0), _mm512_unpackhi_ps(a.0, b.0));
            let cd = _mm512_add_ps(_mm512_unpacklo_ps(c.0, d.0), _mm512_unpackhi_ps(c.0, d.0));
            let (ab, cd) = (_mm512_castps_pd(ab), _mm512_castps_pd(cd));
            let (low, high) = (_mm512_unpacklo_pd(ab, cd), _mm512_unpackhi_pd(ab, cd));
            let quarters = _mm512_add_ps(_mm512_castpd_ps(low), _mm512_castpd_ps(high));
            let halves = _mm256_add_ps(_mm512_castps512_ps256(quarters), _mm512_extractf32x8_ps::<1>(quarters));
            let whole = _mm_add_ps(_mm256_castps256_ps128(halves), _mm256_extractf128_ps::<1>(halves));
            let mut sums = [0.0; 4];
            _mm_storeu_ps(sums.as_mut_ptr(), whole);
            sums
        }
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

    #[inline(always)]
    unsafe fn transpose_four(from: [*const f64; 4], to: *mut f64, stride: usize) {
        // SAFETY: the dispatch rule, and the caller's promise.
        unsafe { super::transpose::four_f64(from, to, stride) }
    }
    #[inline(always)]
    unsafe fn copy_four(from: [*const f64; 4], offset: usize, to: *mut f64) {
        // SAFETY: the dispatch rule, and the caller's promise.
        unsafe {
            let [a, b, c, d] = from.map(|from| *from.add(offset));
            _mm_storeu_pd(to, _mm_setr_pd(a, b));
            _mm_storeu_pd(to.add(2), _mm_setr_pd(c, d));
        }
    }

    lanewise! {
        add(b) = _mm512_add_pd;
        sub(b) = _mm512_sub_pd;
        mul(b) = _mm512_mul_pd;
        div(b) = _mm512_div_pd;
        sqrt() = _mm512_sqrt_pd;
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
    fn sum_four([a, b, c, d]: [Self; 4]) -> [f64; 4] {
        // SAFETY: the dispatch rule.
        unsafe {
            let ab = _mm512_add_pd(_mm512_unpacklo_pd(a.0, b.0), _mm512_unpackhi_pd(a.0, b.0));
            let cd = _mm512_add_pd(_mm512_unpacklo_pd(c.0, d.0), _mm512_unpackhi_pd(c.0, d.0));
            let ab = _mm256_add_pd(_mm512_castpd512_pd256(ab), _mm512_extractf64x4_pd::<1>(ab));
            let cd = _mm256_add_pd(_mm512_castpd512_pd256(cd), _mm512_extractf64x4_pd::<1>(cd));
            let (low, high) = (_mm256_permute2f128_pd::<0x20>(ab, cd), _mm256_permute2f128_pd::<0x31>(ab, cd));
            let mut sums = [0.0; 4];
            _mm256_storeu_pd(sums.as_mut_ptr(), _mm256_add_pd(low, high));
            sums
        }
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
