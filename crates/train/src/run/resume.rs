//! What a resumed run must share with its checkpoint.

use super::Run;
use crate::{Error, Mismatch, Result, checkpoint::Reader, trainer::stored};
use serde_json::Value;

/// Tables of the configuration of which a resumed run may change every key: they decide where and how fast it computes.
pub const FREE_TABLES: [&str; 2] = ["parallel", "device"];

/// Other keys that a resumed run may change. The data may move: its content is compared.
pub const FREE_KEYS: [&str; 19] = [
    "data.path",
    "data.extensions",
    "data.token_type",
    "training.steps",
    "training.batch",
    "training.micro_batches",
    "training.precision",
    "training.learning_rate",
    "training.lowest_rate",
    "training.warmup_steps",
    "training.rate_schedule",
    "training.clip_norm",
    "training.validate_every",
    "training.validation_batches",
    "training.checkpoint_every",
    "training.keep_checkpoints",
    "training.loss_scale",
    "training.recompute",
    "training.graph",
];

/// Compares a run with the checkpoint from which it resumes. `any_change` accepts other settings and other data, but not
/// another tokenizer for the same tokens.
pub(super) fn check(run: &Run, reader: &Reader, any_change: bool) -> Result<()> {
    let stored = stored(reader)?;
    let refuse = |mismatch| Err(Error::mismatch(reader.path(), mismatch));
    let now = run.attached()?;
    if any_change {
        return Ok(());
    }
    let mut changed = changes(&stored.config, &now.config).into_iter();
    if let Some((key, found, needed)) = changed.next() {
        let others = changed.count();
        return refuse(Mismatch::Setting {
            key,
            found,
            needed,
            others,
        });
    }
    if !stored.tokenizer.is_null() && stored.tokenizer != now.tokenizer {
        return refuse(Mismatch::Tokenizer);
    }
    match (stored.data, now.data) {
        (Some(needed), Some(found)) if found != needed => refuse(Mismatch::Data { found, needed }),
        _ => Ok(()),
    }
}

/// The keys that differ and that a resumed run may not change, each with its value now and its value then. A key that one
/// side lacks, as from an earlier release, is not compared.
fn changes(then: &Value, now: &Value) -> Vec<(String, String, String)> {
    let mut found = Vec::new();
    let Value::Object(tables) = now else {
        return found;
    };
    for (table, value) in tables {
        match value {
            Value::Object(keys) if !FREE_TABLES.contains(&table.as_str()) => {
                for (key, value) in keys {
                    compare(
                        &mut found,
                        format!("{table}.{key}"),
                        &then[table][key],
                        value,
                    );
                }
            }
            Value::Object(_) => {}
            value => compare(&mut found, table.clone(), &then[table], value),
        }
    }
    found
}

fn compare(found: &mut Vec<(String, String, String)>, key: String, then: &Value, now: &Value) {
    if !then.is_null() && then != now && !FREE_KEYS.contains(&key.as_str()) {
        found.push((key, now.to_string(), then.to_string()));
    }
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
