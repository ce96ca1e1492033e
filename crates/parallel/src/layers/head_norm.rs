//! RMSNorm of each head of queries or keys, with one gain for all heads.

use super::{DTensor, norm::NormKind, scatter::Grain, spread::Share};
use crate::{Parameter, Pass, Purpose, counters::Subject};
use grid::{Axis, feature_range};
use hal::Counts;
use tensor::{
    Error, ReduceOp, Result, Tensor, Var,
    ops::{
        self, BinaryOp,
        norm::{self, Gradients, NormShape},
    },
};

/// Normalises the elements of every head of `x`, each head by statistics of its own.
///
/// # Shapes
/// `x` and the result: rows x (heads * head_size), of which each rank holds complete heads. `gain`: head_size, on all ranks.
/// # Cost
/// No collective in forward. In backward, an all-reduce of the gain over the axis that cuts the heads; if sums are to be
/// [reproducible](crate::Reproducible::Grid) on any grid, an all-gather of one gain for each head and row of the batch.
/// # Errors
/// [`Error::Invalid`] for a gain that an axis cuts or that has no memory on this rank, and if a rank holds a part of a head;
/// those of the collectives.
/// # Source
/// Query-key normalisation as in Qwen 3 (arXiv 2505.09388, section 2); Henry et al., 2020 (arXiv 2010.04245).
pub fn head_norm(x: &DTensor, kind: NormKind, gain: &Parameter, epsilon: f64) -> Result<DTensor> {
    let x = x.in_rows()?;
    let heads = LocalHeads::of(&x, gain)?;
    let matrix = heads.matrix(x.held())?;
    let shape = norm::shape(kind, &matrix, heads.size, epsilon);
    let (out, moments) = norm::forward(shape, &matrix, &gain.value()?, None)?;
    let out = out.reshape(x.held().shape())?;
    let saved = Saved {
        pass: x.pass().clone(),
        axis: x.cut(),
        share: x.share(),
        heads,
        shape,
        x: matrix,
        moments,
        gain: gain.clone(),
    };
    let keeps = !gain.is_frozen();
    let var = Var::record_one("head_norm", &[x.held_var()], out, keeps, move |d_out| {
        Ok(vec![Some(saved.backward(&d_out)?)])
    });
    Ok(x.like(var))
}

/// The heads of a value that this rank holds.
#[derive(Clone, Copy)]
struct LocalHeads {
    size: usize,
    // Features of this rank's heads, and of all.
    held: usize,
    features: usize,
}

impl LocalHeads {
    fn of(x: &DTensor, gain: &Parameter) -> Result<LocalHeads> {
        let &[size] = gain.global_shape() else {
            let needed = "a gain of one dim";
            return Err(Error::invalid(gain.name(), format!("{gain:?}"), needed));
        };
        if !gain.layout().axes().is_empty() {
            let needed = "a gain that no axis cuts";
            return Err(Error::invalid(gain.name(), format!("{gain:?}"), needed));
        }
        let (held, first) = (x.held().columns(), x.first_feature());
        match held.is_multiple_of(size) && first.is_multiple_of(size) {
            true => Ok(LocalHeads {
                size,
                held,
                features: x.features(),
            }),
            false => {
                let found = format!("{held} features from {first} on, on a rank");
                let needed = format!("multiples of the head size {size}");
                Err(Error::invalid(gain.name(), found, needed))
            }
        }
    }

    // A row for each head of each vector.
    fn matrix(self, held: &Tensor) -> Result<Tensor> {
        held.reshape(&[held.num_elements() / self.size, self.size])
    }
}

struct Saved {
    pass: Pass,
    axis: Option<Axis>,
    share: Share,
    heads: LocalHeads,
    shape: NormShape,
    x: Tensor,
    moments: Tensor,
    gain: Parameter,
}

impl Saved {
    fn backward(&self, d_out: &Tensor) -> Result<Tensor> {
        let (shape, gain) = (self.shape, self.gain.value()?);
        let given = d_out.shape().to_vec();
        let d_out = self.heads.matrix(d_out)?;
        let d_gain = self
            .pass
            .context()
            .buffer(gain.dtype().accumulator(), &[self.heads.size])?;
        let d_x = Tensor::empty(d_out.device(), d_out.dtype(), d_out.shape())?;
        let gradients = Gradients {
            d_x: &d_x,
            d_gain: &d_gain,
            d_bias: None,
            addend: None,
        };
        norm::backward(shape, &self.x, &self.moments, &gain, &d_out, gradients, 0.0)?;
        if !self.gain.is_frozen() {
            match self.pass.sums_by_rows() {
                true => self.add_by_rows(&d_out)?,
                false => self.add(&d_gain)?,
            }
        }
        d_x.reshape(&given)
    }

