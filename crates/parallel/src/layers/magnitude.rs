//! Weights whose columns have trained lengths: Y = m (X V) / |V| + b with V = W + scale A B, column by column.
//!
//! V never exists on a device for the product: X W and X A B are summed before [`scale_columns`] multiplies. Only its norms
//! need V, of one layer at a time. The backward pass takes them as constants, which is how the method is defined.
//!
//! Source: Liu et al., DoRA (arXiv 2402.09353), sections 4.1 and 4.3.

use super::{DTensor, Linear, Weight, features::row_sums, gather, scatter::Addend, scatter::Grain};
use crate::{
    Context, Parameter, Pass, Purpose, counters::Subject, layers::spread::Share,
    work::ColumnNormsWork,
};
use grid::{Axis, feature_range};
use hal::Counts;
use tensor::{
    Result, Tensor, Var,
    ops::{self, BinaryOp, Transpose, UnaryOp},
};

// Added to a sum of squares: a column of zeros has length 0, and outputs 0 instead of 0 / 0. No other sum of f32 changes.
const LEAST_SQUARES: f64 = 1e-36;

/// scale A B.
#[derive(Clone, Copy, Debug)]
pub struct LowRank<'a> {
    /// A.
    pub down: &'a Linear,
    /// B.
    pub up: &'a Linear,
    /// The factor.
    pub scale: f64,
}

impl LowRank<'_> {
    /// The norms of the columns of W + scale A B, where `weight` is the layer's W.
    ///
    /// # Shapes
    /// `weight`: in/reads x out/emits. The result: out/emits, in the accumulator type.
    /// # Cost
    /// Once for all micro-batches of a batch and their recomputation: 2 in out rank flop, cut by both axes, and two copies of the
    /// block until it returns. A is gathered over the axis that cuts the outputs and B over the one that cuts the inputs; one number
    /// for each output is summed over the latter.
    /// # Errors
    /// Those of the collectives; for a parameter without memory on this rank.
    pub fn column_norms(&self, pass: &Pass, layer: &Linear, weight: &Weight) -> Result<Tensor> {
        pass.norms_of(&layer.weight, || self.norms(pass, layer, &weight.block()?))
    }

    fn norms(&self, pass: &Pass, layer: &Linear, block: &Tensor) -> Result<Tensor> {
        let (context, rank) = (pass.context(), self.down.out_features);
        if let Some(ledger) = pass.ledger() {
            ledger.column_norms(ColumnNormsWork {
                inputs: layer.in_features(),
                outputs: layer.out_features,
                rank,
                reads: layer.kind.reads(),
                emits: layer.kind.emits(),
            });
        }
        let a_kr = gather::gather(pass, &self.down.weight, Subject::Linear)?;
        let a_rk = ops::permute(&a_kr, &[1, 0])?;
        let a_rk = gathered_rows(context, layer.kind.emits(), rank, &a_rk)?;
        let b_rn = gather::gather(pass, &self.up.weight, Subject::Linear)?;
        let b_rn = gathered_rows(context, layer.kind.reads(), rank, &b_rn)?;
        // Transposed, so that the sums are those of rows, which have the same bits on every grid if that is asked for.
        let v_nk = ops::permute(block, &[1, 0])?;
        let v_nk = ops::cast(&v_nk, block.dtype().accumulator())?;
        ops::matmul_into(&b_rn, &a_rk, Transpose::First, &v_nk, self.scale, 1.0)?;
        ops::binary_into(BinaryOp::Mul, &v_nk, &v_nk, &v_nk)?;
        let inputs = layer.in_features();
        let sums = row_sums(context, Some(layer.kind.reads()), inputs, &v_nk)?;
        let outputs = [sums.num_elements()];
        let shifted = Tensor::full(sums.device(), sums.dtype(), &outputs, LEAST_SQUARES)?;
        ops::axpby(1.0, &sums.reshape(&outputs)?, 1.0, &shifted)?;
        ops::unary(UnaryOp::Sqrt, &shifted)
    }
}

