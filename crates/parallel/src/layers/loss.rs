//! Cross-entropy over a vocabulary cut by X: the full logits are never gathered.

use super::{
    DTensor,
    features::{columns, row_sums},
};
use crate::{Purpose, Reproducible, counters::Subject, sums};
use grid::{Axis, feature_range};
use hal::Counts;
use tensor::{
    Error, ReduceOp, Result, Tensor, Var,
    ops::{
        self, BinaryOp,
        loss::{self, VocabularyShard},
    },
};

/// The loss of this rank's rows: its share of a mean over the global batch.
///
/// One element of the accumulator type; summed over all micro-batches and over the ranks of Data and Z, it is
/// the loss of the batch. The functions that make losses divide by the rows of the *global* batch, so that
/// every grid and every number of micro-batches gives the same gradients.
#[derive(Clone, Debug)]
pub struct Loss {
    var: Var,
    // The share of each row of the pass, where sums are to be reproducible on any grid.
    by_row: Option<Tensor>,
    // What is reported of the pairs of each row.
    pairs: Option<Tensor>,
}

/// What remains of a [`Loss`] once its backward has run.
#[derive(Clone, Debug)]
pub struct LossValue {
    /// As [`Loss::value`] gives it.
    pub value: Tensor,
    /// As [`Loss::pairs`] gives it.
    pub pairs: Option<Tensor>,
}

impl Loss {
    fn new(var: Var, by_row: Option<Tensor>) -> Loss {
        Loss {
            var,
            by_row,
            pairs: None,
        }
    }

    /// The loss of pairs, with what is reported of them.
    pub(super) fn of_pairs(var: Var, by_row: Option<Tensor>, pairs: Tensor) -> Loss {
        Loss {
            pairs: Some(pairs),
            ..Loss::new(var, by_row)
        }
    }

    /// The mean of all elements of `values`, over the features and the rows of the global batch.
    ///
    /// # Shapes
    /// `values`: rows x any, cut over features or not.
    /// # Cost
    /// One number summed over the axis that cuts the features, and over Context if it cuts sequences.
    /// # Errors
    /// [`Error::Invalid`] for integers, and when the first dim is not the pass's rows; those of the collective.
    pub fn mean(values: &DTensor) -> Result<Loss> {
        let count = values.pass().num_rows() * inner(values)? * values.features();
        Loss::sum(values, 1.0 / count as f64)
    }

    /// `scale` times the sum of all elements of `values`, for your own kind of mean: divide by
    /// [`Pass::num_rows`](crate::Pass::num_rows), not by the rows of this rank.
    ///
    /// # Errors
    /// [`Error::Invalid`] for integers; those of the collective.
    pub fn sum(values: &DTensor, scale: f64) -> Result<Loss> {
        if values.context().settings().reproducible == Reproducible::Grid {
            return Loss::sum_by_row(values, scale);
        }
        let values = &values.of_tokens()?;
        let (context, x) = (values.context(), values.held());
        let column = |tensor: &Tensor| tensor.reshape(&[tensor.num_elements(), 1]);
        let sum = Tensor::empty(x.device(), x.dtype().accumulator(), &[1])?;
        ops::column_sum_into(&column(x)?, &sum, 0.0)?;
        if let Some(group) = values
            .cut()
            .map_or(Ok(None), |axis| context.group(axis, Purpose::Main))?
        {
            let compute = context.device().compute();
            group.all_reduce(context, Subject::Loss, &compute, &sum, ReduceOp::Sum)?;
        }
        over_tokens(values, &sum)?;
        let var = Loss::record_sum(values, scaled(&sum, scale)?, scale)?;
        Ok(Loss::new(var, None))
    }

    // The same as a sum of the rows' own sums.
    fn sum_by_row(values: &DTensor, scale: f64) -> Result<Loss> {
        let values = &values.spread_as(None)?;
        let (pass, x) = (values.pass(), values.held());
        let sums = row_sums(values.context(), values.cut(), values.features(), x)?;
        let sums = ops::cast(&sums, x.dtype().accumulator())?;
        let rows = pass.rows().len();
        let by_row = ops::row_sum(&sums.reshape(&[rows, sums.num_elements() / rows.max(1)])?)?;
        let by_row = scaled(&by_row.reshape(&[rows])?, scale)?;
        let var = Loss::record_sum(values, total(&by_row)?, scale)?;
        Ok(Loss::new(var, Some(by_row)))
    }

