//! Families of models that a configuration can name.
//!
//! They use the public interface alone, as a model in any other crate does: [`gpt`] is the place to look for how a large
//! model is written. [`families`] registers them; a program adds its own with
//! [`Families::with`](train::Families::with).

#![forbid(unsafe_code)]

pub mod gpt;

pub use gpt::{Gpt, GptConfig, GptFamily};

use std::sync::Arc;
use train::{Families, Family};

/// The families of this crate, GPT-2 first: a configuration that names none means that.
pub fn families() -> Families {
    let all = [GptFamily::Gpt2, GptFamily::Llama];
    Families::new(all.map(|family| Arc::new(family) as Arc<dyn Family>))
}
