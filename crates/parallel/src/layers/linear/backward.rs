//! Gradients of a linear layer: dX = dY W^T, dW = X^T dY, db the sum of the rows of dY.

use super::{Linear, Storage, forward::LinearInput};
use crate::{
    Context, Parameter, Pass,
    counters::Subject,
    lane::Lane,
    layers::{
        DTensor, Weight, gather,
        scatter::{Addend, Grain},
        spread::{Share, Spread},
    },
    sums::{Leaves, Product, ProductSum},
};
use grid::Axis;
use tensor::{Result, Stream, Tensor, autograd::Gradients, ops, ops::Transpose};

/// The inputs from which the gradients are computed.
pub(super) struct Saved {
    factors: Factors,
    // The layers' input, if a weight or bias has a gradient.
    x: Option<Tensor>,
    // The gathered weights, if they are kept.
    blocks: Vec<Option<Tensor>>,
    wants_input: bool,
    // How the vectors of the factor are spread over X, of which this rank has kept its run.
    gathered_again: Option<Spread>,
}

// What the gradients of weights and biases need besides those of the outputs.
struct Factors {
    pass: Pass,
    layers: Vec<Linear>,
    // How the vectors of the layers' input were spread over X.
    inputs: Option<Spread>,
    // How those of the outputs are.
    outputs: Option<Spread>,
    // How those of both are over Context.
    tokens: Option<Spread>,
}

// The gradient of an output.
struct Gradient {
    // Of all vectors of this rank's tokens.
    whole: Tensor,
    // Of this rank's run, if they are spread over X.
    run: Option<Tensor>,
}

impl Saved {
    /// For layers that read `x`, whose weights are passed to [`keep`](Saved::keep) in their order.
    ///
    /// Of spread vectors the run is kept, and the others are gathered again; unless this forward is a recomputation,
    /// whose results are used at once.
    pub(super) fn new(x: &DTensor, input: &LinearInput, layers: &[&Linear]) -> Saved {
        let is_recomputed = x.pass().is_backward();
        let runs = || x.spread().filter(|spread| spread.share().runs);
        let factors = Factors {
            pass: x.pass().backward(),
            layers: layers.iter().map(|&layer| layer.clone()).collect(),
            inputs: runs().cloned(),
            tokens: x.spread().and_then(|spread| spread.only(Share::TOKENS)),
            outputs: layers
                .first()
                .and_then(|layer| input.runs(layer.kind).cloned()),
        };
        let is_trained = layers.iter().any(|layer| layer.is_trained());
        Saved {
            factors,
            x: is_trained.then(|| match is_recomputed {
                true => input.whole.clone(),
                false => x.held().clone(),
            }),
            gathered_again: runs().filter(|_| is_trained && !is_recomputed).cloned(),
            blocks: Vec::with_capacity(layers.len()),
            wants_input: x.held_var().wants_gradient(),
        }
    }

    /// Whether a weight or a bias has a gradient.
    pub(super) fn trains(&self) -> bool {
        self.x.is_some()
    }

    /// Keeps the next layer's gathered weight, unless it will be gathered again. One that no rank gathers is asked for again too:
    /// it may be beyond the device in between.
    pub(super) fn keep(&mut self, layer: &Linear, weight: &Weight) {
        let context = self.factors.pass.context();
        let keep = context.settings().keep_gathered && layer.weight.is_scattered(context);
        self.blocks
            .push(weight.as_block().filter(|_| keep).cloned());
    }

    /// The gradients of the inputs; those of weights and biases are added to their own, now or when the pass has time.
    ///
    /// dX comes first, so that its all-reduce can overlap with the GEMMs for dW (OAR). Vectors of X that are gathered
    /// again for dW are on their way during the GEMM for dX.
    pub(super) fn backward(mut self, gradients: Gradients) -> Result<Gradients> {
        let gradients = self.whole(gradients)?;
        if let (Some(spread), Some(x)) = (self.gathered_again.take(), &mut self.x) {
            let context = self.factors.pass.context();
            let place = (Subject::Linear, &beside(context, Axis::X)?);
            *x = spread.gather_runs(context, place, x)?;
        }
        let d_x = if self.wants_input {
            self.input_gradient(&gradients)?
        } else {
            None
        };
        let Some(x) = self.x else {
            return Ok(vec![d_x]);
        };
        let mut factors = self.factors;
        let (x, gradients) = factors.of_all_tokens(x, gradients)?;
        let numbers = factors.count_uses(&gradients);
        let pass = factors.pass.clone();
        pass.later(move || {
            let layers = factors.layers.iter().zip(&numbers);
            for ((layer, numbers), d_y) in layers.zip(gradients) {
                if let Some(d_y) = &d_y {
                    factors.weight_gradient(layer, [&x, &d_y.whole], numbers[0])?;
                    factors.bias_gradient(layer, d_y, numbers[1])?;
                }
            }
            Ok(())
        })?;
        Ok(vec![d_x])
    }

