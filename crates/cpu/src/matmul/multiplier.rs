//! The operations of a processor that the micro-kernel needs, and the size of a tile that follows from them.

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
    /// A vector of words in memory.
    ///
    /// # Safety
    /// They are there.
    unsafe fn load(self, words: *const Self::Word) -> Self::Factors;
    /// `left * right + sums`, lane by lane.
    fn fused(self, left: Self::Factors, right: Self::Factors, sums: Self::Sums) -> Self::Sums;
    /// `left + right`, lane by lane.
    fn add(self, left: Self::Sums, right: Self::Sums) -> Self::Sums;
}
