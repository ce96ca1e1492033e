//! The micro-kernel: one leaf of the sums of one tile, held in registers.

/// The most vectors in a row of a tile.
pub(super) const VECTORS: usize = 3;
/// Rows of a full tile: as many sums as registers hold beside a row of the right factor and one element of the left.
pub(super) const MANY_ROWS: usize = 8;
/// Likewise with 16 registers.
pub(super) const FEW_ROWS: usize = 4;

/// Rows that are computed if a tile has `rows` of at most `tile_rows`: 1, few, or all.
pub(super) fn computed_rows(rows: usize, tile_rows: usize) -> usize {
    match rows {
        0 | 1 => rows,
        _ if rows <= FEW_ROWS => FEW_ROWS,
        _ => tile_rows,
    }
}

/// The size of a full tile.
#[derive(Clone, Copy, Debug)]
pub(super) struct TileSize {
    pub(super) rows: usize,
    /// Sums in a vector.
    pub(super) lanes: usize,
}

impl TileSize {
    pub(super) fn of<M: Multiplier>() -> TileSize {
        TileSize {
            rows: M::TILE_ROWS,
            lanes: size_of::<M::Sums>() / size_of::<M::Sum>(),
        }
    }

    /// Columns of a full tile.
    pub(super) fn columns(self) -> usize {
        VECTORS * self.lanes
    }

    /// Elements of a full tile.
    pub(super) fn len(self) -> usize {
        self.rows * self.columns()
    }
}

/// The operations of a processor on vectors of factors and of sums.
pub(super) trait Multiplier: Copy {
    /// What a step of the depth takes from each row and column: an element, or a pair of 16-bit elements.
    type Word: Copy;
    /// A vector of words.
    type Factors: Copy;
    /// A vector of sums.
    type Sums: Copy;
    /// The type of a sum.
    type Sum: Copy;
    /// Rows of a full tile.
    const TILE_ROWS: usize;

    /// Sums of nothing.
    fn zero(self) -> Self::Sums;
    /// A vector of one word.
    fn splat(self, word: Self::Word) -> Self::Factors;
    /// `left * right + sums`, lane by lane.
    fn fused(self, left: Self::Factors, right: Self::Factors, sums: Self::Sums) -> Self::Sums;
    /// `left + right`, lane by lane.
    fn add(self, left: Self::Sums, right: Self::Sums) -> Self::Sums;
}

/// One leaf of a tile, and where its sums go.
#[derive(Debug)]
pub(super) struct Leaf<'a, W, R> {
    /// Rows that are computed, from [`computed_rows`], and vectors in each of them.
    pub(super) rows: usize,
    pub(super) vectors: usize,
    /// Words of the sums.
    pub(super) depth: usize,
    /// The words of the rows, side by side, `a_step` from one step of the depth to the next.
    pub(super) a: *const W,
    pub(super) a_step: usize,
    /// Likewise the words of the columns.
    pub(super) b: *const W,
    pub(super) b_step: usize,
    /// Levels with a node to which the leaf is added, in this order; the tile's node starts at `node`, and its rows
    /// lie `node_step` apart.
    pub(super) levels: &'a [*const R],
    pub(super) node: usize,
    pub(super) node_step: usize,
    /// Receives the sums; rows lie `out_step` apart.
    pub(super) out: *mut R,
    pub(super) out_step: usize,
}

impl<W: Copy, R: Copy> Leaf<'_, W, R> {
    /// Computes it.
    ///
    /// # Safety
    /// `a` and `b` hold `rows` words and `vectors` vectors of words per step; the nodes and `out` hold as many rows of
    /// as many vectors of sums. Nobody writes the factors and nodes, and nobody else uses `out`. The processor has the
    /// multiplier's instructions.
    #[inline(always)]
    pub(super) unsafe fn run<M: Multiplier<Word = W, Sum = R>>(&self, multiplier: M) {
        // SAFETY: the caller guarantees all of it; each arm computes at most the rows and vectors stated.
        unsafe {
            match self.rows {
                1 => self.rows::<M, 1>(multiplier),
                MANY_ROWS if M::TILE_ROWS == MANY_ROWS => self.rows::<M, MANY_ROWS>(multiplier),
                _ => self.rows::<M, FEW_ROWS>(multiplier),
            }
        }
    }

    /// # Safety
    /// As [`run`](Self::run).
    #[inline(always)]
    unsafe fn rows<M: Multiplier<Word = W, Sum = R>, const ROWS: usize>(&self, multiplier: M) {
        // SAFETY: as in `run`.
        unsafe {
            match self.vectors {
                1 => self.tile::<M, ROWS, 1>(multiplier),
                2 => self.tile::<M, ROWS, 2>(multiplier),
                _ => self.tile::<M, ROWS, VECTORS>(multiplier),
            }
        }
    }

    /// # Safety
    /// As [`run`](Self::run).
    #[inline(always)]
    unsafe fn tile<M, const ROWS: usize, const VECTORS: usize>(&self, multiplier: M)
    where
        M: Multiplier<Word = W, Sum = R>,
    {
        for row in 0..ROWS {
            for vector in 0..VECTORS {
                let column = vector * size_of::<M::Sums>() / size_of::<R>();
                fetch(self.out.wrapping_add(row * self.out_step + column));
                if let Some(level) = self.levels.first() {
                    fetch(level.wrapping_add(self.node + row * self.node_step + column));
                }
            }
        }
        let mut sums = [[multiplier.zero(); VECTORS]; ROWS];
        let (mut a, mut b) = (self.a, self.b);
        for _ in 0..self.depth {
            // SAFETY: the caller guarantees VECTORS vectors of words for each step.
            let right = unsafe { b.cast::<[M::Factors; VECTORS]>().read_unaligned() };
            for vector in 0..VECTORS {
                let column = vector * size_of::<M::Factors>() / size_of::<W>();
                fetch(b.wrapping_add(8 * self.b_step + column));
            }
            for row in 0..ROWS {
                // SAFETY: likewise ROWS words.
                let left = multiplier.splat(unsafe { *a.add(row) });
                for vector in 0..VECTORS {
                    sums[row][vector] = multiplier.fused(left, right[vector], sums[row][vector]);
                }
            }
            (a, b) = (a.wrapping_add(self.a_step), b.wrapping_add(self.b_step));
        }
        for &level in self.levels {
            for row in 0..ROWS {
                let node = level.wrapping_add(self.node + row * self.node_step);
                let node = node.cast::<[M::Sums; VECTORS]>();
                // SAFETY: the caller guarantees VECTORS vectors in each of ROWS rows of a node.
                let left = unsafe { node.read_unaligned() };
                for vector in 0..VECTORS {
                    sums[row][vector] = multiplier.add(left[vector], sums[row][vector]);
                }
            }
        }
        for row in 0..ROWS {
            let out = self
                .out
                .wrapping_add(row * self.out_step)
                .cast::<[M::Sums; VECTORS]>();
            // SAFETY: the caller guarantees VECTORS vectors in each of ROWS rows of the result.
            unsafe { out.write_unaligned(sums[row]) };
        }
    }
}

/// Asks for a cache line that is needed soon.
#[inline(always)]
pub(super) fn fetch<T>(place: *const T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: the instruction belongs to every x86-64, and an address of any value is allowed.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(place.cast());
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = place;
}
