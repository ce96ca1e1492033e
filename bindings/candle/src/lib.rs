//! Fascicle's ranks, grids and collectives for programs written with candle.
//!
//! Begin with [Trainers of your own](https://github.com/fascicle-rs/fascicle/blob/main/docs/other-trainers.md#candle)
//! in the manual of [Fascicle](https://github.com/fascicle-rs/fascicle).
//!
//! [`GradStoreReducer`] reduces the gradients of a `backward()` over replicas, and divides parameters over them for an optimiser
//! with sharded state (ZeRO-1). [`TensorParallel`] has the two operations that tensor parallelism needs in a forward pass, with
//! their gradients. [`ShardedVarBuilder`] makes the parameters of which each rank holds a slice. `library` is the crate `fascicle`.
//!
//! Tensors are on candle's CPU device; others are refused. Nothing overlaps with `backward()`, which candle runs in one call, without
//! hooks.

#![forbid(unsafe_code)]

mod error;
mod reducer;
mod sharded;
mod storage;
mod tensor_parallel;
mod vars;

pub use error::{Error, Result};
pub use library;
pub use library::collective::{AxisGroup, ParameterShards, ReducerOptions};
pub use reducer::GradStoreReducer;
pub use sharded::ShardedVarBuilder;
pub use tensor_parallel::TensorParallel;
pub use vars::NamedVars;
