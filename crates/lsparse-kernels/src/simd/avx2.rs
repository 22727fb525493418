//! Vectors of 256 bits: AVX2 and FMA.
//!
//! Every `unsafe` block here calls instructions that are safe but for the CPU having them, which
//! the dispatch rule (see [`Vector`]) guarantees, or dereferences a pointer under
//! the contract of the method it is in.

use std::arch::x86_64::*;

use super::Vector;

/// Eight `f32`.
#[derive(Clone, Copy)]
pub struct F32x8(__m256);

/// Four `f64`.
#[derive(Clone, Copy)]
pub struct F64x4(__m256d);

/// Loading eight or four entries at `8 - count` or `4 - count` gives a mask of the first `count` lanes.
static LANE_MASK_32: [i32; 16] = [-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0];
static LANE_MASK_64: [i64; 8] = [-1, -1, -1, -1, 0, 0, 0, 0];

#[inline(always)]
fn lane_mask_32(count: usize) -> __m256i {
    assert!(count <= 8);
    // SAFETY: the dispatch rule; `8 - count + 8 <= 16`.
    unsafe { _mm256_loadu_si256(LANE_MASK_32.as_ptr().add(8 - count).cast()) }
}

#[inline(always)]
fn lane_mask_64(count: usize) -> __m256i {
    assert!(count <= 4);
    // SAFETY: the dispatch rule; `4 - count + 4 <= 8`.
    unsafe { _mm256_loadu_si256(LANE_MASK_64.as_ptr().add(4 - count).cast()) }
}

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

impl Vector for F32x8 {
    type Elem = f32;
    type Mask = __m256;
    const LANES: usize = 8;
    const REGISTERS: usize = 16;

    #[inline(always)]
    fn splat(value: f32) -> Self {
        // SAFETY: the dispatch rule.
        Self(unsafe { _mm256_set1_ps(value) })
    }
    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: the dispatch rule, and the caller's promise.
        Self(unsafe { _mm256_loadu_ps(from) })
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: the dispatch rule, and the caller's promise.
        unsafe { _mm256_storeu_ps(to, self.0) }
    }
    #[inline(always)]
    unsafe fn load_part(from: *const f32, count: usize, fill: Self) -> Self {
        let mask = lane_mask_32(count);
        // SAFETY: the dispatch rule; masked-off lanes are not read.
        unsafe {
            let lanes = _mm256_maskload_ps(from, mask);
            Self(_mm256_blendv_ps(fill.0, lanes, _mm256_castsi256_ps(mask)))
        }
    }
    #[inline(always)]
    unsafe fn store_part(self, to: *mut f32, count: usize) {
        // SAFETY: the dispatch rule; masked-off lanes are not written.
        unsafe { _mm256_maskstore_ps(to, lane_mask_32(count), self.0) }
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
        add(b) = _mm256_add_ps;
        sub(b) = _mm256_sub_ps;
        mul(b) = _mm256_mul_ps;
        div(b) = _mm256_div_ps;
        sqrt() = _mm256_sqrt_ps;
        fma(b, c) = _mm256_fmadd_ps;
        fnma(b, c) = _mm256_fnmadd_ps;
        max(b) = _mm256_max_ps;
        min(b) = _mm256_min_ps;
    }
    #[inline(always)]
    fn round(self) -> Self {
        const NEAREST: i32 = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
        // SAFETY: the dispatch rule.
        Self(unsafe { _mm256_round_ps::<NEAREST>(self.0) })
    }
    #[inline(always)]
    fn ldexp(self, exponent: Self) -> Self {
        // In two steps, because 2^exponent alone may not be representable.
        let first = exponent.mul(Self::splat(0.5)).round();
        let second = exponent.sub(first);
        self.mul(first.pow2()).mul(second.pow2())
    }
    #[inline(always)]
    fn frexp(self) -> (Self, Self) {
        let tiny = Self::splat(f32::MIN_POSITIVE).gt(self);
        let x = Self::select(tiny, self.mul(Self::splat(33554432.0)), self);
        let bias = Self::select(tiny, Self::splat(25.0), Self::splat(0.0));
        // SAFETY: the dispatch rule.
        unsafe {
            let bits = _mm256_castps_si256(x.0);
            let above = _mm256_sub_epi32(bits, _mm256_set1_epi32(0.75f32.to_bits() as i32));
            let e = _mm256_srai_epi32::<23>(above);
            let m = _mm256_sub_epi32(bits, _mm256_slli_epi32::<23>(e));
            let e = Self(_mm256_cvtepi32_ps(e));
            (Self(_mm256_castsi256_ps(m)), e.sub(bias))
        }
    }

    compare! { _mm256_cmp_ps:
        gt = _CMP_GT_OQ;
        ge = _CMP_GE_OQ;
        eq = _CMP_EQ_OQ;
        unordered = _CMP_UNORD_Q;
    }
    #[inline(always)]
    fn select(mask: Self::Mask, yes: Self, no: Self) -> Self {
        // SAFETY: the dispatch rule.
        Self(unsafe { _mm256_blendv_ps(no.0, yes.0, mask) })
    }
    #[inline(always)]
    fn bits(mask: Self::Mask) -> u64 {
        // SAFETY: the dispatch rule.
        unsafe { _mm256_movemask_ps(mask) as u64 }
    }

    #[inline(always)]
    fn sum_four([a, b, c, d]: [Self; 4]) -> [f32; 4] {
        // SAFETY: the dispatch rule.
        unsafe {
            let halves = _mm256_hadd_ps(_mm256_hadd_ps(a.0, b.0), _mm256_hadd_ps(c.0, d.0));
            let whole = _mm_add_ps(_mm256_castps256_ps128(halves), _mm256_extractf128_ps::<1>(halves));
            let mut sums = [0.0; 4];
            _mm_storeu_ps(sums.as_mut_ptr(), whole);
            sums
        }
    }
}

