//! Linear layers on the grid, Y = X W + b with X of m x k and W of k x n, by AxoNN's 3D algorithm.
//!
//! | step | operation | axis, of a normal layer | elements of the whole buffer |
//! |---|---|---|---|
//! | forward 1 | all-gather W | Z | k n / (Gx Gy) |
//! | forward 2 | local product | - | |
//! | forward 3 | all-reduce of partial Y | Y | m n / (Gz Gdata Gx) |
//! | backward 1 | all-gather W again, unless kept | Z | k n / (Gx Gy) |
//! | backward 2 | dX = dY W^T, all-reduce | X | m k / (Gz Gdata Gy) |
//! | backward 3 | dW = X^T dY, reduce-scatter | Z | k n / (Gx Gy) |
//!
//! A transposed layer swaps X and Y. With Gx alone this is Megatron-LM's 1D scheme, with Gz alone fully sharded
//! weights. Source: arXiv:2502.08145, section V; arXiv:2305.13525.

use super::{DTensor, gather, scatter};
use crate::{Context, Init, Parameter, Purpose, counters::Subject};
use ::tensor::{ReduceOp, Result, Tensor, Var, ops, ops::Transpose};
use grid::{Axis, Layout};
use std::rc::Rc;

/// Which axis a layer contracts over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Reads features cut by Y, emits features cut by X.
    Normal,
    /// Reads features cut by X, emits features cut by Y.
    Transposed,
}

impl Kind {
    /// The axis that cuts the features that the layer reads.
    pub const fn reads(self) -> Axis {
        match self {
            Kind::Normal => Axis::Y,
            Kind::Transposed => Axis::X,
        }
    }

    /// The axis that cuts the features that the layer emits.
    pub const fn emits(self) -> Axis {
        match self {
            Kind::Normal => Axis::X,
            Kind::Transposed => Axis::Y,
        }
    }

    /// The other kind.
    pub const fn other(self) -> Kind {
        match self {
            Kind::Normal => Kind::Transposed,
            Kind::Transposed => Kind::Normal,
        }
    }
}

/// How a weight lies in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storage {
    /// in x out: rows are input features.
    InOut,
    /// out x in: rows are output features, as in a look-up table that serves as the head.
    OutIn,
}

/// Weight and bias of a linear layer, and how they are cut.
#[derive(Clone, Debug)]
pub struct Linear {
    /// in x out or out x in; see [`Storage`].
    pub weight: Parameter,
    /// out, if there is one.
    pub bias: Option<Parameter>,
    /// Which axis the layer contracts over.
    pub kind: Kind,
    /// How the weight lies in memory.
    pub storage: Storage,
    /// Number of output features.
    pub out_features: usize,
}

impl Linear {
    /// Declares the parameters `{name}.weight` (in x out) and `{name}.bias`.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) from the declaration of a parameter.
    pub fn declare(
        context: &Context,
        name: &str,
        in_features: usize,
        out_features: usize,
        kind: Kind,
        init: Init,
        with_bias: bool,
    ) -> Result<Linear> {
        let layout = layout(vec![vec![kind.reads(), Axis::Z], vec![kind.emits()]]);
        let shape = [in_features, out_features];
        let weight = Parameter::declare(context, &format!("{name}.weight"), &shape, layout, init, true)?;
        let declare_bias = || {
            let layout = layout_of_bias(kind);
            Parameter::declare(
                context,
                &format!("{name}.bias"),
                &[out_features],
                layout,
                Init::Constant(0.0),
                false,
            )
        };
        let bias = with_bias.then(declare_bias).transpose()?;
        Ok(Linear { weight, bias, kind, storage: Storage::InOut, out_features })
    }

    /// A normal layer over a table of out x in, such as that of an embedding.
    pub fn over_table(table: &Parameter) -> Linear {
        let out_features = table.global_shape()[0];
        Linear {
            weight: table.clone(),
            bias: None,
            kind: Kind::Normal,
            storage: Storage::OutIn,
            out_features,
        }
    }
}

fn layout(dims: Vec<Vec<Axis>>) -> Layout {
    Layout::cut(dims).expect("X, Y and Z cut one dim each")
}

fn layout_of_bias(kind: Kind) -> Layout {
    layout(vec![vec![kind.emits()]])
}

