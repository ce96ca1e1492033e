//! Whether boxes tile a tensor: every element lies in exactly one of them.
//!
//! A checkpoint comes from outside, so the time to check it must not grow with the square of its boxes. Two facts decide:
//! the boxes hold as many elements as the tensor, and every point is a corner of an even number of boxes, where the tensor
//! counts as one box more. The corners determine, modulo 2, how many boxes hold each element: an odd number, hence at
//! least one. With as many elements as the tensor, it is exactly one.

use crate::boxes::{fits, show};
use grid::IndexBox;

/// How boxes fail to tile a tensor.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Tiling {
    /// A box extends outside the tensor.
    #[error("box {} in {file} is not within shape {shape:?}", show(index))]
    Outside {
        /// The box.
        index: IndexBox,
        /// The file that holds it.
        file: String,
        /// The tensor's global shape.
        shape: Vec<usize>,
    },
    /// Elements lie in two boxes.
    #[error("box {} in {} and box {} in {} overlap", show(&first.0), first.1, show(&second.0), second.1)]
    Overlap {
        /// One box and its file.
        first: (IndexBox, String),
        /// Another box and its file.
        second: (IndexBox, String),
    },
    /// Elements lie in no box.
    #[error(
        "box {} is missing (found {found} elements in all boxes, needs {needed})",
        show(missing)
    )]
    Gap {
        /// A box of missing elements.
        missing: IndexBox,
        /// Number of elements of all boxes.
        found: u128,
        /// Number of elements of the tensor.
        needed: usize,
    },
    /// There are too many boxes to check.
    #[error("found {found} boxes, cut along {num_dims} dims, needs at most {needed}")]
    TooMany {
        /// Number of boxes.
        found: usize,
        /// Number of dims along which they are cut.
        num_dims: usize,
        /// The most boxes for that number of dims.
        needed: usize,
    },
}

/// The most corners of the boxes of a tensor, of 16 bytes each.
const MOST_CORNERS: usize = 1 << 25;

/// A box and the file that holds it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tile<'a> {
    pub(crate) index: &'a IndexBox,
    pub(crate) file: &'a str,
}

impl Tile<'_> {
    fn owned(&self) -> (IndexBox, String) {
        (self.index.clone(), self.file.to_owned())
    }

    /// Where it starts and ends along a dim of the region, which it overlaps.
    fn range(&self, dim: usize, region: &IndexBox) -> (usize, usize) {
        let start = self.index.start[dim];
        let end = start + self.index.shape[dim];
        let region_end = region.start[dim] + region.shape[dim];
        (start.max(region.start[dim]), end.min(region_end))
    }

    fn spans(&self, dim: usize, region: &IndexBox) -> bool {
        let whole = (region.start[dim], region.start[dim] + region.shape[dim]);
        self.range(dim, region) == whole
    }

    fn num_elements_in(&self, region: &IndexBox) -> u128 {
        let ranges = (0..region.num_dims()).map(|dim| self.range(dim, region));
        ranges.map(|(start, end)| (end - start) as u128).product()
    }
}

/// Checks that the boxes tile a tensor of that shape, whose number of elements does not overflow.
///
/// # Cost
/// O(n log n) for n boxes that tile the tensor; as much for each halving of the tensor, down to one element, if they do
/// not.
pub(crate) fn check(shape: &[usize], tiles: &[Tile<'_>]) -> Result<(), Box<Tiling>> {
    if let Some(tile) = tiles.iter().find(|tile| !fits(tile.index, shape)) {
        let (index, file) = tile.owned();
        return Err(Box::new(Tiling::Outside {
            index,
            file,
            shape: shape.to_vec(),
        }));
    }
    let whole = IndexBox::full(shape);
    let tiles = overlapping(tiles, &whole);
    let num_dims = cut_dims(&tiles, &whole).len();
    let needed = MOST_CORNERS.checked_shr(num_dims as u32).unwrap_or(0);
    if tiles.len() > needed {
        return Err(Box::new(Tiling::TooMany {
            found: tiles.len(),
            num_dims,
            needed,
        }));
    }
    match whole.is_empty() || is_tiled(&whole, &tiles) {
        true => Ok(()),
        false => Err(Box::new(fault(whole, &tiles))),
    }
}

fn overlapping<'a>(tiles: &[Tile<'a>], region: &IndexBox) -> Vec<Tile<'a>> {
    let tiles = tiles.iter().copied();
    tiles.filter(|tile| tile.index.overlaps(region)).collect()
}

