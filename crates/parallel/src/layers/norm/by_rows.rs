//! The backward pass of a norm in an order that is the same on every grid.

use super::{Saved, columns};
use crate::{
    counters::Subject,
    layers::{scatter::Grain, spread::Spread},
    sums::{self, Features},
};
use grid::Axis;
use std::ops::Range;
use tensor::{
    Result, Tensor,
    ops::{
        self,
        norm::{self, Gradients, NormShape},
    },
};

impl Saved {
    pub(super) fn backward_by_rows(
        &self,
        d_out: &Tensor,
        arrived: &mut Option<Tensor>,
    ) -> Result<Tensor> {
        match (&self.spread, self.axis) {
            (Some(spread), _) => self.of_all(spread, d_out),
            (None, None) => self.of_full_rows(d_out, arrived),
            (None, Some(axis)) => self.of_cut_rows(d_out, axis),
        }
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
        spread.cut(context, &all.backward_by_rows(&gather(d_out)?, &mut None)?)
    }

    fn of_full_rows(&self, d_out: &Tensor, arrived: &mut Option<Tensor>) -> Result<Tensor> {
        let (gain, arrived) = (self.gain.value()?, arrived.take());
        let d_x = Tensor::empty(self.x.device(), self.x.dtype(), self.x.shape())?;
        self.each_leaf(|rows, _| {
            let [x, moments, d_out, d_x] =
                [&self.x, &self.moments, d_out, &d_x].map(|all| self.pass.part(all, rows));
            let (x, [d_gain, d_bias]) = (x?, self.vectors(&gain)?);
            let addend = arrived.as_ref().map(|all| self.pass.part(all, rows));
            let addend = addend.transpose()?;
            let gradients = Gradients {
                d_x: &d_x?,
                d_gain: &d_gain,
                d_bias: self.bias.is_some().then_some(&d_bias),
                addend: addend.as_ref(),
            };
            let shape = NormShape {
                rows: x.num_rows(),
                ..self.shape
            };
            norm::backward(shape, &x, &moments?, &gain, &d_out?, gradients, 0.0)?;
            Ok([d_gain, d_bias])
        })?;
        Ok(d_x)
    }

    // The row sums node by node over features, and the gradients of gain and bias leaf by leaf over rows.
    fn of_cut_rows(&self, d_out: &Tensor, axis: Axis) -> Result<Tensor> {
        let (context, shape, gain) = (self.pass.context(), self.shape, self.gain.value()?);
        let features = Features::of(context, axis, shape.global_columns)?;
        let own = features.own();
        let (dtype, numbers) = (gain.dtype().accumulator(), [shape.rows, 2]);
        let sums: Vec<Tensor> = (0..own.len())
            .map(|_| context.buffer(dtype, &numbers))
            .collect::<Result<_>>()?;
        self.each_leaf(|rows, inner| self.leaf_sums(&gain, d_out, (rows, inner), &own, &sums))?;
        let sums = sums::sum_nodes(context, Subject::Norm, &features, &sums, (dtype, &numbers))?;
        norm::normalize_backward(shape, &self.x, &self.moments, &gain, d_out, &sums)
    }

    // Adds the gradients of gain and bias that `of_leaf` computes from the rows of a leaf; its second argument is the number of
    // vectors of a row.
    fn each_leaf(
        &self,
        of_leaf: impl Fn(&Range<usize>, usize) -> Result<[Tensor; 2]>,
    ) -> Result<()> {
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
            let gradients = of_leaf(&rows, inner)?;
            for &(index, parameter, at_use) in &trained {
                let add = |target: &Tensor, beta| ops::axpby(1.0, &gradients[index], beta, target);
                self.pass
                    .add_node(parameter, (at_use, leaves), leaf.clone(), add)?;
            }
        }
        trained
            .into_iter()
            .try_for_each(|(_, parameter, _)| self.pass.gradient_added(parameter))
    }

    // Memory for the gradients of gain and bias.
    fn vectors(&self, gain: &Tensor) -> Result<[Tensor; 2]> {
        let dtype = gain.dtype().accumulator();
        let vector = || self.pass.context().buffer(dtype, &[self.shape.columns]);
        Ok([vector()?, vector()?])
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
        let [x, moments, d_out] =
            [&self.x, &self.moments, d_out].map(|all| self.pass.part(all, rows));
        let (x, moments, d_out) = (x?, moments?, d_out?);
        let [d_gain, d_bias] = self.vectors(gain)?;
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
}
