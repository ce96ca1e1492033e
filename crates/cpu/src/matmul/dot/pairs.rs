//! Words of pairs, from rows of elements or of codes.

use super::{Dot, pair};
use crate::{
    codes::Decoder,
    element::Element,
    matmul::{
        kernel::fetch_behind,
        multiplier::Multiplier,
        row_leaves::Left,
        source::{Elements, Source},
        strided::Strided,
    },
};
use half::bf16;
use std::arch::x86_64::*;

/// The pairs of a left factor with as many terms.
#[derive(Clone, Copy)]
pub(super) struct PairsOfRow {
    pub(super) a: Strided<bf16>,
    pub(super) terms: usize,
}

impl Left<u32> for PairsOfRow {
    #[inline(always)]
    unsafe fn word(self, row: usize, word: usize) -> u32 {
        let term = 2 * word;
        // SAFETY: the caller guarantees the first; the second is checked.
        unsafe {
            let second = match term + 1 < self.terms {
                true => *self.a.from(row, term + 1).data,
                false => bf16::ZERO,
            };
            pair(*self.a.from(row, term).data, second)
        }
    }
}

/// Pairs of rows of a right factor with as many terms.
#[derive(Clone, Copy)]
pub(super) struct PairRows {
    pub(super) elements: Elements<bf16>,
    pub(super) terms: usize,
}

impl Source<Dot> for PairRows {
    // The second one is missing at the end of an odd number.
    type Row = (*const bf16, Option<*const bf16>);

    #[inline(always)]
    fn row(self, word: usize) -> Self::Row {
        let first = self.elements.at(2 * word, 0);
        let second = (2 * word + 1 < self.terms).then(|| self.elements.at(2 * word + 1, 0));
        (first, second)
    }

    #[inline(always)]
    fn fetch(self, (first, _): Self::Row, words: usize, column: usize) {
        // Two vectors lie in a cache line.
        if column.is_multiple_of(32) {
            let ahead = self.elements.behind(first, 2 * words).wrapping_add(column);
            fetch_behind(ahead);
            fetch_behind(self.elements.behind(ahead, 1));
        }
    }

    #[inline(always)]
    unsafe fn vector(self, _: Dot, (first, second): Self::Row, column: usize) -> __m512bh {
        // SAFETY: only a function compiled for AVX-512 makes `Dot`; the caller guarantees 16 columns of both rows.
        unsafe {
            let load = |row: *const bf16| _mm256_loadu_si256(row.wrapping_add(column).cast());
            side_by_side(load(first), second.map(load))
        }
    }

    #[inline(always)]
    fn is_whole(self, word: usize) -> bool {
        2 * word + 1 < self.terms
    }

    #[inline(always)]
    unsafe fn two(self, _: Dot, (first, _): Self::Row, column: usize) -> [__m512bh; 2] {
        // SAFETY: only a function compiled for AVX-512 makes `Dot`; the caller guarantees 32 columns of a row, and of the one behind.
        unsafe {
            let load = |row: *const bf16| _mm512_loadu_si512(row.wrapping_add(column).cast());
            interleaved(load(first), load(self.elements.behind(first, 1)))
        }
    }

    #[inline(always)]
    unsafe fn word(self, (first, second): Self::Row, column: usize) -> u32 {
        // SAFETY: the caller guarantees the column of both rows.
        unsafe {
            let second = second.map_or(bf16::ZERO, |row| *row.add(column));
            pair(*first.add(column), second)
        }
    }
}

/// Pairs that lie side by side.
impl Source<Dot> for Elements<u32> {
    type Row = *const u32;

    #[inline(always)]
    fn row(self, word: usize) -> *const u32 {
        self.at(word, 0)
    }

    #[inline(always)]
    fn fetch(self, row: *const u32, words: usize, column: usize) {
        fetch_behind(self.behind(row, words).wrapping_add(column));
    }

