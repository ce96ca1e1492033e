//! LayerNorm and RMSNorm, forward.

use super::{
    block::{blocks, grain_of_rows, split},
    dispatch::{dispatch, dispatch_accumulator},
    memory::Shared,
    moments::{PartMoments, of_row},
    tree::Values,
};
use crate::{
    element::{Element, Real},
    pool::Pool,
};
use hal::{
    Result,
    kernel::{CombineMoments, Moments, NormForward, NormShape, Normalize},
    sums::{self, Tree},
};

/// # Safety
/// As for [`execute`](super::execute).
pub(super) unsafe fn norm_forward(args: &NormForward, pool: &Pool) -> Result<()> {
    let (shape, (_, normalize)) = (args.shape, args.steps());
    dispatch!("norm_forward", args.x.dtype, T => {
        // SAFETY: guaranteed by the caller.
        let rows = unsafe { Rows::<T>::new(&normalize) };
        // SAFETY: guaranteed by the caller; the type is the slices' own.
        let addends = args.addends.map(|addends| unsafe { Shared::<T>::all(addends) });
        split(
            pool,
            shape.rows,
            grain_of_rows(shape.columns),
            #[inline(always)]
            |range| {
                let (mut tree, mut values) = (Tree::default(), Values::ZERO);
                for row in range {
                    if let Some([a, b]) = addends {
                        add_row([a, b, rows.x], row * shape.columns, shape.columns);
                    }
                    set_moments((&mut tree, &mut values), shape, (rows.x, rows.moments), row);
                    rows.normalize(row);
                }
            },
        );
        Ok(())
    })
}

// The sum of a row of the first two, with the bits of `Binary`.
#[inline(always)]
fn add_row<T: Element>([a, b, out]: [Shared<T>; 3], start: usize, columns: usize) {
    blocks(
        start..start + columns,
        #[inline(always)]
        |at, len| {
            let mut values = a.load::<T::Acc>(at, len);
            let addends = b.load::<T::Acc>(at, len);
            for i in 0..values.len() {
                values[i] += addends[i];
            }
            out.store(at, len, values);
        },
    );
}

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
    split(
        pool,
        shape.rows,
        grain_of_rows(shape.columns),
        #[inline(always)]
        |rows| {
            let (mut tree, mut values) = (Tree::default(), Values::ZERO);
            for row in rows {
                set_moments((&mut tree, &mut values), shape, (x, moments), row);
            }
        },
    );
}

#[inline(always)]
fn set_moments<T: Element>(
    (tree, values): (&mut Tree<PartMoments<T::Acc>>, &mut Values<T::Acc>),
    shape: NormShape,
    (x, moments): (Shared<T>, Shared<T::Acc>),
    row: usize,
) {
    let columns = shape.columns;
    let found = of_row(tree, values, shape.kind, x.sub(row * columns, columns));
    moments.set(2 * row, found.mean);
    moments.set(2 * row + 1, found.squares);
}

/// # Safety
/// As for [`execute`](super::execute).
pub(super) unsafe fn combine_moments(args: &CombineMoments) -> Result<()> {
    dispatch_accumulator!("norm_combine", args.parts.dtype, A => {
        // SAFETY: guaranteed by the caller; the type is the slices' own.
        let [parts, moments] = unsafe { Shared::<A>::all([args.parts, args.moments]) };
        let mut tree = Tree::default();
        (0..args.shape.rows).for_each(|row| combine_row(args, parts, moments, row, &mut tree));
        Ok(())
    })
}

fn combine_row<A: Real>(
    args: &CombineMoments,
    parts: Shared<A>,
    moments: Shared<A>,
    row: usize,
    tree: &mut Tree<PartMoments<A>>,
) {
    for (part, &columns) in args.widths.iter().enumerate() {
        let start = 2 * (part * args.shape.rows + row);
        let (mean, squares) = (parts.get(start), parts.get(start + 1));
        let part = PartMoments {
            columns,
            mean,
            squares,
        };
        tree.push(sums::level(columns), part, PartMoments::join);
    }
    let row_moments = tree.sum(PartMoments::join).unwrap_or(PartMoments::NONE);
    moments.set(2 * row, row_moments.mean);
    moments.set(2 * row + 1, row_moments.squares);
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

/// What is added to every gain.
#[inline(always)]
pub(super) fn gain_offset<A: Real>(shape: NormShape) -> A {
    A::of(shape.kind.gain_offset())
}

/// # Safety
/// As for [`execute`](super::execute).
pub(super) unsafe fn normalize(args: &Normalize, pool: &Pool) -> Result<()> {
    dispatch!("normalize", args.x.dtype, T => {
        // SAFETY: guaranteed by the caller.
        let rows = unsafe { Rows::<T>::new(args) };
        split(
            pool,
            args.shape.rows,
            grain_of_rows(args.shape.columns),
            #[inline(always)]
            |range| range.for_each(|row| rows.normalize(row)),
        );
        Ok(())
    })
}

// Rows whose moments are known when they are normalised.
#[derive(Clone, Copy)]
struct Rows<T: Element> {
    shape: NormShape,
    moments: Shared<T::Acc>,
    x: Shared<T>,
    gain: Shared<T>,
    bias: Option<Shared<T>>,
    out: Shared<T>,
}

impl<T: Element> Rows<T> {
    /// # Safety
    /// As for [`execute`](super::execute); `T` is the type of x.
    unsafe fn new(args: &Normalize) -> Rows<T> {
        // SAFETY: guaranteed by the caller.
        let [x, gain, out] = unsafe { Shared::<T>::all([args.x, args.gain, args.out]) };
        Rows {
            shape: args.shape,
            // SAFETY: guaranteed by the caller, which passes moments in the accumulator type.
            moments: unsafe { Shared::new(args.moments) },
            x,
            gain,
            // SAFETY: guaranteed by the caller.
            bias: unsafe { Shared::<T>::optional(args.bias) },
            out,
        }
    }

    #[inline(always)]
    fn normalize(&self, row: usize) {
        let columns = self.shape.columns;
        let (mean, rstd) = statistics(self.shape, self.moments, row);
        let offset = gain_offset::<T::Acc>(self.shape);
        blocks(
            0..columns,
            #[inline(always)]
            |column, len| {
                let mut values = self.x.load::<T::Acc>(row * columns + column, len);
                let gain = self.gain.load::<T::Acc>(column, len);
                for i in 0..values.len() {
                    values[i] = (values[i] - mean) * rstd * (gain[i] + offset);
                }
                if let Some(bias) = self.bias {
                    let bias = bias.load::<T::Acc>(column, len);
                    for i in 0..values.len() {
                        values[i] += bias[i];
                    }
                }
                self.out.store(row * columns + column, len, values);
            },
        );
    }
}
