//! The section `[parallel]`.

use super::{OrderChoice, OverlapNames, check_counts};
use crate::{Error, Result};
use grid::Degrees;
use parallel::{
    ContextAttention, GradientWire, Hierarchical, Overlap, Positions, data::Sharding,
    pipeline::ScheduleKind,
};
use serde::{Deserialize, Serialize};
use std::time::Duration;

crate::section! {
    /// Grid, schedule, overlap, threads.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    pub struct ParallelConfig {
        /// Number of ranks; absent: that of the grid.
        pub ranks: Option<usize>,
        /// Ranks along each axis.
        pub grid: Degrees,
        /// Which axis varies fastest over the positions of the grid; `auto` chooses by the bytes of a step and the nodes.
        pub order: OrderChoice,
        /// Which rank sits at which position: neighbours on one node, or in the launcher's order.
        pub positions: Positions,
        /// Whether collectives of groups that span nodes run inside each node, across nodes, and back.
        pub hierarchical: Hierarchical,
        /// The machine of the run, by name or by file, for choices that depend on its links.
        pub machine: Option<String>,
        /// The order in which micro-batches pass through the stages. With `pipedream` and `pipedream-2bw`, a run has other numbers.
        pub schedule: ScheduleKind,
        /// The number of segments of the model in each part of the pipeline, from the first part to the last. Absent: the cut
        /// whose slowest part takes the least time, with its messages, and that fits the memory.
        pub stages: Option<Vec<usize>>,
        /// The collectives that run beside compute: `oar`, the all-reduce of a gradient of inputs beside the matmul of that of
        /// weights; `ors`, the reduce-scatter of gradients of weights; `oag`, the all-gather of the next layer's weights
        /// (`oag-backward`: in backward alone); `data`, the sum of gradients over replicas.
        pub overlap: OverlapNames,
        /// MiB of weights that may be gathered ahead of their use.
        pub gather_budget_mib: usize,
        /// Whether gathered weights stay from a layer's forward to its backward.
        pub keep_gathered: bool,
        /// Whether weights of a 16-bit type are gathered in f32, as in systems with f32 parameters under an automatic cast.
        pub gather_wide: bool,
        /// The type in which gradients travel, with 16-bit activations: over Z in 16 bits and over Data in f32, all in 16
        /// bits, or all in f32. The bits of every grid need f32.
        pub gradient_wire: GradientWire,
        /// Whether ranks of X hold runs of the vectors between layers, such as tokens, instead of copies of all (sequence
        /// parallelism).
        pub sequence_parallel: bool,
        /// How attention meets the keys and values of other ranks along Context: it gathers them, exchanges tokens for heads, which
        /// the ranks must then divide, or passes keys and values from rank to rank, beside compute; `ring:4` passes them between
        /// groups of four ranks that exchange heads.
        pub context_attention: ContextAttention,
        /// Largest bucket of gradients, in MiB.
        pub bucket_mib: usize,
        /// What replicas along Data hold in shards: nothing, the optimiser's state (ZeRO stage 1), or gradients too (stage 2).
        #[serde(alias = "sharded_optimiser")]
        pub sharding: Sharding,
        /// Number of threads with which each rank computes, on the CPU.
        pub threads: usize,
        /// Seconds that a rank waits for others before the run ends.
        pub timeout_s: f64,
        /// Whether ranks compare their calls on the host before each collective.
        pub checked: bool,
    }
}

impl Default for ParallelConfig {
    fn default() -> Self {
        ParallelConfig {
            ranks: None,
            grid: Degrees {
                x: 2,
                y: 1,
                z: 2,
                context: 1,
                data: 1,
                pipeline: 2,
            },
            order: OrderChoice::Auto,
            positions: Positions::ByNode,
            hierarchical: Hierarchical::Auto,
            machine: None,
            schedule: ScheduleKind::default(),
            stages: None,
            overlap: OverlapNames(Overlap::ALL),
            gather_budget_mib: 256,
            keep_gathered: false,
            gather_wide: false,
            gradient_wire: GradientWire::Mixed,
            sequence_parallel: false,
            context_attention: ContextAttention::Gather,
            bucket_mib: 25,
            sharding: Sharding::None,
            threads: 1,
            timeout_s: 60.0,
            checked: false,
        }
    }
}

impl ParallelConfig {
    /// What is wrong with the numbers. Each rank of a process, and each of its threads, is a thread of the system.
    ///
    /// # Errors
    /// [`Error::Setting`] for a number of ranks or threads outside its bounds, and for ranks of Context that do not divide into
    /// those that exchange heads; as [`timeout`](ParallelConfig::timeout).
    pub fn check(&self) -> Result<()> {
        let counts = [
            ("ranks", self.ranks.unwrap_or(1), 1..=1 << 24),
            ("threads", self.threads, 1..=1 << 12),
        ];
        check_counts("parallel", &counts)?;
        let (way, ranks) = (self.context_attention, self.grid.context);
        if !ranks.is_multiple_of(way.exchange(ranks)) {
            let found = format!("{way} on context={ranks}");
            let needed = "a number of ranks that exchange heads which divides those of context";
            return Err(Error::setting("parallel.context_attention", found, needed));
        }
        self.timeout().map(drop)
    }

    /// How long a rank waits for others.
    ///
    /// # Errors
    /// [`Error::Setting`] for what is no time, or none that a clock can count.
    pub fn timeout(&self) -> Result<Duration> {
        let timeout = Duration::try_from_secs_f64(self.timeout_s).ok();
        timeout.filter(|timeout| !timeout.is_zero()).ok_or_else(|| {
            let (found, needed) = (self.timeout_s, "a number of seconds above 0");
            Error::setting("parallel.timeout_s", found, needed)
        })
    }
}
