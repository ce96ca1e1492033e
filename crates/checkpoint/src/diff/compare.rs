//! Compares the elements of one tensor, slab by slab.

use super::{FirstDifference, Pair, StoredElement, TensorDiff};
use crate::{Reader, Result, boxes::slabs, element, reshard::SLAB_BYTES};
use grid::IndexBox;
use hal::DType;

/// The difference between two tensors of one type and shape; `None` if all bits are equal.
pub(super) fn compare(readers: [&Reader; 2], name: &str) -> Result<Option<TensorDiff>> {
    let info = readers[0].info(name)?;
    let (dtype, shape) = (info.dtype, &info.global_shape);
    let whole = IndexBox::full(shape);
    let mut tally = Tally::default();
    for slab in slabs(&whole, SLAB_BYTES / dtype.bytes()) {
        let a = readers[0].read(name, shape, &slab)?;
        let b = readers[1].read(name, shape, &slab)?;
        tally.add(dtype, &a, &b);
    }
    let Some(first) = tally.first else {
        return Ok(None);
    };
    let index = index_of(first.offset, shape);
    let stored = |reader: &Reader, bytes: &[u8]| -> Result<StoredElement> {
        Ok(StoredElement {
            value: element::value(dtype, bytes),
            text: element::text(dtype, bytes),
            bits: element::bits(bytes),
            file: reader.file_of(name, &index)?.to_owned(),
        })
    };
    let elements = Pair {
        a: stored(readers[0], &first.a)?,
        b: stored(readers[1], &first.b)?,
    };
    Ok(Some(TensorDiff {
        name: name.to_owned(),
        num_elements: whole.num_elements() as u64,
        num_differing: tally.num_differing,
        first: FirstDifference { index, elements },
        largest_difference: tally.largest,
    }))
}

/// What the slabs so far have shown.
#[derive(Default)]
struct Tally {
    num_elements: usize,
    num_differing: u64,
    first: Option<First>,
    largest: f64,
}

struct First {
    /// Its position among all elements, in row-major order.
    offset: usize,
    a: Vec<u8>,
    b: Vec<u8>,
}

impl Tally {
    fn add(&mut self, dtype: DType, a: &[u8], b: &[u8]) {
        let width = dtype.bytes();
        // Most slabs are equal, and slices compare faster than elements.
        if a != b {
            let elements = a.chunks_exact(width).zip(b.chunks_exact(width));
            for (at, (a, b)) in elements.enumerate().filter(|(_, (a, b))| a != b) {
                self.differ(dtype, self.num_elements + at, a, b);
            }
        }
        self.num_elements += a.len() / width;
    }

    fn differ(&mut self, dtype: DType, offset: usize, a: &[u8], b: &[u8]) {
        self.num_differing += 1;
        let difference = (element::value(dtype, a) - element::value(dtype, b)).abs();
        // `f64::max` would ignore NaN.
        if difference.is_nan() || difference > self.largest {
            self.largest = difference;
        }
        self.first.get_or_insert_with(|| First {
            offset,
            a: a.to_vec(),
            b: b.to_vec(),
        });
    }
}

/// The index of the element at this position in row-major order.
fn index_of(mut offset: usize, shape: &[usize]) -> Vec<usize> {
    let mut index = vec![0; shape.len()];
    for (at, len) in index.iter_mut().zip(shape).rev() {
        (*at, offset) = (offset % len, offset / len);
    }
    index
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_become_indices() {
        assert_eq!(index_of(0, &[]), [0; 0]);
        let indices: Vec<_> = (0..6).map(|offset| index_of(offset, &[3, 2])).collect();
        assert_eq!(indices, [[0, 0], [0, 1], [1, 0], [1, 1], [2, 0], [2, 1]]);
    }

    #[test]
    fn slabs_add_up() {
        let bytes =
            |numbers: &[f32]| -> Vec<u8> { numbers.iter().flat_map(|n| n.to_le_bytes()).collect() };
        let mut tally = Tally::default();
        tally.add(DType::F32, &bytes(&[1.0, 2.0]), &bytes(&[1.0, 2.0]));
        tally.add(DType::F32, &bytes(&[3.0, 0.0]), &bytes(&[3.0, -0.0]));
        assert_eq!((tally.num_differing, tally.largest), (1, 0.0));
        tally.add(DType::F32, &bytes(&[5.0, 6.0]), &bytes(&[4.5, 8.0]));
        tally.add(DType::F32, &bytes(&[7.0]), &bytes(&[6.0]));
        assert_eq!((tally.num_differing, tally.largest), (4, 2.0));
        assert_eq!(tally.first.as_ref().map(|first| first.offset), Some(3));
        tally.add(DType::F32, &bytes(&[f32::NAN, 1.0]), &bytes(&[0.0, 9.0]));
        assert!(tally.largest.is_nan() && tally.num_differing == 6);
    }
}
