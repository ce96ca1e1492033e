//! What a model is cut into for pipelining, and what each part costs.

use super::{Family, GptConfig};

/// A part of a model that is never cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Segment {
    /// Tokens to the residual stream.
    Embedding,
    /// The first half of the block of that number.
    Attention(usize),
    /// The second half of it.
    Mlp(usize),
    /// The last norm, logits and loss.
    Head,
}

/// All parts in order, each with its cost: flop for a token, forward.
///
/// The embedding has no product; its look-up and reduction are taken as 8 operations an element.
pub fn segments(config: &GptConfig) -> Vec<(Segment, f64)> {
    let (h, kv, mlp) = (
        config.hidden,
        config.kv_heads() * config.head_size(),
        config.mlp_hidden(),
    );
    let mats = if config.family == Family::Gpt2 { 2 } else { 3 };
    // Causal attention computes half of the 4 h s operations of scores and weighted sums.
    let attention = (4 * h * h + 4 * h * kv + 2 * h * config.context) as f64;
    let mlp = (2 * mats * h * mlp) as f64;
    let head = (2 * h * config.padded_vocabulary()) as f64;
    let block = |index| {
        [
            (Segment::Attention(index), attention),
            (Segment::Mlp(index), mlp),
        ]
    };
    let blocks = (0..config.layers).flat_map(block);
    [(Segment::Embedding, (8 * h) as f64)]
        .into_iter()
        .chain(blocks)
        .chain([(Segment::Head, head)])
        .collect()
}
