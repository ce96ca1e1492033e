//! Collectives between ranks that are threads, through the seam: values, failures, streams.

mod failures;
mod harness;
mod reference;
mod streams;
mod values;
