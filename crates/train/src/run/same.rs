//! Whether all ranks run the same.

use super::{Run, resume::differences};
use crate::{Error, Result};
use bootstrap::World;
use serde_json::{Value, json};

/// Keys of which each rank may have its own value: where the data lies, and how a rank computes.
const OWN_KEYS: [&str; 5] = [
    "data.path",
    "data.mixture",
    "parallel.threads",
    "device.matmul_choices",
    "placement.folder",
];

/// Compares what this rank is to run with the other ranks. Collective.
///
/// # Errors
/// [`Error::Unequal`] on every rank, with the first rank and key that differ from rank 0.
pub(super) fn check(world: &World, run: &Run) -> Result<()> {
    let own = described(run)?;
    let everyone = world.everyone();
    let text = own.to_string();
    let sum = crc32fast::hash(text.as_bytes()).to_le_bytes();
    let sums = everyone.all_gather(&sum)?;
    let Some(rank) = sums.iter().position(|sum| *sum != sums[0]) else {
        return Ok(());
    };
    let is_compared = [0, rank].contains(&world.rank());
    let texts = everyone.all_gather(if is_compared { text.as_bytes() } else { b"" })?;
    let read = |rank: usize| {
        serde_json::from_slice(&texts[rank])
            .map_err(|error| Error::setting("run", error, "a description that is JSON"))
    };
    let (first, other): (Value, Value) = (read(0)?, read(rank)?);
    let different = differences(&first, &other);
    let (key, needed, found) = different.into_iter().next().unwrap_or_default();
    Err(Error::Unequal {
        rank,
        key,
        found: found.to_string(),
        needed: needed.to_string(),
    })
}

// What decides the numbers of a run, and in which order its ranks call each other.
fn described(run: &Run) -> Result<Value> {
    let attached = run.attached()?;
    let mut config = attached.config;
    for key in OWN_KEYS {
        if let Some((table, key)) = key.split_once('.') {
            config[table][key] = Value::Null;
        }
    }
    config["trace_step"] = json!(run.trace_step);
    config["data"]["content"] = json!(attached.data);
    config["data"]["tokenizer_table"] =
        json!(crc32fast::hash(attached.tokenizer.to_string().as_bytes()));
    // The folder itself may have another name on each host.
    let checkpoint = run.resume.as_ref().map(|from| from.checkpoint.file_name());
    config["checkpoint"] = json!(checkpoint.flatten().map(|name| name.to_string_lossy()));
    let init = run.init.as_ref().map(|weights| weights.path().file_name());
    config["init_from"] = json!(init.flatten().map(|name| name.to_string_lossy()));
    Ok(config)
}
