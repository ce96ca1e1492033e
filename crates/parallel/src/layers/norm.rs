//! LayerNorm and RMSNorm over features that an axis cuts; the statistics are those of the full row.

use super::{
    DTensor,
    features::columns,
    scatter::Grain,
    spread::{Share, Spread},
};
use crate::{
    Parameter, Pass, Purpose,
    counters::Subject,
    sums::{self, Features},
};
use grid::Axis;
use std::{iter, ops::Range};
use tensor::{
    ReduceOp, Result, Tensor, Var,
    ops::{
        self,
        norm::{self, NormShape},
    },
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
    let shape = norm::shape(kind, x.held(), x.features(), epsilon);
    let moments = row_moments(&pass, shape, x.held(), x.cut())?;
    let bias_value = bias.map(Parameter::value).transpose()?;
    let out = norm::normalize(
        shape,
        x.held(),
        &moments,
        &gain.value()?,
        bias_value.as_ref(),
    )?;
    let saved = Saved {
        pass,
        shape,
        axis: x.cut(),
        x: x.held().clone(),
        spread: x.spread().cloned(),
        moments,
        gain: gain.clone(),
        bias: bias.cloned(),
    };
    let var = Var::record_one("norm", &[x.held_var()], out, true, move |d_out| {
        Ok(vec![Some(saved.backward(&d_out)?)])
    });
    Ok(x.like(var))
}

// Moments of parts of a row are gathered and combined in their order, which keeps their accuracy. A sum of squares over
// parts would lose it where the mean is large.
fn row_moments(pass: &Pass, shape: NormShape, x: &Tensor, axis: Option<Axis>) -> Result<Tensor> {
    let (place, numbers) = ((axis, Subject::Norm), [shape.rows, 2]);
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
    axis: Option<Axis>,
    x: Tensor,
    // The vectors of which these are this rank's part, if they are spread.
    spread: Option<Spread>,
    moments: Tensor,
    gain: Parameter,
    bias: Option<Parameter>,
}

impl Saved {
    fn backward(&self, d_out: &Tensor) -> Result<Tensor> {
        let (context, gain) = (self.pass.context(), self.gain.value()?);
        if self.pass.sums_by_rows() {
            if let Some(spread) = &self.spread {
                return self.of_all(spread, d_out);
            }
            let sums = self.node_sums(&gain, d_out)?;
            return norm::backward(self.shape, &self.x, &self.moments, &gain, d_out, &sums);
        }
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
            match self.counts(parameter) {
                true => self.pass.gradient_added(parameter)?,
                false => self.pass.skip(parameter)?,
            }
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

    // A leaf of the gradients of gain and bias may be a row, which runs cut. So all vectors are gathered.
    fn of_all(&self, spread: &Spread, d_out: &Tensor) -> Result<Tensor> {
        let context = self.pass.context();
        let compute = context.device().compute();
        let gather = |held: &Tensor| spread.gather(context, (Subject::Norm, &compute), held);
        let all = Saved {
            pass: self.pass.clone(),
            shape: NormShape {
                rows: spread.leading().iter().product(),
                ..self.shape
            },
            axis: self.axis,
            x: gather(&self.x)?,
            spread: None,
            moments: gather(&self.moments)?,
            gain: self.gain.clone(),
            bias: self.bias.clone(),
        };
        spread.cut(context, &all.backward(&gather(d_out)?)?)
    }

    // The row sums node by node over features, and the gradients of gain and bias leaf by leaf over rows.
    fn node_sums(&self, gain: &Tensor, d_out: &Tensor) -> Result<Tensor> {
        let (context, shape) = (self.pass.context(), self.shape);
        let axis = self.axis.filter(|axis| context.degree(*axis) > 1);
        let features = axis.map(|axis| Features::of(context, axis, shape.global_columns));
        let features = features.transpose()?;
        let own = features.as_ref().map_or_else(
            || iter::once(0..shape.columns).collect(),
            |features| features.own(),
        );
        let (dtype, numbers) = (gain.dtype().accumulator(), [shape.rows, 2]);
        let sums: Vec<Tensor> = (0..own.len())
            .map(|_| context.buffer(dtype, &numbers))
            .collect::<Result<_>>()?;

        let inner = self.pass.inner(&self.x);
        let (leaves, nodes) = self.pass.nodes(inner, Grain::Leaf)?;
        let trained: Vec<_> = [Some(&self.gain), self.bias.as_ref()]
            .into_iter()
            .enumerate()
            .filter_map(|(index, parameter)| Some((index, parameter.filter(|p| !p.is_frozen())?)))
            .map(|(index, parameter)| (index, parameter, self.pass.count_use(parameter)))
            .collect();
        for leaf in nodes {
            let rows = leaves.rows_of(&leaf, &self.pass.rows());
            let gradients = self.leaf_sums(gain, d_out, (&rows, inner), &own, &sums)?;
            for &(index, parameter, at_use) in &trained {
                let add = |target: &Tensor, beta| ops::axpby(1.0, &gradients[index], beta, target);
                self.pass
                    .add_node(parameter, (at_use, leaves), leaf.clone(), add)?;
            }
        }
        for (_, parameter, _) in trained {
            self.pass.gradient_added(parameter)?;
        }
        match features {
            Some(of) => sums::sum_nodes(context, Subject::Norm, &of, &sums, (dtype, &numbers)),
            None => Ok(sums.into_iter().next().expect("a row has a node")),
        }
    }

    // Writes the sums of these rows, of `inner` vectors each, to `sums`, one tensor for each node of features; returns
    // the gradients of gain and bias.
    fn leaf_sums(
        &self,
        gain: &Tensor,
        d_out: &Tensor,
        (rows, inner): (&Range<usize>, usize),
        nodes: &[Range<usize>],
        sums: &[Tensor],
    ) -> Result<[Tensor; 2]> {
        let context = self.pass.context();
        let [x, moments, d_out] =
            [&self.x, &self.moments, d_out].map(|all| self.pass.part(all, rows));
        let (x, moments, d_out) = (x?, moments?, d_out?);
        let gradient = || context.buffer(gain.dtype().accumulator(), &[self.shape.columns]);
        let [d_gain, d_bias] = [gradient()?, gradient()?];
        let vectors = rows.start * inner..rows.end * inner;
        for (node, sums) in nodes.iter().zip(sums) {
            let of_node = NormShape {
                columns: node.len(),
                rows: vectors.len(),
                ..self.shape
            };
            let [to_gain, to_bias] = [&d_gain, &d_bias].map(|all| all.rows(node.start, node.len()));
            let bias = self.bias.is_some().then_some(to_bias?);
            let found = norm::sums(
                of_node,
                &columns(&x, node)?,
                &moments,
                &gain.rows(node.start, node.len())?,
                &columns(&d_out, node)?,
                (&to_gain?, bias.as_ref()),
                0.0,
            )?;
            ops::copy(&found, &sums.rows(vectors.start, vectors.len())?)?;
        }
        Ok([d_gain, d_bias])
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
