//! Attention on the matrix units. C++: `attention_tiles.h`, `attention_tiles_backward.h`.

use super::name::Name;
use super::{DeviceTraits, Launch};
use bytemuck::NoUninit;
use hal::{DType, RawSlice, kernel::AttentionShape};

/// Queries (or keys) of a block: 16 per warp.
pub(super) const ROWS: u32 = 16 * WARPS;
/// Warps of a block.
const WARPS: u32 = 4;
/// Shared memory of a block: two buffers of two tiles, each of 4096 elements of 16 bits, and numbers of their rows.
const SHARED_BYTES: u32 = 4 * 8192 + 4 * 64 * 4;

/// Tokens of a sequence that positions of 32 bits can count, with room for a block.
const MAX_SEQUENCE: usize = 1 << 31;

/// Whether the matrix units support this: 16-bit elements, heads of 64 or 128, rows that begin at multiples of 16
/// bytes.
pub(super) fn serve(shape: &AttentionShape, slices: &[RawSlice]) -> bool {
    let fits = |slice: &RawSlice| {
        matches!(slice.dtype, DType::Bf16 | DType::F16) && slice.addr.is_multiple_of(16)
    };
    // The largest score must remain the largest after scaling.
    let sizes = matches!(shape.head_size, 64 | 128) && shape.sequence < MAX_SEQUENCE;
    sizes && shape.scale > 0.0 && slices.iter().all(fits)
}

/// The launch of `operation`. Its variant with dropout is a separate function.
pub(super) fn launch(
    operation: &str,
    shape: &AttentionShape,
    dtype: &str,
    grid: [u32; 3],
    params: &impl NoUninit,
    traits: &DeviceTraits,
) -> Launch {
    let dropout = if shape.dropout.is_some() {
        "_dropout"
    } else {
        ""
    };
    let name = Name::of(operation)
        .and("_tiles_")
        .and(dtype)
        .and("_")
        .and(shape.head_size)
        .and(dropout);
    Launch::new(name, grid, [WARPS * traits.warp, 1, 1], params).with_shared(SHARED_BYTES)
}