/// Applies layers of one kind that read the same features, such as queries, keys and values.
///
/// # Shapes
/// `x`: rows x in/axis, redistributed first where it is cut otherwise. Each result: rows x out/axis.
/// # Cost
/// Per layer, the table on top of this module; the gradient of `x` is summed locally and reduced once.
/// # Errors
/// [`Error::Invalid`](crate::Error::Invalid) when features do not fit a weight; those of the collectives.
pub fn linear(x: &DTensor, layers: &[&Linear]) -> Result<Vec<DTensor>> {
    let Some(first) = layers.first() else { return Ok(Vec::new()) };
    let (context, kind) = (x.context().clone(), first.kind);
    let x = x.redistribute(Some(kind.reads()), first.weight.name())?;
    let mut outputs = Vec::with_capacity(layers.len());
    let mut blocks = Vec::with_capacity(layers.len());
    for layer in layers {
        let block = gather::gather(&context, &layer.weight, Subject::Linear)?;
        outputs.push(ops::matmul(x.tensor(), &block, forward_transpose(layer.storage))?);
        let keep = context.settings().keep_gathered || !layer.weight.is_scattered(&context);
        blocks.push(keep.then_some(block));
    }
    reduce_and_bias(&context, kind, layers, &outputs)?;
    let saved = Saved {
        context: context.clone(),
        kind,
        layers: layers.iter().map(|&layer| layer.clone()).collect(),
        blocks,
        x: x.tensor().clone(),
        wants_input: x.var().wants_gradient(),
    };
    let saved = Rc::new(saved);
    let vars = Var::record("linear", &[x.var()], outputs, true, move |gradients| saved.backward(gradients));
    let wrap =
        |(var, layer): (Var, &&Linear)| DTensor::new(&context, var, layer.out_features, Some(kind.emits()));
    vars.into_iter().zip(layers).map(wrap).collect()
}

fn forward_transpose(storage: Storage) -> Transpose {
    match storage {
        Storage::InOut => Transpose::None,
        Storage::OutIn => Transpose::Second,
    }
}

// The bias is added after the reduction, once; every rank of the contracted axis adds the same.
fn reduce_and_bias(context: &Context, kind: Kind, layers: &[&Linear], outputs: &[Tensor]) -> Result<()> {
    let group = context.group(kind.reads(), Purpose::Main)?;
    for (layer, output) in layers.iter().zip(outputs) {
        if let Some(group) = &group {
            let compute = context.device().compute();
            group.all_reduce(context, Subject::Linear, &compute, output, ReduceOp::Sum)?;
        }
        if let Some(bias) = &layer.bias {
            ops::add_bias(output, &bias.value())?;
        }
    }
    Ok(())
}

struct Saved {
    context: Context,
    kind: Kind,
    layers: Vec<Linear>,
    blocks: Vec<Option<Tensor>>,
    x: Tensor,
    wants_input: bool,
}

impl Saved {
    // dX first, so that its all-reduce can run beside the products dW (OAR).
    fn backward(&self, gradients: ::tensor::autograd::Gradients) -> Result<::tensor::autograd::Gradients> {
        let d_x = if self.wants_input { self.input_gradient(&gradients)? } else { None };
        for (layer, d_y) in self.layers.iter().zip(&gradients) {
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
                None => gather::gather(&self.context, &layer.weight, Subject::Linear)?,
            };
            let transpose = match layer.storage {
                Storage::InOut => Transpose::Second,
                Storage::OutIn => Transpose::None,
            };
            match &sum {
                None => {
                    let d_x = Tensor::empty(self.x.device(), self.x.dtype(), self.x.shape())?;
                    ops::matmul_into(d_y, &block, transpose, &d_x, 1.0, 0.0)?;
                    sum = Some(d_x);
                }
                Some(d_x) => ops::matmul_into(d_y, &block, transpose, d_x, 1.0, 1.0)?,
            }
        }
        if let (Some(d_x), Some(group)) = (&sum, self.context.group(self.kind.emits(), Purpose::Main)?) {
            let beside = self.context.settings().overlap.all_reduce;
            let stream = if beside {
                self.context.stream("tensor all-reduce")?
            } else {
                self.context.device().compute()
            };
            group.all_reduce(&self.context, Subject::Linear, &stream, d_x, ReduceOp::Sum)?;
        }
        Ok(sum)
    }

    // The block's gradient travels over Z in the compute type and is added up in the accumulator.
    fn weight_gradient(&self, layer: &Linear, d_y: &Tensor) -> Result<()> {
        let (context, dtype) = (&self.context, self.x.dtype());
        scatter::accumulate(context, &layer.weight, Subject::Linear, dtype, |into, beta| {
            match layer.storage {
                Storage::InOut => ops::matmul_into(&self.x, d_y, Transpose::First, into, 1.0, beta),
                Storage::OutIn => ops::matmul_into(d_y, &self.x, Transpose::First, into, 1.0, beta),
            }
        })
    }

    fn bias_gradient(&self, layer: &Linear, d_y: &Tensor) -> Result<()> {
        let Some(bias) = &layer.bias else { return Ok(()) };
        ops::column_sum_into(d_y, &bias.gradient())?;
        self.context.gradient_added(bias)
    }
}
