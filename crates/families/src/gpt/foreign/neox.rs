//! GPT-NeoX, such as Pythia: queries, keys and values in one matrix of out x in, head by head.

use super::{Places, activation, base, check_heads, config, dropout, object, reference, rope};
use crate::{Activation, GptConfig, GptFamily};
use serde_json::{Map, Value, json};
use train::{
    ModelConfig, Result,
    checkpoint::foreign::{PlainFolder, View},
    foreign::{Format, Place, Settings, Spare},
};

/// Settings of heads that read the outputs otherwise, or of how a program computes.
const UNREAD: [&str; 4] = [
    "classifier_dropout",
    "gradient_checkpointing",
    "is_decoder",
    "tokenizer_class",
];

/// `model_type` = `gpt_neox`.
pub(crate) struct NeoxFormat;

impl Format for NeoxFormat {
    fn model_types(&self) -> &[&'static str] {
        &["gpt_neox"]
    }

    fn model(&self, settings: &Settings) -> Result<ModelConfig> {
        settings.skip(&UNREAD);
        settings.only("attention_bias", &[json!(true)])?;
        let dropout = dropout(settings, &["hidden_dropout", "attention_dropout"], 0.0)?;
        let (hidden, heads) = (
            settings.size("hidden_size")?,
            settings.size("num_attention_heads")?,
        );
        let rotary = rope::read(settings, &rope::NEOX)?;
        // Some releases of the library wrote these too.
        for (key, own) in [
            ("rope_theta", rotary.base),
            ("partial_rotary_factor", rotary.share),
        ] {
            let other = settings.number_or(key, own)?;
            if other != own {
                let reason = format!("found {key} = {other}, where rotary positions have {own}");
                return Err(settings.refuse(reason));
            }
        }
        let config = GptConfig {
            family: GptFamily::GptNeox,
            layers: settings.size("num_hidden_layers")?,
            hidden,
            heads,
            mlp_hidden: settings.size("intermediate_size")?,
            activation: activation::read(settings, "hidden_act", Activation::Gelu)?,
            parallel_residual: settings.flag_or("use_parallel_residual", true)?,
            context: settings.size("max_position_embeddings")?,
            vocabulary: settings.size("vocab_size")?,
            tied_head: settings.flag_or("tie_word_embeddings", false)?,
            dropout,
            norm_epsilon: settings.number_or("layer_norm_eps", 1e-5)?,
            rope_base: rotary.base,
            rope_scaling: rotary.scaling,
            rotary_size: rotary.turned(settings, hidden / heads.max(1))?,
            init_deviation: settings.number_or("initializer_range", 0.02)?,
            ..GptConfig::default()
        };
        Ok(ModelConfig::new(config))
    }

    fn settings(&self, model: &ModelConfig) -> Result<Map<String, Value>> {
        let config = config(model);
        check_heads(config)?;
        let keys = json!({
            "architectures": ["GPTNeoXForCausalLM"],
            "model_type": "gpt_neox",
            "hidden_act": activation::written(config),
            "num_hidden_layers": config.layers,
            "hidden_size": config.hidden,
            "num_attention_heads": config.heads,
            "intermediate_size": config.mlp_hidden(),
            "max_position_embeddings": config.context,
            "vocab_size": config.vocabulary,
            "tie_word_embeddings": config.tied_head,
            "use_parallel_residual": config.parallel_residual,
            "attention_bias": true,
            "hidden_dropout": config.dropout,
            "attention_dropout": config.dropout,
            "layer_norm_eps": config.norm_epsilon,
            "initializer_range": config.init_deviation,
            "rotary_emb_base": config.rope_base,
            "rotary_pct": rope::share(config),
            "rope_scaling": rope::written(config.rope_scaling),
            // transformers fills in others where these are absent.
            "bos_token_id": null,
            "eos_token_id": null,
        });
        Ok(object(keys))
    }

    fn unstated(&self) -> &'static [&'static str] {
        // A size of 0, or a function that is the family's, is stated as what it stands for.
        &[
            "activation",
            "document_end",
            "head_size",
            "kv_heads",
            "mlp_hidden",
            "pad_vocabulary_to",
            "rotary_size",
        ]
    }

    fn places(
        &self,
        model: &ModelConfig,
        _settings: &Settings,
        contains: &dyn Fn(&str) -> bool,
    ) -> Result<Vec<Place>> {
        let config = config(model);
        let (h, mlp, rows) = (config.hidden, config.mlp_hidden(), config.vocabulary);
        let base = base(contains, "embed_in.weight", "gpt_neox.");
        let mut places = Places::default();
        let padded = |name: String| View::of(name, &[rows, h]).padded(config.padded_vocabulary());
        places.add("embedding.token", padded(format!("{base}embed_in.weight")));
        for block in 0..config.layers {
            let (ours, theirs) = (format!("blocks.{block}."), format!("{base}layers.{block}."));
            places.add_layer_norm(
                &format!("{ours}norm1"),
                &format!("{theirs}input_layernorm"),
                h,
            );
            // A head has the rows of its query, its key and its value.
            let (heads, size) = (config.heads, config.head_size());
            for (index, which) in ["query", "key", "value"].into_iter().enumerate() {
                let [weight, bias] = ["weight", "bias"]
                    .map(|part| format!("{theirs}attention.query_key_value.{part}"));
                let of_heads =
                    |view: View| view.part(0, index * size, size).repeated(heads, 3 * size);
                let ours = format!("{ours}attention.{which}");
                let weight = of_heads(View::of(weight, &[3 * h, h]));
                places.add(format!("{ours}.weight"), weight.transposed());
                places.add(format!("{ours}.bias"), of_heads(View::of(bias, &[3 * h])));
            }
            let linears = [
                ("attention.output", "attention.dense", h, h),
                ("mlp.up", "mlp.dense_h_to_4h", h, mlp),
                ("mlp.down", "mlp.dense_4h_to_h", mlp, h),
            ];
            for (name, other, from, to) in linears {
                let (ours, theirs) = (format!("{ours}{name}"), format!("{theirs}{other}"));
                places.add_transposed(&ours, &theirs, [from, to]);
                places.add_bias(&ours, &theirs, to);
            }
            places.add_layer_norm(
                &format!("{ours}norm2"),
                &format!("{theirs}post_attention_layernorm"),
                h,
            );
        }
        places.add_layer_norm("final_norm", &format!("{base}final_layer_norm"), h);
        if !config.tied_head {
            places.add("head.weight", padded("embed_out.weight".into()));
        }
        Ok(places.0)
    }

    fn spare(&self, model: &ModelConfig, tensor: &str) -> Option<Spare> {
        let is_constant = [
            ".attention.bias",
            ".attention.masked_bias",
            ".rotary_emb.inv_freq",
        ]
        .iter()
        .any(|end| tensor.ends_with(end));
        match tensor {
            "embed_out.weight" if config(model).tied_head => {
                Some(Spare::CopyOf("gpt_neox.embed_in.weight".into()))
            }
            _ if is_constant => Some(Spare::Constant),
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
        reference::neox(settings, tensors, tokens)
    }
}
