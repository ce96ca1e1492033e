//! A product with one row, whose time is that of reading the right factor: in the order in which it is stored.

use super::{
    finish::Finish, kernel::fetch, scratch::with_scratch, strided::Strided, transpose::transpose,
};
use crate::{element::Element, lanes::Lanes};
use hal::sums;
use pulp::{Simd, WithSimd};
use std::ops::Range;

// Columns whose sums stay in the first-level cache.
const COLUMNS: usize = 2048;
// Columns and terms of a part of the right factor that is transposed in the first-level cache, if leaves are no longer.
const SIDE: usize = 32;
const DEPTH: usize = 128;
// The most terms that are added while a vector of sums is in a register; a power of 2.
const TERMS: usize = 8;

/// c = alpha * a b + beta * c, with a of 1 x k and b of k x n.
#[derive(Clone, Copy, Debug)]
pub(super) struct RowProduct<R, C> {
    pub(super) k: usize,
    /// Terms of a leaf of the sums.
    pub(super) leaf: usize,
    pub(super) a: Strided<R>,
    pub(super) b: Strided<R>,
    pub(super) c: Strided<C>,
    pub(super) finish: Finish<R>,
}

impl<R: Lanes, C: Element<Acc = R>> RowProduct<R, C> {
    /// Computes some columns.
    ///
    /// # Safety
    /// The matrices are live and hold their shapes; rows or columns of `b` are contiguous; `c` overlaps neither
    /// factor, and nobody else uses these columns of it.
    pub(super) unsafe fn columns(&self, arch: pulp::Arch, columns: Range<usize>) {
        let leaves = sums::leaves(self.k, self.leaf);
        let levels = sums::waiting_levels(leaves) as usize;
        let in_place = self.b.column == 1;
        // Leaves that are read where they lie, or transposed at once.
        let (side, together) = match in_place {
            true => (COLUMNS, leaves),
            false => (SIDE, (DEPTH / self.leaf).max(1)),
        };
        let square = match in_place {
            true => 0,
            false => SIDE * self.k.min(together * self.leaf),
        };
        with_scratch((levels + 1) * side + square, |memory: &mut [R]| {
            let (sums, memory) = memory.split_at_mut(side);
            let (waiting, square) = memory.split_at_mut(levels * side);
            for start in columns.clone().step_by(side) {
                let columns = start..columns.end.min(start + side);
                let sums = &mut sums[..columns.len()];
                for first in (0..leaves).step_by(together) {
                    let terms = first * self.leaf..self.k.min((first + together) * self.leaf);
                    // SAFETY: the caller guarantees the factors.
                    let (b, b_step) = unsafe { self.right(terms.clone(), columns.clone(), square) };
                    arch.dispatch(RowLeaves {
                        first,
                        all: leaves,
                        leaf: self.leaf,
                        depth: terms.len(),
                        a: self.a.from(0, terms.start),
                        b,
                        b_step,
                        sums: &mut *sums,
                        waiting: waiting.as_mut_ptr(),
                        level_step: side,
                    });
                }
                let (len, c) = (sums.len(), self.c.from(0, columns.start));
                // SAFETY: the caller guarantees these columns of the result.
                unsafe { self.finish.run(arch, sums, len, [1, len], c) };
            }
        });
    }

    /// A part of the right factor with contiguous rows, and the step between them; columns are transposed into `square`.
    ///
    /// # Safety
    /// As [`columns`](Self::columns).
    unsafe fn right(
        &self,
        terms: Range<usize>,
        columns: Range<usize>,
        square: &mut [R],
    ) -> (*const R, usize) {
        let from = self.b.from(terms.start, columns.start).data;
        if self.b.column == 1 {
            return (from, self.b.row);
        }
        let (bytes, to) = (self.b.column * size_of::<R>(), square.as_mut_ptr());
        debug_assert!(square.len() >= SIDE * terms.len() && columns.len() <= SIDE);
        // SAFETY: the caller guarantees these terms in each column; the square has room for all of them.
        unsafe { transpose(from.cast(), bytes, columns.len(), terms.len(), to, SIDE) };
        (square.as_ptr(), SIDE)
    }
}

/// Adds leaves to sums. Whoever makes it guarantees `depth` elements of `a`, as many rows of `b` as long as `sums`, and
/// room for as many sums on each level on which nodes wait.
struct RowLeaves<'a, R> {
    /// The index of the first leaf among all of the sum.
    first: usize,
    all: usize,
    leaf: usize,
    /// Terms of these leaves.
    depth: usize,
    a: Strided<R>,
    b: *const R,
    b_step: usize,
    /// Receives the sums of the last leaf.
    sums: &'a mut [R],
    waiting: *mut R,
    level_step: usize,
}

