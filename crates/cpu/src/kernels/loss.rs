//! Cross-entropy over a sharded vocabulary.

use super::{
    block::{blocks, grain_of_rows, split},
    dispatch::{dispatch, dispatch_accumulator},
    memory::Shared,
    peak::{Peak, Scratch},
    simd::vectorise,
};
use crate::{
    element::{Element, Real},
    pool::Pool,
};
use hal::{
    Result,
    kernel::{CombineSoftmax, CrossEntropyBackward, SoftmaxStatistics},
    sums::{self, Tree},
};

/// The target of a row without loss.
const NO_TARGET: u32 = u32::MAX;

/// The local columns that are not padding.
fn columns_held(first_column: usize, columns: usize, vocabulary: usize) -> usize {
    vocabulary.saturating_sub(first_column).min(columns)
}

/// The local column of a target, if it is among the first `columns`.
#[inline(always)]
fn local_target(target: u32, first_column: usize, columns: usize) -> Option<usize> {
    let column = (target as usize).checked_sub(first_column)?;
    (target != NO_TARGET && column < columns).then_some(column)
}

/// # Safety
/// As for [`execute`](super::execute).
pub(super) unsafe fn softmax_statistics(args: &SoftmaxStatistics, pool: &Pool) -> Result<()> {
    dispatch!("softmax_statistics", args.logits.dtype, T => {
        // SAFETY: guaranteed by the caller; the type is the slice's own.
        let logits = unsafe { Shared::<T>::new(args.logits) };
        // SAFETY: guaranteed by the caller, which passes targets as u32.
        let targets = unsafe { Shared::<u32>::new(args.targets) };
        // SAFETY: guaranteed by the caller, which passes statistics in the accumulator type.
        let statistics = unsafe { Shared::new(args.statistics) };
        statistics_of_rows(args, logits, targets, statistics, pool);
        Ok(())
    })
}

fn statistics_of_rows<T: Element>(
    args: &SoftmaxStatistics,
    logits: Shared<T>,
    targets: Shared<u32>,
    statistics: Shared<T::Acc>,
    pool: &Pool,
) {
    let held = columns_held(args.first_column, args.columns, args.vocabulary);
    split(
        pool,
        args.rows,
        grain_of_rows(args.columns),
        #[inline(always)]
        |rows| {
            let mut scratch = Scratch::new();
            for row in rows {
                let logits = logits.sub(row * args.columns, held);
                let Peak { max, sum } = scratch.of_row(logits, args.leaf);
                let target = match local_target(targets.get(row), args.first_column, held) {
                    Some(column) => logits.get(column).acc(),
                    None => T::Acc::ZERO,
                };
                statistics.set(3 * row, max);
                statistics.set(3 * row + 1, sum);
                statistics.set(3 * row + 2, target);
            }
        },
    );
}

/// # Safety
/// As for [`execute`](super::execute).
pub(super) unsafe fn combine_softmax(args: &CombineSoftmax) -> Result<()> {
    dispatch_accumulator!("softmax_combine", args.parts.dtype, A => {
        // SAFETY: guaranteed by the caller; the type is the slices' own.
        let [parts, log_sum_exp, loss] = unsafe { Shared::<A>::all([args.parts, args.log_sum_exp, args.loss]) };
        // SAFETY: guaranteed by the caller, which passes targets as u32.
        let targets = unsafe { Shared::<u32>::new(args.targets) };
        vectorise(
            #[inline(always)]
            || combine_rows(args, parts, targets, log_sum_exp, loss),
        );
        Ok(())
    })
}

#[inline(always)]
fn combine_rows<A: Real>(
    args: &CombineSoftmax,
    parts: Shared<A>,
    targets: Shared<u32>,
    log_sum_exp: Shared<A>,
    loss: Shared<A>,
) {
    let mut tree = Tree::default();
    let rows = args.rows / args.runs.max(1);
    for run in 0..args.runs {
        let mut sum = 0.0;
        for row in run * rows..(run + 1) * rows {
            let (log, target) = combine_row(args, parts, row, &mut tree);
            log_sum_exp.set(row, A::of(log));
            if targets.get(row) != NO_TARGET {
                sum += log - target;
            }
        }
        loss.set(run, A::of(loss.get(run).wide() + args.scale * sum));
    }
}

