//! The norm of all gradients and the factor that clips them.

use super::{
    dispatch::{dispatch, unsupported},
    memory::Shared,
    reduce,
    simd::vectorise,
};
use crate::{element::Element, pool::Pool};
use hal::{
    DType, RawSlice, Result,
    kernel::{ClipScale, SumSquares},
};

/// Number of elements whose squares form one partial sum; fixed, so that threads do not change the order.
const PART: usize = 65_536;

/// # Safety
/// As for [`execute`](super::execute).
pub(super) unsafe fn sum_squares(args: &SumSquares, pool: &Pool) -> Result<()> {
    if let Some(slice) = args.slices.iter().find(|slice| !slice.dtype.is_float()) {
        return Err(unsupported("sum_squares", slice.dtype));
    }
    let parts: Vec<RawSlice> = args.slices.iter().flat_map(parts).collect();
    let mut sums = vec![0.0f64; parts.len()];
    // SAFETY: `sums` lives to the end of this function, and the threads write disjoint elements.
    let shared = unsafe { Shared::of(&mut sums) };
    pool.split(parts.len(), 1, |range| {
        for index in range {
            // SAFETY: guaranteed by the caller: a part of a live slice that nothing writes to.
            let sum = unsafe { squares_of(parts[index]) };
            // No error can occur here: all types are floats, checked above.
            shared.set(index, sum.unwrap_or(f64::NAN));
        }
    });
    // SAFETY: guaranteed by the caller, which passes one f64.
    let out = unsafe { Shared::<f64>::new(args.out) };
    out.set(0, out.get(0) + sums.iter().sum::<f64>());
    Ok(())
}

pub(super) fn parts(slice: &RawSlice) -> impl Iterator<Item = RawSlice> + use<> {
    let slice = *slice;
    (0..slice.len.div_ceil(PART))
        .map(move |part| slice.part(part * PART, PART.min(slice.len - part * PART)))
}

/// # Safety
/// `part` is live, of the type it names, and nothing writes to it.
pub(super) unsafe fn squares_of(part: RawSlice) -> Result<f64> {
    dispatch!("sum_squares", part.dtype, T => {
        // SAFETY: guaranteed by the caller; the type is the slice's own.
        let x = unsafe { Shared::<T>::new(part) };
        Ok(squares(x))
    })
}

fn squares<T: Element>(x: Shared<T>) -> f64 {
    vectorise(
        #[inline(always)]
        || {
            reduce::sum(
                x,
                0..x.len(),
                #[inline(always)]
                |x: f64| x * x,
            )
        },
    )
}

/// # Safety
/// As for [`execute`](super::execute).
pub(super) unsafe fn clip_scale(args: &ClipScale) -> Result<()> {
    if args.sum_squares.dtype != DType::F64 {
        return Err(unsupported("clip_scale", args.sum_squares.dtype));
    }
    // SAFETY: guaranteed by the caller; the type is checked above.
    let [sum, out] = unsafe { Shared::<f64>::all([args.sum_squares, args.out]) };
    let sum = sum.get(0);
    let norm = args.gradient_scale * sum.sqrt();
    let clip = args
        .max_norm
        .map_or(1.0, |max_norm| (max_norm / (norm + 1e-6)).min(1.0));
    out.set(
        0,
        if sum.is_finite() {
            args.gradient_scale * clip
        } else {
            f64::NAN
        },
    );
    out.set(1, norm);
    Ok(())
}
