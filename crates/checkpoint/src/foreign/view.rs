//! Where a tensor of ours lies in a tensor of another program.

use crate::{Error, Result};
use grid::IndexBox;

/// A box of a tensor of another program, or several at equal distances, turned so that they are one tensor of ours.
///
/// Ours may have more rows, which are 0. Of at most two dims.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    tensor: String,
    whole: Vec<usize>,
    // The first box.
    held: IndexBox,
    // The number of boxes, and how far they are apart in dim 0.
    boxes: usize,
    distance: usize,
    is_transposed: bool,
    padding: usize,
}

impl View {
    /// All of a tensor of this shape.
    pub fn of(tensor: impl Into<String>, whole: &[usize]) -> View {
        View {
            tensor: tensor.into(),
            whole: whole.to_vec(),
            held: IndexBox::full(whole),
            boxes: 1,
            distance: 0,
            is_transposed: false,
            padding: 0,
        }
    }

    /// `len` rows, columns or elements of dim `dim` of the tensor, from `start` on.
    #[must_use]
    pub fn part(mut self, dim: usize, start: usize, len: usize) -> View {
        (self.held.start[dim], self.held.shape[dim]) = (start, len);
        self
    }

    /// As many such parts of the rows, which begin `distance` rows after each other, such as the queries of every head where a
    /// tensor has the queries, keys and values of one head after those of the other. Ours has their rows one after another.
    #[must_use]
    pub fn repeated(mut self, boxes: usize, distance: usize) -> View {
        (self.boxes, self.distance) = (boxes, distance);
        self
    }

    /// With rows as columns, as where one program multiplies by a matrix and the other by its transpose.
    #[must_use]
    pub fn transposed(mut self) -> View {
        self.is_transposed = !self.is_transposed && self.whole.len() == 2;
        self
    }

    /// With rows of zeros behind its own, so that ours has this many, such as those of a padded vocabulary.
    #[must_use]
    pub fn padded(mut self, rows: usize) -> View {
        let own = self.held_shape().first().copied().unwrap_or(0);
        self.padding = rows.saturating_sub(own);
        self
    }

    /// The name of the other program's tensor.
    pub fn tensor(&self) -> &str {
        &self.tensor
    }

    /// Whether it holds all of that tensor.
    pub fn is_whole(&self) -> bool {
        self.boxes == 1 && self.held.shape == self.whole
    }

    /// The rows of another tensor that belong to these outputs of a matrix, where that tensor has a row of this shape for each
    /// output of the whole; nothing for what is no matrix, or has a part of its inputs.
    pub fn rows_for_outputs(&self, tensor: &str, row: &[usize]) -> Option<View> {
        let (input, output) = match self.is_transposed {
            true => (1, 0),
            false => (0, 1),
        };
        let is_whole = self.whole.len() == 2 && self.held.shape[input] == self.whole[input];
        if !is_whole || (self.boxes > 1 && output != 0) {
            return None;
        }
        let rows = View::of(tensor, &[&[self.whole[output]], row].concat());
        let own = rows.part(0, self.held.start[output], self.held.shape[output]);
        Some(own.repeated(self.boxes, self.distance))
    }

    /// Whether rows are columns.
    pub fn is_transposed(&self) -> bool {
        self.is_transposed
    }

    /// The shape of all of that tensor.
    pub fn whole(&self) -> &[usize] {
        &self.whole
    }

    /// The shape of our tensor.
    pub fn shape(&self) -> Vec<usize> {
        let mut shape = self.held_shape();
        if let Some(rows) = shape.first_mut() {
            *rows += self.padding;
        }
        shape
    }

    // Without padding.
    fn held_shape(&self) -> Vec<usize> {
        let mut shape = self.held.shape.clone();
        if let Some(rows) = shape.first_mut() {
            *rows *= self.boxes;
        }
        self.turned(&shape)
    }

    // Each box of theirs, and the box of ours that it is, before it is turned.
    fn boxes(&self) -> impl Iterator<Item = (IndexBox, IndexBox)> {
        (0..self.boxes).map(|index| {
            let mut theirs = self.held.clone();
            let mut ours = IndexBox::full(&self.held.shape);
            if let (Some(of_theirs), Some(of_ours)) =
                (theirs.start.first_mut(), ours.start.first_mut())
            {
                *of_theirs += index * self.distance;
                *of_ours = index * self.held.shape[0];
            }
            (theirs, ours)
        })
    }