    #[inline(always)]
    unsafe fn vector(self, multiplier: Dot, row: *const u32, column: usize) -> __m512bh {
        // SAFETY: the caller guarantees them.
        unsafe { multiplier.load(row.wrapping_add(column)) }
    }

    #[inline(always)]
    unsafe fn word(self, row: *const u32, column: usize) -> u32 {
        // SAFETY: the caller guarantees it.
        unsafe { *row.add(column) }
    }
}

/// Pairs of rows of codes with as many terms.
#[derive(Clone, Copy)]
pub(super) struct PairsOfCodes<D> {
    pub(super) codes: D,
    pub(super) terms: usize,
}

impl<D: Decoder> Source<Dot> for PairsOfCodes<D> {
    type Row = (D::Row, Option<D::Row>);

    #[inline(always)]
    fn row(self, word: usize) -> Self::Row {
        let second = (2 * word + 1 < self.terms).then(|| self.codes.row(2 * word + 1));
        (self.codes.row(2 * word), second)
    }

    #[inline(always)]
    fn fetch(self, (first, _): Self::Row, words: usize, column: usize) {
        self.codes.fetch(first, 2 * words, column);
        self.codes.fetch(first, 2 * words + 1, column);
    }

    #[inline(always)]
    unsafe fn vector(self, _: Dot, (first, second): Self::Row, column: usize) -> __m512bh {
        // SAFETY: only a function compiled for AVX-512 with bf16 makes `Dot`; the caller guarantees 16 columns of both rows.
        unsafe {
            let rounded = |row: D::Row| {
                let mut numbers = _mm512_setzero_ps();
                self.codes.write(row, column, 16, (&raw mut numbers).cast());
                // Denormals become 0, as which products take them.
                std::mem::transmute::<__m256bh, __m256i>(_mm512_cvtneps_pbh(numbers))
            };
            side_by_side(rounded(first), second.map(rounded))
        }
    }

    #[inline(always)]
    unsafe fn word(self, (first, second): Self::Row, column: usize) -> u32 {
        let rounded = |row: D::Row| {
            let mut number = 0.0;
            // SAFETY: the caller guarantees the column of both rows.
            unsafe { self.codes.write(row, column, 1, &raw mut number) };
            bf16::from_acc(number)
        };
        pair(rounded(first), second.map_or(bf16::ZERO, rounded))
    }
}

// Pairs of elements of two rows: those of the first 16 columns, and those of the others.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn interleaved(first: __m512i, second: __m512i) -> [__m512bh; 2] {
    const PLACES: [[u16; 32]; 2] = {
        let mut places = [[0; 32]; 2];
        let mut at = 0;
        while at < 64 {
            // The second row's elements have the places behind the first one's.
            places[at / 32][at % 32] = (at / 2 + at % 2 * 32) as u16;
            at += 1;
        }
        places
    };
    // SAFETY: 32 places have the size of a vector, and 32 bf16 that of 16 words; any bits are bf16.
    unsafe {
        let [low, high]: [__m512i; 2] = std::mem::transmute(PLACES);
        let pairs = [
            _mm512_permutex2var_epi16(first, low, second),
            _mm512_permutex2var_epi16(first, high, second),
        ];
        std::mem::transmute(pairs)
    }
}

// Pairs of elements of two rows, of which the second may be missing.
#[inline]
#[target_feature(enable = "avx512f")]
fn side_by_side(first: __m256i, second: Option<__m256i>) -> __m512bh {
    let first = _mm512_cvtepu16_epi32(first);
    let pairs = match second {
        Some(second) => {
            let second = _mm512_cvtepu16_epi32(second);
            _mm512_or_si512(first, _mm512_slli_epi32::<16>(second))
        }
        None => first,
    };
    // SAFETY: 32 bf16 have the size of 16 words, and any bits are bf16.
    unsafe { std::mem::transmute(pairs) }
}
