//! Data: from a path to the batches of a step.
//!
//! Read in this order: [`Source`] (where the text or the tokens are), [`Tokenizer`] (text to numbers and back),
//! [`Tokens`] and [`Corpus`] (the numbers, in memory or in a file), [`Order`] (the order of sequences over steps),
//! [`Dataset`] (the batches). [`Samples`] are batches of another kind: questions and answers, whole, and so are
//! [`Preferences`], pairs of answers. [`RunData`] is any of these, as a configuration states it. [`TokenizerChoice`] is the tokenizer setting of a configuration file.
//!
//! Nothing here knows of ranks or grids: a rank requests its range of the global batch and receives the same
//! sequences whatever the grid, so a run may be resumed on another grid.
//!
//! [`TokenFolder`] is a corpus in shards, which [`tokenize()`] makes; [`Mixture`] draws from several corpora by weight.
//!
//! Not done yet: reading ahead on another thread.

mod batches;
mod corpus;
mod dataset;
mod error;
mod evaluations;
mod folder;
mod held;
mod mixture;
mod order;
mod permutation;
mod preferences;
mod random;
mod run_data;
mod samples;
mod source;
mod tokenize;
mod tokenizer;
mod tokens;

pub use corpus::Corpus;
pub use dataset::{Batch, Dataset, Settings};
pub use error::{Error, Result};
pub use evaluations::Evaluations;
pub use folder::{FinishedShards, FolderWriter, Index, Shard, TokenFolder};
pub use mixture::{Mixture, MixtureShare};
pub use order::{Order, OrderMode, validation_start};
pub use permutation::Permutation;
pub use preferences::{PairOptions, Preferences};
pub use run_data::{ReadOptions, RunData};
pub use samples::{LossOn, Packed, Samples};
pub use source::{Chat, Content, Pair, Sample, Source, Text, TokenType};
pub(crate) use source::{json_kind, text};
pub(crate) use tokenize::json_reason;
pub use tokenize::{
    DocumentEnd, TokenizeInput, TokenizeOptions, TokenizePhase, TokenizeProgress, TokenizeReport,
    panic_becomes_error, tokenize, tokenizer_for,
};
use tokenizer::Renderer;
pub use tokenizer::{ChatTemplate, Tokenizer, TokenizerChoice};
pub use tokens::Tokens;
