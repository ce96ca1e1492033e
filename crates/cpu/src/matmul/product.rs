//! A matrix product: its parts for threads, and their blocks.

use super::{
    block::ResultBlock,
    cuts::{cuts, parts},
    finish::Finish,
    format::Format,
    multiplier::TileSize,
    right::Right,
    rows::FewRows,
    strided::Strided,
};
use crate::{element::Element, pool::Pool};
use std::ops::Range;

// A product with fewer multiplications than this takes less time than waking another thread.
const WORTH_SHARING: usize = 1 << 20;
// Bytes of a block of the right factor, about half of the second-level cache.
const BLOCK_BYTES: usize = 576 << 10;
// The narrowest block: the left factor is packed again for each one.
const BLOCK_COLUMNS: usize = 576;
// Terms of a block of the factors, if leaves are no longer.
const BLOCK_TERMS: usize = 256;
// Rows of a block of the left factor, a multiple of every tile's. The waiting nodes of its tiles then take some MiB per
// level.
const BLOCK_ROWS: usize = 1024;

/// c = alpha * a b + beta * c, with a of m x k and b of k x n.
#[derive(Clone, Copy, Debug)]
pub(super) struct Product<F: Format, C> {
    pub(super) format: F,
    /// m, n, k.
    pub(super) sizes: [usize; 3],
    /// Terms of a leaf of the sums.
    pub(super) leaf: usize,
    pub(super) a: Strided<F::Source>,
    pub(super) b: Right<F::Source>,
    pub(super) c: Strided<C>,
    pub(super) finish: Finish<F::Sum>,
}

impl<F: Format, C: Element<Acc = F::Sum>> Product<F, C> {
    /// Computes it.
    ///
    /// # Safety
    /// The matrices are live and hold their shapes; rows or columns of each factor are contiguous; `c` overlaps neither
    /// factor and is used by nobody else.
    pub(super) unsafe fn run(self, pool: &Pool) {
        let [m, n, k] = self.sizes;
        let tile = self.format.tile();
        if m == 0 || n == 0 {
            return;
        }
        // Few columns would leave most lanes of a vector empty. Those of the transposed product are many.
        if let Some(b) = self.b.elements()
            && 2 * n <= tile.lanes
            && m > n
        {
            // SAFETY: the caller guarantees the matrices, whose transposes these are.
            return unsafe { self.transposed(b).run(pool) };
        }
        if pool.threads() == 1 || m.saturating_mul(n).saturating_mul(k) < WORTH_SHARING {
            // SAFETY: the caller guarantees the matrices.
            return unsafe { self.part(tile, 0..m, 0..n) };
        }
        let parts = parts([m, n], tile, pool.threads());
        pool.split(parts.len(), 1, |share| {
            for (rows, columns) in &parts[share] {
                // SAFETY: the caller guarantees the matrices; parts of the result are disjoint.
                unsafe { self.part(tile, rows.clone(), columns.clone()) };
            }
        });
    }

    /// Leaves of a block of the factors.
    fn block_leaves(&self) -> usize {
        // Words are packed from the start of a block on, and none may span two leaves.
        match self.leaf.is_multiple_of(F::TERMS) {
            true => 1 << (BLOCK_TERMS / self.leaf).max(1).ilog2(),
            false => 1,
        }
    }

    fn transposed(self, b: Strided<F::Source>) -> Self {
        let [m, n, k] = self.sizes;
        Product {
            sizes: [n, m, k],
            a: b.transposed(),
            b: Right::Elements(self.a.transposed()),
            c: self.c.transposed(),
            ..self
        }
    }

    /// Some of the rows, which are few.
    fn few(&self, rows: &Range<usize>) -> FewRows<F, C> {
        FewRows {
            format: self.format,
            rows: rows.len(),
            k: self.sizes[2],
            leaf: self.leaf,
            a: self.a.from(rows.start, 0),
            b: self.b,
            c: self.c.from(rows.start, 0),
            finish: self.finish,
        }
    }

    /// Computes a part of the result on this thread.
    ///
    /// # Safety
    /// As [`run`](Self::run); nobody else uses this part.
    unsafe fn part(&self, tile: TileSize, rows: Range<usize>, columns: Range<usize>) {
        let [m, _, k] = self.sizes;
        if FewRows::<F, C>::serves(m, k, self.leaf) {
            // SAFETY: the caller guarantees the matrices; the product is one of those.
            return unsafe { self.few(&rows).columns(columns) };
        }
        let leaves = self.block_leaves();
        let depth = (leaves * self.leaf)
            .min(self.sizes[2])
            .div_ceil(F::TERMS)
            .max(1);
        let column_bytes = depth.next_multiple_of(64) * size_of::<F::Word>();
        let most_columns = (BLOCK_BYTES / column_bytes).max(BLOCK_COLUMNS);
        for columns in cuts(columns, most_columns, tile.columns()) {
            for rows in cuts(rows.clone(), BLOCK_ROWS, tile.rows) {
                let block = ResultBlock {
                    product: self,
                    tile,
                    rows: rows.clone(),
                    columns: columns.clone(),
                };
                // SAFETY: the caller guarantees the matrices, of which this is a block.
                unsafe { block.compute(leaves) };
            }
        }
    }
}
