//! Where an axis lies on the nodes, and how long its traffic should take there.

use super::seen::Seen;
use crate::failure::{Failure, Outcome};
use grid::{
    Axis,
    machine::{Machine, Route},
};
use parallel::{Hierarchical, counters::Count, memory::Segments};
use serde::Serialize;
use train::{Config, placement::Pricing};

/// How the groups along an axis lie on the nodes.
#[derive(Clone, Debug, Serialize)]
pub(super) struct AxisSpan {
    groups: usize,
    groups_across: usize,
    most_nodes: usize,
    num_nodes: usize,
}

impl AxisSpan {
    pub(super) fn of(seen: &Seen, axis: Axis) -> AxisSpan {
        let span = seen.mapping.span(&seen.grid, axis);
        AxisSpan {
            groups: span.groups,
            groups_across: span.across,
            most_nodes: span.widest.nodes,
            num_nodes: seen.mapping.node_sizes().len(),
        }
    }

    pub(super) fn text(&self) -> String {
        match (self.num_nodes, self.groups_across) {
            (1, _) => "all on one node".into(),
            (_, 0) => "inside a node".into(),
            (_, across) if across == self.groups => format!("across {} nodes", self.most_nodes),
            (_, across) => format!(
                "{across} of {} groups across {} nodes",
                self.groups, self.most_nodes
            ),
        }
    }
}

/// The time that communication should take.
pub(super) struct Expected {
    machine: Option<Machine>,
    source: String,
    hierarchical: Hierarchical,
    // Seconds of a step apart from communication, or the measured time of the full step.
    compute_s: f64,
    measured_s: Option<f64>,
}

impl Expected {
    /// Expected times from the named machine, or from the measured links; `None` if there is neither.
    pub(super) fn new(config: &Config, seen: &Seen) -> Outcome<Expected> {
        let hierarchical = config.parallel.hierarchical;
        if let Some(machine) = config.machine()? {
            let dtype = config.training.precision.dtype();
            let per_row = config.flop_per_row(config.training.recompute == Segments::All)?;
            let flop = per_row * config.training.batch as f64;
            let compute_s =
                flop / seen.grid.world_size() as f64 / machine.device.peak(dtype.name());
            let source = format!("machine {}", machine.name);
            let machine = Some(machine.as_ref().clone());
            return Ok(Expected {
                machine,
                source,
                hierarchical,
                compute_s,
                measured_s: None,
            });
        }
        let mut machine = None;
        if !seen.links.is_empty() {
            let mut probed = Machine::find("laptop").map_err(Failure::run)?;
            probed.links.measured = seen.links.clone();
            machine = Some(probed);
        }
        let source = "links measured just now".into();
        Ok(Expected {
            machine,
            source,
            hierarchical,
            compute_s: 0.0,
            measured_s: Some(seen.step_s),
        })
    }

    /// Seconds that this rank's traffic takes on `axis`; `None` without traffic.
    pub(super) fn seconds(&self, seen: &Seen, axis: Axis) -> Option<f64> {
        let pricing = Pricing {
            machine: self.machine.as_ref()?,
            hierarchical: self.hierarchical,
        };
        let members = seen.mapping.members(&seen.grid, seen.rank, &[axis]);
        let route: Route = seen.mapping.route(&members, seen.grid.inner_product(axis));
        let of_axis = seen
            .counters
            .iter()
            .filter(|(counted, ..)| *counted == axis);
        let one = |operation, Count { calls, bytes }| pricing.all(operation, calls, bytes, route);
        Some(
            of_axis
                .map(|(_, operation, _, count)| one(operation, count))
                .sum(),
        )
    }

    /// The total that the percentages refer to, in seconds, given the seconds of communication.
    pub(super) fn total(&self, communication_s: f64) -> f64 {
        self.measured_s
            .unwrap_or(self.compute_s + communication_s)
            .max(communication_s)
    }

    /// Where the seconds come from.
    pub(super) fn source(&self) -> &str {
        &self.source
    }
}
