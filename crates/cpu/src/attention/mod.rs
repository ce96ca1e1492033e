//! Causal attention, block by block.
//!
//! Read in this order: [`place`] finds a head's rows in memory; [`pack`] lays them out for the matmuls;
//! [`first_keys`] finds the first key that a query meets; [`blocks`] lists the pieces of the pairs to compute;
//! [`lanes`](crate::lanes) has the vector operations that matmuls need; [`multiply`] multiplies blocks; [`softmax`] turns
//! scores into weights, and [`dropout`] drops some of them; [`forward()`] and [`backward()`] are the two passes, and [`paged()`]
//! is that of generation.
//!
//! A task is one key and value head of one sequence, with all query heads that read it. Its keys and values are
//! laid out once, and the gradients of several query heads add up in the order of the heads. Tasks write to
//! disjoint places and share nothing, so the number of threads changes no bit. Outputs, and gradients of queries, also
//! have the same bits however a sequence's queries are cut into calls: blocks of keys that lie before the documents of all
//! queries of a block are skipped, and their weights of 0 would change no sum.
//!
//! # Source
//! Dao, Fu, Ermon, Rudra and Ré, "FlashAttention", arXiv:2205.14135: weights are recomputed in the backward
//! pass, from the saved logarithms of the sums. The forward pass differs. A block of queries is 64 rows, and
//! its scores on all keys that it meets fit into the cache. So the softmax is computed at once instead of being
//! corrected from block to block.

mod backward;
mod blocks;
mod dropout;
mod first_keys;
mod forward;
mod multiply;
mod pack;
mod paged;
mod place;
mod softmax;

#[cfg(test)]
mod tests;

use crate::pool::Pool;
use hal::kernel::{AttentionBackward, AttentionForward, PagedAttention};
use hal::{DType, Error, Result};
use half::{bf16, f16};

/// Query rows, and key columns, of a block.
const BLOCK: usize = 64;
/// Rows and row lengths are multiples of this, so that every vector is full and every row starts on a cache line.
const GROUP: usize = 16;

/// Computes [`AttentionForward`].
///
/// # Safety
/// As [`hal::Kernels::launch`]: the slices are live host memory with the types and lengths that the argument asks for.
///
/// # Errors
/// [`Error::Invalid`] for elements that are not floats.
pub(crate) unsafe fn forward(args: &AttentionForward, pool: &Pool) -> Result<()> {
    // SAFETY: the caller guarantees the slices; each arm reads them as the type found in them.
    unsafe {
        match args.q.dtype {
            DType::F64 => forward::run::<f64>(args, pool),
            DType::F32 => forward::run::<f32>(args, pool),
            DType::Bf16 => forward::run::<bf16>(args, pool),
            DType::F16 => forward::run::<f16>(args, pool),
            dtype => return Err(refused("attention_forward", dtype)),
        }
    }
    Ok(())
}

/// Computes [`AttentionBackward`].
///
/// # Safety
/// As [`forward()`].
///
/// # Errors
/// As [`forward()`].
pub(crate) unsafe fn backward(args: &AttentionBackward, pool: &Pool) -> Result<()> {
    // SAFETY: as in `forward`.
    unsafe {
        match args.q.dtype {
            DType::F64 => backward::run::<f64>(args, pool),
            DType::F32 => backward::run::<f32>(args, pool),
            DType::Bf16 => backward::run::<bf16>(args, pool),
            DType::F16 => backward::run::<f16>(args, pool),
            dtype => return Err(refused("attention_backward", dtype)),
        }
    }
    Ok(())
}

/// Computes [`PagedAttention`].
///
/// # Safety
/// As [`forward()`].
///
/// # Errors
/// As [`forward()`].
pub(crate) unsafe fn paged(args: &PagedAttention, pool: &Pool) -> Result<()> {
    // SAFETY: as in `forward`.
    unsafe {
        match args.q.dtype {
            DType::F64 => paged::run::<f64>(args, pool),
            DType::F32 => paged::run::<f32>(args, pool),
            DType::Bf16 => paged::run::<bf16>(args, pool),
            DType::F16 => paged::run::<f16>(args, pool),
            dtype => return Err(refused("paged_attention", dtype)),
        }
    }
    Ok(())
}

fn refused(operation: &str, dtype: DType) -> Error {
    Error::invalid(
        operation,
        format!("elements of type {dtype}"),
        "a float type",
    )
}
