//! Decoder-only transformers: the families of GPT-2, Llama, Gemma and GPT-NeoX.
//!
//! [`GptConfig`] holds the sizes, of which `check` says which can be, `counts` what follows from them, and `architecture`
//! what the trainer and the planner ask. `family` has a table of what the blocks of each family are made of, and `block` is
//! a transformer block in two halves, with the `activation` of its MLP. [`Gpt`] is a model made of these, cut into segments:
//! the embedding, the halves of each block, and the head.

mod activation;
mod architecture;
mod block;
mod check;
mod config;
mod counts;
mod documents;
mod family;
mod foreign;
mod model;
mod published;
mod scaling;
mod stored;

pub use activation::Activation;
pub use config::GptConfig;
pub use documents::DocumentEnd;
pub use family::GptFamily;
pub use model::Gpt;
pub use published::published;
pub use scaling::RopeScaling;
