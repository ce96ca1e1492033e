//! A copy, in the host's memory, of what a rank writes to a checkpoint. The next steps may change the state meanwhile.

use super::{
    Trainer,
    stored::{Attached, parts, sections},
};
use crate::{
    Error, Result,
    checkpoint::{Disk, FrozenFile, Piece, Sections, ShardRecord, Writer, write_shard_on},
};
use grid::{Axis, IndexBox, Layout};
use parallel::{Parameter, data::Part};
use std::{ops::Range, path::Path};
use tensor::{DType, Tensor};

/// The weights and the state that this rank writes, as they were after a step.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub(crate) step: u64,
    pub(crate) sections: Sections,
    pieces: Vec<OwnPiece>,
    buffer: SnapshotBuffer,
}

/// What the next snapshot takes over: the memory, and the file of frozen weights that need not be written again.
#[derive(Debug, Default)]
pub(crate) struct SnapshotBuffer {
    bytes: Vec<u8>,
    frozen: Option<FrozenFile>,
    /// The step of the last checkpoint that was completed.
    pub(crate) completed: Option<u64>,
}

impl SnapshotBuffer {
    pub(crate) fn num_bytes(&self) -> usize {
        self.bytes.len()
    }

    fn resize(&mut self, bytes: usize) -> Result<()> {
        let missing = bytes.saturating_sub(self.bytes.len());
        self.bytes.try_reserve_exact(missing).map_err(|_| {
            let found = format!("a host without room for {missing} more bytes");
            Error::setting("snapshot of a checkpoint", found, format!("{bytes} bytes"))
        })?;
        self.bytes.resize(bytes, 0);
        Ok(())
    }
}

/// What a rank has put into the folder of a checkpoint.
#[derive(Debug)]
pub(crate) struct OwnFiles {
    /// Of weights and state that change.
    pub(crate) changing: Option<ShardRecord>,
    /// Of frozen weights.
    pub(crate) frozen: Option<FrozenFile>,
}

impl OwnFiles {
    /// Their records: of what changes, and of what is frozen.
    pub(crate) fn records(&self) -> [Option<ShardRecord>; 2] {
        let frozen = self.frozen.as_ref().map(|file| file.record().clone());
        [self.changing.clone(), frozen]
    }
}

/// A piece of a tensor, and where its bytes are in the buffer.
#[derive(Debug)]
struct OwnPiece {
    name: String,
    dtype: DType,
    global_shape: Vec<usize>,
    layout: Layout,
    index: IndexBox,
    bytes: Range<usize>,
    is_frozen: bool,
}

impl Snapshot {
    /// Copies what this rank writes of the steps done so far into `buffer`, after all work on the device that changes it. The
    /// host waits for the copy. Collective if the optimiser's state is sharded.
    ///
    /// # Errors
    /// [`Error::Setting`] if the host lacks the memory; [`Error::Parallel`] from the device and its collectives.
    pub(crate) fn take(
        trainer: &Trainer,
        attached: &Attached,
        mut buffer: SnapshotBuffer,
    ) -> Result<Snapshot> {
        let plan = plan(trainer);
        buffer.resize(plan.num_bytes)?;
        let mut owns = plan.owns.iter();
        for (_, part) in parts(trainer.parameters().options()) {
            trainer
                .parameters()
                .tensors::<Error>(part, |_, tensor| match owns.next() {
                    Some(Some((dtype, range))) => {
                        copy(*dtype, &tensor, &mut buffer.bytes[range.clone()])
                    }
                    _ => Ok(()),
                })?;
        }
        Ok(Snapshot {
            step: trainer.next_step,
            sections: sections(trainer, attached),
            pieces: plan.pieces,
            buffer,
        })
    }

    pub(crate) fn into_buffer(self) -> SnapshotBuffer {
        self.buffer
    }

    /// The step of the checkpoint that was completed before this one.
    pub(crate) fn completed(&self) -> Option<u64> {
        self.buffer.completed
    }

    /// Writes this rank's files into the folder of the checkpoint, which it makes if it is not there. The file of frozen weights is
    /// that of the last checkpoint under a second name, if they are the same.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] and [`Error::File`] if the disk refuses.
    pub(crate) fn write(&self, disk: &dyn Disk, dir: &Path, rank: usize) -> Result<OwnFiles> {
        let writing = Writer::dir_of_step(dir, self.step);
        // Another rank may have made it, but none if this one runs again alone.
        disk.create_dir(&writing).map_err(Error::file(&writing))?;
        let [changing, frozen] = [false, true].map(|is_frozen| self.pieces(is_frozen));
        let changing = match changing.is_empty() {
            true => None,
            false => Some(write_shard_on(disk, &writing, rank, &changing)?),
        };
        let (place, earlier) = ((dir, self.step), self.buffer.frozen.as_ref());
        let frozen = match frozen.is_empty() {
            true => None,
            false => Some(FrozenFile::put(disk, place, rank, &frozen, earlier)?),
        };
        Ok(OwnFiles { changing, frozen })
    }

