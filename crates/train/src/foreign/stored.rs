//! Where another program's model lies: a folder of the library transformers, or a checkpoint of Megatron-LM.

use super::{CONFIG_FILE, Settings};
use crate::{
    Error, Result,
    checkpoint::foreign::{Distributed, PlainFolder, saved_attributes},
};
use hal::files;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// The `model_type` under which Megatron's arguments are read.
pub(super) const MEGATRON: &str = "megatron";

/// The file of a Megatron run's folder that names its newest checkpoint.
const LATEST_FILE: &str = "latest_checkpointed_iteration.txt";
/// The arguments of a checkpoint.
const COMMON_FILE: &str = "common.pt";
/// The same among its tensors, in newer checkpoints.
const COMMON_ENTRY: &str = "common_state/shard_0_1";
/// Layers are the first dim of tensors under this name.
const STACK: &str = "decoder.layers.";
/// What is no weight of the model.
const NO_WEIGHTS: [&str; 3] = ["optimizer.", "rng_state", "rerun_state_machine"];

/// A model's place.
#[derive(Clone, Debug)]
pub(super) enum Stored {
    /// The settings, a file.
    Transformers(PathBuf),
    /// The folder of a checkpoint.
    Megatron(PathBuf),
}

impl Stored {
    /// The model at a path: a `config.json` or a folder with one, a Megatron checkpoint, or the newest of a run's folder.
    pub(super) fn find(path: &Path) -> Option<Stored> {
        let config = path.join(CONFIG_FILE);
        match path {
            _ if config.is_file() => Some(Stored::Transformers(config)),
            _ if path.is_file() => Some(Stored::Transformers(path.to_owned())),
            _ if is_checkpoint(path) => Some(Stored::Megatron(path.to_owned())),
            _ => latest(path).map(Stored::Megatron),
        }
    }

    /// Its settings.
    ///
    /// # Errors
    /// As [`Settings::open`]; [`Error::Checkpoint`] for a checkpoint without arguments.
    pub(super) fn settings(&self) -> Result<Settings> {
        let folder = match self {
            Stored::Transformers(config) => return Settings::open(config),
            Stored::Megatron(folder) => folder,
        };
        let common = folder.join(COMMON_FILE);
        let mut keys = match common.exists() {
            true => saved_attributes(&common, "args")?,
            false => distributed(folder)?.saved_attributes(COMMON_ENTRY, "args")?,
        };
        keys.insert("model_type".into(), Value::from(MEGATRON));
        Ok(Settings::new(&common, keys))
    }

    /// Its tensors.
    ///
    /// # Errors
    /// As [`PlainFolder::open`] and [`Distributed::open`].
    pub(super) fn tensors(&self) -> Result<PlainFolder> {
        Ok(match self {
            Stored::Transformers(config) => {
                PlainFolder::open(config.parent().unwrap_or(Path::new("")))?
            }
            Stored::Megatron(folder) => PlainFolder::of_distributed(distributed(folder)?),
        })
    }
}

fn distributed(folder: &Path) -> Result<Distributed> {
    Distributed::open(folder, STACK, &NO_WEIGHTS).map_err(Error::from)
}

fn is_checkpoint(path: &Path) -> bool {
    path.join(Distributed::METADATA_FILE).is_file()
}

// A number, or the word `release` of a converted model.
fn latest(path: &Path) -> Option<PathBuf> {
    let word = files::read_text(&path.join(LATEST_FILE)).ok()?;
    let folder = match word.trim().parse::<u64>() {
        Ok(iteration) => path.join(format!("iter_{iteration:07}")),
        Err(_) => path.join("release"),
    };
    is_checkpoint(&folder).then_some(folder)
}
