//! TOML to a configuration, with a hint for a misspelt key.

use super::{
    Config, ConfigLocation, DataConfig, DeviceConfig, ParallelConfig, PlacementConfig,
    TrainingConfig, TuningConfig, suggest::nearest,
};
use crate::{Error, Families, Meant, Result};
use grid::machine::Mistake;
use serde::{Deserialize, de::IgnoredAny};
use serde_json::Value;

/// Keys that stand elsewhere now.
const MOVED: [(&str, &str); 1] = [("recompute", "training.recompute")];

/// Names of earlier releases that are still read, and not offered.
const EARLIER: [&str; 1] = ["sharded_optimiser"];

// All but the model, which its family reads.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Sections {
    seed: u64,
    #[allow(dead_code, reason = "a key that is known, and read by the family")]
    model: IgnoredAny,
    data: DataConfig,
    training: TrainingConfig,
    tuning: TuningConfig,
    parallel: ParallelConfig,
    device: DeviceConfig,
    placement: PlacementConfig,
}

pub(super) fn config(text: &str, families: &Families) -> Result<Config> {
    let sections: Sections = toml::from_str(text).map_err(|error| refusal(text, &error))?;
    let Sections {
        seed,
        data,
        training,
        tuning,
        parallel,
        device,
        placement,
        ..
    } = sections;
    let model = families.read(text)?;
    Ok(Config {
        seed,
        model,
        data,
        training,
        tuning,
        parallel,
        device,
        placement,
    })
}

/// JSON as TOML, which has no null: keys without a value are left out.
pub(super) fn toml_of(value: Value) -> Result<String> {
    let refuse = |error: toml::ser::Error| {
        Error::setting("configuration", error, "values that TOML can hold")
    };
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
    let Mistake { line, reason } = Mistake::of(text, error);
    let location = ConfigLocation { file: None, line };
    let message = reason.as_str();
    // serde names the key that it does not know and those that it does, all in back quotes.
    let quoted: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    let quoted: Vec<&str> = quoted
        .into_iter()
        .enumerate()
        .filter(|(place, key)| *place == 0 || !EARLIER.contains(key))
        .map(|(_, key)| key)
        .collect();
    let Some((found, known)) = quoted
        .split_first()
        .filter(|_| message.starts_with("unknown field"))
    else {
        let reason = hinted(message, &quoted);
        return Error::Syntax { location, reason };
    };
    let moved = MOVED.iter().find(|(key, _)| key == found);
    let meant = match moved {
        Some((_, moved)) => Some(Meant::Moved(moved)),
        None => nearest(found, known).map(|near| Meant::Near(near.to_owned())),
    };
    Error::UnknownKey {
        location,
        found: (*found).to_owned(),
        meant,
        known: known.iter().map(|key| (*key).to_owned()).collect(),
    }
}

// A word that is none of those that its key takes gets a hint too.
fn hinted(message: &str, quoted: &[&str]) -> String {
    let Some((found, known)) = quoted
        .split_first()
        .filter(|_| message.starts_with("unknown"))
    else {
        return message.to_owned();
    };
    match nearest(found, known) {
        Some(near) => format!("found `{found}`, which does not exist here; did you mean `{near}`?"),
        None => format!("found `{found}`, needs one of {}", known.join(", ")),
    }
}
