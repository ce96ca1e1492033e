//! How evenly a model falls into the stages of a pipeline.

use nn::{GptConfig, gpt::Family};

/// How many times the mean part the largest is: a model is cut at halves of blocks, and the head goes with the last part.
/// All stages wait for the largest in turn.
pub(super) fn imbalance(model: &GptConfig, stages: usize, chunks: usize) -> f64 {
    if stages == 1 {
        return 1.0;
    }
    let (parts, halves) = (stages * chunks, 2 * model.layers);
    let (attention, mlp, head) = costs(model);
    let of = |count: usize| {
        (count / 2) as f64 * (attention + mlp) + (count % 2) as f64 * attention.max(mlp)
    };
    let mean = (model.layers as f64 * (attention + mlp) + head) / parts as f64;
    let last = of(halves / parts)
        + if halves.is_multiple_of(parts) {
            head
        } else {
            0.0
        };
    (of(halves.div_ceil(parts)).max(last) / mean).max(1.0)
}

// Flop of a token in attention with its products, in the MLP, and in the head, forward.
fn costs(model: &GptConfig) -> (f64, f64, f64) {
    let (h, kv) = (model.hidden, model.kv_heads() * model.head_size());
    let matrices = if model.family == Family::Gpt2 { 2 } else { 3 };
    let attention = 2 * (2 * h * h + 2 * h * kv) + 2 * h * model.context;
    let head = 2 * h * model.padded_vocabulary();
    (
        attention as f64,
        (2 * matrices * h * model.mlp_hidden()) as f64,
        head as f64,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_whole_blocks_are_even_but_for_the_head() {
        let model = crate::model::gpt(96, 16_384, 128);
        assert_eq!(imbalance(&model, 1, 1), 1.0);
        let (attention, mlp, head) = costs(&model);
        let three = (3.0 * (attention + mlp) + head) / ((96.0 * (attention + mlp) + head) / 32.0);
        assert!((imbalance(&model, 32, 1) - three).abs() < 1e-12);
        assert!(
            imbalance(&model, 32, 4) > 1.25,
            "128 parts of 192 halves: some have two, some one"
        );
    }
}
