//! A shuffled order that needs no table.

use super::random;

/// Enough for the four halves' worth of mixing that a balanced network needs, with two to spare.
const NUM_ROUNDS: u64 = 6;

/// A seeded permutation of `0..length`, computed index by index in constant memory.
///
/// A Feistel network permutes the next even power of two. A result outside the length passes through the
/// network again until it is inside, which takes fewer than four passes on average.
///
/// # Source
/// Black and Rogaway, "Ciphers with arbitrary finite domains" (CT-RSA 2002), the cycle-walking cipher.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Permutation {
    length: u64,
    half_bits: u32,
    key: u64,
}

impl Permutation {
    /// The permutation of `0..length` that belongs to `key`.
    pub fn new(length: usize, key: u64) -> Permutation {
        let length = length as u64;
        let bits = u64::BITS - length.saturating_sub(1).leading_zeros();
        Permutation {
            length,
            half_bits: bits.div_ceil(2).max(1),
            key,
        }
    }

    /// The image of `index`.
    ///
    /// # Panics
    /// When `index` is not below the length: the caller's bug.
    pub fn apply(&self, index: usize) -> usize {
        let mut value = index as u64;
        assert!(
            value < self.length,
            "bug: place {value} of a permutation of {}",
            self.length
        );
        loop {
            value = self.network(value);
            if value < self.length {
                return value as usize;
            }
        }
    }

    /// One pass through the network, over twice `half_bits` bits.
    fn network(&self, value: u64) -> u64 {
        let mask = (1u64 << self.half_bits) - 1;
        let (mut left, mut right) = (value >> self.half_bits, value & mask);
        for round in 0..NUM_ROUNDS {
            (left, right) = (
                right,
                left ^ (random::word(&[self.key, round, right]) & mask),
            );
        }
        (left << self.half_bits) | right
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_place_is_hit_once(length in 1usize..3000, key: u64) {
            let permutation = Permutation::new(length, key);
            let mut seen = vec![false; length];
            for index in 0..length {
                let place = permutation.apply(index);
                prop_assert!(!seen[place], "{place} twice");
                seen[place] = true;
            }
        }

        #[test]
        fn long_lengths_stay_inside(length in 1usize..=usize::MAX, key: u64, at in 0.0f64..1.0) {
            let index = ((length as f64 * at) as usize).min(length - 1);
            prop_assert!(Permutation::new(length, key).apply(index) < length);
        }
    }

    #[test]
    fn keys_give_different_orders_and_few_fixed_places() {
        let orders: Vec<Vec<usize>> = (0..20)
            .map(|key| {
                (0..1000)
                    .map(|index| Permutation::new(1000, key).apply(index))
                    .collect()
            })
            .collect();
        assert!(orders.windows(2).all(|pair| pair[0] != pair[1]));
        let fixed: usize = orders
            .iter()
            .map(|order| {
                order
                    .iter()
                    .enumerate()
                    .filter(|(at, to)| at == *to)
                    .count()
            })
            .sum();
        // A random permutation has one fixed point on average, so 20 here; 60 would be nine standard deviations
        // away.
        assert!(fixed < 60, "{fixed}");
    }
}
