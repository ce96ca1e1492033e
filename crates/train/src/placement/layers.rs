//! The linear layers of a model, in groups that read the same features.

use grid::Axis;
use nn::{Family, GptConfig};

/// Linear layers that read the same features, such as queries, keys and values: the gradient of those is reduced once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layers {
    /// Features that they read.
    pub inputs: usize,
    /// Features that each of them emits.
    pub outputs: Vec<usize>,
    /// The axis that they contract over.
    pub reads: Axis,
    /// The axis that they emit over.
    pub emits: Axis,
    /// How many such groups the model has.
    pub count: usize,
    /// Whether they stand in its blocks; the head does not.
    pub in_blocks: bool,
}

/// The groups of a model: four for each block, and the head.
pub fn layers(model: &GptConfig) -> Vec<Layers> {
    let (h, kv, mlp) = (
        model.hidden,
        model.kv_heads() * model.head_size(),
        model.mlp_hidden(),
    );
    let up = if model.family == Family::Llama {
        vec![mlp, mlp]
    } else {
        vec![mlp]
    };
    let (count, in_blocks) = (model.layers, true);
    let normal = |inputs, outputs| Layers {
        inputs,
        outputs,
        reads: Axis::Y,
        emits: Axis::X,
        count,
        in_blocks,
    };
    let transposed = |inputs| Layers {
        reads: Axis::X,
        emits: Axis::Y,
        ..normal(inputs, vec![h])
    };
    vec![
        normal(h, vec![h, kv, kv]),
        transposed(h),
        normal(h, up),
        transposed(mlp),
        Layers {
            count: 1,
            in_blocks: false,
            ..normal(h, vec![model.padded_vocabulary()])
        },
    ]
}
