//! What a configuration says of rotary positions.

use crate::RopeScaling;
use serde_json::{Map, Value, json};
use train::{Result, foreign::Settings};

/// The base of a configuration that states none.
const BASE: f64 = 10_000.0;

/// The base and the scaling. Newer configurations hold both in `rope_parameters`, older ones in `rope_theta` and
/// `rope_scaling`.
pub(super) fn read(settings: &Settings) -> Result<(f64, RopeScaling)> {
    let (key, table) = match settings.get("rope_parameters") {
        Some(table) => ("rope_parameters", Some(table)),
        None => ("rope_scaling", settings.get("rope_scaling")),
    };
    let stated = settings.number_or("rope_theta", BASE)?;
    let Some(table) = table else {
        return Ok((stated, RopeScaling::None));
    };
    let refuse = |what: String| Err(settings.refuse(format!("found {key}: {what}")));
    let Some(table) = table.as_object() else {
        return refuse(format!("{table}, needs a table"));
    };
    let number = |name: &str| table.get(name).and_then(Value::as_f64);
    let kind = ["rope_type", "type"]
        .iter()
        .find_map(|name| table.get(*name));
    let kind = kind.and_then(Value::as_str).unwrap_or("default");
    let (scaling, own): (_, &[&str]) = match kind {
        "default" => (Some(RopeScaling::None), &[]),
        "linear" => (number("factor").map(RopeScaling::Linear), &["factor"]),
        "llama3" => (llama3(table), &LLAMA3),
        other => {
            return refuse(format!(
                "rope_type = {other:?}, needs default, linear or llama3"
            ));
        }
    };
    let Some(scaling) = scaling else {
        return refuse(format!(
            "no numbers {} of rope_type = {kind:?}",
            own.join(", ")
        ));
    };
    let known = ["rope_type", "type", "rope_theta"];
    let is_known = |name: &&String| own.contains(&name.as_str()) || known.contains(&name.as_str());
    // A part of a head that turns is all of it.
    let is_whole = |name: &&String| *name == "partial_rotary_factor" && number(name) == Some(1.0);
    if let Some(name) = table.keys().find(|name| !is_known(name) && !is_whole(name)) {
        let value = &table[name];
        return refuse(format!(
            "{name} = {value}, which this program does not know"
        ));
    }
    Ok((number("rope_theta").unwrap_or(stated), scaling))
}

const LLAMA3: [&str; 4] = [
    "factor",
    "low_freq_factor",
    "high_freq_factor",
    "original_max_position_embeddings",
];

fn llama3(table: &Map<String, Value>) -> Option<RopeScaling> {
    let [factor, low, high] = [0, 1, 2].map(|index| table.get(LLAMA3[index])?.as_f64());
    let context = table.get(LLAMA3[3])?.as_u64()?;
    Some(RopeScaling::Llama3 {
        factor: factor?,
        low: low?,
        high: high?,
        context: usize::try_from(context).ok()?,
    })
}

/// The table `rope_scaling` of a model; null if it has none.
pub(super) fn written(scaling: RopeScaling) -> Value {
    match scaling {
        RopeScaling::None => Value::Null,
        RopeScaling::Linear(factor) => json!({"rope_type": "linear", "factor": factor}),
        RopeScaling::Llama3 {
            factor,
            low,
            high,
            context,
        } => json!({
            "rope_type": "llama3",
            "factor": factor,
            "low_freq_factor": low,
            "high_freq_factor": high,
            "original_max_position_embeddings": context,
        }),
    }
}
