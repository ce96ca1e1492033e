//! Sums and maxima along a row, in lanes: element i goes to lane i % BLOCK, and the lanes are folded in halves.
//!
//! The order depends only on the length, never on threads or on the processor.

use super::{
    block::blocks,
    memory::{BLOCK, Shared},
};
use crate::element::{Element, Real};
use std::ops::Range;

/// One partial result for each position of a block.
pub(crate) type Lanes<A> = [A; BLOCK];

/// Combines all lanes into one number with `combine`.
#[inline(always)]
pub(crate) fn fold<A: Real>(mut lanes: Lanes<A>, combine: impl Fn(A, A) -> A) -> A {
    let mut width = BLOCK;
    while width > 1 {
        width /= 2;
        for i in 0..width {
            lanes[i] = combine(lanes[i], lanes[i + width]);
        }
    }
    lanes[0]
}

/// The sum of all lanes.
#[inline(always)]
pub(crate) fn total<A: Real>(lanes: Lanes<A>) -> A {
    fold(
        lanes,
        #[inline(always)]
        |a, b| a + b,
    )
}

/// The sum of `f(x)` over the elements of `range`.
#[inline(always)]
pub(crate) fn sum<T: Element, A: Real>(x: Shared<T>, range: Range<usize>, f: impl Fn(A) -> A) -> A {
    let mut lanes = [A::ZERO; BLOCK];
    blocks(
        range,
        #[inline(always)]
        |start, len| {
            let values = x.load::<A>(start, len);
            for i in 0..len {
                lanes[i] += f(values[i]);
            }
        },
    );
    total(lanes)
}

/// The largest element of `range`; minus infinity if it is empty.
#[inline(always)]
pub(crate) fn max<T: Element>(x: Shared<T>, range: Range<usize>) -> T::Acc {
    let mut lanes = [T::Acc::LOWEST; BLOCK];
    blocks(
        range,
        #[inline(always)]
        |start, len| {
            let values = x.load::<T::Acc>(start, len);
            for i in 0..len {
                lanes[i] = lanes[i].max(values[i]);
            }
        },
    );
    fold(
        lanes,
        #[inline(always)]
        |a, b| a.max(b),
    )
}
