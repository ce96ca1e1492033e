//! What the collectives of one step move along each axis.

use crate::Result;
use bootstrap::World;
use parallel::{Context, Counters};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Collectives of one kind along one axis during one step, as rank 0 counts them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AxisTraffic {
    /// The axis.
    pub axis: String,
    /// Ranks along it.
    pub degree: usize,
    /// The collective, such as `all_reduce`.
    pub operation: String,
    /// How many of them.
    pub calls: u64,
    /// Bytes of the full buffers: what all ranks of the axis together hold after a gather or before a scatter.
    pub bytes: u64,
    /// Bytes that each rank sends for them in a ring.
    pub ring_bytes: u64,
}

/// Counts one step of a run.
#[derive(Debug)]
pub(super) struct StepTraffic {
    step: u64,
    before: Counters,
    counted: Vec<AxisTraffic>,
}

impl StepTraffic {
    /// Counts this step.
    pub(super) fn of(step: u64) -> StepTraffic {
        StepTraffic {
            step,
            before: Counters::default(),
            counted: Vec::new(),
        }
    }

    /// Before a step.
    pub(super) fn before(&mut self, step: u64, context: &Context) {
        if step == self.step {
            self.before = context.counters();
        }
    }

    /// After a step.
    pub(super) fn after(&mut self, step: u64, context: &Context) {
        if step == self.step {
            self.counted = by_axis(context, &context.counters().since(&self.before));
        }
    }

    /// What rank 0 has counted. Collective.
    ///
    /// # Errors
    /// [`Error::Parallel`](crate::Error::Parallel) from the exchange.
    pub(super) fn of_first_rank(self, world: &World) -> Result<Vec<AxisTraffic>> {
        let words = serde_json::to_vec(&self.counted).unwrap_or_default();
        let words = world.everyone().broadcast(0, &words)?;
        Ok(serde_json::from_slice(&words).unwrap_or_default())
    }
}

// The subjects of a collective, such as linear layers and norms, together.
fn by_axis(context: &Context, counters: &Counters) -> Vec<AxisTraffic> {
    let mut sums = BTreeMap::new();
    for (axis, operation, _, count) in counters.iter() {
        let (calls, bytes) = sums.entry((axis, operation)).or_insert((0, 0));
        *calls += count.calls;
        *bytes += count.bytes;
    }
    let traffic = sums.into_iter().map(|((axis, operation), (calls, bytes))| {
        let degree = context.grid().degree(axis);
        AxisTraffic {
            axis: axis.name().to_owned(),
            degree,
            operation: operation.name().to_owned(),
            calls,
            bytes,
            ring_bytes: operation.ring_bytes(bytes, degree) as u64,
        }
    });
    traffic.collect()
}
