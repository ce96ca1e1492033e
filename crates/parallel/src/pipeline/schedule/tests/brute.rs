//! An executor that knows nothing of the checker: it moves labelled messages and tests whether all work
//! completes.

use super::super::{Action, ChunkLocation, Placement, Schedule};
use std::collections::{HashMap, HashSet, VecDeque};

/// The content of a message: true for an activation, the virtual stage that made it, its micro-batch.
type Label = (bool, usize, usize);

#[derive(Default)]
struct Stage {
    index: usize,
    /// Unused inputs and unsent outputs, by (virtual stage, micro-batch).
    inputs: HashSet<(bool, usize, usize)>,
    outputs: HashSet<Label>,
    forward: HashSet<(usize, usize)>,
    backward: HashSet<(usize, usize)>,
    weights: HashSet<(usize, usize)>,
    peak: usize,
}

/// Runs it; returns the peak of live chunk-forwards on each stage, or the fault.
pub fn run(schedule: &Schedule, blocking: bool) -> Result<Vec<usize>, String> {
    let mut stages: Vec<Stage> = (0..schedule.num_stages).map(|_| Stage::default()).collect();
    let mut wires: HashMap<(usize, usize, bool), VecDeque<Label>> = HashMap::new();
    loop {
        let mut moved = false;
        for s in 0..stages.len() {
            let Some(action) = schedule.stages[s].get(stages[s].index).copied() else {
                continue;
            };
            if action.micro_batch() >= schedule.num_micro_batches
                || action.chunk() >= schedule.num_chunks
            {
                return Err(format!("stage {s}: {action} does not exist"));
            }
            if step(schedule, &mut stages, &mut wires, s, action, blocking)? {
                stages[s].index += 1;
                moved = true;
            }
        }
        if !moved {
            break;
        }
    }
    let all = schedule.num_chunks * schedule.num_micro_batches;
    for (s, stage) in stages.iter().enumerate() {
        if stage.index < schedule.stages[s].len() {
            return Err(format!("stage {s} is stuck"));
        }
        let weights = if schedule.splits_backward { all } else { 0 };
        let done = [&stage.forward, &stage.backward, &stage.weights].map(HashSet::len);
        let done = done == [all, all, weights];
        if !done || !stage.inputs.is_empty() || !stage.outputs.is_empty() {
            return Err(format!("stage {s} leaves something undone"));
        }
    }
    if wires.values().any(|wire| !wire.is_empty()) {
        return Err("messages are left over".to_string());
    }
    Ok(stages.iter().map(|stage| stage.peak).collect())
}

fn step(
    schedule: &Schedule,
    stages: &mut [Stage],
    wires: &mut HashMap<(usize, usize, bool), VecDeque<Label>>,
    s: usize,
    action: Action,
    blocking: bool,
) -> Result<bool, String> {
    let last = schedule.num_stages * schedule.num_chunks - 1;
    let at = ChunkLocation {
        stage: s,
        chunk: action.chunk(),
    };
    let (mb, here) = (action.micro_batch(), part(schedule, at));
    let wrong = || format!("stage {s}: {action} is wrong");
    match action {
        Action::Forward { .. } => {
            if (here > 0 && !stages[s].inputs.remove(&(true, here, mb)))
                || !stages[s].forward.insert((here, mb))
            {
                return Err(wrong());
            }
            if here < last {
                hand_on(schedule, &mut stages[s], (true, here, mb), here + 1);
            }
            let freed = match schedule.splits_backward {
                true => stages[s].weights.len(),
                false => stages[s].backward.len(),
            };
            stages[s].peak = stages[s].peak.max(stages[s].forward.len() - freed);
        }
        Action::Backward { .. } => {
            let ready = here == last || stages[s].inputs.remove(&(false, here, mb));
            if !ready
                || !stages[s].forward.contains(&(here, mb))
                || !stages[s].backward.insert((here, mb))
            {
                return Err(wrong());
            }
            if here > 0 {
                hand_on(schedule, &mut stages[s], (false, here, mb), here - 1);
            }
        }
        Action::Weights { .. } => {
            let is_due = schedule.splits_backward && stages[s].backward.contains(&(here, mb));
            if !is_due || !stages[s].weights.insert((here, mb)) {
                return Err(wrong());
            }
        }
        Action::SendActivation { to, .. } | Action::SendGradient { to, .. } => {
            let forward = matches!(action, Action::SendActivation { .. });
            let target = if forward {
                here + 1
            } else {
                here.wrapping_sub(1)
            };
            if stage_of(schedule, target) != to || !stages[s].outputs.contains(&(forward, here, mb))
            {
                return Err(wrong());
            }
            if blocking && !stands_at_receive(schedule, stages, s, to, forward) {
                return Ok(false);
            }
            stages[s].outputs.remove(&(forward, here, mb));
            wires
                .entry((s, to, forward))
                .or_default()
                .push_back((forward, here, mb));
        }
        Action::RecvActivation { from, .. } | Action::RecvGradient { from, .. } => {
            let forward = matches!(action, Action::RecvActivation { .. });
            let source = if forward {
                here.wrapping_sub(1)
            } else {
                here + 1
            };
            let Some(label) = wires
                .get_mut(&(from, s, forward))
                .and_then(VecDeque::pop_front)
            else {
                return Ok(false);
            };
            if label != (forward, source, mb) || !stages[s].inputs.insert((forward, here, mb)) {
                return Err(wrong());
            }
        }
    }
    Ok(true)
}

/// The stage of a part, by the pictures in the papers: chunks begin anew, or every second one runs back.
fn stage_of(schedule: &Schedule, part: usize) -> usize {
    let (chunk, place) = (part / schedule.num_stages, part % schedule.num_stages);
    match (schedule.placement, chunk % 2) {
        (Placement::V, 1) => schedule.num_stages - place - 1,
        _ => place,
    }
}

fn part(schedule: &Schedule, at: ChunkLocation) -> usize {
    let mut parts = at.chunk * schedule.num_stages..(at.chunk + 1) * schedule.num_stages;
    parts
        .find(|part| stage_of(schedule, *part) == at.stage)
        .unwrap()
}

/// Keeps the output for a send, or passes it to the next chunk if that is on the same stage.
fn hand_on(schedule: &Schedule, stage: &mut Stage, label: Label, next: usize) {
    if stage_of(schedule, next) == stage_of(schedule, label.1) {
        stage.inputs.insert((label.0, next, label.2));
    } else {
        stage.outputs.insert(label);
    }
}

/// Whether the receiver has reached the receive, so that a blocking send would return.
fn stands_at_receive(
    schedule: &Schedule,
    stages: &[Stage],
    from: usize,
    to: usize,
    forward: bool,
) -> bool {
    match schedule.stages[to].get(stages[to].index) {
        Some(Action::RecvActivation { from: sender, .. }) => forward && *sender == from,
        Some(Action::RecvGradient { from: sender, .. }) => !forward && *sender == from,
        _ => false,
    }
}