impl F32x8 {
    /// `2^self` for integral lanes within the exponent range.
    #[inline(always)]
    fn pow2(self) -> Self {
        // SAFETY: the dispatch rule.
        unsafe {
            let biased = _mm256_add_epi32(_mm256_cvtps_epi32(self.0), _mm256_set1_epi32(127));
            Self(_mm256_castsi256_ps(_mm256_slli_epi32::<23>(biased)))
        }
    }
}

impl Vector for F64x4 {
    type Elem = f64;
    type Mask = __m256d;
    const LANES: usize = 4;
    const REGISTERS: usize = 16;

    #[inline(always)]
    fn splat(value: f64) -> Self {
        // SAFETY: the dispatch rule.
        Self(unsafe { _mm256_set1_pd(value) })
    }
    #[inline(always)]
    unsafe fn load(from: *const f64) -> Self {
        // SAFETY: the dispatch rule, and the caller's promise.
        Self(unsafe { _mm256_loadu_pd(from) })
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f64) {
        // SAFETY: the dispatch rule, and the caller's promise.
        unsafe { _mm256_storeu_pd(to, self.0) }
    }
    #[inline(always)]
    unsafe fn load_part(from: *const f64, count: usize, fill: Self) -> Self {
        let mask = lane_mask_64(count);
        // SAFETY: the dispatch rule; masked-off lanes are not read.
        unsafe {
            let lanes = _mm256_maskload_pd(from, mask);
            Self(_mm256_blendv_pd(fill.0, lanes, _mm256_castsi256_pd(mask)))
        }
    }
    #[inline(always)]
    unsafe fn store_part(self, to: *mut f64, count: usize) {
        // SAFETY: the dispatch rule; masked-off lanes are not written.
        unsafe { _mm256_maskstore_pd(to, lane_mask_64(count), self.0) }
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
        add(b) = _mm256_add_pd;
        sub(b) = _mm256_sub_pd;
        mul(b) = _mm256_mul_pd;
        div(b) = _mm256_div_pd;
        sqrt() = _mm256_sqrt_pd;
        fma(b, c) = _mm256_fmadd_pd;
        fnma(b, c) = _mm256_fnmadd_pd;
        max(b) = _mm256_max_pd;
        min(b) = _mm256_min_pd;
    }
    #[inline(always)]
    fn round(self) -> Self {
        const NEAREST: i32 = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
        // SAFETY: the dispatch rule.
        Self(unsafe { _mm256_round_pd::<NEAREST>(self.0) })
    }
    #[inline(always)]
    fn ldexp(self, exponent: Self) -> Self {
        // In two steps, because 2^exponent alone may not be representable.
        let first = exponent.mul(Self::splat(0.5)).round();
        let second = exponent.sub(first);
        self.mul(first.pow2()).mul(second.pow2())
    }
    #[inline(always)]
    fn frexp(self) -> (Self, Self) {
        let tiny = Self::splat(f64::MIN_POSITIVE).gt(self);
        let x = Self::select(tiny, self.mul(Self::splat(18014398509481984.0)), self);
        let bias = Self::select(tiny, Self::splat(54.0), Self::splat(0.0));
        // SAFETY: the dispatch rule.
        unsafe {
            let bits = _mm256_castpd_si256(x.0);
            // AVX2 shifts 64-bit integers without their sign only, so the exponent stays biased.
            let offset = _mm256_set1_epi64x((1023 << 52) - 0.75f64.to_bits() as i64);
            let biased = _mm256_srli_epi64::<52>(_mm256_add_epi64(bits, offset));
            let e = _mm256_sub_epi64(biased, _mm256_set1_epi64x(1023));
            let m = _mm256_sub_epi64(bits, _mm256_slli_epi64::<52>(e));
            // An integer below 2^52 in the mantissa of 2^52 is 2^52 plus that integer.
            let magic = _mm256_castpd_si256(_mm256_set1_pd(4503599627370496.0));
            let e = Self(_mm256_castsi256_pd(_mm256_or_si256(biased, magic)));
            let e = e.sub(Self::splat(4503599627370496.0 + 1023.0));
            (Self(_mm256_castsi256_pd(m)), e.sub(bias))
        }
    }

