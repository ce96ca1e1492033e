//! The gradients of a micro-batch, whole, until they are summed into shards.
//!
//! Where replicas shard gradients, a bucket has no memory for whole ones. A micro-batch that adds to one of its parameters
//! opens the bucket: it takes flat buffers for all of them. Once each parameter has received its addends, the buffers are
//! summed into the shards and freed. Micro-batches have buffers of their own, because a schedule may run the backward pass of
//! one while gradients of another's weights are still put off.

use super::{addends::receive, bucket::Bucket};
use crate::{
    Context,
    sums::{Leaves, Node},
};
use std::ops::Range;
use tensor::{DType, MemoryKind, Result, Tensor};

/// What a bucket has received in a micro-batch and not yet summed into shards.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) micro_batch: usize,
    /// Addends to each parameter of the bucket.
    pub(super) received: Vec<usize>,
    pub(super) sums: Vec<OpenSum>,
}

/// A sum of one use of the parameters, over the rows of the micro-batch on this rank.
#[derive(Debug)]
pub(super) struct OpenSum {
    pub(super) at: SumOf,
    /// Flat buffers: of the sum, or of each of its nodes, from left to right.
    pub(super) flats: Vec<Tensor>,
    /// The nodes of each parameter of the bucket, in views of these buffers; empty where sums have no nodes.
    pub(super) nodes: Vec<Vec<Node<Tensor>>>,
    /// Whether a parameter is part of the sum.
    pub(super) has: Vec<bool>,
}

/// What a sum consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SumOf {
    /// The number of the parameters' use in a pass; 0 where all uses are added as they come.
    pub(super) number: usize,
    /// The leaves of the sum over the batch, if grids are not to change it.
    pub(super) leaves: Option<Leaves>,
}

impl SumOf {
    /// All uses, added as they come.
    pub(super) const ALL: SumOf = SumOf {
        number: 0,
        leaves: None,
    };

    /// In this order ranks exchange their sums.
    pub(super) fn order(&self) -> (usize, usize) {
        (self.number, self.leaves.map_or(0, |leaves| leaves.rows))
    }
}

impl Open {
    pub(super) fn new(micro_batch: usize, bucket: &Bucket) -> Open {
        Open {
            micro_batch,
            received: vec![0; bucket.parameters.len()],
            sums: Vec::new(),
        }
    }

    fn sum(&mut self, at: SumOf) -> &mut OpenSum {
        let num_parameters = self.received.len();
        let index = self.sums.iter().position(|sum| sum.at == at);
        let index = index.unwrap_or_else(|| {
            self.sums.push(OpenSum {
                at,
                flats: Vec::new(),
                nodes: vec![Vec::new(); num_parameters],
                has: vec![false; num_parameters],
            });
            self.sums.len() - 1
        });
        &mut self.sums[index]
    }

    /// The gradient of the bucket's parameter `index`, and the factor of what it holds: 0 before the first addend.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`](tensor::Error::OutOfMemory).
    pub(super) fn gradient(
        &mut self,
        context: &Context,
        bucket: &Bucket,
        index: usize,
    ) -> Result<(Tensor, f64)> {
        let factor = if self.received[index] == 0 { 0.0 } else { 1.0 };
        let sum = self.sum(SumOf::ALL);
        sum.has[index] = true;
        Ok((view(&mut sum.flats, 0, (context, bucket, index))?, factor))
    }

    /// Adds a node, as [`ParameterSet::add_node`](super::ParameterSet::add_node).
    pub(super) fn add_node(
        &mut self,
        (context, bucket, index): (&Context, &Bucket, usize),
        at: SumOf,
        node: Range<usize>,
        fill: impl FnOnce(&Tensor, f64) -> Result<()>,
    ) -> Result<()> {
        let OpenSum {
            flats, nodes, has, ..
        } = self.sum(at);
        has[index] = true;
        let compute = context.device().compute();
        // All parameters have the same nodes in the end, so the nodes of one place share a buffer.
        receive(&compute, &mut nodes[index], node, fill, |place| {
            view(flats, place, (context, bucket, index))
        })
    }
}

// The part of a flat buffer that belongs to a parameter; the buffer is allocated if it is the next one.
fn view(
    flats: &mut Vec<Tensor>,
    place: usize,
    (context, bucket, index): (&Context, &Bucket, usize),
) -> Result<Tensor> {
    if place == flats.len() {
        flats.push(gradients(context, bucket.accumulator(), &[bucket.len()])?);
    }
    let of_parameter = &bucket.places[index];
    flats[place]
        .rows(of_parameter.start, of_parameter.len())?
        .reshape(bucket.parameters[index].local_shape())
}

/// Memory for gradients.
pub(super) fn gradients(context: &Context, dtype: DType, shape: &[usize]) -> Result<Tensor> {
    let device = context.device();
    device.allocating(MemoryKind::Gradients, || {
        Tensor::empty(device, dtype, shape)
    })
}
