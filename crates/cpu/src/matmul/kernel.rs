//! The micro-kernel: consecutive leaves of the sums of one tile.
//!
//! Registers hold half of the tile's rows, for two neighbouring leaves. So half of the tree's additions take no memory.

use super::{
    block::Level,
    multiplier::{FEW_ROWS, MANY_ROWS, Multiplier, VECTORS},
};
use hal::sums;

/// Consecutive leaves of a tile, the node that they complete, and where it goes.
///
/// They are pairs of neighbours, the last of which may lack its right one, or a single leaf.
#[derive(Debug)]
pub(super) struct Leaves<'a, W, R> {
    /// Number of the tile.
    pub(super) tile: usize,
    /// Rows that are computed, from [`computed_rows`](super::multiplier::computed_rows), and vectors in each of them.
    pub(super) rows: usize,
    pub(super) vectors: usize,
    /// The index of the first pair, or of the single leaf, in the complete sum.
    pub(super) first: usize,
    /// Words of a leaf, but for the last one, which ends at `depth`.
    pub(super) leaf: usize,
    /// Words of all leaves.
    pub(super) depth: usize,
    /// The words of the rows, side by side, `a_step` from one step of the depth to the next.
    pub(super) a: *const W,
    pub(super) a_step: usize,
    /// Likewise the words of the columns.
    pub(super) b: *const W,
    pub(super) b_step: usize,
    /// The levels on which nodes wait, from that of a pair, or of the single leaf, on. Rows of a node lie `node_step` apart.
    pub(super) levels: &'a [Level<R>],
    pub(super) node_step: usize,
    /// Those to whose nodes the last pair is added, in this order.
    pub(super) joined: &'a [Level<R>],
    /// Receives the sum of the last pair and these nodes; rows lie `out_step` apart.
    pub(super) out: *mut R,
    pub(super) out_step: usize,
}

