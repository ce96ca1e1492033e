//! LayerNorm and RMSNorm over features that an axis cuts; the statistics are those of the full row.

use super::DTensor;
use crate::{Parameter, Pass, Purpose, counters::Subject};
use grid::Axis;
use hal::Counts;
use tensor::{
    ReduceOp, Result, Tensor, Var,
    ops::norm::{self, NormShape},
};

pub use tensor::ops::norm::NormKind;

/// Normalises every row of `x`.
///
/// # Shapes
/// `x` and the result: rows x features/axis, of the same layout. `gain`, `bias`: features, cut by the same axis.
/// # Cost
/// Two numbers a row gathered over the axis in forward, two numbers a row summed over it in backward.
/// # Errors
/// [`Error::Invalid`](crate::Error::Invalid) when gain or bias do not have the features' size and cut, and when they
/// have no memory on this rank; those of the collectives.
pub fn norm(
    x: &DTensor,
    kind: NormKind,
    gain: &Parameter,
    bias: Option<&Parameter>,
    epsilon: f64,
) -> Result<DTensor> {
    let pass = x.pass().clone();
    let x = x.redistribute(gain.layout().dims()[0].first().copied(), gain.name())?;
    let shape = norm::shape(kind, x.tensor(), x.features(), epsilon);
    let moments = row_moments(&pass, shape, x.tensor(), x.cut())?;
    let bias_value = bias.map(Parameter::value).transpose()?;
    let out = norm::normalize(
        shape,
        x.tensor(),
        &moments,
        &gain.value()?,
        bias_value.as_ref(),
    )?;
    let saved = Saved {
        pass,
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

// Moments of the shards are gathered and combined in the order of ranks, which keeps their accuracy. A sum of
// squares over shards would lose it where the mean is large.
fn row_moments(pass: &Pass, shape: NormShape, x: &Tensor, axis: Option<Axis>) -> Result<Tensor> {
    let context = pass.context();
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
    norm::combine(shape, &parts, &vec![shape.columns; group.size()])
}

struct Saved {
    pass: Pass,
    shape: NormShape,
    axis: Option<Axis>,
    x: Tensor,
    moments: Tensor,
    gain: Parameter,
    bias: Option<Parameter>,
}

impl Saved {
    fn backward(&self, d_out: &Tensor) -> Result<Tensor> {
        let (context, gain) = (self.pass.context(), self.gain.value()?);
        let (d_gain, d_bias, factor) = self.gradients()?;
        let sums = norm::sums(
            self.shape,
            &self.x,
            &self.moments,
            &gain,
            d_out,
            (&d_gain, d_bias.as_ref()),
            factor,
        )?;
        for parameter in [&self.gain]
            .into_iter()
            .chain(&self.bias)
            .filter(|p| !p.is_frozen())
        {
            self.pass.gradient_added(parameter)?;
        }
        if let Some(group) = self
            .axis
            .map_or(Ok(None), |axis| context.group(axis, Purpose::Main))?
        {
            let compute = context.device().compute();
            group.all_reduce(context, Subject::Norm, &compute, &sums, ReduceOp::Sum)?;
        }
        norm::backward(self.shape, &self.x, &self.moments, &gain, d_out, &sums)
    }

    // Where the sums for gain and bias go, and the one factor of what both hold.
    fn gradients(&self) -> Result<(Tensor, Option<Tensor>, f64)> {
        let gain = self.gradient(&self.gain)?;
        let bias = self.bias.as_ref().map(|bias| self.gradient(bias));
        let bias = bias.transpose()?;
        let factors = [Some(&gain), bias.as_ref()].into_iter().flatten();
        let factor = factors
            .clone()
            .fold(0.0, |most: f64, (_, factor)| most.max(*factor));
        for (gradient, _) in factors.filter(|(_, own)| *own < factor) {
            gradient.fill(0.0)?;
        }
        Ok((gain.0, bias.map(|(bias, _)| bias), factor))
    }

    // The kernel always computes the sums for gain and bias; for a frozen parameter they go into memory that
    // nobody reads.
    fn gradient(&self, parameter: &Parameter) -> Result<(Tensor, f64)> {
        match parameter.is_frozen() {
            false => self.pass.gradient_of(parameter),
            true => {
                let value = parameter.value()?;
                let dtype = value.dtype().accumulator();
                Ok((Tensor::empty(value.device(), dtype, value.shape())?, 0.0))
            }
        }
    }
}
