//! What a configuration says of rotary positions.

use crate::{GptConfig, RopeScaling};
use serde_json::{Map, Value, json};
use train::{Result, foreign::Settings};

/// The base of a configuration that states none.
const BASE: f64 = 10_000.0;

/// What a configuration says of rotary positions.
pub(super) struct Rotary {
    pub(super) base: f64,
    pub(super) scaling: RopeScaling,
    /// The share of a head's elements that turn.
    pub(super) share: f64,
}

/// Where a kind of model states it outside of a table.
pub(super) struct Names {
    base: &'static str,
    /// The base of a configuration that states none.
    absent: f64,
    /// The setting of the share, and that of an absent one; `None` if all elements turn.
    share: Option<(&'static str, f64)>,
}

pub(super) const LLAMA: Names = Names {
    base: "rope_theta",
    absent: BASE,
    share: None,
};

/// Of the blocks of Gemma 3 that are not local.
const GEMMA3: Names = Names {
    absent: 1e6,
    ..LLAMA
};

/// Of its local blocks.
const LOCAL: Names = Names {
    base: LOCAL_BASE,
    ..LLAMA
};

/// The setting of the base of local blocks.
pub(super) const LOCAL_BASE: &str = "rope_local_base_freq";

pub(super) const NEOX: Names = Names {
    base: "rotary_emb_base",
    absent: BASE,
    share: Some(("rotary_pct", 0.25)),
};

impl Rotary {
    /// [`GptConfig::rotary_size`] for heads of this size; 0 if all elements turn.
    ///
    /// # Errors
    /// [`Error::Foreign`](train::Error::Foreign) if none does.
    pub(super) fn turned(&self, settings: &Settings, head_size: usize) -> Result<usize> {
        match (head_size as f64 * self.share) as usize {
            0 => Err(settings.refuse(format!(
                "found a share of {} of heads of {head_size} elements that turn, needs two elements at least",
                self.share
            ))),
            turned if turned == head_size => Ok(0),
            turned => Ok(turned),
        }
    }
}

/// Newer configurations hold all in `rope_parameters`, older ones the scaling in `rope_scaling` and the rest under `names`.
///
/// # Errors
/// [`Error::Foreign`](train::Error::Foreign) for what this program cannot follow.
pub(super) fn read(settings: &Settings, names: &Names) -> Result<Rotary> {
    let (key, table) = match settings.get("rope_parameters") {
        Some(table) => ("rope_parameters", Some(table)),
        None => ("rope_scaling", settings.get("rope_scaling")),
    };
    of_table(settings, (key, table), names)
}

/// Of the local blocks of Gemma 3, and of the others. Newer configurations hold a table of each in `rope_parameters`.
///
/// # Errors
/// As [`read`]; for local blocks whose positions are stretched.
pub(super) fn read_both(settings: &Settings) -> Result<[Rotary; 2]> {
    let tables = settings.get("rope_parameters").and_then(Value::as_object);
    let table = |kind: &str| tables.and_then(|tables| tables.get(kind));
    let local = (
        "rope_parameters.sliding_attention",
        table("sliding_attention"),
    );
    let local = of_table(settings, local, &LOCAL)?;
    if local.scaling != RopeScaling::None {
        let found =
            "found stretched rotary positions of sliding_attention, needs rope_type = \"default\"";
        return Err(settings.refuse(found.to_owned()));
    }
    let others = match table("full_attention") {
        None => read(settings, &GEMMA3)?,
        table => of_table(settings, ("rope_parameters.full_attention", table), &GEMMA3)?,
    };
    Ok([local, others])
}

fn of_table(
    settings: &Settings,
    (key, table): (&str, Option<&Value>),
    names: &Names,
) -> Result<Rotary> {
    let stated = settings.number_or(names.base, names.absent)?;
    let share = match names.share {
        Some((name, absent)) => settings.number_or(name, absent)?,
        None => 1.0,
    };
    let Some(table) = table else {
        return Ok(Rotary {
            base: stated,
            scaling: RopeScaling::None,
            share,
        });
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
    // Where a kind of model has no share, it is all of a head.
    let is_share = |name: &&String| {
        let share = number(name).filter(|share| names.share.is_some() || *share == 1.0);
        *name == PART && share.is_some()
    };
    if let Some(name) = table.keys().find(|name| !is_known(name) && !is_share(name)) {
        let value = &table[name];
        return refuse(format!(
            "{name} = {value}, which this program does not know"
        ));
    }
    Ok(Rotary {
        base: number("rope_theta").unwrap_or(stated),
        scaling,
        share: number(PART).unwrap_or(share),
    })
}

/// The share of a head's elements that turn, in a table.
const PART: &str = "partial_rotary_factor";

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

/// The share of a head's elements that turn, so that the whole part of its product with the head size is their number.
pub(super) fn share(config: &GptConfig) -> f64 {
    let (turned, size) = (config.rotary_size() as f64, config.head_size() as f64);
    let share = turned / size;
    if share * size < turned {
        share.next_up()
    } else {
        share
    }
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
