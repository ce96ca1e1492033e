//! Causal self-attention that never holds the sequence x sequence matrix, and rotary positions.

use crate::{
    RawSlice,
    operand::{READ, WRITE, operands},
    random::Key,
};

/// Dropout of attention weights.
///
/// The weight of query i on key j, of head h of sequence b (all global), has the index
/// `((b * global_heads + h) * sequence + i) * sequence + j`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AttentionDropout {
    /// Fraction of weights that become 0; the others are divided by 1 - probability.
    pub probability: f64,
    /// Which random sequence.
    pub key: Key,
    /// Global index of the first sequence held here.
    pub first_sequence: usize,
    /// Global index of the first query head held here.
    pub first_head: usize,
    /// Query heads of the full model.
    pub global_heads: usize,
}

/// Sizes of an attention. Query head h reads key and value head `h / (heads / kv_heads)`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AttentionShape {
    /// Sequences held here.
    pub sequences: usize,
    /// Tokens per sequence; a token attends to itself and to those before it in its sequence.
    pub sequence: usize,
    /// Query heads held here.
    pub heads: usize,
    /// Key and value heads held here; divides `heads`.
    pub kv_heads: usize,
    /// Elements of a head.
    pub head_size: usize,
    /// Factor of the scores, usually 1 / sqrt(head_size).
    pub scale: f64,
    /// Dropout of the weights, if any.
    pub dropout: Option<AttentionDropout>,
}

/// `out = softmax(scale * q k^T, causal) v`, head by head, with fp32 (or f64) inside.
#[derive(Clone, Debug, PartialEq)]
pub struct AttentionForward {
    /// Sizes.
    pub shape: AttentionShape,
    /// (sequences * sequence) x (heads * head_size), any float type.
    pub q: RawSlice,
    /// (sequences * sequence) x (kv_heads * head_size).
    pub k: RawSlice,
    /// As `k`.
    pub v: RawSlice,
    /// As `q`.
    pub out: RawSlice,
    /// sequences x heads x sequence, of the accumulator type: log of the sum of exp(scores), for the backward pass.
    pub log_sum_exp: RawSlice,
}

/// Gradients of [`AttentionForward`]; weights are recomputed block by block.
#[derive(Clone, Debug, PartialEq)]
pub struct AttentionBackward {
    /// Sizes.
    pub shape: AttentionShape,
    /// As in the forward pass.
    pub q: RawSlice,
    /// As in the forward pass.
    pub k: RawSlice,
    /// As in the forward pass.
    pub v: RawSlice,
    /// As in the forward pass.
    pub out: RawSlice,
    /// As in the forward pass.
    pub log_sum_exp: RawSlice,
    /// As `out`.
    pub d_out: RawSlice,
    /// As `q`; written.
    pub d_q: RawSlice,
    /// As `k`; written.
    pub d_k: RawSlice,
    /// As `v`; written.
    pub d_v: RawSlice,
}

/// Rotary position embedding: rotates the pair (e, e + head_size / 2) of every head by `position * base^(-2e /
/// head_size)`.
///
/// Row r of `x` has position `r % sequence`. Backward rotates in the opposite direction.
#[derive(Clone, Debug, PartialEq)]
pub struct Rope {
    /// rows x (heads * head_size), any float type.
    pub x: RawSlice,
    /// As `x`; may be `x`.
    pub out: RawSlice,
    /// Number of rows.
    pub rows: usize,
    /// Tokens per sequence.
    pub sequence: usize,
    /// Heads per row.
    pub heads: usize,
    /// Elements of a head; even.
    pub head_size: usize,
    /// Base of the frequencies, 10,000 in Llama.
    pub base: f64,
    /// Rotates in the opposite direction.
    pub backward: bool,
}

operands! {
    AttentionForward { q: READ, k: READ, v: READ, out: WRITE, log_sum_exp: WRITE ; shape }
    AttentionBackward {
        q: READ, k: READ, v: READ, out: READ, log_sum_exp: READ, d_out: READ,
        d_q: WRITE, d_k: WRITE, d_v: WRITE
        ; shape
    }
    Rope { x: READ, out: WRITE.in_place() ; rows, sequence, heads, head_size, base, backward }
}
