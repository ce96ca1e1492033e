//! Keys and values that layers of attention keep, so that a model runs on the new tokens of a sequence alone.
//!
//! A [`SequenceCache`] holds what one sequence has computed on this rank, layer by layer. A pass over [`NewTokens`] carries
//! the caches of its rows: attention appends to them and attends to all that they hold, and rotary and learnt positions
//! begin where they end. Nothing else of a model looks at earlier tokens, if it declares to be
//! [incremental](crate::Model::is_incremental).
//!
//! Keys and values of a layer lie one after the other in memory that grows by blocks of [`BLOCK_TOKENS`] tokens, because the
//! attention of every vendor reads keys that do. Blocks before a layer's window are dropped. It counts as
//! [`MemoryKind::KeysValues`](tensor::MemoryKind).

mod rows;
mod sequence;

pub(crate) use rows::CachedRows;
pub use rows::NewTokens;
pub(crate) use sequence::Kept;
pub use sequence::{BLOCK_TOKENS, SequenceCache};
