//! Causal attention at the usual head sizes.

use super::{
    Sizes,
    case::{Case, Maker, Operands},
};
use std::collections::BTreeSet;
use tensor::{
    Tensor,
    ops::{
        self,
        attention::{AttentionShape, Saved},
    },
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
fn forward_flop(sizes: Sizes, shape: &AttentionShape) -> f64 {
    let document = sizes.document.unwrap_or(sizes.context).min(sizes.context);
    let pairs_of = |tokens: usize| {
        let heads = [shape.heads, shape.kv_heads, shape.head_size];
        AttentionShape::causal(1, tokens, heads).pairs()
    };
    let (documents, rest) = (sizes.context / document, sizes.context % document);
    let pairs = documents as f64 * pairs_of(document) + pairs_of(rest);
    2.0 * 2.0 * pairs * (shape.sequences * shape.heads * shape.head_size) as f64
}

// Five GEMMs: the scores again, and the gradients of weights, queries, keys and values.
fn backward_flop(sizes: Sizes, shape: &AttentionShape) -> f64 {
    2.5 * forward_flop(sizes, shape)
}

// Where the documents of all sequences start, if attention is to stay within documents.
fn documents(sizes: Sizes, maker: &Maker<'_>) -> train::Result<Option<Tensor>> {
    let Some(document) = sizes.document else {
        return Ok(None);
    };
    let start = |token: usize| (token % sizes.context / document * document) as u32;
    let starts: Vec<u32> = (0..sizes.tokens).map(start).collect();
    let tensor = Tensor::from_slice(maker.device, &[sizes.tokens], &starts)?;
    Ok(Some(tensor))
}

fn forward(sizes: Sizes, head_size: usize) -> Case {
    let shape = shape_of(sizes, head_size);
    let case = Case::new(
        &format!("attention {head_size}"),
        FAMILY,
        move |maker| {
            let like = || maker.random(&sizes.stream());
            let mut read = vec![like()?, like()?, like()?];
            read.extend(documents(sizes, maker)?);
            Ok(Operands::read(read))
        },
        move |operands| {
            let [q, k, v] = [0, 1, 2].map(|index| &operands.read[index]);
            let (out, log_sum_exp) = ops::attention(shape, q, k, v, operands.read.get(3))?;
            Ok(vec![out, log_sum_exp])
        },
    );
    case.with_flop(forward_flop(sizes, &shape))
}

fn backward(sizes: Sizes, head_size: usize) -> Case {
    let shape = shape_of(sizes, head_size);
    let case = Case::new(
        &format!("attention {head_size} backward"),
        FAMILY,
        move |maker| {
            let like = || maker.random(&sizes.stream());
            let [q, k, v] = [like()?, like()?, like()?];
            let documents = documents(sizes, maker)?;
            let (out, log_sum_exp) = ops::attention(shape, &q, &k, &v, documents.as_ref())?;
            let mut read = vec![q, k, v, out, log_sum_exp, like()?];
            read.extend(documents);
            Ok(Operands::read(read))
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
                documents: operands.read.get(6).cloned(),
            };
            Ok(ops::attention_backward(shape, &saved, &operands.read[5])?.into())
        },
    );
    case.with_flop(backward_flop(sizes, &shape))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZES: Sizes = Sizes {
        tokens: 8192,
        hidden: 2048,
        heads: 16,
        context: 2048,
        document: None,
        vocabulary: 51200,
    };

    #[test]
    fn heads_of_any_size_have_the_same_flop() {
        let flop = |size: usize| forward_flop(SIZES, &shape_of(SIZES, size));
        assert_eq!(flop(64), 4.0 * 4.0 * 2048.0 * 2049.0 / 2.0 * 2048.0);
        assert_eq!(
            (flop(128), backward_flop(SIZES, &shape_of(SIZES, 128))),
            (flop(64), 2.5 * flop(64))
        );
    }

    #[test]
    fn documents_have_the_flop_of_their_pairs_alone() {
        let sizes = Sizes {
            document: Some(600),
            ..SIZES
        };
        let pairs = 3.0 * 600.0 * 601.0 / 2.0 + 248.0 * 249.0 / 2.0;
        let flop = forward_flop(sizes, &shape_of(sizes, 64));
        assert_eq!(flop, 4.0 * 4.0 * pairs * 2048.0);
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
