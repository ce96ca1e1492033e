//! 3D tensor parallelism, pipelining and data parallelism, written once over the safe shell: no vendor, no unsafe.
//!
//! Read in this order: [`mapping`] (who sits where), [`context`] (what one rank knows),
//! [`group`](mod@group) (collectives along an axis, counted),
//! [`parameter`] (global names, layouts, shards), [`tensor`] (the layers' parallel operations), [`pipeline`]
//! (schedules and the engine that runs them), [`data`] (gradient buckets, sharded optimiser state, norms).
//!
//! An **axis** is a direction of the grid of ranks, a **dim** a dimension of a tensor. With every degree 1 the same
//! code is the serial program: no collective runs, nothing is copied.

#![forbid(unsafe_code)]

pub mod context;
pub mod counters;
pub mod data;
pub mod group;
pub mod mapping;
pub mod parameter;
pub mod pipeline;
pub mod report;
mod settings;
pub mod tensor;

pub use self::tensor::DTensor;
pub use ::tensor::{DType, Device, Error, Result};
pub use context::{Context, Position};
pub use counters::{Counters, Operation};
pub use group::{Group, Purpose};
pub use parameter::{Init, Parameter};
pub use settings::{Hierarchical, Overlap, Positions, Settings};
