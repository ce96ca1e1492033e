//! GEMMs whose sums have the order of [`hal::sums`]. C++: `gemm.h`.

use super::name::Name;
use super::{
    DeviceTraits, Launch,
    layouts::{Layout, params},
};
use hal::{DType, Error, Gemm, Result, sums};

params! {
    struct GemmParams {
        a: u64,
        b: u64,
        c: u64,
        waiting: u64,
        alpha: f64,
        beta: f64,
        tiles: u64,
        a_leading: u64,
        b_leading: u64,
        c_leading: u64,
        a_stride: u64,
        b_stride: u64,
        c_stride: u64,
        m: u32,
        n: u32,
        k: u32,
        leaf: u32,
        leaves: u32,
        steps_of_leaf: u32,
        inverse: u32,
        waiting_levels: u32,
        is_wide: u32,
        unused: u32,
    }
}

pub(super) const LAYOUTS: &[Layout] = &[GemmParams::LAYOUT];

/// Threads of a block.
const THREADS: u32 = 256;
/// Rows and columns of C in a tile.
const TILE: usize = 64;
/// Terms of a step, in which a leaf is cut.
const STEP: usize = 16;
/// Bytes of each line that are in shared memory at a time.
const STAGE_BYTES: usize = 128;
/// Blocks for each multiprocessor, where each has memory for its nodes.
const RESIDENT: usize = 2;
/// The most blocks of a grid; they take the other tiles in turn.
const MOST_BLOCKS: usize = 1 << 24;
/// The most that a size may be: tiles are counted from it in 32 bits.
const MOST: usize = (1 << 31) - TILE;

/// Levels of the tree whose nodes wait in registers.
fn register_levels(dtype: DType) -> u32 {
    match dtype {
        DType::F64 => 1,
        _ => 3,
    }
}

fn tiles(gemm: &Gemm) -> usize {
    gemm.m.div_ceil(TILE) * gemm.n.div_ceil(TILE) * gemm.batch.count
}

/// Levels whose nodes wait in memory.
fn memory_levels(gemm: &Gemm) -> u32 {
    let levels = sums::waiting_levels(sums::leaves(gemm.k, gemm.leaf));
    levels.saturating_sub(register_levels(gemm.a.data.dtype))
}

fn blocks(gemm: &Gemm, traits: &DeviceTraits) -> usize {
    let most = match memory_levels(gemm) {
        0 => MOST_BLOCKS,
        _ => RESIDENT * traits.multiprocessors as usize,
    };
    tiles(gemm).min(most.max(1))
}

/// Bytes of scratch memory for the nodes that wait outside registers.
pub fn gemm_workspace(gemm: &Gemm, traits: &DeviceTraits) -> usize {
    let of_block = memory_levels(gemm) as usize * TILE * TILE;
    blocks(gemm, traits) * of_block * gemm.a.data.dtype.accumulator().bytes()
}

/// The launch that computes a GEMM without an epilogue; `None` when C has no elements. `workspace` is as for
/// [`lower`](super::lower()), of [`gemm_workspace`] bytes.
///
/// # Errors
/// [`Error::Unsupported`] for integers; [`Error::Invalid`] for a size that the kernel does not count.
pub fn gemm(gemm: &Gemm, traits: &DeviceTraits, workspace: u64) -> Result<Option<Launch>> {
    let dtype = gemm.a.data.dtype;
    let suffix = traits.float("gemm", dtype)?;
    if tiles(gemm) == 0 {
        return Ok(None);
    }
    let steps_of_leaf = gemm.leaf.div_ceil(STEP);
    let leaves = sums::leaves(gemm.k, gemm.leaf);
    // The kernel divides a step by the steps of a leaf with 32 bits.
    let counted = leaves
        .saturating_mul(steps_of_leaf)
        .saturating_mul(steps_of_leaf);
    let sizes = [gemm.m, gemm.n, gemm.k, gemm.leaf, counted];
    if let Some(size) = sizes.into_iter().find(|&size| size > MOST) {
        return Err(Error::invalid(
            "gemm",
            format!("size {size}"),
            format!("at most {MOST}"),
        ));
    }
    let [a_stride, b_stride, c_stride] = gemm.batch.strides.map(|stride| stride as u64);
    let params = GemmParams {
        a: gemm.a.data.addr,
        b: gemm.b.data.addr,
        c: gemm.c.data.addr,
        waiting: if memory_levels(gemm) == 0 {
            0
        } else {
            workspace
        },
        alpha: gemm.alpha,
        beta: gemm.beta,
        tiles: tiles(gemm) as u64,
        a_leading: gemm.a.leading as u64,
        b_leading: gemm.b.leading as u64,
        c_leading: gemm.c.leading as u64,
        a_stride,
        b_stride,
        c_stride,
        m: gemm.m as u32,
        n: gemm.n as u32,
        k: gemm.k as u32,
        leaf: gemm.leaf as u32,
        leaves: leaves as u32,
        steps_of_leaf: steps_of_leaf as u32,
        inverse: inverse(steps_of_leaf),
        waiting_levels: memory_levels(gemm),
        is_wide: (gemm.c.data.dtype != dtype).into(),
        unused: 0,
    };
    let stored = |transposed| if transposed { "t" } else { "n" };
    let name = Name::of("gemm_")
        .and(stored(gemm.a.transposed))
        .and(stored(gemm.b.transposed))
        .and("_")
        .and(suffix);
    let grid = [blocks(gemm, traits) as u32, 1, 1];
    let launch = Launch::new(name, grid, [THREADS, 1, 1], &params);
    Ok(Some(launch.with_shared(shared_bytes(dtype))))
}

/// 2^32 / `steps`, rounded up; 0 for 1.
fn inverse(steps: usize) -> u32 {
    match steps {
        0 | 1 => 0,
        steps => (1u64 << 32).div_ceil(steps as u64) as u32,
    }
}

/// Two buffers of a stage of both factors. Without matrix units, a term's lines are 16 bytes longer.
fn shared_bytes(dtype: DType) -> u32 {
    let stage = match dtype {
        DType::F32 | DType::F64 => (STAGE_BYTES / dtype.bytes()) * (TILE * dtype.bytes() + 16),
        _ => TILE * STAGE_BYTES,
    };
    4 * stage as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_divided_by_the_steps_of_a_leaf() {
        for steps in [1, 2, 3, 4, 5, 7, 64, 1000, 4093] {
            let most = MOST / steps;
            for step in (0..100).chain(most - 100..=most) {
                let found = match inverse(steps) {
                    0 => step,
                    inverse => ((step as u64 * u64::from(inverse)) >> 32) as usize,
                };
                assert_eq!(found, step / steps, "{step} of {steps}");
            }
        }
    }
}
