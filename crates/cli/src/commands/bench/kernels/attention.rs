//! Causal attention at the usual head sizes.

use super::{
    Sizes,
    case::{Case, Operands},
};
use std::collections::BTreeSet;
use tensor::ops::{
    self,
    attention::{AttentionShape, Saved},
};

const FAMILY: &str = "attention";

/// Head sizes common in published models.
const USUAL: [usize; 2] = [64, 128];

/// Forward and backward, for the model's heads and for the usual head sizes that fit its width.
pub(super) fn cases(sizes: Sizes) -> Vec<Case> {
    head_sizes(sizes)
        .into_iter()
        .flat_map(|size| [forward(sizes, size), backward(sizes, size)])
        .collect()
}

fn head_sizes(sizes: Sizes) -> BTreeSet<usize> {
    let usual = USUAL
        .into_iter()
        .filter(|size| sizes.hidden.is_multiple_of(*size));
    usual.chain([sizes.hidden / sizes.heads]).collect()
}

fn shape_of(sizes: Sizes, head_size: usize) -> AttentionShape {
    let heads = sizes.hidden / head_size;
    let sequences = sizes.tokens / sizes.context;
    AttentionShape::causal(sequences, sizes.context, [heads, heads, head_size])
}

// Two GEMMs, queries with keys and weights with values, at 2 flop per pair of tokens that meet and element of a head.
fn forward_flop(shape: &AttentionShape) -> f64 {
    2.0 * 2.0 * shape.pairs() * (shape.sequences * shape.heads * shape.head_size) as f64
}

// Five GEMMs: the scores again, and the gradients of weights, queries, keys and values.
fn backward_flop(shape: &AttentionShape) -> f64 {
    2.5 * forward_flop(shape)
}

fn forward(sizes: Sizes, head_size: usize) -> Case {
    let shape = shape_of(sizes, head_size);
    let case = Case::new(
        &format!("attention {head_size}"),
        FAMILY,
        move |maker| {
            let like = || maker.random(&sizes.stream());
            Ok(Operands::read([like()?, like()?, like()?]))
        },
        move |operands| {
            let [q, k, v] = [0, 1, 2].map(|index| &operands.read[index]);
            let (out, log_sum_exp) = ops::attention(shape, q, k, v)?;
            Ok(vec![out, log_sum_exp])
        },
    );
    case.with_flop(forward_flop(&shape))
}

fn backward(sizes: Sizes, head_size: usize) -> Case {
    let shape = shape_of(sizes, head_size);
    let case = Case::new(
        &format!("attention {head_size} backward"),
        FAMILY,
        move |maker| {
            let like = || maker.random(&sizes.stream());
            let [q, k, v] = [like()?, like()?, like()?];
            let (out, log_sum_exp) = ops::attention(shape, &q, &k, &v)?;
            Ok(Operands::read([q, k, v, out, log_sum_exp, like()?]))
        },
        move |operands| {
            let [q, k, v, out, log_sum_exp] =
                [0, 1, 2, 3, 4].map(|index| operands.read[index].clone());
            let saved = Saved {
                q,
                k,
                v,
                out,
                log_sum_exp,
            };
            Ok(ops::attention_backward(shape, &saved, &operands.read[5])?.into())
        },
    );
    case.with_flop(backward_flop(&shape))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZES: Sizes = Sizes {
        tokens: 8192,
        hidden: 2048,
        heads: 16,
        context: 2048,
        vocabulary: 51200,
    };

    #[test]
    fn heads_of_any_size_have_the_same_flop() {
        let flop = |size: usize| forward_flop(&shape_of(SIZES, size));
        assert_eq!(flop(64), 4.0 * 4.0 * 2048.0 * 2049.0 / 2.0 * 2048.0);
        assert_eq!(
            (flop(128), backward_flop(&shape_of(SIZES, 128))),
            (flop(64), 2.5 * flop(64))
        );
    }

    #[test]
    fn the_models_own_heads_are_measured_too() {
        assert_eq!(head_sizes(SIZES), BTreeSet::from([64, 128]));
        assert_eq!(
            head_sizes(Sizes {
                hidden: 192,
                heads: 6,
                ..SIZES
            }),
            BTreeSet::from([32, 64])
        );
    }
}
