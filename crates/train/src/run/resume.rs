//! What a resumed run must share with its checkpoint.

use super::Run;
use crate::{Error, Mismatch, Result, checkpoint::Reader, trainer::stored};
use serde_json::Value;
use std::collections::BTreeMap;

/// Tables of the configuration of which a resumed run may change every key: they decide where and how fast it computes, and where it
/// is copied.
pub const FREE_TABLES: [&str; 4] = ["parallel", "device", "placement", "checkpoint"];

/// Other keys that a resumed run may change. The data may move: its content is compared.
pub const FREE_KEYS: [&str; 40] = [
    "data.path",
    "data.mixture",
    "data.validation_path",
    "data.evaluations",
    "data.chat_template",
    "data.extensions",
    "data.token_type",
    "training.steps",
    "training.batch",
    "training.micro_batches",
    "training.precision",
    "training.learning_rate",
    "training.muon_rate",
    "training.lowest_rate",
    "training.warmup_steps",
    "training.rate_schedule",
    "training.clip_norm",
    "training.validate_every",
    "training.validation_batches",
    "training.patience",
    "training.min_delta",
    "training.sample_every",
    "training.sample_prompt",
    "training.sample_tokens",
    "training.checkpoint_every",
    "training.checkpoint_async",
    "training.local_checkpoint_every",
    "training.local_checkpoint_dir",
    "training.keep_checkpoints",
    "training.keep_every",
    "training.keep_best",
    "training.loss_scale",
    "training.recompute",
    "training.memory",
    "training.graph",
    "training.reproducible",
    "training.digest_every",
    "training.straggler_every",
    "training.straggler_below",
    "training.tensorboard",
];

/// Compares a run with the checkpoint from which it resumes: settings, tokenizer and data.
pub(super) fn check(run: &Run, reader: &Reader) -> Result<()> {
    let stored = stored(reader)?;
    let refuse = |mismatch| Err(Error::mismatch(reader.path(), mismatch));
    let now = run.attached()?;
    let mut changed = changes(&stored.config, &now.config).into_iter();
    if let Some((key, needed, found)) = changed.next() {
        let others = changed.count();
        return refuse(Mismatch::Setting {
            key,
            found: found.to_string(),
            needed: needed.to_string(),
            others,
        });
    }
    // How chats become text shows in the data.
    let tokens = |mut tokenizer: Value| {
        tokenizer.as_object_mut().map(|keys| keys.remove("chat"));
        tokenizer
    };
    if !stored.tokenizer.is_null() && tokens(stored.tokenizer) != tokens(now.tokenizer) {
        return refuse(Mismatch::Tokenizer);
    }
    match (stored.data, now.data) {
        (Some(needed), Some(found)) if found != needed => refuse(Mismatch::Data { found, needed }),
        _ => Ok(()),
    }
}

/// The keys that differ and that a resumed run may not change, each with its value then and now. A key that the checkpoint
/// lacks, as one of an earlier release does, is not compared.
fn changes(then: &Value, now: &Value) -> Vec<(String, Value, Value)> {
    let is_free = |key: &str| {
        let table = key.split_once('.').map_or(key, |(table, _)| table);
        FREE_TABLES.contains(&table) || FREE_KEYS.contains(&key)
    };
    let mut found = differences(then, now);
    found.retain(|(key, then, _)| !then.is_null() && !is_free(key));
    found
}

/// The keys whose values differ between two configurations, each with both values; null where one lacks the key.
pub(super) fn differences(one: &Value, other: &Value) -> Vec<(String, Value, Value)> {
    let (one, other) = (flat(one), flat(other));
    let mut keys: Vec<&String> = one.keys().chain(other.keys()).collect();
    keys.sort_unstable();
    keys.dedup();
    let value = |of: &BTreeMap<String, Value>, key| of.get(key).cloned().unwrap_or(Value::Null);
    keys.into_iter()
        .map(|key| (key.clone(), value(&one, key), value(&other, key)))
        .filter(|(_, one, other)| one != other)
        .collect()
}

// The keys of the tables, as in `training.steps`, and those outside of one.
fn flat(config: &Value) -> BTreeMap<String, Value> {
    let mut found = BTreeMap::new();
    for (table, value) in config.as_object().into_iter().flatten() {
        match value.as_object() {
            Some(keys) => found.extend(
                keys.iter()
                    .map(|(key, value)| (format!("{table}.{key}"), value.clone())),
            ),
            None => drop(found.insert(table.clone(), value.clone())),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_a_run_may_change_is_not_named() {
        let then = json!({
            "seed": 1,
            "model": {"layers": 3, "heads": 4},
            "training": {"steps": 10, "epsilon": 1e-8},
            "parallel": {"grid": {"x": 2}},
        });
        let mut now = then.clone();
        now["training"]["steps"] = json!(20);
        now["parallel"]["grid"]["x"] = json!(4);
        now["model"]["new_key"] = json!(1);
        assert_eq!(changes(&then, &now), []);
        now["model"]["layers"] = json!(2);
        now["training"]["epsilon"] = json!(1e-6);
        now["seed"] = json!(2);
        let keys: Vec<_> = changes(&then, &now)
            .into_iter()
            .map(|(key, ..)| key)
            .collect();
        assert_eq!(keys, ["model.layers", "seed", "training.epsilon"]);
    }

    #[test]
    fn every_free_key_exists() {
        let tables = crate::Config::keys();
        for free in FREE_KEYS {
            let (table, key) = free.split_once('.').unwrap();
            let (_, keys) = tables.iter().find(|(name, _)| *name == table).unwrap();
            assert!(keys.iter().any(|known| known.name == key), "{free}");
        }
        for free in FREE_TABLES {
            assert!(tables.iter().any(|(name, _)| *name == free), "{free}");
        }
    }
}
