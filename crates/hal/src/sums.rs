//! The order in which a long sum is added, so that ranks which share its terms compute its bits.
//!
//! The terms of a sum (over the contracted size of a matmul, the features of a norm, the rows of a batch) are cut into
//! leaves of a fixed length; the last one may be shorter. How the terms of one leaf are added is the operation's own,
//! fixed affair: a matmul's leaf is one chain of fused multiply-adds from 0, in the order of its terms. Where the
//! processor multiplies pairs of bf16, a link of the chain is a pair, and an odd number of terms ends with a term of 0.
//!
//! Leaves are combined by a binary tree: a node of level l + 1 is the sum of two neighbouring nodes of level l, left plus
//! right, and starts at a multiple of its length. If the number of leaves is no power of 2, complete nodes remain; they
//! are added from the smallest, on the right, to the largest, on the left.
//!
//! Sums along a row (of norms, of [`RowSum`](crate::kernel::RowSum)) add the terms of a leaf by the same tree. So every
//! power of 2 is the length of a node there, and the length of a leaf only decides where ranks may cut.
//!
//! The order depends on the number of terms and on the length of a leaf, and on nothing else. So a rank that holds the
//! leaves of a complete node computes that node's bits, and [`Tree`] adds the nodes of several ranks to the bits of the
//! complete sum. [`leaf`] fixes the length by the global size alone. It is short enough for a size to be shared by many
//! ranks, and long enough for the tree to cost little beside its leaves.

use std::ops::Range;

/// The most terms of a leaf. Measured on matmuls of the CPU: with longer leaves they are hardly faster.
const LONGEST: usize = 64;
/// The fewest leaves of a sum that has as many terms.
const FEWEST: usize = 16;
/// Ranks that can share a sum in equal parts, if these have as many terms.
const RANKS: usize = 8;

/// Terms of a leaf of a sum over `len` terms, a power of 2.
///
/// A somewhat shorter leaf is chosen where 8 ranks can then share the sum in equal parts: 32 terms instead of 64 for 11008.
pub const fn leaf(len: usize) -> usize {
    let most = match len / FEWEST {
        0 => 1,
        most if most > LONGEST => LONGEST,
        most => 1 << most.ilog2(),
    };
    let mut leaf = most;
    while leaf > 0 && 4 * leaf >= most {
        if len.is_multiple_of(leaf * RANKS) {
            return leaf;
        }
        leaf /= 2;
    }
    most
}

/// Number of leaves of a sum of `k` terms; a sum of no terms is one empty leaf.
pub fn leaves(k: usize, leaf: usize) -> usize {
    k.div_ceil(leaf).max(1)
}

/// The levels on which a node waits when leaf `index` arrives and to which it is added, in this order.
///
/// The set bits of `index` are the levels of the nodes that wait. The last leaf is added to all of them. Any other
/// leaf is added only to those with which it completes a node.
pub fn joined(index: usize, last: bool) -> impl Iterator<Item = u32> {
    let levels = match last {
        true => index,
        false => index & !(index + 1),
    };
    (0..usize::BITS).filter(move |level| levels >> level & 1 == 1)
}

/// The level of the largest node that leaf `index` completes, which then waits for its right neighbour.
pub fn completed(index: usize) -> u32 {
    index.trailing_ones()
}

/// The level at which [`Tree`] takes a part of `len` terms that starts where a node of that level does.
///
/// Only the last part of a sum may be shorter than a complete node.
pub const fn level(len: usize) -> u32 {
    match len {
        0 => 0,
        len => usize::BITS - (len - 1).leading_zeros(),
    }
}

/// Number of levels on which nodes wait while `leaves` leaves are summed.
pub fn waiting_levels(leaves: usize) -> u32 {
    usize::BITS - leaves.saturating_sub(1).leading_zeros()
}

/// The largest complete nodes that cover a range of leaves, from left to right.
pub fn nodes(leaves: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    let mut start = leaves.start;
    std::iter::from_fn(move || {
        let left = leaves.end.checked_sub(start).filter(|&left| left > 0)?;
        let level = left.ilog2().min(start.trailing_zeros());
        let node = start..start + (1 << level);
        start = node.end;
        Some(node)
    })
}

