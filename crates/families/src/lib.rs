//! Families of models that a configuration can name.
//!
//! They use only the public interface, like a model in any other crate. Read [`gpt`] to see how a large model
//! is written. [`families`] registers them; a program adds its own with
//! [`Families::with`](train::Families::with).

#![forbid(unsafe_code)]

pub mod gpt;

pub use gpt::{DocumentEnd, Gpt, GptConfig, GptFamily, RopeScaling};

use std::sync::Arc;
use train::{Families, Family};

/// The families of this crate. GPT-2 comes first, because a configuration that names no family means GPT-2.
pub fn families() -> Families {
    let all = [GptFamily::Gpt2, GptFamily::Llama];
    Families::new(all.map(|family| Arc::new(family) as Arc<dyn Family>))
}
