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

    /// What ranks of Context move if they cut the sequences and layers run forward so often: operations, and the features of
    /// each call's vectors. An all-to-all is of a rank's tokens, any other collective of all.
    pub fn traffic(&self, way: ContextAttention, forwards: usize) -> Vec<(Operation, Vec<usize>)> {
        let (queries, keys) = (self.query_features, self.key_features);
        match way {
            // In forward, and again in backward or its recomputation.
            ContextAttention::Gather => vec![
                (Operation::AllGather, vec![keys; 4]),
                (Operation::ReduceScatter, vec![keys; 2]),
            ],
            ContextAttention::Heads => {
                let pass = [queries, keys, keys, queries];
                vec![(Operation::AllToAll, pass.repeat(forwards + 1))]
            }
        }
    }

    /// Whether so many ranks of Context can work in this way beside so many of X.
    pub fn serves(&self, way: ContextAttention, ranks: usize, x: usize) -> bool {
        let heads = [self.query_features, self.key_features].map(|all| all / self.head_size.max(1));
        let divides = |size: &usize| size.is_multiple_of(ranks * x);
        match way {
            ContextAttention::Gather => true,
            ContextAttention::Heads => {
                heads.iter().all(divides) && self.sequence.is_multiple_of(2 * ranks)
            }
        }
    }
}
