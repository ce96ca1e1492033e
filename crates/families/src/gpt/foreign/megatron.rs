//! Megatron-LM: queries, keys and values in one matrix of out x in, group by group, and a gate above the rows that it multiplies.
//!
//! Its arguments describe the model. Of more than 600 of them, those that decide what a model computes are read here; other ways of
//! computing show in tensors that no model here has, or lacks.
//!
//! # Source
//! `megatron/training/arguments.py`, `megatron/core/models/gpt` and `megatron/core/transformer` of Megatron-LM core 0.16 and 0.20; names that
//! have changed since 0.11 in both forms.

use super::{Places, config, dropout, reference, rope::Rotary};
use crate::{Activation, GptConfig, GptFamily, RopeScaling};
use serde_json::{Map, Value, json};
use train::{
    Error, ModelConfig, Result,
    checkpoint::foreign::{PlainFolder, View},
    foreign::{Format, Place, Settings, Spare},
};

/// Arguments of models of other kinds, and of operations that no family here has.
const ABSENT: [&str; 26] = [
    "apply_layernorm_1p",
    "apply_residual_connection_post_layernorm",
    "attention_output_gate",
    "enable_mhc_connections",
    "experimental_attention_variant",
    "heterogeneous_layers_config_path",
    "hybrid_layer_pattern",
    "hybrid_override_pattern",
    "is_hybrid_model",
    "layernorm_zero_centered_gamma",
    "linear_attention_freq",
    "linear_attention_type",
    "mtp_num_layers",
    "multi_latent_attention",
    "no_rope_freq",
    "num_experts",
    "qk_l2_norm",
    "quick_geglu",
    "rotary_interleaved",
    "rotary_seq_len_interpolation_factor",
    "spec",
    "squared_relu",
    "use_legacy_models",
    "use_mup",
    "window_attn_skip_freq",
    "window_size",
];

/// What `use_rope_scaling` means: no argument changes these numbers.
const SCALED: RopeScaling = RopeScaling::Llama3 {
    factor: 8.0,
    low: 1.0,
    high: 4.0,
    context: 8192,
};

/// `model_type` = `megatron`, under which its arguments are read.
pub(crate) struct MegatronFormat;

impl Format for MegatronFormat {
    fn model_types(&self) -> &[&'static str] {
        &["megatron"]
    }

    fn model(&self, settings: &Settings) -> Result<ModelConfig> {
        // How it trains, and with what.
        let all: Vec<&str> = settings.keys().keys().map(String::as_str).collect();
        settings.skip(&all);
        for key in ABSENT {
            settings.only(key, &[json!(false)])?;
        }
        settings.only("softmax_type", &[json!("vanilla")])?;
        settings.only("rope_scaling_factor", &[json!(8.0)])?;
        let family = family(settings)?;
        let gated = family == GptFamily::Llama;
        let is_rotary = family != GptFamily::Gpt2;
        let heads = settings.size("num_attention_heads")?;
        let head_size = settings.size("kv_channels")?;
        let rotary = Rotary {
            base: settings.number_or("rotary_base", 10_000.0)?,
            scaling: match is_rotary && settings.flag_or("use_rope_scaling", false)? {
                true => SCALED,
                false => RopeScaling::None,
            },
            share: settings.number_or("rotary_percent", 1.0)?,
        };
        let config = GptConfig {
            family,
            layers: settings.size("num_layers")?,
            hidden: settings.size("hidden_size")?,
            heads,
            kv_heads: match settings.flag_or("group_query_attention", false)? {
                true => settings.size("num_query_groups")?,
                false => heads,
            },
            head_size,
            qkv_bias: gated && settings.flag_or("add_qkv_bias", false)?,
            qk_norm: settings.flag_or("qk_layernorm", false)?,
            mlp_hidden: settings.size("ffn_hidden_size")?,
            activation: match (gated, settings.flag_or("bias_gelu_fusion", true)?) {
                (true, _) => Activation::Silu,
                // The fused function has the tanh form.
                (false, true) => Activation::GeluTanh,
                (false, false) => Activation::Gelu,
            },
            parallel_residual: false,
            context: settings.size("max_position_embeddings")?,
            vocabulary: settings.size("padded_vocab_size")?,
            tied_head: !settings.flag_or("untie_embeddings_and_output_weights", false)?,
            dropout: dropout(settings, &["hidden_dropout", "attention_dropout"], 0.1)?,
            norm_epsilon: settings.number_or(
                "layernorm_epsilon",
                settings.number_or("norm_epsilon", 1e-5)?,
            )?,
            rope_base: rotary.base,
            rotary_size: match is_rotary {
                true => rotary.turned(settings, head_size)?,
                false => 0,
            },
            rope_scaling: rotary.scaling,
            init_deviation: settings.number_or("init_method_std", 0.02)?,
            ..GptConfig::default()
        };
        Ok(ModelConfig::new(config))
    }

    fn settings(&self, _model: &ModelConfig) -> Result<Map<String, Value>> {
        Err(Error::setting(
            "model_type",
            "megatron",
            "transformers: checkpoints of Megatron are read, not written",
        ))
    }

