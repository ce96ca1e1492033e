//! The cost of collectives for a group, given its placement on the nodes.

use super::Costs;
use grid::machine::{Cost, Operation, Route};
use hal::Collective;

impl Costs {
    /// The placement of the group of these world ranks on the machine.
    pub fn group(&self, members: &[usize]) -> Route {
        Route::of(members, self.placement)
    }

    /// The cost of collectives that progress together: each link carries its bytes, and all share one start.
    pub fn collectives(&self, route: Route, calls: &[Collective]) -> Cost {
        let costs = calls.iter().map(|call| self.collective(route, call));
        let together = |all: Cost, cost: Cost| Cost {
            latency_s: all.latency_s.max(cost.latency_s),
            ..all.and(cost)
        };
        costs.fold(Cost::default(), together)
    }

    /// The same for ranks that have computed for `compute_s` since their last collective. Ranks that share
    /// cores build up skew in that time. Waiting and refilling caches occupy the cores, so compute beside the
    /// collective stops as well.
    pub fn meeting(&self, route: Route, calls: &[Collective], compute_s: f64) -> Cost {
        let cost = self.collectives(route, calls);
        let late_s = if route.size > 1 {
            self.machine.lateness(self.busy, compute_s)
        } else {
            0.0
        };
        Cost {
            transfer_s: cost.transfer_s + late_s,
            ..cost
        }
    }

    fn collective(&self, route: Route, call: &Collective) -> Cost {
        let operation = match call {
            Collective::AllReduce { .. } => Operation::AllReduce,
            Collective::ReduceScatter { .. } => Operation::ReduceScatter,
            Collective::AllGather { .. } => Operation::AllGather,
            Collective::Broadcast { .. } => Operation::Broadcast,
            Collective::AllToAll { .. } => Operation::AllToAll,
            Collective::Send { .. } | Collective::Recv { .. } => Operation::Message,
            Collective::Barrier => Operation::Barrier,
        };
        let bytes = call.buffer().map_or(0, |buffer| buffer.bytes());
        self.machine.collective(operation, bytes, route)
    }
}
