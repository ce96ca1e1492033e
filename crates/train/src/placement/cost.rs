//! The time of a step's traffic on a machine, per axis, in seconds.

use grid::{
    Axis, Grid, Mapping,
    machine::{Machine, Operation as Costed, Route},
};
use parallel::{Hierarchical, Operation};

/// The basis of prices: a machine's links, and whether collectives may cross its nodes in two levels.
#[derive(Clone, Copy, Debug)]
pub struct Pricing<'a> {
    /// The machine.
    pub machine: &'a Machine,
    /// The form of collectives that runs.
    pub hierarchical: Hierarchical,
}

impl Pricing<'_> {
    /// Seconds of one collective over a whole buffer of `bytes`.
    pub fn one(&self, operation: Operation, bytes: usize, route: Route) -> f64 {
        let costed = match operation {
            Operation::AllReduce => Costed::AllReduce,
            Operation::AllGather => Costed::AllGather,
            Operation::ReduceScatter => Costed::ReduceScatter,
            Operation::Broadcast => Costed::Broadcast,
            Operation::AllToAll => Costed::AllToAll,
            Operation::Send => Costed::Message,
            // The message is charged to the sender.
            Operation::Recv => return 0.0,
        };
        let (flat, levels) = (
            || self.machine.collective(costed, bytes, route),
            || self.machine.hierarchical(costed, bytes, route),
        );
        match self.hierarchical {
            Hierarchical::Off => flat().seconds(),
            Hierarchical::On => levels().seconds(),
            Hierarchical::Auto => flat().seconds().min(levels().seconds()),
        }
    }

    /// Seconds of `calls` collectives with `bytes` in total.
    pub fn all(&self, operation: Operation, calls: u64, bytes: u64, route: Route) -> f64 {
        match calls {
            0 => 0.0,
            _ => calls as f64 * self.one(operation, (bytes / calls) as usize, route),
        }
    }
}

/// The route of a collective on `axis`; for messages, the route between the neighbours that are furthest apart.
pub fn route(grid: &Grid, mapping: &Mapping, axis: Axis) -> Route {
    mapping.span(grid, axis).widest
}
