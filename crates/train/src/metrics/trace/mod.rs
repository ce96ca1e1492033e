//! `trace.json`: the activity of every stream of every rank over time, for <https://ui.perfetto.dev> and
//! `chrome://tracing`.
//!
//! A rank is drawn as a process, a stream as a thread of it, a [`Span`] as a bar, and a message as an arrow from the
//! span that sends to the span that receives ([`FlowEnd`]). [`TraceWriter`] writes events as they come; [`merge()`]
//! joins the files of several processes.
//!
//! # Source
//! The "Trace Event Format" of the Chromium project, JSON object form; which parts Perfetto reads was taken from its
//! importer (`json_trace_parser`).

mod event;
mod flow;
mod merge;
mod span;
mod writer;

pub use flow::{FlowEnd, FlowId};
pub use merge::merge;
pub use span::{Arg, Span};
pub use writer::TraceWriter;
