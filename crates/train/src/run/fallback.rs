//! Before a run is resumed: if its folder has no intact checkpoint, that of its store.

use super::RunLock;
use crate::{
    Error, Result,
    checkpoint::{self, FileSystem, Limit, Reader, create_folder, path_of_step, pull},
    config::CheckpointConfig,
    store,
    trainer::disk_work,
};
use bootstrap::World;
use serde::{Deserialize, Serialize};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// A checkpoint that was copied from the store of a run into its folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fallback {
    /// What is wrong with the run's folder, in a sentence.
    pub reason: String,
    /// The store's URL.
    pub url: String,
    /// The checkpoint, in the run's folder.
    pub path: PathBuf,
    /// Where the damaged one of a later step is now, if there was one.
    pub set_aside: Option<PathBuf>,
}

/// Copies the newest checkpoint of the run's store into its folder, if the folder is missing or empty, or its newest checkpoint is
/// damaged. Returns nothing if that is intact, if the run has no store, or the store nothing that helps. Collective.
///
/// # Cost
/// If the run has a store, its newest checkpoint is read once more than otherwise; all ranks share that.
/// # Errors
/// [`Error::Checkpoint`] if the store does not answer, so that no run begins anew while its checkpoints lie there;
/// [`Error::RunInUse`] while another program writes into the folder; those of the disk, which is not taken for damage; and those of
/// the exchange.
pub fn recover_stored(
    world: &World,
    run_dir: &Path,
    config: &CheckpointConfig,
) -> Result<Option<Fallback>> {
    if config.stored().is_none() {
        return Ok(None);
    }
    let Some((reason, damaged)) = fault(world, run_dir)? else {
        return Ok(None);
    };
    let told = disk_work::told(world, 0, || {
        let fallback = pulled(run_dir, config, reason, damaged)?;
        Ok(serde_json::to_vec(&fallback).map_err(std::io::Error::from)?)
    })?;
    Ok(serde_json::from_slice(&told).map_err(std::io::Error::from)?)
}

// What is wrong with the newest checkpoint of a folder, and its step if it is there; nothing if it is intact. Collective.
fn fault(world: &World, run_dir: &Path) -> Result<Option<(String, Option<u64>)>> {
    let told = disk_work::told(world, 0, || {
        let found = match Reader::open(run_dir) {
            Ok(reader) => (None, Some((reader.path().to_owned(), reader.step()))),
            Err(error @ checkpoint::Error::Damaged { .. }) => {
                (Some(error.to_string()), newest_named(run_dir))
            }
            Err(
                error
                @ (checkpoint::Error::Missing { .. } | checkpoint::Error::NoCheckpoint { .. }),
            ) => (Some(error.to_string()), None),
            Err(error) => return Err(error.into()),
        };
        Ok(serde_json::to_vec(&found).map_err(std::io::Error::from)?)
    })?;
    let (reason, newest): (Option<String>, Option<(PathBuf, u64)>) =
        serde_json::from_slice(&told).map_err(std::io::Error::from)?;
    match (reason, newest) {
        (Some(reason), newest) => Ok(Some((reason, newest.map(|(_, step)| step)))),
        (None, Some((path, step))) => {
            let own = disk_work::all(world, || {
                let (rank, ranks) = (world.rank(), world.size());
                damage(Reader::open(&path).and_then(|reader| reader.verify_share(rank, ranks)))
            })?;
            let all = world
                .everyone()
                .all_gather(own.unwrap_or_default().as_bytes())?;
            let first = all.into_iter().find(|reason| !reason.is_empty());
            let reason = first.map(|reason| String::from_utf8_lossy(&reason).into_owned());
            Ok(reason.map(|reason| (reason, Some(step))))
        }
        (None, None) => Ok(None),
    }
}

// What is damaged, in a sentence. A disk that refuses to read is no damage: what it holds may be whole.
fn damage(verified: checkpoint::Result<()>) -> Result<Option<String>> {
    match verified {
        Ok(()) => Ok(None),
        Err(error @ checkpoint::Error::Damaged { .. }) => Ok(Some(error.to_string())),
        Err(error) => Err(error.into()),
    }
}

// The checkpoint folder of the highest step.
fn newest_named(run_dir: &Path) -> Option<(PathBuf, u64)> {
    steps(run_dir).into_iter().next_back().map(|step| {
        let path = path_of_step(&run_dir.join("checkpoints"), step);
        (path, step)
    })
}

// The steps of the folders that are named as checkpoints, ascending.
fn steps(run_dir: &Path) -> Vec<u64> {
    let entries = fs::read_dir(run_dir.join("checkpoints"))
        .into_iter()
        .flatten();
    let step = |entry: std::io::Result<fs::DirEntry>| {
        let name = entry.ok()?.file_name();
        name.to_str()?.strip_prefix("step-")?.parse().ok()
    };
    let mut steps: Vec<u64> = entries.filter_map(step).collect();
    steps.sort_unstable();
    steps
}

// Copies the newest of the store, unless the folder has a later one beside the damaged.
fn pulled(
    run_dir: &Path,
    config: &CheckpointConfig,
    reason: String,
    damaged: Option<u64>,
) -> Result<Option<Fallback>> {
    let Some((url, time)) = config.stored() else {
        return Ok(None);
    };
    let (store, limit) = (store::open(url)?, Limit::after(time));
    let listed = store
        .steps(&limit)
        .map_err(|error| because(error, &reason))?;
    let Some(newest) = listed.last().copied() else {
        return Ok(None);
    };
    let others = steps(run_dir)
        .into_iter()
        .filter(|step| Some(*step) != damaged);
    if others.max().is_some_and(|other| other > newest) {
        return Ok(None);
    }
    let checkpoints = run_dir.join("checkpoints");
    create_folder(&FileSystem, &checkpoints).map_err(Error::file(run_dir))?;
    let _lock = RunLock::take(run_dir)?;
    let path = pull(&*store, Some(newest), &checkpoints, &limit)?;
    let mut set_aside = None;
    if let Some(step) = damaged.filter(|step| *step > newest) {
        let (from, to) = (
            path_of_step(&checkpoints, step),
            checkpoints.join(format!("damaged-step-{step:08}")),
        );
        // It would be taken for the newest.
        fs::rename(&from, &to).map_err(Error::file(&from))?;
        set_aside = Some(to);
    }
    Ok(Some(Fallback {
        reason,
        url: store.url().to_owned(),
        path,
        set_aside,
    }))
}

// A store's refusal, with the reason for which it was asked.
fn because(error: checkpoint::Error, why: &str) -> checkpoint::Error {
    match error {
        checkpoint::Error::Store {
            url,
            operation,
            reason,
        } => checkpoint::Error::Store {
            url,
            operation,
            reason: format!("{reason}; it was asked because of {why}"),
        },
        other => other,
    }
}
