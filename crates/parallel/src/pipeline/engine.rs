//! Carrying out a schedule on one stage.

use super::{
    Stages, driven,
    schedule::{self, Action, Schedule, ScheduleKind},
    stage::Stage,
};
use crate::Context;
use ::tensor::{Error, Result, Tensor};
use grid::Axis;

/// How the micro-batches of a step go through the stages.
#[derive(Clone, Debug)]
pub enum Plan {
    /// By a list of actions for every stage.
    Listed(Schedule),
    /// By the messages that arrive, with at most so many micro-batches in flight on a stage.
    Driven {
        /// Micro-batches of a step.
        num_micro_batches: usize,
        /// Most that are forward and not yet backward on a stage.
        in_flight: usize,
    },
}

impl Plan {
    /// The plan of that kind for `num_stages` stages, checked.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the kind cannot be built for these numbers.
    pub fn new(kind: ScheduleKind, num_stages: usize, num_micro_batches: usize) -> Result<Plan> {
        let refuse = |error: schedule::ScheduleError| {
            let found =
                format!("{kind} for {num_stages} stages and {num_micro_batches} micro-batches");
            Error::invalid("schedule", found, format!("one that can run: {error}"))
        };
        if let ScheduleKind::MessageDriven { in_flight } = kind {
            schedule::MessageDriven::new(0, num_stages, num_micro_batches, in_flight.unwrap_or(1))
                .map_err(refuse)?;
            return Ok(Plan::Driven {
                num_micro_batches,
                in_flight: in_flight.unwrap_or(num_stages),
            });
        }
        let listed = schedule::build(kind, num_stages, num_micro_batches).map_err(refuse)?;
        schedule::check(&listed).map_err(refuse)?;
        Ok(Plan::Listed(listed))
    }

    /// Micro-batches of a step.
    pub fn num_micro_batches(&self) -> usize {
        match self {
            Plan::Listed(schedule) => schedule.num_micro_batches,
            Plan::Driven {
                num_micro_batches, ..
            } => *num_micro_batches,
        }
    }

    /// Chunks of the model on a stage.
    pub fn num_chunks(&self) -> usize {
        match self {
            Plan::Listed(schedule) => schedule.num_chunks,
            Plan::Driven { .. } => 1,
        }
    }
}

/// Runs the forward and backward passes of a step on this rank's stage.
///
/// Gradients are added to those of the parameters. `d_loss`, one element, is the gradient of the loss: 1, or the loss
/// scale. The result is each micro-batch's number and loss, on the last stage.
///
/// # Errors
/// Those of layers and messages.
pub fn run(
    context: &Context,
    plan: &Plan,
    model: &dyn Stages,
    d_loss: &Tensor,
) -> Result<Vec<(usize, Tensor)>> {
    let mut stage = Stage::new(context, model, plan.num_chunks(), d_loss)?;
    match plan {
        Plan::Listed(schedule) => {
            listed(&mut stage, &schedule.stages[context.index(Axis::Pipeline)])?
        }
        Plan::Driven {
            num_micro_batches,
            in_flight,
        } => driven::run(&mut stage, *num_micro_batches, *in_flight)?,
    }
    Ok(stage.into_losses())
}

// Receipts are queued one pass ahead of their use, so that messages travel beside compute.
fn listed(stage: &mut Stage<'_>, actions: &[Action]) -> Result<()> {
    let mut received = 0;
    for (index, action) in actions.iter().enumerate() {
        let is_pass = matches!(action, Action::Forward { .. } | Action::Backward { .. });
        let until = if is_pass {
            next_pass(actions, index)
        } else {
            index + 1
        };
        for receipt in actions.iter().take(until).skip(received) {
            receive(stage, receipt)?;
        }
        received = received.max(until);
        act(stage, action)?;
    }
    Ok(())
}

// Index of the pass after the one at `index`: receipts before it may be queued now.
fn next_pass(actions: &[Action], index: usize) -> usize {
    let is_pass =
        |action: &Action| matches!(action, Action::Forward { .. } | Action::Backward { .. });
    actions
        .iter()
        .skip(index + 1)
        .position(is_pass)
        .map_or(actions.len(), |offset| index + 1 + offset)
}

fn receive(stage: &mut Stage<'_>, action: &Action) -> Result<()> {
    match *action {
        Action::RecvActivation {
            micro_batch,
            chunk,
            from,
        } => stage.recv_activation(micro_batch, chunk, from).map(drop),
        Action::RecvGradient {
            micro_batch,
            chunk,
            from,
        } => stage.recv_gradient(micro_batch, chunk, from).map(drop),
        _ => Ok(()),
    }
}

fn act(stage: &mut Stage<'_>, action: &Action) -> Result<()> {
    match *action {
        Action::Forward { micro_batch, chunk } => stage.forward(micro_batch, chunk),
        Action::Backward { micro_batch, chunk } => stage.backward(micro_batch, chunk),
        Action::SendActivation {
            micro_batch,
            chunk,
            to,
        } => stage.send_activation(micro_batch, chunk, to),
        Action::SendGradient {
            micro_batch,
            chunk,
            to,
        } => stage.send_gradient(micro_batch, chunk, to),
        Action::RecvActivation { .. } | Action::RecvGradient { .. } => Ok(()),
    }
}
