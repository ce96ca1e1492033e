//! Causal attention that never holds the queries x keys matrix, over whole sequences, within documents or within windows.

use crate::{
    RawSlice,
    operand::{READ, UPDATE, WRITE, operands},
    random::Key,
};

/// Dropout of attention weights.
///
/// The weight of query i on key j, of head h of sequence b (all global), has the index
/// `((b * global_heads + h) * sequence + i) * sequence + j`. So a rank that holds some of the queries or some of the keys
/// drops the weights that one rank would drop.
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
    /// Tokens of a complete sequence.
    pub sequence: usize,
}

/// Sizes of an attention. Query head h reads key and value head `h / (heads / kv_heads)`.
///
/// Query i of a sequence attends to its keys `j < keys` with `j <= first_query + i`. In self-attention, `queries` equals
/// `keys` and `first_query` is 0. From `first_query >= keys - 1` on, every query attends to every key. With a
/// window, only to the last of these keys.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AttentionShape {
    /// Sequences held here.
    pub sequences: usize,
    /// Queries per sequence.
    pub queries: usize,
    /// Keys per sequence; at least one where there are queries.
    pub keys: usize,
    /// Place of the first query among the keys: the number of keys that precede its own.
    pub first_query: usize,
    /// Place of the first key held here in its complete sequence; the first query's is `first_key + first_query`. Only
    /// dropout and documents read it.
    pub first_key: usize,
    /// The keys to which a query attends at most, its own and those right before it; at least one. `None`: all before it.
    pub window: Option<usize>,
    /// Query heads held here.
    pub heads: usize,
    /// Key and value heads held here; divides `heads`.
    pub kv_heads: usize,
    /// Elements of a head.
    pub head_size: usize,
    /// Factor of the scores, usually 1 / sqrt(head_size).
    pub scale: f64,
    /// The bound that scaled scores approach: score s becomes `cap * tanh(s / cap)`. More than 0. `None`: they stay as they are.
    pub score_cap: Option<f64>,
    /// Dropout of the weights, if any.
    pub dropout: Option<AttentionDropout>,
}

impl AttentionShape {
    /// Causal self-attention of complete sequences of `sequence` tokens: each token attends to itself and to those before
    /// it. The scale is 1 / sqrt(head_size), and there is no window, no cap and no dropout.
    pub fn causal(
        sequences: usize,
        sequence: usize,
        [heads, kv_heads, head_size]: [usize; 3],
    ) -> Self {
        AttentionShape {
            sequences,
            queries: sequence,
            keys: sequence,
            first_query: 0,
            first_key: 0,
            window: None,
            heads,
            kv_heads,
            head_size,
            scale: 1.0 / (head_size as f64).sqrt(),
            score_cap: None,
            dropout: None,
        }
    }

    /// The number of keys up to the place of query `query`, and up to the last one held here.
    #[inline]
    pub fn keys_met(&self, query: usize) -> usize {
        let own = self.first_query.saturating_add(query);
        self.keys.min(own.saturating_add(1))
    }

    /// The first key to which query `query` attends, if its document starts at the place `start` of its complete sequence:
    /// at the latest its own, or [`keys`](Self::keys) or more if it meets none of the keys held here.
    #[inline]
    pub fn first_met(&self, query: usize, start: u32) -> usize {
        let own = self.first_query.saturating_add(query);
        let of_document = (start as usize).saturating_sub(self.first_key);
        let of_window = self
            .window
            .map_or(0, |window| own.saturating_add(1).saturating_sub(window));
        of_document.max(of_window).min(own)
    }

    /// The window, if a query has more keys before it than that.
    #[inline]
    pub fn closing_window(&self) -> Option<usize> {
        let places = self.first_query.saturating_add(self.queries);
        self.window.filter(|&window| window < places)
    }

    /// Index of dropout's weight of the first query on the first key, of the first head and sequence held here. The sizes
    /// are those of one model, so it has a number.
    #[inline]
    pub fn first_weight(&self, dropout: &AttentionDropout) -> u64 {
        let matrix = dropout.first_sequence * dropout.global_heads + dropout.first_head;
        let query = self.first_key + self.first_query;
        ((matrix * dropout.sequence + query) * dropout.sequence + self.first_key) as u64
    }

