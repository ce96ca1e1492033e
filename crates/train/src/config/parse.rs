//! TOML to a configuration, with a hint for a misspelt key.

use super::{
    CheckpointConfig, Config, ConfigLocation, DataConfig, DeviceConfig, ParallelConfig,
    PlacementConfig, TrainingConfig, TuningConfig, suggest::nearest,
};
use crate::{Error, Families, Meant, Result};
use grid::machine::{Mistake, UnknownName};
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
    checkpoint: CheckpointConfig,
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
        checkpoint,
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
        checkpoint,
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

/// A mistake in a configuration's text, with its line, its key and the nearest word.
pub(crate) fn refusal(text: &str, error: &toml::de::Error) -> Error {
    let Mistake {
        line,
        key,
        reason,
        found,
        is_vague,
        unknown,
    } = Mistake::of(text, error);
    let location = ConfigLocation { file: None, line };
    let Some(UnknownName { found, mut known }) = unknown else {
        // Where a key takes forms, not a word or a number alone, the table of settings says it better than serde.
        let reason = match (found, forms(&key, is_vague)) {
            (Some(found), Some(forms)) => format!("found {found}, needs {forms}"),
            _ => reason,
        };
        return Error::Syntax {
            location,
            key,
            reason,
        };
    };
    known.retain(|key| !EARLIER.contains(&key.as_str()));
    let names: Vec<&str> = known.iter().map(String::as_str).collect();
    let moved = MOVED.iter().find(|(key, _)| *key == found);
    let meant = match moved {
        Some((_, moved)) => Some(Meant::Moved(moved)),
        None => nearest(&found, &names)
            .map(str::to_owned)
            .or_else(|| elsewhere(&key, &found))
            .map(Meant::Near),
    };
    Error::UnknownKey {
        location,
        table: key.into(),
        found,
        meant,
        known: known.into(),
    }
}

// The key of another table that has this name or, where it stands above all tables, one like it.
fn elsewhere(table: &str, found: &str) -> Option<String> {
    let tables = Config::keys();
    let keys = tables
        .iter()
        .flat_map(|(table, keys)| keys.iter().map(move |key| (*table, key.name)));
    let keys: Vec<(&str, &str)> = keys.filter(|(other, _)| !other.is_empty()).collect();
    let names: Vec<&str> = keys.iter().map(|(_, name)| *name).collect();
    let near = match table {
        "" => nearest(found, &names)?,
        _ => found,
    };
    let (table, name) = keys.iter().find(|(_, name)| *name == near)?;
    Some(format!("{table}.{name}"))
}

// What a key takes, if it takes a table among others, or if the reader could not say it.
fn forms(key: &str, is_vague: bool) -> Option<String> {
    let tables = Config::keys().into_iter();
    let mut keys = tables.flat_map(|(table, keys)| {
        keys.into_iter()
            .map(move |key| (format!("{table}.{}", key.name), key.values))
    });
    let (_, values) = keys.find(|(name, _)| name == key)?;
    let values = values
        .replace('`', "")
        .replace("a list of", "list of")
        .replace("list of", "an array of");
    (is_vague || values.contains('{')).then_some(values)
}
