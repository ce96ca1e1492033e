//! Models that are stored as Llama is, and what each kind adds.

use crate::{GptConfig, GptFamily, RopeScaling};
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
    /// The number of blocks from one that is not local to the next, where no setting says so; 0 if blocks are all alike.
    pub(super) pattern: usize,
    /// Whether local blocks have a base of rotary positions of their own.
    pub(super) local_base: bool,
    /// The bounds of scores and of logits where no setting states them; 0: none. `None` if the kind has no such bound.
    pub(super) caps: [Option<f64>; 2],
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
    pattern: 0,
    local_base: false,
    caps: [None; 2],
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
const GEMMA2: Kind = Kind {
    model_type: "gemma2",
    architecture: "Gemma2ForCausalLM",
    post_norms: true,
    windows: Windows::Sized,
    pattern: 2,
    caps: [Some(50.0), Some(30.0)],
    ..GEMMA
};

const GEMMA3: Kind = Kind {
    model_type: "gemma3_text",
    architecture: "Gemma3ForCausalLM",
    qk_norm: true,
    pattern: 6,
    local_base: true,
    caps: [None, Some(0.0)],
    ..GEMMA2
};

const KINDS: [Kind; 7] = [LLAMA, MISTRAL, QWEN2, QWEN3, GEMMA, GEMMA2, GEMMA3];

impl Kind {
    /// Whether blocks may be local, and scores divided by another root than that of the head size.
    pub(super) fn has_local_blocks(&self) -> bool {
        self.pattern > 0
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
        // Where blocks may be local, only those have windows.
        let may_be_local = kind.has_local_blocks();
        let windows_of_all = has_windows && config.local_blocks == 0;
        let local_alone = may_be_local && config.local_blocks > 0 && !kind.local_base;
        let refused = [
            (
                "sliding_window",
                config.sliding_window.to_string(),
                !takes_windows(kind),
            ),
            (
                "local_blocks",
                config.local_blocks.to_string(),
                may_be_local && windows_of_all || !may_be_local && config.local_blocks != 0,
            ),
            (
                "local_rope_base",
                config.local_rope_base.to_string(),
                local_alone && config.local_rope_base != config.rope_base,
            ),
            (
                "rope_scaling",
                config.rope_scaling.to_string(),
                local_alone && config.rope_scaling != RopeScaling::None,
            ),
            (
                "score_size",
                config.score_size().to_string(),
                config.score_size() != config.head_size() && !may_be_local,
            ),
            (
                "score_cap",
                config.score_cap.to_string(),
                config.score_cap != 0.0 && kind.caps[0].is_none(),
            ),
            (
                "logit_cap",
                config.logit_cap.to_string(),
                config.logit_cap != 0.0 && kind.caps[1].is_none(),
            ),
        ];
        match refused.into_iter().find(|(.., is_refused)| *is_refused) {
            Some((key, found, _)) => Err(refuse(key, found)),
            None => Ok(kind),
        }
    }
}
