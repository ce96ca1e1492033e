//! A product with few rows, whose time is that of reading the right factor: in the order in which it is stored, and once.

use super::{
    finish::Finish,
    format::Format,
    right::Right,
    scratch::with_scratch,
    source::{Elements, Source},
    strided::Strided,
};
use crate::{
    codes::{Int8, Nf4, Rows},
    element::{Element, Real},
    lanes::Lanes,
};
use hal::sums;
use pulp::{Simd, WithSimd};
use std::{any::TypeId, ops::Range};

/// The most rows: with more, packing the right factor takes less time than reading sums again for every few terms.
pub(super) const FEW_ROWS: usize = hal::quantised::MOST_ROWS;
// Sums of all rows that stay in the first-level cache.
const SUMS: usize = 2048;
// Rows that are computed at once: for each vector of the right factor, as many sums are in registers one after another.
const ROWS: usize = 4;
// Columns and terms of a part of the right factor that is transposed in the first-level cache, if leaves are no longer.
const SIDE: usize = 32;
const DEPTH: usize = 128;
// Likewise of a part that is computed from codes before rows read it: complete blocks of them.
const CODE_COLUMNS: usize = 512;
const CODE_TERMS: usize = 16;
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
    pub(super) b: Right<F::Source>,
    pub(super) c: Strided<C>,
    pub(super) finish: Finish<F::Sum>,
}

/// How the right factor is read.
#[derive(Clone, Copy)]
enum Way<T> {
    /// Where it lies, in rows.
    InPlace(Strided<T>),
    /// In squares, of a factor that lies in columns.
    Transposed(Strided<T>),
    /// In blocks that are computed from codes.
    Codes(Right<T>),
    /// In vectors that are computed from codes.
    Int8(Rows<Int8>),
    Nf4(Rows<Nf4>),
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
        let way = self.way(columns.start);
        let leaves_of = |terms: usize| (terms / self.leaf).max(1);
        let (side, together) = match way {
            Way::Transposed(_) => (SIDE, leaves_of(DEPTH)),
            Way::Codes(_) => (CODE_COLUMNS, leaves_of(CODE_TERMS)),
            _ => (SUMS / self.rows.next_power_of_two(), leaves),
        };
        let square = match way {
            Way::Transposed(_) => SIDE * self.k.min(together * self.leaf),
            _ => 0,
        };
        let of_rows = self.rows * side;
        with_scratch(
            (levels + 1) * of_rows + square,
            |memory: &mut [F::Sum]| {
                let (sums, memory) = memory.split_at_mut(of_rows);
                let (waiting, square) = memory.split_at_mut(levels * of_rows);
                let first_column = columns.start;
                for start in columns.clone().step_by(side) {
                    let columns = start..columns.end.min(start + side);
                    for first in (0..leaves).step_by(together) {
                        let terms = first * self.leaf..self.k.min((first + together) * self.leaf);
                        let work = RowLeaves::<F::Source> {
                            first,
                            all: leaves,
                            leaf: self.leaf,
                            depth: terms.len(),
                            len: columns.len(),
                            rows: self.rows,
                            a: self.a.from(0, terms.start),
                            sums: sums.as_mut_ptr(),
                            step: side,
                            waiting: waiting.as_mut_ptr(),
                            level_step: of_rows,
                        };
                        let (arch, place) = (self.format.arch(), (terms.start, columns.start));
                        match way {
                            Way::InPlace(b) => {
                                arch.dispatch(work.on(Elements::of(b.from(place.0, place.1))));
                            }
                            Way::Transposed(b) => {
                                let (b, sizes) =
                                    (b.from(place.0, place.1), [columns.len(), terms.len()]);
                                // SAFETY: the caller guarantees the factors, and a format whose words are sums.
                                unsafe { self.transpose(b, sizes, square) };
                                arch.dispatch(work.on(Elements::new(square.as_ptr(), SIDE)));
                            }
                            Way::Codes(b) => b.with(terms, columns.clone(), |b| {
                                arch.dispatch(work.on(Elements::of(b)));
                            }),
                            Way::Int8(rows) => {
                                arch.dispatch(work.on(rows.from(place.0, place.1 - first_column)))
                            }
                            Way::Nf4(rows) => {
                                arch.dispatch(work.on(rows.from(place.0, place.1 - first_column)))
                            }
                        }
                    }
                    let (sizes, c) = ([self.rows, columns.len()], self.c.from(0, columns.start));
                    // SAFETY: the caller guarantees these columns of the result.
                    unsafe { self.finish.run(self.format.arch(), sums, side, sizes, c) };
                }
            },
        );
    }

    // How columns from this one on are read. Vectors of codes become numbers where they are multiplied, unless these are rounded to
    // another type.
    fn way(&self, column: usize) -> Way<F::Source> {
        let codes = match self.b {
            Right::Elements(b) if b.column == 1 => return Way::InPlace(b),
            Right::Elements(b) => return Way::Transposed(b),
            Right::Codes(codes) => codes,
        };
        if TypeId::of::<F::Source>() == TypeId::of::<f32>() {
            if let Some(rows) = codes.rows(column) {
                return Way::Int8(rows);
            }
            if let Some(rows) = codes.rows(column) {
                return Way::Nf4(rows);
            }
        }
        Way::Codes(self.b)
    }

    /// Writes a part of a right factor with contiguous columns into `square`, as rows.
    ///
    /// # Safety
    /// As [`columns`](Self::columns).
    unsafe fn transpose(
        &self,
        from: Strided<F::Source>,
        [columns, terms]: [usize; 2],
        square: &mut [F::Sum],
    ) {
        if terms == 0 {
            return; // an empty factor may have no address
        }
        let to: &mut [F::Word] = bytemuck::cast_slice_mut(square);
        // SAFETY: the caller guarantees these terms in each column; the square has room for all of them.
        unsafe {
            let (step, sizes) = (from.column, [columns, terms]);
            self.format.pack_rows(from.data, step, sizes, to, SIDE);
        }
    }
}

