//! Where another program's model lies: a folder of the library transformers, or a checkpoint of Megatron-LM.

use super::{CONFIG_FILE, Settings};
use crate::{
    Error, Result,
    checkpoint::foreign::{Distributed, PlainFolder, saved_attributes},
};
use hal::files;
use serde_json::Value;
use std::{
    cell::OnceCell,
    path::{Path, PathBuf},
};

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
const NO_WEIGHTS: [&str; 4] = ["optimizer.", "chained_", "rng_state", "rerun_state_machine"];
/// What checkpoints in another format begin with: a folder for each rank, whose files hold objects of Python.
const RANK_FOLDER: &str = "mp_rank_00";

/// A model's place.
#[derive(Debug)]
pub(super) enum Stored {
    /// The settings, a file.
    Transformers(PathBuf),
    /// The folder of a checkpoint, and that, once it has been opened for its arguments.
    Megatron(PathBuf, OnceCell<Distributed>),
}

impl Stored {
    /// The model at a path: a `config.json` or a folder with one, a Megatron checkpoint, or the newest of a run's folder. Where there
    /// is none, the file that a folder of the library transformers would have.
    ///
    /// # Errors
    /// [`Error::Foreign`] for a Megatron checkpoint in another format.
    pub(super) fn at(path: &Path) -> Result<Stored> {
        let config = path.join(CONFIG_FILE);
        if config.is_file() {
            return Ok(Stored::Transformers(config));
        }
        for folder in [Some(path.to_owned()), latest(path)].into_iter().flatten() {
            if folder.join(Distributed::METADATA_FILE).is_file() {
                return Ok(Stored::Megatron(folder, OnceCell::new()));
            }
            if folder.join(RANK_FOLDER).is_dir() {
                let found = format!(
                    "found {RANK_FOLDER}, a checkpoint of Megatron-LM in its format torch, needs torch_dist"
                );
                return Err(Error::foreign(&folder, found));
            }
        }
        Ok(Stored::Transformers(match path.is_dir() {
            true => config,
            false => path.to_owned(),
        }))
    }

    /// Whether there is something.
    pub(super) fn exists(&self) -> bool {
        match self {
            Stored::Transformers(config) => config.is_file(),
            Stored::Megatron(..) => true,
        }
    }

    /// Its settings.
    ///
    /// # Errors
    /// As [`Settings::open`]; [`Error::Checkpoint`] for a checkpoint without arguments.
    pub(super) fn settings(&self) -> Result<Settings> {
        let (folder, opened) = match self {
            Stored::Transformers(config) => return Settings::open(config),
            Stored::Megatron(folder, opened) => (folder, opened),
        };
        let common = folder.join(COMMON_FILE);
        let mut keys = match common.exists() {
            true => saved_attributes(&common, "args")?,
            false => {
                let checkpoint = distributed(folder)?;
                let keys = checkpoint.saved_attributes(COMMON_ENTRY, "args")?;
                // Its list is long, so `tensors` need not read it again.
                let _ = opened.set(checkpoint);
                keys
            }
        };
        keys.insert("model_type".into(), Value::from(MEGATRON));
        Ok(Settings::new(&common, keys))
    }

    /// Its tensors.
    ///
    /// # Errors
    /// As [`PlainFolder::open`] and [`Distributed::open`].
    pub(super) fn tensors(self) -> Result<PlainFolder> {
        Ok(match self {
            Stored::Transformers(config) => {
                PlainFolder::open(config.parent().unwrap_or(Path::new("")))?
            }
            Stored::Megatron(folder, opened) => {
                PlainFolder::of_distributed(match opened.into_inner() {
                    Some(checkpoint) => checkpoint,
                    None => distributed(&folder)?,
                })
            }
        })
    }
}

fn distributed(folder: &Path) -> Result<Distributed> {
    Distributed::open(folder, STACK, &NO_WEIGHTS).map_err(Error::from)
}

// The folder of a run's newest checkpoint: a number, or the word `release` of a converted model.
fn latest(path: &Path) -> Option<PathBuf> {
    let word = files::read_text(&path.join(LATEST_FILE)).ok()?;
    Some(match word.trim().parse::<u64>() {
        Ok(iteration) => path.join(format!("iter_{iteration:07}")),
        Err(_) => path.join("release"),
    })
}
