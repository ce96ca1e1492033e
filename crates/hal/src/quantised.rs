//! Weights as codes of 8 or 4 bits: the shares for which codes stand, and how a rank's part of a matrix is stored.
//!
//! A code stands for a share, -1 to 1, of its block's scale, which is the largest magnitude of the block. Blocks are runs of
//! [`BLOCK`] elements of a row of the whole matrix, so they do not depend on how it is cut.
//!
//! # Source
//! Dettmers et al., QLoRA: Efficient Finetuning of Quantized LLMs, arXiv:2305.14314: blocks of 64, and the table of 4-bit
//! NormalFloat in appendix E.

use crate::threads;
use std::{fmt, str::FromStr};

/// Elements of a row that share a scale.
pub const BLOCK: usize = 64;

/// The alignment of stored weights, and of the codes in them.
pub const ALIGNMENT: usize = 16;

/// The most rows of a product that reads codes. With more, it takes less time to compute the weights once and multiply by them.
pub const MOST_ROWS: usize = 16;

/// The share of the integer 1: the nearest f32 to 1/127. 127 times it rounds to 1.
pub const STEP: f32 = 1.0 / 127.0;

/// The shares of 4-bit NormalFloat: quantiles of the normal distribution, scaled to -1 to 1, with a zero.
pub const NORMAL: [f32; 16] = [
    -1.0,
    -0.696_192_8,
    -0.525_073_05,
    -0.394_917_5,
    -0.284_441_38,
    -0.184_773_43,
    -0.091_050_036,
    0.0,
    0.079_580_3,
    0.160_930_2,
    0.246_112_3,
    0.337_915_24,
    0.440_709_83,
    0.562_617,
    0.722_956_84,
    1.0,
];

// Between the shares of neighbouring codes.
const MIDDLES: [f64; 15] = {
    let (mut middles, mut code) = ([0.0; 15], 0);
    while code < middles.len() {
        middles[code] = (NORMAL[code] as f64 + NORMAL[code + 1] as f64) / 2.0;
        code += 1;
    }
    middles
};

/// How weights are coded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Quantised {
    /// Integers from -127 to 127, of 8 bits.
    Int8,
    /// 4-bit NormalFloat.
    Nf4,
}

impl Quantised {
    /// All formats.
    pub const ALL: [Quantised; 2] = [Quantised::Int8, Quantised::Nf4];

    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Quantised::Int8 => "int8",
            Quantised::Nf4 => "nf4",
        }
    }

    /// Bits of a code.
    pub const fn bits(self) -> usize {
        match self {
            Quantised::Int8 => 8,
            Quantised::Nf4 => 4,
        }
    }

    /// Bytes of a weight, with its share of a scale, in a large matrix.
    pub const fn bytes_per_weight(self) -> f64 {
        self.bits() as f64 / 8.0 + size_of::<f32>() as f64 / BLOCK as f64
    }

    /// The shares for which the codes stand, by code: 256 or 16 of them.
    pub fn shares(self) -> Vec<f32> {
        match self {
            Quantised::Int8 => (0..=u8::MAX).map(share_of_integer).collect(),
            Quantised::Nf4 => NORMAL.to_vec(),
        }
    }

    /// The code whose share is nearest to `share`; 0 for NaN.
    pub fn nearest(self, share: f64) -> u8 {
        match self {
            Quantised::Int8 => (share * 127.0).round().clamp(-127.0, 127.0) as i8 as u8,
            Quantised::Nf4 => MIDDLES.partition_point(|middle| share > *middle) as u8,
        }
    }
}

/// The share for which a code of 8 bits stands. That of the lowest integer, which has no negative, is its neighbour's.
#[inline(always)]
pub fn share_of_integer(code: u8) -> f32 {
    f32::from((code as i8).max(-127)) * STEP
}

impl fmt::Display for Quantised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Quantised {
    type Err = crate::Error;

    /// One of the [words](Quantised::name).
    fn from_str(text: &str) -> Result<Quantised, crate::Error> {
        let mut all = Quantised::ALL.into_iter();
        let named = all.find(|format| format.name() == text);
        named.ok_or_else(|| {
            crate::Error::invalid("format", format!("found `{text}`"), "int8 or nf4")
        })
    }
}

/// A rank's part of a matrix, whose stored weights are the scales of its blocks, row by row, in f32, and then the codes of its
/// elements; of two 4-bit codes in a byte, the first has the lower bits. Both are filled up to a multiple of [`ALIGNMENT`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct QuantisedPart {
    /// How weights are coded.
    pub format: Quantised,
    /// Rows of the part.
    pub rows: usize,
    /// Its columns.
    pub columns: usize,
    /// The first of them in the whole matrix.
    pub first_column: usize,
}

impl QuantisedPart {
    /// Its elements; `None` if no number is large enough for its elements and bytes.
    pub fn checked_elements(&self) -> Option<usize> {
        let end = self
            .first_column
            .checked_add(self.columns)?
            .checked_add(BLOCK)?;
        // At most a scale for each element and two more for each row.
        let row = end.checked_mul(3 * size_of::<f32>() + 1)?;
        self.rows.checked_add(ALIGNMENT)?.checked_mul(row)?;
        Some(self.rows * self.columns)
    }

