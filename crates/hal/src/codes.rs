//! Numbers as bytes: dynamic tree codes, whose small numbers keep their digits, and the blocks of a matrix that share a scale.
//!
//! A code stands for a share of its block's scale. Shares lie in seven decades, 1e-6 to 1, of which each has twice the cells of
//! the one below; a code stands for the middle of its cell.
//!
//! # Source
//! Dettmers et al., 8-bit Optimizers via Block-wise Quantization, arXiv:2110.02861, section 2.

use std::ops::Range;

/// Elements of a row that share a scale.
pub const BLOCK: usize = 256;

/// Decades of shares.
pub const DECADES: usize = 7;

/// The shares for which codes stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Codes {
    /// From -1 to 1: a sign bit and 7 bits of magnitude. The code of a negative zero stands for 1.
    Signed,
    /// From 0 to 1, in finer cells.
    Unsigned,
}

impl Codes {
    /// Cells of a decade.
    const fn cells(self, decade: usize) -> usize {
        match self {
            Codes::Signed => 1 << decade,
            Codes::Unsigned => 2 << decade,
        }
    }

    /// The code of the first cell of a decade; that of 1 for the decade above the highest.
    pub const fn first(self, decade: usize) -> usize {
        match self {
            Codes::Signed => self.cells(decade),
            Codes::Unsigned => self.cells(decade) - 1,
        }
    }

    /// Cells per unit, in each decade: the cells of a decade divide it from a tenth of its end to its end.
    pub fn densities(self) -> [f64; DECADES] {
        std::array::from_fn(|decade| {
            let end = 10f64.powi(decade as i32 + 1 - DECADES as i32);
            self.cells(decade) as f64 / (0.9 * end)
        })
    }

    /// The share for which a code stands.
    pub fn share(self, code: u8) -> f64 {
        let (magnitude, sign) = match self {
            Codes::Signed if code > 128 => (usize::from(code & 127), -1.0),
            _ => (usize::from(code), 1.0),
        };
        match (0..DECADES)
            .rev()
            .find(|decade| magnitude >= self.first(*decade))
        {
            None => 0.0,
            _ if magnitude == self.first(DECADES) => 1.0,
            Some(decade) => {
                let (cell, cells) = (magnitude - self.first(decade), self.cells(decade));
                sign * (cell as f64 + 0.5 + cells as f64 / 9.0) / self.densities()[decade]
            }
        }
    }

    /// The shares of all codes, by code.
    pub fn shares(self) -> [f64; 256] {
        std::array::from_fn(|code| self.share(code as u8))
    }

    /// The magnitudes from which on the nearest code lies in each decade, and is that of 1.
    pub fn thresholds(self) -> [f64; DECADES + 1] {
        std::array::from_fn(|decade| {
            let first = self.first(decade);
            let below = match decade {
                0 => 0,
                _ => first - 1,
            };
            // A code of this magnitude, whose sign bit is the next one.
            let share = |code: usize| self.share(code as u8);
            (share(below) + share(first)) / 2.0
        })
    }
}

/// Where consecutive elements of a rank's part of a matrix lie in the blocks of its rows.
///
/// Blocks are runs of [`BLOCK`] elements of a row of the whole matrix, so they do not depend on how it is cut. Those of the
/// rank's part are numbered row by row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BlockPlace {
    /// Columns of the rank's part.
    pub columns: usize,
    /// The first of them in the whole matrix.
    pub first_column: usize,
    /// The first element, in the row-major order of the rank's part.
    pub start: usize,
}

impl BlockPlace {
    /// The blocks of a whole row that the rank's columns touch.
    pub const fn of_row(&self) -> Range<usize> {
        let end = self.first_column + self.columns;
        self.first_column / BLOCK..end.div_ceil(BLOCK)
    }

    /// The blocks of the rank's part that `len` elements touch.
    pub fn blocks(&self, len: usize) -> Range<usize> {
        let block = |element: usize| {
            let (row, column) = (element / self.columns, element % self.columns);
            let of_row = self.of_row();
            row * of_row.len() + (self.first_column + column) / BLOCK - of_row.start
        };
        match len {
            0 => 0..0,
            _ => block(self.start)..block(self.start + len - 1) + 1,
        }
    }

