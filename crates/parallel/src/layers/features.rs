//! Operations across the features, which an axis may cut: sums, means, repetition, softmax.

use super::DTensor;
use crate::{
    Context, Purpose, Reproducible,
    counters::Subject,
    sums::{self, Features},
};
use grid::Axis;
use std::ops::Range;
use tensor::{Error, ReduceOp, Result, Tensor, Var, ops};

impl DTensor {
    /// The sum of the features of every row.
    ///
    /// # Shapes
    /// `self`: rows x inner x features, in any cut. The result: rows x inner x 1, uncut.
    /// # Cost
    /// An all-reduce of one number per row over the axis that cuts the features; nothing in backward.
    /// # Errors
    /// [`Error::Invalid`] for integers; those of the collective.
    pub fn sum_features(&self) -> Result<DTensor> {
        let x = self.tensor()?;
        let sum = row_sums(self.context(), self.cut(), self.features(), x)?;
        let shape = x.shape().to_vec();
        let var = Var::record_one("sum_features", &[self.var()?], sum, false, move |d_out| {
            Ok(vec![Some(ops::expand(&d_out, &shape)?)])
        });
        self.with_features(var, 1, None)
    }

    /// The mean of the features of every row.
    ///
    /// # Shapes
    /// As [`sum_features`](DTensor::sum_features).
    /// # Cost
    /// As there.
    /// # Errors
    /// As there.
    pub fn mean_features(&self) -> Result<DTensor> {
        self.sum_features()?.scale(1.0 / self.features() as f64)
    }

    /// Repeats the single feature of every row `features` times, cut by `cut`.
    ///
    /// # Shapes
    /// `self`: rows x inner x 1, uncut. The result: rows x inner x features, in that layout.
    /// # Cost
    /// Nothing in forward; in backward an all-reduce of one number per row over the axis that cuts the result.
    /// # Errors
    /// [`Error::Invalid`] for more than one feature, and a cut by another axis than X and Y.
    pub fn expand_features(&self, features: usize, cut: Option<Axis>) -> Result<DTensor> {
        if self.features() != 1 {
            let found = format!("{} features", self.features());
            return Err(Error::invalid("expand_features", found, "1"));
        }
        let (x, context) = (self.whole("expand_features")?, self.context().clone());
        let held = cut.map_or(features, |axis| {
            grid::feature_range(features, context.degree(axis), context.index(axis)).len()
        });
        let mut shape = x.shape();
        shape
            .iter_mut()
            .last()
            .into_iter()
            .for_each(|last| *last = held);
        let out = ops::expand(x.tensor()?, &shape)?;
        let var = Var::record_one("expand_features", &[x.var()?], out, false, move |d_out| {
            Ok(vec![Some(row_sums(&context, cut, features, &d_out)?)])
        });
        self.with_features(var, features, cut)
    }

    /// Repeats the single feature of every row as many times as `other` has features, cut like those.
    ///
    /// # Cost
    /// As [`expand_features`](DTensor::expand_features).
    /// # Errors
    /// As there.
    pub fn expand_like(&self, other: &DTensor) -> Result<DTensor> {
        self.expand_features(other.features(), other.cut())
    }

    /// The features of every row divided by their Euclidean norm: the dot product of two such rows is the cosine
    /// of their angle.
    ///
    /// `epsilon` is added to the sum of squares, so rows of zeros stay zeros.
    ///
    /// # Cost
    /// In forward and in backward, an all-reduce of one number per row over the axis that cuts the features.
    /// # Errors
    /// [`Error::Invalid`] for integers; those of the collectives.
    pub fn unit_features(&self, epsilon: f64) -> Result<DTensor> {
        let length = self.square()?.sum_features()?.shift(epsilon)?.sqrt()?;
        self.div(&length.expand_like(self)?)
    }

    /// The softmax over the features, which are gathered first.
    ///
    /// # Cost
    /// An all-gather of the features where an axis cuts them; none in the operation itself.
    /// # Errors
    /// [`Error::Invalid`] for integers; those of the collective.
    pub fn softmax(&self) -> Result<DTensor> {
        let x = self.whole("softmax")?;
        Ok(x.like(x.held_var().softmax()?))
    }

    /// The logarithm of the softmax over the features, accurate even where the softmax rounds to 0.
    ///
    /// # Cost
    /// As [`softmax`](DTensor::softmax).
    /// # Errors
    /// As there.
    pub fn log_softmax(&self) -> Result<DTensor> {
        let x = self.whole("log_softmax")?;
        Ok(x.like(x.held_var().log_softmax()?))
    }

    /// The softmax over each run of `size` features, such as the scores of one head.
    ///
    /// # Cost
    /// None if each rank holds complete runs; otherwise the features are gathered first.
    /// # Errors
    /// [`Error::Invalid`] for integers, and if the features are not a whole number of runs; those of the collective.
    pub fn softmax_runs(&self, size: usize) -> Result<DTensor> {
        if size == 0 || !self.features().is_multiple_of(size) {
            let found = format!("{} features", self.features());
            return Err(Error::invalid(
                "softmax_runs",
                found,
                format!("a multiple of {size}"),
            ));
        }
        let x = self.in_runs(self.features() / size, "softmax_runs")?;
        let shape = x.held().shape().to_vec();
        let runs = x.held_var();
        let runs = runs.reshape(&[x.held().num_elements() / size, size])?;
        Ok(x.like(runs.softmax()?.reshape(&shape)?))
    }

    /// The same value; gathered unless each rank of the axis that cuts it holds a whole number of `runs`.
    pub(crate) fn in_runs(&self, runs: usize, place: &str) -> Result<DTensor> {
        let degree = self.cut().map_or(1, |axis| self.context().degree(axis));
        match runs.is_multiple_of(degree) {
            true => Ok(self.clone()),
            false => self.whole(place),
        }
    }
}

// The sum of every row of `x`, which holds this rank's part of `features` cut by `axis`.
pub(super) fn row_sums(
    context: &Context,
    axis: Option<Axis>,
    features: usize,
    x: &Tensor,
) -> Result<Tensor> {
    let Some(axis) = axis.filter(|axis| context.degree(*axis) > 1) else {
        return ops::row_sum(x);
    };
    if context.settings().reproducible == Reproducible::Run {
        let sum = ops::row_sum(x)?;
        if let Some(group) = context.group(axis, Purpose::Main)? {
            let compute = context.device().compute();
            group.all_reduce(context, Subject::Norm, &compute, &sum, ReduceOp::Sum)?;
        }
        return Ok(sum);
    }
    let wide = ops::cast(x, x.dtype().accumulator())?;
    let features = Features::of(context, axis, features)?;
    let own = features.own().into_iter();
    let own = own.map(|node| ops::row_sum(&columns(&wide, &node)?));
    let own: Vec<Tensor> = own.collect::<Result<_>>()?;
    let shape = [&x.shape()[..x.shape().len() - 1], &[1]].concat();
    let like = (wide.dtype(), &shape[..]);
    let sum = sums::sum_nodes(context, Subject::Norm, &features, &own, like)?;
    ops::cast(&sum, x.dtype())
}

// These columns; not a copy if they are all.
pub(super) fn columns(x: &Tensor, columns: &Range<usize>) -> Result<Tensor> {
    match columns.len() == x.columns() {
        true => Ok(x.clone()),
        false => ops::columns(x, columns.start, columns.len()),
    }
}