/// Leaves that are to be added to sums. Whoever makes it guarantees `depth` elements in each row of `a`, as many rows of `len`
/// elements in what it is [applied to](RowLeaves::on), and room for as many sums of each row, also on each level on which nodes wait.
struct RowLeaves<A: Element> {
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
    /// Receives the sums of the last leaf, a row every `step` sums.
    sums: *mut A::Acc,
    step: usize,
    waiting: *mut A::Acc,
    level_step: usize,
}

impl<A: Element> RowLeaves<A> {
    /// Adds the leaves of this right factor.
    fn on<B>(self, b: B) -> Adding<A, B> {
        Adding { leaves: self, b }
    }
}

/// Adds leaves, with this right factor.
struct Adding<A: Element, B> {
    leaves: RowLeaves<A>,
    b: B,
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

impl<A: Element<Acc: Lanes>, B: Source<A::Acc>> WithSimd for Adding<A, B> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let mut row = 0;
        while row < self.leaves.rows {
            match self.leaves.rows - row {
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

impl<A: Element<Acc: Lanes>, B: Source<A::Acc>> Adding<A, B> {
    /// All leaves of `N` rows.
    #[inline(always)]
    fn leaves<S: Simd, const N: usize>(&self, simd: S, row: usize) {
        if self.leaves.depth == 0 {
            for sum in 0..N * self.leaves.step {
                // SAFETY: these rows have as many sums.
                unsafe { *self.leaves.sums.add(row * self.leaves.step + sum) = A::Acc::ZERO };
            }
            return;
        }
        // Any leaf but the last is added to the nodes of all levels below that of the node it completes.
        let mut levels = [0; usize::BITS as usize];
        for level in 0..levels.len() {
            levels[level] = level;
        }
        let mut start = 0;
        for index in self.leaves.first.. {
            let (end, last) = (
                self.leaves.depth.min(start + self.leaves.leaf),
                index + 1 == self.leaves.all,
            );
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
            if start == self.leaves.depth {
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
                left[r][term] = unsafe { *self.leaves.a.from(row + r, start + term).data }.acc();
                splats[r][term] = A::Acc::splat(simd, left[r][term]);
            }
        }
        let sums = self.leaves.sums.wrapping_add(row * self.leaves.step);
        let waiting = self.leaves.waiting.wrapping_add(row * self.leaves.step);
        let node = |level: usize| waiting.wrapping_add(level * self.leaves.level_step);
        let out = match link.completed {
            Some(level) => node(level),
            None => sums,
        };
        let mut rows = [self.b.row(start); T];
        for term in 1..T {
            rows[term] = self.b.row(start + term);
        }
        let mut column = 0;
        while column + lanes <= self.leaves.len {
            let mut vectors = [A::Acc::splat(simd, A::Acc::ZERO); T];
            for term in 0..T {
                self.b.fetch(rows[term], T, column);
                // SAFETY: a vector from `column` on ends within this row of the right factor.
                vectors[term] = unsafe { self.b.vector(simd, rows[term], column) };
            }
            for r in 0..N {
                let place = r * self.leaves.step + column;
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
        while column < self.leaves.len {
            for r in 0..N {
                let place = r * self.leaves.step + column;
                // SAFETY: `column` lies within the sums, the nodes and the rows of the right factor.
                unsafe {
                    let mut sum = match link.first {
                        true => A::Acc::ZERO,
                        false => *sums.add(place),
                    };
                    for term in 0..T {
                        let right = self.b.one(rows[term], column);
                        sum = left[r][term].mul_add(right, sum);
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