/// What becomes of the sums of some terms of a leaf.
struct Link<'a> {
    /// The terms are the leaf's first ones.
    first: bool,
    /// If they are its last ones: the levels to whose nodes the leaf is added, and that of the node it completes.
    joined: &'a [usize],
    completed: Option<usize>,
}

impl<R: Lanes> WithSimd for RowLeaves<'_, R> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        if self.depth == 0 {
            return self.sums.fill(R::ZERO);
        }
        // Any leaf but the last is added to the nodes of all levels below that of the node it completes.
        let mut levels = [0; usize::BITS as usize];
        for level in 0..levels.len() {
            levels[level] = level;
        }
        let mut start = 0;
        for index in self.first.. {
            let (end, last) = (self.depth.min(start + self.leaf), index + 1 == self.all);
            let mut joined = sums::completed(index) as usize;
            if last {
                joined = 0;
                for level in sums::joined(index, last) {
                    levels[joined] = level as usize;
                    joined += 1;
                }
            }
            let mut first = true;
            while start < end {
                let terms = TERMS.min(1 << (end - start).ilog2());
                let link = match start + terms == end {
                    false => Link {
                        first,
                        joined: &[],
                        completed: None,
                    },
                    true => Link {
                        first,
                        joined: &levels[..joined],
                        completed: (!last).then(|| sums::completed(index) as usize),
                    },
                };
                match terms {
                    1 => self.add::<S, 1>(simd, start, link),
                    2 => self.add::<S, 2>(simd, start, link),
                    4 => self.add::<S, 4>(simd, start, link),
                    _ => self.add::<S, TERMS>(simd, start, link),
                }
                (start, first) = (start + terms, false);
            }
            if start == self.depth {
                return;
            }
        }
    }
}

impl<R: Lanes> RowLeaves<'_, R> {
    #[inline(always)]
    fn add<S: Simd, const TERMS: usize>(&mut self, simd: S, start: usize, link: Link) {
        let lanes = size_of::<R::Vector<S>>() / size_of::<R>();
        let mut left = [R::ZERO; TERMS];
        let mut splats = [R::splat(simd, R::ZERO); TERMS];
        for term in 0..TERMS {
            // SAFETY: these terms are among the `depth` ones.
            left[term] = unsafe { *self.a.from(0, start + term).data };
            splats[term] = R::splat(simd, left[term]);
        }
        let right = self.b.wrapping_add(start * self.b_step);
        let (len, sums) = (self.sums.len(), self.sums.as_mut_ptr());
        let (waiting, level_step) = (self.waiting, self.level_step);
        let node = |level: usize| waiting.wrapping_add(level * level_step);
        let out = match link.completed {
            Some(level) => node(level),
            None => sums,
        };
        let mut column = 0;
        while column + lanes <= len {
            let mut sum = match link.first {
                true => R::splat(simd, R::ZERO),
                // SAFETY: a vector from `column` on ends within the sums.
                false => unsafe { sums.add(column).cast::<R::Vector<S>>().read_unaligned() },
            };
            for term in 0..TERMS {
                let right = right.wrapping_add(term * self.b_step + column);
                fetch(right.wrapping_add(TERMS * self.b_step));
                // SAFETY: likewise within this row of the right factor.
                let vector = unsafe { right.cast::<R::Vector<S>>().read_unaligned() };
                sum = R::fused(simd, splats[term], vector, sum);
            }
            for &level in link.joined {
                let place = node(level).wrapping_add(column).cast::<R::Vector<S>>();
                // SAFETY: a level has room for as many sums.
                sum = R::plus(simd, unsafe { place.read_unaligned() }, sum);
            }
            let place = out.wrapping_add(column).cast::<R::Vector<S>>();
            // SAFETY: as for the reads.
            unsafe { place.write_unaligned(sum) };
            column += lanes;
        }
        while column < len {
            // SAFETY: `column` lies within the sums, the nodes and the rows of the right factor.
            unsafe {
                let mut sum = match link.first {
                    true => R::ZERO,
                    false => *sums.add(column),
                };
                for term in 0..TERMS {
                    let right = *right.wrapping_add(term * self.b_step + column);
                    sum = left[term].mul_add(right, sum);
                }
                for &level in link.joined {
                    sum = *node(level).add(column) + sum;
                }
                *out.add(column) = sum;
            }
            column += 1;
        }
    }
}
