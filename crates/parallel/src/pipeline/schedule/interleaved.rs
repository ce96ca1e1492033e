//! Interleaved 1F1B: every stage holds several chunks of the model, which shortens the bubble and adds messages.

use super::{
    Placement, Result, Schedule, Stages, one_forward_one_backward,
    one_forward_one_backward::take_turns, program::Task, shape::Shape,
};

/// 1F1B over chunks: micro-batches pass in groups of `num_stages` through chunk 0, then through chunk 1, and so
/// on.
///
/// Stage `index` keeps at most 2(p - index - 1) + (v-1)p + 1 activations of a chunk (or all v*m). If m is a
/// multiple of p, the idle fraction is (p-1)/(v*m + p-1).
///
/// The published order requires m to be a multiple of p. Otherwise we lay out the next multiple and leave out
/// the passes of micro-batches that do not exist. The remaining passes keep their order, so no pass depends on
/// anything later than before. Freedom from deadlock and the bound on activations both carry over. (The obvious
/// alternative, a shorter last group, can deadlock if it is shorter than p - 2.) With one chunk this is 1F1B,
/// which keeps fewer activations for the same idle time.
///
/// # Errors
/// [`ScheduleError::Invalid`](super::ScheduleError::Invalid) when a count is zero, or their product exceeds 4,194,304
/// passes.
/// # Source
/// Megatron-LM (arXiv:2104.04473), section 2.2.2.
pub fn interleaved(
    num_stages: usize,
    num_chunks: usize,
    num_micro_batches: usize,
) -> Result<Schedule> {
    if num_chunks == 1 {
        return one_forward_one_backward(num_stages, num_micro_batches);
    }
    let stages = Stages {
        number: num_stages,
        chunks: num_chunks,
        placement: Placement::Wrap,
    };
    let shape = Shape::new("interleaved", stages, num_micro_batches)?;
    Ok(Schedule::from_tasks(shape, |stage| {
        let tasks = take_turns(forwards(shape), backwards(shape), warm_up(shape, stage));
        tasks
            .into_iter()
            .filter(move |task| task.micro_batch < num_micro_batches)
    }))
}

/// Number of chunk-forwards before the first backward's turn. Each of them is answered by a backward one round
/// later.
pub(super) fn warm_up(shape: Shape, stage: usize) -> usize {
    let Stages { number, chunks, .. } = shape.stages;
    2 * (number - stage - 1) + (chunks - 1) * number
}

/// Micro-batch and chunk of every forward, with the number of micro-batches rounded up to complete groups.
fn order(shape: Shape) -> impl Iterator<Item = (usize, usize)> {
    let Stages {
        number: num_stages,
        chunks: num_chunks,
        ..
    } = shape.stages;
    (0..shape.num_micro_batches.div_ceil(num_stages)).flat_map(move |group| {
        let members = move |chunk| (0..num_stages).map(move |i| (group * num_stages + i, chunk));
        (0..num_chunks).flat_map(members)
    })
}

fn forwards(shape: Shape) -> impl Iterator<Item = Task> {
    order(shape).map(|(micro_batch, chunk)| Task::forward(micro_batch, chunk))
}

fn backwards(shape: Shape) -> impl Iterator<Item = Task> {
    order(shape).map(move |(micro_batch, chunk)| {
        Task::backward(micro_batch, shape.stages.chunks - 1 - chunk)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_stages_two_chunks() {
        // Checked by hand: stage 0 warms up with 4 chunk-forwards, stage 1 with 2; idle 2 of 10.
        let expected = "\
stage 0 | F0.0 F1.0 F0.1 F1.1 .    B0.1 .    B1.1 B0.0 B1.0
stage 1 | .    F0.0 F1.0 F0.1 B0.1 F1.1 B1.1 B0.0 B1.0 .";
        assert_eq!(interleaved(2, 2, 2).unwrap().to_string(), expected);
    }

    #[test]
    fn a_micro_batch_that_does_not_exist_leaves_the_others_in_order() {
        let (whole, part) = (interleaved(3, 2, 6).unwrap(), interleaved(3, 2, 5).unwrap());
        for (whole, part) in whole.stages.iter().zip(&part.stages) {
            let kept = whole.iter().filter(|action| action.micro_batch() < 5);
            assert!(kept.eq(part));
        }
    }
}
