//! A product with few rows, whose time is that of reading the right factor: in the order in which it is stored, and once.

use super::{
    finish::Finish, format::Format, kernel::fetch, scratch::with_scratch, strided::Strided,
};
use crate::{
    element::{Element, Real},
    lanes::Lanes,
};
use hal::sums;
use pulp::{Simd, WithSimd};
use std::{any::TypeId, ops::Range};

/// The most rows: with more, packing the right factor takes less time than reading sums again for every few terms.
pub(super) const FEW_ROWS: usize = 16;
// Sums of all rows that stay in the first-level cache.
const SUMS: usize = 2048;
// Rows that are computed at once: for each vector of the right factor, as many sums are in registers one after another.
const ROWS: usize = 4;
// Columns and terms of a part of the right factor that is transposed in the first-level cache, if leaves are no longer.
const SIDE: usize = 32;
const DEPTH: usize = 128;
// The most terms that are added while a vector of sums is in a register; a power of 2.
const TERMS: usize = 8;

/// c = alpha * a b + beta * c, with a of few rows x k and b of k x n, in a format whose words are single terms, stored as
/// accumulators.
#[derive(Clone, Copy, Debug)]
pub(super) struct FewRows<F: Format, C> {
    pub(super) format: F,
    pub(super) rows: usize,
    pub(super) k: usize,
    /// Terms of a leaf of the sums.
    pub(super) leaf: usize,
    pub(super) a: Strided<F::Source>,
    pub(super) b: Strided<F::Source>,
    pub(super) c: Strided<C>,
    pub(super) finish: Finish<F::Sum>,
}

impl<F: Format, C: Element<Acc = F::Sum>> FewRows<F, C> {
    /// Whether words of the format are terms.
    pub(super) fn serves() -> bool {
        F::TERMS == 1 && TypeId::of::<F::Word>() == TypeId::of::<F::Sum>()
    }

    /// Computes some columns.
    ///
    /// # Safety
    /// The matrices are live and hold their shapes; rows or columns of `b` are contiguous; `c` overlaps neither
    /// factor, and nobody else uses these columns of it. The format is one that this [`serves`](Self::serves).
    pub(super) unsafe fn columns(&self, columns: Range<usize>) {
        let leaves = sums::leaves(self.k, self.leaf);
        let levels = sums::waiting_levels(leaves) as usize;
        let in_place = self.b.column == 1;
        // Leaves that are read where they lie, or transposed at once.
        let (side, together) = match in_place {
            true => (SUMS / self.rows.next_power_of_two(), leaves),
            false => (SIDE, (DEPTH / self.leaf).max(1)),
        };
        let square = match in_place {
            true => 0,
            false => SIDE * self.k.min(together * self.leaf),
        };
        let of_rows = self.rows * side;
        with_scratch(
            (levels + 1) * of_rows + square,
            |memory: &mut [F::Sum]| {
                let (sums, memory) = memory.split_at_mut(of_rows);
                let (waiting, square) = memory.split_at_mut(levels * of_rows);
                for start in columns.clone().step_by(side) {
                    let columns = start..columns.end.min(start + side);
                    for first in (0..leaves).step_by(together) {
                        let terms = first * self.leaf..self.k.min((first + together) * self.leaf);
                        let work = RowLeaves::<F::Source, F::Source> {
                            first,
                            all: leaves,
                            leaf: self.leaf,
                            depth: terms.len(),
                            len: columns.len(),
                            rows: self.rows,
                            a: self.a.from(0, terms.start),
                            b: self.b.from(terms.start, columns.start).data,
                            b_step: self.b.row,
                            sums: sums.as_mut_ptr(),
                            step: side,
                            waiting: waiting.as_mut_ptr(),
                            level_step: of_rows,
                        };
                        if in_place {
                            self.format.arch().dispatch(work);
                            continue;
                        }
                        // SAFETY: the caller guarantees the factors, and a format whose words are sums.
                        unsafe { self.transpose(terms, columns.clone(), square) };
                        self.format.arch().dispatch(work.on(square.as_ptr(), SIDE));
                    }
                    let (sizes, c) = ([self.rows, columns.len()], self.c.from(0, columns.start));
                    // SAFETY: the caller guarantees these columns of the result.
                    unsafe { self.finish.run(self.format.arch(), sums, side, sizes, c) };
                }
            },
        );
    }

