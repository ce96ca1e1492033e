//! Proves a model: every grid gives the losses, gradients and weights of one rank.
//!
//! This crate is for the tests of whoever writes a model or a layer. The crate `fascicle` re-exports it as `fascicle::testing`,
//! with the feature `testing`. Begin with [Proof](https://github.com/fascicle-rs/fascicle/blob/main/docs/extending.md#proof) in
//! the manual of [Fascicle](https://github.com/fascicle-rs/fascicle).
//!
//! [`check`](fn@check) trains a model in f64 on every factorisation of up to a given number of ranks, and
//! compares each with the serial program. This library proves its own models with it. Read in this order:
//! `check`, `observed` (what one rank sees of a training), `outcome` (the combined result of all ranks),
//! `compare` (the differences between two outcomes), `error` (why a model fails).
//!
//! A model of two segments, on one rank and on all grids of two:
//!
//! ```
//! use fascicle_testing::{Check, check};
//! use nn::{Builder, Linear};
//! use parallel::{Input, Model, Wires, layers::Loss};
//! use tensor::Result;
//! use train::batches::Rows;
//!
//! struct Net(Linear, Linear);
//!
//! impl Model for Net {
//!     fn num_segments(&self) -> usize {
//!         2
//!     }
//!     fn forward(&self, segment: usize, input: &Input<'_>, mut wires: Wires) -> Result<Wires> {
//!         let x = match segment {
//!             0 => self.0.forward(&input.activation("x")?)?.tanh()?,
//!             _ => self.1.forward(&wires.take("x")?)?,
//!         };
//!         Ok(Wires::of("x", x))
//!     }
//!     fn objective(&self, _: &Input<'_>, mut wires: Wires) -> Result<Loss> {
//!         Loss::mean(&wires.take("x")?.square()?)
//!     }
//! }
//!
//! fn build(builder: &Builder) -> Result<Net> {
//!     let (first, second) = (builder.segment(0), builder.segment(1));
//!     Ok(Net(first.linear("up", 4, 8)?, second.linear_transposed("down", 8, 4)?))
//! }
//!
//! # fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
//! let data = |_: u64, rows: std::ops::Range<usize>| {
//!     Ok(Rows::new().with("x", &[4], rows.flat_map(|row| [row as f64 / 16.0; 4]).collect::<Vec<_>>()))
//! };
//! let report = check(build, data, &Check { ranks: 2, ..Check::default() })?;
//! assert!(report.passes(), "{report}");
//! # Ok(())
//! # }
//! ```

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
