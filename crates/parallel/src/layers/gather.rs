//! Gathers weights over Z, ahead of their use if requested (OAG).
//!
//! The order in which a pass requests weights is learnt from the previous pass of the same kind, not from the
//! order in which layers were made. It covers first forward, recomputed forward and backward alike. The next
//! gathers are issued on a separate stream before the current weight is used, as far ahead as a budget of bytes
//! allows. Decisions depend only on the sequence of requests, which is the same on all ranks of Z, so their
//! collectives stay in step.

use crate::{Context, Parameter, Pass, Purpose, counters::Subject, lane::Lane};
use grid::Axis;
use std::{collections::VecDeque, rc::Rc};
use tensor::{Result, Tensor, ops};

/// A weight, and the subject of its traffic.
pub(crate) type Request = (Parameter, Subject);

/// The requests of a pass, those of the previous pass of its kind, and the gathers in flight.
#[derive(Default)]
pub(crate) struct Gatherer {
    expected: Rc<[Request]>,
    asked: Vec<Request>,
    ahead: VecDeque<Tensor>,
    astray: bool,
}

impl Gatherer {
    /// Expects the weights that the last pass of the same kind requested, in its order.
    pub(crate) fn expecting(expected: Rc<[Request]>) -> Gatherer {
        Gatherer {
            expected,
            ..Gatherer::default()
        }
    }

    /// The requests of the pass; no gather is in flight any more.
    pub(crate) fn finish(&mut self) -> Vec<Request> {
        self.ahead.clear();
        std::mem::take(&mut self.asked)
    }

    // Records a request; returns whether the pass still follows the learnt order.
    fn note(&mut self, parameter: &Parameter, subject: Subject) -> bool {
        let expected = self.expected.get(self.asked.len());
        self.astray |= expected.is_none_or(|expected| !expected.0.is(parameter));
        self.asked.push((parameter.clone(), subject));
        if self.astray {
            self.ahead.clear();
        }
        !self.astray
    }

    // The gather after those in flight, if it fits the budget; at least one is always ahead.
    fn next(&self, budget: usize) -> Option<Request> {
        let next = self.expected.get(self.asked.len() + self.ahead.len())?;
        let waiting: usize = self.ahead.iter().map(Tensor::bytes).sum();
        (self.ahead.is_empty() || waiting < budget).then(|| next.clone())
    }
}

/// The block of `parameter` that the ranks of Z hold together; without ranks on Z, its own value, not a copy.
///
/// # Shapes
/// Rows of all shards of Z x columns of this rank's.
/// # Cost
/// An all-gather of the block over Z, which may have been issued before.
/// # Errors
/// Those of the collective, here or where the block is used.
pub(crate) fn gather(pass: &Pass, parameter: &Parameter, subject: Subject) -> Result<Tensor> {
    let context = pass.context();
    if !parameter.is_scattered(context) {
        return parameter.value();
    }
    let overlap = context.settings().overlap;
    if !overlap.all_gather || !(overlap.all_gather_forward || pass.is_backward()) {
        let block = issue(pass, parameter, subject, false)?;
        return readable(context, parameter, block);
    }
    let follows = pass.gatherer().borrow_mut().note(parameter, subject);
    let ready = pass.gatherer().borrow_mut().ahead.pop_front();
    let block = match ready {
        Some(block) => block,
        None => issue(pass, parameter, subject, true)?,
    };
    if follows {
        issue_ahead(pass)?;
    }
    readable(context, parameter, block)
}

// A block that was gathered as codes or in the accumulator type, in the type of its use.
fn readable(context: &Context, parameter: &Parameter, block: Tensor) -> Result<Tensor> {
    let (block, dtype) = (
        parameter.dequantised_block(context, block)?,
        parameter.dtype()?,
    );
    match block.dtype() == dtype {
        true => Ok(block),
        false => ops::cast(&block, dtype),
    }
}

// Issues the next gathers, as far as the budget allows.
fn issue_ahead(pass: &Pass) -> Result<()> {
    let budget = pass.context().settings().gather_budget;
    loop {
        let next = pass.gatherer().borrow().next(budget);
        let Some((next, subject)) = next else {
            return Ok(());
        };
        let on_its_way = issue(pass, &next, subject, true)?;
        pass.gatherer().borrow_mut().ahead.push_back(on_its_way);
    }
}

fn issue(pass: &Pass, parameter: &Parameter, subject: Subject, ahead: bool) -> Result<Tensor> {
    let context = pass.context();
    let mut value = parameter.stored()?;
    let is_float = parameter.quantised().is_none();
    if is_float && context.settings().gather_wide && value.dtype() != value.dtype().accumulator() {
        value = ops::cast(&value, value.dtype().accumulator())?;
    }
    let (shape, counts) = parameter.stored_block(context);
    let block = context.buffer(value.dtype(), &shape)?;
    let group = context
        .group(Axis::Z, Purpose::Gather)?
        .expect("a scattered parameter has ranks on Z");
    let stream = match ahead {
        true => context.stream(Lane::Gather)?,
        false => context.device().compute(),
    };
    group.all_gather(context, subject, &stream, &value, &block, &counts)?;
    Ok(block)
}
