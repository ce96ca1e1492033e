//! Adds to gradients what a pass computes: directly, or over Z first, overlapping the backward of earlier layers if
//! requested (ORS).

use crate::{
    Parameter, Pass, Purpose, Reproducible,
    counters::Subject,
    lane::Lane,
    layers::spread::Share,
    sums::{Held, Leaves, Node, Wire, add, join},
};
use grid::Axis;
use std::{collections::VecDeque, ops::Range};
use tensor::{DType, Result, Stream, Tensor, ops};

/// Shards of gradients whose reduce-scatter has been issued, oldest first.
#[derive(Default)]
pub(crate) struct Scatterer {
    pending: VecDeque<Pending>,
}

// The parameter, the micro-batch that has computed its gradient, and the shard of that.
type Pending = (Parameter, usize, Scattered);

// What the reduce-scatter of a block leaves on this rank.
enum Scattered {
    // The sum.
    Sum(Tensor),
    // The nodes of a use of the parameter.
    Nodes((usize, Leaves), Vec<Node<Tensor>>),
    // Nothing: another rank's addend counts. It takes its turn among the others, so that all ranks hand gradients to buckets in
    // the same order.
    Nothing,
}

// Number of reduce-scatters that may be in flight before the oldest is added to its gradient. A fixed number,
// not "those that are complete", so that all ranks add, and hand gradients to buckets, in the same order.
const DEPTH: usize = 4;

/// The rows that a gradient can be computed from at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Grain {
    /// Any node of the sum over the batch: the operation adds the rows of a node as the tree does.
    Node,
    /// A leaf.
    Leaf,
}

/// A gradient that a pass computes.
pub(crate) struct Addend<'a> {
    pub(crate) parameter: &'a Parameter,
    pub(crate) subject: Subject,
    /// The type in which a block travels over Z, unless sums are to be reproducible.
    pub(crate) block_dtype: DType,
    /// Vectors of each row of the batch, such as its tokens.
    pub(crate) inner: usize,
    pub(crate) grain: Grain,
    /// Which use of the parameter it comes from, as [`Pass::count_use`] numbers them.
    pub(crate) number: usize,
    /// Which part of its rows' vectors it is computed from.
    pub(crate) share: Share,
}

