//! Cross-entropy over a vocabulary that may be sharded; the full logits are never gathered.
//!
//! [`SoftmaxStatistics`] of the local columns, then [`CombineSoftmax`] of all shards (even with one shard), and
//! [`CrossEntropyBackward`] in backward. Columns whose global index is not below `vocabulary` are padding and
//! never count. A target of `u32::MAX` marks a row without loss.

use crate::{
    RawSlice,
    operand::{READ, UPDATE, WRITE, operands},
};

/// Maximum, sum of exp(logit - maximum), and target logit of the local columns of every row.
#[derive(Clone, Debug, PartialEq)]
pub struct SoftmaxStatistics {
    /// rows x columns, any float type.
    pub logits: RawSlice,
    /// rows, u32: global column of the target.
    pub targets: RawSlice,
    /// rows x 3, of the accumulator type. With no column below `vocabulary`: (-inf, 0, 0); with the target in another
    /// shard the third is 0.
    pub statistics: RawSlice,
    /// Number of rows.
    pub rows: usize,
    /// Local columns.
    pub columns: usize,
    /// Global index of the first local column.
    pub first_column: usize,
    /// Global columns that are not padding.
    pub vocabulary: usize,
}

/// Combines the statistics of all shards: log-sum-exp and loss of every row.
#[derive(Clone, Debug, PartialEq)]
pub struct CombineSoftmax {
    /// shards x rows x 3.
    pub parts: RawSlice,
    /// Number of shards.
    pub shards: usize,
    /// Number of rows.
    pub rows: usize,
    /// rows, u32.
    pub targets: RawSlice,
    /// rows, of the accumulator type.
    pub log_sum_exp: RawSlice,
    /// One element, of the accumulator type; `scale * sum over rows of (log_sum_exp - target logit)` is added to it.
    pub loss: RawSlice,
    /// Factor of the sum.
    pub scale: f64,
}

/// `logits[r, c] = scale * d_loss * (exp(logit - log_sum_exp) - (1 if c is the target))`, in place; 0 for padding.
#[derive(Clone, Debug, PartialEq)]
pub struct CrossEntropyBackward {
    /// rows x columns, any float type; overwritten by its gradient.
    pub logits: RawSlice,
    /// rows, u32.
    pub targets: RawSlice,
    /// rows, of the accumulator type.
    pub log_sum_exp: RawSlice,
    /// One element, of the accumulator type: the gradient of the loss.
    pub d_loss: RawSlice,
    /// Number of rows.
    pub rows: usize,
    /// Local columns.
    pub columns: usize,
    /// Global index of the first local column.
    pub first_column: usize,
    /// Global columns that are not padding.
    pub vocabulary: usize,
    /// Factor, as in [`CombineSoftmax`].
    pub scale: f64,
}

operands! {
    SoftmaxStatistics {
        logits: READ, targets: READ, statistics: WRITE
        ; rows, columns, first_column, vocabulary
    }
    CombineSoftmax {
        parts: READ, targets: READ, log_sum_exp: WRITE, loss: UPDATE
        ; shards, rows, scale
    }
    CrossEntropyBackward {
        logits: UPDATE, targets: READ, log_sum_exp: READ, d_loss: READ
        ; rows, columns, first_column, vocabulary, scale
    }
}