    /// The number of pairs of a query and a key that it attends to, of one head of one sequence.
    ///
    /// Documents, whose lengths are values of a batch, do not change this count: it is then a bound. A float, as counts of
    /// operations are: exact up to 2^53 pairs.
    pub fn pairs(&self) -> f64 {
        let all = self.pairs_before(self.first_query, self.queries);
        let Some(window) = self.window else {
            return all;
        };
        // The keys that query i has left behind are those up to the place `window` before its own.
        let without = window.saturating_sub(self.first_query).min(self.queries);
        let first = self.first_query.saturating_sub(window);
        all - self.pairs_before(first, self.queries - without)
    }

    // The number of pairs of a query and a key up to its place, for `queries` queries from the place `first` on.
    fn pairs_before(&self, first: usize, queries: usize) -> f64 {
        // Queries from the one on that attends to the last key attend to all.
        let partial = self.keys.saturating_sub(1).saturating_sub(first);
        let partial = partial.min(queries) as f64;
        let (queries, keys, met) = (queries as f64, self.keys as f64, first as f64 + 1.0);
        let triangle = match partial > 0.0 {
            true => partial * met + partial * (partial - 1.0) / 2.0,
            false => 0.0,
        };
        triangle + (queries - partial) * keys
    }
}

/// `out = softmax(scale * q k^T, causal) v`, head by head, with fp32 (or f64) inside; with a cap, of capped scores.
///
/// With `documents` or a window, a query attends only to the keys of its own document and window: from
/// [`AttentionShape::first_met`] on. One that meets no key held here has an output of 0, and the log-sum-exp -infinity.
#[derive(Clone, Debug, PartialEq)]
pub struct AttentionForward {
    /// Sizes.
    pub shape: AttentionShape,
    /// (sequences * queries) x (heads * head_size), any float type.
    pub q: RawSlice,
    /// (sequences * keys) x (kv_heads * head_size).
    pub k: RawSlice,
    /// As `k`.
    pub v: RawSlice,
    /// As `q`.
    pub out: RawSlice,
    /// sequences x heads x queries, of the accumulator type: log of the sum of exp(scores), for the backward pass.
    pub log_sum_exp: RawSlice,
    /// sequences x queries, u32: the place of the first token of each query's document in its complete sequence. Within a
    /// sequence these do not decrease; others leave the result unspecified. Absent: each sequence is one document.
    pub documents: Option<RawSlice>,
}

/// Gradients of [`AttentionForward`]; weights are recomputed block by block.
///
/// The weight of a query on a key is `exp(score - log_sum_exp)`, with the `log_sum_exp` and `out` given here. So the keys of
/// an attention may be cut into blocks. With the `log_sum_exp` and `out` of all keys, the calls for the blocks return the
/// gradients of their own keys and values, and addends of the queries' gradients.
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
    /// As in the forward pass, of all keys that a query attends to, here or elsewhere.
    pub out: RawSlice,
    /// As `out`.
    pub log_sum_exp: RawSlice,
    /// As `out`.
    pub d_out: RawSlice,
    /// As in the forward pass.
    pub documents: Option<RawSlice>,
    /// As `q`; written.
    pub d_q: RawSlice,
    /// As `k`; written, with 0 for keys to which no query attends.
    pub d_k: RawSlice,
    /// As `v`; written, as `d_k`.
    pub d_v: RawSlice,
}

/// Joins the results of two disjoint blocks of keys, for the same queries.
///
/// With log-sum-exps a of `out` and b of `block`, a query's `out` becomes `(e^a out + e^b block) / (e^a + e^b)`, and its
/// log-sum-exp `log(e^a + e^b)`. A query that meets no key of a block has there the log-sum-exp of minus infinity.
#[derive(Clone, Debug, PartialEq)]
pub struct AttentionJoin {
    /// Sequences held here.
    pub sequences: usize,
    /// Queries per sequence.
    pub queries: usize,
    /// Query heads held here.
    pub heads: usize,
    /// Elements of a head.
    pub head_size: usize,
    /// (sequences * queries) x (heads * head_size), of the accumulator type of `block`; updated.
    pub out: RawSlice,
    /// sequences x heads x queries, of the accumulator type: those of `out`.
    pub log_sum_exp: RawSlice,
    /// As `out`, of any float type.
    pub block: RawSlice,
    /// As `log_sum_exp`: those of `block`.
    pub block_log_sum_exp: RawSlice,
    /// As `log_sum_exp`: those of both; written.
    pub joined: RawSlice,
}

