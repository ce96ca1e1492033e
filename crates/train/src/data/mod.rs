//! Data: from a path to the batches of a step.
//!
//! Read in this order: [`Source`] (where the text or the tokens lie), [`Tokenizer`] (text to numbers and back),
//! [`Tokens`] and [`Corpus`] (the numbers, in memory or mapped), [`Order`] (which sequence is at which place of
//! which step), [`Dataset`] (the batches). [`TokenizerChoice`] is what a configuration file says.
//!
//! Nothing here knows of ranks or grids: a rank asks for its range of the global batch and gets the same sequences
//! whatever the grid, so a run may be resumed on another one.
//!
//! Not done yet: reading ahead on another thread, mixing several sources by weight.

mod batches;
mod corpus;
mod dataset;
mod error;
mod order;
mod permutation;
mod random;
mod source;
mod tokenizer;
mod tokens;

pub use corpus::Corpus;
pub use dataset::{Batch, Dataset, Settings};
pub use error::{Error, Result};
pub use order::{Order, OrderMode, validation_start};
pub use permutation::Permutation;
pub use source::{Content, Source, Text, TokenType};
pub use tokenizer::{Tokenizer, TokenizerChoice};
pub use tokens::Tokens;
