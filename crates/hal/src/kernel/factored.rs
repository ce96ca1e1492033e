//! Second moments that are kept as means of the rows and columns of a matrix.
//!
//! A step of Adafactor (Shazeer and Stern, arXiv:1804.04235) needs sums over the rows and columns of whole matrices, of which a
//! rank holds some elements. [`LineLargest`] and [`LineSquares`] give sums that add up exactly over ranks, in any order.
//! [`FactorMeans`] updates the means by the sums of all ranks, and [`FactorDirections`] divides gradients by the moments for
//! which the means stand. The sums of these directions, row by row, give [`ClipDirections`] the factor of the step.
//!
//! A line is a row or a column. Matrices of one launch are different ones.

use super::optimiser::operands_of_tensors;
use crate::{
    Operand, RawSlice,
    operand::{READ, UPDATE, WRITE, operands},
};

/// Where consecutive elements lie in a matrix, or in a part of it whose rows follow one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LinePlace {
    /// Columns of the part.
    pub columns: usize,
    /// The column of the first element, which lies in the first row of the part.
    pub start: usize,
}

impl LinePlace {
    /// Rows that `len` elements touch; `None` without columns, for a start beyond them, and if no number is large enough.
    pub fn num_rows(&self, len: usize) -> Option<usize> {
        let end = self
            .start
            .checked_add(len)
            .filter(|_| self.start < self.columns)?;
        end.checked_next_multiple_of(self.columns)
            .map(|end| end / self.columns)
    }

    /// Which of `len` elements lie in a row.
    #[inline(always)]
    pub fn of_row(&self, row: usize, len: usize) -> std::ops::Range<usize> {
        let within = |element: usize| element.clamp(self.start, self.start + len) - self.start;
        within(row * self.columns)..within((row + 1) * self.columns)
    }
}

/// What rounds a number from 0 to 1, added and subtracted, so that sums of `terms` such numbers have at most 52 binary digits.
pub fn rounds(terms: usize) -> f64 {
    let digits = terms.clamp(2, 1 << 40).next_power_of_two();
    1.5 * digits as f64
}

/// One matrix of [`LineLargest`].
#[derive(Clone, Debug, PartialEq)]
pub struct LineLargestTensor {
    /// Elements of the matrix, f32 or f64.
    pub x: RawSlice,
    /// Where they lie.
    pub place: LinePlace,
    /// f64, one for each row that they touch; updated.
    pub rows: RawSlice,
    /// f64, one for each column of the part; updated if given.
    pub columns: Option<RawSlice>,
}

/// `line = max(line, largest magnitude of its elements)` for rows and columns; infinite if an element is not finite.
#[derive(Clone, Debug, PartialEq)]
pub struct LineLargest {
    /// The matrices.
    pub tensors: Vec<LineLargestTensor>,
}

/// One matrix of [`LineSquares`].
#[derive(Clone, Debug, PartialEq)]
pub struct LineSquaresTensor {
    /// As in [`LineLargestTensor`].
    pub x: RawSlice,
    /// As in [`LineLargestTensor`].
    pub place: LinePlace,
    /// What [`LineLargest`] gives for the rows, over all ranks.
    pub row_largest: RawSlice,
    /// f64, as many; added to.
    pub row_sums: RawSlice,
    /// Elements of a row over all ranks: at most 2^40.
    pub row_terms: usize,
    /// The same for columns, if there are any.
    pub column_largest: Option<RawSlice>,
    /// f64, as many; added to.
    pub column_sums: Option<RawSlice>,
    /// Elements of a column over all ranks: at most 2^40.
    pub column_terms: usize,
}

/// Adds the squares of the elements of each row and column to a sum, exactly.
///
/// Elements are scaled by the power of 2 that brings the line's largest below 1, and their squares rounded to multiples of
/// 2^(b - 52), where 2^b is at least the number of terms, and at least 2. So a sum of all terms has at most 52 binary digits, and
/// sums of launches and ranks have the same bits in any order. If a largest number is not finite, the sum may be anything.
#[derive(Clone, Debug, PartialEq)]
pub struct LineSquares {
    /// The matrices.
    pub tensors: Vec<LineSquaresTensor>,
}

/// One matrix of [`FactorMeans`]. Of each pair, the first is of rows: one number for each row of the whole matrix.
#[derive(Clone, Debug, PartialEq)]
pub struct FactorMeansTensor {
    /// As in [`LineSquares`], f64.
    pub largest: [RawSlice; 2],
    /// Sums over all ranks, f64.
    pub sums: [RawSlice; 2],
    /// Moving means of squares, f32 or f64; updated.
    pub means: [RawSlice; 2],
    /// What a gradient of the row and of the column is multiplied with, of the type of the means; written.
    pub factors: [RawSlice; 2],
}

