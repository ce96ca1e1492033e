//! What the two codes of 4-bit NormalFloat in each byte stand for.

use super::memory::BLOCK;
use hal::quantised::NORMAL;

/// The shares of the codes in the first half of a block of bytes; of two in a byte, the first has the lower bits.
#[inline(always)]
pub(crate) fn shares(bytes: [u8; BLOCK]) -> [f32; BLOCK] {
    let mut shares = [0.0; BLOCK];
    let (low, high) = shares.split_at_mut(BLOCK / 2);
    vector(&bytes[..BLOCK / 4], low);
    vector(&bytes[BLOCK / 4..BLOCK / 2], high);
    shares
}

/// The shares of the codes of some bytes, of which the last one may be missing.
#[inline(always)]
pub(crate) fn vector(bytes: &[u8], shares: &mut [f32]) {
    #[cfg(target_arch = "x86_64")]
    match (shares.len(), bytes.len()) {
        // SAFETY: the processor has it, as just checked; and so many are there.
        (16, 8) if is_x86_feature_detected!("avx512f") => unsafe {
            return x86::sixteen(bytes.as_ptr(), shares.as_mut_ptr());
        },
        (8 | 16, 4 | 8) if is_x86_feature_detected!("avx2") => {
            for (bytes, shares) in bytes.chunks_exact(4).zip(shares.chunks_exact_mut(8)) {
                // SAFETY: likewise.
                unsafe { x86::eight(bytes.as_ptr(), shares.as_mut_ptr()) };
            }
            return;
        }
        _ => {}
    }
    each(bytes, shares);
}

#[inline(always)]
fn each(bytes: &[u8], shares: &mut [f32]) {
    for i in 0..shares.len() {
        shares[i] = NORMAL[usize::from(bytes[i / 2] >> (i % 2 * 4) & 15)];
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::NORMAL;
    use std::arch::x86_64::*;

    /// As [`super::vector`]: all codes choose among all shares at once.
    ///
    /// # Safety
    /// There are 8 bytes and 16 shares.
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) unsafe fn sixteen(bytes: *const u8, shares: *mut f32) {
        const { assert!(NORMAL.len() == 16) };
        // SAFETY: guaranteed by the caller; the table has as many shares as a vector.
        unsafe {
            let codes = interleaved(_mm_loadl_epi64(bytes.cast()));
            let all = _mm512_loadu_ps(NORMAL.as_ptr());
            let found = _mm512_permutexvar_ps(_mm512_cvtepu8_epi32(codes), all);
            _mm512_storeu_ps(shares, found);
        }
    }

    /// Likewise: codes choose among the lower and the upper shares.
    ///
    /// # Safety
    /// There are 4 bytes and 8 shares.
    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn eight(bytes: *const u8, shares: *mut f32) {
        // SAFETY: guaranteed by the caller; the table has as many shares as two vectors.
        unsafe {
            let codes = interleaved(_mm_cvtsi32_si128(bytes.cast::<i32>().read_unaligned()));
            let (lower, upper) = (
                _mm256_loadu_ps(NORMAL.as_ptr()),
                _mm256_loadu_ps(NORMAL[8..].as_ptr()),
            );
            let codes = _mm256_cvtepu8_epi32(codes);
            let is_upper = _mm256_castsi256_ps(_mm256_slli_epi32::<28>(codes));
            let found = _mm256_blendv_ps(
                _mm256_permutevar8x32_ps(lower, codes),
                _mm256_permutevar8x32_ps(upper, codes),
                is_upper,
            );
            _mm256_storeu_ps(shares, found);
        }
    }

    // Both codes of each byte, in bytes of their own.
    #[inline]
    #[target_feature(enable = "sse2")]
    fn interleaved(bytes: __m128i) -> __m128i {
        let four_bits = _mm_set1_epi8(15);
        let low = _mm_and_si128(bytes, four_bits);
        let high = _mm_and_si128(_mm_srli_epi16::<4>(bytes), four_bits);
        _mm_unpacklo_epi8(low, high)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_has_the_shares_of_its_two_codes() {
        for first in (0..256).step_by(BLOCK / 2) {
            let bytes = std::array::from_fn(|i| (first + i) as u8);
            let mut expected = [0.0; BLOCK];
            each(&bytes, &mut expected);
            assert_eq!(shares(bytes), expected);
            for len in [1, 7, 8, 15, 16] {
                let mut found = vec![0.0; len];
                vector(&bytes[..len.div_ceil(2)], &mut found);
                assert_eq!(found, expected[..len]);
            }
            let [low, high] = [first & 15, first >> 4].map(|code| NORMAL[code]);
            assert_eq!(shares(bytes)[..2], [low, high]);
        }
    }
}