/// Log-sum-exp and target logit of a row; only one part holds the target.
#[inline(always)]
fn combine_row<A: Real>(
    args: &CombineSoftmax,
    parts: Shared<A>,
    row: usize,
    tree: &mut Tree<Peak<A>>,
) -> (f64, f64) {
    let mut target = 0.0;
    for (part, &columns) in args.widths.iter().enumerate() {
        let at = 3 * (part * args.rows + row);
        let peak = Peak {
            max: parts.get(at),
            sum: parts.get(at + 1),
        };
        tree.push(sums::level(columns), peak, Peak::join);
        target += parts.get(at + 2).wide();
    }
    let Peak { max, sum } = tree.sum(Peak::join).unwrap_or(Peak::NONE);
    (max.wide() + sum.wide().ln(), target)
}

/// # Safety
/// As for [`execute`](super::execute).
pub(super) unsafe fn cross_entropy_backward(
    args: &CrossEntropyBackward,
    pool: &Pool,
) -> Result<()> {
    dispatch!("cross_entropy_backward", args.logits.dtype, T => {
        // SAFETY: guaranteed by the caller; the type is the slice's own.
        let logits = unsafe { Shared::<T>::new(args.logits) };
        // SAFETY: guaranteed by the caller, which passes targets as u32.
        let targets = unsafe { Shared::<u32>::new(args.targets) };
        // SAFETY: guaranteed by the caller, which passes these in the accumulator type.
        let [log_sum_exp, d_loss] = unsafe { Shared::all([args.log_sum_exp, args.d_loss]) };
        gradients_of_rows(args, logits, targets, log_sum_exp, d_loss, pool);
        Ok(())
    })
}

fn gradients_of_rows<T: Element>(
    args: &CrossEntropyBackward,
    logits: Shared<T>,
    targets: Shared<u32>,
    log_sum_exp: Shared<T::Acc>,
    d_loss: Shared<T::Acc>,
    pool: &Pool,
) {
    let held = columns_held(args.first_column, args.columns, args.vocabulary);
    let rows_of_run = args.rows / args.runs.max(1);
    split(
        pool,
        args.rows,
        grain_of_rows(args.columns),
        #[inline(always)]
        |rows| {
            for row in rows {
                let logits = logits.sub(row * args.columns, args.columns);
                let target = targets.get(row);
                let held = if target == NO_TARGET { 0 } else { held };
                let target = local_target(target, args.first_column, held);
                let factor = T::Acc::of(args.scale * d_loss.get(row / rows_of_run).wide());
                gradient_of_row(logits, held, target, log_sum_exp.get(row), factor);
            }
        },
    );
}

// The target's element is computed separately, from its logit, so that it is rounded once.
#[inline(always)]
fn gradient_of_row<T: Element>(
    logits: Shared<T>,
    held: usize,
    target: Option<usize>,
    log_sum_exp: T::Acc,
    factor: T::Acc,
) {
    let at_target = target.map(|column| {
        (
            column,
            (logits.get(column).acc() - log_sum_exp).exp() - T::Acc::ONE,
        )
    });
    blocks(
        0..held,
        #[inline(always)]
        |column, len| {
            let mut values = logits.load::<T::Acc>(column, len);
            for value in &mut values {
                *value = factor * (*value - log_sum_exp).exp();
            }
            logits.store(column, len, values);
        },
    );
    if let Some((column, value)) = at_target {
        logits.set(column, T::from_acc(factor * value));
    }
    (held..logits.len()).for_each(|column| logits.set(column, T::from_acc(T::Acc::ZERO)));
}
