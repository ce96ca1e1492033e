//! Keys and values that layers of attention keep, so that a model runs on the new tokens of a sequence alone.
//!
//! A [`SequenceCache`] holds what one sequence has computed on this rank, layer by layer. A pass over [`NewTokens`] carries
//! the caches of its rows: attention appends to them and attends to all that they hold, and rotary and learnt positions
//! begin where they end. Nothing else of a model looks at earlier tokens, if it declares to be
//! [incremental](crate::Model::is_incremental).
//!
//! Keys and values lie in pages of [`PAGE_TOKENS`] tokens, in memory of each layer that all sequences of a pipeline share
//! (`pool`). A sequence has tables of its pages, one for the layers of each window, and pages before a window return to the others.
//! Sequences that begin alike share the pages of the beginning. The memory counts as
//! [`MemoryKind::KeysValues`](tensor::MemoryKind).

mod pool;
mod rows;
mod sequence;
mod tables;

pub(crate) use pool::PagePool;
pub use rows::NewTokens;
pub(crate) use rows::{CachedRows, Kept};
pub use sequence::SequenceCache;
pub use tensor::ops::pages::PAGE_TOKENS;