    /// Writes a part of a right factor with contiguous columns into `square`, as rows.
    ///
    /// # Safety
    /// As [`columns`](Self::columns).
    unsafe fn transpose(&self, terms: Range<usize>, columns: Range<usize>, square: &mut [F::Sum]) {
        if terms.is_empty() {
            return; // an empty factor may have no address
        }
        let from = self.b.from(terms.start, columns.start).data;
        let (step, sizes) = (self.b.column, [columns.len(), terms.len()]);
        let to: &mut [F::Word] = bytemuck::cast_slice_mut(square);
        // SAFETY: the caller guarantees these terms in each column; the square has room for all of them.
        unsafe { self.format.pack_rows(from, step, sizes, to, SIDE) };
    }
}

/// Adds leaves to sums. Whoever makes it guarantees `depth` elements in each row of `a`, as many rows of `b` of `len`
/// elements, and room for as many sums of each row, also on each level on which nodes wait.
struct RowLeaves<A: Element, B> {
    /// The index of the first leaf among all of the sum.
    first: usize,
    all: usize,
    leaf: usize,
    /// Terms of these leaves.
    depth: usize,
    /// Columns.
    len: usize,
    rows: usize,
    a: Strided<A>,
    b: *const B,
    b_step: usize,
    /// Receives the sums of the last leaf, a row every `step` sums.
    sums: *mut A::Acc,
    step: usize,
    waiting: *mut A::Acc,
    level_step: usize,
}

impl<A: Element, B> RowLeaves<A, B> {
    /// The same on another right factor.
    fn on<T>(self, b: *const T, b_step: usize) -> RowLeaves<A, T> {
        RowLeaves {
            first: self.first,
            all: self.all,
            leaf: self.leaf,
            depth: self.depth,
            len: self.len,
            rows: self.rows,
            a: self.a,
            b,
            b_step,
            sums: self.sums,
            step: self.step,
            waiting: self.waiting,
            level_step: self.level_step,
        }
    }
}

/// What becomes of the sums of some terms of a leaf.
#[derive(Clone, Copy)]
struct Link<'a> {
    /// The terms are the leaf's first ones.
    first: bool,
    /// If they are its last ones: the levels to whose nodes the leaf is added, and that of the node it completes.
    joined: &'a [usize],
    completed: Option<usize>,
}

impl<A: Element<Acc: Lanes>, B: Element<Acc = A::Acc>> WithSimd for RowLeaves<A, B> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let mut row = 0;
        while row < self.rows {
            match self.rows - row {
                1..ROWS => {
                    self.leaves::<S, 1>(simd, row);
                    row += 1;
                }
                _ => {
                    self.leaves::<S, ROWS>(simd, row);
                    row += ROWS;
                }
            }
        }
    }
}

