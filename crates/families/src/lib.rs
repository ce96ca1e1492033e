//! Families of models that a configuration can name.
//!
//! This crate is for programs that read configurations, and an example for authors of families. The crate `fascicle` has them in
//! `fascicle::registry::families()`. Begin with [A family of your
//! own](https://github.com/fascicle-rs/fascicle/blob/main/docs/other-models.md#a-family-of-your-own) in the manual of
//! [Fascicle](https://github.com/fascicle-rs/fascicle).
//!
//! They use only the public interface, like a model in any other crate. Read [`gpt`] to see how a large model
//! is written. [`families`] registers them; a program adds its own with
//! [`Families::with`](train::Families::with).
//!
//! A configuration names a family:
//!
//! ```
//! use train::Config;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let text = "
//!     [model]
//!     family = 'llama'
//!     layers = 2
//!     hidden = 64
//!     heads = 4
//!     kv_heads = 2
//!     vocabulary = 256
//! ";
//! let config = Config::parse(text, &fascicle_families::families())?;
//! assert_eq!(config.model.family(), "llama");
//!
//! // A family that is not registered is an error that lists those that are.
//! assert!(Config::parse("[model]\nfamily = 'mine'", &fascicle_families::families()).is_err());
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

pub mod gpt;

pub use gpt::{Activation, DocumentEnd, Gpt, GptConfig, GptFamily, RopeScaling};

use std::sync::Arc;
use train::{Families, Family};

/// The families of this crate. GPT-2 comes first, because a configuration that names no family means GPT-2.
pub fn families() -> Families {
    let all = [
        GptFamily::Gpt2,
        GptFamily::Llama,
        GptFamily::Gemma,
        GptFamily::GptNeox,
    ];
    Families::new(all.map(|family| Arc::new(family) as Arc<dyn Family>))
}
