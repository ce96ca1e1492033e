//! Gradients of a linear layer: dX = dY W^T, dW = X^T dY, db the sum of the rows of dY.

use super::{Linear, Storage};
use crate::{
    Pass, Purpose,
    counters::Subject,
    lane::Lane,
    layers::{DTensor, gather, scatter},
};
use tensor::{ReduceOp, Result, Tensor, autograd::Gradients, ops, ops::Transpose};

/// The inputs from which the gradients are computed.
pub(super) struct Saved {
    pass: Pass,
    layers: Vec<Linear>,
    // The gathered weights, if they are kept.
    blocks: Vec<Option<Tensor>>,
    x: Tensor,
    wants_input: bool,
}

impl Saved {
    /// For layers that read `x`, whose weights are passed to [`keep`](Saved::keep) in their order.
    pub(super) fn new(x: &DTensor, layers: &[&Linear]) -> Saved {
        Saved {
            pass: x.pass().backward(),
            layers: layers.iter().map(|&layer| layer.clone()).collect(),
            blocks: Vec::with_capacity(layers.len()),
            x: x.tensor().clone(),
            wants_input: x.var().wants_gradient(),
        }
    }

    /// Keeps the next layer's gathered weight, unless it will be gathered again.
    pub(super) fn keep(&mut self, layer: &Linear, block: Tensor) {
        let context = self.pass.context();
        let keep = context.settings().keep_gathered || !layer.weight.is_scattered(context);
        self.blocks.push(keep.then_some(block));
    }

    /// The gradients of the inputs; those of weights and biases are added to their own.
    ///
    /// dX comes first, so that its all-reduce can overlap with the GEMMs for dW (OAR).
    pub(super) fn backward(&self, gradients: &[Option<Tensor>]) -> Result<Gradients> {
        let d_x = if self.wants_input {
            self.input_gradient(gradients)?
        } else {
            None
        };
        for (layer, d_y) in self.layers.iter().zip(gradients) {
            if let Some(d_y) = d_y {
                self.weight_gradient(layer, d_y)?;
                self.bias_gradient(layer, d_y)?;
            }
        }
        Ok(vec![d_x])
    }

    fn input_gradient(&self, gradients: &[Option<Tensor>]) -> Result<Option<Tensor>> {
        let mut sum: Option<Tensor> = None;
        for (index, d_y) in gradients.iter().enumerate() {
            let Some(d_y) = d_y else { continue };
            let layer = &self.layers[index];
            let block = match &self.blocks[index] {
                Some(block) => block.clone(),
                None => gather::gather(&self.pass, &layer.weight, Subject::Linear)?,
            };
            let transpose = layer.storage.backward();
            match &sum {
                None => {
                    let d_x = Tensor::empty(self.x.device(), self.x.dtype(), self.x.shape())?;
                    ops::matmul_into(d_y, &block, transpose, &d_x, 1.0, 0.0)?;
                    sum = Some(d_x);
                }
                Some(d_x) => ops::matmul_into(d_y, &block, transpose, d_x, 1.0, 1.0)?,
            }
        }
        let context = self.pass.context();
        let group = context.group(self.layers[0].kind.emits(), Purpose::Main)?;
        if let (Some(d_x), Some(group)) = (&sum, group) {
            let stream = match context.settings().overlap.all_reduce {
                true => context.stream(Lane::AllReduce)?,
                false => context.device().compute(),
            };
            group.all_reduce(context, Subject::Linear, &stream, d_x, ReduceOp::Sum)?;
        }
        Ok(sum)
    }

    // The block's gradient is reduced over Z in the compute type and added in the accumulator.
    fn weight_gradient(&self, layer: &Linear, d_y: &Tensor) -> Result<()> {
        let (pass, dtype) = (&self.pass, self.x.dtype());
        scatter::accumulate(
            pass,
            &layer.weight,
            Subject::Linear,
            dtype,
            |into, beta| match layer.storage {
                Storage::InOut => ops::matmul_into(&self.x, d_y, Transpose::First, into, 1.0, beta),
                Storage::OutIn => ops::matmul_into(d_y, &self.x, Transpose::First, into, 1.0, beta),
            },
        )
    }

    fn bias_gradient(&self, layer: &Linear, d_y: &Tensor) -> Result<()> {
        let Some(bias) = layer.bias.as_ref().filter(|bias| !bias.is_frozen()) else {
            return Ok(());
        };
        let (gradient, factor) = self.pass.gradient_of(bias)?;
        ops::column_sum_into(d_y, &gradient, factor)?;
        self.pass.gradient_added(bias)
    }
}
