//! Leaves of the sums of few rows, which are added in the order in which the right factor is stored.

use super::{
    multiplier::Multiplier,
    portable::Portable,
    source::{Portably, Source},
    strided::Strided,
};
use crate::{element::Element, lanes::Lanes};
use hal::sums;
use pulp::{Simd, WithSimd};

/// Rows that are computed at once: for each vector of the right factor, as many sums are in registers one after another.
const ROWS: usize = 4;
/// The most words that are added while a vector of sums is in a register; a power of 2.
const WORDS: usize = 8;
/// Words of the widest vector.
const LANES: usize = 16;

/// Leaves that are to be added to sums. Whoever makes it guarantees `depth` words in each row of the left factor, as many rows of
/// `len` words in the right one, and room for as many sums of each row, also on each level on which nodes wait.
#[derive(Debug)]
pub(super) struct RowLeaves<A, R> {
    /// The index of the first leaf among all of the sum.
    pub(super) first: usize,
    pub(super) all: usize,
    /// Words of a leaf, but for the last one.
    pub(super) leaf: usize,
    /// Words of these leaves, and elements.
    pub(super) depth: usize,
    pub(super) terms: usize,
    /// Columns.
    pub(super) len: usize,
    pub(super) rows: usize,
    /// The left factor.
    pub(super) a: Strided<A>,
    /// Receives the sums of the last leaf, a row every `step` sums.
    pub(super) sums: *mut R,
    pub(super) step: usize,
    pub(super) waiting: *mut R,
    pub(super) level_step: usize,
}

/// The words of the left factor.
pub(super) trait Left<W>: Copy {
    /// A word of a row.
    ///
    /// # Safety
    /// It exists.
    unsafe fn word(self, row: usize, word: usize) -> W;
}

impl<A: Element> Left<A::Acc> for Strided<A> {
    #[inline(always)]
    unsafe fn word(self, row: usize, word: usize) -> A::Acc {
        // SAFETY: the caller guarantees it.
        unsafe { *self.from(row, word).data }.acc()
    }
}

/// Adds leaves whose words are elements, with the vectors of a processor.
pub(super) struct Adding<A, R, B> {
    leaves: RowLeaves<A, R>,
    b: B,
}

impl<A: Element<Acc = R>, R: Lanes, B: Portably<R>> WithSimd for Adding<A, R, B> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        // SAFETY: whoever made the leaves guarantees the memory; `simd` proves the instructions.
        unsafe { self.leaves.add(Portable::on(simd), self.leaves.a, self.b) }
    }
}

/// What becomes of the sums of some words of a leaf.
#[derive(Clone, Copy)]
struct Link<'a> {
    /// The words are the leaf's first ones.
    first: bool,
    /// If they are its last ones: the levels to whose nodes the leaf is added, and that of the node it completes.
    joined: &'a [usize],
    completed: Option<usize>,
}

impl<A, R: Copy> RowLeaves<A, R> {
    /// With this right factor.
    pub(super) fn on<B>(self, b: B) -> Adding<A, R, B> {
        Adding { leaves: self, b }
    }

    /// Adds them.
    ///
    /// # Safety
    /// The factors hold what the leaves need; the processor has the multiplier's instructions.
    #[inline(always)]
    pub(super) unsafe fn add<M, L, B>(&self, multiplier: M, left: L, b: B)
    where
        M: Multiplier<Sum = R>,
        L: Left<M::Word>,
        B: Source<M>,
    {
        let mut row = 0;
        while row < self.rows {
            // SAFETY: the caller guarantees these rows.
            unsafe {
                match self.rows - row {
                    1 => {
                        self.leaves::<M, L, B, 1>(multiplier, left, b, row);
                        row += 1;
                    }
                    2..ROWS => {
                        self.leaves::<M, L, B, 2>(multiplier, left, b, row);
                        row += 2;
                    }
                    _ => {
                        self.leaves::<M, L, B, ROWS>(multiplier, left, b, row);
                        row += ROWS;
                    }
                }
            }
        }
    }

