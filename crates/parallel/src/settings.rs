//! Choices that change how a step runs, and not what it computes.

use serde::{Deserialize, Serialize};

/// Which collectives run beside compute. The results are the same with each on or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overlap {
    /// OAR: the all-reduce of dX runs beside the product dW.
    pub all_reduce: bool,
    /// ORS: the reduce-scatter of dW runs behind the backward of earlier layers.
    pub reduce_scatter: bool,
    /// OAG: the all-gather of the next layer's weights runs beside the current layer.
    pub all_gather: bool,
    /// OAG covers the first forward too, and not only the backward with what it computes again.
    pub all_gather_forward: bool,
    /// The all-reduce of gradients over Data runs, bucket by bucket, behind the last backward.
    pub data: bool,
}

impl Overlap {
    /// Everything overlapped.
    pub const ALL: Overlap = Overlap {
        all_reduce: true,
        reduce_scatter: true,
        all_gather: true,
        all_gather_forward: true,
        data: true,
    };
    /// Nothing overlapped.
    pub const NONE: Overlap = Overlap {
        all_reduce: false,
        reduce_scatter: false,
        all_gather: false,
        all_gather_forward: false,
        data: false,
    };
}

/// Whether collectives of a group that spans nodes go inside each node, across by aligned ranks, and back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Hierarchical {
    /// Where that is faster: by the machine's description, or for large buffers where none is known.
    #[default]
    Auto,
    /// Wherever a group allows it.
    On,
    /// Never.
    Off,
}

/// Which rank sits at which position of the grid, in a job of several nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Positions {
    /// Neighbours on the grid share a node wherever the nodes' sizes allow it.
    #[default]
    ByNode,
    /// Each rank sits at the position of its own number, as the launcher has dealt them.
    ByRank,
}

/// Choices that change how a step runs, and not what it computes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Which collectives run beside compute.
    pub overlap: Overlap,
    /// Bytes of gathered weights that may wait for their use.
    pub gather_budget: usize,
    /// Keep gathered weights from a layer's forward to its backward instead of gathering them again.
    pub keep_gathered: bool,
    /// Weights of a 16-bit type travel in their accumulator's type and are rounded where they are used: twice the bytes,
    /// as in systems that keep f32 parameters under an automatic cast. For comparison with those.
    pub gather_wide: bool,
    /// Largest bucket of gradients, in bytes.
    pub bucket_bytes: usize,
    /// How collectives go over nodes.
    pub hierarchical: Hierarchical,
    /// Which rank sits at which position of the grid.
    pub positions: Positions,
    /// Compare the ranks' calls before each collective.
    pub checked: bool,
    /// Seed of initial values and dropout.
    pub seed: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            overlap: Overlap::ALL,
            gather_budget: 256 << 20,
            keep_gathered: false,
            gather_wide: false,
            bucket_bytes: 25 << 20,
            hierarchical: Hierarchical::Auto,
            positions: Positions::ByNode,
            checked: false,
            seed: 1,
        }
    }
}
