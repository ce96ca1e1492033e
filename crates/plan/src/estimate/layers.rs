//! The linear layers of a model, in groups that read the same features.

use grid::Axis;
use nn::{GptConfig, gpt::Family};

/// Linear layers that read the same features, such as queries, keys and values: the gradient of their input is reduced
/// once.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Layers {
    /// How many such groups a rank computes, on average.
    pub(super) count: f64,
    /// Features that they read.
    pub(super) inputs: usize,
    /// Features that each of them emits.
    pub(super) outputs: Vec<usize>,
    /// The axis that they contract over.
    pub(super) reads: Axis,
    /// The axis that they emit over.
    pub(super) emits: Axis,
}

/// The groups of a stage's share of the model: four for each block, and the head.
pub(super) fn of(model: &GptConfig, stages: usize) -> Vec<Layers> {
    let (h, kv, mlp) = (model.hidden, model.kv_heads() * model.head_size(), model.mlp_hidden());
    let wide = match model.family {
        Family::Gpt2 => vec![mlp],
        Family::Llama => vec![mlp, mlp],
    };
    let share = |count: usize| count as f64 / stages as f64;
    let normal = |count, outputs| Layers { count, inputs: h, outputs, reads: Axis::Y, emits: Axis::X };
    let transposed = |inputs| Layers {
        count: share(model.layers),
        inputs,
        outputs: vec![h],
        reads: Axis::X,
        emits: Axis::Y,
    };
    vec![
        normal(share(model.layers), vec![h, kv, kv]),
        transposed(h),
        normal(share(model.layers), wide),
        transposed(mlp),
        normal(share(1), vec![model.padded_vocabulary()]),
    ]
}
