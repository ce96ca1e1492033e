//! A copy, in the host's memory, of what a rank writes to a checkpoint. The next steps may change the state meanwhile.

use super::{
    Trainer,
    frozen::{FrozenPieces, Kept},
    stored::{Attached, parts, sections},
};
use crate::{
    Error, Result,
    checkpoint::{
        Disk, FrozenFile, Piece, PieceRecord, Sections, ShardRecord, Writer, write_shard_on,
    },
};
use grid::Axis;
use hal::HostBlock;
use parallel::{Parameter, data::Part};
use std::{ops::Range, path::Path};
use tensor::{DType, Device, Tensor};

/// The weights and the state that this rank writes, as they were after a step. Of frozen weights, it has a description alone.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub(crate) step: u64,
    pub(crate) sections: Sections,
    pub(super) frozen: FrozenPieces,
    // The file of frozen weights in the checkpoint that the trainer has read.
    read: Option<Kept>,
    pieces: Vec<OwnPiece>,
    buffer: SnapshotBuffer,
}

/// What the next snapshot takes over: the memory, and the file of frozen weights that need not be written again.
#[derive(Debug, Default)]
pub(crate) struct SnapshotBuffer {
    memory: Option<HostBlock>,
    pub(super) kept: Option<Kept>,
    /// The step of the last checkpoint that was completed.
    pub(crate) completed: Option<u64>,
}

impl SnapshotBuffer {
    pub(crate) fn num_bytes(&self) -> usize {
        self.bytes().len()
    }

    fn bytes(&self) -> &[u8] {
        self.memory.as_deref().unwrap_or_default()
    }

