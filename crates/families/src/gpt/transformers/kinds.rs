//! Models that are stored as Llama is, and what each kind adds.

use crate::{GptConfig, GptFamily};
use serde_json::Value;
use train::{Error, Result, foreign::Settings};

/// What a kind of model has that others lack.
pub(super) struct Kind {
    pub(super) model_type: &'static str,
    pub(super) architecture: &'static str,
    pub(super) family: GptFamily,
    pub(super) qkv_bias: bool,
    pub(super) qk_norm: bool,
    /// Elements of a head where no setting states them; 0 means the width divided by the heads.
    pub(super) head_size: usize,
    /// Whether attention has a window where no setting says so.
    pub(super) has_window: bool,
    /// Whether the head is tied where no setting says so.
    pub(super) tied_head: bool,
}

const LLAMA: Kind = Kind {
    model_type: "llama",
    architecture: "LlamaForCausalLM",
    family: GptFamily::Llama,
    qkv_bias: false,
    qk_norm: false,
    head_size: 0,
    has_window: false,
    tied_head: false,
};

const MISTRAL: Kind = Kind {
    model_type: "mistral",
    architecture: "MistralForCausalLM",
    has_window: true,
    ..LLAMA
};

const QWEN2: Kind = Kind {
    model_type: "qwen2",
    architecture: "Qwen2ForCausalLM",
    qkv_bias: true,
    ..LLAMA
};

const QWEN3: Kind = Kind {
    model_type: "qwen3",
    architecture: "Qwen3ForCausalLM",
    qk_norm: true,
    head_size: 128,
    ..LLAMA
};

const GEMMA: Kind = Kind {
    model_type: "gemma",
    architecture: "GemmaForCausalLM",
    family: GptFamily::Gemma,
    head_size: 256,
    tied_head: true,
    ..LLAMA
};

const KINDS: [Kind; 5] = [LLAMA, MISTRAL, QWEN2, QWEN3, GEMMA];

impl Kind {
    /// The one that settings name.
    pub(super) fn of(settings: &Settings) -> &'static Kind {
        let named = settings.get("model_type").and_then(Value::as_str);
        let found = KINDS.iter().find(|kind| Some(kind.model_type) == named);
        found.unwrap_or(&LLAMA)
    }

    /// The first that has what the model has. Windows are longer than the model's context.
    ///
    /// # Errors
    /// [`Error::Setting`] if none has.
    pub(super) fn for_model(config: &GptConfig) -> Result<&'static Kind> {
        let own = (config.family, config.qkv_bias, config.qk_norm);
        let fits = |kind: &&Kind| (kind.family, kind.qkv_bias, kind.qk_norm) == own;
        KINDS.iter().find(fits).ok_or_else(|| {
            let (key, other) = match config.qk_norm {
                true => ("qk_norm", format!(" with qkv_bias = {}", config.qkv_bias)),
                false => ("qkv_bias", String::new()),
            };
            let found = format!("true{other}, family = \"{}\"", config.family.name());
            let needed = "what a kind of model of the library transformers has";
            Error::setting(format!("model.{key}"), found, needed)
        })
    }
}
