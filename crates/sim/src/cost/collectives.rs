//! What collectives cost a group that lies on the nodes in its way.

use super::Costs;
use grid::machine::{Cost, Operation, Route};
use hal::{Collective, RawSlice};

/// How a group lies on the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupShape {
    route: Route,
}

impl GroupShape {
    /// Its way over the nodes.
    pub fn route(&self) -> Route {
        self.route
    }
}

/// What a call takes, and of what.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Transfer {
    /// Seconds in which no link is used.
    pub latency_s: f64,
    /// Seconds in which links are used.
    pub transfer_s: f64,
    /// Whether links inside a node are among them.
    pub in_node: bool,
    /// Whether the node's adapters are among them.
    pub network: bool,
}

impl Costs {
    /// How the group of these world ranks lies on the machine.
    pub fn group(&self, members: &[usize]) -> GroupShape {
        GroupShape { route: Route::of(members, self.placement) }
    }

    /// What collectives that progress together take: each link its bytes, and one start for all.
    pub fn collectives(&self, group: &GroupShape, calls: &[Collective]) -> Transfer {
        let costs = calls.iter().map(|call| self.collective(group, call));
        costs.fold(Transfer::default(), |all, cost| Transfer {
            latency_s: all.latency_s.max(cost.latency_s),
            transfer_s: all.transfer_s + cost.transfer_s,
            in_node: all.in_node || cost.in_node,
            network: all.network || cost.network,
        })
    }

    fn collective(&self, group: &GroupShape, call: &Collective) -> Cost {
        let (operation, buffer) = match call {
            Collective::AllReduce { buffer, .. } => (Operation::AllReduce, Some(*buffer)),
            Collective::ReduceScatter { send, .. } => (Operation::ReduceScatter, Some(*send)),
            Collective::AllGather { recv, .. } => (Operation::AllGather, Some(*recv)),
            Collective::Broadcast { buffer, .. } => (Operation::Broadcast, Some(*buffer)),
            Collective::AllToAll { send, .. } => (Operation::AllToAll, Some(*send)),
            Collective::Send { buffer, .. } | Collective::Recv { buffer, .. } => {
                (Operation::Message, Some(*buffer))
            }
            Collective::Barrier => (Operation::Barrier, None),
        };
        self.machine.collective(operation, buffer.map_or(0, bytes), group.route)
    }
}

fn bytes(slice: RawSlice) -> usize {
    slice.len * slice.dtype.bytes()
}
