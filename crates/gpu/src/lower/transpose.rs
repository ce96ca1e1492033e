//! The transpose of a matrix. C++: `transpose.h`.

use super::name::Name;
use super::{
    Launch,
    layouts::{Layout, params},
    shape::blocks,
};
use hal::DType;

params! {
    struct TransposeParams { x: u64, out: u64, leading: u64, rows: u64, columns: u64, }
}

pub(super) const LAYOUTS: &[Layout] = &[TransposeParams::LAYOUT];

// As in C++: the side of the square that a block transposes, and the rows of it that threads take at a time.
const TURN: usize = 32;
const TURN_ROWS: u32 = 8;
// Blocks continue with squares further down.
const MOST_BLOCKS_Y: u32 = 1024;

/// A matrix to transpose: `rows` x `columns` elements, `leading` elements from row to row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stored {
    /// Address of the first element.
    pub address: u64,
    /// Element type.
    pub dtype: DType,
    /// Rows as stored.
    pub rows: usize,
    /// Columns as stored.
    pub columns: usize,
    /// Elements from one row to the next.
    pub leading: usize,
}

impl Stored {
    /// Bytes of the elements without gaps.
    pub fn bytes(&self) -> usize {
        self.rows * self.columns * self.dtype.bytes()
    }
}

/// The launch that writes the transpose of `x` to `out`, without gaps; neither size is 0.
pub fn transpose(x: &Stored, out: u64) -> Launch {
    let Stored {
        address: x_address,
        dtype,
        rows,
        columns,
        leading,
    } = *x;
    let [leading, num_rows, num_columns] = [leading, rows, columns].map(|size| size as u64);
    let params = TransposeParams {
        x: x_address,
        out,
        leading,
        rows: num_rows,
        columns: num_columns,
    };
    let grid = [
        blocks(columns, TURN),
        blocks(rows, TURN).min(MOST_BLOCKS_Y),
        1,
    ];
    let shared = TURN * (TURN + 1) * dtype.bytes();
    let name = Name::of("transpose_").and(dtype.bytes());
    Launch::new(name, grid, [TURN as u32, TURN_ROWS, 1], &params).with_shared(shared as u32)
}
