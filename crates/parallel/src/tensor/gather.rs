//! Gathering weights over Z, ahead of their use where that is asked for (OAG).
//!
//! The order in which a pass asks for weights is learnt from the pass before of the same kind, not from the order in
//! which layers were made; it covers first and recomputed forward and backward alike. The next gathers are issued on a
//! stream of their own before the current weight is used, as far ahead as a budget of bytes allows. Decisions depend
//! on the sequence of requests alone, which is the same on all ranks of Z, so their collectives stay in step.

use crate::{Context, Parameter, Purpose, counters::Subject};
use ::tensor::{DType, Result, Tensor, ops};
use grid::Axis;
use std::collections::{HashMap, VecDeque};

/// A weight, and what its traffic counts as.
type Request = (Parameter, Subject);

/// What is asked for, what was asked for last time, and what is on its way.
#[derive(Default)]
pub(crate) struct Gatherer {
    pass: &'static str,
    learnt: HashMap<&'static str, Vec<Request>>,
    asked: Vec<Request>,
    ahead: VecDeque<Tensor>,
    astray: bool,
}

impl Gatherer {
    /// Starts a pass of that kind, and remembers the order of the one that ended.
    pub(crate) fn begin(&mut self, pass: &'static str) {
        let asked = std::mem::take(&mut self.asked);
        if !asked.is_empty() {
            self.learnt.insert(self.pass, asked);
        }
        *self = Gatherer {
            pass,
            learnt: std::mem::take(&mut self.learnt),
            ..Gatherer::default()
        };
    }

    // Notes a request; whether the pass still follows the learnt order.
    fn note(&mut self, parameter: &Parameter, subject: Subject) -> bool {
        let expected = self
            .learnt
            .get(self.pass)
            .and_then(|learnt| learnt.get(self.asked.len()));
        self.astray |= expected.is_none_or(|expected| expected.0.name() != parameter.name());
        self.asked.push((parameter.clone(), subject));
        if self.astray {
            self.ahead.clear();
        }
        !self.astray
    }

    // The gather after those on their way, if it fits the budget; at least one is always ahead.
    fn next(&self, budget: usize) -> Option<Request> {
        let next = self
            .learnt
            .get(self.pass)?
            .get(self.asked.len() + self.ahead.len())?;
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
pub(crate) fn gather(context: &Context, parameter: &Parameter, subject: Subject) -> Result<Tensor> {
    if !parameter.is_scattered(context) {
        return Ok(parameter.value());
    }
    let overlap = context.settings().overlap;
    let dtype = parameter.value().dtype();
    if !overlap.all_gather || !(overlap.all_gather_forward || context.is_backward()) {
        return narrowed(issue(context, parameter, subject, false)?, dtype);
    }
    let follows = context.gatherer().borrow_mut().note(parameter, subject);
    let ready = context.gatherer().borrow_mut().ahead.pop_front();
    let block = match ready {
        Some(block) => block,
        None => issue(context, parameter, subject, true)?,
    };
    if follows {
        issue_ahead(context)?;
    }
    narrowed(block, dtype)
}

// A block that travelled in the accumulator's type, in the type of its use.
fn narrowed(block: Tensor, dtype: DType) -> Result<Tensor> {
    if block.dtype() == dtype {
        Ok(block)
    } else {
        ops::cast(&block, dtype)
    }
}

// Issues the gathers that come next, as far as the budget goes.
fn issue_ahead(context: &Context) -> Result<()> {
    loop {
        let next = context
            .gatherer()
            .borrow()
            .next(context.settings().gather_budget);
        let Some((next, subject)) = next else {
            return Ok(());
        };
        let on_its_way = issue(context, &next, subject, true)?;
        context.gatherer().borrow_mut().ahead.push_back(on_its_way);
    }
}

fn issue(
    context: &Context,
    parameter: &Parameter,
    subject: Subject,
    ahead: bool,
) -> Result<Tensor> {
    let mut value = parameter.value();
    if context.settings().gather_wide && value.dtype() != value.dtype().accumulator() {
        value = ops::cast(&value, value.dtype().accumulator())?;
    }
    let block = context.buffer(value.dtype(), &parameter.block_shape(context))?;
    let group = context
        .group(Axis::Z, Purpose::Gather)?
        .expect("a scattered parameter has ranks on Z");
    let stream = if ahead {
        context.stream("gather weights")?
    } else {
        context.device().compute()
    };
    group.all_gather(
        context,
        subject,
        &stream,
        &value,
        &block,
        &parameter.block_counts(context),
    )?;
    Ok(block)
}
