//! PipeDream: an update for each micro-batch on each stage, which stashes the weights of those in flight.

use super::{Overlapped, Result, ScheduleKind};

/// 1F1B over the micro-batches of several steps, where each backward is followed by an update of its stage.
///
/// A micro-batch runs backward on a stage with the weights of its forward there. Stage s has p - s micro-batches in flight, so it
/// holds p - s versions of its weights, and the gradients of a micro-batch lack the p - 1 - s updates before it. A stage ends a
/// step with its last update of the step, so that all stages have done the same number of them, and with p - 1 - s forwards of the
/// next step. The idle time of a step is p - 1 backwards: the last stage waits for the first.
///
/// # Errors
/// [`ScheduleError::Invalid`](super::ScheduleError::Invalid) when a count is zero, there are fewer micro-batches than stages, so
/// that the first stage would be ahead by more than a step, or the passes of three steps exceed 4,194,304.
/// # Source
/// Narayanan et al., PipeDream: Generalized Pipeline Parallelism for DNN Training (SOSP 2019), sections 3.2 and 3.3.
pub fn pipedream(num_stages: usize, num_micro_batches: usize) -> Result<Overlapped> {
    let sizes = (num_stages, num_micro_batches);
    Overlapped::new((ScheduleKind::PipeDream, "pipedream"), sizes, |_| 0)
}
