//! The links between devices: those inside a node, and the node's network adapters.

use super::{collective::Operation, crowding::Lateness, quantity::Quantity};
use serde::{Deserialize, Serialize};

/// The links of a machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Links {
    /// Number of network adapters per node.
    pub nics: usize,
    /// Number of devices that share one adapter.
    pub devices_per_nic: usize,
    /// Bandwidth of collectives through all adapters of a node together, each way, in GB/s.
    pub injection_gbps: Quantity,
    /// Bandwidth of a message between two devices of a node, in GB/s.
    pub peer_gbps: Quantity,
    /// Start-up time of a collective of any size, in microseconds.
    pub base_us: Quantity,
    /// Time per ring step between devices of a node, in microseconds.
    pub in_node_us: Quantity,
    /// Time per ring step between nodes, in microseconds.
    pub network_us: Quantity,
    /// Bandwidth of an all-reduce along a tree, relative to a ring; `None` if the library has no trees.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tree: Option<Quantity>,
    /// Number of nodes in a group at which the network's bandwidth halves; `None` if it does not fall.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub half_nodes: Option<Quantity>,
    /// Bandwidths of rings, measured with all sibling groups active at once. The first matching row applies.
    #[serde(default)]
    pub table: Vec<TableRow>,
    /// Collectives that were timed individually; they replace everything else for groups of their kind.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub measured: Vec<Timed>,
    /// Their extra cost where ranks share cores, by rising number of ranks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub late: Vec<Lateness>,
}

/// A ring's bandwidth for groups of some sizes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableRow {
    /// Smallest and largest product of the sizes of the axes inside.
    pub inner: [usize; 2],
    /// Smallest and largest number of ranks.
    pub size: [usize; 2],
    /// Bandwidth of each ring, each way, in GB/s.
    pub gbps: Quantity,
}

/// Times of one collective by size, all sibling groups active at once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Timed {
    /// Number of ranks on the node in that run.
    pub ranks: usize,
    /// Distance between neighbours of the group.
    pub inner: usize,
    /// Number of ranks in the group.
    pub size: usize,
    /// Which collective.
    pub operation: Operation,
    /// (bytes of the whole buffer, microseconds), by rising size.
    pub points: Vec<[f64; 2]>,
}

impl Timed {
    /// Seconds for a buffer of `bytes`, interpolated linearly between the points.
    pub fn seconds(&self, bytes: f64) -> f64 {
        let Some(&[first_bytes, first_us]) = self.points.first() else {
            return 0.0;
        };
        let Some(&[last_bytes, last_us]) = self.points.last() else {
            return 0.0;
        };
        if bytes <= first_bytes {
            return first_us * 1e-6;
        }
        let pair = self.points.windows(2).find(|pair| bytes <= pair[1][0]);
        let us = match pair {
            Some(&[[low, low_us], [high, high_us]]) => {
                low_us + (high_us - low_us) * (bytes - low) / (high - low)
            }
            _ => last_us * bytes / last_bytes,
        };
        us * 1e-6
    }
}

impl Links {
    /// The measured bandwidth of a ring in bytes per second, if a row of the table matches.
    pub fn in_table(&self, inner: usize, size: usize) -> Option<f64> {
        let within = |[low, high]: [usize; 2], value: usize| low <= value && value <= high;
        let fits = |row: &&TableRow| within(row.inner, inner) && within(row.size, size);
        self.table.iter().find(fits).map(|row| row.gbps.value * 1e9)
    }

    /// The timed runs of a collective for groups of that kind, from the run with the nearest number of ranks.
    pub fn timed(
        &self,
        operation: Operation,
        inner: usize,
        size: usize,
        ranks: usize,
    ) -> Option<&Timed> {
        let alike = |timed: &&Timed| timed.operation == operation && timed.size == size;
        let away = |timed: &&Timed| (timed.ranks.abs_diff(ranks), timed.inner.abs_diff(inner));
        self.measured.iter().filter(alike).min_by_key(away)
    }

    pub(super) fn quantities(&self) -> Vec<(String, &Quantity)> {
        let mut all = vec![
            ("links.injection_gbps".into(), &self.injection_gbps),
            ("links.peer_gbps".into(), &self.peer_gbps),
            ("links.base_us".into(), &self.base_us),
            ("links.in_node_us".into(), &self.in_node_us),
            ("links.network_us".into(), &self.network_us),
        ];
        all.extend(self.tree.iter().map(|share| ("links.tree".into(), share)));
        all.extend(
            self.half_nodes
                .iter()
                .map(|nodes| ("links.half_nodes".into(), nodes)),
        );
        all.extend(
            self.table
                .iter()
                .enumerate()
                .map(|(at, row)| (format!("links.table[{at}]"), &row.gbps)),
        );
        all
    }
}
