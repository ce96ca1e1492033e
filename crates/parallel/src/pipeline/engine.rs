//! Executes a schedule on one stage.

use super::{
    driven,
    plan::SchedulePlan,
    schedule::{Action, Overlapped, StepAction, receives_until},
    stage::Stage,
};
use crate::data::Gradients;
use grid::Axis;
use tensor::{Error, Result};

/// Runs the forward and backward passes of a step on this rank's stage.
///
/// If the schedule goes on into the next step, `ahead` says whether passes of this step were run in the one before, and `next` is
/// the batch of the next one, if it is known; otherwise neither is. `update` receives the gradients of each update.
///
/// # Errors
/// Those of layers, messages and `update`.
pub(super) fn run<'a, E: From<Error>>(
    stage: &mut Stage<'a>,
    schedule: &SchedulePlan,
    (ahead, mut next): (bool, Option<&mut Stage<'a>>),
    update: &mut impl FnMut(Gradients) -> std::result::Result<(), E>,
) -> std::result::Result<(), E> {
    let index = stage.pipeline.context().index(Axis::Pipeline);
    match schedule {
        SchedulePlan::Listed(schedule) => {
            let own = |action: &Action| StepAction {
                action: *action,
                is_next: false,
            };
            let list: Vec<StepAction> = schedule.stages[index].iter().map(own).collect();
            listed((stage, None), &list, schedule.splits_backward, update)?;
        }
        SchedulePlan::Overlapped(overlapped) => {
            let list = overlapped.step(index, ahead, next.is_some());
            listed((stage, next.as_deref_mut()), &list, false, update)?;
            next.map_or(Ok(()), |next| receive_ahead(next, overlapped, index))?;
        }
        SchedulePlan::Driven { in_flight, .. } => driven::run(stage, *in_flight)?,
    }
    update(stage.last_gradients()?)
}

// Receives are queued one pass ahead of their use. The first receive of a link waits for its turn, because the host must learn from
// the sender what will arrive.
//
// An update waits until the messages of its last backward are queued, but not longer than to the next pass.
fn listed<'a, E: From<Error>>(
    (stage, mut next): (&mut Stage<'a>, Option<&mut Stage<'a>>),
    actions: &[StepAction],
    splits_backward: bool,
    update: &mut impl FnMut(Gradients) -> std::result::Result<(), E>,
) -> std::result::Result<(), E> {
    let mut received = 0;
    for (index, step) in actions.iter().enumerate() {
        if is_pass(step)
            && let Some(gradients) = stage.due_gradients()?
        {
            update(gradients)?;
        }
        let until = receives_until(actions, index, is_pass);
        while received < until {
            let StepAction { action, is_next } = actions[received];
            let of_action = of(stage, next.as_deref_mut(), is_next);
            let ahead = received > index;
            if ahead && !can_be_ahead(of_action, &action) {
                break;
            }
            receive(of_action, &action)?;
            received += 1;
        }
        let of_step = of(stage, next.as_deref_mut(), step.is_next);
        act(of_step, &step.action, splits_backward)?;
    }
    Ok(())
}

// The stage's work on the batch of the step, or on the next one.
fn of<'s, 'a>(
    stage: &'s mut Stage<'a>,
    next: Option<&'s mut Stage<'a>>,
    is_next: bool,
) -> &'s mut Stage<'a> {
    match next {
        Some(next) if is_next => next,
        _ => stage,
    }
}

// A step ends when everything that was sent in it has been received: what follows may be an evaluation, whose messages take the
// same channels.
fn receive_ahead(next: &mut Stage<'_>, overlapped: &Overlapped, index: usize) -> Result<()> {
    let [forwards, backwards] = overlapped.ahead(index);
    next.receive_sent(
        |from| forwards..overlapped.ahead(from)[0],
        |from| backwards..overlapped.ahead(from)[1],
    )
}

fn is_pass(step: &StepAction) -> bool {
    step.action.is_pass()
}

fn can_be_ahead(stage: &Stage<'_>, action: &Action) -> bool {
    match *action {
        Action::RecvActivation {
            micro_batch, chunk, ..
        } => stage.knows_inputs(micro_batch, chunk),
        Action::RecvGradient {
            micro_batch, chunk, ..
        } => stage.knows_outputs(micro_batch, chunk),
        _ => true,
    }
}

fn receive(stage: &mut Stage<'_>, action: &Action) -> Result<()> {
    match *action {
        Action::RecvActivation {
            micro_batch, chunk, ..
        } => stage.recv_activations(micro_batch, chunk).map(drop),
        Action::RecvGradient {
            micro_batch, chunk, ..
        } => stage.recv_gradients(micro_batch, chunk).map(drop),
        _ => Ok(()),
    }
}

// Between two parts of one stage, as where a V turns, a schedule lists no messages. Wires that skip parts pass there nevertheless.
fn forward(stage: &mut Stage<'_>, micro_batch: usize, chunk: usize) -> Result<()> {
    if stage.has_part_before(chunk) {
        stage.recv_activations(micro_batch, chunk)?;
    }
    stage.forward(micro_batch, chunk)?;
    match stage.has_part_behind(chunk) {
        true => stage.send_activations(micro_batch, chunk),
        false => Ok(()),
    }
}

fn backward(
    stage: &mut Stage<'_>,
    micro_batch: usize,
    chunk: usize,
    splits_backward: bool,
) -> Result<()> {
    if stage.has_part_behind(chunk) {
        stage.recv_gradients(micro_batch, chunk)?;
    }
    match splits_backward {
        true => stage.backward_of_inputs(micro_batch, chunk)?,
        false => stage.backward(micro_batch, chunk)?,
    }
    match stage.has_part_before(chunk) {
        true => stage.send_gradients(micro_batch, chunk),
        false => Ok(()),
    }
}

fn act(stage: &mut Stage<'_>, action: &Action, splits_backward: bool) -> Result<()> {
    match *action {
        Action::Forward { micro_batch, chunk } => forward(stage, micro_batch, chunk),
        Action::Backward { micro_batch, chunk } => {
            backward(stage, micro_batch, chunk, splits_backward)
        }
        Action::Weights { micro_batch, chunk } => stage.weight_gradients(micro_batch, chunk),
        Action::SendActivation {
            micro_batch, chunk, ..
        } => stage.send_activations(micro_batch, chunk),
        Action::SendGradient {
            micro_batch, chunk, ..
        } => stage.send_gradients(micro_batch, chunk),
        Action::RecvActivation { .. } | Action::RecvGradient { .. } => Ok(()),
    }
}
