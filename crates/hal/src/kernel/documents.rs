//! Where the documents of sequences of tokens start.

use crate::{
    RawSlice,
    operand::{READ, WRITE, operands},
};

/// For each token, the place of the first token of its document in its sequence, or its own place in its document.
///
/// A document ends with the token `end`, and with its sequence.
#[derive(Clone, Debug, PartialEq)]
pub struct Documents {
    /// sequences x sequence, u32.
    pub ids: RawSlice,
    /// sequences x sequence, u32; overlaps nothing.
    pub out: RawSlice,
    /// Number of sequences.
    pub sequences: usize,
    /// Tokens per sequence; fewer than 2^32.
    pub sequence: usize,
    /// The token with which a document ends.
    pub end: u32,
    /// Whether `out` is the tokens' own places, counted from the first of their document.
    pub places: bool,
}

operands! {
    Documents { ids: READ, out: WRITE ; sequences, sequence, end, places }
}
