//! PipeDream-2BW: an update for each batch, and two versions of the weights on every stage.

use super::{Overlapped, Result, ScheduleKind};

/// 1F1B over the micro-batches of several steps, and where each stage ends a step.
///
/// Batch t computes with the weights of update t-1, so a stage that has run its last backward of batch t-1 need not wait for
/// that batch's update. A stage ends a step where it has run its last backward of the step, and what fits into the time that the
/// first stage still needs for its own, if a backward takes twice as long as a forward: stage s is then 2 s forwards ahead. All stages
/// then update together. The idle time of a step is one forward, whatever the number of stages. A stage keeps as many
/// activations as under 1F1B, min(3m, p - s).
///
/// # Errors
/// [`ScheduleError::Invalid`](super::ScheduleError::Invalid) when a count is zero, there are fewer micro-batches than stages, which
/// would need a third version of the weights, or the passes of three steps exceed 4,194,304.
/// # Source
/// Narayanan et al., Memory-Efficient Pipeline-Parallel DNN Training (arXiv:2006.09503), section 3.1.
pub fn pipedream_2bw(num_stages: usize, num_micro_batches: usize) -> Result<Overlapped> {
    let sizes = (num_stages, num_micro_batches);
    Overlapped::new(
        (ScheduleKind::PipeDream2Bw, "pipedream-2bw"),
        sizes,
        passes_ahead,
    )
}

// Passes that end within 2 `stage` units of time, if forwards take one unit, backwards two, and both alternate.
fn passes_ahead(stage: usize) -> usize {
    let time = 2 * stage;
    2 * (time / 3) + usize::from(!time.is_multiple_of(3))
}
