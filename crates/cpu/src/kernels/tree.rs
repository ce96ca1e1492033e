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
pub(super) type Values<A> = [A; NODE];

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
            let values = &mut values[at..at + BLOCK];
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
        .first_chunk()
        .expect("a bug: a node is at most NODE long")
}

/// The sum of the first `len` values, a power of 2.
#[inline(always)]
pub(super) fn total<A: Real>(values: &Values<A>, len: usize) -> A {
    match len {
        256 => of_256(values),
        128 => of_128(first(values)),
        64 => of_64(first(values)),
        32 => of_32(first(values)),
        len => of_few(first(values), len),
    }
}

// One function for each length, because a loop over levels is not compiled to vectors.

#[inline(always)]
fn of_256<A: Real>(values: &[A; 256]) -> A {
    of_128(&sums(values))
}

#[inline(always)]
fn of_128<A: Real>(values: &[A; 128]) -> A {
    of_64(&sums(values))
}

#[inline(always)]
fn of_64<A: Real>(values: &[A; 64]) -> A {
    of_32(&sums(values))
}

#[inline(always)]
fn of_32<A: Real>(values: &[A; 32]) -> A {
    let values: [A; 16] = sums(values);
    let values: [A; 8] = sums(&values);
    let values: [A; 4] = sums(&values);
    let [left, right]: [A; 2] = sums(&values);
    left + right
}

#[inline(always)]
fn of_few<A: Real>(values: &[A; 16], len: usize) -> A {
    let (mut values, mut width) = (*values, len);
    while width > 1 {
        width /= 2;
        for i in 0..width {
            values[i] = values[2 * i] + values[2 * i + 1];
        }
    }
    values[0]
}

#[inline(always)]
fn sums<A: Real, const N: usize, const HALF: usize>(from: &[A; N]) -> [A; HALF] {
    level(
        from,
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