    /// A box of our tensor, read from theirs with `read`.
    ///
    /// # Errors
    /// [`Error::Outside`] for a view beyond its tensor; those of `read`.
    pub fn read(
        &self,
        mut read: impl FnMut(&str, &[usize], &IndexBox) -> Result<Vec<f64>>,
        index: &IndexBox,
    ) -> Result<Vec<f64>> {
        let mut out = vec![0.0; index.num_elements()];
        for (theirs, ours) in self.boxes() {
            let turned = IndexBox {
                start: self.turned(&ours.start),
                shape: self.turned(&ours.shape),
            };
            let Some(both) = turned.intersect(index) else {
                continue;
            };
            let within = less(&self.turned(&both.start), &ours.start);
            let theirs = IndexBox {
                start: add(&within, &theirs.start),
                shape: self.turned(&both.shape),
            };
            let numbers = read(&self.tensor, &self.whole, &theirs)?;
            self.place(&numbers, &theirs.shape, (&mut out, index), &both.start);
        }
        Ok(out)
    }

    /// Writes to a box of their tensor what of it is ours, read with `read`.
    ///
    /// # Errors
    /// Those of `read`.
    pub fn write(
        &self,
        mut read: impl FnMut(&IndexBox) -> Result<Vec<f64>>,
        (out, index): (&mut [f64], &IndexBox),
    ) -> Result<()> {
        for (theirs, ours) in self.boxes() {
            let Some(both) = theirs.intersect(index) else {
                continue;
            };
            let start = add(&less(&both.start, &theirs.start), &ours.start);
            let ours = IndexBox {
                start: self.turned(&start),
                shape: self.turned(&both.shape),
            };
            let numbers = read(&ours)?;
            self.place(&numbers, &ours.shape, (&mut *out, index), &both.start);
        }
        Ok(())
    }

    // The dims in the order of the other side.
    fn turned(&self, dims: &[usize]) -> Vec<usize> {
        let mut dims = dims.to_vec();
        if self.is_transposed {
            dims.reverse();
        }
        dims
    }

    // Writes numbers of this shape, turned, to the place in a box where they start.
    fn place(
        &self,
        numbers: &[f64],
        shape: &[usize],
        (out, index): (&mut [f64], &IndexBox),
        start: &[usize],
    ) {
        // A vector is a matrix of one row.
        let matrix = |dims: &[usize], first: usize| match *dims {
            [] => [first, first],
            [columns] => [first, columns],
            [rows, columns] => [rows, columns],
            _ => unreachable!("a bug: a view of more than two dims"),
        };
        let [rows, columns] = matrix(shape, 1);
        let [first_row, first_column] = {
            let ([row, column], [from_row, from_column]) =
                (matrix(start, 0), matrix(&index.start, 0));
            [row - from_row, column - from_column]
        };
        let width = matrix(&index.shape, 1)[1];
        if !self.is_transposed {
            for row in 0..rows {
                let at = (first_row + row) * width + first_column;
                out[at..at + columns].copy_from_slice(&numbers[row * columns..][..columns]);
            }
            return;
        }
        // In square blocks, because each side's lines are far apart on the other.
        const BLOCK: usize = 32;
        for from in (0..rows).step_by(BLOCK) {
            for first in (0..columns).step_by(BLOCK) {
                for column in first..columns.min(first + BLOCK) {
                    for row in from..rows.min(from + BLOCK) {
                        let at = (first_row + column) * width + first_column + row;
                        out[at] = numbers[row * columns + column];
                    }
                }
            }
        }
    }

    /// That the view lies within its tensor and has as many dims as ours.
    ///
    /// # Errors
    /// [`Error::Outside`].
    pub(crate) fn check(&self, num_dims: usize) -> Result<()> {
        let mut all = self.boxes();
        let fits = all.all(|(theirs, _)| crate::boxes::fits(&theirs, &self.whole));
        match fits && self.whole.len() == num_dims && num_dims <= 2 {
            true => Ok(()),
            false => Err(Error::Outside {
                name: self.tensor.clone(),
                index: self.held.clone(),
                shape: self.whole.clone(),
            }),
        }
    }
}

