//! The gradients of a step as nodes of sums over the rows of the batch, for sums that no grid changes.
//!
//! A parameter may be used several times in a pass, like a table that is also the head. Each use has a sum of its own,
//! because other grids compute the uses on other ranks; the complete sums are added in the order in which backward meets
//! the uses. The leftmost node of the first use lies in the gradient itself. Others take memory only while they wait: at
//! most one per level of the tree.

use super::{
    ParameterSet,
    bucket::Bucket,
    open::{self, SumOf},
    reduction::Reduction,
};
use crate::{
    Parameter,
    sums::{Held, Leaves, Node, RowCut, add, join},
};
use grid::Axis;
use hal::sums::are_halves;
use std::ops::Range;
use tensor::{Result, Stream, Tensor};

/// What one use of a parameter has received in a step.
#[derive(Debug)]
pub(super) struct Addends {
    pub(super) leaves: Leaves,
    pub(super) nodes: Vec<Node<Tensor>>,
}

impl ParameterSet {
    /// Adds a node to the gradient of a use of `parameter` in a micro-batch. `fill(target, beta)` computes `beta * target` plus
    /// it.
    ///
    /// # Errors
    /// Those of `fill`; [`OutOfMemory`](tensor::Error::OutOfMemory).
    pub(crate) fn add_node(
        &self,
        (parameter, micro_batch): (&Parameter, usize),
        (at_use, leaves): (usize, Leaves),
        node: Range<usize>,
        fill: impl FnOnce(&Tensor, f64) -> Result<()>,
    ) -> Result<()> {
        let Some(home) = parameter.settled() else {
            return Ok(());
        };
        if self.0.options.sharding.shards_gradients() {
            let at = SumOf {
                number: at_use,
                leaves: Some(leaves),
            };
            return self.add_open_node((parameter, micro_batch), at, node, fill);
        }
        let mut all = self.0.addends.borrow_mut();
        let uses = &mut all[home.index];
        while uses.len() <= at_use {
            let nodes = Vec::new();
            uses.push(Addends { leaves, nodes });
        }
        let (context, gradient) = (&self.0.context, parameter.gradient()?);
        let memory = |place| match (place, at_use) {
            (0, 0) => Ok(gradient),
            _ => open::gradients(context, gradient.dtype(), gradient.shape()),
        };
        let compute = context.device().compute();
        receive(&compute, &mut uses[at_use].nodes, node, fill, memory)
    }

    /// Forgets all nodes of the step before.
    pub(super) fn forget_addends(&self) {
        self.0.addends.borrow_mut().iter_mut().for_each(Vec::clear);
    }

    /// Sums the gradients of a bucket over all uses, micro-batches and replicas.
    ///
    /// # Errors
    /// [`Invalid`](tensor::Error::Invalid) if the step's passes did not cover the rows of `cut`, and for a parameter that more
    /// than two stages share; those of the collectives.
    pub(super) fn reduce_nodes(&self, bucket: &Bucket, cut: RowCut, stream: &Stream) -> Result<()> {
        let context = &self.0.context;
        let mut of_bucket = Vec::new();
        for parameter in &bucket.parameters {
            let index = parameter.settled().map_or(0, |home| home.index);
            let uses = std::mem::take(&mut self.0.addends.borrow_mut()[index]);
            bucket.check_tie(parameter, uses.len())?;
            if !uses.is_empty() {
                of_bucket.push((parameter, uses));
            }
        }
        let sum = Reduction {
            context,
            cut,
            micro_batch: None,
            stream,
            axes: &bucket.sum_axes,
        };
        // Ranks must not differ in this choice, so it follows from the cut and not from the nodes of this rank.
        let over_z = bucket.sum_axes.contains(&Axis::Z);
        let in_one = alike(&of_bucket)
            .filter(|(leaves, _)| Held::rows_are_single(context, cut, *leaves, over_z));
        match (in_one, &bucket.gradients) {
            (Some((leaves, Some(node))), Some(gradients)) => {
                let nodes = vec![(node, gradients.tensor()?.clone())];
                match bucket.is_sharded() {
                    true => sum.sharded(bucket, leaves, nodes),
                    false => sum.run(leaves, nodes).map(drop),
                }
            }
            _ => of_bucket
                .into_iter()
                .try_for_each(|(_, uses)| sum.uses(uses)),
        }
    }
}

/// Adds a node to those that wait. `fill(target, beta)` computes `beta * target` plus it; `memory(place)` is the target of a
/// node that completes no other, at this place among those that wait.
///
/// # Errors
/// Those of `fill` and `memory`, and of the additions.
pub(super) fn receive(
    stream: &Stream,
    nodes: &mut Vec<Node<Tensor>>,
    node: Range<usize>,
    fill: impl FnOnce(&Tensor, f64) -> Result<()>,
    memory: impl FnOnce(usize) -> Result<Tensor>,
) -> Result<()> {
    match nodes.last_mut() {
        Some((left, sum)) if are_halves(left, &node) => {
            fill(sum, 1.0)?;
            left.end = node.end;
            // The node that this completes may be a half itself.
            let joined = nodes.pop().expect("it was the last one");
            join(nodes, joined, |left, right| add(stream, left, right))
        }
        _ => {
            let target = memory(nodes.len())?;
            fill(&target, 0.0)?;
            nodes.push((node, target));
            Ok(())
        }
    }
}

// The leaves of all parameters of a bucket, and the first node, if each has one use and they agree: the bucket can then be
// summed in one piece where every rank has one node.
fn alike(of_bucket: &[(&Parameter, Vec<Addends>)]) -> Option<(Leaves, Option<Range<usize>>)> {
    let one = |uses: &[Addends]| match uses {
        [Addends { leaves, nodes }] => Some((*leaves, nodes.first().map(|(node, _)| node.clone()))),
        _ => None,
    };
    let (_, first) = of_bucket.first()?;
    let (leaves, node) = one(first)?;
    let mut uses = of_bucket.iter().map(|(_, uses)| one(uses));
    let all = uses.all(|one| one.is_some_and(|(others, _)| others == leaves));
    all.then_some((leaves, node))
}
