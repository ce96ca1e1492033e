//! The trainer: from a configuration to a trained model and back.
//!
//! Read in this order: [`config`] (what a run is asked to be), [`placement`] (where ranks sit),
//! [`data`] (batches), [`trainer`] (steps, validation,
//! the whole run), [`checkpoint`] (tensors on disk, free of layout), [`metrics`] (records, plots, traces),
//! [`generate`](mod@generate) (text from a checkpoint). Nothing here names a vendor: devices are opened by whoever runs a rank.

#![deny(unsafe_code)]

pub mod config;
pub mod data;
mod error;
pub mod generate;
pub mod metrics;
pub mod placement;
pub mod trainer;

#[doc(inline)]
pub use checkpoint;
pub use config::Config;
pub use error::{Error, Result};
pub use trainer::{Observer, PeakMemory, Stop, Summary};
