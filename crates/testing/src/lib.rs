//! Proves a model: every grid gives the losses, gradients and weights of one rank.
//!
//! [`check`](fn@check) trains a model in f64 on every factorisation of up to a given number of ranks, and
//! compares each with the serial program. This library proves its own models with it. Read in this order:
//! `check`, `observed` (what one rank sees of a training), `outcome` (the combined result of all ranks),
//! `compare` (the differences between two outcomes), `error` (why a model fails).

#![forbid(unsafe_code)]

mod check;
mod compare;
mod error;
mod observed;
mod outcome;

pub use check::{Check, GridReport, Report, check};
pub use compare::{Difference, difference};
pub use error::{Disagreement, Error, TrainingError};
pub use observed::Observed;
pub use outcome::Outcome;