/// Updates the means of rows and columns: mean = keep * mean + (1 - keep) * (mean of the squares of factor * gradient + epsilon).
///
/// The factors of a row and a column are the root of the mean of all rows' means over the row's, and one over the root of the
/// column's. Together they are one over the root of (row * column / mean of rows), the moment of the element.
#[derive(Clone, Debug, PartialEq)]
pub struct FactorMeans {
    /// The matrices.
    pub tensors: Vec<FactorMeansTensor>,
    /// As in [`AdamW`](super::AdamW); if it is NaN, nothing is written.
    pub factor: RawSlice,
    /// Share of the old means.
    pub keep: f64,
    /// Added to squares.
    pub epsilon: f64,
}

/// One matrix of [`FactorDirections`].
#[derive(Clone, Debug, PartialEq)]
pub struct FactorDirectionsTensor {
    /// Elements of the gradient, f32 or f64; updated.
    pub gradients: RawSlice,
    /// Where they lie.
    pub place: LinePlace,
    /// The factors of the rows that they touch, and those of the columns of the part.
    pub factors: [RawSlice; 2],
}

/// gradient = factor * gradient * column's factor * row's factor.
#[derive(Clone, Debug, PartialEq)]
pub struct FactorDirections {
    /// The matrices.
    pub tensors: Vec<FactorDirectionsTensor>,
    /// As in [`FactorMeans`].
    pub factor: RawSlice,
}

/// One matrix of [`ClipDirections`].
#[derive(Clone, Debug, PartialEq)]
pub struct ClipDirectionsTensor {
    /// As in [`LineSquares`]: of the directions, one for each row of the whole matrix.
    pub largest: RawSlice,
    /// Sums over all ranks.
    pub sums: RawSlice,
    /// Two f64: the factor of the step, and the root mean square of the directions; written.
    pub out: RawSlice,
    /// Elements of the whole matrix.
    pub elements: usize,
}

/// The factor that brings the root mean square of a matrix's directions to at most `most`: min(1, most / root mean square).
#[derive(Clone, Debug, PartialEq)]
pub struct ClipDirections {
    /// The matrices.
    pub tensors: Vec<ClipDirectionsTensor>,
    /// As in [`FactorMeans`]; if it is NaN, so are the results.
    pub factor: RawSlice,
    /// The largest root mean square.
    pub most: f64,
}

operands! {
    LineLargestTensor { x: READ, rows: UPDATE, columns: UPDATE ; place }
    LineSquaresTensor {
        x: READ, row_largest: READ, row_sums: UPDATE, column_largest: READ, column_sums: UPDATE
        ; place, row_terms, column_terms
    }
    FactorMeansTensor { largest: READ, sums: READ, means: UPDATE, factors: WRITE }
    FactorDirectionsTensor { gradients: UPDATE, factors: READ ; place }
    ClipDirectionsTensor { largest: READ, sums: READ, out: WRITE ; elements }
}

operands_of_tensors! { FactorMeans FactorDirections ClipDirections }

impl LineLargest {
    pub(crate) fn operands(&self, visit: &mut dyn FnMut(Operand)) {
        let tensors = self.tensors.iter();
        tensors.for_each(|tensor| tensor.operands(visit));
    }
}

impl LineSquares {
    pub(crate) fn operands(&self, visit: &mut dyn FnMut(Operand)) {
        let tensors = self.tensors.iter();
        tensors.for_each(|tensor| tensor.operands(visit));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_of_rounded_numbers_are_exact_in_any_order() {
        for terms in [1, 2, 3, 1000] {
            let rounds = rounds(terms);
            let number = |i: usize| (0.999 / (1.0 + i as f64 * 0.37) + rounds) - rounds;
            let down = (0..terms).rev().fold(0.0, |sum, i| sum + number(i));
            assert_eq!((0..terms).fold(0.0, |sum, i| sum + number(i)), down);
            let apart = (number(0) - 0.999f64).abs();
            assert!(apart <= rounds * 2f64.powi(-52), "{terms} terms: {apart}");
        }
    }

    #[test]
    fn rows_of_a_run_hold_all_its_elements() {
        for (columns, start, len) in [(7, 3, 20), (7, 0, 14), (1, 0, 5), (9, 8, 1), (4, 2, 0)] {
            let place = LinePlace { columns, start };
            let rows = place.num_rows(len).unwrap();
            let elements = (0..rows).flat_map(|row| place.of_row(row, len));
            assert!(elements.eq(0..len), "{place:?}");
        }
        for (columns, start, len) in [
            (0, 0, 1),
            (3, 3, 1),
            (3, 1, usize::MAX),
            (4, 0, usize::MAX - 1),
        ] {
            assert_eq!(LinePlace { columns, start }.num_rows(len), None);
        }
    }
}