/// The dims along which some box does not reach from one end of the region to the other.
fn cut_dims(tiles: &[Tile<'_>], region: &IndexBox) -> Vec<usize> {
    (0..region.num_dims())
        .filter(|dim| !tiles.iter().all(|tile| tile.spans(*dim, region)))
        .collect()
}

/// Whether the boxes, all of which overlap the region, tile it.
fn is_tiled(region: &IndexBox, tiles: &[Tile<'_>]) -> bool {
    let num_elements = |tile: &Tile<'_>| tile.num_elements_in(region);
    let found: u128 = tiles.iter().map(num_elements).sum();
    if found != region.num_elements() as u128 {
        return false;
    }
    let dims = cut_dims(tiles, region);
    let whole = Tile {
        index: region,
        file: "",
    };
    let mut corners = Vec::with_capacity((tiles.len() + 1) << dims.len());
    for tile in tiles.iter().chain([&whole]) {
        for ends in 0..1_usize << dims.len() {
            corners.push(corner(tile, ends, &dims, region));
        }
    }
    corners.sort_unstable();
    let mut same = corners.chunk_by(|one, other| one == other);
    same.all(|same| same.len().is_multiple_of(2))
}

/// The number of a corner among the points of the region: bit i of `ends` takes the end along the i-th of the dims.
fn corner(tile: &Tile<'_>, ends: usize, dims: &[usize], region: &IndexBox) -> u128 {
    dims.iter().enumerate().fold(0, |number, (bit, dim)| {
        let (start, end) = tile.range(*dim, region);
        let at = if ends >> bit & 1 == 1 { end } else { start };
        // A dim of length 2 or more has less than twice as many points; their number fits 128 bits as that of the elements
        // fits 64.
        number * (region.shape[*dim] as u128 + 1) + (at - region.start[*dim]) as u128
    })
}

/// The first element in row-major order that lies in no box or in several, found by halving the tensor.
fn fault(whole: IndexBox, tiles: &[Tile<'_>]) -> Tiling {
    let (mut region, mut within) = (whole.clone(), tiles.to_vec());
    while let Some(dim) = region.shape.iter().position(|len| *len > 1) {
        let (front, back) = halves(&region, dim);
        let in_front = overlapping(&within, &front);
        (region, within) = match is_tiled(&front, &in_front) {
            true => {
                let in_back = overlapping(&within, &back);
                (back, in_back)
            }
            false => (front, in_front),
        };
    }
    match &within[..] {
        [first, second, ..] => Tiling::Overlap {
            first: first.owned(),
            second: second.owned(),
        },
        _ => Tiling::Gap {
            missing: grown(region, &whole, tiles),
            found: tiles.iter().map(|tile| tile.num_elements_in(&whole)).sum(),
            needed: whole.num_elements(),
        },
    }
}

fn halves(region: &IndexBox, dim: usize) -> (IndexBox, IndexBox) {
    let (mut front, mut back) = (region.clone(), region.clone());
    front.shape[dim] /= 2;
    back.start[dim] += front.shape[dim];
    back.shape[dim] -= front.shape[dim];
    (front, back)
}

/// A box of missing elements around one of them: as long as it can be, dim by dim.
fn grown(mut missing: IndexBox, whole: &IndexBox, tiles: &[Tile<'_>]) -> IndexBox {
    for dim in 0..missing.num_dims() {
        let at = missing.start[dim];
        (missing.start[dim], missing.shape[dim]) = (0, whole.shape[dim]);
        let ranges = || {
            let near = tiles.iter().filter(|tile| tile.index.overlaps(&missing));
            near.map(|tile| tile.range(dim, whole))
        };
        let start = ranges().map(|(_, end)| end).filter(|end| *end <= at).max();
        let end = ranges()
            .map(|(start, _)| start)
            .filter(|start| *start > at)
            .min();
        let (start, end) = (start.unwrap_or(0), end.unwrap_or(whole.shape[dim]));
        (missing.start[dim], missing.shape[dim]) = (start, end - start);
    }
    missing
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn index(start: &[usize], shape: &[usize]) -> IndexBox {
        IndexBox {
            start: start.to_vec(),
            shape: shape.to_vec(),
        }
    }

    fn said(shape: &[usize], boxes: &[IndexBox]) -> String {
        let tiles: Vec<_> = boxes
            .iter()
            .map(|index| Tile { index, file: "f" })
            .collect();
        check(shape, &tiles).map_or_else(|fault| fault.to_string(), |()| "tiled".into())
    }

    #[test]
    fn tilings_by_hand() {
        // The four arms of a pinwheel and its centre: no plane separates them.
        let arms = [
            ([0, 0], [1, 2]),
            ([0, 2], [2, 1]),
            ([2, 1], [1, 2]),
            ([1, 0], [2, 1]),
            ([1, 1], [1, 1]),
        ];
        let boxes: Vec<_> = arms
            .iter()
            .map(|(start, shape)| index(start, shape))
            .collect();
        assert_eq!(said(&[3, 3], &boxes), "tiled");
        assert_eq!(
            said(&[3, 3], &boxes[..4]),
            "box [1..2, 1..2] is missing (found 8 elements in all boxes, needs 9)"
        );
        assert_eq!(said(&[], &[index(&[], &[])]), "tiled");
        assert_eq!(
            said(&[], &[]),
            "box [] is missing (found 0 elements in all boxes, needs 1)"
        );
        assert_eq!(
            said(&[], &[index(&[], &[]), index(&[], &[])]),
            "box [] in f and box [] in f overlap"
        );
        assert_eq!(said(&[4, 0], &[]), "tiled");
    }

    #[test]
    fn faults_name_their_boxes() {
        let halves = [index(&[0, 0], &[2, 3]), index(&[1, 2], &[1, 1])];
        assert_eq!(
            said(&[2, 3], &halves),
            "box [0..2, 0..3] in f and box [1..2, 2..3] in f overlap"
        );
        assert_eq!(
            said(&[1, 3], &halves),
            "box [0..2, 0..3] in f is not within shape [1, 3]"
        );
        assert_eq!(
            said(&[4], &[index(&[1], &[3])]),
            "box [0..1] is missing (found 3 elements in all boxes, needs 4)"
        );
    }

    #[test]
    fn thousands_of_boxes_take_no_time() {
        let side = 300;
        let mut boxes: Vec<_> = (0..side * side)
            .map(|at| index(&[2 * (at / side), 3 * (at % side)], &[2, 3]))
            .collect();
        let shape = [2 * side, 3 * side];
        let begun = std::time::Instant::now();
        assert_eq!(said(&shape, &boxes), "tiled");
        let moved = boxes.len() / 2;
        boxes[moved].start[1] += 1;
        let (start, end) = (boxes[moved].start[0], boxes[moved].start[0] + 2);
        assert_eq!(
            said(&shape, &boxes),
            format!(
                "box [{start}..{end}, 0..1] is missing (found 540000 elements in all boxes, needs 540000)"
            )
        );
        // The comparison of all pairs takes minutes.
        assert!(begun.elapsed().as_secs() < 20);
    }

    #[test]
    fn boxes_cut_along_too_many_dims_are_refused() {
        let halves = [0, 1].map(|at| index(&[at; 40], &[1; 40]));
        assert_eq!(
            said(&[2; 40], &halves),
            "found 2 boxes, cut along 40 dims, needs at most 0"
        );
    }

    proptest! {
        #[test]
        fn the_verdict_is_that_of_counting(
            boxes in prop::collection::vec((0_usize..4, 0_usize..4, 0_usize..5, 0_usize..5), 0..6),
        ) {
            let boxes: Vec<_> = boxes.iter().map(|&(a, b, c, d)| index(&[a, b], &[c.min(4 - a), d.min(4 - b)])).collect();
            let holders = |at: usize| boxes.iter().filter(|index| index.contains_index(&[at / 4, at % 4])).count();
            let counts: Vec<_> = (0..16).map(holders).collect();
            let verdict = said(&[4, 4], &boxes);
            let needed = match counts.iter().find(|count| **count != 1) {
                Some(0) => "missing",
                Some(_) => "overlap",
                None => "tiled",
            };
            prop_assert!(verdict.contains(needed), "{verdict}: {counts:?}");
        }
    }
}
