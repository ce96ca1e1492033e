//! Rotary positions.

use crate::{
    RawSlice,
    operand::{READ, WRITE, operands},
};
use std::f64::consts::TAU;

/// The frequencies by which rotary positions turn the pairs of a head.
///
/// If `turned` elements of a head turn, pair e has frequency `base^(-2 e / turned)`, in radians a token, unless it is stretched.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RotaryFrequencies {
    /// 10,000 in Llama 2, 500,000 in Llama 3.
    pub base: f64,
    /// A change of low frequencies, for a context beyond that of the first training.
    pub stretch: Option<RotaryStretch>,
}

/// Divides frequencies whose wavelengths are long by a factor.
///
/// The wavelength of frequency f is 2 pi / f tokens. Of a wavelength between `short` and `long`, the share of its
/// frequency that stays grows with the frequency, from 0 at `long` to 1 at `short`. If both are 0, all frequencies are
/// divided.
///
/// # Source
/// The Llama 3 Herd of Models (arXiv 2407.21783), section 3.4, and the scaling of type `llama3` in configurations of the
/// library transformers; `short` = `long` = 0 is linear interpolation (arXiv 2306.15595).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RotaryStretch {
    /// The divisor; above 0.
    pub factor: f64,
    /// Wavelengths below it, in tokens, stay.
    pub short: f64,
    /// Wavelengths above it, in tokens, are multiplied by the factor. At least `short`.
    pub long: f64,
}

impl From<f64> for RotaryFrequencies {
    fn from(base: f64) -> RotaryFrequencies {
        RotaryFrequencies {
            base,
            stretch: None,
        }
    }
}

impl RotaryFrequencies {
    /// The frequency of pair `pair` of the `turned` elements of a head, in radians a token.
    pub fn of_pair(&self, pair: usize, turned: usize) -> f64 {
        let frequency = self.base.powf(-2.0 * pair as f64 / turned as f64);
        self.stretch
            .map_or(frequency, |stretch| stretch.of(frequency))
    }
}

impl RotaryStretch {
    /// The change of a frequency in radians a token.
    pub fn of(&self, frequency: f64) -> f64 {
        let share = ((frequency / TAU - self.lowest()) * self.per_turn()).clamp(0.0, 1.0);
        frequency * (share + (1.0 - share) / self.factor)
    }

    /// The turns a token below which no share of a frequency stays.
    pub fn lowest(&self) -> f64 {
        match self.long > 0.0 {
            true => 1.0 / self.long,
            false => 0.0,
        }
    }

    /// How much the share grows for each turn a token above [`lowest`](RotaryStretch::lowest).
    pub fn per_turn(&self) -> f64 {
        match self.short > 0.0 {
            // A step instead of a slope where both wavelengths are the same.
            true => (1.0 / (1.0 / self.short - self.lowest())).min(f64::MAX),
            false => 0.0,
        }
    }
}

/// Rotary position embedding: rotates the pair (e, e + turned / 2) of every head by its position times the pair's frequency. The
/// elements of a head behind the first `turned` stay.
///
/// Row r of `x` has position `first_position + r % sequence`, or what `places` gives for it. Backward rotates in the opposite direction.
#[derive(Clone, Debug, PartialEq)]
pub struct Rope {
    /// rows x (heads * head_size), any float type.
    pub x: RawSlice,
    /// As `x`; may be `x`.
    pub out: RawSlice,
    /// Number of rows.
    pub rows: usize,
    /// Rows per sequence.
    pub sequence: usize,
    /// Position of the first row of every sequence.
    pub first_position: usize,
    /// rows, u32: the position of each row, in place of the two above.
    pub places: Option<RawSlice>,
    /// Heads per row.
    pub heads: usize,
    /// Elements of a head.
    pub head_size: usize,
    /// How many of them turn; even, and at least 2.
    pub turned: usize,
    /// The frequency of each pair of features.
    pub frequencies: RotaryFrequencies,
    /// Rotates in the opposite direction.
    pub backward: bool,
}

operands! {
    Rope { x: READ, places: READ, out: WRITE.in_place() ; rows, sequence, first_position, heads, head_size, turned, frequencies, backward }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LLAMA: RotaryStretch = RotaryStretch {
        factor: 8.0,
        short: 8192.0 / 4.0,
        long: 8192.0,
    };

    #[test]
    fn short_wavelengths_stay_and_long_ones_are_stretched() {
        let of_wavelength = |tokens: f64| LLAMA.of(TAU / tokens) * tokens / TAU;
        let near = |found: f64, needed: f64| (found - needed).abs() < 1e-12;
        assert!(near(of_wavelength(100.0), 1.0));
        assert!(near(of_wavelength(10_000.0), 1.0 / 8.0));
        // Halfway between 1 / 8192 and 4 / 8192 turns a token.
        assert!(near(of_wavelength(8192.0 / 2.5), 0.5 + 0.5 / 8.0));
    }

    #[test]
    fn without_wavelengths_all_are_divided() {
        let linear = RotaryStretch {
            factor: 4.0,
            short: 0.0,
            long: 0.0,
        };
        let plain = RotaryFrequencies::from(1e4);
        let stretched = RotaryFrequencies {
            stretch: Some(linear),
            ..plain
        };
        for pair in 0..8 {
            assert_eq!(stretched.of_pair(pair, 16), plain.of_pair(pair, 16) / 4.0);
        }
    }

    #[test]
    fn equal_wavelengths_are_a_step() {
        let step = RotaryStretch {
            short: 100.0,
            long: 100.0,
            ..LLAMA
        };
        assert_eq!(step.of(TAU / 99.0), TAU / 99.0);
        assert_eq!(step.of(TAU / 101.0), TAU / 101.0 / 8.0);
    }
}
