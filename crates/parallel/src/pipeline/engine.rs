//! Executes a schedule on one stage.

use super::{driven, plan::SchedulePlan, schedule::Action, stage::Stage};
use grid::Axis;
use tensor::Result;

/// Runs the forward and backward passes of a step on this rank's stage.
///
/// # Errors
/// Those of layers and messages.
pub(super) fn run(stage: &mut Stage<'_>, schedule: &SchedulePlan) -> Result<()> {
    match schedule {
        SchedulePlan::Listed(schedule) => {
            let index = stage.pipeline.context().index(Axis::Pipeline);
            listed(stage, &schedule.stages[index], schedule.splits_backward)
        }
        SchedulePlan::Driven { in_flight, .. } => driven::run(stage, *in_flight),
    }
}

// Receives are queued one pass ahead of their use, so that messages overlap with compute. The first receive of
// a link waits for its turn, because the host must learn from the sender what will arrive.
fn listed(stage: &mut Stage<'_>, actions: &[Action], splits_backward: bool) -> Result<()> {
    let mut received = 0;
    for (index, action) in actions.iter().enumerate() {
        let is_pass = matches!(action, Action::Forward { .. } | Action::Backward { .. });
        let until = if is_pass {
            next_pass(actions, index)
        } else {
            index + 1
        };
        while received < until {
            let ahead = received > index;
            if ahead && !can_be_ahead(stage, &actions[received]) {
                break;
            }
            receive(stage, &actions[received])?;
            received += 1;
        }
        act(stage, action, splits_backward)?;
    }
    Ok(())
}

// Index of the pass after the one at `index`; receives before it may be queued now.
fn next_pass(actions: &[Action], index: usize) -> usize {
    let is_pass =
        |action: &Action| matches!(action, Action::Forward { .. } | Action::Backward { .. });
    let after = actions.iter().skip(index + 1).position(is_pass);
    after.map_or(actions.len(), |offset| index + 1 + offset)
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

fn act(stage: &mut Stage<'_>, action: &Action, splits_backward: bool) -> Result<()> {
    match *action {
        Action::Forward { micro_batch, chunk } => stage.forward(micro_batch, chunk),
        Action::Backward { micro_batch, chunk } if splits_backward => {
            stage.backward_of_inputs(micro_batch, chunk)
        }
        Action::Backward { micro_batch, chunk } => stage.backward(micro_batch, chunk),
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