    // The gradients of all vectors of the outputs.
    fn whole(&self, gradients: Gradients) -> Result<Vec<Option<Gradient>>> {
        let context = self.factors.pass.context();
        let compute = context.device().compute();
        let whole = |run: Tensor| match &self.factors.outputs {
            Some(spread) => Ok(Gradient {
                whole: spread.gather_runs(context, (Subject::Linear, &compute), &run)?,
                run: Some(run),
            }),
            None => Ok(Gradient {
                whole: run,
                run: None,
            }),
        };
        let each = gradients.into_iter().map(|one| one.map(whole).transpose());
        each.collect()
    }

    fn input_gradient(&self, gradients: &[Option<Gradient>]) -> Result<Option<Tensor>> {
        let Factors { pass, layers, .. } = &self.factors;
        let (context, axis) = (pass.context(), layers[0].kind.emits());
        let spread = self.factors.inputs.as_ref().filter(|_| axis == Axis::X);
        let mut sum = ProductSum::new(context, axis, beside(context, axis)?, spread)?;
        for (index, d_y) in gradients.iter().enumerate() {
            let Some(d_y) = d_y else { continue };
            let layer = &layers[index];
            let block = match &self.blocks[index] {
                Some(block) => block.clone(),
                None => gather::gather(pass, &layer.weight, Subject::Linear)?,
            };
            sum.add(&Product {
                a: &d_y.whole,
                b: &Weight::block_of(block),
                transpose: layer.storage.backward(),
                len: layer.out_features,
            })?;
        }
        sum.finish()
    }
}

// The stream for collectives over the axis that may run beside the GEMMs of a backward pass.
fn beside(context: &Context, axis: Axis) -> Result<Stream> {
    match context.settings().overlap.all_reduce && context.degree(axis) > 1 {
        true => context.stream(Lane::AllReduce),
        false => Ok(context.device().compute()),
    }
}

impl Factors {
    // Where sums over a batch consist of rows, their factors are of all tokens.
    fn of_all_tokens(
        &mut self,
        x: Tensor,
        mut gradients: Vec<Option<Gradient>>,
    ) -> Result<(Tensor, Vec<Option<Gradient>>)> {
        let Some(spread) = self.tokens.take_if(|_| self.pass.sums_by_rows()) else {
            return Ok((x, gradients));
        };
        let context = self.pass.context();
        let compute = context.device().compute();
        let gather =
            |part: &Tensor| spread.gather_tokens(context, (Subject::Linear, &compute), part);
        let x = gather(&x)?;
        for gradient in gradients.iter_mut().flatten() {
            gradient.whole = gather(&gradient.whole)?;
        }
        Ok((x, gradients))
    }

    // Which part of the vectors the gradients are computed from, with or without those of other ranks of X.
    fn share(&self, runs: bool) -> Share {
        let tokens = self.tokens.is_some();
        Share { tokens, runs }
    }

    // Of each layer's weight and bias. Counted in the backward pass itself, so that the numbers do not depend on what it
    // puts off.
    fn count_uses(&self, gradients: &[Option<Gradient>]) -> Vec<[usize; 2]> {
        let count = |parameter: &Parameter| self.pass.count_use(parameter);
        let counted = |(layer, gradient): (&Linear, &Option<Gradient>)| match gradient {
            Some(_) => [count(&layer.weight), layer.bias.as_ref().map_or(0, count)],
            None => [0; 2],
        };
        self.layers.iter().zip(gradients).map(counted).collect()
    }

    // The block's gradient is reduced over Z in the compute type and added in the accumulator.
    fn weight_gradient(&self, layer: &Linear, [x, d_y]: [&Tensor; 2], number: usize) -> Result<()> {
        let pass = &self.pass;
        let inner = pass.inner(x);
        let leaf = Leaves::of(pass.num_rows(), inner).terms(inner);
        let addend = Addend {
            parameter: &layer.weight,
            subject: Subject::Linear,
            block_dtype: pass.gradient_wire(x.dtype()),
            inner,
            grain: Grain::Node,
            number,
            share: self.share(false),
        };
        addend.add(pass, |rows, into, beta| {
            let (x, d_y) = (pass.part(x, rows)?, pass.part(d_y, rows)?);
            let (a, b) = match layer.storage {
                Storage::InOut => (&x, &d_y),
                Storage::OutIn => (&d_y, &x),
            };
            ops::matmul_node_into(a, b, Transpose::First, into, [1.0, beta], leaf)
        })
    }

    fn bias_gradient(&self, layer: &Linear, d_y: &Gradient, number: usize) -> Result<()> {
        let Some(bias) = &layer.bias else {
            return Ok(());
        };
        // A leaf of the sum over rows may be a row, which runs cut.
        let run = d_y.run.as_ref().filter(|_| !self.pass.sums_by_rows());
        let (share, d_y) = (self.share(run.is_some()), run.unwrap_or(&d_y.whole));
        let addend = Addend {
            parameter: bias,
            subject: Subject::Linear,
            block_dtype: self.pass.gradient_wire(d_y.dtype()),
            inner: self.pass.inner(d_y),
            grain: Grain::Leaf,
            number,
            share,
        };
        addend.add(&self.pass, |rows, into, beta| {
            ops::column_sum_into(&self.pass.part(d_y, rows)?, into, beta)
        })
    }
}