    /// The blocks of the rank's part up to the last that `len` elements touch; `None` for a part without columns, and if no
    /// number is large enough.
    pub fn num_blocks(&self, len: usize) -> Option<usize> {
        let end = self.start.checked_add(len)?;
        let rows = end.checked_next_multiple_of(self.columns)? / self.columns;
        let last = self.first_column.checked_add(self.columns)?;
        last.checked_add(BLOCK)?;
        rows.checked_mul(self.of_row().len())?.checked_mul(BLOCK)?;
        Some(self.blocks(len).end)
    }

    /// Which of `len` elements lie in a block that they touch.
    #[inline]
    pub fn elements(&self, block: usize, len: usize) -> Range<usize> {
        let of_row = self.of_row();
        let (row, column) = (block / of_row.len(), block % of_row.len());
        let begin = ((of_row.start + column) * BLOCK).max(self.first_column) - self.first_column;
        let end = ((of_row.start + column + 1) * BLOCK - self.first_column).min(self.columns);
        let row = row * self.columns;
        let within = |element: usize| element.clamp(self.start, self.start + len) - self.start;
        within(row + begin)..within(row + end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shares_are_those_of_the_published_map() {
        for (codes, extra) in [(Codes::Signed, 0), (Codes::Unsigned, 1)] {
            // As the authors' program makes it: the middles of a linear spacing from 0.1 to 1, for each power of 10.
            let mut published = vec![0.0, 1.0];
            for decade in 0..7 {
                let cells = 1 << (decade + extra);
                let boundary = |index: usize| 0.1 + 0.9 * index as f64 / f64::from(cells);
                for cell in 0..cells as usize {
                    let middle = (boundary(cell) + boundary(cell + 1)) / 2.0;
                    let share = 10f64.powi(decade - 6) * middle;
                    published.push(share);
                    if codes == Codes::Signed {
                        published.push(-share);
                    }
                }
            }
            let mut found = codes.shares().to_vec();
            published.sort_by(f64::total_cmp);
            found.sort_by(f64::total_cmp);
            assert_eq!(found.len(), published.len());
            for (found, published) in found.iter().zip(&published) {
                assert!((found - published).abs() <= 1e-14 * published.abs());
            }
        }
    }

    #[test]
    fn thresholds_lie_between_the_codes_of_two_decades() {
        for codes in [Codes::Signed, Codes::Unsigned] {
            let shares = codes.shares();
            for (decade, threshold) in codes.thresholds().into_iter().enumerate() {
                let nearest = |number: f64| {
                    let apart = |code: &usize| (shares[*code] - number).abs();
                    (0..256)
                        .min_by(|a, b| apart(a).total_cmp(&apart(b)))
                        .unwrap()
                };
                assert_eq!(nearest(threshold * (1.0 + 1e-9)), codes.first(decade));
                assert_ne!(nearest(threshold * (1.0 - 1e-9)), codes.first(decade));
            }
        }
    }

    #[test]
    fn every_element_lies_in_one_block_whatever_the_cut() {
        // Parts of rows of 700: the first with whole blocks, one within a block, one across two borders.
        for (first_column, columns) in [(0, 700), (0, 256), (300, 100), (200, 400)] {
            for (start, len) in [(0, 3 * columns), (columns / 2, columns), (7, 1), (5, 0)] {
                let place = BlockPlace {
                    columns,
                    first_column,
                    start,
                };
                let mut seen = Vec::new();
                for block in place.blocks(len) {
                    for element in place.elements(block, len) {
                        let column = first_column + (start + element) % columns;
                        let row = (start + element) / columns;
                        let of_row = place.of_row();
                        let number = column / BLOCK - of_row.start + row * of_row.len();
                        assert_eq!(number, block);
                        seen.push(element);
                    }
                }
                assert_eq!(seen, (0..len).collect::<Vec<_>>());
            }
        }
    }
}