/// Whether two nodes, by their leaves, are the halves of the next larger one.
pub fn are_halves(left: &Range<usize>, right: &Range<usize>) -> bool {
    let len = left.len();
    left.end == right.start && right.len() == len && left.start.is_multiple_of(2 * len.max(1))
}

/// Adds complete nodes to their sum.
#[derive(Clone, Debug)]
pub struct Tree<T> {
    // Levels fall from left to right.
    waiting: Vec<(u32, T)>,
}

impl<T> Default for Tree<T> {
    fn default() -> Self {
        Tree {
            waiting: Vec::new(),
        }
    }
}

impl<T> Tree<T> {
    /// Takes the next node to the right, of 2^`level` leaves; `add` adds a left node and its right neighbour.
    #[inline(always)]
    pub fn push(&mut self, level: u32, node: T, mut add: impl FnMut(T, T) -> T) {
        let (mut level, mut node) = (level, node);
        while let Some((_, left)) = self.waiting.pop_if(|(waiting, _)| *waiting == level) {
            (level, node) = (level + 1, add(left, node));
        }
        self.waiting.push((level, node));
    }

    /// The sum of all nodes; `None` without any.
    ///
    /// Empties the tree, which keeps its memory for the next sum.
    #[inline(always)]
    pub fn sum(&mut self, mut add: impl FnMut(T, T) -> T) -> Option<T> {
        let (_, mut sum) = self.waiting.pop()?;
        while let Some((_, left)) = self.waiting.pop() {
            sum = add(left, sum);
        }
        Some(sum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(left: String, right: String) -> String {
        format!("({left}{right})")
    }

    fn by_nodes(leaves: Range<usize>) -> String {
        let mut tree = Tree::default();
        for node in nodes(leaves) {
            let mut inner = Tree::default();
            node.clone()
                .for_each(|leaf| inner.push(0, format!("{leaf}"), written));
            tree.push(node.len().ilog2(), inner.sum(written).unwrap(), written);
        }
        tree.sum(written).unwrap()
    }

    /// The way of the kernels: one waiting node per level.
    fn by_levels(leaves: usize) -> String {
        let mut waiting = vec![String::new(); waiting_levels(leaves) as usize];
        for index in 0..leaves {
            let last = index + 1 == leaves;
            let add = |sum, level: u32| written(waiting[level as usize].clone(), sum);
            let sum = joined(index, last).fold(format!("{index}"), add);
            if last {
                return sum;
            }
            waiting[completed(index) as usize] = sum;
        }
        unreachable!("a sum has at least one leaf")
    }

    #[test]
    fn seven_leaves_are_added_from_the_smallest_node_to_the_largest() {
        assert_eq!(by_nodes(0..7), "(((01)(23))((45)6))");
        assert_eq!(by_nodes(0..5), "(((01)(23))4)");
        assert_eq!(by_nodes(0..1), "0");
    }

    #[test]
    fn kernels_and_nodes_agree_on_the_tree() {
        for leaves in 1..70 {
            assert_eq!(by_levels(leaves), by_nodes(0..leaves));
        }
    }

    #[test]
    fn nodes_start_at_multiples_of_their_length() {
        let found: Vec<_> = nodes(3..13).collect();
        assert_eq!(found, [3..4, 4..8, 8..12, 12..13]);
        assert_eq!(nodes(4..4).count(), 0);
    }

    #[test]
    fn leaves_are_powers_of_two_and_many() {
        let found = [0, 1, 31, 32, 48, 100, 1023, 1024, 1 << 20].map(leaf);
        assert_eq!(found, [1, 1, 1, 2, 2, 4, 32, 64, 64]);
        // Sizes of models that are no powers of 2.
        assert_eq!(
            [40, 80, 768, 1600, 2560, 11008].map(leaf),
            [1, 2, 32, 64, 64, 32]
        );
        assert!((16..5000).all(|len| leaves(len, leaf(len)) >= FEWEST));
    }

    #[test]
    fn a_sum_of_no_terms_is_one_leaf() {
        assert_eq!((leaves(0, 8), leaves(8, 8), leaves(9, 8)), (1, 1, 2));
    }
}
