//! Box arithmetic: checks, formatting, slabs, and copies between boxes.

use crate::{Error, Result};
use grid::{IndexBox, Runs};
use hal::DType;

/// A box formatted as `[0..4, 2..6]`.
pub(crate) fn show(index: &IndexBox) -> String {
    let dims = index.start.iter().zip(&index.shape);
    let ranges: Vec<_> = dims
        .map(|(start, len)| format!("{start}..{}", start.saturating_add(*len)))
        .collect();
    format!("[{}]", ranges.join(", "))
}

/// Whether a box has as many dims as the shape and lies within it; no sum overflows.
pub(crate) fn fits(index: &IndexBox, shape: &[usize]) -> bool {
    let ends = index
        .start
        .iter()
        .zip(&index.shape)
        .map(|(start, len)| start.checked_add(*len));
    let within = ends
        .zip(shape)
        .all(|(end, len)| end.is_some_and(|end| end <= *len));
    within && index.start.len() == shape.len() && index.shape.len() == shape.len()
}

/// The bytes of an array; `None` if the number overflows.
pub(crate) fn num_bytes(shape: &[usize], dtype: DType) -> Option<usize> {
    shape
        .iter()
        .try_fold(dtype.bytes(), |product, len| product.checked_mul(*len))
}

/// Cuts a box into slabs of at most `max_elements`, in row-major order. The elements of the slabs, one after
/// the other, are those of the box.
pub(crate) fn slabs(index: &IndexBox, max_elements: usize) -> Vec<IndexBox> {
    let longer = index.shape.iter().position(|len| *len > 1);
    let Some(dim) = longer.filter(|_| index.num_elements() > max_elements) else {
        return vec![index.clone()];
    };
    let (mut front, mut back) = (index.clone(), index.clone());
    front.shape[dim] /= 2;
    back.start[dim] += front.shape[dim];
    back.shape[dim] -= front.shape[dim];
    [slabs(&front, max_elements), slabs(&back, max_elements)].concat()
}

/// Copies the elements that lie in both boxes into the memory of one of them. `read` fills a slice with the other's
/// bytes from an offset on; offsets ascend.
///
/// # Errors
/// Those of `read`.
///
/// # Panics
/// If the memory is shorter than its box.
pub(crate) fn copy_overlap(
    mut read: impl FnMut(usize, &mut [u8]) -> Result<()>,
    source_index: &IndexBox,
    (target, target_index): (&mut [u8], &IndexBox),
    element_bytes: usize,
) -> Result<()> {
    let Some(both) = source_index.intersect(target_index) else {
        return Ok(());
    };
    let from = both
        .relative_to(source_index)
        .contiguous_runs(&source_index.shape);
    let to = both
        .relative_to(target_index)
        .contiguous_runs(&target_index.shape);
    for (from, to, len) in (Common {
        from,
        to,
        from_run: (0, 0),
        to_run: (0, 0),
    }) {
        let [from, to, len] = [from, to, len].map(|elements| elements * element_bytes);
        read(from, &mut target[to..to + len])?;
    }
    Ok(())
}

/// One past the last element of an array that also lies in another box; 0 if there is none. A window of the array that
/// ends there reads nothing ahead that the other box does not need.
pub(crate) fn end_of_overlap(array: &IndexBox, other: &IndexBox) -> usize {
    let Some(both) = array.intersect(other) else {
        return 0;
    };
    let ends = both.relative_to(array).end();
    let dims = ends.iter().zip(&array.shape);
    1 + dims.fold(0, |offset, (end, len)| offset * len + end - 1)
}

/// Contiguous runs common to two arrays of the same elements, split where either array jumps: (from, to,
/// length).
struct Common {
    from: Runs,
    to: Runs,
    from_run: (usize, usize),
    to_run: (usize, usize),
}

impl Iterator for Common {
    type Item = (usize, usize, usize);

