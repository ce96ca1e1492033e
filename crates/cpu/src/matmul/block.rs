//! A block of the result, leaf by leaf and tile by tile.
//!
//! A block of the right factor, one leaf deep, stays in the second-level cache while panels of the left one pass; such
//! a panel stays in the first-level cache while it meets the block's panels. The waiting nodes of the block's tiles lie
//! beside them.

use super::{
    format::Format,
    kernel::{Leaf, TileSize, computed_rows},
    pack::Block,
    product::Product,
    scratch::with_scratch,
    strided::Strided,
};
use crate::element::Element;
use hal::sums;
use std::{any::TypeId, ops::Range};

// A tile has no more sums than this: those of the most registers.
const MOST_SUMS: usize = 8 * 3 * 16;

/// A block of the result, and what its computation needs to know.
pub(super) struct ResultBlock<'a, F: Format, C> {
    pub(super) product: &'a Product<F, C>,
    pub(super) tile: TileSize,
    pub(super) rows: Range<usize>,
    pub(super) columns: Range<usize>,
}

/// A leaf of the block's sums: its terms, the nodes that it joins, and where the node that it completes waits.
struct BlockLeaf<'a, R> {
    depth: Range<usize>,
    last: bool,
    joined: &'a [*const R],
    completed: *mut R,
}

impl<F: Format, C: Element<Acc = F::Sum>> ResultBlock<'_, F, C> {
    /// Computes the block, whose leaves have at most `depth` words.
    ///
    /// # Safety
    /// As [`Product::run`]; nobody else uses this block of the result.
    pub(super) unsafe fn compute(&self, depth: usize) {
        let (tile, [_, _, k]) = (self.tile, self.product.sizes);
        let rows = self.rows.len().next_multiple_of(tile.rows);
        let columns = self.columns.len().next_multiple_of(tile.columns());
        let leaves = sums::leaves(k, self.product.leaf);
        let (sums, levels) = (rows * columns, sums::waiting_levels(leaves) as usize);
        with_scratch((rows + columns) * depth, |words: &mut [F::Word]| {
            with_scratch(levels * sums, |waiting: &mut [F::Sum]| {
                let (a, b) = words.split_at_mut(rows * depth);
                let waiting = waiting.as_mut_ptr();
                for index in 0..leaves {
                    let last = index + 1 == leaves;
                    let level = |level: u32| waiting.wrapping_add(level as usize * sums);
                    let mut joined = [std::ptr::null(); usize::BITS as usize];
                    let mut count = 0;
                    for left in sums::joined(index, last) {
                        joined[count] = level(left).cast_const();
                        count += 1;
                    }
                    let start = index * self.product.leaf;
                    let leaf = BlockLeaf {
                        depth: start..k.min(start + self.product.leaf),
                        last,
                        joined: &joined[..count],
                        completed: level(sums::completed(index)),
                    };
                    // SAFETY: the caller guarantees the matrices; each level has a node of every tile.
                    unsafe { self.leaf(&leaf, a, b) };
                }
            });
        });
    }

    /// Adds a leaf to the sums of all tiles.
    ///
    /// # Safety
    /// As [`compute`](Self::compute), with the leaf's nodes.
    unsafe fn leaf(&self, leaf: &BlockLeaf<F::Sum>, a: &mut [F::Word], b: &mut [F::Word]) {
        let (tile, product) = (self.tile, self.product);
        let left = Block {
            from: product.a.from(self.rows.start, leaf.depth.start),
            neighbours: self.rows.len(),
            depth: leaf.depth.len(),
            width: tile.rows,
        };
        let right = Block {
            from: product
                .b
                .from(leaf.depth.start, self.columns.start)
                .transposed(),
            neighbours: self.columns.len(),
            width: tile.columns(),
            ..left
        };
        let (row_tiles, column_tiles) = (left.panels(), right.panels());
        let end_rows = self.rows.len() % tile.rows;
        let rows_fit = computed_rows(end_rows, tile.rows) == end_rows;
        let columns_fit = self.columns.len().is_multiple_of(tile.lanes);
        // SAFETY: the caller guarantees the factors, of which these are blocks.
        let (left, right) = unsafe {
            (
                left.place(product.format, column_tiles, rows_fit, a),
                right.place(product.format, row_tiles, columns_fit, b),
            )
        };
        for row_tile in 0..row_tiles {
            for column_tile in 0..column_tiles {
                let (row, column) = (row_tile * tile.rows, column_tile * tile.columns());
                let sizes = [
                    tile.rows.min(self.rows.len() - row),
                    tile.columns().min(self.columns.len() - column),
                ];
                let c = product
                    .c
                    .from(self.rows.start + row, self.columns.start + column);
                let node = (row_tile * column_tiles + column_tile) * tile.len();
                let (a, b) = (left.panel(row_tile), right.panel(column_tile));
                // SAFETY: the panels hold this tile's words, which lie in the block.
                unsafe { self.tile(leaf, node, sizes, a, b, c) };
            }
        }
    }

    /// Adds a leaf to the sums of one tile, and finishes the last one.
    ///
    /// # Safety
    /// As [`leaf`](Self::leaf); `a` and `b` hold the words of the tile's rows and columns.
    unsafe fn tile(
        &self,
        leaf: &BlockLeaf<F::Sum>,
        node: usize,
        [rows, columns]: [usize; 2],
        a: (*const F::Word, usize),
        b: (*const F::Word, usize),
        c: Strided<C>,
    ) {
        let (tile, product) = (self.tile, self.product);
        let computed = computed_rows(rows, tile.rows);
        let vectors = columns.div_ceil(tile.lanes);
        let mut sums = [const { std::mem::MaybeUninit::<F::Sum>::uninit() }; MOST_SUMS];
        let all_exist = computed == rows && vectors * tile.lanes == columns;
        let in_place = TypeId::of::<C>() == TypeId::of::<F::Sum>()
            && all_exist
            && c.column == 1
            && product.finish.is_plain();
        let (out, out_step) = match (leaf.last, in_place) {
            (false, _) => (leaf.completed.wrapping_add(node), tile.columns()),
            (true, true) => (c.data.cast(), c.row),
            (true, false) => (sums.as_mut_ptr().cast(), tile.columns()),
        };
        let work = Leaf {
            rows: computed,
            vectors,
            depth: leaf.depth.len().div_ceil(F::TERMS),
            a: a.0,
            a_step: a.1,
            b: b.0,
            b_step: b.1,
            levels: leaf.joined,
            node,
            node_step: tile.columns(),
            out,
            out_step,
        };
        // SAFETY: the caller guarantees the panels; nodes and `sums` have room for a full tile, and the result itself
        // is written only where all computed sums are elements of it.
        unsafe { product.format.compute(&work) };
        if leaf.last && !in_place {
            let len = (computed - 1) * tile.columns() + columns;
            // SAFETY: the micro-kernel has written all rows but the columns beyond its vectors, which nobody reads.
            let sums = unsafe { std::slice::from_raw_parts_mut(out, len) };
            let (arch, sizes) = (product.format.arch(), [rows, columns]);
            // SAFETY: the caller guarantees this part of the result.
            unsafe { product.finish.run(arch, sums, tile.columns(), sizes, c) };
        }
    }
}
