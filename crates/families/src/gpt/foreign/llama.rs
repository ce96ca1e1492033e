//! Llama, Mistral, Qwen 2, Qwen 3, and Gemma 1 to 3, whose matrices are stored as out x in.

use super::{
    Places, activation, base, config,
    kinds::Kind,
    local::{self, Local},
    object, reference, rope,
};
use crate::GptConfig;
use serde_json::{Map, Value, json};
use train::{
    ModelConfig, Result,
    checkpoint::foreign::{PlainFolder, View},
    foreign::{Format, Place, Settings, Spare},
};

/// Settings of how a program computes, and not what.
const UNREAD: [&str; 2] = ["gradient_checkpointing", "pretraining_tp"];

/// The kinds of a family.
pub(crate) struct LlamaFormat {
    model_types: &'static [&'static str],
}

/// `model_type` = `llama`, `mistral`, `qwen2` or `qwen3`.
pub(crate) const LLAMA_FORMAT: LlamaFormat = LlamaFormat {
    model_types: &["llama", "mistral", "qwen2", "qwen3"],
};

/// `model_type` = `gemma`, `gemma2` or `gemma3_text`.
pub(crate) const GEMMA_FORMAT: LlamaFormat = LlamaFormat {
    model_types: &["gemma", "gemma2", "gemma3_text"],
};

impl Format for LlamaFormat {
    fn model_types(&self) -> &[&'static str] {
        self.model_types
    }

    fn model(&self, settings: &Settings) -> Result<ModelConfig> {
        settings.skip(&UNREAD);
        settings.only("attention_bias", &[json!(false)])?;
        settings.only("mlp_bias", &[json!(false)])?;
        settings.only("rope_interleaved", &[json!(false)])?;
        settings.only("use_bidirectional_attention", &[json!(false)])?;
        let kind = Kind::of(settings);
        let (local, rotary) = match kind.has_local_blocks() {
            true => Local::of(settings, kind)?,
            false => (Local::alike(settings)?, rope::read(settings, &rope::LLAMA)?),
        };
        let heads = settings.size("num_attention_heads")?;
        let config = GptConfig {
            family: kind.family,
            layers: settings.size("num_hidden_layers")?,
            hidden: settings.size("hidden_size")?,
            heads,
            kv_heads: settings
                .size_or_none("num_key_value_heads")?
                .unwrap_or(heads),
            head_size: settings.size_or_none("head_dim")?.unwrap_or(kind.head_size),
            qkv_bias: kind.qkv_bias,
            qk_norm: kind.qk_norm,
            post_norms: kind.post_norms,
            score_size: local.score_size,
            score_cap: local.caps[0],
            logit_cap: local.caps[1],
            mlp_hidden: settings.size("intermediate_size")?,
            activation: activation::of_llama(settings, kind.family)?,
            context: settings.size("max_position_embeddings")?,
            vocabulary: settings.size("vocab_size")?,
            tied_head: settings.flag_or("tie_word_embeddings", kind.tied_head)?,
            dropout: settings.number_or("attention_dropout", 0.0)?,
            norm_epsilon: settings.number_or("rms_norm_eps", 1e-6)?,
            rope_base: rotary.base,
            rope_scaling: rotary.scaling,
            sliding_window: local.window,
            local_blocks: local.blocks,
            local_rope_base: local.base,
            init_deviation: settings.number_or("initializer_range", 0.02)?,
            ..GptConfig::default()
        };
        Ok(ModelConfig::new(config))
    }

    fn settings(&self, model: &ModelConfig) -> Result<Map<String, Value>> {
        let config = config(model);
        let kind = Kind::for_model(config)?;
        let keys = json!({
            "architectures": [kind.architecture],
            "model_type": kind.model_type,
            "hidden_act": activation::written(config),
            "num_hidden_layers": config.layers,
            "hidden_size": config.hidden,
            "num_attention_heads": config.heads,
            "num_key_value_heads": config.kv_heads(),
            "head_dim": config.head_size(),
            "intermediate_size": config.mlp_hidden(),
            "max_position_embeddings": config.context,
            "vocab_size": config.vocabulary,
            "tie_word_embeddings": config.tied_head,
            "attention_dropout": config.dropout,
            "rms_norm_eps": config.norm_epsilon,
            "initializer_range": config.init_deviation,
            "rope_theta": config.rope_base,
            "rope_scaling": rope::written(config.rope_scaling),
            // transformers fills in others where these are absent.
            "bos_token_id": null,
            "eos_token_id": null,
        });
        let mut keys = object(keys);
        keys.extend(local::written(kind, config));
        Ok(keys)
    }

