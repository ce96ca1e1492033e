//! Reductions that the host does because no kernel offers them: maxima, minima, and sums of integers, which have no averages.

use super::{meeting::Post, reads::by_kernels};
use crate::stream::Core;
use hal::{Collective, DType, RawSlice, ReduceOp, Result};
use half::{bf16, f16};

/// Copies this rank's addends to the host; `None` where kernels do the reduction or the call has none.
///
/// # Safety
/// The call's buffers are live.
pub(super) unsafe fn given(core: &Core, call: &Collective) -> Result<Option<Vec<u8>>> {
    let Some((buffer, _)) = reduced(call) else {
        return Ok(None);
    };
    let mut bytes = vec![0; buffer.bytes()];
    // SAFETY: the caller vouches for the buffer, which is as long.
    unsafe { core.download(&mut bytes, buffer.addr) }?;
    Ok(Some(bytes))
}

/// Where this rank's result goes, if the host does the reduction.
pub(super) fn result(call: &Collective) -> Option<RawSlice> {
    reduced(call)?;
    match call {
        Collective::AllReduce { buffer, .. } => Some(*buffer),
        Collective::ReduceScatter { recv, .. } => Some(*recv),
        _ => None,
    }
}

fn reduced(call: &Collective) -> Option<(RawSlice, ReduceOp)> {
    match call {
        Collective::AllReduce { buffer, op } if !by_kernels(buffer, *op) => Some((*buffer, *op)),
        Collective::ReduceScatter { send, op, .. } if !by_kernels(send, *op) => Some((*send, *op)),
        _ => None,
    }
}

/// Reduces this rank's part of what all ranks have posted.
pub(super) fn reduce(call: &Collective, posts: &[Post], rank: usize) -> Vec<u8> {
    let Some((buffer, op)) = reduced(call) else {
        return Vec::new();
    };
    let (start, len) = match call {
        Collective::ReduceScatter { counts, .. } => (counts.before(rank), counts.of(rank)),
        _ => (0, buffer.len),
    };
    let size = buffer.dtype.bytes();
    let parts = posts.iter().filter_map(|post| post.bytes.as_ref());
    let mut parts = parts.map(|bytes| &bytes[start * size..(start + len) * size]);
    let mut result = parts.next().unwrap_or_default().to_vec();
    parts.for_each(|part| combine(&mut result, part, buffer.dtype, op));
    result
}

fn combine(into: &mut [u8], from: &[u8], dtype: DType, op: ReduceOp) {
    match dtype {
        DType::F64 => each(into, from, |a: f64, b| float(op, a, b)),
        DType::F32 => each(into, from, |a: f32, b| float(op, a.into(), b.into()) as f32),
        DType::Bf16 => each(into, from, |a: bf16, b| {
            bf16::from_f64(float(op, a.into(), b.into()))
        }),
        DType::F16 => each(into, from, |a: f16, b| {
            f16::from_f64(float(op, a.into(), b.into()))
        }),
        DType::I32 => each(into, from, |a: i32, b: i32| {
            integer(op, a, b, a.wrapping_add(b))
        }),
        DType::U32 => each(into, from, |a: u32, b: u32| {
            integer(op, a, b, a.wrapping_add(b))
        }),
        DType::U8 => each(into, from, |a: u8, b: u8| {
            integer(op, a, b, a.wrapping_add(b))
        }),
    }
}

fn each<T: bytemuck::Pod>(into: &mut [u8], from: &[u8], combine: impl Fn(T, T) -> T) {
    for (into, from) in into
        .chunks_exact_mut(size_of::<T>())
        .zip(from.chunks_exact(size_of::<T>()))
    {
        let combined = combine(
            bytemuck::pod_read_unaligned(into),
            bytemuck::pod_read_unaligned(from),
        );
        into.copy_from_slice(bytemuck::bytes_of(&combined));
    }
}

fn float(op: ReduceOp, a: f64, b: f64) -> f64 {
    match op {
        ReduceOp::Sum | ReduceOp::Avg => a + b,
        // Every rank must see a NaN of any rank.
        _ if a.is_nan() || b.is_nan() => f64::NAN,
        ReduceOp::Max => a.max(b),
        ReduceOp::Min => a.min(b),
    }
}

fn integer<T: Ord>(op: ReduceOp, a: T, b: T, sum: T) -> T {
    match op {
        ReduceOp::Sum | ReduceOp::Avg => sum,
        ReduceOp::Max => a.max(b),
        ReduceOp::Min => a.min(b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hal::Counts;
    use std::sync::Arc;

    fn posts(ranks: &[&[i32]]) -> Vec<Post> {
        let bytes = |numbers: &&[i32]| Some(Arc::new(bytemuck::cast_slice(numbers).to_vec()));
        ranks
            .iter()
            .map(|numbers| Post {
                bytes: bytes(numbers),
                ..Post::presence()
            })
            .collect()
    }

    #[test]
    fn integers_are_reduced_over_all_ranks() {
        let buffer = RawSlice {
            addr: 0,
            len: 3,
            dtype: DType::I32,
        };
        let posts = posts(&[&[1, -5, 3], &[4, 2, -3], &[0, 0, 9]]);
        for (op, expected) in [
            (ReduceOp::Sum, [5, -3, 9]),
            (ReduceOp::Max, [4, 2, 9]),
            (ReduceOp::Min, [0, -5, -3]),
        ] {
            let bytes = reduce(&Collective::AllReduce { buffer, op }, &posts, 1);
            assert_eq!(bytes, bytemuck::cast_slice::<i32, u8>(&expected), "{op:?}");
        }
    }

    #[test]
    fn a_scattered_reduction_gives_each_rank_its_part() {
        let send = RawSlice {
            addr: 0,
            len: 3,
            dtype: DType::I32,
        };
        let recv = RawSlice {
            addr: 0,
            len: 2,
            dtype: DType::I32,
        };
        let counts = Counts::Uneven(vec![1, 2]);
        let call = Collective::ReduceScatter {
            send,
            recv,
            counts,
            op: ReduceOp::Sum,
        };
        let bytes = reduce(&call, &posts(&[&[1, 2, 3], &[10, 20, 30]]), 1);
        assert_eq!(bytes, bytemuck::cast_slice::<i32, u8>(&[22, 33]));
    }

    #[test]
    fn a_nan_is_not_lost() {
        let mut into = bytemuck::bytes_of(&1.0f32).to_vec();
        combine(
            &mut into,
            bytemuck::bytes_of(&f32::NAN),
            DType::F32,
            ReduceOp::Max,
        );
        assert!(bytemuck::pod_read_unaligned::<f32>(&into).is_nan());
    }
}
