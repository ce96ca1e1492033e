//! GPipe: all forwards, then all backwards.

use super::{Result, Schedule, Stages, program::Task, shape::Shape};

/// All micro-batches forward, then all backward in the same order.
///
/// Every stage keeps the activations of all micro-batches. The idle fraction is (p-1)/(m+p-1).
///
/// # Errors
/// [`ScheduleError::Invalid`](super::ScheduleError::Invalid) when a count is zero, or their product exceeds 4,194,304
/// passes.
/// # Source
/// GPipe (arXiv:1811.06965), section 2.
pub fn gpipe(num_stages: usize, num_micro_batches: usize) -> Result<Schedule> {
    let shape = Shape::new("gpipe", Stages::plain(num_stages), num_micro_batches)?;
    let micro_batches = || 0..num_micro_batches;
    Ok(Schedule::from_tasks(shape, |_| {
        micro_batches()
            .map(|i| Task::forward(i, 0))
            .chain(micro_batches().map(|i| Task::backward(i, 0)))
    }))
}
