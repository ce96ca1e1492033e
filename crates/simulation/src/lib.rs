//! `hal::sync` for simulations: with `--cfg fascicle_simulated`, `hal` has the module [`sync`] in place of the standard library's
//! primitives. Without the flag it is compiled here alone, where its own tests run.

#![forbid(unsafe_code)]

#[cfg(not(fascicle_simulated))]
pub mod sync;
