//! Decoder-only transformers: the GPT-2 and Llama families.
//!
//! [`GptConfig`] holds the sizes, and `block` is a transformer block in two halves. [`Gpt`] is a model made of
//! these, cut into segments: the embedding, the halves of each block, and the head.

mod block;
mod config;
mod documents;
mod model;
mod published;
mod scaling;
mod stored;
mod transformers;

pub use config::{GptConfig, GptFamily};
pub use documents::DocumentEnd;
pub use model::Gpt;
pub use published::published;
pub use scaling::RopeScaling;
