//! A vector of codes as the numbers for which they stand, in the instructions of x86-64.
//!
//! Each function writes shares times `scale`. All of them are inlined where they are used, so that the numbers stay in registers.

use hal::quantised::{NORMAL, STEP};
use std::arch::x86_64::*;

/// 16 integers.
///
/// # Safety
/// The codes and the room are there.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn sixteen_integers(codes: *const u8, scale: f32, out: *mut f32) {
    // SAFETY: guaranteed by the caller.
    let codes = unsafe { _mm_loadu_si128(codes.cast()) };
    let integers = _mm512_max_epi32(_mm512_cvtepi8_epi32(codes), _mm512_set1_epi32(-127));
    let shares = _mm512_mul_ps(_mm512_cvtepi32_ps(integers), _mm512_set1_ps(STEP));
    // SAFETY: as above.
    unsafe { _mm512_storeu_ps(out, _mm512_mul_ps(shares, _mm512_set1_ps(scale))) };
}

/// 8 integers.
///
/// # Safety
/// The codes and the room are there.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) unsafe fn eight_integers(codes: *const u8, scale: f32, out: *mut f32) {
    // SAFETY: guaranteed by the caller.
    let codes = unsafe { _mm_loadl_epi64(codes.cast()) };
    let integers = _mm256_max_epi32(_mm256_cvtepi8_epi32(codes), _mm256_set1_epi32(-127));
    let shares = _mm256_mul_ps(_mm256_cvtepi32_ps(integers), _mm256_set1_ps(STEP));
    // SAFETY: as above.
    unsafe { _mm256_storeu_ps(out, _mm256_mul_ps(shares, _mm256_set1_ps(scale))) };
}

/// The 4-bit codes of 8 bytes: they choose among all shares at once.
///
/// # Safety
/// The codes and the room are there.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn sixteen_normals(codes: *const u8, scale: f32, out: *mut f32) {
    const { assert!(NORMAL.len() == 16) };
    // SAFETY: guaranteed by the caller; the table has as many shares as a vector.
    unsafe {
        let codes = interleaved(_mm_loadl_epi64(codes.cast()));
        let all = _mm512_loadu_ps(NORMAL.as_ptr());
        let shares = _mm512_permutexvar_ps(_mm512_cvtepu8_epi32(codes), all);
        _mm512_storeu_ps(out, _mm512_mul_ps(shares, _mm512_set1_ps(scale)));
    }
}

/// The 4-bit codes of 4 bytes: they choose among the lower and the upper shares.
///
/// # Safety
/// The codes and the room are there.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) unsafe fn eight_normals(codes: *const u8, scale: f32, out: *mut f32) {
    // SAFETY: guaranteed by the caller; the table has as many shares as two vectors.
    unsafe {
        let codes = interleaved(_mm_cvtsi32_si128(codes.cast::<i32>().read_unaligned()));
        let lower = _mm256_loadu_ps(NORMAL.as_ptr());
        let upper = _mm256_loadu_ps(NORMAL[8..].as_ptr());
        let codes = _mm256_cvtepu8_epi32(codes);
        let is_upper = _mm256_castsi256_ps(_mm256_slli_epi32::<28>(codes));
        let shares = _mm256_blendv_ps(
            _mm256_permutevar8x32_ps(lower, codes),
            _mm256_permutevar8x32_ps(upper, codes),
            is_upper,
        );
        _mm256_storeu_ps(out, _mm256_mul_ps(shares, _mm256_set1_ps(scale)));
    }
}

// Both codes of each of the first 8 bytes, in bytes of their own.
#[inline]
#[target_feature(enable = "sse2")]
fn interleaved(bytes: __m128i) -> __m128i {
    let four_bits = _mm_set1_epi8(15);
    let low = _mm_and_si128(bytes, four_bits);
    let high = _mm_and_si128(_mm_srli_epi16::<4>(bytes), four_bits);
    _mm_unpacklo_epi8(low, high)
}
