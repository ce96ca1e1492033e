//! Writes a snapshot to the nodes' own folders.

use super::{
    super::{Trainer, disk_work, frozen, save, snapshot::Snapshot},
    folder::LocalFolder,
    partners::{Partners, Seat},
};
use crate::{
    Error, Result,
    checkpoint::{self, Disk, FileCopy, FileSystem, Retention, ShardRecord, Writer, path_of_step},
};
use bootstrap::World;
use std::{
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
};

/// Bytes of a file that partners exchange at a time.
const CHUNK_BYTES: u64 = 8 << 20;

/// Where a rank writes local checkpoints, and with whom it exchanges files.
#[derive(Clone, Debug)]
pub(in crate::trainer) struct LocalTarget {
    dir: PathBuf,
    partners: Option<Partners>,
    // Of several ranks of a node, the one that makes and completes its part.
    leads: bool,
}

impl LocalTarget {
    /// This rank's part of a folder, from which everything is removed. Collective.
    ///
    /// # Errors
    /// [`Error::File`] if the folder cannot be made.
    pub(in crate::trainer) fn open(world: &World, folder: &LocalFolder) -> Result<LocalTarget> {
        let leads = world.local_rank() == 0;
        disk_work::all(world, || {
            if leads {
                folder.clear();
            }
            Ok(())
        })?;
        disk_work::all(world, || if leads { folder.create() } else { Ok(()) })?;
        let seats = save::gathered(world, &Seat::of(world))?;
        Ok(LocalTarget {
            dir: folder.of_node(world.node()),
            partners: Partners::of(world, &seats)?,
            leads,
        })
    }

    /// Writes the snapshots of all ranks: a file of each rank on its own node, and a copy on a partner. The checkpoint before is
    /// removed once this one is complete on all nodes. Frozen weights are read from the trainer, unless the checkpoint before has
    /// them. Collective.
    ///
    /// # Errors
    /// As [`Trainer::save`](super::super::Trainer::save).
    pub(in crate::trainer) fn write(
        &self,
        world: &World,
        snapshot: &mut Snapshot,
        trainer: Option<&Trainer>,
    ) -> Result<PathBuf> {
        let (dir, step) = (&self.dir, snapshot.step);
        let writer = disk_work::all(world, || {
            snapshot.check_finite()?;
            Ok(match self.leads {
                true => Some(Writer::begin(dir, step)?),
                false => None,
            })
        })?;
        let files = frozen::write_files(world, snapshot, (&FileSystem, dir), trainer)?;
        let records: Vec<[Option<ShardRecord>; 2]> = save::gathered(world, &files.records())?;
        if let Some(partners) = &self.partners {
            let writing = Writer::dir_of_step(dir, step);
            let [changing, frozen] = [0, 1].map(|kind| {
                let of_kind = records.iter().map(|records| records[kind].as_ref());
                of_kind.collect::<Vec<_>>()
            });
            exchange(world, partners, &writing, &changing)?;
            let before = snapshot.completed().map(|step| path_of_step(dir, step));
            let lacks = !partners.link(before.as_deref(), &writing, &frozen);
            // Partners send if any of them has to.
            if world.everyone().any(lacks)? {
                exchange(world, partners, &writing, &frozen)?;
            }
        }
        disk_work::all(world, || {
            let records = records.into_iter().flatten().flatten().collect();
            let sections = snapshot.sections.clone();
            Ok(writer
                .map(|writer| writer.commit_part(records, sections))
                .transpose()?)
        })?;
        disk_work::all(world, || {
            if self.leads {
                checkpoint::prune(&FileSystem, dir, &Retention::newest(1))?;
            }
            Ok(())
        })?;
        snapshot.complete(files);
        Ok(path_of_step(dir, step))
    }
}

impl Partners {
    // Gives the copies that the checkpoint before holds a second name; whether all have one.
    fn link(
        &self,
        before: Option<&Path>,
        writing: &Path,
        records: &[Option<&ShardRecord>],
    ) -> bool {
        let kept = || {
            let kept = self.kept.iter();
            kept.filter_map(|member| records[self.members[*member]])
        };
        let Some(before) = before else {
            return kept().next().is_none();
        };
        kept().all(|record| record.link(&FileSystem, before, writing))
    }
}

// Copies the files of partners into this node's part, chunk by chunk: while a disk works, no rank waits for a message.
fn exchange(
    world: &World,
    partners: &Partners,
    writing: &Path,
    records: &[Option<&ShardRecord>],
) -> Result<()> {
    let failed = |error: io::Error| Error::file(writing)(error);
    let mut own = disk_work::all(world, || {
        records[world.rank()]
            .map(|record| File::open(writing.join(record.file_name())).map_err(failed))
            .transpose()
    })?;
    let mut next = || -> Result<Vec<u8>> {
        let mut chunk = Vec::new();
        if let Some(file) = &mut own {
            file.take(CHUNK_BYTES)
                .read_to_end(&mut chunk)
                .map_err(failed)?;
        }
        Ok(chunk)
    };
    let (mut chunk, mut copies) = disk_work::all(world, || {
        let kept = partners.kept.iter().filter_map(|member| {
            let record = records[partners.members[*member]]?;
            // Of several copies, some may have been linked.
            let path = writing.join(record.file_name());
            let copy = FileSystem
                .remove(&path)
                .map_err(Error::file(&path))
                .and_then(|()| Ok(FileCopy::of(&FileSystem, writing, record)?));
            Some(copy.map(|copy| (*member, copy)))
        });
        let copies: Result<Vec<_>> = kept.collect();
        Ok((next()?, copies?))
    })?;
    let longest = records.iter().flatten().map(|record| record.num_bytes());
    let longest = longest.max();
    for _ in 0..longest.unwrap_or(0).div_ceil(CHUNK_BYTES) {
        let received = partners.group.all_gather(&chunk)?;
        chunk = disk_work::all(world, || {
            for (member, copy) in &mut copies {
                copy.write(&received[*member])?;
            }
            next()
        })?;
    }
    disk_work::all(world, || {
        for (_, copy) in copies {
            copy.finish()?;
        }
        Ok(())
    })
}
