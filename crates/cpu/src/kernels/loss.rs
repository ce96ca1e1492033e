//! Cross-entropy over a sharded vocabulary.

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
    kernel::{CombineSoftmax, CrossEntropyBackward, SoftmaxStatistics},
};

/// The target of a row without loss.
const NO_TARGET: u32 = u32::MAX;

/// Number of columns whose maximum and sum are computed while they are in the nearest cache.
const CHUNK: usize = 2048;

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
            for row in rows {
                let logits = logits.sub(row * args.columns, held);
                let (max, sum) = max_and_sum(logits);
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

/// Maximum and sum of exp(x - maximum), chunk by chunk: a new maximum rescales the sum so far.
#[inline(always)]
fn max_and_sum<T: Element>(x: Shared<T>) -> (T::Acc, T::Acc) {
    let (mut max, mut sum) = (T::Acc::LOWEST, T::Acc::ZERO);
    let mut start = 0;
    while start < x.len() {
        let chunk = start..x.len().min(start + CHUNK);
        start = chunk.end;
        let larger = max.max(reduce::max(x, chunk.clone()));
        if larger > max {
            sum *= (max - larger).exp();
            max = larger;
        }
        if max > T::Acc::LOWEST {
            sum += reduce::sum(
                x,
                chunk,
                #[inline(always)]
                |x: T::Acc| (x - max).exp(),
            );
        }
    }
    (max, sum)
}

/// # Safety
/// As for [`execute`](super::execute).
pub(super) unsafe fn combine_softmax(args: &CombineSoftmax) -> Result<()> {
    dispatch_accumulator!("softmax_combine", args.parts.dtype, A => {
        // SAFETY: guaranteed by the caller; the type is the slices' own.
        let [parts, log_sum_exp, loss] = unsafe { Shared::<A>::all([args.parts, args.log_sum_exp, args.loss]) };
        // SAFETY: guaranteed by the caller, which passes targets as u32.
        let targets = unsafe { Shared::<u32>::new(args.targets) };
        let mut sum = 0.0;
        for row in 0..args.rows {
            let (log, target) = combine_row(args, parts, row);
            log_sum_exp.set(row, A::of(log));
            sum += if targets.get(row) == NO_TARGET { 0.0 } else { log - target };
        }
        loss.set(0, A::of(loss.get(0).wide() + args.scale * sum));
        Ok(())
    })
}

/// Log-sum-exp and target logit of a row, from all shards in order.
fn combine_row<A: Real>(args: &CombineSoftmax, parts: Shared<A>, row: usize) -> (f64, f64) {
    let part = |shard: usize, which: usize| parts.get(3 * (shard * args.rows + row) + which).wide();
    let max = (0..args.shards)
        .map(|shard| part(shard, 0))
        .fold(f64::NEG_INFINITY, f64::max);
    // A shard without columns has the maximum -inf; subtracting a maximum of -inf from it would give NaN.
    let share = |shard| {
        if part(shard, 1) == 0.0 {
            0.0
        } else {
            part(shard, 1) * (part(shard, 0) - max).exp()
        }
    };
    let sum: f64 = (0..args.shards).map(share).sum();
    (
        max + sum.ln(),
        (0..args.shards).map(|shard| part(shard, 2)).sum(),
    )
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
        gradients_of_rows(args, logits, targets, log_sum_exp, d_loss.get(0), pool);
        Ok(())
    })
}

fn gradients_of_rows<T: Element>(
    args: &CrossEntropyBackward,
    logits: Shared<T>,
    targets: Shared<u32>,
    log_sum_exp: Shared<T::Acc>,
    d_loss: T::Acc,
    pool: &Pool,
) {
    let held = columns_held(args.first_column, args.columns, args.vocabulary);
    let factor = T::Acc::of(args.scale * d_loss.wide());
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