    /// All leaves of `N` rows.
    ///
    /// # Safety
    /// As [`add`](Self::add).
    #[inline(always)]
    unsafe fn leaves<M, L, B, const N: usize>(&self, multiplier: M, left: L, b: B, row: usize)
    where
        M: Multiplier<Sum = R>,
        L: Left<M::Word>,
        B: Source<M>,
    {
        if self.depth == 0 {
            let zero = [multiplier.zero()];
            // SAFETY: a vector has at least one sum; these rows have as many as `step`.
            unsafe {
                let zero = zero.as_ptr().cast::<R>().read();
                for sum in 0..N * self.step {
                    *self.sums.add(row * self.step + sum) = zero;
                }
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
                // Each number is a loop of its own, which takes time to compile.
                let many = end - start >= WORDS && b.is_whole(start + WORDS - 1);
                let words = if many { WORDS } else { 1 };
                let link = match start + words == end {
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
                let place = (row, start);
                // SAFETY: these words lie within the leaves.
                unsafe {
                    match words {
                        1 => self.words::<M, L, B, 1, N>(multiplier, left, b, place, link),
                        _ => self.words::<M, L, B, WORDS, N>(multiplier, left, b, place, link),
                    }
                }
                (start, first) = (start + words, false);
            }
            if start == self.depth {
                return;
            }
        }
    }

    /// `T` words of a leaf, of `N` rows.
    ///
    /// # Safety
    /// As [`add`](Self::add), for these words.
    #[inline(always)]
    unsafe fn words<M, L, B, const T: usize, const N: usize>(
        &self,
        multiplier: M,
        left: L,
        b: B,
        (row, start): (usize, usize),
        link: Link,
    ) where
        M: Multiplier<Sum = R>,
        L: Left<M::Word>,
        B: Source<M>,
    {
        let lanes = size_of::<M::Sums>() / size_of::<R>();
        // SAFETY: the caller guarantees the word.
        let any = multiplier.splat(unsafe { left.word(row, start) });
        let mut splats = [[any; T]; N];
        for r in 0..N {
            for word in 0..T {
                // SAFETY: these rows have `depth` words, and these are among them.
                splats[r][word] = multiplier.splat(unsafe { left.word(row + r, start + word) });
            }
        }
        let mut rows = [b.row(start); T];
        for word in 1..T {
            rows[word] = b.row(start + word);
        }
        let mut column = 0;
        // A cache line of 16-bit elements is two vectors of sums. Rows share it where registers have room.
        while T > 1 && N == 1 && column + 2 * lanes <= self.len {
            let mut pairs = [[any; T]; 2];
            for word in 0..T {
                b.fetch(rows[word], T, column);
                b.fetch(rows[word], T, column + lanes);
                // SAFETY: two vectors from `column` on end within this row; several words at a time are whole.
                let [first, second] = unsafe { b.two(multiplier, rows[word], column) };
                (pairs[0][word], pairs[1][word]) = (first, second);
            }
            for half in 0..2 {
                let place = (row, column + half * lanes, lanes);
                // SAFETY: there is room for as many sums.
                unsafe { self.vector::<M, T, N>(multiplier, &splats, &pairs[half], place, link) };
            }
            column += 2 * lanes;
        }
        while column + lanes <= self.len {
            let mut vectors = [any; T];
            for word in 0..T {
                b.fetch(rows[word], T, column);
                // SAFETY: a vector from `column` on ends within this row of the right factor.
                vectors[word] = unsafe { b.vector(multiplier, rows[word], column) };
            }
            // SAFETY: there is room for as many sums.
            unsafe {
                self.vector::<M, T, N>(multiplier, &splats, &vectors, (row, column, lanes), link)
            };
            column += lanes;
        }
        if column < self.len {
            let count = self.len - column;
            let mut vectors = [any; T];
            for word in 0..T {
                // SAFETY: the row has these columns; what fills the vector is not stored.
                unsafe {
                    let mut words = [b.word(rows[word], column); LANES];
                    for lane in 1..count {
                        words[lane] = b.word(rows[word], column + lane);
                    }
                    vectors[word] = multiplier.load(words.as_ptr());
                }
            }
            // SAFETY: there is room for as many sums.
            unsafe {
                self.vector::<M, T, N>(multiplier, &splats, &vectors, (row, column, count), link)
            };
        }
    }

    /// Adds products to `count` sums of each of `N` rows from a row and a column on.
    ///
    /// # Safety
    /// As [`add`](Self::add), for these sums.
    #[inline(always)]
    unsafe fn vector<M: Multiplier<Sum = R>, const T: usize, const N: usize>(
        &self,
        multiplier: M,
        splats: &[[M::Factors; T]; N],
        vectors: &[M::Factors; T],
        (row, column, count): (usize, usize, usize),
        link: Link,
    ) {
        for r in 0..N {
            let place = (row + r) * self.step + column;
            let node = |level: usize| self.waiting.wrapping_add(level * self.level_step + place);
            let mut sum = match link.first {
                true => multiplier.zero(),
                // SAFETY: the caller guarantees these sums.
                false => unsafe { read(multiplier, self.sums.wrapping_add(place), count) },
            };
            for word in 0..T {
                sum = multiplier.fused(splats[r][word], vectors[word], sum);
            }
            for &level in link.joined {
                // SAFETY: a level has room for as many sums.
                sum = multiplier.add(unsafe { read(multiplier, node(level), count) }, sum);
            }
            let out = match link.completed {
                Some(level) => node(level),
                None => self.sums.wrapping_add(place),
            };
            // SAFETY: as for the reads.
            unsafe { write::<M>(sum, out, count) };
        }
    }
}

/// A vector of `count` sums, or of fewer than it has.
///
/// # Safety
/// They are there.
#[inline(always)]
unsafe fn read<M: Multiplier>(multiplier: M, from: *const M::Sum, count: usize) -> M::Sums {
    // SAFETY: the caller guarantees as many sums; a vector has room for them.
    unsafe {
        if count == size_of::<M::Sums>() / size_of::<M::Sum>() {
            return from.cast::<M::Sums>().read_unaligned();
        }
        let mut sums = multiplier.zero();
        from.copy_to_nonoverlapping((&raw mut sums).cast(), count);
        sums
    }
}

/// Writes the first `count` of them.
///
/// # Safety
/// There is room.
#[inline(always)]
unsafe fn write<M: Multiplier>(sums: M::Sums, to: *mut M::Sum, count: usize) {
    // SAFETY: the caller guarantees the room.
    unsafe {
        if count == size_of::<M::Sums>() / size_of::<M::Sum>() {
            return to.cast::<M::Sums>().write_unaligned(sums);
        }
        to.copy_from_nonoverlapping((&raw const sums).cast(), count);
    }
}
