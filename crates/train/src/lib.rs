//! Training: from a model and batches, or from a configuration, to a trained model and back.
//!
//! This crate is for programs that train a model of their own, and for the program `fascicle`. The crate `fascicle` re-exports it
//! as `fascicle::train`. Begin with [Your first model](https://github.com/fascicle-rs/fascicle/blob/main/docs/first-model.md) in
//! the manual of [Fascicle](https://github.com/fascicle-rs/fascicle).
//!
//! For your own program: [`trainer`] (steps, validation, checkpoints of any model), [`batches`] (the rows that
//! a step reads), [`optimiser`] (how weights follow their gradients). For the program `fascicle`, which builds
//! on these: [`config`] (the configuration of a run), [`architecture`] (the model in a configuration, and the
//! families that it can name), [`placement`] (the placement of ranks), [`data`] (text), [`run`] (a complete
//! run), [`metrics`] (records, plots, traces), [`digest`] (what a step computed, in a form that no grid changes), [`speed`] (how fast each rank is), [`generate`](mod@generate) (text from a checkpoint), [`eval`] (how well a model predicts texts and answers),
//! [`foreign`] (models of other programs), [`preference`](mod@preference) (training on pairs of answers). Nothing
//! here names a vendor or a model: the caller that runs a rank opens devices and registers families.
//!
//! The training loop of one rank:
//!
//! ```
//! use fascicle_train::{Result, Trainer, batches::Batches, optimiser::AdamW, trainer::Options};
//!
//! // On each rank, with a context of its grid; rows come by their number, so the batch is the same on every grid.
//! fn train<M: parallel::Model + 'static>(
//!     context: &parallel::Context,
//!     build: impl Fn(&nn::Builder) -> tensor::Result<M>,
//!     data: &dyn Batches,
//! ) -> Result<Vec<f64>> {
//!     let mut trainer = Trainer::new(context, build, AdamW::new(3e-4), Options::default())?;
//!     let losses = trainer.train_until(100, data)?;
//!     trainer.save("run")?;
//!     Ok(losses)
//! }
//! ```

#![deny(unsafe_code)]

pub mod architecture;
pub mod batches;
pub mod blueprint;
pub mod config;
pub mod data;
pub mod digest;
mod error;
pub mod eval;
pub mod foreign;
pub mod generate;
pub mod metrics;
pub mod optimiser;
pub mod placement;
pub mod preference;
pub mod run;
pub mod speed;
pub mod store;
pub mod trainer;

pub use architecture::{Architecture, Families, Family, ModelConfig};
#[doc(inline)]
pub use checkpoint;
pub use config::Config;
pub use error::{Error, Meant, Mismatch, Result};
pub use run::{Observer, Stop, Summary};
pub use trainer::{PeakMemory, Trainer};
