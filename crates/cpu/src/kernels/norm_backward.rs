//! LayerNorm and RMSNorm, backward.

use super::{
    block::{blocks, grain_of_rows, split},
    columns::{Partials, add_block},
    dispatch::dispatch,
    memory::{BLOCK, Shared},
    norm::{gain_offset, statistics},
    reduce::Lanes,
    tree::{Values, pairs, sum_row, total},
};
use crate::{
    element::{Element, Real},
    pool::Pool,
};
use hal::{
    RawSlice, Result,
    kernel::{NormBackward, NormKind, NormShape, NormalizeBackward, NormalizeSums},
    sums::Tree,
};

/// # Safety
/// As for [`execute`](super::execute).
pub(super) unsafe fn norm_backward(args: &NormBackward, pool: &Pool) -> Result<()> {
    dispatch!("norm_backward", args.x.dtype, T => {
        let mut row_sums = vec![<T as Element>::Acc::ZERO; 2 * args.shape.rows];
        let sums = RawSlice {
            addr: row_sums.as_mut_ptr() as u64,
            len: row_sums.len(),
            dtype: args.x.dtype.accumulator(),
        };
        let (first, rest) = args.steps(sums);
        // SAFETY: guaranteed by the caller; the row sums live until both parts have run.
        unsafe { normalize_sums(&first, pool) }?;
        // SAFETY: guaranteed by the caller; the type is the slices' own.
        let addend = unsafe { Shared::<T>::optional(args.addend) };
        // SAFETY: as for the sums.
        unsafe { gradient::<T>(&rest, addend, pool) };
        Ok(())
    })
}

/// # Safety
/// As for [`execute`](super::execute).
pub(super) unsafe fn normalize_sums(args: &NormalizeSums, pool: &Pool) -> Result<()> {
    dispatch!("normalize_sums", args.x.dtype, T => {
        // SAFETY: guaranteed by the caller; the type is the slices' own.
        let inputs = unsafe { Shared::<T>::all([args.x, args.d_out, args.gain]) };
        // SAFETY: guaranteed by the caller, which passes these in the accumulator type.
        let [moments, sums, d_gain] = unsafe { Shared::all([args.moments, args.sums, args.d_gain]) };
        let partials = sums_of_rows(args.shape, moments, inputs, sums, pool).add_to(d_gain, args.beta, 0, pool);
        if let Some(d_bias) = args.d_bias {
            // SAFETY: guaranteed by the caller, which passes it in the accumulator type.
            partials.add_to(unsafe { Shared::<<T as Element>::Acc>::new(d_bias) }, args.beta, 1, pool);
        }
        Ok(())
    })
}

// One pass over x and d_out for the sums of both directions: rows at once, columns in parts of rows.
fn sums_of_rows<T: Element>(
    shape: NormShape,
    moments: Shared<T::Acc>,
    [x, d_out, gain]: [Shared<T>; 3],
    sums: Shared<T::Acc>,
    pool: &Pool,
) -> Partials<T::Acc> {
    let (columns, offset) = (shape.columns, gain_offset::<T::Acc>(shape));
    let mut partials = Partials::new(shape.rows, columns, 2);
    partials.compute(
        pool,
        #[inline(always)]
        |rows, part| {
            let (mut tree, mut pair_sums) = (Tree::default(), [Values::ZERO; 2]);
            for row in rows {
                let at = row * columns;
                let inputs = [x.sub(at, columns), d_out.sub(at, columns), gain];
                let (mean, rstd) = statistics(shape, moments, row);
                let [g, g_xhat] = sums_of_row(
                    [mean, rstd, offset],
                    inputs,
                    part,
                    &mut tree,
                    &mut pair_sums,
                );
                sums.set(2 * row, g);
                sums.set(2 * row + 1, g_xhat);
            }
        },
    );
    partials
}

/// The sums of one row; also adds the row to the column sums in `part`, d_gain's before d_bias's.
#[inline(always)]
fn sums_of_row<T: Element>(
    numbers: [T::Acc; 3],
    inputs: [Shared<T>; 3],
    part: Shared<T::Acc>,
    tree: &mut Tree<[T::Acc; 2]>,
    pair_sums: &mut [Values<T::Acc>; 2],
) -> [T::Acc; 2] {
    let sum = sum_row(
        tree,
        inputs[0].len(),
        #[inline(always)]
        |start, len| sums_of_node(numbers, inputs, part, pair_sums, start, len),
        #[inline(always)]
        |left, right| [left[0] + right[0], left[1] + right[1]],
    );
    match sum {
        Some(sums) => sums,
        None => [Real::ZERO; 2],
    }
}

