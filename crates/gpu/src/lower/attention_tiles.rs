//! Attention on the matrix units. C++: `attention_tiles.h`, `attention_tiles_backward.h` for products of warps;
//! `attention_hopper.h` and its neighbours for those of warpgroups.

use super::name::Name;
use super::{DeviceTraits, Launch};
use bytemuck::NoUninit;
use hal::{DType, RawSlice, kernel::AttentionShape};

/// Queries (or keys) of a block of warps: 16 per warp.
const ROWS: u32 = 16 * WARPS;
/// Warps of a block, and of a warpgroup.
const WARPS: u32 = 4;
/// Elements of a shared tile.
const TILE: u32 = 4096;

/// Queries and keys of a sequence and a window together, so that signed positions of 32 bits have room for a block.
const MAX_ROWS: usize = 1 << 30;

/// Whether the matrix units support this: 16-bit elements, heads of 64 or 128, rows that begin at multiples of 16
/// bytes, fewer than 2^30 queries, keys and keys of a window per sequence.
pub(super) fn serve(shape: &AttentionShape, slices: &[RawSlice]) -> bool {
    let fits = |slice: &RawSlice| {
        matches!(slice.dtype, DType::Bf16 | DType::F16) && slice.addr.is_multiple_of(16)
    };
    // The largest score must remain the largest after scaling.
    let rows = shape.queries.saturating_add(shape.keys);
    let rows = rows.saturating_add(shape.closing_window().unwrap_or(0));
    matches!(shape.head_size, 64 | 128)
        && rows < MAX_ROWS
        && shape.scale > 0.0
        && slices.iter().all(fits)
}

/// The kernels.
#[derive(Clone, Copy)]
pub(super) enum Pass {
    Forward,
    BackwardQueries,
    BackwardKeys,
}

impl Pass {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Pass::Forward => "attention_forward",
            Pass::BackwardQueries => "attention_backward_queries",
            Pass::BackwardKeys => "attention_backward_keys",
        }
    }

    /// Warpgroups of a block that multiply; one more copies. With heads of 64, three forward ones have the registers.
    const fn groups(self, head_size: u32) -> u32 {
        match self {
            Pass::Forward if head_size == 64 => 3,
            _ => 2,
        }
    }

    /// Shared memory of a block of warpgroups: its own rows, the tiles of the other side, the numbers of queries, barriers, and
    /// what it takes to begin at a multiple of 1024.
    fn shared_bytes_of_groups(self, head_size: u32) -> u32 {
        let (rows_of_64, numbers) = (64 * head_size * 2, 2 * 64 * 4);
        let own = self.groups(head_size);
        let tiles = match self {
            // Two tiles of 128 keys and of their values.
            Pass::Forward => own + 4 * 2,
            // Queries and gradients of outputs; two tiles of 128 keys and of their values.
            Pass::BackwardQueries => 2 * own + 4 * 2,
            // Keys and values; three tiles of 64 queries and of gradients of their outputs.
            Pass::BackwardKeys => 2 * own + 6,
        };
        let numbers = match self {
            Pass::BackwardKeys => 3 * numbers,
            _ => 0,
        };
        1024 + tiles * rows_of_64 + numbers + BARRIERS
    }

    /// Shared memory of a block: two buffers of two tiles of 16-bit elements, and what the kernel of keys adds. With warps
    /// of 32 the forward kernel's tiles have 64 rows, and heads of 128 also store the keys and values that a block owns.
    fn shared_bytes(self, head_size: u32, warp: u32) -> u32 {
        let (rows_of_64, numbers_of_rows) = (64 * head_size, 2 * 64 * 4);
        match self {
            Pass::Forward if warp == 32 => 4 * rows_of_64 * 2,
            Pass::Forward | Pass::BackwardQueries => 4 * TILE * 2,
            Pass::BackwardKeys => {
                let own = if head_size > 64 && warp == 32 {
                    ROWS * head_size
                } else {
                    0
                };
                4 * TILE * 2 + 2 * own * 2 + 2 * numbers_of_rows
            }
        }
    }
}

/// Bytes of the barriers of a block of warpgroups: at most two rings of two places, each with two barriers of 8 bytes.
const BARRIERS: u32 = 2 * 2 * 2 * 8;

/// Which units multiply.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    Warps,
    /// Without dropout, whose generator takes longer than the products, and without a bound of scores.
    Warpgroups,
}

impl Unit {
    pub(super) fn of(shape: &AttentionShape, traits: &DeviceTraits) -> Self {
        match traits.warpgroups && shape.dropout.is_none() && shape.score_cap.is_none() {
            true => Unit::Warpgroups,
            false => Unit::Warps,
        }
    }

    /// Queries or keys of a block.
    pub(super) fn rows(self, pass: Pass, shape: &AttentionShape) -> u32 {
        match self {
            Unit::Warps => ROWS,
            Unit::Warpgroups => 64 * pass.groups(shape.head_size as u32),
        }
    }
}

/// The launch of `pass`. Its variants with dropout, and with parts, are separate functions: where a query meets a part of the keys
/// before it because of `documents` or a window, or scores have a bound.
pub(super) fn launch(
    pass: Pass,
    (shape, documents): (&AttentionShape, bool),
    dtype: &str,
    grid: [u32; 3],
    params: &impl NoUninit,
    traits: &DeviceTraits,
) -> Launch {
    let (unit, head_size) = (Unit::of(shape, traits), shape.head_size as u32);
    let (kind, threads, shared) = match unit {
        Unit::Warps => (
            "_tiles_",
            WARPS * traits.warp,
            pass.shared_bytes(head_size, traits.warp),
        ),
        Unit::Warpgroups => (
            "_hopper_",
            (pass.groups(head_size) + 1) * WARPS * traits.warp,
            pass.shared_bytes_of_groups(head_size),
        ),
    };
    let has_parts = documents || shape.closing_window().is_some() || shape.score_cap.is_some();
    let dropout = if shape.dropout.is_some() {
        "_dropout"
    } else {
        ""
    };
    let name = Name::of(pass.name())
        .and(kind)
        .and(dtype)
        .and("_")
        .and(shape.head_size)
        .and(dropout)
        .and(if has_parts { "_parts" } else { "" });
    Launch::new(name, grid, [threads, 1, 1], params).with_shared(shared)
}
