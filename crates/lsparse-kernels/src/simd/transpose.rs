//! Turning squares of four times four numbers in registers, the same with AVX2 and AVX-512.

use std::arch::x86_64::*;

/// # Safety
/// See [`Vector::transpose_four`](super::Vector::transpose_four).
#[inline(always)]
pub unsafe fn four_f32(from: [*const f32; 4], to: *mut f32, stride: usize) {
    // SAFETY: SSE is part of x86-64; the caller's promise covers the memory.
    unsafe {
        let [a, b, c, d] = from.map(|from| _mm_loadu_ps(from));
        let (ab_low, ab_high) = (_mm_unpacklo_ps(a, b), _mm_unpackhi_ps(a, b));
        let (cd_low, cd_high) = (_mm_unpacklo_ps(c, d), _mm_unpackhi_ps(c, d));
        _mm_storeu_ps(to, _mm_movelh_ps(ab_low, cd_low));
        _mm_storeu_ps(to.add(stride), _mm_movehl_ps(cd_low, ab_low));
        _mm_storeu_ps(to.add(2 * stride), _mm_movelh_ps(ab_high, cd_high));
        _mm_storeu_ps(to.add(3 * stride), _mm_movehl_ps(cd_high, ab_high));
    }
}

/// # Safety
/// See [`Vector::transpose_four`](super::Vector::transpose_four); the CPU must have AVX.
#[inline(always)]
pub unsafe fn four_f64(from: [*const f64; 4], to: *mut f64, stride: usize) {
    // SAFETY: the caller's promises.
    unsafe {
        let [a, b, c, d] = from.map(|from| _mm256_loadu_pd(from));
        let (ab_even, ab_odd) = (_mm256_unpacklo_pd(a, b), _mm256_unpackhi_pd(a, b));
        let (cd_even, cd_odd) = (_mm256_unpacklo_pd(c, d), _mm256_unpackhi_pd(c, d));
        _mm256_storeu_pd(to, _mm256_permute2f128_pd::<0x20>(ab_even, cd_even));
        _mm256_storeu_pd(to.add(stride), _mm256_permute2f128_pd::<0x20>(ab_odd, cd_odd));
        _mm256_storeu_pd(to.add(2 * stride), _mm256_permute2f128_pd::<0x31>(ab_even, cd_even));
        _mm256_storeu_pd(to.add(3 * stride), _mm256_permute2f128_pd::<0x31>(ab_odd, cd_odd));
    }
}
