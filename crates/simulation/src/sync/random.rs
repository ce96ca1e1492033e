//! Choices that a seed decides.

/// SplitMix64.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The choices of a seed.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mix(self.0)
    }

    /// A number below the limit, which is at least 1.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.number() % limit
    }

    /// One of these, of which there is at least one.
    pub fn one_of<T: Copy>(&mut self, among: &[T]) -> T {
        among[self.below(among.len() as u64) as usize]
    }

    /// A generator for another purpose, so that its number of choices does not move those of this one.
    pub fn fork(&mut self) -> Random {
        Random(self.number())
    }
}

/// Spreads every bit of a number over all bits of the result.
pub(super) fn mix(number: u64) -> u64 {
    let mixed = (number ^ (number >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}
