//! The README and the manual's chapters as doc tests: their blocks of Rust compile, run on the CPU and check their results.

#[doc = include_str!("../README.md")]
mod readme {}

#[doc = include_str!("../docs/first-model.md")]
mod first_model {}

#[doc = include_str!("../docs/semantics.md")]
mod semantics {}

#[doc = include_str!("../docs/extending.md")]
mod extending {}

#[doc = include_str!("../docs/data.md")]
mod data {}

#[doc = include_str!("../docs/other-trainers.md")]
mod other_trainers {}

#[doc = include_str!("../docs/grids.md")]
mod grids {}

#[doc = include_str!("../docs/pipelines.md")]
mod pipelines {}

#[doc = include_str!("../docs/checkpoints.md")]
mod checkpoints {}

#[doc = include_str!("../docs/generation.md")]
mod generation {}

#[cfg(feature = "plan")]
#[doc = include_str!("../docs/planner.md")]
mod planner {}

#[doc = include_str!("../docs/errors.md")]
mod errors {}
