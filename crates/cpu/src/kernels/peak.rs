//! Maximum of a row and sum of exp(x - maximum), by the tree of [`hal::sums`] over leaves.
//!
//! A leaf subtracts its own maximum. Joining two nodes rescales the sum of the one with the smaller maximum. Leaves are
//! joined [`BLOCK`] at once, because an exponential of a single number costs as much as one of a vector.

use super::{
    memory::{BLOCK, Shared},
    reduce::{Lanes, fold, total},
    tree::{NODE, read},
};
use crate::element::{Element, Real};
use hal::sums::Tree;

/// The maximum of a part of a row, and the sum of exp(x - maximum) over it; minus infinity and 0 without columns.
#[derive(Clone, Copy)]
pub(super) struct Peak<A> {
    pub(super) max: A,
    pub(super) sum: A,
}

impl<A: Real> Peak<A> {
    pub(super) const NONE: Self = Peak {
        max: A::LOWEST,
        sum: A::ZERO,
    };

    /// The peak of two neighbours. A part without columns changes no bit of the other.
    #[inline(always)]
    pub(super) fn join(self, right: Self) -> Self {
        let (max, sum) = join([self.max, right.max], [self.sum, right.sum]);
        Peak { max, sum }
    }
}

// Of two maxima of minus infinity the difference would be NaN.
#[inline(always)]
fn join<A: Real>(maxima: [A; 2], sums: [A; 2]) -> (A, A) {
    let left_is_larger = maxima[0] >= maxima[1];
    let large = if left_is_larger { maxima[0] } else { maxima[1] };
    let small = if left_is_larger { maxima[1] } else { maxima[0] };
    let of_large = if left_is_larger { sums[0] } else { sums[1] };
    let of_small = if left_is_larger { sums[1] } else { sums[0] };
    let exponent = if small == A::LOWEST {
        small
    } else {
        small - large
    };
    (large, of_large + of_small * exponent.exp())
}

/// Memory for the values of a row on its way through the kernel.
pub(super) struct Scratch<A> {
    tree: Tree<Peak<A>>,
    values: [A; NODE],
    shifts: [A; NODE],
    maxima: Lanes<A>,
    sums: Lanes<A>,
}

impl<A: Real> Scratch<A> {
    #[inline(always)]
    pub(super) fn new() -> Self {
        Scratch {
            tree: Tree::default(),
            values: [A::ZERO; NODE],
            shifts: [A::ZERO; NODE],
            maxima: [A::ZERO; BLOCK],
            sums: [A::ZERO; BLOCK],
        }
    }

    /// The peak of all elements of `x`.
    #[inline(always)]
    pub(super) fn of_row<T: Element<Acc = A>>(&mut self, x: Shared<T>, leaf: usize) -> Peak<A> {
        let mut start = 0;
        while start < x.len() {
            let end = x.len().min(start + BLOCK * leaf);
            let node = self.of_block(x, start, end, leaf);
            self.tree.push(BLOCK.ilog2(), node, Peak::join);
            start = end;
        }
        self.tree.sum(Peak::join).unwrap_or(Peak::NONE)
    }

    /// The node of at most [`BLOCK`] leaves; missing ones are neutral.
    #[inline(always)]
    fn of_block<T: Element<Acc = A>>(
        &mut self,
        x: Shared<T>,
        start: usize,
        end: usize,
        leaf: usize,
    ) -> Peak<A> {
        (self.maxima, self.sums) = ([A::LOWEST; BLOCK], [A::ZERO; BLOCK]);
        let step = NODE.min(BLOCK * leaf);
        let (mut at, mut first_leaf) = (start, 0);
        while at < end {
            self.leaves(x, at, step.min(end - at), leaf, first_leaf);
            (at, first_leaf) = (at + step, first_leaf + step / leaf);
        }
        let mut width = (end - start).div_ceil(leaf).next_power_of_two();
        while width > 1 {
            width /= 2;
            self.halve();
        }
        Peak {
            max: self.maxima[0],
            sum: self.sums[0],
        }
    }

    /// Sets the leaves from `first` on to the peaks of the columns `at..at + len`, at most [`NODE`].
    #[inline(always)]
    fn leaves<T: Element<Acc = A>>(
        &mut self,
        x: Shared<T>,
        at: usize,
        len: usize,
        leaf: usize,
        first: usize,
    ) {
        read(
            &mut self.values,
            x,
            at,
            len,
            #[inline(always)]
            |x| x,
        );
        let leaves = len.div_ceil(leaf);
        // The missing columns of a leaf add exp(-inf) = 0.
        self.values[len..leaves * leaf].fill(A::LOWEST);
        for index in 0..leaves {
            let columns = index * leaf..(index + 1) * leaf;
            let max = largest(&self.values[columns.clone()]);
            self.maxima[first + index] = max;
            let shift = if max == A::LOWEST { A::ZERO } else { max };
            self.shifts[columns].fill(shift);
        }
        let used = leaves * leaf;
        let (values, shifts) = (&mut self.values[..used], &self.shifts[..used]);
        for i in 0..used {
            values[i] = (values[i] - shifts[i]).exp();
        }
        for index in 0..leaves {
            self.sums[first + index] = sum(&self.values[index * leaf..(index + 1) * leaf]);
        }
    }

    /// Joins the leaves in pairs; the results come first.
    #[inline(always)]
    fn halve(&mut self) {
        let (maxima, sums) = (self.maxima, self.sums);
        (self.maxima, self.sums) = ([A::LOWEST; BLOCK], [A::ZERO; BLOCK]);
        for i in 0..BLOCK / 2 {
            let (max, sum) = join(
                [maxima[2 * i], maxima[2 * i + 1]],
                [sums[2 * i], sums[2 * i + 1]],
            );
            self.maxima[i] = max;
            self.sums[i] = sum;
        }
    }
}

/// The largest of a leaf's values.
#[inline(always)]
fn largest<A: Real>(values: &[A]) -> A {
    let lanes = in_lanes(
        values,
        A::LOWEST,
        #[inline(always)]
        |a, b| a.max(b),
    );
    fold(
        lanes,
        #[inline(always)]
        |a, b| a.max(b),
    )
}

/// The sum of a leaf's values.
#[inline(always)]
fn sum<A: Real>(values: &[A]) -> A {
    total(in_lanes(
        values,
        A::ZERO,
        #[inline(always)]
        |a, b| a + b,
    ))
}

/// Value i of a leaf goes to lane i % [`BLOCK`]; lanes without a value are `neutral`.
#[inline(always)]
fn in_lanes<A: Real>(values: &[A], neutral: A, join: impl Fn(A, A) -> A) -> Lanes<A> {
    let (blocks, rest) = values.as_chunks::<BLOCK>();
    let mut lanes = [neutral; BLOCK];
    for block in blocks {
        for i in 0..BLOCK {
            lanes[i] = join(lanes[i], block[i]);
        }
    }
    for (lane, &value) in lanes.iter_mut().zip(rest) {
        *lane = join(*lane, value);
    }
    lanes
}