    // Adds the sum over the heads of all ranks to the gradient of the gain.
    fn add(&self, d_gain: &Tensor) -> Result<()> {
        let context = self.pass.context();
        let group = self
            .axis
            .map_or(Ok(None), |axis| context.group(axis, Purpose::Main))?;
        if let Some(group) = group {
            let compute = context.device().compute();
            group.all_reduce(context, Subject::Norm, &compute, d_gain, ReduceOp::Sum)?;
        }
        if !self.pass.counts(&self.gain, self.share) {
            return self.pass.skip(&self.gain);
        }
        let (gradient, factor) = self.pass.gradient_of(&self.gain)?;
        ops::axpby(1.0, d_gain, factor, &gradient)?;
        self.pass.gradient_added(&self.gain)
    }

    // The same in an order that no cut of heads or rows changes: the rows of each leaf are summed for each head by itself, and
    // then the heads from the first to the last.
    fn add_by_rows(&self, d_out: &Tensor) -> Result<()> {
        let (pass, heads) = (&self.pass, self.heads);
        let vectors = self.x.num_elements() / heads.held.max(1);
        let addends = self.addends(d_out)?.reshape(&[vectors, heads.held])?;
        let (leaves, nodes) = pass.nodes(pass.inner(&addends), Grain::Leaf)?;
        let context = pass.context();
        let own = context.buffer(addends.dtype(), &[nodes.len(), heads.held])?;
        for (index, leaf) in nodes.iter().enumerate() {
            let rows = pass.part(&addends, &leaves.rows_of(leaf, &pass.rows()))?;
            ops::column_sum_into(&rows, &own.rows(index, 1)?, 0.0)?;
        }
        let at_use = (pass.count_use(&self.gain), leaves);
        for (leaf, of_heads) in nodes.iter().zip(self.of_all_heads(&own)?) {
            let of_heads = of_heads.reshape(&[heads.features / heads.size, heads.size])?;
            pass.add_node(&self.gain, at_use, leaf.clone(), |target, beta| {
                ops::column_sum_into(&of_heads, target, beta)
            })?;
        }
        pass.gradient_added(&self.gain)
    }

    // What each element adds to the gradient of the gain: d_out times the normalised input.
    fn addends(&self, d_out: &Tensor) -> Result<Tensor> {
        let dtype = d_out.dtype().accumulator();
        let plain = NormShape {
            kind: NormKind::Rms,
            ..self.shape
        };
        let ones = Tensor::full(d_out.device(), dtype, &[self.heads.size], 1.0)?;
        let x = ops::cast(&self.x, dtype)?;
        let normed = norm::normalize(plain, &x, &self.moments, &ones, None)?;
        ops::binary(BinaryOp::Mul, &normed, &ops::cast(d_out, dtype)?)
    }

    // For each row of `own`, which are this rank's heads, those of all ranks in their order.
    fn of_all_heads(&self, own: &Tensor) -> Result<Vec<Tensor>> {
        let (context, features, rows) = (self.pass.context(), self.heads.features, own.num_rows());
        let group = self
            .axis
            .map_or(Ok(None), |axis| context.group(axis, Purpose::Main))?;
        let Some(group) = group else {
            return (0..rows).map(|row| own.rows(row, 1)).collect();
        };
        let width = |rank| feature_range(features, group.size(), rank).len();
        let widths: Vec<usize> = (0..group.size()).map(width).collect();
        let counts = match widths.iter().all(|width| *width == self.heads.held) {
            true => Counts::Even(rows * self.heads.held),
            false => Counts::Uneven(widths.iter().map(|width| rows * width).collect()),
        };
        let parts = context.buffer(own.dtype(), &[rows * features])?;
        let compute = context.device().compute();
        group.all_gather(context, Subject::Norm, &compute, own, &parts, &counts)?;
        let whole = |row: usize| {
            let whole = context.buffer(own.dtype(), &[features])?;
            let (mut of_rank, mut at) = (0, 0);
            for &width in &widths {
                let part = parts.rows(of_rank + row * width, width)?;
                ops::copy(&part, &whole.rows(at, width)?)?;
                (of_rank, at) = (of_rank + rows * width, at + width);
            }
            Ok(whole)
        };
        (0..rows).map(whole).collect()
    }
}
