//! A block of the result, from blocks of the factors and tile by tile.
//!
//! A block of the factors has the terms of some leaves, which complete a node. That of the right factor stays in the
//! second-level cache while panels of the left one pass; such a panel stays in the first-level cache while it meets the
//! block's panels. Nodes within these leaves wait in the first-level cache; larger nodes of all tiles lie beside the
//! packed words.

use super::{
    format::Format,
    kernel::Leaves,
    multiplier::{TileSize, computed_rows},
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

/// Where the nodes of one level wait: that of the first tile, and the step from one tile's to the next one's.
#[derive(Debug)]
pub(super) struct Level<R> {
    pub(super) first: *mut R,
    pub(super) step: usize,
}

impl<R> Clone for Level<R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R> Copy for Level<R> {}

impl<R> Level<R> {
    /// The node of a tile.
    #[inline(always)]
    pub(super) fn node(self, tile: usize) -> *mut R {
        self.first.wrapping_add(tile * self.step)
    }
}

/// Consecutive leaves of the block's sums that are packed at once, the nodes that they join, and where the node that they
/// complete waits.
struct BlockLeaves<'a, R> {
    /// The index of the first pair of them, or of the single one.
    first: usize,
    terms: Range<usize>,
    levels: &'a [Level<R>],
    joined: &'a [Level<R>],
    /// `None` if they end the sums.
    completed: Option<Level<R>>,
}

impl<F: Format, C: Element<Acc = F::Sum>> ResultBlock<'_, F, C> {
    /// Computes the block from blocks of the factors that have `leaves` leaves of the sums, a power of 2.
    ///
    /// # Safety
    /// As [`Product::run`]; nobody else uses this block of the result.
    pub(super) unsafe fn compute(&self, leaves: usize) {
        let (tile, [_, _, k], leaf) = (self.tile, self.product.sizes, self.product.leaf);
        let rows = self.rows.len().next_multiple_of(tile.rows);
        let columns = self.columns.len().next_multiple_of(tile.columns());
        let depth = (leaves * leaf).min(k).div_ceil(F::TERMS);
        // The micro-kernel adds two leaves of a block in registers, so the smallest nodes that wait are pairs.
        let (pair, pairs) = (leaf * leaves.min(2), leaves.div_ceil(2));
        let all = sums::leaves(k, pair);
        // Smaller nodes than that of all these pairs wait only while a tile passes, so one of each level suffices.
        let (levels, within) = (sums::waiting_levels(all), sums::waiting_levels(pairs));
        let (within, block_len) = (within.min(levels) as usize, rows * columns);
        let len = within * tile.len() + (levels as usize - within) * block_len;
        with_scratch((rows + columns) * depth, |words: &mut [F::Word]| {
            with_scratch(len, |nodes: &mut [F::Sum]| {
                let (a, b) = words.split_at_mut(rows * depth);
                let nodes = nodes.as_mut_ptr();
                let place = |level: usize| match level.checked_sub(within) {
                    None => Level {
                        first: nodes.wrapping_add(level * tile.len()),
                        step: 0,
                    },
                    Some(level) => Level {
                        first: nodes.wrapping_add(within * tile.len() + level * block_len),
                        step: tile.len(),
                    },
                };
                let levels: Vec<_> = (0..levels as usize).map(place).collect();
                let mut joined = Vec::with_capacity(levels.len());
                for first in (0..all).step_by(pairs) {
                    let end = all.min(first + pairs);
                    let last = end == all;
                    joined.clear();
                    joined.extend(sums::joined(end - 1, last).map(|i| levels[i as usize]));
                    let leaves = BlockLeaves {
                        first,
                        terms: first * pair..k.min(end * pair),
                        levels: &levels,
                        joined: &joined,
                        completed: (!last).then(|| levels[sums::completed(end - 1) as usize]),
                    };
                    // SAFETY: the caller guarantees the matrices; each level has the nodes of every tile.
                    unsafe { self.leaves(&leaves, a, b) };
                }
            });
        });
    }

    /// Adds leaves to the sums of all tiles.
    ///
    /// # Safety
    /// As [`compute`](Self::compute), with the nodes of these leaves.
    unsafe fn leaves(&self, leaves: &BlockLeaves<F::Sum>, a: &mut [F::Word], b: &mut [F::Word]) {
        let (terms, columns) = (leaves.terms.clone(), self.columns.clone());
        self.product.b.with(terms, columns, |right| {
            // SAFETY: guaranteed by the caller.
            unsafe { self.leaves_of(leaves, right, a, b) };
        });
    }

    /// As [`leaves`](Self::leaves), with the block of the right factor.
    ///
    /// # Safety
    /// As there, for `right` too.
    unsafe fn leaves_of(
        &self,
        leaves: &BlockLeaves<F::Sum>,
        right: Strided<F::Source>,
        a: &mut [F::Word],
        b: &mut [F::Word],
    ) {
        let (tile, product) = (self.tile, self.product);
        let left = Block {
            from: product.a.from(self.rows.start, leaves.terms.start),
            neighbours: self.rows.len(),
            depth: leaves.terms.len(),
            width: tile.rows,
        };
        let right = Block {
            from: right.transposed(),
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
                let index = row_tile * column_tiles + column_tile;
                let (a, b) = (left.panel(row_tile), right.panel(column_tile));
                // SAFETY: the panels hold this tile's words, which lie in the block.
                unsafe { self.tile(leaves, index, sizes, a, b, c) };
            }
        }
    }

    /// Adds leaves to the sums of one tile, and finishes the last ones.
    ///
    /// # Safety
    /// As [`leaves`](Self::leaves); `a` and `b` hold the words of the tile's rows and columns.
    unsafe fn tile(
        &self,
        leaves: &BlockLeaves<F::Sum>,
        index: usize,
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
        let (out, out_step) = match (leaves.completed, in_place) {
            (Some(level), _) => (level.node(index), tile.columns()),
            (None, true) => (c.data.cast(), c.row),
            (None, false) => (sums.as_mut_ptr().cast(), tile.columns()),
        };
        let work = Leaves {
            tile: index,
            rows: computed,
            vectors,
            first: leaves.first,
            leaf: product.leaf.div_ceil(F::TERMS),
            depth: leaves.terms.len().div_ceil(F::TERMS),
            a: a.0,
            a_step: a.1,
            b: b.0,
            b_step: b.1,
            levels: leaves.levels,
            node_step: tile.columns(),
            joined: leaves.joined,
            out,
            out_step,
        };
        // SAFETY: the caller guarantees the panels; nodes and `sums` have room for a full tile, and the result itself
        // is written only where all computed sums are elements of it.
        unsafe { product.format.compute(&work) };
        if leaves.completed.is_none() && !in_place {
            let len = (computed - 1) * tile.columns() + columns;
            // SAFETY: the micro-kernel has written all rows but the columns beyond its vectors, which nobody reads.
            let sums = unsafe { std::slice::from_raw_parts_mut(out, len) };
            let (arch, sizes) = (product.format.arch(), [rows, columns]);
            // SAFETY: the caller guarantees this part of the result.
            unsafe { product.finish.run(arch, sums, tile.columns(), sizes, c) };
        }
    }
}
