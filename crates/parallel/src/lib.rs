//! 3D tensor parallelism, pipelining and data parallelism, written once over the safe shell: no vendor, no unsafe.
//!
//! Read in this order: [`mapping`] (the placement of ranks), [`context`] (the view of one rank), [`group`](mod@group)
//! (counted collectives along an axis), [`sums`] (their order on any grid), [`parameter`] (global names, layouts,
//! shards), [`Pass`] (the position of a forward in the run), [`cache`] (keys and values kept between passes), [`layers`] (their parallel operations), [`data`]
//! (gradient buckets, sharded optimiser state, norms, the order of calls in a step), [`model`] (segments, the wires
//! between them, an objective), [`memory`] (what segments keep, and where), [`pipeline`] (schedules and the engine that runs them).
//!
//! An **axis** is a direction of the grid of ranks, a **dim** a dimension of a tensor. With every degree 1 the same
//! code is the serial program: no collective runs, nothing is copied.

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
