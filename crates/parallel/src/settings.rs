//! Choices that change how a step runs, but not its results.

mod context_attention;

pub use context_attention::ContextAttention;

use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};
use tensor::{DType, Error, Result};

/// The collectives that run beside compute. The results are the same with each on or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overlap {
    /// OAR: the all-reduce of dX runs beside the GEMM for dW.
    pub all_reduce: bool,
    /// ORS: the reduce-scatter of dW overlaps the backward of earlier layers.
    pub reduce_scatter: bool,
    /// OAG: the all-gather of the next layer's weights runs beside the current layer.
    pub all_gather: bool,
    /// OAG also covers the first forward, and not only the backward with its recomputation.
    pub all_gather_forward: bool,
    /// The all-reduce of gradients over Data overlaps the last backward, bucket by bucket.
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

/// Whether collectives of a group that spans nodes run inside each node, across nodes by aligned ranks, and
/// back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Hierarchical {
    /// Where that is faster: by the machine's description, or for large buffers if there is none.
    #[default]
    Auto,
    /// Wherever a group allows it.
    On,
    /// Never.
    Off,
}

/// What the bits of a run depend on, besides its configuration, its data and the vendor with its instruction set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Reproducible {
    /// On the grid: the same grid, in the same order of ranks, gives the same bits.
    #[default]
    Run,
    /// On nothing else: every grid, schedule, overlap, launcher and number of threads gives the same bits.
    Grid,
}

impl fmt::Display for Reproducible {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reproducible::Run => "run",
            Reproducible::Grid => "grid",
        })
    }
}

impl FromStr for Reproducible {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "run" => Ok(Reproducible::Run),
            "grid" => Ok(Reproducible::Grid),
            _ => Err(Error::invalid(
                "reproducible",
                format!("found `{text}`"),
                "run or grid",
            )),
        }
    }
}

/// The type in which gradients travel, where activations have a 16-bit type. Nodes of sums that no grid changes always travel
/// in the accumulator type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GradientWire {
    /// Those of a micro-batch's weights over Z in the type of activations, those of a step over Data in the accumulator type.
    #[default]
    Mixed,
    /// All in the type of activations: half the bytes over Data, and one more rounding.
    Narrow,
    /// All in the accumulator type: twice the bytes over Z.
    Wide,
}

impl GradientWire {
    /// The type of gradients over Z, where activations are `dtype`.
    pub fn over_z(self, dtype: DType) -> DType {
        match self {
            GradientWire::Mixed | GradientWire::Narrow => dtype,
            GradientWire::Wide => dtype.accumulator(),
        }
    }

    /// The type of gradients over Data.
    pub fn over_data(self, dtype: DType) -> DType {
        match self {
            GradientWire::Narrow => dtype,
            GradientWire::Mixed | GradientWire::Wide => dtype.accumulator(),
        }
    }
}

impl fmt::Display for GradientWire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            GradientWire::Mixed => "mixed",
            GradientWire::Narrow => "narrow",
            GradientWire::Wide => "wide",
        })
    }
}

impl FromStr for GradientWire {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "mixed" => Ok(GradientWire::Mixed),
            "narrow" => Ok(GradientWire::Narrow),
            "wide" => Ok(GradientWire::Wide),
            _ => {
                let found = format!("found `{text}`");
                Err(Error::invalid(
                    "gradient_wire",
                    found,
                    "mixed, narrow or wide",
                ))
            }
        }
    }
}

/// The placement of ranks on the grid, in a job with several nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Positions {
    /// Neighbours on the grid share a node wherever the nodes' sizes allow it.
    #[default]
    ByNode,
    /// Each rank sits at the position of its own number, in the order of the launcher.
    ByRank,
}

/// Choices that change how a step runs, but its results at most by rounding.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// The collectives that run beside compute.
    pub overlap: Overlap,
    /// Bytes of gathered weights that may wait for their use.
    pub gather_budget: usize,
    /// Keep gathered weights from a layer's forward to its backward instead of gathering them again.
    pub keep_gathered: bool,
    /// Gather weights of a 16-bit type in their accumulator type, and round them where they are used. This
    /// doubles the bytes, as in systems that keep f32 parameters under automatic casting, and serves for
    /// comparison with those.
    pub gather_wide: bool,
    /// The type in which gradients travel.
    pub gradient_wire: GradientWire,
    /// Spread the vectors of activations that X does not cut over the ranks of X (sequence parallelism).
    pub sequence_parallel: bool,
    /// How attention meets the keys and values of other ranks along Context.
    pub context_attention: ContextAttention,
    /// Largest bucket of gradients, in bytes.
    pub bucket_bytes: usize,
    /// How collectives cross nodes.
    pub hierarchical: Hierarchical,
    /// The placement of ranks on the grid.
    pub positions: Positions,
    /// What the bits of a run depend on.
    pub reproducible: Reproducible,
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
            gradient_wire: GradientWire::Mixed,
            sequence_parallel: false,
            context_attention: ContextAttention::Gather,
            bucket_bytes: 25 << 20,
            hierarchical: Hierarchical::Auto,
            positions: Positions::ByNode,
            reproducible: Reproducible::Run,
            checked: false,
            seed: 1,
        }
    }
}
