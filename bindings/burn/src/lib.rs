//! Fascicle's ranks, grids and collectives for programs written with burn.
//!
//! Begin with [Trainers of your own](https://github.com/fascicle-rs/fascicle/blob/main/docs/other-trainers.md#burn)
//! in the manual of [Fascicle](https://github.com/fascicle-rs/fascicle).
//!
//! [`RankStrategy`] is a learning strategy for burn's `Learner`: each rank, a thread or a process, trains on its part of the data, and
//! gradients are reduced between a step's backward pass and its optimiser. [`GradientsReducer`] does the same in a training loop of
//! one's own. Both divide the optimiser's state over replicas if asked (ZeRO-1). `library` is the crate `fascicle`.
//!
//! Tensors may be of any backend: their data goes through the host, which on the CPU copies nothing. Nothing overlaps with
//! `backward()`, which burn runs in one call, without hooks.

#![forbid(unsafe_code)]

mod data;
mod error;
mod reducer;
mod strategy;
mod visitors;

pub use error::{Error, Result};
pub use library;
pub use library::collective::{AxisGroup, ParameterShards, ReducerOptions};
pub use reducer::{GradientsReducer, broadcast, shards};
pub use strategy::RankStrategy;
