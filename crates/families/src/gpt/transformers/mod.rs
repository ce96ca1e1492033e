//! How the library transformers stores these families.
//!
//! `gpt2`, `llama` and `neox` name the settings and the tensors, and `kinds` has what each of those adds that are stored as
//! Llama is; `activation` and `rope` read what a configuration says of the function inside the MLP and of rotary positions;
//! `reference` computes outputs from the tensors in plain loops, by the definition of each architecture, and shares nothing
//! with the model: it is the judge of a conversion.

mod activation;
mod gpt2;
mod kinds;
mod llama;
mod neox;
mod reference;
mod rope;

pub(super) use gpt2::Gpt2Format;
pub(super) use llama::{GEMMA_FORMAT, LLAMA_FORMAT};
pub(super) use neox::NeoxFormat;

use super::GptConfig;
use serde_json::{Map, Value};
use train::{
    ModelConfig, Result,
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
