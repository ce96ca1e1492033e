//! Sums along a row by the tree of [`hal::sums`] over single columns.
//!
//! A row is cut into complete nodes of at most [`NODE`] columns. Inside a node, neighbours are added level by level, which
//! loops over vectors; [`Tree`] adds the nodes. The order depends on the number of columns alone.

use super::{
    block::blocks,
    memory::{BLOCK, Shared},
};
use crate::element::{Element, Real};
use hal::sums::Tree;

/// The most columns of a node that is computed at once: its values stay in the nearest cache.
pub(super) const NODE: usize = 256;

/// One value for each column of a node; only the first ones count if it is shorter.
///
/// Aligned, because a vector that is written across the lines of the cache is slow to read again.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub(super) struct Values<A>(pub(super) [A; NODE]);

impl<A: Real> Values<A> {
    pub(super) const ZERO: Self = Values([A::ZERO; NODE]);
}

/// The sum over `columns` columns: `node(start, len)` computes a complete node, `add` joins a node and its right
/// neighbour. `None` without columns.
#[inline(always)]
pub(super) fn sum_row<N>(
    tree: &mut Tree<N>,
    columns: usize,
    mut node: impl FnMut(usize, usize) -> N,
    add: impl Fn(N, N) -> N,
) -> Option<N> {
    let mut start = 0;
    // Separate, so that the longest node is compiled with its length as a constant.
    while columns - start >= NODE {
        tree.push(NODE.ilog2(), node(start, NODE), &add);
        start += NODE;
    }
    while start < columns {
        let level = (columns - start).ilog2();
        tree.push(level, node(start, 1 << level), &add);
        start += 1 << level;
    }
    tree.sum(&add)
}

/// Sets the first values to `f` of the `len` elements of `x` from `start` on.
#[inline(always)]
pub(super) fn read<T: Element>(
    values: &mut Values<T::Acc>,
    x: Shared<T>,
    start: usize,
    len: usize,
    f: impl Fn(T::Acc) -> T::Acc,
) {
    blocks(
        0..len,
        #[inline(always)]
        |at, count| {
            let block = x.load::<T::Acc>(start + at, count);
            let values = &mut values.0[at..at + BLOCK];
            for i in 0..BLOCK {
                values[i] = f(block[i]);
            }
        },
    );
}

/// The first values, whose number the compiler knows.
#[inline(always)]
pub(super) fn first<A, const N: usize>(values: &Values<A>) -> &[A; N] {
    values
        .0
        .first_chunk()
        .expect("a bug: a node is at most NODE long")
}

/// The sum of the first `len` values, a power of 2; overwrites the values.
///
/// Each level adds complete vectors, so values behind the sums become arbitrary. The small levels are as long as that,
/// too: where the compiler knows their length, it takes them apart into single numbers, which is slower.
#[inline(always)]
pub(super) fn total<A: Real>(values: &mut Values<A>, len: usize) -> A {
    let mut width = len;
    while width > 1 {
        width /= 2;
        for start in (0..width).step_by(BLOCK / 2) {
            let mut block = [A::ZERO; BLOCK];
            block.copy_from_slice(&values.0[2 * start..2 * start + BLOCK]);
            values.0[start..start + BLOCK / 2].copy_from_slice(&pairs(&block));
        }
    }
    values.0[0]
}

/// The sums of the neighbours in a block.
#[inline(always)]
pub(super) fn pairs<A: Real>(block: &[A; BLOCK]) -> [A; BLOCK / 2] {
    level(
        block,
        #[inline(always)]
        |left, right| left + right,
    )
}

/// Joins neighbours.
#[inline(always)]
pub(super) fn level<A: Real, const N: usize, const HALF: usize>(
    from: &[A; N],
    join: impl Fn(A, A) -> A,
) -> [A; HALF] {
    let mut to = [A::ZERO; HALF];
    for i in 0..HALF {
        to[i] = join(from[2 * i], from[2 * i + 1]);
    }
    to
}
