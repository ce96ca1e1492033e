//! How settings name the function inside the MLP.

use super::kinds::Kind;
use crate::{Activation, GptConfig, GptFamily};
use serde_json::{Value, json};
use train::{Result, foreign::Settings};

/// Names, and what they mean. The first of each is written.
///
/// # Source
/// `activations.py` of the library transformers. `gelu_fast` has the root of 2 / pi with ten digits, which changes outputs by
/// 1e-11 of their size.
const NAMES: [(&str, Activation); 7] = [
    ("gelu_new", Activation::GeluTanh),
    ("gelu_pytorch_tanh", Activation::GeluTanh),
    ("gelu_fast", Activation::GeluTanh),
    ("gelu", Activation::Gelu),
    ("gelu_python", Activation::Gelu),
    ("silu", Activation::Silu),
    ("swish", Activation::Silu),
];

/// The function that a setting names, or that of an absent one.
///
/// # Errors
/// [`Error::Foreign`](train::Error::Foreign) for a name of another function.
pub(super) fn read(settings: &Settings, key: &str, absent: Activation) -> Result<Activation> {
    settings.only(key, &NAMES.map(|(name, _)| json!(name)))?;
    let named = settings.get(key).and_then(Value::as_str);
    let found = NAMES.iter().find(|(name, _)| Some(*name) == named);
    Ok(found.map_or(absent, |(_, activation)| *activation))
}

/// That of Llama and its kin. In configurations of Gemma, `gelu` stands for the tanh form, which some releases of the library
/// transformers named in a setting of its own (its pull request 29402); Gemma 2 and 3 have that setting alone.
///
/// # Errors
/// As [`read`].
pub(super) fn of_llama(settings: &Settings, family: GptFamily) -> Result<Activation> {
    let absent = family.design().activation;
    if Kind::of(settings).has_local_blocks() {
        settings.skip(&["hidden_act"]);
        return read(settings, "hidden_activation", absent);
    }
    let function = read(settings, "hidden_act", absent)?;
    if family != GptFamily::Gemma {
        return Ok(function);
    }
    settings.only("hidden_activation", &[json!("gelu_pytorch_tanh")])?;
    let is_tanh = settings.get("hidden_act").and_then(Value::as_str) == Some("gelu");
    Ok(if is_tanh {
        Activation::GeluTanh
    } else {
        function
    })
}

/// The name of a model's function.
pub(super) fn written(config: &GptConfig) -> &'static str {
    let own = config.activation();
    if (config.family, own) == (GptFamily::Gemma, Activation::Gelu) {
        // There, `gelu` stands for the tanh form.
        return "gelu_python";
    }
    let found = NAMES.iter().find(|(_, activation)| *activation == own);
    found.map_or("gelu_new", |(name, _)| name)
}
