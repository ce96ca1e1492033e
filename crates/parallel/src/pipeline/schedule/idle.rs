//! The idle time of stages.

use super::{
    Result, Schedule, ScheduleError, Times, check,
    execute::{Sends, Span, execute},
};

/// Times of a schedule whose messages take no time.
#[derive(Clone, Debug, PartialEq)]
pub struct Idle {
    /// From the first pass to the end of the last.
    pub makespan_us: f64,
    /// For each stage, the fraction of that time in which it computes nothing, 0 to 1.
    pub stages: Vec<f64>,
    /// The same over all stages.
    pub fraction: f64,
}

/// Measures the bubble: runs the schedule in virtual time.
///
/// # Errors
/// [`ScheduleError::Invalid`] for times that are not finite and non-negative with at least one above 0; those of
/// [`check`](super::check()).
pub fn idle(schedule: &Schedule, times: &Times) -> Result<Idle> {
    if !times.are_sound() {
        let found = format!(
            "forward {} us, backward {} us for inputs and {} us for weights",
            times.forward_us, times.inputs_us, times.weights_us
        );
        let needed = "finite times from 0, one of them above 0".to_string();
        return Err(ScheduleError::Invalid {
            operation: "idle",
            found,
            needed,
        });
    }
    Ok(summary(&spans(schedule, times)?))
}

/// The time span of each pass of each stage.
pub(super) fn spans(schedule: &Schedule, times: &Times) -> Result<Vec<Vec<Span>>> {
    check(schedule)?;
    execute(schedule, Sends::Queued, times).map_err(ScheduleError::Deadlock)
}

fn summary(spans: &[Vec<Span>]) -> Idle {
    let makespan_us = spans
        .iter()
        .flatten()
        .map(|span| span.end_us)
        .fold(0.0, f64::max);
    let busy_us = |list: &Vec<Span>| {
        list.iter()
            .map(|span| span.end_us - span.start_us)
            .sum::<f64>()
    };
    let stages: Vec<f64> = spans
        .iter()
        .map(|list| 1.0 - busy_us(list) / makespan_us)
        .collect();
    let fraction = stages.iter().sum::<f64>() / stages.len() as f64;
    Idle {
        makespan_us,
        stages,
        fraction,
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Times, gpipe, idle};

    #[test]
    fn two_stages_by_hand() {
        let idle = idle(&gpipe(2, 3).unwrap(), &Times::halves(1.0, 2.0)).unwrap();
        assert_eq!(idle.makespan_us, 12.0);
        assert_eq!(idle.stages, [0.25, 0.25]);
        assert_eq!(idle.fraction, 0.25);
    }

    #[test]
    fn times_that_are_none_are_refused() {
        for (forward_us, backward_us) in [
            (0.0, 0.0),
            (-1.0, 2.0),
            (1.0, f64::NAN),
            (f64::INFINITY, 1.0),
        ] {
            let text = idle(
                &gpipe(2, 3).unwrap(),
                &Times::halves(forward_us, backward_us),
            )
            .unwrap_err()
            .to_string();
            assert!(
                text.starts_with(&format!("idle: forward {forward_us} us")),
                "{text}"
            );
        }
    }
}
