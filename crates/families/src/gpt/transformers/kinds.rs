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
    pub(super) post_norms: bool,
    /// Elements of a head where no setting states them; 0 means the width divided by the heads.
    pub(super) head_size: usize,
    pub(super) windows: Windows,
    /// Whether the head is tied where no setting says so.
    pub(super) tied_head: bool,
}

/// Which models of a kind have windows in attention.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Windows {
    /// None: the settings do not count.
    Never,
    /// Those with a size in the settings.
    Sized,
    /// Those that also say that it is used.
    Flagged,
}

const LLAMA: Kind = Kind {
    model_type: "llama",
    architecture: "LlamaForCausalLM",
    family: GptFamily::Llama,
    qkv_bias: false,
    qk_norm: false,
    post_norms: false,
    head_size: 0,
    windows: Windows::Never,
    tied_head: false,
};

const MISTRAL: Kind = Kind {
    model_type: "mistral",
    architecture: "MistralForCausalLM",
    windows: Windows::Sized,
    ..LLAMA
};

const QWEN2: Kind = Kind {
    model_type: "qwen2",
    architecture: "Qwen2ForCausalLM",
    qkv_bias: true,
    windows: Windows::Flagged,
    ..LLAMA
};

const QWEN3: Kind = Kind {
    model_type: "qwen3",
    architecture: "Qwen3ForCausalLM",
    qk_norm: true,
    head_size: 128,
    windows: Windows::Flagged,
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

/// With blocks of two kinds, of which the local ones have a window.
pub(super) const GEMMA3: Kind = Kind {
    model_type: "gemma3_text",
    architecture: "Gemma3ForCausalLM",
    qk_norm: true,
    post_norms: true,
    windows: Windows::Sized,
    ..GEMMA
};

const KINDS: [Kind; 6] = [LLAMA, MISTRAL, QWEN2, QWEN3, GEMMA, GEMMA3];

impl Kind {
    /// Whether blocks may be local, and scores divided by another root than that of the head size.
    pub(super) fn is_gemma3(&self) -> bool {
        self.model_type == GEMMA3.model_type
    }

    /// The one that settings name.
    pub(super) fn of(settings: &Settings) -> &'static Kind {
        let named = settings.get("model_type").and_then(Value::as_str);
        let found = KINDS.iter().find(|kind| Some(kind.model_type) == named);
        found.unwrap_or(&LLAMA)
    }

    /// The first that has what the model has.
    ///
    /// # Errors
    /// [`Error::Setting`] if none has.
    pub(super) fn for_model(config: &GptConfig) -> Result<&'static Kind> {
        let own = [config.qkv_bias, config.qk_norm, config.post_norms];
        let fits = |kind: &&Kind| {
            let has = [kind.qkv_bias, kind.qk_norm, kind.post_norms];
            kind.family == config.family && has == own
        };
        let has_windows = config.sliding_window > 0;
        let takes_windows = |kind: &Kind| !has_windows || kind.windows != Windows::Never;
        let refuse = |key: &str, found: String| {
            let found = format!("{found}, family = \"{}\"", config.family.name());
            let needed = "what a kind of model of the library transformers has";
            Error::setting(format!("model.{key}"), found, needed)
        };
        let with_windows = KINDS.iter().find(|kind| fits(kind) && takes_windows(kind));
        let kind = with_windows.or_else(|| KINDS.iter().find(fits));
        let kind = kind.ok_or_else(|| {
            let [bias, qk_norm, _] = own;
            match own {
                [_, _, true] => refuse(
                    "post_norms",
                    format!("true with qk_norm = {qk_norm}, qkv_bias = {bias}"),
                ),
                [_, true, _] => refuse("qk_norm", format!("true with qkv_bias = {bias}")),
                _ => refuse("qkv_bias", "true".into()),
            }
        })?;
        // Of Gemma 3, only local blocks have windows.
        let is_gemma3 = kind.is_gemma3();
        let windows_of_all = has_windows && config.local_blocks == 0;
        let refused = [
            (
                "sliding_window",
                config.sliding_window,
                !takes_windows(kind),
            ),
            (
                "local_blocks",
                config.local_blocks,
                is_gemma3 && windows_of_all || !is_gemma3 && config.local_blocks != 0,
            ),
            (
                "score_size",
                config.score_size(),
                config.score_size() != config.head_size() && !is_gemma3,
            ),
        ];
        match refused.into_iter().find(|(.., is_refused)| *is_refused) {
            Some((key, found, _)) => Err(refuse(key, found.to_string())),
            None => Ok(kind),
        }
    }
}
