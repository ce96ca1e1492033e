//! Attention by its definition, in f64, with the full matrix of weights.

use hal::kernel::AttentionShape;

/// Inputs, outputs and gradients in f64, laid out as in the kernels.
#[derive(Clone, Default)]
pub(super) struct Values {
    pub(super) q: Vec<f64>,
    pub(super) k: Vec<f64>,
    pub(super) v: Vec<f64>,
    pub(super) out: Vec<f64>,
    pub(super) log_sum_exp: Vec<f64>,
    pub(super) d_out: Vec<f64>,
    pub(super) d_q: Vec<f64>,
    pub(super) d_k: Vec<f64>,
    pub(super) d_v: Vec<f64>,
    /// The places of the documents' first tokens; empty where each sequence is one document.
    pub(super) documents: Vec<u32>,
}

/// Index of the first element of a query's row.
fn query_at(shape: &AttentionShape, [sequence, head, query]: [usize; 3]) -> usize {
    ((sequence * shape.queries + query) * shape.heads + head) * shape.head_size
}

/// Index of the first element of a key's row, for query head `head`.
fn key_at(shape: &AttentionShape, [sequence, head, key]: [usize; 3]) -> usize {
    let kv_head = head / (shape.heads / shape.kv_heads);
    ((sequence * shape.keys + key) * shape.kv_heads + kv_head) * shape.head_size
}

/// The keys that a query attends to, by the definition.
fn met(
    shape: &AttentionShape,
    values: &Values,
    [sequence, _, query]: [usize; 3],
) -> impl Iterator<Item = usize> + use<> {
    let last = shape.first_query as u128 + query as u128;
    let start = values.documents.get(sequence * shape.queries + query);
    let (start, first_key) = (start.copied().unwrap_or(0) as usize, shape.first_key);
    let window = shape.window.map_or(u128::MAX, |window| window as u128);
    let causal = (0..shape.keys).take_while(move |&key| key as u128 <= last);
    causal.filter(move |&key| start <= first_key + key && last - (key as u128) < window)
}

/// Dropout as documented, one index at a time.
pub(super) fn keep(
    shape: &AttentionShape,
    sequence: usize,
    head: usize,
    query: usize,
    key: usize,
) -> f64 {
    let Some(dropout) = shape.dropout else {
        return 1.0;
    };
    let matrix =
        (dropout.first_sequence + sequence) * dropout.global_heads + dropout.first_head + head;
    let (query, key) = (
        shape.first_key + shape.first_query + query,
        shape.first_key + key,
    );
    let index = (matrix * dropout.sequence + query) * dropout.sequence + key;
    let dropped = f64::from(dropout.key.uniform(index as u64)) < dropout.probability;
    if dropped {
        0.0
    } else {
        1.0 / (1.0 - dropout.probability)
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// The score of a query on a key, and its derivative by the one before the cap.
fn score(shape: &AttentionShape, values: &Values, at: [usize; 3], key: usize) -> (f64, f64) {
    let q = &values.q[query_at(shape, at)..][..shape.head_size];
    let k = &values.k[key_at(shape, [at[0], at[1], key])..][..shape.head_size];
    let score = shape.scale * dot(q, k);
    let Some(cap) = shape.score_cap else {
        return (score, 1.0);
    };
    (cap * (score / cap).tanh(), (score / cap).cosh().powi(-2))
}

/// The weights before dropout of a query on the keys that it meets, and the logarithm of their sum.
fn weights(shape: &AttentionShape, values: &Values, at: [usize; 3]) -> (Vec<f64>, f64) {
    let scores: Vec<f64> = met(shape, values, at)
        .map(|key| score(shape, values, at, key).0)
        .collect();
    let largest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = scores.iter().map(|score| (score - largest).exp()).sum();
    let log = largest + sum.ln();
    (
        scores.iter().map(|score| (score - log).exp()).collect(),
        log,
    )
}

fn queries(shape: &AttentionShape) -> impl Iterator<Item = [usize; 3]> {
    let AttentionShape {
        sequences,
        heads,
        queries,
        ..
    } = *shape;
    (0..sequences)
        .flat_map(move |s| (0..heads).flat_map(move |h| (0..queries).map(move |i| [s, h, i])))
}

/// Fills in the outputs.
pub(super) fn forward(shape: &AttentionShape, values: &mut Values) {
    values.out = vec![0.0; values.q.len()];
    values.log_sum_exp.clear();
    for at @ [sequence, head, query] in queries(shape) {
        let (weights, log) = weights(shape, values, at);
        values.log_sum_exp.push(log);
        let out = query_at(shape, at);
        for (key, weight) in met(shape, values, at).zip(weights) {
            let weight = weight * keep(shape, sequence, head, query, key);
            let v = key_at(shape, [sequence, head, key]);
            (0..shape.head_size).for_each(|e| values.out[out + e] += weight * values.v[v + e]);
        }
    }
}

/// Fills in the gradients, from the definition of the softmax's derivative.
pub(super) fn backward(shape: &AttentionShape, values: &mut Values) {
    values.d_q = vec![0.0; values.q.len()];
    values.d_k = vec![0.0; values.k.len()];
    values.d_v = vec![0.0; values.v.len()];
    let size = shape.head_size;
    for at @ [sequence, head, query] in queries(shape) {
        let (weights, _) = weights(shape, values, at);
        let i = query_at(shape, at);
        let j = |key| key_at(shape, [sequence, head, key]);
        let keeps: Vec<f64> = met(shape, values, at)
            .map(|key| keep(shape, sequence, head, query, key))
            .collect();
        let d_out = values.d_out[i..][..size].to_vec();
        let d_weights: Vec<f64> = met(shape, values, at)
            .zip(&keeps)
            .map(|(key, keep)| keep * dot(&d_out, &values.v[j(key)..][..size]))
            .collect();
        let mean = dot(&weights, &d_weights);
        for (index, key) in met(shape, values, at).enumerate() {
            let (_, slope) = score(shape, values, at, key);
            let d_score = shape.scale * slope * weights[index] * (d_weights[index] - mean);
            for (e, d_out) in d_out.iter().enumerate() {
                values.d_v[j(key) + e] += weights[index] * keeps[index] * d_out;
                values.d_q[i + e] += d_score * values.k[j(key) + e];
                values.d_k[j(key) + e] += d_score * values.q[i + e];
            }
        }
    }
}
