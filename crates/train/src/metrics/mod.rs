//! Metrics: the files that a run leaves for people and programs.
//!
//! Read in this order: [`Record`] (one step), [`LineWriter`] and [`read`] (`metrics.jsonl`, `digests.jsonl`), [`loss_plot`]
//! (`loss.svg`), [`Throughput`] (the numbers of the progress bar), [`trace`] (`trace.json`, the activity of
//! each stream over time). Nothing here measures: the trainer passes in the numbers.

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
pub use record::{Record, Stepped, read};
pub use throughput::Throughput;
pub use writer::LineWriter;

/// Writes `metrics.jsonl`.
pub type MetricsWriter = LineWriter<Record>;
