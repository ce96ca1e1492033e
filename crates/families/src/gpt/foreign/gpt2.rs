//! GPT-2, whose matrices are stored as in x out, and queries, keys and values in one.

use super::{
    Places, activation, base, check_context, check_heads, config, dropout, object, reference,
};
use crate::{Activation, GptConfig, GptFamily};
use serde_json::{Map, Value, json};
use train::{
    ModelConfig, Result,
    checkpoint::foreign::{PlainFolder, View},
    foreign::{Format, Place, Settings, Spare},
};

/// Settings of heads that read the outputs otherwise, or of training alone.
const UNREAD: [&str; 9] = [
    "gradient_checkpointing",
    "n_ctx",
    "reorder_and_upcast_attn",
    "summary_activation",
    "summary_first_dropout",
    "summary_proj_to_labels",
    "summary_type",
    "summary_use_proj",
    "tokenizer_class",
];

/// `model_type` = `gpt2`.
pub(crate) struct Gpt2Format;

impl Format for Gpt2Format {
    fn model_types(&self) -> &[&'static str] {
        &["gpt2"]
    }

    fn model(&self, settings: &Settings) -> Result<ModelConfig> {
        settings.skip(&UNREAD);
        let activation = activation::read(settings, "activation_function", Activation::GeluTanh)?;
        settings.only("scale_attn_weights", &[json!(true)])?;
        settings.only("scale_attn_by_inverse_layer_idx", &[json!(false)])?;
        settings.only("add_cross_attention", &[json!(false)])?;
        let dropout = dropout(settings, &["resid_pdrop", "embd_pdrop", "attn_pdrop"], 0.1)?;
        let config = GptConfig {
            family: GptFamily::Gpt2,
            layers: settings.size("n_layer")?,
            hidden: settings.size("n_embd")?,
            heads: settings.size("n_head")?,
            mlp_hidden: settings.size_or_none("n_inner")?.unwrap_or(0),
            activation,
            context: settings.size("n_positions")?,
            vocabulary: settings.size("vocab_size")?,
            tied_head: settings.flag_or("tie_word_embeddings", true)?,
            dropout,
            norm_epsilon: settings.number_or("layer_norm_epsilon", 1e-5)?,
            init_deviation: settings.number_or("initializer_range", 0.02)?,
            ..GptConfig::default()
        };
        Ok(ModelConfig::new(config))
    }

    fn settings(&self, model: &ModelConfig) -> Result<Map<String, Value>> {
        let config = config(model);
        check_heads(config)?;
        let inner = (config.mlp_hidden != 0).then_some(config.mlp_hidden);
        let keys = json!({
            "architectures": ["GPT2LMHeadModel"],
            "model_type": "gpt2",
            "activation_function": activation::written(config),
            "n_layer": config.layers,
            "n_embd": config.hidden,
            "n_head": config.heads,
            "n_inner": inner,
            "n_positions": config.context,
            "vocab_size": config.vocabulary,
            "tie_word_embeddings": config.tied_head,
            "resid_pdrop": config.dropout,
            "embd_pdrop": config.dropout,
            "attn_pdrop": config.dropout,
            "layer_norm_epsilon": config.norm_epsilon,
            "initializer_range": config.init_deviation,
            // transformers fills in others where these are absent.
            "bos_token_id": null,
            "eos_token_id": null,
        });
        Ok(object(keys))
    }

    fn unstated(&self) -> &'static [&'static str] {
        // Those of rotary positions are not used, and the family's function is stated by its name.
        &[
            "activation",
            "document_end",
            "head_size",
            "kv_heads",
            "pad_vocabulary_to",
            "rope_base",
        ]
    }

    fn places(
        &self,
        model: &ModelConfig,
        settings: &Settings,
        contains: &dyn Fn(&str) -> bool,
    ) -> Result<Vec<Place>> {
        let config = config(model);
        let (h, mlp, rows) = (config.hidden, config.mlp_hidden(), config.vocabulary);
        let positions = settings.size("n_positions")?;
        check_context(settings, "n_positions", config, positions)?;
        // The first files, those of OpenAI, were ones of the base model.
        let base = base(contains, "wte.weight", "transformer.");
        let mut places = Places::default();
        let padded = |name: String| View::of(name, &[rows, h]).padded(config.padded_vocabulary());
        places.add("embedding.token", padded(format!("{base}wte.weight")));
        let table = View::of(format!("{base}wpe.weight"), &[positions, h]);
        places.add("embedding.position", table.part(0, 0, config.context));
        for block in 0..config.layers {
            let (ours, theirs) = (format!("blocks.{block}."), format!("{base}h.{block}."));
            places.add_layer_norm(&format!("{ours}norm1"), &format!("{theirs}ln_1"), h);
            for (index, which) in ["query", "key", "value"].into_iter().enumerate() {
                let [weight, bias] =
                    ["weight", "bias"].map(|part| format!("{theirs}attn.c_attn.{part}"));
                let ours = format!("{ours}attention.{which}");
                places.add(
                    format!("{ours}.weight"),
                    View::of(weight, &[h, 3 * h]).part(1, index * h, h),
                );
                places.add(
                    format!("{ours}.bias"),
                    View::of(bias, &[3 * h]).part(0, index * h, h),
                );
            }
            let linears = [
                ("attention.output", "attn.c_proj", h, h),
                ("mlp.up", "mlp.c_fc", h, mlp),
                ("mlp.down", "mlp.c_proj", mlp, h),
            ];
            for (name, other, from, to) in linears {
                let (ours, theirs) = (format!("{ours}{name}"), format!("{theirs}{other}"));
                let weight = View::of(format!("{theirs}.weight"), &[from, to]);
                places.add(format!("{ours}.weight"), weight);
                places.add_bias(&ours, &theirs, to);
            }
            places.add_layer_norm(&format!("{ours}norm2"), &format!("{theirs}ln_2"), h);
        }
        places.add_layer_norm("final_norm", &format!("{base}ln_f"), h);
        if !config.tied_head {
            places.add("head.weight", padded("lm_head.weight".into()));
        }
        Ok(places.0)
    }

    fn spare(&self, model: &ModelConfig, tensor: &str) -> Option<Spare> {
        let name = tensor.strip_prefix("transformer.");
        let is_mask = |name: &str| {
            name.starts_with("h.")
                && [".attn.bias", ".attn.masked_bias"]
                    .iter()
                    .any(|end| name.ends_with(end))
        };
        match tensor {
            "lm_head.weight" if config(model).tied_head => {
                Some(Spare::CopyOf("transformer.wte.weight".into()))
            }
            _ if is_mask(name.unwrap_or(tensor)) => Some(Spare::Constant),
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
        reference::gpt2(settings, tensors, tokens)
    }
}