    fn places(
        &self,
        model: &ModelConfig,
        _: &Settings,
        _: &dyn Fn(&str) -> bool,
    ) -> Result<Vec<Place>> {
        let config = config(model);
        let mut places = Places::default();
        let (h, mlp) = (config.hidden, config.mlp_hidden());
        let padded =
            |name: &str| View::of(name, &[config.vocabulary, h]).padded(config.padded_vocabulary());
        places.add(
            "embedding.token",
            padded("embedding.word_embeddings.weight"),
        );
        if !config.design().is_rotary() {
            let table = "embedding.position_embeddings.weight";
            places.add("embedding.position", View::of(table, &[config.context, h]));
        }
        let norm = |places: &mut Places, ours: &str, theirs: &str| {
            let part = |of: &str| View::of(format!("{theirs}{of}"), &[h]);
            places.add(format!("{ours}.gain"), part("weight"));
            if config.design().biases {
                places.add(format!("{ours}.bias"), part("bias"));
            }
        };
        for block in 0..config.layers {
            let (ours, theirs) = (
                format!("blocks.{block}."),
                format!("decoder.layers.{block}."),
            );
            let fused = format!("{theirs}self_attention.linear_qkv.layer_norm_");
            norm(&mut places, &format!("{ours}norm1"), &fused);
            let fused = format!("{theirs}mlp.linear_fc1.layer_norm_");
            norm(&mut places, &format!("{ours}norm2"), &fused);
            add_heads(&mut places, config, (&ours, &theirs));
            // The gate, if there is one, lies above.
            let ups: &[_] = if config.design().gated {
                &["gate", "up"]
            } else {
                &["up"]
            };
            let rows = ups.len() * mlp;
            for (index, name) in ups.iter().enumerate() {
                let (ours, theirs) = (
                    format!("{ours}mlp.{name}"),
                    format!("{theirs}mlp.linear_fc1"),
                );
                let part = |view: View| view.part(0, index * mlp, mlp);
                add_linear(
                    &mut places,
                    (&ours, &theirs),
                    [h, rows],
                    config.design().biases,
                    &part,
                );
            }
            let linears = [
                (
                    "attention.output",
                    "self_attention.linear_proj",
                    config.query_width(),
                ),
                ("mlp.down", "mlp.linear_fc2", mlp),
            ];
            for (name, other, from) in linears {
                let (ours, theirs) = (format!("{ours}{name}"), format!("{theirs}{other}"));
                add_linear(
                    &mut places,
                    (&ours, &theirs),
                    [from, h],
                    config.design().biases,
                    &|view| view,
                );
            }
        }
        norm(&mut places, "final_norm", "decoder.final_layernorm.");
        if !config.tied_head {
            places.add("head.weight", padded("output_layer.weight"));
        }
        Ok(places.0)
    }

    fn spare(&self, _: &ModelConfig, _: &str) -> Option<Spare> {
        None
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
        reference::megatron(settings, tensors, tokens)
    }
}

// The family that has the same positions, norms, biases and MLP.
fn family(settings: &Settings) -> Result<GptFamily> {
    let text = |key| settings.get(key).and_then(Value::as_str);
    let positions = text("position_embedding_type").unwrap_or("learned_absolute");
    let norm = text("normalization").unwrap_or("LayerNorm");
    let gated = settings.flag_or("swiglu", false)?;
    let biases = settings.flag_or("add_bias_linear", true)?;
    let of_heads = settings.flag_or("qk_layernorm", false)?;
    match (positions, norm, gated, biases, of_heads) {
        ("rope", "RMSNorm", true, false, _) => Ok(GptFamily::Llama),
        ("rope", "LayerNorm", false, true, false) => Ok(GptFamily::GptNeox),
        ("learned_absolute", "LayerNorm", false, true, false) => Ok(GptFamily::Gpt2),
        _ => Err(settings.refuse(format!(
            "found position_embedding_type = {positions}, normalization = {norm}, swiglu = {gated}, add_bias_linear = {biases}, \
             qk_layernorm = {of_heads}, needs rope, RMSNorm and swiglu without biases, or LayerNorm, biases and no swiglu or qk_layernorm"
        ))),
    }
}

// Some outputs of a linear layer, and their biases.
fn add_linear(
    places: &mut Places,
    (ours, theirs): (&str, &str),
    [from, to]: [usize; 2],
    has_bias: bool,
    part: &dyn Fn(View) -> View,
) {
    let weight = part(View::of(format!("{theirs}.weight"), &[to, from]));
    places.add(format!("{ours}.weight"), weight.transposed());
    if has_bias {
        let bias = part(View::of(format!("{theirs}.bias"), &[to]));
        places.add(format!("{ours}.bias"), bias);
    }
}

// A group has the rows of its queries, its key and its value.
fn add_heads(places: &mut Places, config: &GptConfig, (ours, theirs): (&str, &str)) {
    let (groups, size) = (config.kv_heads(), config.head_size());
    let queries = config.heads / groups.max(1);
    let step = (queries + 2) * size;
    let parts = [
        ("query", 0, queries),
        ("key", queries, 1),
        ("value", queries + 1, 1),
    ];
    for (name, first, heads) in parts {
        let of_groups = |view: View| {
            view.part(0, first * size, heads * size)
                .repeated(groups, step)
        };
        let names = (
            format!("{ours}attention.{name}"),
            format!("{theirs}self_attention.linear_qkv"),
        );
        let sizes = [config.hidden, groups * step];
        add_linear(
            places,
            (&names.0, &names.1),
            sizes,
            config.has_qkv_bias(),
            &of_groups,
        );
    }
    if config.qk_norm {
        for (name, other) in [("query_norm", "q_layernorm"), ("key_norm", "k_layernorm")] {
            let theirs = format!("{theirs}self_attention.{other}");
            places.add_gain(&format!("{ours}attention.{name}"), &theirs, size);
        }
    }
}
