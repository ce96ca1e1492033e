//! The rows of a right factor as vectors of accumulators: elements in memory, or what codes stand for.

use super::{kernel::fetch_behind, multiplier::Multiplier, portable::Portable, strided::Strided};
use crate::{codes::Decoder, element::Element, lanes::Lanes};
use pulp::Simd;

/// Rows of as many columns as whoever made it guarantees.
pub(super) trait Source<M: Multiplier>: Copy {
    /// A row of words.
    type Row: Copy;

    /// The row of a word's terms.
    fn row(self, word: usize) -> Self::Row;

    /// Asks for a vector of the row that many words behind this one; it need not exist.
    fn fetch(self, row: Self::Row, words: usize, column: usize);

    /// A vector.
    ///
    /// # Safety
    /// The row has these columns, of which the first is a multiple of the vector's lanes; the processor has the multiplier's
    /// instructions.
    unsafe fn vector(self, multiplier: M, row: Self::Row, column: usize) -> M::Factors;

    /// Whether a word has all its terms: all have, but for the last one of a number of terms that is not a multiple.
    fn is_whole(self, _word: usize) -> bool {
        true
    }

    /// Two vectors side by side of a row of whole words.
    ///
    /// # Safety
    /// As for [`vector`](Source::vector), of twice as many columns.
    #[inline(always)]
    unsafe fn two(self, multiplier: M, row: Self::Row, column: usize) -> [M::Factors; 2] {
        let lanes = size_of::<M::Factors>() / size_of::<M::Word>();
        // SAFETY: the caller guarantees the columns.
        unsafe {
            [
                self.vector(multiplier, row, column),
                self.vector(multiplier, row, column + lanes),
            ]
        }
    }

    /// A word of it.
    ///
    /// # Safety
    /// The row has this column.
    unsafe fn word(self, row: Self::Row, column: usize) -> M::Word;
}

/// The same with vectors of any processor.
pub(super) trait Portably<R: Lanes>: Copy {
    /// As [`Source::Row`].
    type Row: Copy;

    /// As [`Source::row`].
    fn row(self, term: usize) -> Self::Row;

    /// As [`Source::fetch`].
    fn fetch(self, row: Self::Row, terms: usize, column: usize);

    /// As [`Source::vector`].
    ///
    /// # Safety
    /// As there.
    unsafe fn vector<S: Simd>(self, simd: S, row: Self::Row, column: usize) -> R::Vector<S>;

    /// As [`Source::word`].
    ///
    /// # Safety
    /// As there.
    unsafe fn one(self, row: Self::Row, column: usize) -> R;
}

impl<R: Lanes, S: Simd, B: Portably<R>> Source<Portable<R, S>> for B {
    type Row = B::Row;

    #[inline(always)]
    fn row(self, word: usize) -> B::Row {
        Portably::row(self, word)
    }

    #[inline(always)]
    fn fetch(self, row: B::Row, words: usize, column: usize) {
        Portably::fetch(self, row, words, column);
    }

    #[inline(always)]
    unsafe fn vector(self, multiplier: Portable<R, S>, row: B::Row, column: usize) -> R::Vector<S> {
        // SAFETY: the caller guarantees the columns.
        unsafe { Portably::vector(self, multiplier.simd(), row, column) }
    }

    #[inline(always)]
    unsafe fn word(self, row: B::Row, column: usize) -> R {
        // SAFETY: the caller guarantees the column.
        unsafe { self.one(row, column) }
    }
}

/// Elements in memory.
#[derive(Debug)]
pub(super) struct Elements<B> {
    first: *const B,
    step: usize,
}

impl<B> Clone for Elements<B> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<B> Copy for Elements<B> {}

impl<B> Elements<B> {
    /// Rows that begin `step` elements apart.
    pub(super) fn new(first: *const B, step: usize) -> Elements<B> {
        Elements { first, step }
    }

    /// Those of a matrix with contiguous rows.
    pub(super) fn of(matrix: Strided<B>) -> Elements<B> {
        Elements::new(matrix.data, matrix.row)
    }

    /// The same column of the row that many rows behind.
    #[inline(always)]
    pub(super) fn behind(self, place: *const B, rows: usize) -> *const B {
        place.wrapping_add(rows * self.step)
    }

    /// The element of a row and a column.
    #[inline(always)]
    pub(super) fn at(self, row: usize, column: usize) -> *const B {
        self.first.wrapping_add(row * self.step + column)
    }
}

impl<B: Element<Acc = R>, R: Lanes> Portably<R> for Elements<B> {
    type Row = *const B;

    #[inline(always)]
    fn row(self, term: usize) -> *const B {
        self.first.wrapping_add(term * self.step)
    }

    #[inline(always)]
    fn fetch(self, row: *const B, terms: usize, column: usize) {
        fetch_behind(row.wrapping_add(terms * self.step + column));
    }

    #[inline(always)]
    unsafe fn vector<S: Simd>(self, simd: S, row: *const B, column: usize) -> R::Vector<S> {
        let from = row.wrapping_add(column);
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

    #[inline(always)]
    unsafe fn one(self, row: *const B, column: usize) -> R {
        // SAFETY: the caller guarantees it.
        unsafe { *row.add(column) }.acc()
    }
}

/// Numbers of f32 that are computed from codes each time. Whoever makes it guarantees that accumulators are f32.
impl<R: Lanes, D: Decoder> Portably<R> for D {
    type Row = D::Row;

    #[inline(always)]
    fn row(self, term: usize) -> D::Row {
        Decoder::row(self, term)
    }

    #[inline(always)]
    fn fetch(self, row: D::Row, terms: usize, column: usize) {
        Decoder::fetch(self, row, terms, column);
    }

    #[inline(always)]
    unsafe fn vector<S: Simd>(self, simd: S, row: D::Row, column: usize) -> R::Vector<S> {
        let mut vector = R::splat(simd, R::ZERO);
        let lanes = size_of::<R::Vector<S>>() / size_of::<f32>();
        // SAFETY: the vector is of as many accumulators, which are f32; vectors of 16 or 8 lanes are those of processors with AVX-512
        // or AVX2, as `simd` proves; the caller guarantees the columns.
        unsafe { self.write(row, column, lanes, (&raw mut vector).cast()) };
        vector
    }

    #[inline(always)]
    unsafe fn one(self, row: D::Row, column: usize) -> R {
        let mut one = R::ZERO;
        // SAFETY: likewise.
        unsafe { self.write(row, column, 1, (&raw mut one).cast()) };
        one
    }
}
