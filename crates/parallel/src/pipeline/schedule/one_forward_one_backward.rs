//! 1F1B with a flush: forwards and backwards alternate, so that few activations are kept.

use super::{Result, Schedule, Stages, program::Task, shape::Shape};

/// Warm-up of `stages - index - 1` forwards, then alternating forwards and backwards, then the remaining
/// backwards.
///
/// Stage `index` keeps at most min(m, p - index) activations. The idle fraction is that of GPipe,
/// (p-1)/(m+p-1).
///
/// # Errors
/// [`ScheduleError::Invalid`](super::ScheduleError::Invalid) when a count is zero, or their product exceeds 4,194,304
/// passes.
/// # Source
/// PipeDream-Flush (arXiv:2006.09503); Megatron-LM (arXiv:2104.04473), section 2.2.1.
pub fn one_forward_one_backward(num_stages: usize, num_micro_batches: usize) -> Result<Schedule> {
    let shape = Shape::new("1f1b", Stages::plain(num_stages), num_micro_batches)?;
    Ok(Schedule::from_tasks(shape, |stage| tasks(shape, stage)))
}

/// The passes of a stage.
pub(super) fn tasks(shape: Shape, stage: usize) -> Vec<Task> {
    let micro_batches = || 0..shape.num_micro_batches;
    let forwards = micro_batches().map(|i| Task::forward(i, 0));
    let backwards = micro_batches().map(|i| Task::backward(i, 0));
    take_turns(forwards, backwards, shape.stages.number - stage - 1)
}

/// `warm_up` forwards, then alternating forwards and backwards while there are forwards, then the remaining
/// backwards.
pub(super) fn take_turns(
    mut forwards: impl Iterator<Item = Task>,
    mut backwards: impl Iterator<Item = Task>,
    warm_up: usize,
) -> Vec<Task> {
    let mut tasks: Vec<Task> = forwards.by_ref().take(warm_up).collect();
    for forward in forwards {
        tasks.push(forward);
        tasks.extend(backwards.next());
    }
    tasks.extend(backwards);
    tasks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_stages_as_in_the_paper() {
        let text = one_forward_one_backward(4, 5).unwrap().to_string();
        let row = text.lines().nth(2).unwrap();
        assert_eq!(
            row,
            "stage 2 | .  .  F0 F1 .  B0 F2 B1 F3 B2 F4 B3 .  B4 .  ."
        );
    }
}
