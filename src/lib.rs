//! Fascicle trains neural networks that do not fit one accelerator.
//!
//! 3D tensor parallelism, pipelining and hybrid data parallelism are each written once, over a seam that each
//! vendor implements. This crate re-exports the parts; [`prelude`] is what most programs need.
//!
//! It is for authors of models and trainers in Rust, who write a model once and train it on any grid of ranks: on a laptop, where
//! ranks are threads, or on a cluster. Its program `fascicle` trains GPT-2 and Llama without a line of code. Begin with
//! [Your first model](https://github.com/fascicle-rs/fascicle/blob/main/docs/first-model.md); the manual's
//! [contents](https://github.com/fascicle-rs/fascicle/blob/main/docs/SUMMARY.md) list the rest.
//!
//! | to | see |
//! |---|---|
//! | write a model | [`nn`], [`parallel::Model`] |
//! | train it | [`train::Trainer`], [`train::batches::Batches`] |
//! | start ranks | [`job()`], [`launch()`](launch::launch), [`grid::Grid`] |
//! | bring a trainer of your own | [`collective`] |
//! | prove a model on every grid | `testing::check`, with the feature `testing` |
//! | choose a grid | `plan::plan`, with the feature `plan` |
//! | add a layer or an operation | [`tensor`](mod@tensor), [`parallel`] |
//! | add a vendor | [`hal`] |
//!
//! ```
//! use fascicle::prelude::*;
//!
//! # fn main() -> fascicle::Result<()> {
//! // Ordinary code: two layers and an activation.
//! fn build(builder: &Builder) -> Result<(fascicle::nn::Linear, fascicle::nn::Linear)> {
//!     Ok((builder.linear("up", 4, 16)?, builder.linear_transposed("down", 16, 2)?))
//! }
//!
//! // The same lines on one rank and on four: x=2 cuts the first layer's outputs, y=2 its inputs.
//! let run = |grid: &str| {
//!     let grid = Grid::new(grid.parse()?, AxisOrder::default())?;
//!     let outputs = launch(grid, Settings::default(), |context| {
//!         let model = auto_parallelize(context, SetOptions::inference(DType::F64), build)?;
//!         let x = Tensor::from_slice(context.device(), &[1, 4], &[1.0, 2.0, 3.0, 4.0])?;
//!         let (up, down) = &model.module;
//!         let y = down.forward(&up.forward(&DTensor::input(&Pass::evaluation(context, 1), x)?)?.gelu()?)?;
//!         y.whole("the caller")?.tensor()?.to_vec::<f64>()
//!     });
//!     Ok::<_, fascicle::Error>(outputs?)
//! };
//! let (serial, parallel) = (run("x=1")?, run("x=2,y=2")?);
//! assert!(serial[0].iter().zip(&parallel[3]).all(|(a, b)| (a - b).abs() < 1e-12));
//! # Ok(())
//! # }
//! ```

pub mod launch;
#[cfg(doctest)]
mod manual;
pub mod prelude;
pub mod registry;

pub use ::tensor;
pub use bootstrap;
#[cfg(feature = "cli")]
pub use cli;
pub use collective;
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
