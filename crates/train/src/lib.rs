//! Training: from a model and batches, or from a configuration, to a trained model and back.
//!
//! For a program of one's own: [`trainer`] (steps, validation, checkpoints of any model), [`batches`] (which rows a step
//! reads), [`optimiser`] (how weights follow their gradients). For the program `fascicle`, which is built on these:
//! [`config`] (what a run is asked to be), [`architecture`] (the model in a configuration, and the families that it can
//! name), [`placement`] (where ranks sit), [`data`] (text), [`run`] (a run from beginning to end), [`metrics`] (records,
//! plots, traces), [`generate`](mod@generate) (text from a checkpoint). Nothing here names a vendor or a model: devices are
//! opened, and families registered, by whoever runs a rank.

#![deny(unsafe_code)]

pub mod architecture;
pub mod batches;
pub mod blueprint;
pub mod config;
pub mod data;
mod error;
pub mod generate;
pub mod metrics;
pub mod optimiser;
pub mod placement;
pub mod run;
pub mod trainer;

pub use architecture::{Architecture, Families, Family, ModelConfig};
#[doc(inline)]
pub use checkpoint;
pub use config::Config;
pub use error::{Error, Result};
pub use run::{Observer, Stop, Summary};
pub use trainer::{PeakMemory, Trainer};