    /// The blocks of a whole row that its columns touch.
    pub const fn blocks_of_row(&self) -> std::ops::Range<usize> {
        let start = self.first_column / BLOCK;
        match self.columns {
            0 => start..start,
            columns => start..(self.first_column + columns).div_ceil(BLOCK),
        }
    }

    /// Its scales.
    pub fn num_scales(&self) -> usize {
        self.rows * self.blocks_of_row().len()
    }

    /// The byte at which the codes begin.
    pub fn first_code(&self) -> usize {
        (self.num_scales() * size_of::<f32>()).next_multiple_of(ALIGNMENT)
    }

    /// Bytes of the stored weights.
    pub fn bytes(&self) -> usize {
        let codes = (self.rows * self.columns * self.format.bits()).div_ceil(8);
        self.first_code() + codes.next_multiple_of(ALIGNMENT)
    }

    /// The scale that belongs to an element, by its index.
    #[inline(always)]
    pub fn scale_of(&self, element: usize) -> usize {
        let (row, column) = (element / self.columns, element % self.columns);
        let blocks = self.blocks_of_row();
        row * blocks.len() + (self.first_column + column) / BLOCK - blocks.start
    }

    /// The largest magnitudes in each block, among these elements.
    ///
    /// # Panics
    /// Unless there are as many numbers as elements.
    pub fn scales(&self, numbers: &[f64]) -> Vec<f32> {
        assert_eq!(numbers.len(), self.rows * self.columns);
        let mut scales = vec![0.0f64; self.num_scales()];
        for (element, number) in numbers.iter().enumerate() {
            let scale = &mut scales[self.scale_of(element)];
            *scale = scale.max(number.abs());
        }
        scales.into_iter().map(|scale| scale as f32).collect()
    }

    /// The stored weights of these elements and scales, which are those of [`scales`](Self::scales) over all ranks that hold a
    /// part of a block, coded on that many threads. What a stored weight stands for is stored as the same bytes again.
    ///
    /// # Panics
    /// Unless there are as many numbers as elements, and as many scales as blocks.
    pub fn store(&self, threads: usize, numbers: &[f64], scales: &[f32]) -> Vec<u8> {
        assert_eq!(numbers.len(), self.rows * self.columns);
        assert_eq!(scales.len(), self.num_scales());
        let mut stored = vec![0; self.bytes()];
        for (bytes, scale) in stored.chunks_exact_mut(size_of::<f32>()).zip(scales) {
            bytes.copy_from_slice(&scale.to_ne_bytes());
        }
        // Two rows have complete bytes.
        let (of_two, threads) = (2 * self.columns, threads.max(1));
        let pairs = self.rows.div_ceil(2).div_ceil(threads).max(1);
        let (elements, bytes) = (pairs * of_two, pairs * of_two * self.format.bits() / 8);
        if elements > 0 {
            let codes = stored[self.first_code()..].chunks_mut(bytes);
            let shares = numbers.chunks(elements).zip(codes).enumerate();
            threads::on_each(shares, |(share, (numbers, codes))| {
                self.code((share * elements, numbers), scales, codes);
            });
        }
        stored
    }

    /// Whether stored weights stand for exactly these numbers, none of which coding has rounded; compared on that many threads.
    ///
    /// # Panics
    /// Unless there are as many numbers as elements, and the bytes are a part's.
    pub fn stands_for(&self, threads: usize, numbers: &[f64], stored: &[u8]) -> bool {
        assert_eq!(numbers.len(), self.rows * self.columns);
        assert_eq!(stored.len(), self.bytes());
        let (shares, codes) = (self.format.shares(), &stored[self.first_code()..]);
        let value = |element: usize| {
            let code = match self.format {
                Quantised::Int8 => codes[element],
                Quantised::Nf4 => codes[element / 2] >> (element % 2 * 4) & 15,
            };
            let at = self.scale_of(element) * size_of::<f32>();
            let scale = stored[at..]
                .first_chunk()
                .map_or(0.0, |scale| f32::from_ne_bytes(*scale));
            f64::from(shares[usize::from(code)] * scale)
        };
        threads::all(threads, numbers, |first, numbers| {
            let mut elements = (first..).zip(numbers);
            elements.all(|(element, number)| value(element) == *number)
        })
    }

