//! Words of the section `[training]` that choose.

use serde::{Deserialize, Serialize};
use tensor::DType;

/// The types that a model computes in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    /// Everything in f64.
    F64,
    /// Everything in f32.
    #[default]
    F32,
    /// Matmuls and activations in bf16; weights, gradients and state in f32.
    Bf16,
    /// As bf16, in f16, with a dynamic scale of the loss.
    F16,
}

impl Precision {
    /// Type of activations and of the weights' working copy.
    pub const fn dtype(self) -> DType {
        match self {
            Precision::F64 => DType::F64,
            Precision::F32 => DType::F32,
            Precision::Bf16 => DType::Bf16,
            Precision::F16 => DType::F16,
        }
    }
}

/// Which optimiser.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OptimiserKind {
    /// Adam with decoupled weight decay.
    #[default]
    AdamW,
    /// AdamW with moments of 8 bits.
    AdamW8bit,
    /// Second moments as means of rows and columns, without a first moment.
    Adafactor,
    /// Stochastic gradient descent, with momentum if that is not 0.
    Sgd,
    /// The sign of an interpolated momentum.
    Lion,
    /// Orthogonalised momentum for the matrices of hidden layers, AdamW for all other parameters.
    Muon,
}

/// What training minimises.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ObjectiveKind {
    /// The model's own loss, such as the cross-entropy of the next token.
    #[default]
    Model,
    /// That of direct preference optimisation, on pairs of answers.
    Dpo,
}

/// Who says what each segment does with what it keeps for its backward.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MemoryMode {
    /// The configuration.
    #[default]
    Stated,
    /// A search, before the run.
    Auto,
}
