//! Attention, and what it moves over Context.

use crate::{ContextAttention, Operation};
use tensor::ops::attention::AttentionShape;

/// An attention, per row of the batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttentionWork {
    /// Query heads, of all sequences of the row.
    pub heads: usize,
    /// Tokens per sequence.
    pub sequence: usize,
    /// Elements of a head.
    pub head_size: usize,
    /// The keys to which a query attends at most; `None`: all before it.
    pub window: Option<usize>,
    /// Features of its queries.
    pub query_features: usize,
    /// Features of its keys; as many of its values.
    pub key_features: usize,
    /// Whether Context cuts its sequences.
    pub tokens: bool,
    /// Whether backward reaches it: not before the first trained parameter.
    pub has_backward: bool,
}

impl AttentionWork {
    /// Flop of the scores and their weighted sum, for what a causal mask leaves: half of the square of all tokens, less half of
    /// that of the tokens that a window leaves out.
    pub fn flop(&self) -> f64 {
        let square = |tokens: usize| (tokens * tokens) as f64;
        let without = self
            .window
            .map_or(0, |window| self.sequence.saturating_sub(window));
        let met = square(self.sequence) - square(without);
        2.0 * (self.heads * self.head_size) as f64 * met
    }

    /// The sizes of this attention with `heads` heads, each of which has its own keys and values.
    pub fn shape(&self, heads: usize) -> AttentionShape {
        AttentionShape {
            window: self.window,
            ..AttentionShape::causal(1, self.sequence, [heads, heads, self.head_size])
        }
    }

    /// What `ranks` ranks of Context move if they cut the sequences, and layers run forward `forwards` times.
    pub fn traffic(
        &self,
        way: ContextAttention,
        ranks: usize,
        forwards: usize,
    ) -> Vec<AttentionTraffic> {
        let (queries, keys) = (self.query_features, self.key_features);
        let of = |operation, vectors, features| AttentionTraffic {
            operation,
            ranks,
            stride: 1,
            vectors,
            features,
            wide: false,
            hidden: false,
        };
        let own = self.sequence / ranks;
        let backwards = usize::from(self.has_backward);
        let exchanged = |ranks| AttentionTraffic {
            ranks,
            ..of(
                Operation::AllToAll,
                own,
                [queries, keys, keys, queries].repeat(forwards + backwards),
            )
        };
        let divides = self.sequence.is_multiple_of(2 * ranks);
        match way {
            ContextAttention::Heads if divides => vec![exchanged(ranks)],
            // In forward, and again in backward or its recomputation. Also of sequences whose chunks differ.
            ContextAttention::Gather | ContextAttention::Heads => vec![
                of(
                    Operation::AllGather,
                    self.sequence,
                    vec![keys; 2 + 2 * backwards],
                ),
                of(
                    Operation::ReduceScatter,
                    self.sequence,
                    vec![keys; 2 * backwards],
                ),
            ],
            ContextAttention::Ring { .. } => {
                let stride = if divides { way.exchange(ranks) } else { 1 };
                // Keys with values, of as many bytes whether or not heads have been exchanged.
                let passed = |times: usize, wide, hidden| AttentionTraffic {
                    ranks: ranks / stride,
                    stride,
                    wide,
                    hidden,
                    ..of(Operation::Send, own, vec![2 * keys; times])
                };
                let passes = ranks / stride - 1;
                let mut all = vec![
                    passed((forwards + backwards) * passes, false, true),
                    passed(backwards * passes, true, true),
                    // The gradients' way home, when there is nothing left to compute.
                    passed(backwards * passes.min(1), true, false),
                ];
                all.extend((stride > 1).then(|| exchanged(stride)));
                all
            }
        }
    }

    /// Whether each `exchange` of `ranks` ranks of Context can exchange tokens for heads, if X has `x` ranks.
    pub fn exchanges_heads(&self, exchange: usize, ranks: usize, x: usize) -> bool {
        let features = [self.query_features, self.key_features];
        let divides = |all: usize| (all / self.head_size.max(1)).is_multiple_of(exchange * x);
        let chunks = self.sequence.is_multiple_of(2 * ranks);
        features.into_iter().all(divides) && chunks && ranks.is_multiple_of(exchange)
    }
}

/// One kind of traffic of an attention over Context, per row of the batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttentionTraffic {
    /// How it moves.
    pub operation: Operation,
    /// Ranks of Context among which it moves.
    pub ranks: usize,
    /// The distance on Context from each of these to the next.
    pub stride: usize,
    /// Vectors in the buffer of each call.
    pub vectors: usize,
    /// Features of each call's vectors.
    pub features: Vec<usize>,
    /// Whether elements have the accumulator type.
    pub wide: bool,
    /// Whether it runs beside attention.
    pub hidden: bool,
}
