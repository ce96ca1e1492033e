//! Cross-entropy over a vocabulary cut by X: the full logits are never gathered.

use super::DTensor;
use crate::{Context, Purpose, counters::Subject};
use ::tensor::{
    Error, Result, Tensor, Var,
    ops::{
        self,
        loss::{self, VocabularyShard},
    },
};
use grid::{Axis, shard_range};
use hal::Counts;

/// The loss of this rank's rows.
#[derive(Clone, Debug)]
pub struct Loss {
    /// `scale` times the sum of the rows' losses; one element of the accumulator type. The sum over Data and Z of all
    /// ranks' values is the loss of the batch.
    pub var: Var,
}

/// `scale` times the sum over rows of the cross-entropy of their logits with their targets.
///
/// # Shapes
/// `logits`: rows x vocabulary/X; taken over, and overwritten by its gradient in backward. `targets`: rows, u32, with
/// `u32::MAX` for rows that do not count. Columns from `vocabulary` on are padding.
/// # Cost
/// Three numbers a row, gathered over X in forward; nothing in backward.
/// # Errors
/// [`Error::Invalid`] when the number of targets is not that of rows; those of the collective.
pub fn cross_entropy(
    logits: DTensor,
    targets: &Tensor,
    vocabulary: usize,
    scale: f64,
) -> Result<Loss> {
    let context = logits.context().clone();
    let logits = logits.redistribute(Some(Axis::X), "loss")?;
    let shard = VocabularyShard {
        first_column: logits.first_feature(),
        vocabulary,
    };
    let local = loss::statistics(logits.tensor(), targets, shard)?;
    let (parts, shards) = row_statistics(&context, local)?;
    let (log_sum_exp, total) = loss::combine(&parts, targets, shards, scale)?;
    let (values, targets) = (logits.tensor().clone(), targets.clone());
    let input = logits.into_var();
    let var = Var::record_one("cross_entropy", &[&input], total, false, move |d_loss| {
        let d_logits = unshared(values)?;
        loss::backward(&d_logits, &targets, &log_sum_exp, &d_loss, shard, scale)?;
        Ok(vec![Some(d_logits)])
    });
    Ok(Loss { var })
}

fn row_statistics(context: &Context, local: Tensor) -> Result<(Tensor, usize)> {
    let Some(group) = context.group(Axis::X, Purpose::Main)? else {
        return Ok((local, 1));
    };
    let parts = context.buffer(local.dtype(), &[&[group.size()], local.shape()].concat())?;
    let counts = Counts::Even(local.num_elements());
    group.all_gather(
        context,
        Subject::Loss,
        &context.device().compute(),
        &local,
        &parts,
        &counts,
    )?;
    Ok((parts, group.size()))
}

// The gradient takes the logits' memory, unless somebody else still reads them.
fn unshared(values: Tensor) -> Result<Tensor> {
    if values.is_unshared() {
        return Ok(values);
    }
    let copy = Tensor::empty(values.device(), values.dtype(), values.shape())?;
    ops::copy(&values, &copy)?;
    Ok(copy)
}

/// The whole logits of one row, for sampling: `vocabulary` numbers on the host of every rank of X.
///
/// # Shapes
/// `logits`: 1 x vocabulary/X.
/// # Cost
/// An all-gather of the row over X.
/// # Errors
/// [`Error::Invalid`] for more than one row; those of the collective; [`Error::NoValues`] on a device without values.
pub fn whole_logits(logits: &DTensor, vocabulary: usize) -> Result<Vec<f64>> {
    let (context, row) = (logits.context(), logits.tensor());
    if row.num_rows() != 1 {
        return Err(Error::invalid(
            "whole_logits",
            format!("{} rows", row.num_rows()),
            "1",
        ));
    }
    let whole = match context.group(Axis::X, Purpose::Main)? {
        None => row.clone(),
        Some(group) => {
            let features = logits.features();
            let counts = (0..group.size())
                .map(|rank| shard_range(features, group.size(), rank).len())
                .collect();
            let whole = context.buffer(row.dtype(), &[1, features])?;
            let compute = context.device().compute();
            group.all_gather(
                context,
                Subject::Loss,
                &compute,
                row,
                &whole,
                &Counts::Uneven(counts),
            )?;
            whole
        }
    };
    let mut numbers = whole.to_f64()?;
    numbers.truncate(vocabulary);
    Ok(numbers)
}
