//! Text from a model, on any grid.
//!
//! A [`Generator`] continues the texts of several [`Request`]s at a time. Read in this order: `request` (what is asked for and
//! returned), `sampling` (the choice of a token), `text` (characters and stop strings), `window` (which tokens are read),
//! `sequence` (a request that runs), `micro_batches` (what a step runs), `relay` and `choice` (on which all ranks agree),
//! `generator`, `stored` (a model from a checkpoint).

mod choice;
mod generator;
mod micro_batches;
mod prefixes;
mod relay;
mod request;
mod sampling;
mod sequence;
mod speed;
mod stored;
mod text;
mod window;

pub(crate) use choice::chooser;
pub use generator::{Generator, GeneratorOptions};
pub use relay::{TICK, relay};
pub(crate) use request::within;
pub use request::{Finish, Generated, MOST_TOKENS, Request, RequestId};
pub use sampling::Sampling;
pub(crate) use sampling::{check as check_logits, log_probabilities};
pub use speed::Speed;
pub(crate) use stored::wrapped;
pub use stored::{configured, described, inference, load, text};
