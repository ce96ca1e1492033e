//! Sums nodes of gradients over the ranks that split the batch.

use super::{addends::Addends, bucket::Bucket};
use crate::{
    Context, Group, Purpose,
    counters::Subject,
    sums::{Held, Leaves, Node, RowCut, Wire, add, complete},
};
use grid::Axis;
use hal::Counts;
use tensor::{Error, Result, Stream, Tensor, ops};

/// The sum of nodes over the axes that split the batch and do not cut a bucket's parameters.
pub(super) struct Reduction<'a> {
    pub(super) context: &'a Context,
    pub(super) cut: RowCut,
    /// The micro-batch whose rows are summed; `None` of all rows.
    pub(super) micro_batch: Option<usize>,
    pub(super) stream: &'a Stream,
    pub(super) axes: &'a [Axis],
}

impl Reduction<'_> {
    /// The complete sum, in the memory of the leftmost node.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the step's passes did not cover the rows of the cut; those of the collectives.
    pub(super) fn run(
        &self,
        leaves: Leaves,
        mut nodes: Vec<Node<Tensor>>,
    ) -> Result<Option<Tensor>> {
        for &axis in self.axes {
            nodes = self.over(axis, leaves, nodes)?;
        }
        complete(nodes, |left, right| add(self.stream, left, right))
    }

    /// The sum of the complete sums of all uses, in the memory of the first.
    ///
    /// # Errors
    /// As [`run`](Reduction::run).
    pub(super) fn uses(&self, uses: Vec<Addends>) -> Result<()> {
        let mut total: Option<Tensor> = None;
        for Addends { leaves, nodes } in uses {
            let sum = self.run(leaves, nodes)?;
            match (&total, sum) {
                (Some(total), Some(sum)) => add(self.stream, total, &sum)?,
                (None, sum) => total = sum,
                (Some(_), None) => {}
            }
        }
        Ok(())
    }

    // The nodes of all ranks of an axis, on every one of them.
    fn over(
        &self,
        axis: Axis,
        leaves: Leaves,
        nodes: Vec<Node<Tensor>>,
    ) -> Result<Vec<Node<Tensor>>> {
        let Some(group) = self.context.group(axis, Purpose::Bucket)? else {
            return Ok(nodes);
        };
        let wire = self.wire(&group);
        let (held, own) = self.held(axis, leaves, nodes)?;
        let Some(first) = own.first() else {
            return Ok(Vec::new());
        };
        let counts = wire.parts(first.num_elements());
        let joined = wire.join(&own, first.dtype(), &held, &counts)?;
        // The memory of the nodes receives the joined ones.
        let mut targets = own.iter().cloned();
        joined
            .into_iter()
            .map(|(node, part)| {
                let whole = match targets.next() {
                    Some(target) => target,
                    None => self.context.buffer(part.dtype(), first.shape())?,
                };
                wire.gather(&part, &counts, &whole)?;
                Ok((node, whole))
            })
            .collect()
    }

    /// As [`run`](Reduction::run), for a bucket of which each replica keeps its range of the complete sum.
    ///
    /// # Errors
    /// As there.
    pub(super) fn sharded(
        &self,
        bucket: &Bucket,
        leaves: Leaves,
        nodes: Vec<Node<Tensor>>,
    ) -> Result<()> {
        let parts = self.parts(leaves, nodes, bucket.counts())?;
        let sum = complete(parts, |left, right| add(self.stream, left, right))?;
        match (sum, bucket.own_gradients()?) {
            (Some(sum), Some(kept)) => ops::copy_on(self.stream, &sum, &kept),
            _ => Ok(()),
        }
    }

    /// This rank's part, by `counts` along Data, of the nodes of all replicas, joined as far as they complete larger ones.
    ///
    /// # Errors
    /// As [`run`](Reduction::run).
    pub(super) fn parts(
        &self,
        leaves: Leaves,
        mut nodes: Vec<Node<Tensor>>,
        counts: &Counts,
    ) -> Result<Vec<Node<Tensor>>> {
        for &axis in self.axes.iter().filter(|axis| **axis != Axis::Data) {
            nodes = self.over(axis, leaves, nodes)?;
        }
        let Some(group) = self.context.group(Axis::Data, Purpose::Bucket)? else {
            return Ok(nodes);
        };
        let (held, own) = self.held(Axis::Data, leaves, nodes)?;
        match own.first() {
            Some(first) => self.wire(&group).join(&own, first.dtype(), &held, counts),
            None => Ok(Vec::new()),
        }
    }

    fn wire<'a>(&'a self, group: &'a Group) -> Wire<'a> {
        Wire {
            context: self.context,
            group,
            subject: Subject::Gradients,
            stream: self.stream,
        }
    }

    // Who holds which nodes; this rank's must be those that its passes were to compute.
    fn held(
        &self,
        axis: Axis,
        leaves: Leaves,
        nodes: Vec<Node<Tensor>>,
    ) -> Result<(Held, Vec<Tensor>)> {
        let (context, cut) = (self.context, self.cut);
        let held = match (axis, self.micro_batch) {
            (Axis::Data, None) => Held::along_data(context, cut, leaves),
            (Axis::Data, Some(one)) => Held::micro_batch_along_data(context, cut, leaves, one),
            (_, None) => Held::steps_along_z(context, cut, leaves),
            (_, Some(one)) => Held::along_z(context, cut, leaves, one),
        };
        let (found, own): (Vec<_>, Vec<_>) = nodes.into_iter().unzip();
        let needed = held.of(self.context.index(axis));
        match found == needed {
            true => Ok((held, own)),
            false => Err(Error::invalid(
                "reduction of gradients",
                format!("rows {found:?} of {}", self.cut.batch),
                match self.micro_batch {
                    None => format!("those of all micro-batches: {needed:?}"),
                    Some(one) => format!("those of micro-batch {one}: {needed:?}"),
                },
            )),
        }
    }
}
