//! A counter-based generator: a number is a function of its key, not of earlier draws.
//!
//! # Source
//! The idea: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (SC 2011). The mixing step: the finaliser
//! of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).

/// 2^64 divided by the golden ratio, made odd: keeps a chain of zeros from staying at zero.
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// Spreads each bit of `word` over the whole result; a bijection.
fn mix(word: u64) -> u64 {
    let word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    word ^ (word >> 31)
}

/// The random word that belongs to `key`.
pub(super) fn word(key: &[u64]) -> u64 {
    key.iter().fold(GOLDEN, |state, &part| {
        mix((state ^ part).wrapping_add(GOLDEN))
    })
}

/// The random number below `bound` that belongs to `key`; `bound` is at least 1.
///
/// Takes the high half of a product, which deviates from uniform by less than `bound` / 2^64.
pub(super) fn below(bound: usize, key: &[u64]) -> usize {
    let product = u128::from(word(key)) * bound as u128;
    (product >> 64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_differ_in_every_part() {
        let words = [
            word(&[1, 2, 3]),
            word(&[1, 3, 2]),
            word(&[0, 2, 3]),
            word(&[1, 2]),
            word(&[]),
        ];
        for (index, first) in words.iter().enumerate() {
            assert!(words[index + 1..].iter().all(|second| second != first));
        }
    }

    #[test]
    fn numbers_fill_the_bound_evenly() {
        let mut counts = [0usize; 10];
        (0..10_000).for_each(|draw| counts[below(10, &[7, draw])] += 1);
        // 1000 expected, standard deviation 30; the bound is five of them.
        assert!(
            counts.iter().all(|count| count.abs_diff(1000) < 150),
            "{counts:?}"
        );
    }

    #[test]
    fn one_choice_is_zero() {
        assert!((0..100).all(|draw| below(1, &[draw]) == 0));
    }
}