    // To lock pages has its price, so only memory that is used again is locked.
    fn resize(&mut self, bytes: usize, device: &Device) -> Result<&mut [u8]> {
        match &mut self.memory {
            Some(memory) if memory.len() == bytes => {
                if !memory.is_locked() {
                    memory.lock(&**device.hal())?;
                }
            }
            memory => {
                // Before the new one is taken.
                *memory = None;
                *memory = Some(HostBlock::zeros(bytes).ok_or_else(|| {
                    let found = format!("a host without room for {bytes} bytes");
                    Error::setting("snapshot of a checkpoint", found, format!("{bytes} bytes"))
                })?);
            }
        }
        Ok(self.memory.as_deref_mut().unwrap_or_default())
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
    record: PieceRecord,
    bytes: Range<usize>,
}

impl OwnPiece {
    fn piece<'a>(&'a self, buffer: &'a [u8]) -> Piece<'a> {
        let record = &self.record;
        Piece {
            name: &record.name,
            dtype: record.dtype,
            global_shape: &record.global_shape,
            layout: &record.layout,
            index: record.index.clone(),
            bytes: &buffer[self.bytes.clone()],
        }
    }
}

impl Snapshot {
    /// Copies what this rank writes of the steps done so far, but for frozen weights, into `buffer`, after all work on the device
    /// that changes it. The host waits for the copy. Collective if the optimiser's state is sharded.
    ///
    /// # Errors
    /// [`Error::Setting`] if the host lacks the memory; [`Error::Parallel`] from the device and its collectives.
    pub(crate) fn take(
        trainer: &Trainer,
        attached: &Attached,
        mut buffer: SnapshotBuffer,
    ) -> Result<Snapshot> {
        let plan = plan(trainer);
        let bytes = buffer.resize(plan.num_bytes, trainer.context.device())?;
        let mut owns = plan.owns.iter();
        for (_, part) in parts(trainer.parameters().options()) {
            let changes = |parameter: &Parameter| !is_frozen(part, parameter);
            let visit = |_: &Parameter, tensor: Tensor| match owns.next() {
                Some(Some((dtype, range))) => copy(*dtype, &tensor, &mut bytes[range.clone()]),
                _ => Ok(()),
            };
            let parameters = trainer.parameters();
            parameters.tensors_of::<Error>(part, changes, visit)?;
        }
        Ok(Snapshot {
            step: trainer.next_step,
            sections: sections(trainer, attached),
            frozen: plan.frozen,
            read: trainer.frozen_file.clone(),
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

    /// The file of frozen weights in the checkpoint that was completed before this one, or in the one that the trainer has read, if
    /// it has them as they are.
    pub(super) fn kept(&self, rank: usize) -> Option<&FrozenFile> {
        let mut kept = self.buffer.kept.iter().chain(&self.read);
        kept.find_map(|kept| kept.file_of(&self.frozen, rank))
    }

    /// Writes the file of what steps change, if this rank has any, into the folder of the checkpoint, which it makes if it is not
    /// there.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] and [`Error::File`] if the disk refuses.
    pub(super) fn write(
        &self,
        disk: &dyn Disk,
        dir: &Path,
        rank: usize,
    ) -> Result<Option<ShardRecord>> {
        let writing = Writer::dir_of_step(dir, self.step);
        // Another rank may have made it, but none if this one runs again alone.
        disk.create_dir(&writing).map_err(Error::file(&writing))?;
        let pieces = self.pieces.iter().map(|own| own.piece(self.buffer.bytes()));
        let pieces: Vec<Piece> = pieces.collect();
        match pieces.is_empty() {
            true => Ok(None),
            false => Ok(Some(write_shard_on(disk, &writing, rank, &pieces)?)),
        }
    }

    /// Notes that the checkpoint of these files is complete.
    pub(crate) fn complete(&mut self, files: OwnFiles) {
        let version = self.frozen.version;
        self.buffer.kept = files.frozen.map(|file| Kept { file, version });
        self.buffer.completed = Some(self.step);
    }

    /// Refuses numbers that are not finite, among what steps change: such a checkpoint would take the place of good ones.
    ///
    /// # Errors
    /// [`Error::NotFinite`] with the first tensor that has one.
    pub(crate) fn check_finite(&self) -> Result<()> {
        let is_finite =
            |own: &&OwnPiece| is_finite(own.record.dtype, &self.buffer.bytes()[own.bytes.clone()]);
        match self.pieces.iter().find(|own| !is_finite(own)) {
            None => Ok(()),
            Some(own) => Err(Error::NotFinite {
                step: self.step,
                name: own.record.name.clone(),
            }),
        }
    }
}

impl Trainer {
    /// Bytes of the host's memory that this rank's copy of weights and state takes while a checkpoint is written. There is none of
    /// frozen weights.
    pub fn snapshot_bytes(&self) -> usize {
        plan(self).num_bytes
    }
}

/// What this rank writes of frozen weights.
pub(super) fn frozen_pieces(trainer: &Trainer) -> FrozenPieces {
    plan(trainer).frozen
}

/// What this rank writes, and in which of the tensors that all ranks pass it lies.
#[derive(Default)]
struct SnapshotPlan {
    pieces: Vec<OwnPiece>,
    frozen: FrozenPieces,
    // For each parameter of each part that steps change, its type and place in the buffer, if this rank writes it.
    owns: Vec<Option<(DType, Range<usize>)>>,
    num_bytes: usize,
}

fn plan(trainer: &Trainer) -> SnapshotPlan {
    let options = trainer.parameters().options();
    let (mut plan, mut shares) = (SnapshotPlan::default(), Shares::new(trainer));
    for (prefix, part) in parts(options) {
        for parameter in trainer.parameters().with_part(part) {
            let is_own = shares.is_own(trainer, parameter);
            let record = || PieceRecord {
                name: format!("{prefix}{}", parameter.name()),
                dtype: options.dtype_of(part, parameter),
                global_shape: options.shape_of(part, parameter),
                layout: parameter.layout().clone(),
                index: options.own(part, parameter),
                offset: 0,
            };
            if is_frozen(part, parameter) {
                plan.frozen.pieces.push(is_own.then(record));
                continue;
            }
            plan.owns.push(is_own.then(|| {
                let record = record();
                let dtype = record.dtype;
                let end = plan.num_bytes + record.index.num_elements() * dtype.bytes();
                let bytes = std::mem::replace(&mut plan.num_bytes, end)..end;
                let own = bytes.clone();
                plan.pieces.push(OwnPiece { record, bytes });
                (dtype, own)
            }));
        }
    }
    plan.frozen.version = trainer.parameters().frozen_version();
    plan
}

// Whether no step changes this part of a parameter.
fn is_frozen(part: Part, parameter: &Parameter) -> bool {
    part == Part::Weights && parameter.is_frozen()
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
pub(super) fn copy(dtype: DType, tensor: &Tensor, bytes: &mut [u8]) -> Result<()> {
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

pub(super) fn is_finite(dtype: DType, bytes: &[u8]) -> bool {
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
