//! LayerNorm and RMSNorm, forward.

use super::{
    block::{blocks, grain_of_rows, split},
    dispatch::{dispatch, dispatch_accumulator},
    memory::Shared,
    reduce,
};
use crate::{
    element::{Element, Real},
    pool::Pool,
};
use hal::{
    Result,
    kernel::{CombineMoments, Moments, NormKind, NormShape, Normalize},
};

/// # Safety
/// As for [`execute`](super::execute).
pub(super) unsafe fn moments(args: &Moments, pool: &Pool) -> Result<()> {
    dispatch!("norm_moments", args.x.dtype, T => {
        // SAFETY: guaranteed by the caller; the type is the slice's own.
        let x = unsafe { Shared::<T>::new(args.x) };
        // SAFETY: guaranteed by the caller, which passes moments in the accumulator type.
        let moments = unsafe { Shared::new(args.moments) };
        moments_of_rows(args.shape, x, moments, pool);
        Ok(())
    })
}

fn moments_of_rows<T: Element>(
    shape: NormShape,
    x: Shared<T>,
    moments: Shared<T::Acc>,
    pool: &Pool,
) {
    let columns = shape.columns;
    split(
        pool,
        shape.rows,
        grain_of_rows(columns),
        #[inline(always)]
        |rows| {
            for row in rows {
                let x = x.sub(row * columns, columns);
                let mean = match shape.kind {
                    NormKind::Layer => mean(x),
                    NormKind::Rms => Real::ZERO,
                };
                moments.set(2 * row, mean);
                moments.set(2 * row + 1, centred_squares(x, mean));
            }
        },
    );
}

#[inline(always)]
fn mean<T: Element>(x: Shared<T>) -> T::Acc {
    let sum = reduce::sum(
        x,
        0..x.len(),
        #[inline(always)]
        |x: T::Acc| x,
    );
    sum / T::Acc::of(x.len() as f64)
}

#[inline(always)]
fn centred_squares<T: Element>(x: Shared<T>, mean: T::Acc) -> T::Acc {
    reduce::sum(
        x,
        0..x.len(),
        #[inline(always)]
        |x: T::Acc| (x - mean) * (x - mean),
    )
}

/// # Safety
/// As for [`execute`](super::execute).
pub(super) unsafe fn combine_moments(args: &CombineMoments) -> Result<()> {
    dispatch_accumulator!("norm_combine", args.parts.dtype, A => {
        // SAFETY: guaranteed by the caller; the type is the slices' own.
        let [parts, moments] = unsafe { Shared::<A>::all([args.parts, args.moments]) };
        (0..args.shape.rows).for_each(|row| combine_row(args, parts, moments, row));
        Ok(())
    })
}

// Shards are equally long, so the mean is the mean of means, and each shard's squares are shifted from its own
// mean to that mean.
fn combine_row<A: Real>(args: &CombineMoments, parts: Shared<A>, moments: Shared<A>, row: usize) {
    let part = |shard: usize| {
        let start = 2 * (shard * args.shape.rows + row);
        (parts.get(start), parts.get(start + 1))
    };
    let means = (0..args.shards).fold(A::ZERO, |sum, shard| sum + part(shard).0);
    let mean = means / A::of(args.shards as f64);
    let columns = A::of(args.shape.columns as f64);
    let squares = (0..args.shards).fold(A::ZERO, |sum, shard| {
        let (shard_mean, squares) = part(shard);
        sum + squares + columns * (shard_mean - mean) * (shard_mean - mean)
    });
    moments.set(2 * row, mean);
    moments.set(2 * row + 1, squares);
}

/// Mean and reciprocal of the standard deviation (or of the root mean square) of a row.
#[inline(always)]
pub(super) fn statistics<A: Real>(shape: NormShape, moments: Shared<A>, row: usize) -> (A, A) {
    let variance = moments.get(2 * row + 1) / A::of(shape.global_columns as f64);
    (
        moments.get(2 * row),
        A::ONE / (variance + A::of(shape.epsilon)).sqrt(),
    )
}

/// # Safety
/// As for [`execute`](super::execute).
pub(super) unsafe fn normalize(args: &Normalize, pool: &Pool) -> Result<()> {
    dispatch!("normalize", args.x.dtype, T => {
        // SAFETY: guaranteed by the caller; the type is the slices' own.
        let [x, gain, out] = unsafe { Shared::<T>::all([args.x, args.gain, args.out]) };
        // SAFETY: guaranteed by the caller; the type is the slice's own.
        let bias = args.bias.map(|bias| unsafe { Shared::<T>::new(bias) });
        // SAFETY: guaranteed by the caller, which passes moments in the accumulator type.
        let moments = unsafe { Shared::new(args.moments) };
        normalize_rows(args.shape, moments, [x, gain, out], bias, pool);
        Ok(())
    })
}

fn normalize_rows<T: Element>(
    shape: NormShape,
    moments: Shared<T::Acc>,
    [x, gain, out]: [Shared<T>; 3],
    bias: Option<Shared<T>>,
    pool: &Pool,
) {
    let columns = shape.columns;
    split(
        pool,
        shape.rows,
        grain_of_rows(columns),
        #[inline(always)]
        |rows| {
            for row in rows {
                let (mean, rstd) = statistics(shape, moments, row);
                blocks(
                    0..columns,
                    #[inline(always)]
                    |column, len| {
                        let mut values = x.load::<T::Acc>(row * columns + column, len);
                        let gain = gain.load::<T::Acc>(column, len);
                        for i in 0..values.len() {
                            values[i] = (values[i] - mean) * rstd * gain[i];
                        }
                        if let Some(bias) = bias {
                            let bias = bias.load::<T::Acc>(column, len);
                            for i in 0..values.len() {
                                values[i] += bias[i];
                            }
                        }
                        out.store(row * columns + column, len, values);
                    },
                );
            }
        },
    );
}
