//! TOML to a configuration, with a hint for a misspelt key.

use super::{Config, DataConfig, DeviceConfig, ParallelConfig, TrainingConfig, suggest::nearest};
use crate::{Error, Families, Result};
use serde::{Deserialize, de::IgnoredAny};
use serde_json::Value;

/// Keys that stand elsewhere now.
const MOVED: [(&str, &str); 1] = [("recompute", "training.recompute")];

// All but the model, which its family reads.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Sections {
    seed: u64,
    #[allow(dead_code, reason = "a key that is known, and read by the family")]
    model: IgnoredAny,
    data: DataConfig,
    training: TrainingConfig,
    parallel: ParallelConfig,
    device: DeviceConfig,
}

pub(super) fn config(text: &str, families: &Families) -> Result<Config> {
    let sections: Sections = toml::from_str(text).map_err(|error| refusal(text, &error))?;
    let Sections {
        seed,
        data,
        training,
        parallel,
        device,
        ..
    } = sections;
    let model = families.read(text)?;
    Ok(Config {
        seed,
        model,
        data,
        training,
        parallel,
        device,
    })
}

/// JSON as TOML, which has no null: keys without a value are left out.
pub(super) fn toml_of(value: Value) -> Result<String> {
    let refuse = |error: toml::ser::Error| Error::Config(format!("configuration: {error}"));
    toml::to_string(&without_nulls(value)).map_err(refuse)
}

fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(entries) => {
            let kept = entries.into_iter().filter(|(_, value)| !value.is_null());
            Value::Object(
                kept.map(|(key, value)| (key, without_nulls(value)))
                    .collect(),
            )
        }
        Value::Array(values) => Value::Array(values.into_iter().map(without_nulls).collect()),
        other => other,
    }
}

/// A mistake in a configuration's text, with its line and the nearest key.
pub(crate) fn refusal(text: &str, error: &toml::de::Error) -> Error {
    let line = |start: usize| text[..start.min(text.len())].matches('\n').count() + 1;
    let line = error.span().map(|span| line(span.start));
    let place = line.map_or(String::new(), |line| format!("line {line}: "));
    Error::Config(format!("{place}{}", hinted(error.message())))
}

// serde names the key that it does not know and those that it does, all in back quotes.
fn hinted(message: &str) -> String {
    let message = message.trim();
    let quoted: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    let Some((found, known)) = quoted
        .split_first()
        .filter(|_| message.starts_with("unknown"))
    else {
        return message.replace('\n', " ");
    };
    if let Some((_, moved)) = MOVED.iter().find(|(key, _)| key == found) {
        return format!("found `{found}`, which is `{moved}` now");
    }
    match nearest(found, known) {
        Some(near) => format!("found `{found}`, which does not exist here; did you mean `{near}`?"),
        None => format!("found `{found}`, needs one of {}", known.join(", ")),
    }
}
