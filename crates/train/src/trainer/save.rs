//! Saves parameters and optimiser state to checkpoints.

use super::{
    Trainer, disk_work,
    stored::{Attached, parts, sections},
};
use crate::{
    Error, Result,
    checkpoint::{self, Piece, ShardRecord, Writer, path_of_step, write_shard},
};
use bootstrap::World;
use grid::{Axis, IndexBox, Layout};
use parallel::Parameter;
use std::path::{Path, PathBuf};
use tensor::DType;

/// Number of checkpoints that [`Trainer::save`] keeps.
const KEPT: usize = 3;

struct Owned {
    name: String,
    global_shape: Vec<usize>,
    layout: Layout,
    index: IndexBox,
    bytes: Vec<u8>,
    is_finite: bool,
}

impl Trainer {
    /// Writes a checkpoint of the steps done so far into `dir`, and keeps the three newest. Collective: ranks that hold the
    /// same shard share its writing, tensor by tensor.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] on a rank that cannot write, [`Error::NotFinite`] on one that holds a number that is not
    /// finite, and [`Error::Peer`] with that rank and its reason on the others; existing complete checkpoints are not
    /// touched. The same if the new one is complete and an old one cannot be removed. [`Error::Parallel`] from the
    /// exchange and the device.
    pub fn save(&self, dir: impl AsRef<Path>) -> Result<PathBuf> {
        self.save_with(dir.as_ref(), KEPT, &Attached::default())
    }

    /// As [`save`](Trainer::save), but keeps the `keep` newest, and stores the program's attachments.
    ///
    /// # Errors
    /// As [`save`](Trainer::save).
    pub fn save_with(&self, dir: &Path, keep: usize, attached: &Attached) -> Result<PathBuf> {
        let owned = collect(self)?;
        let (world, step) = (self.context.world(), self.next_step);
        disk_work::agreed(world, finite(step, &owned))?;
        let (rank, dtype) = (world.rank(), self.dtype().accumulator());
        let writer = disk_work::all(world, || match rank {
            0 => Ok(Some(Writer::begin(dir, step)?)),
            _ => Ok(None),
        })?;
        let pieces: Vec<Piece<'_>> = owned.iter().map(|owned| owned.piece(dtype)).collect();
        let record = disk_work::all(world, || match pieces.is_empty() {
            true => Ok(None),
            false => {
                let writing = Writer::dir_of_step(dir, step);
                Ok(Some(write_shard(&writing, rank, &pieces)?))
            }
        })?;
        let (records, sections) = (records(world, record)?, sections(self, attached));
        disk_work::all(world, || {
            let Some(writer) = writer else {
                return Ok(());
            };
            writer.commit(records, sections)?;
            Ok(checkpoint::prune(dir, keep.max(1))?)
        })?;
        Ok(path_of_step(dir, step))
    }
}

fn collect(trainer: &Trainer) -> Result<Vec<Owned>> {
    let dtype = trainer.dtype().accumulator();
    let (mut owned, mut shares) = (Vec::new(), Shares::new(trainer));
    for (prefix, part) in parts(trainer.parameters().options()) {
        trainer
            .parameters()
            .read::<Error>(part, |parameter, numbers| {
                if shares.is_own(trainer, parameter) {
                    owned.push(Owned {
                        name: format!("{prefix}{}", parameter.name()),
                        global_shape: parameter.global_shape().to_vec(),
                        layout: parameter.layout().clone(),
                        index: parameter.index().clone(),
                        bytes: bytes(dtype, &numbers),
                        is_finite: numbers.iter().all(|number| number.is_finite()),
                    });
                }
                Ok(())
            })?;
    }
    Ok(owned)
}

impl Owned {
    fn piece(&self, dtype: DType) -> Piece<'_> {
        Piece {
            name: &self.name,
            dtype,
            global_shape: &self.global_shape,
            layout: &self.layout,
            index: self.index.clone(),
            bytes: &self.bytes,
        }
    }
}

/// Which rank writes which tensor. Every rank that holds a shard sees the same tensors in the same order, so that all
/// come to the same answer.
struct Shares {
    // Elements that each replica writes.
    of_replicas: Vec<usize>,
    own: usize,
}

impl Shares {
    fn new(trainer: &Trainer) -> Shares {
        Shares {
            of_replicas: vec![0; trainer.context.grid().degree(Axis::Data)],
            own: trainer.context.index(Axis::Data),
        }
    }

    /// Whether this rank writes its shard of a parameter. Of ranks along a tensor axis that hold the same shard, the first
    /// does; of stages that share a table, the first; of replicas, the one that has the least to write.
    fn is_own(&mut self, trainer: &Trainer, parameter: &Parameter) -> bool {
        let is_first = trainer.parameters().is_first_copy(parameter)
            && parameter.counts_in_norm(&trainer.context);
        if !is_first {
            return false;
        }
        let replicas = self.of_replicas.iter_mut().enumerate();
        let least = replicas.min_by_key(|(_, elements)| **elements);
        least.is_some_and(|(replica, elements)| {
            *elements += parameter.index().num_elements();
            replica == self.own
        })
    }
}

fn bytes(dtype: DType, numbers: &[f64]) -> Vec<u8> {
    match dtype {
        DType::F64 => numbers
            .iter()
            .flat_map(|number| number.to_le_bytes())
            .collect(),
        _ => numbers
            .iter()
            .flat_map(|number| (*number as f32).to_le_bytes())
            .collect(),
    }
}

/// What all ranks have written, which rank 0 needs. Collective.
fn records(world: &World, own: Option<ShardRecord>) -> Result<Vec<ShardRecord>> {
    let refuse =
        |error: serde_json::Error| Error::setting("checkpoint record", error, "one that is JSON");
    let text = serde_json::to_vec(&own).map_err(refuse)?;
    let all = world.everyone().all_gather(&text)?;
    if world.rank() > 0 {
        return Ok(Vec::new());
    }
    let records = all.iter().map(|text| serde_json::from_slice(text));
    let records: Vec<Option<ShardRecord>> =
        records.collect::<serde_json::Result<_>>().map_err(refuse)?;
    Ok(records.into_iter().flatten().collect())
}

// Such a checkpoint would take the place of good ones.
fn finite(step: u64, owned: &[Owned]) -> Result<()> {
    match owned.iter().find(|owned| !owned.is_finite) {
        None => Ok(()),
        Some(Owned { name, .. }) => Err(Error::NotFinite {
            step,
            name: name.clone(),
        }),
    }
}
