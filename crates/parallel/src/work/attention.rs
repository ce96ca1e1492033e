//! Attention, and what it moves over Context.

use crate::{ContextAttention, Operation};

/// An attention, per row of the batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttentionWork {
    /// Query heads, of all sequences of the row.
    pub heads: usize,
    /// Tokens per sequence.
    pub sequence: usize,
    /// Elements of a head.
    pub head_size: usize,
    /// Features of its queries.
    pub query_features: usize,
    /// Features of its keys; as many of its values.
    pub key_features: usize,
    /// Whether Context cuts its sequences.
    pub tokens: bool,
}

impl AttentionWork {
    /// Flop of the scores and their weighted sum, for the half that a causal mask leaves.
    pub fn flop(&self) -> f64 {
        2.0 * (self.heads * self.sequence * self.sequence * self.head_size) as f64
    }

    /// What `ranks` ranks of Context move if they cut the sequences, and layers run forward `forwards` times: for each operation,
    /// the vectors of its buffer per row of the batch, and the features of each call's vectors.
    pub fn traffic(
        &self,
        way: ContextAttention,
        ranks: usize,
        forwards: usize,
    ) -> Vec<(Operation, usize, Vec<usize>)> {
        let (queries, keys) = (self.query_features, self.key_features);
        match way {
            ContextAttention::Heads if self.sequence.is_multiple_of(2 * ranks) => {
                let passes = [queries, keys, keys, queries].repeat(forwards + 1);
                vec![(Operation::AllToAll, self.sequence / ranks, passes)]
            }
            // In forward, and again in backward or its recomputation. Also of sequences whose chunks differ.
            ContextAttention::Gather | ContextAttention::Heads => vec![
                (Operation::AllGather, self.sequence, vec![keys; 4]),
                (Operation::ReduceScatter, self.sequence, vec![keys; 2]),
            ],
        }
    }

    /// Whether `ranks` ranks of Context can exchange tokens for heads, if X has `x` ranks.
    pub fn exchanges_heads(&self, ranks: usize, x: usize) -> bool {
        let features = [self.query_features, self.key_features];
        let divides = |all: usize| (all / self.head_size.max(1)).is_multiple_of(ranks * x);
        features.into_iter().all(divides) && self.sequence.is_multiple_of(2 * ranks)
    }
}