impl<W: Copy, R: Copy> Leaves<'_, W, R> {
    /// Computes them.
    ///
    /// # Safety
    /// `a` and `b` hold `rows` words and `vectors` vectors of words per step; the nodes and `out` hold as many rows of
    /// as many vectors of sums. Nobody writes the factors, and nobody else uses the nodes of this tile and `out`. The
    /// processor has the multiplier's instructions.
    #[inline(always)]
    pub(super) unsafe fn run<M: Multiplier<Word = W, Sum = R>>(&self, multiplier: M) {
        // SAFETY: the caller guarantees all of it; each arm computes at most the rows and vectors stated.
        unsafe {
            match self.rows {
                1 => self.rows::<M, 1, 1>(multiplier),
                MANY_ROWS if M::TILE_ROWS == MANY_ROWS => {
                    self.rows::<M, MANY_ROWS, { MANY_ROWS / 2 }>(multiplier)
                }
                _ => self.rows::<M, FEW_ROWS, { FEW_ROWS / 2 }>(multiplier),
            }
        }
    }

    /// # Safety
    /// As [`run`](Self::run).
    #[inline(always)]
    unsafe fn rows<M, const ROWS: usize, const HALF: usize>(&self, multiplier: M)
    where
        M: Multiplier<Word = W, Sum = R>,
    {
        // SAFETY: as in `run`.
        unsafe {
            match self.vectors {
                1 => self.tile::<M, ROWS, HALF, 1>(multiplier),
                2 => self.tile::<M, ROWS, HALF, 2>(multiplier),
                _ => self.tile::<M, ROWS, HALF, VECTORS>(multiplier),
            }
        }
    }

    /// # Safety
    /// As [`run`](Self::run).
    #[inline(always)]
    unsafe fn tile<M, const ROWS: usize, const HALF: usize, const VECTORS: usize>(
        &self,
        multiplier: M,
    ) where
        M: Multiplier<Word = W, Sum = R>,
    {
        for row in 0..ROWS {
            for vector in 0..VECTORS {
                let column = vector * size_of::<M::Sums>() / size_of::<R>();
                fetch(self.out.wrapping_add(row * self.out_step + column));
                if let Some(level) = self.joined.last().filter(|level| level.step > 0) {
                    fetch(
                        level
                            .node(self.tile)
                            .wrapping_add(row * self.node_step + column),
                    );
                }
            }
        }
        let (mut a, mut b) = (self.a, self.b);
        let (mut index, mut left) = (self.first, self.depth);
        loop {
            let first = self.leaf.min(left);
            let second = self.leaf.min(left - first);
            left -= first + second;
            let (joined, out, out_step) = match left {
                0 => (self.joined, self.out, self.out_step),
                _ => {
                    let completed = sums::completed(index) as usize;
                    let node = self.levels[completed].node(self.tile);
                    (&self.levels[..completed], node, self.node_step)
                }
            };
            let mut row = 0;
            while row < ROWS {
                let (a, out) = (a.wrapping_add(row), out.wrapping_add(row * out_step));
                // SAFETY: the caller guarantees HALF rows from this one on, with these steps; nodes and `out` hold the
                // tile's rows.
                unsafe {
                    let sums = self.pair::<M, HALF, VECTORS>(multiplier, a, b, [first, second]);
                    self.join(multiplier, sums, row, joined, out, out_step);
                }
                row += HALF;
            }
            if left == 0 {
                return;
            }
            a = a.wrapping_add((first + second) * self.a_step);
            b = b.wrapping_add((first + second) * self.b_step);
            index += 1;
        }
    }

    /// The sum of two leaves of some rows, of so many words each; an empty second leaf is no addend.
    ///
    /// # Safety
    /// As [`run`](Self::run), for HALF rows from `a` on; the second leaf is no longer than the first.
    #[inline(always)]
    unsafe fn pair<M, const HALF: usize, const VECTORS: usize>(
        &self,
        multiplier: M,
        mut a: *const W,
        mut b: *const W,
        [first, second]: [usize; 2],
    ) -> [[M::Sums; VECTORS]; HALF]
    where
        M: Multiplier<Word = W, Sum = R>,
    {
        let mut left = [[multiplier.zero(); VECTORS]; HALF];
        let mut right = left;
        let (a_leaf, b_leaf) = (first * self.a_step, first * self.b_step);
        for _ in 0..second {
            // SAFETY: the caller guarantees this step of both leaves.
            unsafe {
                self.step(multiplier, a, b, &mut left);
                let (a, b) = (a.wrapping_add(a_leaf), b.wrapping_add(b_leaf));
                self.step(multiplier, a, b, &mut right);
            }
            (a, b) = (a.wrapping_add(self.a_step), b.wrapping_add(self.b_step));
        }
        for _ in second..first {
            // SAFETY: the caller guarantees this step of the first leaf.
            unsafe { self.step(multiplier, a, b, &mut left) };
            (a, b) = (a.wrapping_add(self.a_step), b.wrapping_add(self.b_step));
        }
        if second > 0 {
            for row in 0..HALF {
                for vector in 0..VECTORS {
                    left[row][vector] = multiplier.add(left[row][vector], right[row][vector]);
                }
            }
        }
        left
    }

    /// One link of the chains of a leaf.
    ///
    /// # Safety
    /// As [`run`](Self::run), for HALF rows from `a` on.
    #[inline(always)]
    unsafe fn step<M, const HALF: usize, const VECTORS: usize>(
        &self,
        multiplier: M,
        a: *const W,
        b: *const W,
        sums: &mut [[M::Sums; VECTORS]; HALF],
    ) where
        M: Multiplier<Word = W, Sum = R>,
    {
        // SAFETY: the caller guarantees VECTORS vectors of words for each step.
        let right = unsafe { b.cast::<[M::Factors; VECTORS]>().read_unaligned() };
        for vector in 0..VECTORS {
            let column = vector * size_of::<M::Factors>() / size_of::<W>();
            fetch(b.wrapping_add(8 * self.b_step + column));
        }
        for row in 0..HALF {
            // SAFETY: likewise HALF words.
            let left = multiplier.splat(unsafe { *a.add(row) });
            for vector in 0..VECTORS {
                sums[row][vector] = multiplier.fused(left, right[vector], sums[row][vector]);
            }
        }
    }

    /// Adds the sums of some rows, from `start` on, to the nodes of these levels, and stores them.
    ///
    /// # Safety
    /// As [`run`](Self::run), with room for HALF rows from `out` on.
    #[inline(always)]
    unsafe fn join<M, const HALF: usize, const VECTORS: usize>(
        &self,
        multiplier: M,
        mut sums: [[M::Sums; VECTORS]; HALF],
        start: usize,
        joined: &[Level<R>],
        out: *mut R,
        out_step: usize,
    ) where
        M: Multiplier<Word = W, Sum = R>,
    {
        for level in joined {
            for row in 0..HALF {
                let node = level.node(self.tile);
                let node = node.wrapping_add((start + row) * self.node_step);
                // SAFETY: the caller guarantees VECTORS vectors in each row of a node.
                let left = unsafe { node.cast::<[M::Sums; VECTORS]>().read_unaligned() };
                for vector in 0..VECTORS {
                    sums[row][vector] = multiplier.add(left[vector], sums[row][vector]);
                }
            }
        }
        for row in 0..HALF {
            let out = out.wrapping_add(row * out_step);
            // SAFETY: likewise in each row of `out`.
            unsafe { out.cast::<[M::Sums; VECTORS]>().write_unaligned(sums[row]) };
        }
    }
}

/// Asks for a cache line that is needed soon.
#[inline(always)]
pub(crate) fn fetch<T>(place: *const T) {
    prefetch::<FIRST_LEVEL, T>(place);
}

/// Asks for a cache line that is needed once, when others of many rows have been read.
///
/// Rows of some KiB share few sets of the first-level cache, where lines that had been asked for replaced each other: with the second
/// level, bf16 decode of 12 layers of 1024 takes 14.7 ms a token instead of 17.1.
#[inline(always)]
pub(crate) fn fetch_behind<T>(place: *const T) {
    prefetch::<SECOND_LEVEL, T>(place);
}

// Levels of cache, as the instruction of x86-64 names them.
const FIRST_LEVEL: i32 = 3;
const SECOND_LEVEL: i32 = 2;

#[inline(always)]
fn prefetch<const LEVEL: i32, T>(place: *const T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: the instruction belongs to every x86-64, and an address of any value is allowed.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<LEVEL>(place.cast());
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = place;
}
