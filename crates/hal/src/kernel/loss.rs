//! Cross-entropy over a vocabulary that may be sharded; the full logits are never gathered.
//!
//! [`SoftmaxStatistics`] of the local columns, then [`CombineSoftmax`] of all shards (even with one shard), and
//! [`CrossEntropyBackward`] in backward. Columns whose global index is not below `vocabulary` are padding and
//! never count. A target of `u32::MAX` marks a row without loss.
//!
//! Where the device keeps [canonical sums](crate::Capabilities::canonical_sums), the statistics of a row are those of the
//! tree of [`sums`](crate::sums) over leaves, and parts combined by their columns have the bits of the full row.

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
    /// Global index of the first local column, where a leaf begins.
    pub first_column: usize,
    /// Global columns that are not padding.
    pub vocabulary: usize,
    /// Columns of a leaf, a power of 2 up to 64; see [`sums::leaf`](crate::sums::leaf).
    pub leaf: usize,
}

/// Combines the statistics of all parts of a row: log-sum-exp and loss of every row.
#[derive(Clone, Debug, PartialEq)]
pub struct CombineSoftmax {
    /// parts x rows x 3.
    pub parts: RawSlice,
    /// Columns of each part, from left to right.
    pub widths: Vec<usize>,
    /// Number of rows.
    pub rows: usize,
    /// rows, u32.
    pub targets: RawSlice,
    /// rows, of the accumulator type.
    pub log_sum_exp: RawSlice,
    /// One element for each run of rows, of the accumulator type; `scale * sum over the run's rows of (log_sum_exp - target
    /// logit)` is added to it.
    pub loss: RawSlice,
    /// Number of equally long runs into which the rows are cut, such as sequences; `rows` is a multiple of it.
    pub runs: usize,
    /// Factor of the sum.
    pub scale: f64,
}

/// `logits[r, c] = scale * d_loss[run of r] * (exp(logit - log_sum_exp) - (1 if c is the target))`, in place; 0 for padding.
#[derive(Clone, Debug, PartialEq)]
pub struct CrossEntropyBackward {
    /// rows x columns, any float type; overwritten by its gradient.
    pub logits: RawSlice,
    /// rows, u32.
    pub targets: RawSlice,
    /// rows, of the accumulator type.
    pub log_sum_exp: RawSlice,
    /// One element for each run of rows, of the accumulator type: the gradients of the runs' losses.
    pub d_loss: RawSlice,
    /// Number of equally long runs into which the rows are cut, as in [`CombineSoftmax`].
    pub runs: usize,
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
        ; rows, columns, first_column, vocabulary, leaf
    }
    CombineSoftmax {
        parts: READ, targets: READ, log_sum_exp: WRITE, loss: UPDATE
        ; widths, rows, runs, scale
    }
    CrossEntropyBackward {
        logits: UPDATE, targets: READ, log_sum_exp: READ, d_loss: READ
        ; runs, rows, columns, first_column, vocabulary, scale
    }
}