#[inline(always)]
fn sums_of_node<T: Element>(
    [mean, rstd, offset]: [T::Acc; 3],
    [x, d_out, gain]: [Shared<T>; 3],
    part: Shared<T::Acc>,
    pair_sums: &mut [Values<T::Acc>; 2],
    start: usize,
    len: usize,
) -> [T::Acc; 2] {
    let columns = x.len();
    // A node of one column has no neighbours to add.
    let mut only = [Real::ZERO; 2];
    blocks(
        start..start + len,
        #[inline(always)]
        |column, count| {
            let (x, d) = (
                x.load::<T::Acc>(column, count),
                d_out.load::<T::Acc>(column, count),
            );
            let gain = gain.load::<T::Acc>(column, count);
            let mut d_gain: Lanes<T::Acc> = [Real::ZERO; BLOCK];
            let (mut g, mut g_xhat) = (d_gain, d_gain);
            for i in 0..BLOCK {
                let xhat = (x[i] - mean) * rstd;
                d_gain[i] = d[i] * xhat;
                let gain = gain[i] + offset;
                g[i] = d[i] * gain;
                g_xhat[i] = d_gain[i] * gain;
            }
            if len == 1 {
                only = [g[0], g_xhat[0]];
            }
            let at = (column - start) / 2;
            pair_sums[0].0[at..at + BLOCK / 2].copy_from_slice(&pairs(&g));
            pair_sums[1].0[at..at + BLOCK / 2].copy_from_slice(&pairs(&g_xhat));
            add_block(part, column, d_gain, count);
            add_block(part, columns + column, d, count);
        },
    );
    if len == 1 {
        return only;
    }
    let [g, g_xhat] = pair_sums;
    [total(g, len / 2), total(g_xhat, len / 2)]
}

/// # Safety
/// As for [`execute`](super::execute).
pub(super) unsafe fn normalize_backward(args: &NormalizeBackward, pool: &Pool) -> Result<()> {
    dispatch!("normalize_backward", args.x.dtype, T => {
        // SAFETY: guaranteed by the caller; the type is the slices' own.
        unsafe { gradient::<T>(args, None, pool) };
        Ok(())
    })
}

/// # Safety
/// As for [`execute`](super::execute), for slices of this type; `addend` is as long as `d_x`.
unsafe fn gradient<T: Element>(args: &NormalizeBackward, addend: Option<Shared<T>>, pool: &Pool) {
    // SAFETY: guaranteed by the caller.
    let arrays = unsafe { Shared::<T>::all([args.x, args.d_out, args.gain, args.d_x]) };
    // SAFETY: guaranteed by the caller, which passes these in the accumulator type.
    let [moments, sums] = unsafe { Shared::all([args.moments, args.sums]) };
    gradient_of_rows(args.shape, [moments, sums], arrays, addend, pool);
}

fn gradient_of_rows<T: Element>(
    shape: NormShape,
    [moments, sums]: [Shared<T::Acc>; 2],
    [x, d_out, gain, d_x]: [Shared<T>; 4],
    addend: Option<Shared<T>>,
    pool: &Pool,
) {
    let (columns, offset) = (shape.columns, gain_offset::<T::Acc>(shape));
    split(
        pool,
        shape.rows,
        grain_of_rows(columns),
        #[inline(always)]
        |rows| {
            for row in rows {
                let (mean, rstd) = statistics(shape, moments, row);
                let (mean_g, mean_g_xhat) = means(shape, sums, row);
                blocks(
                    0..columns,
                    #[inline(always)]
                    |column, len| {
                        let at = row * columns + column;
                        let (x, mut d) = (x.load::<T::Acc>(at, len), d_out.load::<T::Acc>(at, len));
                        let gain = gain.load::<T::Acc>(column, len);
                        for i in 0..BLOCK {
                            let xhat = (x[i] - mean) * rstd;
                            let g = d[i] * (gain[i] + offset);
                            d[i] = rstd * (g - (mean_g + xhat * mean_g_xhat));
                        }
                        if let Some(addend) = addend {
                            let addend = addend.load::<T::Acc>(at, len);
                            for i in 0..BLOCK {
                                d[i] = T::from_acc(d[i]).acc() + addend[i];
                            }
                        }
                        d_x.store(at, len, d);
                    },
                );
            }
        },
    );
}

/// Means of g and of g * xhat over the full row; only `Layer` has a mean to correct for.
#[inline(always)]
fn means<A: Real>(shape: NormShape, sums: Shared<A>, row: usize) -> (A, A) {
    let columns = A::of(shape.global_columns as f64);
    let mean_g = match shape.kind {
        NormKind::Layer => sums.get(2 * row) / columns,
        NormKind::Rms | NormKind::RmsOffset => A::ZERO,
    };
    (mean_g, sums.get(2 * row + 1) / columns)
}
