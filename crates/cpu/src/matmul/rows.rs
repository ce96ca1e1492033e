//! A product with few rows, whose time is that of reading the right factor: in the order in which it is stored, and once.

use super::{
    finish::Finish, format::Format, right::Right, row_leaves::RowLeaves, scratch::with_scratch,
    strided::Strided,
};
use crate::{
    codes::{Int8, Nf4, Rows},
    element::Element,
};
use hal::sums;
use std::ops::Range;

// Sums of all rows that stay in the first-level cache.
const SUMS: usize = 2048;
// Columns and terms of a part of the right factor that is transposed in the first-level cache, if leaves are no longer.
const SIDE: usize = 32;
const DEPTH: usize = 128;
// Likewise of a part that is computed from codes before rows read it: complete blocks of them.
const CODE_COLUMNS: usize = 512;
const CODE_TERMS: usize = 16;

/// c = alpha * a b + beta * c, with a of few rows x k and b of k x n.
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
    /// Whether a product of `rows` rows takes less time so, and no word spans two leaves.
    pub(super) fn serves(rows: usize, k: usize, leaf: usize) -> bool {
        rows <= F::FEW_ROWS && (leaf.is_multiple_of(F::TERMS) || leaf >= k)
    }

    /// Computes some columns.
    ///
    /// # Safety
    /// The matrices are live and hold their shapes; rows or columns of `b` are contiguous; `c` overlaps neither
    /// factor, and nobody else uses these columns of it. It is one that this [`serves`](Self::serves).
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
            Way::Transposed(_) => SIDE * self.k.min(together * self.leaf).div_ceil(F::TERMS),
            _ => 0,
        };
        let of_rows = self.rows * side;
        with_scratch(square, |square: &mut [F::Word]| {
            with_scratch((levels + 1) * of_rows, |memory: &mut [F::Sum]| {
                let (sums, waiting) = memory.split_at_mut(of_rows);
                let first_column = columns.start;
                for start in columns.clone().step_by(side) {
                    let columns = start..columns.end.min(start + side);
                    for first in (0..leaves).step_by(together) {
                        let terms = first * self.leaf..self.k.min((first + together) * self.leaf);
                        let work = RowLeaves {
                            first,
                            all: leaves,
                            leaf: self.leaf.div_ceil(F::TERMS),
                            depth: terms.len().div_ceil(F::TERMS),
                            terms: terms.len(),
                            len: columns.len(),
                            rows: self.rows,
                            a: self.a.from(0, terms.start),
                            sums: sums.as_mut_ptr(),
                            step: side,
                            waiting: waiting.as_mut_ptr(),
                            level_step: of_rows,
                        };
                        let (row, column) = (terms.start, columns.start);
                        // SAFETY: the caller guarantees the factors, and a format that this serves.
                        unsafe {
                            match way {
                                Way::InPlace(b) => self.format.add_rows(work, b.from(row, column)),
                                Way::Transposed(b) => {
                                    let sizes = [columns.len(), terms.len()];
                                    self.transpose(b.from(row, column), sizes, square);
                                    self.format.add_words(work, square.as_ptr(), SIDE);
                                }
                                Way::Codes(b) => b.with(terms, columns.clone(), |b| {
                                    self.format.add_rows(work, b);
                                }),
                                Way::Int8(rows) => {
                                    let rows = rows.from(row, column - first_column);
                                    self.format.add_codes(work, rows);
                                }
                                Way::Nf4(rows) => {
                                    let rows = rows.from(row, column - first_column);
                                    self.format.add_codes(work, rows);
                                }
                            }
                        }
                    }
                    let (sizes, c) = ([self.rows, columns.len()], self.c.from(0, columns.start));
                    // SAFETY: the caller guarantees these columns of the result.
                    unsafe { self.finish.run(self.format.arch(), sums, side, sizes, c) };
                }
            });
        });
    }

    // How columns from this one on are read. Vectors of codes become words where they are multiplied, if the format has that.
    fn way(&self, column: usize) -> Way<F::Source> {
        let codes = match self.b {
            Right::Elements(b) if b.column == 1 => return Way::InPlace(b),
            Right::Elements(b) => return Way::Transposed(b),
            Right::Codes(codes) => codes,
        };
        if F::DECODES {
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
        square: &mut [F::Word],
    ) {
        if terms == 0 {
            return; // an empty factor may have no address
        }
        // SAFETY: the caller guarantees these terms in each column; the square has room for all of them.
        unsafe {
            let (step, sizes) = (from.column, [columns, terms]);
            self.format.pack_rows(from.data, step, sizes, square, SIDE);
        }
    }
}