    // The codes of elements from `first` on.
    fn code(&self, (first, numbers): (usize, &[f64]), scales: &[f32], codes: &mut [u8]) {
        for (element, number) in numbers.iter().enumerate() {
            let scale = f64::from(scales[self.scale_of(first + element)]);
            // In a block of zeros each code stands for 0; all have the same.
            let share = if scale > 0.0 { number / scale } else { 0.0 };
            let code = self.format.nearest(share);
            match self.format {
                Quantised::Int8 => codes[element] = code,
                Quantised::Nf4 => codes[element / 2] |= code << (element % 2 * 4),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // The normal distribution's, by Simpson's rule.
    fn probability_below(x: f64) -> f64 {
        let steps = 2000;
        let density = |x: f64| (-0.5 * x * x).exp() / (2.0 * std::f64::consts::PI).sqrt();
        let width = x / steps as f64;
        let sum: f64 = (0..=steps)
            .map(|step| {
                let weight = match step {
                    0 => 1.0,
                    _ if step == steps => 1.0,
                    _ if step % 2 == 1 => 4.0,
                    _ => 2.0,
                };
                weight * density(step as f64 * width)
            })
            .sum();
        0.5 + sum * width / 3.0
    }

    fn quantile(probability: f64) -> f64 {
        let (mut low, mut high) = (0.0, 8.0);
        for _ in 0..60 {
            let middle = (low + high) / 2.0;
            match probability_below(middle) < probability {
                true => low = middle,
                false => high = middle,
            }
        }
        low
    }

    // Appendix E: 8 steps from the offset's quantile to 0 above, and 7 below.
    #[test]
    fn normal_floats_are_quantiles() {
        let offset = 0.967_708_3;
        let side = |steps: usize| -> Vec<f64> {
            let at = |step: usize| offset + (0.5 - offset) * step as f64 / steps as f64;
            (0..steps)
                .map(|step| quantile(at(step)) / quantile(offset))
                .collect()
        };
        let below = side(7).into_iter().map(|share| -share);
        let above: Vec<f64> = side(8).into_iter().rev().collect();
        let all: Vec<f64> = below.chain([0.0]).chain(above).collect();
        for (found, needed) in NORMAL.iter().zip(all) {
            assert!(
                (f64::from(*found) - needed).abs() < 1e-5,
                "{found} {needed}"
            );
        }
    }

    #[test]
    fn the_ends_stand_for_the_scale_itself() {
        for format in Quantised::ALL {
            let shares = format.shares();
            assert_eq!(shares.len(), 1 << format.bits());
            for end in [-1.0, 1.0] {
                assert_eq!(shares[usize::from(format.nearest(end))], end as f32);
            }
            assert_eq!(shares[usize::from(format.nearest(0.0))], 0.0);
            assert_eq!(format.name().parse::<Quantised>().unwrap(), format);
        }
        assert!("int4".parse::<Quantised>().is_err());
    }

    fn values(part: &QuantisedPart, stored: &[u8]) -> Vec<f64> {
        let (shares, codes) = (part.format.shares(), &stored[part.first_code()..]);
        let of_element = |element: usize| {
            let code = match part.format {
                Quantised::Int8 => codes[element],
                Quantised::Nf4 => codes[element / 2] >> (element % 2 * 4) & 15,
            };
            let at = part.scale_of(element) * 4;
            let scale = f32::from_ne_bytes(stored[at..at + 4].try_into().unwrap());
            f64::from(shares[usize::from(code)] * scale)
        };
        (0..part.rows * part.columns).map(of_element).collect()
    }

    #[test]
    fn stored_weights_are_near_and_stay_as_they_are() {
        for format in Quantised::ALL {
            for (rows, columns, first_column) in [(3, 200, 0), (5, 33, 60), (1, 1, 63), (2, 64, 64)]
            {
                let part = QuantisedPart {
                    format,
                    rows,
                    columns,
                    first_column,
                };
                let len = part.checked_elements().unwrap();
                let numbers: Vec<f64> = (0..len)
                    .map(|i| ((i * 7919 % 1000) as f64 - 500.0) / 300.0)
                    .collect();
                let scales = part.scales(&numbers);
                let stored = part.store(1, &numbers, &scales);
                assert_eq!(part.store(3, &numbers, &scales), stored);
                assert_eq!(stored.len(), part.bytes());
                let found = values(&part, &stored);
                for threads in [1, 3] {
                    assert!(part.stands_for(threads, &found, &stored));
                    let is_exact = found == numbers;
                    assert_eq!(part.stands_for(threads, &numbers, &stored), is_exact);
                    let mut other = found.clone();
                    other[len - 1] += 1e-3;
                    assert!(!part.stands_for(threads, &other, &stored));
                }
                let widest = match format {
                    Quantised::Int8 => 0.5 / 127.0,
                    Quantised::Nf4 => (1.0 - 0.6961) / 2.0,
                };
                for (element, (found, number)) in found.iter().zip(&numbers).enumerate() {
                    let scale = f64::from(scales[part.scale_of(element)]);
                    assert!(
                        (found - number).abs() <= widest * scale * 1.001,
                        "{found} {number}"
                    );
                }
                assert_eq!(part.scales(&found), scales);
                assert_eq!(part.store(2, &found, &scales), stored);
            }
        }
    }

    #[test]
    fn the_lowest_integer_stands_for_its_neighbours_share() {
        let shares = Quantised::Int8.shares();
        assert_eq!(shares[128], -1.0);
        assert_eq!(shares[129], -1.0);
    }

    #[test]
    fn parts_without_end_have_no_elements() {
        let part = QuantisedPart {
            format: Quantised::Nf4,
            rows: usize::MAX / 4,
            columns: 8,
            first_column: 0,
        };
        assert_eq!(part.checked_elements(), None);
    }
}
