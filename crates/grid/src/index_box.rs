//! A box of indices: a piece of a tensor, with a start and a shape.

use serde::{Deserialize, Serialize};

use crate::Runs;

/// The indices from `start` up to `start + shape` on each dim. Both have one entry per dim.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct IndexBox {
    /// The first index on every dim.
    pub start: Vec<usize>,
    /// The number of indices on every dim.
    pub shape: Vec<usize>,
}

impl IndexBox {
    /// The box of a full tensor.
    pub fn full(shape: &[usize]) -> Self {
        IndexBox {
            start: vec![0; shape.len()],
            shape: shape.to_vec(),
        }
    }

    /// The number of dims.
    pub fn num_dims(&self) -> usize {
        self.shape.len()
    }

    /// One past the last index on every dim; `usize::MAX` where the box reaches further.
    pub fn end(&self) -> Vec<usize> {
        self.start
            .iter()
            .zip(&self.shape)
            .map(|(start, len)| start.saturating_add(*len))
            .collect()
    }

    /// The number of elements in the box; one if it has no dims.
    ///
    /// # Panics
    /// If there are 2^64 or more. For a box read from a file, use
    /// [`checked_num_elements`](IndexBox::checked_num_elements).
    pub fn num_elements(&self) -> usize {
        self.checked_num_elements().unwrap_or_else(|| {
            let shape = &self.shape;
            panic!("IndexBox::num_elements: shape {shape:?}, needs fewer than 2^64 elements")
        })
    }

    /// The number of elements in the box; `None` if there are 2^64 or more.
    pub fn checked_num_elements(&self) -> Option<usize> {
        if self.is_empty() {
            return Some(0);
        }
        self.shape
            .iter()
            .try_fold(1usize, |count, &size| count.checked_mul(size))
    }

    /// Whether the box has no elements.
    pub fn is_empty(&self) -> bool {
        self.shape.contains(&0)
    }

    /// The elements that lie in both boxes; `None` if there are none or the boxes have different numbers of
    /// dims.
    pub fn intersect(&self, other: &IndexBox) -> Option<IndexBox> {
        if !self.overlaps(other) {
            return None;
        }
        let start: Vec<usize> = self
            .start
            .iter()
            .zip(&other.start)
            .map(|(a, b)| *a.max(b))
            .collect();
        let end = self
            .end()
            .into_iter()
            .zip(other.end())
            .map(|(a, b)| a.min(b));
        let shape = end.zip(&start).map(|(end, start)| end - start).collect();
        Some(IndexBox { start, shape })
    }

    /// Whether some element lies in both boxes.
    pub fn overlaps(&self, other: &IndexBox) -> bool {
        let ranges = |index: &IndexBox, dim: usize| {
            let start = index.start[dim];
            (start, start.saturating_add(index.shape[dim]))
        };
        self.num_dims() == other.num_dims()
            && (0..self.num_dims()).all(|dim| {
                let ((a, a_end), (b, b_end)) = (ranges(self, dim), ranges(other, dim));
                a.max(b) < a_end.min(b_end)
            })
    }

    /// Whether the other box lies within this one on every dim.
    pub fn contains(&self, other: &IndexBox) -> bool {
        let starts = self
            .start
            .iter()
            .zip(&other.start)
            .all(|(outer, inner)| outer <= inner);
        let ends = self
            .end()
            .iter()
            .zip(other.end())
            .all(|(outer, inner)| inner <= *outer);
        self.num_dims() == other.num_dims() && starts && ends
    }

    /// Whether an index lies within the box.
    pub fn contains_index(&self, index: &[usize]) -> bool {
        self.contains(&IndexBox {
            start: index.to_vec(),
            shape: vec![1; index.len()],
        })
    }

    /// The same elements, counted from the start of `outer`: the position of this box in the memory of `outer`.
    ///
    /// # Panics
    /// When the box does not lie within `outer`.
    #[must_use]
    pub fn relative_to(&self, outer: &IndexBox) -> IndexBox {
        assert!(
            outer.contains(self),
            "IndexBox::relative_to: a bug: {self:?} is not within {outer:?}"
        );
        let start = self
            .start
            .iter()
            .zip(&outer.start)
            .map(|(inner, outer)| inner - outer)
            .collect();
        IndexBox {
            start,
            shape: self.shape.clone(),
        }
    }

    /// The longest runs of contiguous elements of the box in a row-major array, as (offset, length), ascending.
    ///
    /// # Panics
    /// When the box does not lie within the array.
    ///
    /// ```
    /// use fascicle_grid::IndexBox;
    /// let columns = IndexBox { start: vec![0, 1], shape: vec![2, 2] };
    /// assert_eq!(columns.contiguous_runs(&[2, 4]).collect::<Vec<_>>(), [(1, 2), (5, 2)]);
    /// ```
    pub fn contiguous_runs(&self, within_shape: &[usize]) -> Runs {
        Runs::new(self, within_shape)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index_box(start: &[usize], shape: &[usize]) -> IndexBox {
        IndexBox {
            start: start.to_vec(),
            shape: shape.to_vec(),
        }
    }

    #[test]
    fn intersections_by_hand() {
        let a = index_box(&[0, 2], &[4, 4]);
        let b = index_box(&[3, 0], &[2, 3]);
        assert_eq!(a.intersect(&b), Some(index_box(&[3, 2], &[1, 1])));
        assert_eq!(a.intersect(&index_box(&[4, 2], &[1, 1])), None);
        assert_eq!(a.intersect(&index_box(&[0], &[4])), None);
        assert_eq!(
            index_box(&[], &[]).intersect(&index_box(&[], &[])),
            Some(index_box(&[], &[]))
        );
    }

    #[test]
    fn containment_and_relative_position() {
        let outer = index_box(&[2, 4], &[4, 4]);
        let inner = index_box(&[3, 4], &[1, 2]);
        assert!(outer.contains(&inner) && outer.contains(&outer) && !inner.contains(&outer));
        assert!(
            outer.contains_index(&[5, 7])
                && !outer.contains_index(&[6, 7])
                && !outer.contains_index(&[5])
        );
        assert_eq!(inner.relative_to(&outer), index_box(&[1, 0], &[1, 2]));
        assert_eq!(outer.end(), [6, 8]);
        assert_eq!(
            (outer.num_elements(), IndexBox::full(&[]).num_elements()),
            (16, 1)
        );
    }

    #[test]
    fn elements_are_counted_without_wrapping() {
        let half = 1usize << 32;
        assert_eq!(
            index_box(&[0, 0], &[half, half]).checked_num_elements(),
            None
        );
        assert_eq!(
            index_box(&[0; 3], &[half, half, 0]).checked_num_elements(),
            Some(0)
        );
        let far = index_box(&[usize::MAX - 1], &[4]);
        assert_eq!(far.end(), [usize::MAX]);
        assert!(!index_box(&[0], &[8]).contains(&far));
    }

    #[test]
    #[should_panic(expected = "needs fewer than 2^64 elements")]
    fn too_many_elements_are_no_number() {
        index_box(&[0, 0], &[usize::MAX, 2]).num_elements();
    }

    #[test]
    #[should_panic(expected = "is not within")]
    fn a_box_outside_has_no_relative_position() {
        let _ = index_box(&[0], &[2]).relative_to(&index_box(&[1], &[4]));
    }
}
