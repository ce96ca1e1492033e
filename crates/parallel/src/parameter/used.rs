//! How layers read a parameter and add to its gradient.

use super::Parameter;
use crate::{
    DTensor, Pass, Purpose, Reproducible,
    counters::Subject,
    layers::{
        gather,
        scatter::{Addend, Grain},
        spread::Share,
    },
    sums::Leaves,
};
use grid::Axis;
use std::ops::Range;
use tensor::{DType, Error, ReduceOp, Result, Tensor, Var, ops};

impl Parameter {
    /// The shard as a differentiable value for use with all vectors of `x` ([`DTensor::var`]), in layers that a user writes from plain
    /// operations.
    ///
    /// Its gradient is added to the parameter's in the accumulator type, like the gradients of layers: a sum over
    /// rows is not rounded to 16 bits in each micro-batch. If an axis cuts the features of `x` but not the
    /// parameter, every rank along it sees part of the parameter's uses, and their gradients are summed first. If sums are
    /// to be [reproducible](Reproducible::Grid) on any grid, a rank's micro-batch must then have a single row, and features
    /// must not be cut.
    ///
    /// # Cost
    /// That sum: an all-reduce of the shard.
    /// # Errors
    /// [`Error::Invalid`] for a parameter that Z cuts, which [`block`](Parameter::block) returns, for one cut by an
    /// axis that does not cut the features of `x`, and for one without memory on this rank.
    pub fn var(&self, x: &DTensor) -> Result<Var> {
        self.var_of(x, Share::NONE)
    }

    /// The same, for use with all vectors of `x` or with this rank's share of them.
    pub(crate) fn var_of(&self, x: &DTensor, share: Share) -> Result<Var> {
        let (pass, context) = (x.pass().clone(), x.context());
        let cut_by = |axis: &Axis| self.0.layout.cuts(*axis).is_some() && context.degree(*axis) > 1;
        if let Some(axis) = Axis::tensor()
            .into_iter()
            .find(|axis| cut_by(axis) && Some(*axis) != x.cut())
        {
            let found = format!("a parameter cut by {axis} with {x:?}");
            let needed = "features cut by the same axis, and none of the parameter's dims by z";
            return Err(Error::invalid(&self.0.name, found, needed));
        }
        let value = self.value()?;
        // A pass that counts is none of training, but asks what training would do.
        if self.is_frozen() || !(pass.is_training() || pass.ledger().is_some()) {
            return Ok(Var::constant(value));
        }
        let summed_over = x.cut().filter(|axis| self.0.layout.cuts(*axis).is_none());
        let by_nodes = context.settings().reproducible == Reproducible::Grid;
        if by_nodes {
            self.check_plain_use(&pass, summed_over)?;
        }
        let parameter = self.clone();
        Ok(Var::summed_leaf(value, move |gradient| {
            let context = pass.context();
            let group = summed_over.map_or(Ok(None), |axis| context.group(axis, Purpose::Main))?;
            let gradient = match group {
                Some(group) => {
                    let dtype = gradient.dtype().accumulator();
                    let sum = Tensor::empty(gradient.device(), dtype, gradient.shape())?;
                    ops::cast_into(&gradient, &sum)?;
                    let compute = context.device().compute();
                    group.all_reduce(context, Subject::Gradients, &compute, &sum, ReduceOp::Sum)?;
                    sum
                }
                None => gradient,
            };
            if !pass.counts(&parameter, share) {
                return pass.skip(&parameter);
            }
            match by_nodes {
                true => {
                    pass.check_gradient(&parameter)?;
                    let (batch, row) = (pass.num_rows(), pass.rows().start);
                    let at_use = (pass.count_use(&parameter), Leaves { rows: 1, batch });
                    let add = |target: &Tensor, beta| ops::axpby(1.0, &gradient, beta, target);
                    pass.add_node(&parameter, at_use, row..row + 1, add)?;
                }
                false => {
                    let (sum, factor) = pass.gradient_of(&parameter)?;
                    ops::axpby(1.0, &gradient, factor, &sum)?;
                }
            }
            pass.gradient_added(&parameter)
        }))
    }

    // Plain operations sum a gradient over all rows of a pass and all features of a rank, in an order of their own.
    fn check_plain_use(&self, pass: &Pass, summed_over: Option<Axis>) -> Result<()> {
        let rows = pass.rows().len();
        let ranks = summed_over.map_or(1, |axis| pass.context().degree(axis));
        match rows == 1 && ranks == 1 {
            true => Ok(()),
            false => {
                let name = &self.0.name;
                let found = format!(
                    "{name} in plain operations on {rows} rows, and features cut by {ranks}"
                );
                let needed = "one row in each micro-batch of a rank and features that are not cut, or a layer that \
                              calls Parameter::add_gradient";
                Err(Error::invalid("reproducible sums", found, needed))
            }
        }
    }

    /// The block that the ranks of Z hold together, for a custom layer; without ranks on Z, the shard itself.
    ///
    /// # Shapes
    /// Rows of all shards of Z x columns of this rank's.
    /// # Cost
    /// An all-gather over Z, which may have been issued ahead.
    /// # Errors
    /// As [`value`](Parameter::value); those of the collective.
    pub fn block(&self, pass: &Pass) -> Result<Tensor> {
        gather::gather(pass, self, Subject::Linear)
    }

    /// Adds a gradient to the parameter's, for a custom layer whose weight Z may cut.
    ///
    /// `into(rows, target, beta)` computes the gradient of the full [`block`](Parameter::block) from some of the pass's
    /// rows, counted from its first one, and stores `beta * target` plus it in `target`. Without ranks on Z the target is
    /// the gradient itself; otherwise it is a block of type `dtype`, or of its accumulator type by [`GradientWire`](crate::GradientWire), which is then
    /// reduce-scattered. The rows are all of
    /// the pass; or, if sums are to be [reproducible](Reproducible::Grid) on any grid, each row in turn, or a few short
    /// ones. `inner` is the number of vectors in a row of the batch, such as tokens; [`Pass::part`] cuts a tensor.
    ///
    /// # Errors
    /// Those of `into` and of the collective; [`Error::Invalid`] outside a training step or after its end, for a
    /// parameter of another set, and for one without memory on this rank.
    pub fn add_gradient(
        &self,
        pass: &Pass,
        (dtype, inner): (DType, usize),
        into: impl FnMut(&Range<usize>, &Tensor, f64) -> Result<()>,
    ) -> Result<()> {
        let addend = Addend {
            parameter: self,
            subject: Subject::Linear,
            block_dtype: pass.gradient_wire(dtype),
            inner,
            grain: Grain::Leaf,
            number: pass.count_use(self),
            share: Share::NONE,
        };
        addend.add(pass, into)
    }
}
