//! Metrics: what a run leaves behind to be read, by people and by programs.
//!
//! Read in this order: [`Record`] (one step), [`MetricsWriter`] and [`read`] (`metrics.jsonl`), [`loss_plot`]
//! (`loss.svg`), [`Throughput`] (the numbers of the progress bar), [`trace`] (`trace.json`, which stream did what
//! when). Nothing here measures: the trainer hands in the numbers.

mod error;
#[cfg(feature = "plots")]
mod plot;
#[cfg(not(feature = "plots"))]
#[path = "no_plot.rs"]
mod plot;
mod record;
mod throughput;
pub mod trace;
mod writer;

pub use error::{Error, Result};
pub use plot::loss_plot;
pub use record::{Record, read};
pub use throughput::Throughput;
pub use writer::MetricsWriter;
