//! The families, and what the blocks of each are made of.

use super::{
    Activation, GptConfig,
    foreign::{GEMMA_FORMAT, Gpt2Format, LLAMA_FORMAT, MegatronFormat, NeoxFormat},
    published, stored,
};
use parallel::layers::norm::NormKind;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use train::{
    ModelConfig,
    architecture::model_of,
    config::{Key, Section},
    foreign::Format,
};

/// Which architecture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GptFamily {
    /// LayerNorm, learnt positions, GELU, biases.
    #[default]
    Gpt2,
    /// RMSNorm, rotary positions, SwiGLU, no biases.
    Llama,
    /// As Llama, with gains around 0, a scaled embedding, and GELU in the gate.
    Gemma,
    /// LayerNorm, rotary positions, GELU, biases.
    #[serde(rename = "gpt_neox")]
    GptNeox,
}

/// What the blocks of a family are made of, where no key of `[model]` says otherwise.
pub(super) struct Design {
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    pub(super) norm: NormKind,
    /// Whether linear layers have biases.
    pub(super) biases: bool,
    pub(super) positions: PositionKind,
    /// Whether the MLP multiplies by a gate.
    pub(super) gated: bool,
    /// The function inside it.
    pub(super) activation: Activation,
    /// Whether the embedding is multiplied by the root of the width.
    pub(super) scales_embedding: bool,
    /// Width inside the MLP, from the hidden size.
    pub(super) mlp_hidden: fn(usize) -> usize,
}

/// How a model knows where in the sequence a token stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PositionKind {
    /// A table of vectors, one for each place.
    Learnt,
    /// Queries and keys are turned.
    Rotary,
}

const GPT2: Design = Design {
    name: "gpt2",
    title: "GPT-2",
    norm: NormKind::Layer,
    biases: true,
    positions: PositionKind::Learnt,
    gated: false,
    activation: Activation::GeluTanh,
    scales_embedding: false,
    mlp_hidden: |hidden| 4 * hidden,
};

const LLAMA: Design = Design {
    name: "llama",
    title: "Llama",
    norm: NormKind::Rms,
    biases: false,
    positions: PositionKind::Rotary,
    gated: true,
    activation: Activation::Silu,
    scales_embedding: false,
    mlp_hidden: |hidden| (8 * hidden).div_ceil(3).next_multiple_of(8),
};

const GEMMA: Design = Design {
    name: "gemma",
    title: "Gemma",
    norm: NormKind::RmsOffset,
    activation: Activation::GeluTanh,
    scales_embedding: true,
    mlp_hidden: |hidden| 8 * hidden,
    ..LLAMA
};

const GPT_NEOX: Design = Design {
    name: "gpt_neox",
    title: "GPT-NeoX",
    positions: PositionKind::Rotary,
    activation: Activation::Gelu,
    ..GPT2
};

impl Design {
    pub(super) fn is_rotary(&self) -> bool {
        self.positions == PositionKind::Rotary
    }

    /// Matrices of an MLP.
    pub(super) fn mlp_matrices(&self) -> usize {
        if self.gated { 3 } else { 2 }
    }
}

impl train::Family for GptFamily {
    fn name(&self) -> &str {
        GptFamily::name(*self)
    }

    fn read(&self, document: &str) -> std::result::Result<ModelConfig, toml::de::Error> {
        model_of::<GptConfig>(document).map(ModelConfig::new)
    }

    fn keys(&self) -> Vec<Key> {
        GptConfig::keys()
    }

    fn keys_of(
        &self,
        shape: &dyn Fn(&str) -> Option<Vec<usize>>,
        given: &toml::Table,
    ) -> Vec<(&'static str, toml::Value)> {
        stored::keys(shape, given)
    }

    fn models(&self) -> Vec<String> {
        match self {
            GptFamily::Gpt2 => published::names(),
            _ => Vec::new(),
        }
    }

    fn model(&self, name: &str) -> Option<ModelConfig> {
        let found = published::find(name).filter(|_| *self == GptFamily::Gpt2);
        found.map(ModelConfig::new)
    }

    fn formats(&self) -> Vec<Arc<dyn Format>> {
        match self {
            // Whose arguments choose the family.
            GptFamily::Gpt2 => vec![Arc::new(Gpt2Format), Arc::new(MegatronFormat)],
            GptFamily::Llama => vec![Arc::new(LLAMA_FORMAT)],
            GptFamily::Gemma => vec![Arc::new(GEMMA_FORMAT)],
            GptFamily::GptNeox => vec![Arc::new(NeoxFormat)],
        }
    }
}

impl train::config::KeyType for GptFamily {
    fn values() -> String {
        "`gpt2`, `llama`, `gemma` or `gpt_neox`".to_owned()
    }
}

impl GptFamily {
    /// Its name in configurations.
    pub const fn name(self) -> &'static str {
        self.design().name
    }

    /// What its blocks are made of.
    pub(super) const fn design(self) -> &'static Design {
        match self {
            GptFamily::Gpt2 => &GPT2,
            GptFamily::Llama => &LLAMA,
            GptFamily::Gemma => &GEMMA,
            GptFamily::GptNeox => &GPT_NEOX,
        }
    }
}
