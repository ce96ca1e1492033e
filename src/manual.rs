//! The manual's chapters as doc tests: their blocks of Rust compile, run on the CPU and check their results.

#[doc = include_str!("../docs/first-model.md")]
mod first_model {}

#[doc = include_str!("../docs/semantics.md")]
mod semantics {}
