//! The rows of a pass as leaves and nodes of the sums over the batch.

use super::Pass;
use crate::{
    Parameter, Reproducible,
    layers::scatter::Grain,
    sums::{Leaves, part},
};
use std::ops::Range;
use tensor::{Result, Tensor};

impl Pass {
    /// The leaves of sums over rows of `inner` vectors, and the nodes or leaves of this pass.
    ///
    /// # Errors
    /// [`Error::Invalid`](tensor::Error::Invalid) if the rows of a micro-batch on some rank do not end with a leaf.
    pub(crate) fn nodes(&self, inner: usize, grain: Grain) -> Result<(Leaves, Vec<Range<usize>>)> {
        let (leaves, rows) = (Leaves::of(self.num_rows(), inner), self.rows());
        if self.shared.fitting_leaf.get() != leaves.rows {
            leaves.check(self.context().grid(), self.cut())?;
            self.shared.fitting_leaf.set(leaves.rows);
        }
        let nodes = leaves.nodes(rows);
        Ok((
            leaves,
            match grain {
                Grain::Node => nodes.collect(),
                Grain::Leaf => nodes.flatten().map(|leaf| leaf..leaf + 1).collect(),
            },
        ))
    }

    /// Whether sums over the batch consist of leaves, each of which needs all vectors of its rows.
    pub(crate) fn sums_by_rows(&self) -> bool {
        self.context().settings().reproducible == Reproducible::Grid
    }

    /// The vectors of `tensor` that belong to some of this pass's rows, counted from its first one.
    ///
    /// # Shapes
    /// `tensor`: (rows x inner) x columns, with the vectors of all rows. The result: those of `rows`, as a matrix.
    /// # Errors
    /// [`Error::Invalid`](tensor::Error::Invalid) if the tensor does not hold them.
    pub fn part(&self, tensor: &Tensor, rows: &Range<usize>) -> Result<Tensor> {
        part(tensor, rows, self.rows().len())
    }

    /// Vectors of `tensor` that belong to each of this pass's rows, such as a row's tokens.
    pub(crate) fn inner(&self, tensor: &Tensor) -> usize {
        tensor.num_rows() / self.rows().len().max(1)
    }

    /// Counts a use of `parameter` in this pass; returns how many came before.
    pub(crate) fn count_use(&self, parameter: &Parameter) -> usize {
        let index = parameter.settled().map_or(0, |home| home.index);
        let mut uses = self.uses.borrow_mut();
        let count = uses.entry(index).or_default();
        *count += 1;
        *count - 1
    }

    /// As [`ParameterSet::add_node`](crate::data::ParameterSet).
    pub(crate) fn add_node(
        &self,
        parameter: &Parameter,
        at_use: (usize, Leaves),
        node: Range<usize>,
        fill: impl FnOnce(&Tensor, f64) -> Result<()>,
    ) -> Result<()> {
        match &self.shared.parameters {
            Some(set) => set.add_node((parameter, self.micro_batch), at_use, node, fill),
            None => Ok(()),
        }
    }
}
