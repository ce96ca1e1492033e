//! A box of a row-major array as runs of contiguous elements, which a copy of the box has to move.

use std::iter::FusedIterator;

use crate::IndexBox;

/// Iterator over (offset, length) of a box's runs; made by [`IndexBox::contiguous_runs`].
#[derive(Clone, Debug)]
pub struct Runs {
    /// Number of elements in every run.
    len: usize,
    /// For each outer dim, the number of runs and their distance.
    outer: Vec<OuterDim>,
    offset: usize,
    left: usize,
}

#[derive(Clone, Debug)]
struct OuterDim {
    count: usize,
    stride: usize,
    at: usize,
}

impl Runs {
    pub(crate) fn new(piece: &IndexBox, within_shape: &[usize]) -> Self {
        assert!(
            IndexBox::full(within_shape).contains(piece),
            "IndexBox::contiguous_runs: a bug: {piece:?} is not within shape {within_shape:?}"
        );
        let strides = strides(within_shape);
        // Dims after the last cut one are complete, so a run spans that dim's piece.
        let last_cut = (0..piece.num_dims())
            .rev()
            .find(|dim| piece.shape[*dim] != within_shape[*dim]);
        let num_outer = last_cut.unwrap_or(0);
        let outer = piece.shape.iter().zip(&strides).take(num_outer);
        Runs {
            len: piece.shape[num_outer..].iter().product(),
            outer: outer
                .map(|(count, stride)| OuterDim {
                    count: *count,
                    stride: *stride,
                    at: 0,
                })
                .collect(),
            offset: piece
                .start
                .iter()
                .zip(&strides)
                .map(|(start, stride)| start * stride)
                .sum(),
            left: if piece.is_empty() {
                0
            } else {
                piece.shape[..num_outer].iter().product()
            },
        }
    }

    /// Moves `offset` to the next run: the innermost dim that is not at its end advances, and those inside it
    /// restart.
    fn advance(&mut self) {
        for dim in self.outer.iter_mut().rev() {
            dim.at += 1;
            self.offset += dim.stride;
            if dim.at < dim.count {
                return;
            }
            self.offset -= dim.at * dim.stride;
            dim.at = 0;
        }
    }
}

/// Distance in elements between neighbours on each dim of a row-major array.
fn strides(shape: &[usize]) -> Vec<usize> {
    (0..shape.len())
        .map(|dim| shape[dim + 1..].iter().product())
        .collect()
}

impl Iterator for Runs {
    type Item = (usize, usize);

    fn next(&mut self) -> Option<(usize, usize)> {
        self.left = self.left.checked_sub(1)?;
        let run = (self.offset, self.len);
        self.advance();
        Some(run)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Runs {}
impl FusedIterator for Runs {}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(start: &[usize], shape: &[usize], within: &[usize]) -> Vec<(usize, usize)> {
        let piece = IndexBox {
            start: start.to_vec(),
            shape: shape.to_vec(),
        };
        piece.contiguous_runs(within).collect()
    }

    #[test]
    fn whole_inner_dims_join_into_one_run() {
        assert_eq!(runs(&[0, 0, 0], &[2, 3, 4], &[2, 3, 4]), [(0, 24)]);
        assert_eq!(runs(&[1, 0, 0], &[1, 3, 4], &[2, 3, 4]), [(12, 12)]);
        assert_eq!(runs(&[0, 1, 0], &[2, 2, 4], &[2, 3, 4]), [(4, 8), (16, 8)]);
        assert_eq!(
            runs(&[0, 1, 2], &[2, 2, 2], &[2, 3, 4]),
            [(6, 2), (10, 2), (18, 2), (22, 2)]
        );
    }

    #[test]
    fn scalars_and_empty_boxes() {
        assert_eq!(runs(&[], &[], &[]), [(0, 1)]);
        assert_eq!(runs(&[0, 2], &[3, 0], &[3, 4]), []);
        assert_eq!(runs(&[0, 0], &[0, 4], &[0, 4]), []);
        assert_eq!(runs(&[3, 0], &[0, 4], &[3, 4]), []);
    }

    #[test]
    fn the_number_of_runs_is_known() {
        let piece = IndexBox {
            start: vec![0, 1],
            shape: vec![3, 2],
        };
        let mut runs = piece.contiguous_runs(&[3, 4]);
        assert_eq!(runs.len(), 3);
        runs.next();
        assert_eq!(runs.len(), 2);
    }

    #[test]
    #[should_panic(expected = "is not within shape [2, 3]")]
    fn a_box_outside_the_array_is_a_bug() {
        runs(&[1, 0], &[2, 3], &[2, 3]);
    }
}
