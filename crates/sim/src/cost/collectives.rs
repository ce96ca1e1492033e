//! The cost of collectives for a group, given its placement on the nodes.

use super::Costs;
use grid::machine::{Cost, Operation, Route};
use hal::Collective;

impl Costs {
    /// The placement of the group of these world ranks on the machine.
    pub fn group(&self, members: &[usize]) -> Route {
        Route::of(members, self.placement)
    }

    /// The cost of collectives that progress together: each link carries its bytes, and all share one start. Links carry what is
    /// received beside what is sent.
    pub fn collectives(&self, route: Route, calls: &[Collective]) -> Cost {
        let together = |all: Cost, cost: Cost| Cost {
            latency_s: all.latency_s.max(cost.latency_s),
            ..all.and(cost)
        };
        let of = |received: bool| {
            let is = |call: &&Collective| matches!(call, Collective::Recv { .. }) == received;
            let costs = calls.iter().filter(is);
            let costs = costs.map(|call| self.collective(route, call));
            costs.fold(Cost::default(), together)
        };
        let (sent, received) = (of(false), of(true));
        Cost {
            transfer_s: sent.transfer_s.max(received.transfer_s),
            ..together(sent, received)
        }
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