    fn record_sum(values: &DTensor, total: Tensor, scale: f64) -> Result<Var> {
        let x = values.held();
        let (shape, dtype) = (x.shape().to_vec(), x.dtype());
        let inputs = [values.held_var()];
        let var = Var::record_one("sum", &inputs, total, false, move |d_loss| {
            // All elements have the same gradient, a number that only the device knows.
            let d_each = ops::cast(&scaled(&d_loss, scale)?, dtype)?;
            let d_values = Tensor::zeros(d_each.device(), dtype, &shape)?;
            let column = d_values.reshape(&[d_values.num_elements(), 1])?;
            ops::add_bias(&column, &d_each)?;
            Ok(vec![Some(d_values)])
        });
        Ok(var)
    }

    /// The sum of two losses.
    ///
    /// # Errors
    /// [`Error::Invalid`] for losses of different types or devices; [`Error::OutOfMemory`].
    pub fn add(&self, other: &Loss) -> Result<Loss> {
        let both = (&self.by_row, &other.by_row);
        let by_row = match both {
            (Some(one), Some(other)) => Some(ops::binary(BinaryOp::Add, one, other)?),
            _ => None,
        };
        let pairs = self.pairs.as_ref().or(other.pairs.as_ref());
        Ok(Loss {
            var: self.var.add(&other.var)?,
            by_row,
            pairs: pairs.cloned(),
        })
    }

    /// The loss multiplied by a weight.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub fn scale(&self, weight: f64) -> Result<Loss> {
        let by_row = self.by_row.as_ref().map(|rows| scaled(rows, weight));
        Ok(Loss {
            var: self.var.scale(weight)?,
            by_row: by_row.transpose()?,
            pairs: self.pairs.clone(),
        })
    }

    /// The loss multiplied by a number that only the data knows, such as the rows of a batch over those that count.
    ///
    /// # Shapes
    /// `factor`: one element for each row of the pass, in the accumulator type, all equal: a column of
    /// weights.
    /// # Errors
    /// [`Error::Invalid`] for another number of elements or another type; [`Error::OutOfMemory`].
    pub fn scale_by(&self, factor: &Tensor) -> Result<Loss> {
        let one = factor.rows(0, 1)?.reshape(&[1])?;
        let by_row = self.by_row.as_ref().map(|rows| {
            let factors = factor.reshape(&[factor.num_elements()])?;
            ops::binary(BinaryOp::Mul, rows, &factors)
        });
        Ok(Loss {
            var: self.var.scale_by(&Var::constant(one))?,
            by_row: by_row.transpose()?,
            pairs: self.pairs.clone(),
        })
    }

    /// The value, with its place on the tape.
    pub fn var(&self) -> &Var {
        &self.var
    }

    /// The loss as it is to be reported: one element; or one per row of the pass, if sums are to be
    /// [reproducible](Reproducible::Grid) on any grid, because a sum of rows depends on which of them a rank holds.
    pub fn value(&self) -> &Tensor {
        self.by_row.as_ref().unwrap_or(self.var.tensor())
    }

    /// What is reported of the pairs of each row, if the loss is one [of pairs](super::preference_loss): log-probabilities, rewards and labels.
    ///
    /// # Shapes
    /// rows x (3 x pairs x 2), in the accumulator type.
    pub fn pairs(&self) -> Option<&Tensor> {
        self.pairs.as_ref()
    }

    /// The value and what is reported, without the tape.
    pub fn to_value(&self) -> LossValue {
        LossValue {
            value: self.value().clone(),
            pairs: self.pairs.clone(),
        }
    }

    /// Takes the value.
    pub fn into_var(self) -> Var {
        self.var
    }
}

impl DTensor {
    /// The mean cross-entropy of these logits with their targets, over the rows of the global batch.
    ///
    /// # Shapes
    /// `self`: rows x inner x classes, cut by X or redistributed so. `targets`: rows x inner, u32, with
    /// `u32::MAX` for those that do not count (the mean divides by all). Columns from `classes` on are padding.
    /// # Cost
    /// Three numbers per row, gathered over X in forward; nothing in backward.
    /// # Errors
    /// [`Error::Invalid`] if the number of targets differs from the number of rows; those of the collective.
    pub fn cross_entropy(self, targets: &Tensor, classes: usize) -> Result<Loss> {
        let scale = 1.0 / (self.pass().num_rows() * inner(&self)?) as f64;
        cross_entropy(self, targets, classes, scale)
    }
}

