//! How other programs store these families: the library transformers, and Megatron-LM.
//!
//! Of transformers, `gpt2`, `llama` and `neox` name the settings and the tensors, `kinds` has what each of those adds that are stored
//! as Llama is, and `local` the blocks of Gemma 2 and 3; `activation` and `rope` read what a configuration says of the function inside
//! the MLP and of rotary positions. `megatron` has the arguments and tensors of Megatron-LM. `reference` computes outputs from the
//! tensors in plain loops, by the definition of each architecture, and shares nothing with the model: it is the judge of a conversion.

mod activation;
mod gpt2;
mod kinds;
mod llama;
mod local;
mod megatron;
mod neox;
mod reference;
mod rope;

pub(super) use gpt2::Gpt2Format;
pub(super) use llama::{GEMMA_FORMAT, LLAMA_FORMAT};
pub(super) use megatron::MegatronFormat;
pub(super) use neox::NeoxFormat;

use super::GptConfig;
use serde_json::{Map, Value};
use train::{
    Error, ModelConfig, Result,
    checkpoint::foreign::View,
    foreign::{Place, Settings},
};

/// Most tokens of the sequence with which outputs are compared. Enough that every rotary frequency turns noticeably.
const MOST_TOKENS: usize = 32;

/// The sizes of a model of these families.
fn config(model: &ModelConfig) -> &GptConfig {
    let config = model.get::<GptConfig>();
    config.expect("a bug: the format of another family")
}

/// Tokens all over the vocabulary, none of which ends a document.
fn tokens(model: &ModelConfig) -> Vec<u32> {
    let config = config(model);
    let vocabulary = config.vocabulary as u64;
    let token = |index: u64| {
        let token = ((index * 2_654_435_761 + 12_345) % vocabulary) as u32;
        match config.document_end.0 == Some(token) {
            true => (token + 1) % vocabulary as u32,
            false => token,
        }
    };
    (0..config.context.min(MOST_TOKENS) as u64)
        .map(token)
        .collect()
}

/// Collects the places of parameters.
#[derive(Default)]
struct Places(Vec<Place>);

impl Places {
    fn add(&mut self, parameter: impl Into<String>, view: View) {
        self.0.push(Place {
            parameter: parameter.into(),
            view,
        });
    }

    /// The weight of a linear layer that is stored as out x in.
    fn add_transposed(&mut self, ours: &str, theirs: &str, [from, to]: [usize; 2]) {
        let weight = View::of(format!("{theirs}.weight"), &[to, from]);
        self.add(format!("{ours}.weight"), weight.transposed());
    }

    /// The bias of a linear layer or a layer normalisation.
    fn add_bias(&mut self, ours: &str, theirs: &str, features: usize) {
        let bias = View::of(format!("{theirs}.bias"), &[features]);
        self.add(format!("{ours}.bias"), bias);
    }

    /// The gain of a normalisation.
    fn add_gain(&mut self, ours: &str, theirs: &str, features: usize) {
        let gain = View::of(format!("{theirs}.weight"), &[features]);
        self.add(format!("{ours}.gain"), gain);
    }

    /// Gain and bias of a layer normalisation.
    fn add_layer_norm(&mut self, ours: &str, theirs: &str, features: usize) {
        self.add_gain(ours, theirs, features);
        self.add_bias(ours, theirs, features);
    }
}

/// What the names of tensors begin with: nothing in the files of a base model, which have `tensor` under that name itself.
fn base<'a>(contains: &dyn Fn(&str) -> bool, tensor: &str, prefix: &'a str) -> &'a str {
    match contains(tensor) {
        true => "",
        false => prefix,
    }
}

/// The one probability of dropout, which these settings give for several places.
fn dropout(settings: &Settings, keys: &[&str], default: f64) -> Result<f64> {
    let dropout = settings.number_or(keys[0], default)?;
    for key in &keys[1..] {
        let other = settings.number_or(key, default)?;
        if other != dropout {
            return Err(settings.refuse(format!(
                "found {key} = {other}, needs that of {} = {dropout}",
                keys[0]
            )));
        }
    }
    Ok(dropout)
}

/// Refuses keys and values of groups, and heads that together are wider or narrower than the model.
fn check_heads(config: &GptConfig) -> Result<()> {
    let refuse =
        |key: &str, found, needed| Err(Error::setting(format!("model.{key}"), found, needed));
    if config.kv_heads() != config.heads {
        let needed = format!("{}, as many as query heads", config.heads);
        return refuse("kv_heads", config.kv_heads(), needed);
    }
    if config.query_width() != config.hidden {
        let needed = format!("{}, the width by the heads", config.hidden / config.heads);
        return refuse("head_size", config.head_size(), needed);
    }
    Ok(())
}

/// The settings in a JSON object.
///
/// # Panics
/// If it is none: a bug.
fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(keys) => keys,
        other => panic!("settings: a bug: {other} is no object"),
    }
}

/// Refuses a context beyond the one that the other program's model has.
fn check_context(settings: &Settings, key: &str, config: &GptConfig, most: usize) -> Result<()> {
    match config.context <= most {
        true => Ok(()),
        false => Err(settings.refuse(format!(
            "found {key} = {most}, needs at least model.context = {}",
            config.context
        ))),
    }
}
