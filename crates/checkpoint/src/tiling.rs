//! Whether boxes tile a tensor: every element lies in exactly one of them.

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
        "box {} is missing ({found} of {needed} elements found)",
        show(missing)
    )]
    Gap {
        /// A box of missing elements.
        missing: IndexBox,
        /// Number of elements that lie in a box.
        found: usize,
        /// All elements.
        needed: usize,
    },
}

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

    fn start(&self, dim: usize) -> usize {
        self.index.start.get(dim).copied().unwrap_or(0)
    }

    fn end(&self, dim: usize) -> usize {
        self.start(dim) + self.index.shape.get(dim).copied().unwrap_or(1)
    }
}

/// Checks that the boxes tile a tensor of that shape, whose number of elements does not overflow.
pub(crate) fn check(shape: &[usize], tiles: &[Tile<'_>]) -> Result<(), Box<Tiling>> {
    if let Some(tile) = tiles.iter().find(|tile| !fits(tile.index, shape)) {
        let (index, file) = tile.owned();
        return Err(Box::new(Tiling::Outside {
            index,
            file,
            shape: shape.to_vec(),
        }));
    }
    let tiles: Vec<_> = tiles
        .iter()
        .copied()
        .filter(|tile| !tile.index.is_empty())
        .collect();
    if let Some((first, second)) = overlapping(&tiles) {
        return Err(Box::new(Tiling::Overlap {
            first: first.owned(),
            second: second.owned(),
        }));
    }
    // Disjoint boxes within the tensor cover it if they have as many elements as the tensor.
    let found = tiles.iter().map(|tile| tile.index.num_elements()).sum();
    let needed = shape.iter().product();
    match found == needed {
        true => Ok(()),
        false => Err(Box::new(Tiling::Gap {
            missing: missing(shape, &tiles),
            found,
            needed,
        })),
    }
}

/// Finds two boxes that share elements, if there are any.
///
/// Boxes sorted along a dim are compared only with those that begin before they end. On the dim with the most
/// cuts, thousands of boxes take few comparisons.
fn overlapping<'a>(tiles: &[Tile<'a>]) -> Option<(Tile<'a>, Tile<'a>)> {
    let dim = most_cut(tiles);
    let mut sorted = tiles.to_vec();
    sorted.sort_by_key(|tile| tile.start(dim));
    sorted.iter().enumerate().find_map(|(at, tile)| {
        let near = sorted[at + 1..]
            .iter()
            .take_while(|later| later.start(dim) < tile.end(dim));
        let mut shared = near.filter(|later| tile.index.intersect(later.index).is_some());
        shared.next().map(|later| (*tile, *later))
    })
}

/// The dim along which boxes begin at the most positions.
fn most_cut(tiles: &[Tile<'_>]) -> usize {
    let num_dims = tiles.first().map_or(0, |tile| tile.index.num_dims());
    let num_starts = |dim: &usize| {
        let mut starts: Vec<_> = tiles.iter().map(|tile| tile.start(*dim)).collect();
        starts.sort_unstable();
        starts.dedup();
        starts.len()
    };
    (0..num_dims).max_by_key(num_starts).unwrap_or(0)
}

/// The first box of the uncovered elements.
fn missing(shape: &[usize], tiles: &[Tile<'_>]) -> IndexBox {
    let whole = vec![IndexBox::full(shape)];
    let left = tiles.iter().fold(whole, |left, tile| {
        left.into_iter()
            .flat_map(|uncovered| without(uncovered, tile.index))
            .collect()
    });
    let first = left.into_iter().min_by(|a, b| a.start.cmp(&b.start));
    first.expect("a bug: fewer elements found than needed, but none is missing")
}

/// The elements of a box that are not in another.
fn without(mut left: IndexBox, taken: &IndexBox) -> Vec<IndexBox> {
    let Some(both) = left.intersect(taken) else {
        return vec![left];
    };
    let mut pieces = Vec::new();
    for (dim, (start, end)) in both.start.iter().copied().zip(both.end()).enumerate() {
        let left_end = left.start[dim] + left.shape[dim];
        for (from, to) in [(left.start[dim], start), (end, left_end)] {
            let mut piece = left.clone();
            (piece.start[dim], piece.shape[dim]) = (from, to - from);
            pieces.push(piece);
        }
        (left.start[dim], left.shape[dim]) = (start, end - start);
    }
    pieces.retain(|piece| !piece.is_empty());
    pieces
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
            "box [1..2, 1..2] is missing (8 of 9 elements found)"
        );
        assert_eq!(said(&[], &[index(&[], &[])]), "tiled");
        assert_eq!(said(&[], &[]), "box [] is missing (0 of 1 elements found)");
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
            "box [0..1] is missing (3 of 4 elements found)"
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
            let needed = match (counts.iter().max(), counts.iter().min()) {
                (Some(2..), _) => "overlap",
                (_, Some(0)) => "missing",
                _ => "tiled",
            };
            prop_assert!(verdict.contains(needed), "{verdict}: {counts:?}");
        }
    }
}