// Runs of features per row of the pass: the tokens of a sequence.
fn inner(values: &DTensor) -> Result<usize> {
    let (rows, leading) = (values.pass().rows().len(), values.leading());
    match leading.split_first() {
        Some((first, inner)) if rows > 0 && *first == rows => Ok(inner.iter().product()),
        _ => {
            let needed = format!("{rows} rows first, and features last");
            Err(Error::invalid("loss", values.described(), needed))
        }
    }
}

// Sums a number over the ranks that hold parts of the sequences of `values`.
fn over_tokens(values: &DTensor, number: &Tensor) -> Result<()> {
    let context = values.context();
    let group = context.group(Axis::Context, Purpose::Main)?;
    match group.filter(|_| values.share().tokens) {
        Some(group) => {
            let compute = context.device().compute();
            group.all_reduce(context, Subject::Loss, &compute, number, ReduceOp::Sum)
        }
        None => Ok(()),
    }
}

// The targets of the vectors that this rank holds.
fn held_targets(logits: &DTensor, targets: &Tensor) -> Result<Tensor> {
    let Some(spread) = logits.spread() else {
        return Ok(targets.clone());
    };
    let needed = logits.leading().iter().product::<usize>();
    match targets.num_elements() == needed {
        true => spread.cut(logits.context(), targets),
        false => {
            let found = format!("{} targets", targets.num_elements());
            let needed = format!("{needed}, one for each vector");
            Err(Error::invalid("loss", found, needed))
        }
    }
}

// The sum of the rows' losses, for who reads the loss of a pass.
pub(super) fn total(by_row: &Tensor) -> Result<Tensor> {
    ops::row_sum(&by_row.reshape(&[1, by_row.num_elements()])?)?.reshape(&[1])
}

pub(super) fn scaled(x: &Tensor, factor: f64) -> Result<Tensor> {
    let out = Tensor::empty(x.device(), x.dtype(), x.shape())?;
    ops::axpby(factor, x, 0.0, &out)?;
    Ok(out)
}

/// `scale` times the sum over rows of the cross-entropy of their logits with their targets.
///
/// # Shapes
/// `logits`: rows x vocabulary/X; consumed, and overwritten by its gradient in backward. `targets`: rows, u32,
/// with `u32::MAX` for rows that do not count. Columns from `vocabulary` on are padding.
/// # Cost
/// Three numbers per row, gathered over X in forward, and one summed over Context if it cuts sequences; nothing in backward.
/// # Errors
/// [`Error::Invalid`] if the number of targets differs from the number of rows; those of the collective.
pub fn cross_entropy(
    logits: DTensor,
    targets: &Tensor,
    vocabulary: usize,
    scale: f64,
) -> Result<Loss> {
    let rows = logits.pass().rows().len();
    let (logits, by_row) = cut_for_loss(logits)?;
    let runs = if by_row { rows } else { 1 };
    let losses = run_losses(&logits, targets, (vocabulary, runs, scale))?;
    let sums = losses.losses.clone();
    let (sum, by_row) = match by_row {
        true => (total(&sums)?, Some(sums)),
        false => {
            over_tokens(&logits, &sums)?;
            (sums, None)
        }
    };
    let input = logits.into_held();
    let var = Var::record_one("cross_entropy", &[&input], sum, false, move |d_loss| {
        Ok(vec![Some(losses.backward(&d_loss)?)])
    });
    Ok(Loss::new(var, by_row))
}

/// Logits that X cuts, and whether each row is to have a sum of its own: then all vectors are here.
pub(super) fn cut_for_loss(logits: DTensor) -> Result<(DTensor, bool)> {
    let by_row = logits.context().settings().reproducible == Reproducible::Grid;
    let logits = logits.redistribute(Some(Axis::X), "loss")?;
    match by_row {
        true => Ok((logits.spread_as(None)?, true)),
        false => Ok((logits, false)),
    }
}