// All rows of a matrix that an axis cuts by rows.
fn gathered_rows(context: &Context, axis: Axis, rows: usize, part: &Tensor) -> Result<Tensor> {
    let Some(group) = context.group(axis, Purpose::Main)? else {
        return Ok(part.clone());
    };
    let columns = part.columns();
    let of_rank = |index| feature_range(rows, group.size(), index).len() * columns;
    let counts = Counts::Uneven((0..group.size()).map(of_rank).collect());
    let whole = context.buffer(part.dtype(), &[rows, columns])?;
    let compute = context.device().compute();
    group.all_gather(context, Subject::Linear, &compute, part, &whole, &counts)?;
    Ok(whole)
}

/// Multiplies every feature of `x` by its magnitude, divided by the norm of its column, and adds the bias.
///
/// # Shapes
/// `x` and the result: any vectors of the features, cut like `magnitude` and `bias`. `norms`: this rank's features, in the
/// accumulator type.
/// # Cost
/// One pass over the elements in forward, and two in backward with the sums for the magnitude's gradient; `x` is kept for them.
/// # Errors
/// For a parameter without memory on this rank; those of the gradients' sums.
pub fn scale_columns(
    x: &DTensor,
    norms: Tensor,
    magnitude: &Parameter,
    bias: Option<&Parameter>,
) -> Result<DTensor> {
    let x = x.in_rows()?;
    let factor = ops::cast(&magnitude.value()?, norms.dtype())?;
    let factor = ops::binary(BinaryOp::Div, &factor, &norms)?;
    let factor = ops::cast(&factor, x.dtype())?;
    let out = ops::binary_row(BinaryOp::Mul, x.held(), &factor)?;
    if let Some(bias) = bias {
        ops::add_bias(&out, &bias.value()?)?;
    }
    let saved = Saved {
        pass: x.pass().clone(),
        share: x.share(),
        x: x.held().clone(),
        factor,
        norms,
        magnitude: magnitude.clone(),
        bias: bias.cloned(),
    };
    let keeps = !magnitude.is_frozen() || bias.is_some_and(|bias| !bias.is_frozen());
    let var = Var::record_one("scale_columns", &[x.held_var()], out, keeps, move |d_out| {
        Ok(vec![Some(saved.backward(&d_out)?)])
    });
    Ok(x.like(var))
}

struct Saved {
    pass: Pass,
    share: Share,
    x: Tensor,
    factor: Tensor,
    norms: Tensor,
    magnitude: Parameter,
    bias: Option<Parameter>,
}

impl Saved {
    fn backward(&self, d_out: &Tensor) -> Result<Tensor> {
        if let Some(bias) = &self.bias {
            self.add(bias, d_out, |sum| Ok(sum.clone()))?;
        }
        let of_magnitude = ops::binary(BinaryOp::Mul, &self.x, d_out)?;
        self.add(&self.magnitude, &of_magnitude, |sum| {
            ops::binary(BinaryOp::Div, sum, &self.norms)
        })?;
        ops::binary_row(BinaryOp::Mul, d_out, &self.factor)
    }

    // Adds what `of_sum` makes of the sum of the rows of `addends`.
    fn add(
        &self,
        parameter: &Parameter,
        addends: &Tensor,
        of_sum: impl Fn(&Tensor) -> Result<Tensor>,
    ) -> Result<()> {
        let (pass, context) = (&self.pass, self.pass.context());
        let addend = Addend {
            parameter,
            subject: Subject::Linear,
            block_dtype: pass.gradient_wire(addends.dtype()),
            inner: pass.inner(addends),
            grain: Grain::Leaf,
            number: pass.count_use(parameter),
            share: self.share,
        };
        addend.add(pass, |rows, into, beta| {
            let sum = context.buffer(into.dtype(), &[addends.columns()])?;
            ops::column_sum_into(&pass.part(addends, rows)?, &sum, 0.0)?;
            ops::axpby(1.0, &of_sum(&sum)?, beta, into)
        })
    }
}