    /// Notes that the checkpoint of these files is complete.
    pub(crate) fn complete(&mut self, files: OwnFiles) {
        self.buffer.frozen = files.frozen;
        self.buffer.completed = Some(self.step);
    }

    // Its pieces, as a file holds them: those that steps change, or those that none does.
    fn pieces(&self, is_frozen: bool) -> Vec<Piece<'_>> {
        let own = self.pieces.iter().filter(|own| own.is_frozen == is_frozen);
        let pieces = own.map(|own| Piece {
            name: &own.name,
            dtype: own.dtype,
            global_shape: &own.global_shape,
            layout: &own.layout,
            index: own.index.clone(),
            bytes: &self.buffer.bytes[own.bytes.clone()],
        });
        pieces.collect()
    }

    /// Refuses numbers that are not finite: such a checkpoint would take the place of good ones.
    ///
    /// # Errors
    /// [`Error::NotFinite`] with the first tensor that has one.
    pub(crate) fn check_finite(&self) -> Result<()> {
        let is_finite =
            |own: &&OwnPiece| is_finite(own.dtype, &self.buffer.bytes[own.bytes.clone()]);
        match self.pieces.iter().find(|own| !is_finite(own)) {
            None => Ok(()),
            Some(own) => Err(Error::NotFinite {
                step: self.step,
                name: own.name.clone(),
            }),
        }
    }
}

impl Trainer {
    /// Bytes of the host's memory that this rank's copy of weights and state takes while a checkpoint is written.
    pub fn snapshot_bytes(&self) -> usize {
        plan(self).num_bytes
    }
}

/// What this rank writes, and in which of the tensors that all ranks pass it lies.
#[derive(Default)]
struct SnapshotPlan {
    pieces: Vec<OwnPiece>,
    // For each parameter of each part, its type and place in the buffer, if this rank writes it.
    owns: Vec<Option<(DType, Range<usize>)>>,
    num_bytes: usize,
}

fn plan(trainer: &Trainer) -> SnapshotPlan {
    let options = trainer.parameters().options();
    let (mut plan, mut shares) = (SnapshotPlan::default(), Shares::new(trainer));
    for (prefix, part) in parts(options) {
        for parameter in trainer.parameters().with_part(part) {
            let is_own = shares.is_own(trainer, parameter);
            plan.owns.push(is_own.then(|| {
                let (dtype, index) = (
                    options.dtype_of(part, parameter),
                    options.own(part, parameter),
                );
                let end = plan.num_bytes + index.num_elements() * dtype.bytes();
                let bytes = std::mem::replace(&mut plan.num_bytes, end)..end;
                plan.pieces.push(OwnPiece {
                    name: format!("{prefix}{}", parameter.name()),
                    dtype,
                    global_shape: options.shape_of(part, parameter),
                    layout: parameter.layout().clone(),
                    index,
                    bytes: bytes.clone(),
                    is_frozen: part == Part::Weights && parameter.is_frozen(),
                });
                (dtype, bytes)
            }));
        }
    }
    plan
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
        // Ranks along Context hold copies, as replicas along Data do.
        let context = &trainer.context;
        let ranks = context.degree(Axis::Context);
        Shares {
            of_replicas: vec![0; context.degree(Axis::Data) * ranks],
            own: context.index(Axis::Data) * ranks + context.index(Axis::Context),
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

// Weights that no step updates may have a narrower type than the one that is stored.
fn copy(dtype: DType, tensor: &Tensor, bytes: &mut [u8]) -> Result<()> {
    if tensor.dtype() == dtype {
        return Ok(tensor.download(bytes)?);
    }
    let numbers = tensor.to_f64()?;
    let wide = numbers.iter().zip(bytes.chunks_exact_mut(dtype.bytes()));
    wide.for_each(|(number, bytes)| match dtype {
        DType::F64 => bytes.copy_from_slice(&number.to_le_bytes()),
        _ => bytes.copy_from_slice(&(*number as f32).to_le_bytes()),
    });
    Ok(())
}

fn is_finite(dtype: DType, bytes: &[u8]) -> bool {
    // Each block is read to its end, without a branch, so that vectors can do it.
    let mut blocks = bytes.chunks(1 << 14);
    blocks.all(|block| match dtype {
        DType::U8 => true,
        DType::F64 => {
            let numbers = block.as_chunks::<8>().0.iter();
            numbers.fold(true, |all, bytes| {
                all & f64::from_le_bytes(*bytes).is_finite()
            })
        }
        _ => {
            let numbers = block.as_chunks::<4>().0.iter();
            numbers.fold(true, |all, bytes| {
                all & f32::from_le_bytes(*bytes).is_finite()
            })
        }
    })
}
