//! From local checkpoints to a checkpoint of the run.

use super::{
    super::{disk_work, save},
    folder::LocalFolder,
    partners::Seat,
};
use crate::{
    Result,
    checkpoint::{Assembly, Error, FileSystem, Inventory, Reader, Writer, path_of_step},
};
use bootstrap::World;
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

/// What [`recover`](fn@recover) has found and done; the same on every rank.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    /// The step and the path of the checkpoint that was copied together; nothing if none of the nodes' is newer than those of the
    /// run, or none is whole.
    pub recovered: Option<(u64, PathBuf)>,
    /// Newer ones that could not be used, each in a sentence.
    pub passed_over: Vec<String>,
}

/// A part of a local checkpoint that a node has.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Held {
    // The rank that has found it.
    rank: usize,
    path: PathBuf,
    step: u64,
    // Of the manifest, which all parts of a checkpoint share.
    crc32: u32,
    files: Vec<usize>,
}

/// Copies the newest local checkpoint that is whole into `checkpoints_dir`, if it is newer than those there, and removes the local
/// ones, which are then all older. Collective, on any number of ranks and nodes: a file may come from any node that has it.
/// Each node's ranks share its copies, and compare every byte with the CRC-32 that was written.
///
/// # Errors
/// [`Error::Checkpoint`](crate::Error::Checkpoint) if a folder cannot be read, or the checkpoint cannot be written; nothing is
/// removed then. [`Error::Peer`](crate::Error::Peer) for that of another rank.
pub fn recover(world: &World, checkpoints_dir: &Path, folder: &LocalFolder) -> Result<Recovery> {
    let newest = disk_work::all(world, || newest_of_run(checkpoints_dir))?;
    let own = disk_work::all(world, || match world.local_rank() {
        0 => held(world.rank(), folder),
        _ => Ok(Vec::new()),
    })?;
    let all: Vec<Vec<Held>> = save::gathered(world, &own)?;
    let seats: Vec<Seat> = save::gathered(world, &Seat::of(world))?;
    let mut by_checkpoint: BTreeMap<(u64, u32), Vec<Held>> = BTreeMap::new();
    for held in all.into_iter().flatten() {
        let key = (held.step, held.crc32);
        let parts = by_checkpoint.entry(key).or_default();
        // Nodes that share a file system all find the same.
        if parts.iter().all(|part| part.path != held.path) {
            parts.push(held);
        }
    }
    let mut recovery = Recovery::default();
    let newer = by_checkpoint.into_iter().rev();
    for ((step, _), parts) in newer.filter(|((step, _), _)| Some(*step) > newest) {
        match assemble(world, checkpoints_dir, &seats, &parts)? {
            Ok(path) => {
                recovery.recovered = Some((step, path));
                break;
            }
            Err(reason) => recovery
                .passed_over
                .push(format!("local checkpoint of step {step}: {reason}")),
        }
    }
    disk_work::all(world, || {
        if world.local_rank() == 0 {
            folder.clear();
        }
        Ok(())
    })?;
    Ok(recovery)
}

// The step of the run's newest checkpoint.
fn newest_of_run(checkpoints_dir: &Path) -> Result<Option<u64>> {
    match Reader::open(checkpoints_dir) {
        Ok(reader) => Ok(Some(reader.step())),
        Err(Error::Missing { .. } | Error::NoCheckpoint { .. }) => Ok(None),
        // A damaged one is no reason to forget newer ones.
        Err(Error::Damaged { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

// What this node has.
fn held(rank: usize, folder: &LocalFolder) -> Result<Vec<Held>> {
    let mut held = Vec::new();
    for part in folder.parts()? {
        for (path, inventory) in Inventory::of_parts(&part)? {
            held.push(Held {
                rank,
                step: inventory.step(),
                crc32: inventory.crc32(),
                files: inventory.files_in(&path),
                path,
            });
        }
    }
    Ok(held)
}

// Copies a checkpoint together; returns why it cannot be, if its parts are not whole. Collective.
fn assemble(
    world: &World,
    checkpoints_dir: &Path,
    seats: &[Seat],
    parts: &[Held],
) -> Result<std::result::Result<PathBuf, String>> {
    let first = &parts[0];
    let text = disk_work::told(world, first.rank, || {
        Ok(Inventory::read(&first.path)?.text())
    })?;
    let inventory = Inventory::decode(&text)?;
    let holders: Vec<Vec<&Held>> = (0..inventory.num_files())
        .map(|file| {
            let held = parts.iter().filter(|part| part.files.contains(&file));
            held.collect()
        })
        .collect();
    if let Some(missing) = holders.iter().position(Vec::is_empty) {
        return Ok(Err(format!("no node has {}", inventory.file_name(missing))));
    }
    let assembly = disk_work::all(world, || match world.rank() {
        0 => Ok(Some(Assembly::begin(
            Arc::new(FileSystem),
            checkpoints_dir,
            &inventory,
        )?)),
        _ => Ok(None),
    })?;
    let into = Writer::dir_of_step(checkpoints_dir, inventory.step());
    if let Some(reason) = copy_all(world, seats, (&inventory, &into), &holders)? {
        return Ok(Err(reason));
    }
    disk_work::all(world, || Ok(assembly.map(Assembly::commit).transpose()?))?;
    Ok(Ok(path_of_step(checkpoints_dir, inventory.step())))
}

// Copies each file from one of its holders, over which files are spread; a damaged one comes from the next. Returns which file is
// damaged everywhere, if one is. Collective.
fn copy_all(
    world: &World,
    seats: &[Seat],
    (inventory, into): (&Inventory, &Path),
    holders: &[Vec<&Held>],
) -> Result<Option<String>> {
    let mut left: Vec<usize> = (0..holders.len()).collect();
    let mut attempt = 0;
    while !left.is_empty() {
        let source = |file: usize| holders[file][(file + attempt) % holders[file].len()];
        let own = left
            .iter()
            .filter(|file| copier(seats, source(**file).rank, **file) == world.rank());
        let failed = disk_work::all(world, || {
            let mut failed = Vec::new();
            for file in own {
                let part = &source(*file).path;
                let fault = inventory.copy(*file, part, &FileSystem, into)?;
                failed.extend(fault.map(|fault| (*file, fault.to_string())));
            }
            Ok(failed)
        })?;
        let failed: Vec<Vec<(usize, String)>> = save::gathered(world, &failed)?;
        let failed: BTreeMap<usize, String> = failed.into_iter().flatten().collect();
        attempt += 1;
        let lost = failed
            .iter()
            .find(|(file, _)| holders[**file].len() <= attempt);
        if let Some((file, reason)) = lost {
            let (name, copies) = (inventory.file_name(*file), holders[*file].len());
            return Ok(Some(format!("{name}, found {copies} times: {reason}")));
        }
        left = failed.into_keys().collect();
    }
    Ok(None)
}

// The rank that copies a file which the node of `holder` has: the ranks of a node take turns.
fn copier(seats: &[Seat], holder: usize, file: usize) -> usize {
    let node = seats[holder].node;
    let of_node = (0..seats.len()).filter(|rank| seats[*rank].node == node);
    let of_node: Vec<usize> = of_node.collect();
    of_node[file % of_node.len()]
}
