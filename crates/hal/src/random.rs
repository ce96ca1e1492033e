//! The counter-based generator that every vendor shares.
//!
//! A number is a function of a key and an index, without state. Ranks that hold the same element draw the same
//! number without communication, so dropout masks and initial values are the same on every grid and vendor.
//!
//! # Source
//! Philox4x32-10 of Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC11.

/// Names a sequence of random numbers: 64 bits of seed, and 64 bits that distinguish the draws under one seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// The run's seed.
    pub seed: u64,
    /// The sequence under that seed: a hash of what is drawn, and the step.
    pub sequence: u64,
}

/// Rounds of the generator.
pub const ROUNDS: usize = 10;

impl Key {
    /// The sequence for `name` (a parameter, a layer) at `step`.
    pub fn new(seed: u64, name: &str, step: u64) -> Key {
        let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325u64, |h, b| {
            (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3)
        });
        Key {
            seed,
            sequence: hash ^ step.wrapping_mul(0x9e37_79b9_7f4a_7c15),
        }
    }

    /// The generator's key in each round, which follows from the seed alone.
    #[inline(always)]
    pub fn round_keys(self) -> [[u32; 2]; ROUNDS] {
        let first = [self.seed as u32, (self.seed >> 32) as u32];
        std::array::from_fn(|round| {
            let of_round =
                |first: u32, step: u32| first.wrapping_add(step.wrapping_mul(round as u32));
            [
                of_round(first[0], 0x9E37_79B9),
                of_round(first[1], 0xBB67_AE85),
            ]
        })
    }

    /// Four random words for a block of four indices: index i is word `i % 4` of block `i / 4`.
    #[inline(always)]
    pub fn block(self, block: u64) -> [u32; 4] {
        let mut counter = [
            block as u32,
            (block >> 32) as u32,
            self.sequence as u32,
            (self.sequence >> 32) as u32,
        ];
        for key in self.round_keys() {
            let a = u64::from(counter[0]) * 0xD251_1F53;
            let b = u64::from(counter[2]) * 0xCD9E_8D57;
            counter = [
                (b >> 32) as u32 ^ counter[1] ^ key[0],
                b as u32,
                (a >> 32) as u32 ^ counter[3] ^ key[1],
                a as u32,
            ];
        }
        counter
    }

    /// The random word of `index`.
    #[inline(always)]
    pub fn word(self, index: u64) -> u32 {
        self.block(index / 4)[(index % 4) as usize]
    }

    /// A uniform number in [0, 1) for `index`: the word's upper 24 bits.
    #[inline(always)]
    pub fn uniform(self, index: u64) -> f32 {
        unit(self.word(index))
    }

    /// A standard normal number for `index`, by the Box-Muller transform of two words of its own block.
    pub fn normal(self, index: u64) -> f64 {
        let [a, b, ..] = self.block(index);
        let radius = (-2.0 * ((f64::from(a) + 1.0) / 4_294_967_296.0).ln()).sqrt();
        radius * (std::f64::consts::TAU * f64::from(b) / 4_294_967_296.0).cos()
    }
}

/// The number in [0, 1) that a random word represents.
#[inline(always)]
pub fn unit(word: u32) -> f32 {
    (word >> 8) as f32 / 16_777_216.0
}

#[cfg(test)]
mod tests {
    use super::*;

    // The known answers that the authors of the generator publish (Random123, kat_vectors).
    #[test]
    fn matches_the_published_answers() {
        assert_eq!(
            Key {
                seed: 0,
                sequence: 0
            }
            .block(0),
            [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]
        );
        let ones = Key {
            seed: u64::MAX,
            sequence: u64::MAX,
        };
        assert_eq!(
            ones.block(u64::MAX),
            [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]
        );
    }

    #[test]
    fn normal_numbers_have_mean_0_and_variance_1() {
        let key = Key::new(7, "test", 0);
        let draws: Vec<f64> = (0..20_000).map(|i| key.normal(i)).collect();
        let mean = draws.iter().sum::<f64>() / 20_000.0;
        let variance = draws.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / 20_000.0;
        assert!(
            mean.abs() < 0.03 && (variance - 1.0).abs() < 0.05,
            "mean {mean}, variance {variance}"
        );
    }
}