    compare! { _mm256_cmp_pd:
        gt = _CMP_GT_OQ;
        ge = _CMP_GE_OQ;
        eq = _CMP_EQ_OQ;
        unordered = _CMP_UNORD_Q;
    }
    #[inline(always)]
    fn select(mask: Self::Mask, yes: Self, no: Self) -> Self {
        // SAFETY: the dispatch rule.
        Self(unsafe { _mm256_blendv_pd(no.0, yes.0, mask) })
    }
    #[inline(always)]
    fn bits(mask: Self::Mask) -> u64 {
        // SAFETY: the dispatch rule.
        unsafe { _mm256_movemask_pd(mask) as u64 }
    }

    #[inline(always)]
    fn sum_four([a, b, c, d]: [Self; 4]) -> [f64; 4] {
        // SAFETY: the dispatch rule.
        unsafe {
            let (ab, cd) = (_mm256_hadd_pd(a.0, b.0), _mm256_hadd_pd(c.0, d.0));
            let (low, high) = (_mm256_permute2f128_pd::<0x20>(ab, cd), _mm256_permute2f128_pd::<0x31>(ab, cd));
            let mut sums = [0.0; 4];
            _mm256_storeu_pd(sums.as_mut_ptr(), _mm256_add_pd(low, high));
            sums
        }
    }
}

impl F64x4 {
    /// `2^self` for integral lanes within the exponent range.
    #[inline(always)]
    fn pow2(self) -> Self {
        // The low bits of 1.5 * 2^52 + n are those of n.
        let shifted = self.add(Self::splat(6755399441055744.0 + 1023.0));
        // SAFETY: the dispatch rule.
        unsafe {
            let bits = _mm256_castpd_si256(shifted.0);
            Self(_mm256_castsi256_pd(_mm256_slli_epi64::<52>(bits)))
        }
    }
}