fn add(one: &[usize], other: &[usize]) -> Vec<usize> {
    one.iter()
        .zip(other)
        .map(|(one, other)| one + other)
        .collect()
}

fn less(one: &[usize], other: &[usize]) -> Vec<usize> {
    one.iter()
        .zip(other)
        .map(|(one, other)| one - other)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn numbered(shape: &[usize], index: &IndexBox) -> Vec<f64> {
        let columns = shape[1];
        let rows = index.start[0]..index.start[0] + index.shape[0];
        rows.flat_map(|row| {
            let own = index.start[1]..index.start[1] + index.shape[1];
            own.map(move |column| (row * columns + column) as f64)
        })
        .collect()
    }

    proptest! {
        // Read and written through boxes of any size, a part of a tensor is where it was.
        #[test]
        fn what_is_read_is_written_back(
            across in 1usize..9, start in 0usize..6, len in 1usize..6, rest in 0usize..4, dim in 0usize..2,
            is_transposed: bool, cut in 1usize..5, boxes in 1usize..4, apart in 0usize..3,
        ) {
            // Parts of the rows may be repeated.
            let (boxes, distance) = if dim == 0 { (boxes, len + apart) } else { (1, 0) };
            let along = start + (boxes - 1) * distance + len + rest;
            let whole @ [rows, columns] = if dim == 0 { [along, across] } else { [across, along] };
            let plain = View::of("t", &whole).part(dim, start, len).repeated(boxes, distance);
            let view = if is_transposed { plain.transposed() } else { plain };
            let ours = view.shape();
            let slabs = |shape: &[usize]| crate::boxes::slabs(&IndexBox::full(shape), cut);
            let mut read = vec![f64::NAN; ours.iter().product()];
            for slab in slabs(&ours) {
                let part = view.read(|_, _, index| Ok(numbered(&whole, index)), &slab).unwrap();
                for (at, number) in part.into_iter().enumerate() {
                    let row = slab.start[0] + at / slab.shape[1];
                    read[row * ours[1] + slab.start[1] + at % slab.shape[1]] = number;
                }
            }
            let mut theirs = vec![-1.0; rows * columns];
            for slab in slabs(&whole) {
                let mut out = vec![-1.0; slab.num_elements()];
                view.write(|index| {
                    let rows = index.start[0]..index.start[0] + index.shape[0];
                    Ok(rows.flat_map(|row| read[row * ours[1] + index.start[1]..][..index.shape[1]].to_vec()).collect())
                }, (&mut out, &slab)).unwrap();
                for (at, number) in out.into_iter().enumerate() {
                    let row = slab.start[0] + at / slab.shape[1];
                    theirs[row * columns + slab.start[1] + at % slab.shape[1]] = number;
                }
            }
            for (at, number) in theirs.into_iter().enumerate() {
                let place = [at / columns, at % columns][dim];
                let mut firsts = (0..boxes).map(|index| start + index * distance);
                let is_ours = firsts.any(|first| (first..first + len).contains(&place));
                prop_assert_eq!(number, if is_ours { at as f64 } else { -1.0 });
            }
        }
    }

    #[test]
    fn padding_is_zero() {
        let view = View::of("t", &[2, 3]).padded(4);
        assert_eq!(view.shape(), [4, 3]);
        let index = IndexBox {
            start: vec![1, 0],
            shape: vec![3, 3],
        };
        let read = view.read(|_, whole, index| Ok(numbered(whole, index)), &index);
        assert_eq!(read.unwrap(), [3.0, 4.0, 5.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
        let vector = View::of("v", &[4]).part(0, 1, 2).padded(3);
        let read = vector.read(|_, _, _| Ok(vec![1.0, 2.0]), &IndexBox::full(&[3]));
        assert_eq!(read.unwrap(), [1.0, 2.0, 0.0]);
    }

    #[test]
    fn a_view_beyond_its_tensor_is_refused() {
        assert!(View::of("t", &[2, 3]).part(1, 2, 2).check(2).is_err());
        assert!(View::of("t", &[2, 3]).check(1).is_err());
        View::of("t", &[2, 3]).part(1, 1, 2).check(2).unwrap();
    }
}
