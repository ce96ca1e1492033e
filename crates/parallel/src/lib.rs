//! 3D tensor parallelism, pipelining and data parallelism, written once over the safe shell: no vendor, no unsafe.
//!
//! This crate is for authors of models, layers and schedules. The crate `fascicle` re-exports it as `fascicle::parallel`, with
//! what most of them need in its prelude. Begin with [Grids and what they
//! cost](https://github.com/fascicle-rs/fascicle/blob/main/docs/grids.md) and [Pipelines and
//! skips](https://github.com/fascicle-rs/fascicle/blob/main/docs/pipelines.md) in the manual of
//! [Fascicle](https://github.com/fascicle-rs/fascicle).
//!
//! Read in this order: [`mapping`] (the placement of ranks), [`context`] (the view of one rank), [`group`](mod@group)
//! (counted collectives along an axis), [`sums`] (their order on any grid), [`parameter`] (global names, layouts,
//! shards), [`Pass`] (the position of a forward in the run), [`cache`] (keys and values kept between passes), [`layers`] (their parallel operations), [`data`]
//! (gradient buckets, sharded optimiser state, norms, the order of calls in a step), [`model`] (segments, the wires
//! between them, an objective), [`memory`] (what segments keep, and where), [`pipeline`] (schedules and the engine that runs them).
//!
//! An **axis** is a direction of the grid of ranks, a **dim** a dimension of a tensor. With every degree 1 the same
//! code is the serial program: no collective runs, nothing is copied.
//!
//! What two stages do with three micro-batches:
//!
//! ```
//! use fascicle_parallel::pipeline::schedule::{build, check};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // A schedule is a value: it can be printed, and checked before a rank runs it.
//! let schedule = build("1f1b".parse()?, 2, 3)?;
//! println!("{}", schedule.to_text(80));
//! assert_eq!(check(&schedule)?.peak_live, [2, 1]);
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

pub mod cache;
pub mod context;
pub mod counters;
pub mod data;
pub mod digest;
pub mod group;
mod initial;
mod lane;
pub mod layers;
pub mod mapping;
pub mod memory;
pub mod model;
pub mod parameter;
mod pass;
pub mod pipeline;
pub mod report;
mod settings;
pub mod sums;
pub mod work;

pub use context::Context;
pub use counters::{Counters, Operation, Subject};
pub use group::{Group, Purpose};
pub use hal::quantised::Quantised;
pub use initial::Init;
pub use layers::DTensor;
pub use model::{Batch, Input, MicroBatch, Model, Route, Wires};
pub use parameter::{Parameter, Scope};
pub use pass::{Mode, Pass};
pub use pipeline::Pipeline;
pub use settings::{
    ContextAttention, GradientWire, Hierarchical, Overlap, Positions, Reproducible, Settings,
};
pub use sums::{CutFirst, RowCut};
pub use tensor::{DType, Device, Error, Result};
