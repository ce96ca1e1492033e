//! LayerNorm and RMSNorm over features that an axis cuts; the statistics are those of the full row.

mod by_rows;

use super::{
    DTensor,
    features::columns,
    spread::{Share, Spread},
};
use crate::{Parameter, Pass, Purpose, counters::Subject, sums};
use grid::Axis;
use std::ops::Range;
use tensor::{
    ReduceOp, Result, Tensor, Var,
    ops::norm::{self, Gradients, NormShape},
};

pub use tensor::ops::norm::NormKind;

/// Normalises every row of `x`.
///
/// # Shapes
/// `x` and the result: rows x features/axis, of the same layout. `gain`, `bias`: features, cut by the same axis.
/// # Cost
/// Where no axis cuts the rows, one pass over them in each direction. Otherwise two passes, with two numbers per row gathered
/// over the axis in forward, and summed over it in backward.
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
    let shape = norm::shape(kind, x.held(), x.features(), epsilon);
    let axis = x.cut().filter(|axis| pass.context().degree(*axis) > 1);
    let (gain_value, bias_value) = (gain.value()?, bias.map(Parameter::value).transpose()?);
    let (out, moments) = match axis {
        None => norm::forward(shape, x.held(), &gain_value, bias_value.as_ref())?,
        Some(axis) => {
            let moments = row_moments(&pass, shape, x.held(), axis)?;
            let bias = bias_value.as_ref();
            let out = norm::normalize(shape, x.held(), &moments, &gain_value, bias)?;
            (out, moments)
        }
    };
    let saved = Saved {
        pass,
        shape,
        axis,
        x: x.held().clone(),
        spread: x.spread().cloned(),
        moments,
        gain: gain.clone(),
        bias: bias.cloned(),
    };
    let keeps = saved.trained().next().is_some();
    let var = Var::record_adding("norm", x.held_var(), out, keeps, move |d_out, arrived| {
        saved.backward(&d_out, arrived)
    });
    Ok(x.like(var))
}

// Moments of parts of a row are gathered and combined in their order, which keeps their accuracy. A sum of squares over
// parts would lose it where the mean is large.
fn row_moments(pass: &Pass, shape: NormShape, x: &Tensor, axis: Axis) -> Result<Tensor> {
    let (place, numbers) = ((Some(axis), Subject::Norm), [shape.rows, 2]);
    let of_part = |part: Range<usize>| {
        let of_part = NormShape {
            columns: part.len(),
            ..shape
        };
        norm::moments(of_part, &columns(x, &part)?)
    };
    let features = shape.global_columns;
    let (parts, widths) = sums::statistics(pass.context(), place, features, &numbers, of_part)?;
    match widths.len() {
        1 => Ok(parts),
        _ => norm::combine(shape, &parts, &widths),
    }
}

struct Saved {
    pass: Pass,
    shape: NormShape,
    // The axis whose ranks share a row, if it has more than one.
    axis: Option<Axis>,
    x: Tensor,
    // The vectors of which these are this rank's part, if they are spread.
    spread: Option<Spread>,
    moments: Tensor,
    gain: Parameter,
    bias: Option<Parameter>,
}

impl Saved {
    // Where a kernel of full rows makes the gradient, it adds what has arrived from the other uses of `x`, such as a residual.
    fn backward(&self, d_out: &Tensor, arrived: &mut Option<Tensor>) -> Result<Tensor> {
        if self.pass.sums_by_rows() {
            return self.backward_by_rows(d_out, arrived);
        }
        let (gain, (d_gain, d_bias, factor)) = (self.gain.value()?, self.gradients()?);
        let (shape, x, moments, d_bias) = (self.shape, &self.x, &self.moments, d_bias.as_ref());
        let Some(axis) = self.axis else {
            let d_x = Tensor::empty(x.device(), x.dtype(), x.shape())?;
            let addend = arrived.take();
            let gradients = Gradients {
                d_x: &d_x,
                d_gain: &d_gain,
                d_bias,
                addend: addend.as_ref(),
            };
            norm::backward(shape, x, moments, &gain, d_out, gradients, factor)?;
            drop(addend);
            self.gradients_added()?;
            return Ok(d_x);
        };
        let sums = norm::sums(shape, x, moments, &gain, d_out, (&d_gain, d_bias), factor)?;
        self.gradients_added()?;
        let context = self.pass.context();
        if let Some(group) = context.group(axis, Purpose::Main)? {
            let compute = context.device().compute();
            group.all_reduce(context, Subject::Norm, &compute, &sums, ReduceOp::Sum)?;
        }
        norm::normalize_backward(shape, x, moments, &gain, d_out, &sums)
    }

    fn trained(&self) -> impl Iterator<Item = &Parameter> {
        [&self.gain]
            .into_iter()
            .chain(&self.bias)
            .filter(|parameter| !parameter.is_frozen())
    }

    fn gradients_added(&self) -> Result<()> {
        self.trained()
            .try_for_each(|parameter| match self.counts(parameter) {
                true => self.pass.gradient_added(parameter),
                false => self.pass.skip(parameter),
            })
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

    fn share(&self) -> Share {
        self.spread.as_ref().map_or(Share::NONE, Spread::share)
    }

    fn counts(&self, parameter: &Parameter) -> bool {
        !parameter.is_frozen() && self.pass.counts(parameter, self.share())
    }

    // The kernel always computes the sums for gain and bias; for a parameter to which this rank adds nothing they go
    // into memory that nobody reads.
    fn gradient(&self, parameter: &Parameter) -> Result<(Tensor, f64)> {
        match self.counts(parameter) {
            true => self.pass.gradient_of(parameter),
            false => {
                let value = parameter.value()?;
                let dtype = value.dtype().accumulator();
                Ok((Tensor::empty(value.device(), dtype, value.shape())?, 0.0))
            }
        }
    }
}