operands! {
    AttentionForward { q: READ, k: READ, v: READ, out: WRITE, log_sum_exp: WRITE, documents: READ ; shape }
    AttentionBackward {
        q: READ, k: READ, v: READ, out: READ, log_sum_exp: READ, d_out: READ, documents: READ,
        d_q: WRITE, d_k: WRITE, d_v: WRITE
        ; shape
    }
    AttentionJoin {
        out: UPDATE, log_sum_exp: READ, block: READ, block_log_sum_exp: READ, joined: WRITE
        ; sequences, queries, heads, head_size
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_meets_its_document_up_to_itself() {
        let shape = AttentionShape {
            queries: 4,
            keys: 8,
            first_query: 2,
            first_key: 10,
            ..AttentionShape::causal(1, 0, [1, 1, 1])
        };
        // Query 1 is at place 13: documents that start before the keys held here, at one of them, and behind the query.
        let first = [0, 10, 12, 13, 99].map(|start| shape.first_met(1, start));
        assert_eq!(first, [0, 0, 2, 3, 3]);
        let behind = AttentionShape {
            first_query: 20,
            ..shape
        };
        assert_eq!(behind.first_met(0, 29), 19);
        assert!(behind.first_met(0, 29) >= behind.keys);
        // A window of two keys begins at the key before its own, and does not open a document that starts there.
        let narrow = AttentionShape {
            window: Some(2),
            ..shape
        };
        let first = [0, 10, 12, 13, 99].map(|start| narrow.first_met(1, start));
        assert_eq!(first, [2, 2, 2, 3, 3]);
        assert_eq!(narrow.first_met(0, 0), 1);
    }

    #[test]
    fn a_window_closes_where_a_query_has_more_keys_before_it() {
        let closing = |first_query, window| {
            let shape = AttentionShape {
                first_query,
                window,
                ..AttentionShape::causal(1, 4, [1, 1, 1])
            };
            shape.closing_window()
        };
        assert_eq!(closing(0, None), None);
        assert_eq!(closing(0, Some(4)), None);
        assert_eq!(closing(0, Some(3)), Some(3));
        assert_eq!(closing(1, Some(4)), Some(4));
        assert_eq!(closing(usize::MAX, Some(4)), Some(4));
    }

    #[test]
    fn pairs_are_those_of_every_query() {
        let windows = [
            None,
            Some(1),
            Some(2),
            Some(3),
            Some(5),
            Some(8),
            Some(9),
            Some(100),
        ];
        let sizes = [(0, 0), (0, 3), (1, 1), (5, 5), (4, 9), (9, 4), (3, 1)];
        let first_queries = [0, 1, 2, 3, 4, 8, 9, 20, usize::MAX];
        let cases = sizes.into_iter().flat_map(|sizes| {
            first_queries
                .into_iter()
                .flat_map(move |first_query| windows.map(|window| (sizes, first_query, window)))
        });
        for ((queries, keys), first_query, window) in cases {
            let shape = AttentionShape {
                queries,
                keys,
                first_query,
                window,
                ..AttentionShape::causal(1, 0, [1, 1, 1])
            };
            let met = |query| {
                let end = shape.keys_met(query);
                end.saturating_sub(shape.first_met(query, 0))
            };
            let sum = (0..queries).map(met).sum::<usize>();
            assert_eq!(shape.pairs(), sum as f64, "{shape:?}");
            let meets = |query: usize, key: usize| {
                let (own, key) = (first_query as u128 + query as u128, key as u128);
                let window = window.map_or(u128::MAX, |window| window as u128);
                key <= own && own - key < window
            };
            let all = (0..queries).flat_map(|query| (0..keys).map(move |key| (query, key)));
            let defined = all.filter(|&(query, key)| meets(query, key)).count();
            assert_eq!(sum, defined, "{shape:?}");
        }
    }
}
