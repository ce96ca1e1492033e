//! What the two codes of 4-bit NormalFloat in each byte stand for.

use super::memory::BLOCK;
use hal::quantised::NORMAL;

/// The shares of the codes in the first half of a block of bytes; of two in a byte, the first has the lower bits.
#[inline(always)]
pub(super) fn shares(bytes: [u8; BLOCK]) -> [f32; BLOCK] {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has it, as just checked.
        return unsafe { avx2::shares(&bytes) };
    }
    each(bytes)
}

#[inline(always)]
fn each(bytes: [u8; BLOCK]) -> [f32; BLOCK] {
    let mut shares = [0.0; BLOCK];
    for pair in 0..BLOCK / 2 {
        let (low, high) = (bytes[pair] & 15, bytes[pair] >> 4);
        shares[2 * pair] = NORMAL[usize::from(low)];
        shares[2 * pair + 1] = NORMAL[usize::from(high)];
    }
    shares
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use super::{BLOCK, NORMAL};
    use std::arch::x86_64::*;

    /// As [`super::shares`]: eight codes at a time choose among the eight lower and the eight upper shares.
    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn shares(bytes: &[u8; BLOCK]) -> [f32; BLOCK] {
        const { assert!(BLOCK == 32) };
        let mut shares = [0.0f32; BLOCK];
        // SAFETY: the slices have as many elements as the vectors.
        let (bytes, lower, upper) = unsafe {
            (
                _mm_loadu_si128(bytes.as_ptr().cast()),
                _mm256_loadu_ps(NORMAL.as_ptr()),
                _mm256_loadu_ps(NORMAL[8..].as_ptr()),
            )
        };
        let four_bits = _mm_set1_epi8(15);
        let low = _mm_and_si128(bytes, four_bits);
        let high = _mm_and_si128(_mm_srli_epi16::<4>(bytes), four_bits);
        let codes = [_mm_unpacklo_epi8(low, high), _mm_unpackhi_epi8(low, high)];
        for (sixteen, shares) in codes.into_iter().zip(shares.chunks_exact_mut(16)) {
            let eights = [sixteen, _mm_srli_si128::<8>(sixteen)];
            for (eight, shares) in eights.into_iter().zip(shares.chunks_exact_mut(8)) {
                let codes = _mm256_cvtepu8_epi32(eight);
                let is_upper = _mm256_castsi256_ps(_mm256_slli_epi32::<28>(codes));
                let found = _mm256_blendv_ps(
                    _mm256_permutevar8x32_ps(lower, codes),
                    _mm256_permutevar8x32_ps(upper, codes),
                    is_upper,
                );
                // SAFETY: the chunk has eight elements.
                unsafe { _mm256_storeu_ps(shares.as_mut_ptr(), found) };
            }
        }
        shares
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_has_the_shares_of_its_two_codes() {
        for first in (0..256).step_by(BLOCK / 2) {
            let bytes = std::array::from_fn(|i| (first + i) as u8);
            assert_eq!(shares(bytes), each(bytes));
            let [low, high] = [first & 15, first >> 4].map(|code| NORMAL[code]);
            assert_eq!(shares(bytes)[..2], [low, high]);
        }
    }
}
