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
// Columns and terms of a part of the right factor that is transposed in the first-level cache.
const SIDE: usize = 32;
const DEPTH: usize = 128;
// Terms that are added while a vector of sums is in a register.
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
        let side = if self.b.column == 1 { COLUMNS } else { SIDE };
        let levels = sums::waiting_levels(leaves) as usize;
        with_scratch((levels + 1) * side, |memory: &mut [R]| {
            let (sums, waiting) = memory.split_at_mut(side);
            for start in columns.clone().step_by(side) {
                let columns = start..columns.end.min(start + side);
                let sums = &mut sums[..columns.len()];
                for index in 0..leaves {
                    let start = index * self.leaf;
                    let depth = start..self.k.min(start + self.leaf);
                    // SAFETY: the caller guarantees the factors.
                    unsafe { self.leaf(arch, depth, columns.clone(), sums) };
                    let last = index + 1 == leaves;
                    for level in sums::joined(index, last) {
                        let left = &waiting[level as usize * side..][..sums.len()];
                        for i in 0..sums.len() {
                            sums[i] = left[i] + sums[i];
                        }
                    }
                    if !last {
                        let level = sums::completed(index) as usize;
                        waiting[level * side..][..sums.len()].copy_from_slice(sums);
                    }
                }
                let (len, c) = (sums.len(), self.c.from(0, columns.start));
                // SAFETY: the caller guarantees these columns of the result.
                unsafe { self.finish.run(arch, sums, len, [1, len], c) };
            }
        });
    }

    /// One leaf of the sums of some columns.
    ///
    /// # Safety
    /// As [`columns`](Self::columns).
    unsafe fn leaf(
        &self,
        arch: pulp::Arch,
        depth: Range<usize>,
        columns: Range<usize>,
        sums: &mut [R],
    ) {
        sums.fill(R::ZERO);
        if self.b.column == 1 {
            return arch.dispatch(Terms {
                a: self.a.from(0, depth.start),
                b: self.b.from(depth.start, columns.start).data,
                b_step: self.b.row,
                depth: depth.len(),
                sums,
            });
        }
        with_scratch(SIDE * DEPTH, |square: &mut [R]| {
            for start in depth.clone().step_by(DEPTH) {
                let terms = DEPTH.min(depth.end - start);
                let from = self.b.from(start, columns.start).data;
                let (bytes, to) = (self.b.column * size_of::<R>(), square.as_mut_ptr());
                // SAFETY: the caller guarantees `terms` elements in each column; the square has room for all of them.
                unsafe { transpose(from.cast(), bytes, columns.len(), terms, to, SIDE) };
                arch.dispatch(Terms {
                    a: self.a.from(0, start),
                    b: to,
                    b_step: SIDE,
                    depth: terms,
                    sums: &mut *sums,
                });
            }
        });
    }
}

/// Adds terms to sums; whoever makes it guarantees `depth` elements of `a`, and as many rows of `b` as long as `sums`.
struct Terms<'a, R> {
    a: Strided<R>,
    b: *const R,
    b_step: usize,
    depth: usize,
    sums: &'a mut [R],
}

impl<R: Lanes> WithSimd for Terms<'_, R> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        let full = self.depth / TERMS * TERMS;
        let mut start = 0;
        while start < full {
            self.add::<S, TERMS>(simd, start);
            start += TERMS;
        }
        while start < self.depth {
            self.add::<S, 1>(simd, start);
            start += 1;
        }
    }
}

impl<R: Lanes> Terms<'_, R> {
    #[inline(always)]
    fn add<S: Simd, const TERMS: usize>(&mut self, simd: S, start: usize) {
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
        let mut column = 0;
        while column + lanes <= len {
            let place = sums.wrapping_add(column).cast::<R::Vector<S>>();
            // SAFETY: a vector from `column` on ends within the sums.
            let mut sum = unsafe { place.read_unaligned() };
            for term in 0..TERMS {
                let right = right.wrapping_add(term * self.b_step + column);
                fetch(right.wrapping_add(TERMS * self.b_step));
                // SAFETY: likewise within this row of the right factor.
                let vector = unsafe { right.cast::<R::Vector<S>>().read_unaligned() };
                sum = R::fused(simd, splats[term], vector, sum);
            }
            // SAFETY: as for the read.
            unsafe { place.write_unaligned(sum) };
            column += lanes;
        }
        while column < len {
            for term in 0..TERMS {
                // SAFETY: `column` lies within the sums, and within this row of the right factor.
                unsafe {
                    let right = *right.wrapping_add(term * self.b_step + column);
                    *sums.add(column) = left[term].mul_add(right, *sums.add(column));
                }
            }
            column += 1;
        }
    }
}
