//! LayerNorm and RMSNorm over features that an axis cuts: statistics are those of the whole row.

use super::DTensor;
use crate::{Context, Parameter, Purpose, counters::Subject};
use ::tensor::{
    ReduceOp, Result, Tensor, Var,
    ops::norm::{self, NormShape},
};
use grid::Axis;
use hal::Counts;

pub use ::tensor::ops::norm::NormKind;

/// Normalises every row of `x`.
///
/// # Shapes
/// `x` and the result: rows x features/axis, of the same layout. `gain`, `bias`: features, cut by the same axis.
/// # Cost
/// Two numbers a row gathered over the axis in forward, two numbers a row summed over it in backward.
/// # Errors
/// [`Error::Invalid`](crate::Error::Invalid) when gain or bias are not cut as `x` is; those of the collectives.
pub fn norm(
    x: &DTensor,
    kind: NormKind,
    gain: &Parameter,
    bias: Option<&Parameter>,
    epsilon: f64,
) -> Result<DTensor> {
    let context = x.context().clone();
    let x = x.redistribute(gain.layout().dims()[0].first().copied(), gain.name())?;
    let shape = norm::shape(kind, x.tensor(), x.features(), epsilon);
    let moments = row_moments(&context, shape, x.tensor(), x.cut())?;
    let bias_value = bias.map(Parameter::value);
    let out = norm::normalize(
        shape,
        x.tensor(),
        &moments,
        &gain.value(),
        bias_value.as_ref(),
    )?;
    let saved = Saved {
        context,
        shape,
        axis: x.cut(),
        x: x.tensor().clone(),
        moments,
        gain: gain.clone(),
        bias: bias.cloned(),
    };
    let var = Var::record_one("norm", &[x.var()], out, true, move |d_out| {
        Ok(vec![Some(saved.backward(&d_out)?)])
    });
    Ok(x.like(var))
}

// Moments of the shards are gathered and combined in the order of ranks, which keeps their accuracy: a sum of squares
// over shards would lose it where the mean is large.
fn row_moments(
    context: &Context,
    shape: NormShape,
    x: &Tensor,
    axis: Option<Axis>,
) -> Result<Tensor> {
    let local = norm::moments(shape, x)?;
    let Some(group) = axis.map_or(Ok(None), |axis| context.group(axis, Purpose::Main))? else {
        return Ok(local);
    };
    let parts = context.buffer(local.dtype(), &[group.size(), shape.rows, 2])?;
    let counts = Counts::Even(local.num_elements());
    group.all_gather(
        context,
        Subject::Norm,
        &context.device().compute(),
        &local,
        &parts,
        &counts,
    )?;
    norm::combine(shape, &parts)
}

struct Saved {
    context: Context,
    shape: NormShape,
    axis: Option<Axis>,
    x: Tensor,
    moments: Tensor,
    gain: Parameter,
    bias: Option<Parameter>,
}

impl Saved {
    fn backward(&self, d_out: &Tensor) -> Result<Tensor> {
        let gain = self.gain.value();
        let d_bias = self.bias.as_ref().map(Parameter::gradient);
        let d_gain = self.gain.gradient();
        let sums = norm::sums(
            self.shape,
            &self.x,
            &self.moments,
            &gain,
            d_out,
            &d_gain,
            d_bias.as_ref(),
        )?;
        self.context.gradient_added(&self.gain)?;
        self.bias
            .as_ref()
            .map_or(Ok(()), |bias| self.context.gradient_added(bias))?;
        if let Some(group) = self
            .axis
            .map_or(Ok(None), |axis| self.context.group(axis, Purpose::Main))?
        {
            let compute = self.context.device().compute();
            group.all_reduce(&self.context, Subject::Norm, &compute, &sums, ReduceOp::Sum)?;
        }
        norm::backward(self.shape, &self.x, &self.moments, &gain, d_out, &sums)
    }
}
