//! Fascicle trains neural networks that do not fit one accelerator.
//!
//! 3D tensor parallelism, pipelining and hybrid data parallelism are written once, over a seam that each vendor
//! implements. This crate re-exports the parts; [`prelude`] is what most programs need.
#![doc = include_str!("../docs/first-model.md")]

pub mod launch;
pub mod prelude;
pub mod registry;

pub use ::tensor;
pub use bootstrap;
#[cfg(feature = "cli")]
pub use cli;
pub use families;
pub use grid;
pub use hal;
pub use nn;
pub use parallel;
#[cfg(feature = "plan")]
pub use plan;
#[cfg(feature = "plan")]
pub use sim;
#[cfg(feature = "testing")]
pub use testing;
pub use train;

pub use launch::{Job, job};
pub use train::{Error, Result};
