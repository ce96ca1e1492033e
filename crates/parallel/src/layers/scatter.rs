//! Sums weight gradients over Z, overlapping the backward of earlier layers if requested (ORS).

use crate::{Parameter, Pass, Purpose, counters::Subject, lane::Lane};
use grid::Axis;
use std::collections::VecDeque;
use tensor::{DType, Result, Tensor, ops};

/// Shards of gradients whose reduce-scatter has been issued, oldest first.
#[derive(Default)]
pub(crate) struct Scatterer {
    pending: VecDeque<(Parameter, Tensor)>,
}

// Number of reduce-scatters that may be in flight before the oldest is added to its gradient. A fixed number,
// not "those that are complete", so that all ranks add, and hand gradients to buckets, in the same order.
const DEPTH: usize = 4;

/// Adds the sum over Z of `block`, a gradient for the full block of `parameter`, to this rank's shard of the
/// gradient.
/// # Cost
/// A reduce-scatter of the block over Z. With ORS it runs behind what follows.
/// # Errors
/// Those of the collective, here or later.
fn scatter(pass: &Pass, parameter: &Parameter, subject: Subject, block: Tensor) -> Result<()> {
    let context = pass.context();
    let group = context
        .group(Axis::Z, Purpose::Scatter)?
        .expect("a scattered parameter has ranks on Z");
    let part = context.buffer(block.dtype(), parameter.local_shape())?;
    let behind = context.settings().overlap.reduce_scatter;
    let stream = match behind {
        true => context.stream(Lane::Scatter)?,
        false => context.device().compute(),
    };
    let counts = parameter.block_counts(context);
    group.reduce_scatter(context, subject, &stream, &block, &part, &counts)?;
    let mut scatterer = pass.scatterer().borrow_mut();
    scatterer.pending.push_back((parameter.clone(), part));
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
        let Some((parameter, part)) = scatterer.pending.pop_front() else {
            return Ok(());
        };
        drop(scatterer);
        let (gradient, factor) = pass.gradient_of(&parameter)?;
        ops::axpby(1.0, &part, factor, &gradient)?;
        pass.gradient_added(&parameter)?;
    }
}

/// Adds `block`, a gradient computed in the accumulator type by `into`, to the gradient of `parameter`.
///
/// Without ranks on Z, `into` adds directly to the gradient; otherwise it fills a separate block. A frozen
/// parameter receives nothing.
pub(crate) fn accumulate(
    pass: &Pass,
    parameter: &Parameter,
    subject: Subject,
    block_dtype: DType,
    into: impl FnOnce(&Tensor, f64) -> Result<()>,
) -> Result<()> {
    if parameter.is_frozen() {
        return Ok(());
    }
    let (context, (gradient, factor)) = (pass.context(), pass.gradient_of(parameter)?);
    if !parameter.is_scattered(context) {
        into(&gradient, factor)?;
        return pass.gradient_added(parameter);
    }
    let block = context.buffer(block_dtype, &parameter.block_shape(context))?;
    into(&block, 0.0)?;
    scatter(pass, parameter, subject, block)
}
