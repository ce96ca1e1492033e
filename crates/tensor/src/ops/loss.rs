//! Cross-entropy over a vocabulary that may be sharded.

use super::{float, holds, launch};
use crate::{Arguments, Tensor, shape::product};
use hal::{
    DType, Kernel, Result,
    kernel::{CombineSoftmax, CrossEntropyBackward, SoftmaxStatistics},
};

/// The position of the local columns of logits within the vocabulary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VocabularyShard {
    /// Global index of the first local column.
    pub first_column: usize,
    /// Global columns that are not padding.
    pub vocabulary: usize,
}

/// Maximum, sum of exponentials and target logit of the local columns.
///
/// On a device with canonical sums, the leaves of a row have [`hal::sums::leaf`] of the vocabulary as their length, and
/// the first local column begins one.
///
/// # Shapes
/// `logits`: rows x columns. `targets`: rows, u32. The result: rows x 3, of the accumulator type.
/// # Errors
/// [`Error::Invalid`](hal::Error::Invalid) when a tensor has another size or type.
pub fn statistics(logits: &Tensor, targets: &Tensor, shard: VocabularyShard) -> Result<Tensor> {
    float("softmax_statistics", logits)?;
    let (rows, columns) = (logits.num_rows(), logits.columns());
    holds("softmax_statistics", "targets", targets, rows, DType::U32)?;
    let out = Tensor::empty(logits.device(), logits.dtype().accumulator(), &[rows, 3])?;
    let mut args = Arguments::default();
    let kernel = SoftmaxStatistics {
        logits: args.take(logits),
        targets: args.take(targets),
        statistics: args.take(&out),
        rows,
        columns,
        first_column: shard.first_column,
        vocabulary: shard.vocabulary,
        leaf: hal::sums::leaf(shard.vocabulary),
    };
    launch(&mut args, Kernel::SoftmaxStatistics(kernel))?;
    Ok(out)
}

/// Log-sum-exp of every row, and `scale` times the sum of the losses of each of `runs` equally long runs of rows.
///
/// The parts of a row have `widths` columns from left to right. A device with canonical sums gives the bits of the full
/// row if each part is a complete node of the tree of [`hal::sums`] (the last one may be shorter).
///
/// # Shapes
/// `parts`: parts x rows x 3. The results: rows, and runs; both of the accumulator type.
/// # Errors
/// [`Error::Invalid`](hal::Error::Invalid) when a tensor has another size or type, and if the rows cannot be cut into
/// `runs`.
pub fn combine(
    parts: &Tensor,
    targets: &Tensor,
    widths: &[usize],
    runs: usize,
    scale: f64,
) -> Result<(Tensor, Tensor)> {
    let rows = targets.num_elements();
    if !rows.is_multiple_of(runs) {
        let found = format!("{rows} rows");
        let needed = format!("a multiple of {runs} runs");
        return Err(hal::Error::invalid("softmax_combine", found, needed));
    }
    let statistics = product("softmax_combine", &[widths.len(), rows, 3])?;
    let accumulator = parts.dtype().accumulator();
    holds(
        "softmax_combine",
        "statistics",
        parts,
        statistics,
        accumulator,
    )?;
    holds("softmax_combine", "targets", targets, rows, DType::U32)?;
    let log_sum_exp = Tensor::empty(parts.device(), parts.dtype(), &[rows])?;
    let loss = Tensor::zeros(parts.device(), parts.dtype(), &[runs])?;
    let mut args = Arguments::default();
    let kernel = CombineSoftmax {
        parts: args.take(parts),
        widths: widths.to_vec(),
        rows,
        targets: args.take(targets),
        log_sum_exp: args.take(&log_sum_exp),
        loss: args.take(&loss),
        runs,
        scale,
    };
    launch(&mut args, Kernel::CombineSoftmax(kernel))?;
    Ok((log_sum_exp, loss))
}

/// Overwrites `logits` with their gradient.
///
/// # Shapes
/// As [`statistics`] and [`combine`]; `d_loss`: one element for each run of rows, of the accumulator type.
/// # Errors
/// [`Error::Invalid`](hal::Error::Invalid) when a tensor has another size or type, and if the rows cannot be cut into as many
/// runs.
pub fn backward(
    logits: &Tensor,
    targets: &Tensor,
    log_sum_exp: &Tensor,
    d_loss: &Tensor,
    shard: VocabularyShard,
    scale: f64,
) -> Result<()> {
    float("cross_entropy_backward", logits)?;
    let (rows, columns) = (logits.num_rows(), logits.columns());
    let accumulator = logits.dtype().accumulator();
    holds(
        "cross_entropy_backward",
        "targets",
        targets,
        rows,
        DType::U32,
    )?;
    holds(
        "cross_entropy_backward",
        "log-sum-exp",
        log_sum_exp,
        rows,
        accumulator,
    )?;
    let runs = d_loss.num_elements();
    if runs == 0 || !rows.is_multiple_of(runs) {
        let found = format!("{runs} gradients");
        let needed = format!("1, or a number that divides {rows} rows");
        return Err(hal::Error::invalid("cross_entropy_backward", found, needed));
    }
    holds(
        "cross_entropy_backward",
        "gradient",
        d_loss,
        runs,
        accumulator,
    )?;
    let mut args = Arguments::default();
    let kernel = CrossEntropyBackward {
        logits: args.take(logits),
        targets: args.take(targets),
        log_sum_exp: args.take(log_sum_exp),
        d_loss: args.take(d_loss),
        runs,
        rows,
        columns,
        first_column: shard.first_column,
        vocabulary: shard.vocabulary,
        scale,
    };
    launch(&mut args, Kernel::CrossEntropyBackward(kernel))
}
