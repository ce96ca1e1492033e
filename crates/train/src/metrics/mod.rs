//! Metrics: the files that a run leaves for people and programs.
//!
//! Read in this order: [`Record`] (one step), [`LineWriter`], [`read`] and [`Follower`] (`metrics.jsonl`, `digests.jsonl`, `speeds.jsonl`), [`Losses`]
//! (`loss.svg`), [`EventWriter`] (TensorBoard), [`Throughput`] (the numbers of the progress bar), [`trace`] (`trace.json`, the activity of
//! each stream over time). Nothing here measures: the trainer passes in the numbers.

mod error;
mod follower;
#[cfg(feature = "plots")]
mod growing;
#[cfg(feature = "plots")]
mod plot;
#[cfg(not(feature = "plots"))]
#[path = "no_plot.rs"]
mod plot;
mod record;
mod tensorboard;
mod throughput;
pub mod trace;
mod writer;

pub use error::{Error, Result};
pub use follower::Follower;
pub use plot::Losses;
#[cfg(feature = "plots")]
pub use plot::{Line, Point, chart};
pub(crate) use record::number_or_nan;
pub use record::{PeakByKind, Record, Stepped, read};
pub use tensorboard::EventWriter;
pub use throughput::Throughput;
pub use writer::LineWriter;

/// Writes `metrics.jsonl`.
pub type MetricsWriter = LineWriter<Record>;
