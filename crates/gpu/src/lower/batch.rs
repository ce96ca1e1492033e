//! Tensors that are updated many at a time, each by blocks of its own.

use super::{Launch, name::Name, shape::THREADS};
use bytemuck::NoUninit;
use hal::DType;

/// Elements of one tensor that a block updates.
pub(super) const PART: usize = 8192;

/// Tensors of one type that one launch updates.
pub(super) struct Batch<'a, T> {
    pub(super) dtype: DType,
    /// Each with its first block.
    pub(super) tensors: Vec<(&'a T, u32)>,
    blocks: usize,
}

/// Groups tensors of one type, at most `most` to a launch, and leaves out empty ones. `of` returns a tensor's type and its number
/// of elements.
pub(super) fn batches<T>(
    tensors: &[T],
    of: impl Fn(&T) -> (DType, usize),
    most: usize,
) -> Vec<Batch<'_, T>> {
    let mut batches = Vec::new();
    for dtype in [DType::F32, DType::F64] {
        let fits = |tensor: &&T| of(tensor).0 == dtype && of(tensor).1 > 0;
        let alike: Vec<&T> = tensors.iter().filter(fits).collect();
        for tensors in alike.chunks(most) {
            let mut batch = Batch {
                dtype,
                tensors: Vec::with_capacity(tensors.len()),
                blocks: 0,
            };
            for tensor in tensors {
                batch.tensors.push((*tensor, batch.blocks as u32));
                batch.blocks += of(tensor).1.div_ceil(PART);
            }
            batches.push(batch);
        }
    }
    batches
}

/// The kernel of that name for the batch's type.
pub(super) fn launch<T>(operation: &str, batch: &Batch<'_, T>, params: &impl NoUninit) -> Launch {
    Launch::new(
        Name::of(operation).and("_").and(batch.dtype),
        [batch.blocks as u32, 1, 1],
        [THREADS, 1, 1],
        params,
    )
}
