//! Sums whose terms lie on several ranks, in an order that no grid changes.
//!
//! # The order
//! Each sum that an axis can cut (over the features that a linear layer contracts, a norm's row, a vocabulary, the
//! rows of the batch) is a binary tree over leaves, as [`hal::sums`] defines it. The global size alone fixes where leaves
//! begin and how the tree joins them. What happens inside a leaf is the business of one kernel, which sees the terms of
//! that leaf and no others.
//!
//! # Why every grid gives the same bits
//! 1. The features of X and Y, and the rows of Data and Z, are cut where leaves begin ([`grid::feature_range`],
//!    [`RowCut`]). So each leaf lies on one rank, and every rank computes it from the same numbers.
//! 2. A run of leaves consists of complete nodes of the tree ([`hal::sums::nodes`]). A rank adds its leaves up to these
//!    nodes and no further. For powers of 2 that is one node a rank; otherwise there are a few more.
//! 3. Ranks exchange nodes, never sums of their own making: an all-to-all gives each rank a part of the elements of every
//!    node. There it joins the nodes of all ranks, left half plus right half, wherever two halves meet (`join`).
//!    A node is thus always the sum of the same two halves, whether a kernel, a rank or two ranks add them.
//! 4. An all-gather returns the elements to all ranks. No library adds anything, so neither its algorithms nor the
//!    route of its messages matter.
//! 5. Nodes have the accumulator type on the wire. A sum is rounded to 16 bits once, after its last addition, which is
//!    where one rank rounds it.
//! 6. Everything else is computed element by element, or row by row, by kernels whose result for an element does not
//!    depend on what comes with it.
//!
//! # Cost
//! For aligned ranges the all-to-all and the all-gather move a ring's bytes, 2 (p - 1) / p of the elements; in f32 for
//! 16-bit models. Each further node of a rank adds as much again to the all-to-all.

mod features;
mod held;
mod parts;
mod products;
mod rows;
mod wire;

pub(crate) use features::Features;
pub(crate) use held::Held;
pub(crate) use parts::{statistics, sum_nodes};
pub(crate) use products::{Product, ProductSum};
pub use rows::{CutFirst, RowCut};
pub(crate) use rows::{Leaves, part};
pub(crate) use wire::Wire;

use hal::sums::are_halves;
use std::ops::Range;
use tensor::{Stream, Tensor, ops};

/// A node of a sum, by its leaves, and its value.
pub(crate) type Node<T> = (Range<usize>, T);

/// `left += right`, on this stream: how every sum joins two halves.
///
/// # Errors
/// As [`ops::axpby`].
pub(crate) fn add(stream: &Stream, left: &Tensor, right: &Tensor) -> tensor::Result<()> {
    ops::axpby_on(stream, 1.0, right, 1.0, left)
}

/// Adds a node to those that wait, from left to right, and joins it with the halves that it completes; `add` adds the
/// second value to the first.
pub(crate) fn join<T, E>(
    waiting: &mut Vec<Node<T>>,
    node: Node<T>,
    mut add: impl FnMut(&T, &T) -> Result<(), E>,
) -> Result<(), E> {
    waiting.push(node);
    while let [.., (left, sum), (right, value)] = &mut waiting[..] {
        if !are_halves(left, right) {
            break;
        }
        add(sum, value)?;
        left.end = right.end;
        waiting.pop();
    }
    Ok(())
}

/// The sum of all leaves from the nodes that are left of them, added from the smallest to the largest; `None` of none.
pub(crate) fn complete<T, E>(
    mut nodes: Vec<Node<T>>,
    mut add: impl FnMut(&T, &T) -> Result<(), E>,
) -> Result<Option<T>, E> {
    while let [.., (_, left), (_, right)] = &nodes[..] {
        add(left, right)?;
        nodes.pop();
    }
    Ok(nodes.pop().map(|(_, sum)| sum))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hal::sums::{Tree, nodes};
    use proptest::prelude::*;
    use std::{cell::RefCell, convert::Infallible};

    // A value is the text of its sum.
    type Text = RefCell<String>;

    fn add(left: &Text, right: &Text) -> Result<(), Infallible> {
        let text = format!("({}{})", left.borrow(), right.borrow());
        left.replace(text);
        Ok(())
    }

    fn leaf(index: usize) -> Node<Text> {
        (index..index + 1, RefCell::new(format!("[{index}]")))
    }

    fn serial(leaves: usize) -> String {
        let mut tree = Tree::default();
        let add = |left, right| format!("({left}{right})");
        (0..leaves).for_each(|index| tree.push(0, format!("[{index}]"), add));
        tree.sum(add).unwrap()
    }

    proptest! {
        #[test]
        fn any_cut_into_ranks_gives_the_serial_sum(cuts in prop::collection::vec(0_usize..9, 1..9)) {
            let (mut start, mut all) = (0, Vec::new());
            for len in cuts {
                // The rank's own nodes, from its leaves.
                let mut own = Vec::new();
                for index in start..start + len {
                    join(&mut own, leaf(index), add).unwrap();
                }
                let ranges: Vec<_> = own.iter().map(|(range, _)| range.clone()).collect();
                prop_assert_eq!(&ranges, &nodes(start..start + len).collect::<Vec<_>>());
                all.extend(own);
                start += len;
            }
            let mut waiting = Vec::new();
            for node in all {
                join(&mut waiting, node, add).unwrap();
            }
            let sum = complete(waiting, add).unwrap();
            prop_assert_eq!(sum.map(RefCell::into_inner), (start > 0).then(|| serial(start)));
        }
    }
}
