//! Decoder-only transformers: the GPT-2 and Llama families, serial and on any grid.
//!
//! [`GptConfig`] gives the sizes; `segments` lists what a model is cut into for pipelining and what each part costs;
//! `block` is a transformer block in its two halves; [`Gpt`] is the part of a model that one stage holds.

mod block;
mod config;
mod model;
mod segments;
mod step;

pub use config::{Family, GptConfig};
pub use model::Gpt;
pub use segments::{Segment, segments};
pub use step::{Batch, MicroBatch, Step, Wanted};