    fn next(&mut self) -> Option<(usize, usize, usize)> {
        if self.from_run.1 == 0 {
            self.from_run = self.from.next()?;
        }
        if self.to_run.1 == 0 {
            self.to_run = self.to.next()?;
        }
        let len = self.from_run.1.min(self.to_run.1);
        let common = (self.from_run.0, self.to_run.0, len);
        for run in [&mut self.from_run, &mut self.to_run] {
            *run = (run.0 + len, run.1 - len);
        }
        Some(common)
    }
}

/// That a box may be read of a tensor: it lies within the shape, and the caller knows the whole shape.
///
/// # Errors
/// [`Error::Shape`], [`Error::Outside`].
pub(crate) fn check_request(
    name: &str,
    found: &[usize],
    needed: &[usize],
    index: &IndexBox,
) -> Result<()> {
    if found != needed {
        return Err(Error::Shape {
            name: name.to_owned(),
            found: found.to_vec(),
            needed: needed.to_vec(),
        });
    }
    match fits(index, found) {
        true => Ok(()),
        false => Err(Error::Outside {
            name: name.to_owned(),
            index: index.clone(),
            shape: found.to_vec(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index(start: &[usize], shape: &[usize]) -> IndexBox {
        IndexBox {
            start: start.to_vec(),
            shape: shape.to_vec(),
        }
    }

    fn of(bytes: &[u8]) -> impl FnMut(usize, &mut [u8]) -> Result<()> {
        |from, out| {
            out.copy_from_slice(&bytes[from..from + out.len()]);
            Ok(())
        }
    }

    #[test]
    fn a_box_fits_or_not() {
        assert!(fits(&index(&[1, 2], &[3, 0]), &[4, 2]) && fits(&index(&[], &[]), &[]));
        for outside in [
            index(&[1, 0], &[4, 1]),
            index(&[0], &[1]),
            index(&[usize::MAX, 0], &[2, 1]),
        ] {
            assert!(!fits(&outside, &[4, 2]), "{}", show(&outside));
        }
        assert_eq!(show(&index(&[1, 0], &[4, 2])), "[1..5, 0..2]");
        assert_eq!(num_bytes(&[3, 4], DType::Bf16), Some(24));
        assert_eq!(num_bytes(&[usize::MAX, 2], DType::Bf16), None);
    }

    #[test]
    fn slabs_are_the_box_in_its_own_order() {
        let whole = index(&[1, 0, 2], &[3, 5, 7]);
        let numbers: Vec<u8> = (0..105).collect();
        for max in [1, 2, 3, 6, 8, 34, 35, 104, 105, 200] {
            let mut joined = Vec::new();
            for slab in slabs(&whole, max) {
                let mut part = vec![0; slab.num_elements()];
                assert!(part.len() <= max);
                copy_overlap(of(&numbers), &whole, (&mut part, &slab), 1).unwrap();
                joined.extend(part);
            }
            assert_eq!(joined, numbers, "slabs of {max}");
        }
        assert_eq!(slabs(&index(&[], &[]), 1), [index(&[], &[])]);
    }

    #[test]
    fn an_overlap_is_copied_to_its_place() {
        let (source, target) = (index(&[0, 1], &[2, 3]), index(&[1, 0], &[2, 3]));
        let mut bytes = vec![0; 12];
        let from: Vec<u8> = (1..13).collect();
        copy_overlap(of(&from), &source, (&mut bytes, &target), 2).unwrap();
        assert_eq!(bytes, [0, 0, 7, 8, 9, 10, 0, 0, 0, 0, 0, 0]);
        assert_eq!(end_of_overlap(&source, &target), 5);
        assert_eq!(end_of_overlap(&source, &source), 6);
        assert_eq!(end_of_overlap(&index(&[], &[]), &index(&[], &[])), 1);
        let beside = index(&[2, 0], &[2, 3]);
        assert_eq!(end_of_overlap(&source, &beside), 0);
        copy_overlap(of(&from), &source, (&mut bytes, &beside), 2).unwrap();
        assert_eq!(bytes, [0, 0, 7, 8, 9, 10, 0, 0, 0, 0, 0, 0]);
    }
}