    fn unstated(&self) -> &'static [&'static str] {
        // A size of 0 and the size for which it stands are the same, and so is the family's function under its name.
        &[
            "activation",
            "document_end",
            "head_size",
            "kv_heads",
            "mlp_hidden",
            "pad_vocabulary_to",
            "score_size",
        ]
    }

    fn places(
        &self,
        model: &ModelConfig,
        _: &Settings,
        contains: &dyn Fn(&str) -> bool,
    ) -> Result<Vec<Place>> {
        let config = config(model);
        let (h, mlp, rows) = (config.hidden, config.mlp_hidden(), config.vocabulary);
        let (q, kv) = (config.query_width(), config.key_width());
        let base = base(contains, "embed_tokens.weight", "model.");
        let mut places = Places::default();
        let padded = |name: String| View::of(name, &[rows, h]).padded(config.padded_vocabulary());
        places.add(
            "embedding.token",
            padded(format!("{base}embed_tokens.weight")),
        );
        for block in 0..config.layers {
            let (ours, theirs) = (format!("blocks.{block}."), format!("{base}layers.{block}."));
            let norms: &[_] = match config.post_norms {
                false => &[
                    ("norm1", "input_layernorm"),
                    ("norm2", "post_attention_layernorm"),
                ],
                true => &[
                    ("norm1", "input_layernorm"),
                    ("post_norm1", "post_attention_layernorm"),
                    ("norm2", "pre_feedforward_layernorm"),
                    ("post_norm2", "post_feedforward_layernorm"),
                ],
            };
            for (name, other) in norms {
                places.add_gain(&format!("{ours}{name}"), &format!("{theirs}{other}"), h);
            }
            let linears = [
                ("attention.query", "self_attn.q_proj", h, q),
                ("attention.key", "self_attn.k_proj", h, kv),
                ("attention.value", "self_attn.v_proj", h, kv),
                ("attention.output", "self_attn.o_proj", q, h),
                ("mlp.gate", "mlp.gate_proj", h, mlp),
                ("mlp.up", "mlp.up_proj", h, mlp),
                ("mlp.down", "mlp.down_proj", mlp, h),
            ];
            for (index, (name, other, from, to)) in linears.into_iter().enumerate() {
                let (ours, theirs) = (format!("{ours}{name}"), format!("{theirs}{other}"));
                places.add_transposed(&ours, &theirs, [from, to]);
                if config.qkv_bias && index < 3 {
                    places.add_bias(&ours, &theirs, to);
                }
            }
            if config.qk_norm {
                for (name, other) in [("query_norm", "q_norm"), ("key_norm", "k_norm")] {
                    let (ours, theirs) = (
                        format!("{ours}attention.{name}"),
                        format!("{theirs}self_attn.{other}"),
                    );
                    places.add_gain(&ours, &theirs, config.head_size());
                }
            }
        }
        places.add_gain("final_norm", &format!("{base}norm"), h);
        if !config.tied_head {
            places.add("head.weight", padded("lm_head.weight".into()));
        }
        Ok(places.0)
    }

    fn spare(&self, model: &ModelConfig, tensor: &str) -> Option<Spare> {
        match tensor {
            "lm_head.weight" if config(model).tied_head => {
                Some(Spare::CopyOf("model.embed_tokens.weight".into()))
            }
            _ if tensor.ends_with(".rotary_emb.inv_freq") => Some(Spare::Constant),
            _ => None,
        }
    }

    fn tokens(&self, model: &ModelConfig) -> Vec<u32> {
        super::tokens(model)
    }

    fn outputs(
        &self,
        settings: &Settings,
        tensors: &PlainFolder,
        tokens: &[u32],
    ) -> Result<Vec<Vec<f64>>> {
        reference::llama(settings, tensors, tokens)
    }
}