/// The losses of runs of vectors that a rank holds, with what their gradient needs.
pub(super) struct RunLosses {
    /// One for each run, in the accumulator type; the same on all ranks of X.
    pub(super) losses: Tensor,
    logits: Tensor,
    targets: Tensor,
    log_sum_exp: Tensor,
    shard: VocabularyShard,
    scale: f64,
}

impl RunLosses {
    /// The gradient of the logits, from one for each run, or one for all. It reuses the memory of the logits, unless something else
    /// still reads them.
    pub(super) fn backward(self, d_losses: &Tensor) -> Result<Tensor> {
        let d_logits = unshared(self.logits)?;
        loss::backward(
            &d_logits,
            &self.targets,
            &self.log_sum_exp,
            d_losses,
            self.shard,
            self.scale,
        )?;
        Ok(d_logits)
    }
}

/// The loss of each vector that this rank holds; 0 for those that do not count.
pub(super) fn token_losses(
    logits: &DTensor,
    targets: &Tensor,
    vocabulary: usize,
) -> Result<RunLosses> {
    let runs = logits.held().num_rows();
    run_losses(logits, targets, (vocabulary, runs, 1.0))
}

// `scale` times the losses of equally long runs, for logits that X cuts.
fn run_losses(
    logits: &DTensor,
    targets: &Tensor,
    (vocabulary, runs, scale): (usize, usize, f64),
) -> Result<RunLosses> {
    let context = logits.context();
    let shard = VocabularyShard {
        first_column: logits.first_feature(),
        vocabulary,
    };
    let targets = held_targets(logits, targets)?;
    let (x, features) = (logits.held().clone(), logits.features());
    let place = (Some(Axis::X), Subject::Loss);
    let shape = [x.num_rows(), 3];
    let (parts, widths) = sums::statistics(context, place, features, &shape, |part| {
        let first_column = shard.first_column + part.start;
        let of_part = VocabularyShard {
            first_column,
            vocabulary,
        };
        loss::statistics(&columns(&x, &part)?, &targets, of_part)
    })?;
    let (log_sum_exp, losses) = loss::combine(&parts, &targets, &widths, runs, scale)?;
    Ok(RunLosses {
        losses,
        logits: x,
        targets,
        log_sum_exp,
        shard,
        scale,
    })
}

// The gradient reuses the memory of the logits, unless something else still reads them.
fn unshared(values: Tensor) -> Result<Tensor> {
    if values.is_unshared() {
        return Ok(values);
    }
    let copy = Tensor::empty(values.device(), values.dtype(), values.shape())?;
    ops::copy(&values, &copy)?;
    Ok(copy)
}

/// The full logits of each row, for sampling: `vocabulary` numbers on the host of every rank of X that `reads` them.
///
/// # Shapes
/// `logits`: rows x vocabulary/X.
/// # Cost
/// An all-gather of the rows over X.
/// # Errors
/// Those of the collective; [`Error::NoValues`] on a device without values.
pub fn whole_logits(logits: &DTensor, vocabulary: usize, reads: bool) -> Result<Vec<Vec<f64>>> {
    let (context, own) = (logits.context(), logits.tensor()?);
    let (rows, features) = (own.num_rows(), logits.features());
    let group = context.group(Axis::X, Purpose::Main)?;
    let ranks = group.as_ref().map_or(1, |group| group.size());
    let widths: Vec<usize> = (0..ranks)
        .map(|rank| feature_range(features, ranks, rank).len())
        .collect();
    let whole = match group {
        None => own.clone(),
        Some(group) => {
            let whole = context.buffer(own.dtype(), &[rows * features])?;
            let counts = widths.iter().map(|width| rows * width).collect();
            let compute = context.device().compute();
            group.all_gather(
                context,
                Subject::Loss,
                &compute,
                own,
                &whole,
                &Counts::Uneven(counts),
            )?;
            whole
        }
    };
    if !reads {
        return Ok(Vec::new());
    }
    // Each rank's columns of all rows, one rank after the other.
    let numbers = whole.to_f64()?;
    let mut all = vec![Vec::with_capacity(features); rows];
    let mut first = 0;
    for width in widths {
        for (row, whole) in all.iter_mut().enumerate() {
            whole.extend_from_slice(&numbers[first + row * width..][..width]);
        }
        first += rows * width;
    }
    all.iter_mut().for_each(|row| row.truncate(vocabulary));
    Ok(all)
}
