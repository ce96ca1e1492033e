//! What quantised weights stand for.

use super::{
    block::{blocks, grain_of_rows, split},
    dispatch::dispatch,
    memory::{BLOCK, Shared},
    normal,
};
use crate::{
    element::{Element, Real},
    pool::Pool,
};
use hal::{
    DType, RawSlice, Result,
    kernel::Dequantise,
    quantised::{self, NORMAL, Quantised, QuantisedPart, share_of_integer},
};

/// # Safety
/// As for [`execute`](super::execute).
pub(super) unsafe fn dequantise(args: &Dequantise, pool: &Pool) -> Result<()> {
    let part = args.part;
    let scales = RawSlice {
        len: part.num_scales(),
        dtype: DType::F32,
        ..args.stored
    };
    // SAFETY: guaranteed by the caller: the stored weights are aligned, and begin with the scales.
    let scales = unsafe { Shared::<f32>::new(scales) };
    // SAFETY: guaranteed by the caller; the type is the slice's own.
    let stored = unsafe { Shared::<u8>::new(args.stored) };
    let codes = stored.sub(part.first_code(), part.bytes() - part.first_code());
    dispatch!("dequantise", args.out.dtype, T => {
        // SAFETY: guaranteed by the caller; the type is the slice's own.
        let out = unsafe { Shared::<T>::new(args.out) };
        match part.format {
            Quantised::Int8 => each_run(
                (&part, scales, out, pool),
                #[inline(always)]
                |start, len| {
                    let (bytes, mut shares) = (codes.load_bytes(start, len), [0.0; BLOCK]);
                    for i in 0..BLOCK {
                        shares[i] = share_of_integer(bytes[i]);
                    }
                    shares
                },
            ),
            Quantised::Nf4 => each_run(
                (&part, scales, out, pool),
                #[inline(always)]
                |start, len| shares_of_pairs(codes, start, len),
            ),
        }
        Ok(())
    })
}

/// Writes shares times scales, of runs of elements of one block; `shares(start, len)` has those of a run.
#[inline(always)]
fn each_run<T: Element>(
    (part, scales, out, pool): (&QuantisedPart, Shared<f32>, Shared<T>, &Pool),
    shares: impl Fn(usize, usize) -> [f32; BLOCK] + Sync,
) {
    let (of_row, columns, first) = (part.blocks_of_row(), part.columns, part.first_column);
    split(
        pool,
        part.rows,
        grain_of_rows(columns),
        #[inline(always)]
        |rows| {
            for row in rows {
                for block in of_row.start..of_row.end {
                    let scale = scales.get(row * of_row.len() + block - of_row.start);
                    let begin = (block * quantised::BLOCK).max(first) - first;
                    let end = ((block + 1) * quantised::BLOCK - first).min(columns);
                    blocks(
                        row * columns + begin..row * columns + end,
                        #[inline(always)]
                        |start, len| {
                            let (shares, mut numbers) = (shares(start, len), [Real::ZERO; BLOCK]);
                            for i in 0..BLOCK {
                                numbers[i] = Real::of(f64::from(shares[i] * scale));
                            }
                            out.store(start, len, numbers);
                        },
                    );
                }
            }
        },
    );
}

/// The shares of 4-bit codes, from `start` on.
#[inline(always)]
fn shares_of_pairs(codes: Shared<u8>, start: usize, len: usize) -> [f32; BLOCK] {
    if start.is_multiple_of(2) {
        return normal::shares(codes.load_bytes(start / 2, len.div_ceil(2)));
    }
    let mut shares = [0.0; BLOCK];
    for (i, share) in shares.iter_mut().enumerate().take(len) {
        let element = start + i;
        let code = codes.get(element / 2) >> (element % 2 * 4) & 15;
        *share = NORMAL[usize::from(code)];
    }
    shares
}
