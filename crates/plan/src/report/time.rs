//! Where a step's time goes, in a few shares that add up to the step.

use crate::{Outcome, simulate::Stage};
use serde::Serialize;

/// A part of a step.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Share {
    /// What it is.
    pub what: String,
    /// Seconds in which nothing else ran.
    pub seconds: f64,
    /// Seconds of this part that ran beside compute.
    pub hidden_seconds: f64,
}

/// The parts of the slowest stage's step, longest first. They add up to the step. At the end of the step, the
/// time in which its compute stream waits while other streams work counts as bubble.
pub fn shares(outcome: &Outcome) -> Vec<Share> {
    let mut all = of_stage(outcome.slowest());
    let told: f64 = all.iter().map(|share| share.seconds).sum();
    let rest = outcome.step_s - told;
    if let Some(bubble) = all.iter_mut().find(|share| share.what == "bubble") {
        bubble.seconds += rest.max(0.0);
    }
    all.retain(|share| share.seconds + share.hidden_seconds > 0.0);
    all.sort_by(|one, other| other.seconds.total_cmp(&one.seconds));
    all
}

fn of_stage(stage: &Stage) -> Vec<Share> {
    let time = &stage.breakdown;
    let parts = [
        ("matmuls", time.matmuls_s),
        ("attention", time.attention_s),
        ("elementwise", time.elementwise_s),
        ("optimiser", time.optimiser_s),
        ("bubble", time.bubble_s),
        ("launches", time.host_s),
    ];
    let mut all: Vec<_> = parts
        .map(|(what, seconds)| Share {
            what: what.into(),
            seconds,
            hidden_seconds: 0.0,
        })
        .into();
    all.extend(time.groups.iter().map(|group| Share {
        what: group.label.to_string(),
        seconds: group.exposed_s,
        hidden_seconds: group.hidden_s(),
    }));
    all
}