impl<A: Element<Acc: Lanes>, B: Element<Acc = A::Acc>> RowLeaves<A, B> {
    /// All leaves of `N` rows.
    #[inline(always)]
    fn leaves<S: Simd, const N: usize>(&self, simd: S, row: usize) {
        if self.depth == 0 {
            for sum in 0..N * self.step {
                // SAFETY: these rows have as many sums.
                unsafe { *self.sums.add(row * self.step + sum) = A::Acc::ZERO };
            }
            return;
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
                    1 => self.add::<S, 1, N>(simd, row, start, link),
                    2 => self.add::<S, 2, N>(simd, row, start, link),
                    4 => self.add::<S, 4, N>(simd, row, start, link),
                    _ => self.add::<S, TERMS, N>(simd, row, start, link),
                }
                (start, first) = (start + terms, false);
            }
            if start == self.depth {
                return;
            }
        }
    }

    /// `T` terms of a leaf, of `N` rows.
    #[inline(always)]
    fn add<S: Simd, const T: usize, const N: usize>(
        &self,
        simd: S,
        row: usize,
        start: usize,
        link: Link,
    ) {
        let lanes = size_of::<<A::Acc as Lanes>::Vector<S>>() / size_of::<A::Acc>();
        let mut left = [[A::Acc::ZERO; T]; N];
        let mut splats = [[A::Acc::splat(simd, A::Acc::ZERO); T]; N];
        for r in 0..N {
            for term in 0..T {
                // SAFETY: these rows have `depth` terms, and these are among them.
                left[r][term] = unsafe { *self.a.from(row + r, start + term).data }.acc();
                splats[r][term] = A::Acc::splat(simd, left[r][term]);
            }
        }
        let right = self.b.wrapping_add(start * self.b_step);
        let sums = self.sums.wrapping_add(row * self.step);
        let waiting = self.waiting.wrapping_add(row * self.step);
        let node = |level: usize| waiting.wrapping_add(level * self.level_step);
        let out = match link.completed {
            Some(level) => node(level),
            None => sums,
        };
        let mut column = 0;
        while column + lanes <= self.len {
            let mut vectors = [A::Acc::splat(simd, A::Acc::ZERO); T];
            for term in 0..T {
                let right = right.wrapping_add(term * self.b_step + column);
                fetch(right.wrapping_add(T * self.b_step));
                // SAFETY: a vector from `column` on ends within this row of the right factor.
                vectors[term] = unsafe { vector::<B, A::Acc, S>(simd, right) };
            }
            for r in 0..N {
                let place = r * self.step + column;
                let mut sum = match link.first {
                    true => A::Acc::splat(simd, A::Acc::ZERO),
                    // SAFETY: likewise within the sums of this row.
                    false => unsafe {
                        sums.add(place)
                            .cast::<<A::Acc as Lanes>::Vector<S>>()
                            .read_unaligned()
                    },
                };
                for term in 0..T {
                    sum = A::Acc::fused(simd, splats[r][term], vectors[term], sum);
                }
                for &level in link.joined {
                    let node = node(level)
                        .wrapping_add(place)
                        .cast::<<A::Acc as Lanes>::Vector<S>>();
                    // SAFETY: a level has room for as many sums.
                    sum = A::Acc::plus(simd, unsafe { node.read_unaligned() }, sum);
                }
                let place = out
                    .wrapping_add(place)
                    .cast::<<A::Acc as Lanes>::Vector<S>>();
                // SAFETY: as for the reads.
                unsafe { place.write_unaligned(sum) };
            }
            column += lanes;
        }
        while column < self.len {
            for r in 0..N {
                let place = r * self.step + column;
                // SAFETY: `column` lies within the sums, the nodes and the rows of the right factor.
                unsafe {
                    let mut sum = match link.first {
                        true => A::Acc::ZERO,
                        false => *sums.add(place),
                    };
                    for term in 0..T {
                        let right = *right.wrapping_add(term * self.b_step + column);
                        sum = left[r][term].mul_add(right.acc(), sum);
                    }
                    for &level in link.joined {
                        sum = *node(level).add(place) + sum;
                    }
                    *out.add(place) = sum;
                }
            }
            column += 1;
        }
    }
}

/// A vector of elements as accumulators.
///
/// # Safety
/// As many elements exist.
#[inline(always)]
unsafe fn vector<B: Element<Acc = R>, R: Lanes, S: Simd>(simd: S, from: *const B) -> R::Vector<S> {
    if size_of::<B>() == size_of::<R>() {
        // SAFETY: an element of the accumulator's size is one; the caller guarantees them.
        return unsafe { from.cast::<R::Vector<S>>().read_unaligned() };
    }
    let mut vector = R::splat(simd, R::ZERO);
    let lanes: &mut [R] = bytemuck::cast_slice_mut(std::slice::from_mut(&mut vector));
    for lane in 0..lanes.len() {
        // SAFETY: as above.
        lanes[lane] = unsafe { *from.add(lane) }.acc();
    }
    vector
}