impl Addend<'_> {
    /// Adds to the gradient what `into(rows, target, beta)` computes from some of the pass's rows, counted from its
    /// first one: it stores `beta * target` plus that in `target`, which has the parameter's shape, or that of its
    /// block if ranks of Z share it. A frozen parameter receives nothing.
    ///
    /// # Cost
    /// With ranks on Z that share the parameter, a reduce-scatter of the block. With ORS it runs behind what follows.
    /// # Errors
    /// Those of `into`; those of the collective, here or later; those of [`Pass::gradient_of`].
    pub(crate) fn add(
        self,
        pass: &Pass,
        mut into: impl FnMut(&Range<usize>, &Tensor, f64) -> Result<()>,
    ) -> Result<()> {
        let Addend {
            parameter,
            inner,
            number,
            ..
        } = self;
        if parameter.is_frozen() {
            return Ok(());
        }
        let context = pass.context();
        pass.check_gradient(parameter)?;
        if !pass.counts(parameter, self.share) {
            return match parameter.is_scattered(context) {
                true => push(pass, parameter, Scattered::Nothing),
                false => pass.skip(parameter),
            };
        }
        let all = 0..pass.rows().len();
        let by_nodes = context.settings().reproducible == Reproducible::Grid;
        match (parameter.is_scattered(context), by_nodes) {
            (false, false) => {
                let (gradient, factor) = pass.gradient_of(parameter)?;
                into(&all, &gradient, factor)?;
                pass.gradient_added(parameter)
            }
            (true, false) => {
                let block = context.buffer(self.block_dtype, &parameter.block_shape(context))?;
                into(&all, &block, 0.0)?;
                self.scatter(pass, block)
            }
            (is_scattered, true) => {
                let (leaves, nodes) = pass.nodes(inner, self.grain)?;
                let at_use = (number, leaves);
                let rows = pass.rows();
                if is_scattered {
                    let (compute, mut blocks) = (context.device().compute(), Vec::new());
                    let dtype = parameter.dtype()?.accumulator();
                    for node in nodes {
                        let shape = parameter.block_shape(context);
                        let block = context.buffer(dtype, &shape)?;
                        into(&leaves.rows_of(&node, &rows), &block, 0.0)?;
                        join(&mut blocks, (node, block), |left, right| {
                            add(&compute, left, right)
                        })?;
                    }
                    return self.scatter_nodes(pass, at_use, blocks);
                }
                for node in nodes {
                    let of_node = leaves.rows_of(&node, &rows);
                    pass.add_node(parameter, at_use, node, |target, beta| {
                        into(&of_node, target, beta)
                    })?;
                }
                pass.gradient_added(parameter)
            }
        }
    }

    fn scatter(self, pass: &Pass, block: Tensor) -> Result<()> {
        let context = pass.context();
        let group = context
            .group(Axis::Z, Purpose::Scatter)?
            .expect("a scattered parameter has ranks on Z");
        let part = context.buffer(block.dtype(), self.parameter.local_shape())?;
        let counts = self.parameter.block_counts(context);
        let stream = stream(pass)?;
        group.reduce_scatter(context, self.subject, &stream, &block, &part, &counts)?;
        push(pass, self.parameter, Scattered::Sum(part))
    }

    fn scatter_nodes(
        self,
        pass: &Pass,
        at_use: (usize, Leaves),
        blocks: Vec<Node<Tensor>>,
    ) -> Result<()> {
        let context = pass.context();
        let group = context
            .group(Axis::Z, Purpose::Scatter)?
            .expect("a scattered parameter has ranks on Z");
        let held = Held::along_z(context, pass.cut(), at_use.1, pass.micro_batch());
        let own: Vec<Tensor> = blocks.into_iter().map(|(_, block)| block).collect();
        let dtype = self.parameter.dtype()?.accumulator();
        let counts = self.parameter.block_counts(context);
        let wire = Wire {
            context,
            group: &group,
            subject: self.subject,
            stream: &stream(pass)?,
        };
        let nodes = wire.join(&own, dtype, &held, &counts)?;
        push(pass, self.parameter, Scattered::Nodes(at_use, nodes))
    }
}

fn stream(pass: &Pass) -> Result<Stream> {
    let context = pass.context();
    match context.settings().overlap.reduce_scatter {
        true => context.stream(Lane::Scatter),
        false => Ok(context.device().compute()),
    }
}

fn push(pass: &Pass, parameter: &Parameter, scattered: Scattered) -> Result<()> {
    let behind = pass.context().settings().overlap.reduce_scatter;
    let mut scatterer = pass.scatterer().borrow_mut();
    let pending = (parameter.clone(), pass.micro_batch(), scattered);
    scatterer.pending.push_back(pending);
    drop(scatterer);
    settle(pass, if behind { DEPTH } else { 0 })
}

/// Adds the oldest shards to their gradients until at most `left` are in flight.
///
/// # Errors
/// Those of the collectives that end here.
pub(crate) fn settle(pass: &Pass, left: usize) -> Result<()> {
    loop {
        let mut scatterer = pass.scatterer().borrow_mut();
        if scatterer.pending.len() <= left {
            return Ok(());
        }
        let Some((parameter, micro_batch, scattered)) = scatterer.pending.pop_front() else {
            return Ok(());
        };
        drop(scatterer);
        let pass = pass.of_micro_batch(micro_batch);
        match scattered {
            Scattered::Nothing => {
                pass.skip(&parameter)?;
                continue;
            }
            Scattered::Sum(part) => {
                let (gradient, factor) = pass.gradient_of(&parameter)?;
                ops::axpby(1.0, &part, factor, &gradient)?;
            }
            Scattered::Nodes(at_use, nodes) => {
                for (node, part) in nodes {
                    pass.add_node(&parameter, at_use, node, |target, beta| {
                        ops::axpby(1.0, &part, beta, target)
                    })?;
                }
            }
        }
        pass.gradient_added(&parameter)?;
    }
}
