//! Maximum of a row and sum of exp(x - maximum), by the tree of [`hal::sums`] over leaves.
//!
//! A leaf subtracts its own maximum. Joining two nodes rescales the sum of the one with the smaller maximum. Leaves are
//! joined [`BLOCK`] at once, because an exponential of a single number costs as much as one of a vector.

use super::{
    memory::{BLOCK, Shared},
    reduce::Lanes,
    tree::{NODE, Values, level, read},
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
    values: Values<A>,
    shifts: Values<A>,
    maxima: Lanes<A>,
    sums: Lanes<A>,
}

impl<A: Real> Scratch<A> {
    #[inline(always)]
    pub(super) fn new() -> Self {
        Scratch {
            tree: Tree::default(),
            values: Values::ZERO,
            shifts: Values::ZERO,
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
        let leaves = first..first + len.div_ceil(leaf);
        read(
            &mut self.values,
            x,
            at,
            len,
            #[inline(always)]
            |x| x,
        );
        // Missing columns add exp(-inf) = 0.
        self.values.0[len..].fill(A::LOWEST);
        each_leaf(
            &self.values.0,
            leaf,
            &mut self.maxima[leaves.clone()],
            #[inline(always)]
            |a, b| a.max(b),
        );
        for (index, &max) in self.maxima[leaves.clone()].iter().enumerate() {
            let shift = if max == A::LOWEST { A::ZERO } else { max };
            self.shifts.0[index * leaf..(index + 1) * leaf].fill(shift);
        }
        for i in 0..NODE {
            self.values.0[i] = (self.values.0[i] - self.shifts.0[i]).exp();
        }
        each_leaf(
            &self.values.0,
            leaf,
            &mut self.sums[leaves],
            #[inline(always)]
            |a, b| a + b,
        );
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

/// Joins the values of each leaf, neighbours first.
#[inline(always)]
fn each_leaf<A: Real>(
    values: &[A; NODE],
    leaf: usize,
    to: &mut [A],
    join: impl Fn(A, A) -> A + Copy,
) {
    let count = to.len();
    let of_2: [A; NODE / 2] = level(values, join);
    let of_4: [A; NODE / 4] = level(&of_2, join);
    let of_8: [A; NODE / 8] = level(&of_4, join);
    let of_16: [A; NODE / 16] = level(&of_8, join);
    let of_32: [A; NODE / 32] = level(&of_16, join);
    let of_64: [A; NODE / 64] = level(&of_32, join);
    match leaf {
        1 => to.copy_from_slice(&values[..count]),
        2 => to.copy_from_slice(&of_2[..count]),
        4 => to.copy_from_slice(&of_4[..count]),
        8 => to.copy_from_slice(&of_8[..count]),
        16 => to.copy_from_slice(&of_16[..count]),
        32 => to.copy_from_slice(&of_32[..count]),
        _ => to.copy_from_slice(&of_64[..count]),
    }
}
