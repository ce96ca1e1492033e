//! The cost of a collective on a route: the latency of its steps and the transfer of its bytes.
//!
//! A ring moves (p-1)/p of the buffer through every link for an all-gather or a reduce-scatter, and twice that
//! for an all-reduce. Inside a node the bandwidth comes from the table. A ring that leaves the node shares the
//! node's adapters with its siblings. Source: the cost model of AxoNN (Singh et al., SC 2024), extended by
//! latency, trees and the hierarchical form.

use super::{file::Machine, route::Route};
use serde::{Deserialize, Serialize};

/// A collective, for the purpose of its cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the names of the operations")]
pub enum Operation {
    AllReduce,
    ReduceScatter,
    AllGather,
    Broadcast,
    AllToAll,
    Message,
    Barrier,
}

/// How a collective crosses the nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Algorithm {
    /// One ring, or one tree, over all ranks.
    Flat,
    /// Inside each node, across nodes by aligned ranks, and back.
    Hierarchical,
}

/// The duration of a collective, and the resources it uses.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    /// Seconds in which no link is used.
    pub latency_s: f64,
    /// Seconds in which links are used.
    pub transfer_s: f64,
    /// Whether it uses links inside a node.
    pub in_node: bool,
    /// Whether it uses the node's adapters.
    pub network: bool,
}

impl Cost {
    /// All of it.
    pub fn seconds(&self) -> f64 {
        self.latency_s + self.transfer_s
    }

    /// The cost of both, one after the other.
    pub fn and(self, other: Cost) -> Cost {
        Cost {
            latency_s: self.latency_s + other.latency_s,
            transfer_s: self.transfer_s + other.transfer_s,
            in_node: self.in_node || other.in_node,
            network: self.network || other.network,
        }
    }
}

impl Machine {
    /// The cost of a flat collective over a whole buffer of `bytes`: a gather's result, or a scatter's input.
    pub fn collective(&self, operation: Operation, bytes: usize, route: Route) -> Cost {
        if route.size <= 1 && operation != Operation::Message {
            return Cost::default();
        }
        let (in_node, network) = (route.per_node > 1 || route.in_node(), !route.in_node());
        if let Some(timed) =
            self.links
                .timed(operation, route.inner, route.size, route.ranks_per_node)
        {
            let (all, start) = (timed.seconds(bytes as f64), timed.seconds(0.0));
            let latency_s = start.min(all);
            return Cost {
                latency_s,
                transfer_s: all - latency_s,
                in_node,
                network,
            };
        }
        let ring = Cost {
            in_node,
            network,
            ..self.ring(operation, bytes as f64, route)
        };
        match operation {
            Operation::AllReduce => self.tree(bytes as f64, route).map_or(ring, |tree| {
                let tree = Cost {
                    in_node,
                    network,
                    ..tree
                };
                if tree.seconds() < ring.seconds() {
                    tree
                } else {
                    ring
                }
            }),
            _ => ring,
        }
    }

    /// The cost of the hierarchical form, or of the flat one where the group gains nothing from levels.
    pub fn hierarchical(&self, operation: Operation, bytes: usize, route: Route) -> Cost {
        use Operation::{AllGather, AllReduce, ReduceScatter};
        if route.in_node() || route.per_node <= 1 {
            return self.collective(operation, bytes, route);
        }
        let (inside, across, part) = (route.inside(), route.across(), bytes / route.per_node);
        match operation {
            AllReduce => self
                .collective(ReduceScatter, bytes, inside)
                .and(self.collective(AllReduce, part, across))
                .and(self.collective(AllGather, bytes, inside)),
            AllGather | ReduceScatter => self
                .collective(operation, part, across)
                .and(self.collective(operation, bytes, inside)),
            _ => self.collective(operation, bytes, route),
        }
    }

    /// The faster form for that size.
    pub fn better(&self, operation: Operation, bytes: usize, route: Route) -> Algorithm {
        let flat = self.collective(operation, bytes, route).seconds();
        match self.hierarchical(operation, bytes, route).seconds() < flat {
            true => Algorithm::Hierarchical,
            false => Algorithm::Flat,
        }
    }

    /// The bandwidth of each ring of the route, in bytes per second.
    pub fn ring_bandwidth(&self, route: Route) -> f64 {
        let links = &self.links;
        if let Some(measured) = links.in_table(route.inner, route.size) {
            return measured * self.network_share(route);
        }
        if route.in_node() {
            return links.peer_gbps.value * 1e9;
        }
        links.injection_gbps.value * 1e9 / route.rings as f64 * self.network_share(route)
    }

    /// The bandwidth of one message between two ranks of the route, in bytes per second.
    pub fn message_bandwidth(&self, route: Route) -> f64 {
        let links = &self.links;
        if route.in_node() {
            return links.peer_gbps.value * 1e9;
        }
        let adapter = links.injection_gbps.value / links.nics.max(1) as f64;
        let sharing = links.devices_per_nic.min(route.ranks_per_node).max(1) as f64;
        adapter / sharing * 1e9
    }

    // The fraction of bandwidth left for a group that spans many nodes, because long paths meet other traffic.
    fn network_share(&self, route: Route) -> f64 {
        match (&self.links.half_nodes, route.in_node()) {
            (Some(half), false) => half.value / (half.value + route.nodes as f64),
            _ => 1.0,
        }
    }

    fn ring(&self, operation: Operation, bytes: f64, route: Route) -> Cost {
        let links = &self.links;
        let size = route.size as f64;
        let rounds = match operation {
            Operation::AllReduce => 2.0,
            Operation::AllGather
            | Operation::ReduceScatter
            | Operation::Broadcast
            | Operation::AllToAll => 1.0,
            Operation::Barrier | Operation::Message => 0.0,
        };
        let crossings = if route.in_node() {
            0.0
        } else {
            route.nodes as f64 - 1.0
        };
        let steps_inside = (size - 1.0 - crossings).max(0.0);
        let steps = crossings * links.network_us.value + steps_inside * links.in_node_us.value;
        let latency_us = match operation {
            Operation::Message if route.in_node() => links.base_us.value + links.in_node_us.value,
            Operation::Message => links.base_us.value + links.network_us.value,
            Operation::Barrier => links.base_us.value + self.tree_steps_us(route),
            _ => links.base_us.value + rounds * steps,
        };
        let transfer_s = match operation {
            Operation::Message => bytes / self.message_bandwidth(route),
            _ => rounds * (size - 1.0) / size * bytes / self.ring_bandwidth(route),
        };
        Cost {
            latency_s: latency_us * 1e-6,
            transfer_s,
            ..Cost::default()
        }
    }

    fn tree(&self, bytes: f64, route: Route) -> Option<Cost> {
        let share = self.links.tree.as_ref()?.value;
        let size = route.size as f64;
        let transfer_s = 2.0 * (size - 1.0) / size * bytes / (share * self.ring_bandwidth(route));
        let latency_s = (self.links.base_us.value + self.tree_steps_us(route)) * 1e-6;
        Some(Cost {
            latency_s,
            transfer_s,
            ..Cost::default()
        })
    }

    // Down inside the node, over a binary tree of nodes, and back.
    fn tree_steps_us(&self, route: Route) -> f64 {
        let inside = (route.per_node as f64 - 1.0) * self.links.in_node_us.value;
        2.0 * (inside + (route.nodes.max(1) as f64).log2() * self.links.network_us.value)
    }
}
