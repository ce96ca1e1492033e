//! Writes frozen weights, once in a run: a checkpoint takes over the file of the one before, and the first one of a resumed run that
//! of the checkpoint that was read.
//!
//! They may be most of a model, so no copy of them is made. While they are written, the steps wait, and the host holds a few MiB at
//! a time.

use super::{
    Trainer,
    disk_work::{Next, Pass, Patience},
    snapshot::{self, OwnFiles, Snapshot, copy, is_finite},
};
use crate::{
    Error, Result,
    checkpoint::{self, Disk, Emit, FrozenFile, PieceRecord, Reader},
};
use bootstrap::World;
use parallel::{Parameter, data::Part};
use std::path::Path;
use tensor::Tensor;

/// Elements that are copied to the host at a time.
const MOST_ELEMENTS: usize = 1 << 22;

/// The frozen weights that a rank writes.
#[derive(Debug, Default)]
pub(super) struct FrozenPieces {
    /// For each frozen parameter, in the order of the set, what this rank writes of it, if it does.
    pub(super) pieces: Vec<Option<PieceRecord>>,
    /// [`ParameterSet::frozen_version`](parallel::data::ParameterSet::frozen_version).
    pub(super) version: u64,
}

/// The file of frozen weights in a complete checkpoint, and their version.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    pub(super) file: FrozenFile,
    pub(super) version: u64,
}

impl Kept {
    /// That of a checkpoint which a trainer has just read, none of whose frozen weights it has rounded.
    pub(super) fn found(trainer: &Trainer, reader: &Reader) -> Option<Kept> {
        let weights = snapshot::frozen_pieces(trainer);
        let rank = trainer.context.world().rank();
        let file = FrozenFile::found(reader, rank, &weights.own())?;
        let version = weights.version;
        weights.is_any().then_some(Kept { file, version })
    }

    /// The file, if it is there and has these weights.
    pub(super) fn file_of(&self, weights: &FrozenPieces, rank: usize) -> Option<&FrozenFile> {
        let is_same = self.version == weights.version && self.file.holds(rank, &weights.own());
        is_same.then_some(&self.file)
    }
}

impl FrozenPieces {
    fn own(&self) -> Vec<PieceRecord> {
        self.pieces.iter().flatten().cloned().collect()
    }

    /// Whether this rank writes any.
    fn is_any(&self) -> bool {
        self.pieces.iter().any(Option::is_some)
    }
}

impl Snapshot {
    /// Whether a rank has frozen weights that no file holds as they are: then [`write_files`] needs the trainer. Collective.
    ///
    /// # Errors
    /// [`Error::Parallel`] if a rank does not answer.
    pub(super) fn needs_trainer(&self, world: &World) -> Result<bool> {
        let needs = self.frozen.is_any() && self.kept(world.rank()).is_none();
        Ok(world.everyone().any(needs)?)
    }
}

/// Writes this rank's files of a checkpoint into its folder. Frozen weights are read from the trainer, if it is given, unless an
/// earlier checkpoint has them. Collective.
///
/// # Errors
/// As [`Trainer::save`].
pub(super) fn write_files(
    world: &World,
    snapshot: &Snapshot,
    (disk, dir): (&dyn Disk, &Path),
    trainer: Option<&Trainer>,
) -> Result<OwnFiles> {
    let (rank, place) = (world.rank(), (dir, snapshot.step));
    let (own, kept) = (snapshot.frozen.own(), snapshot.kept(rank));
    let reads = trainer.filter(|_| !own.is_empty() && kept.is_none());
    let supply =
        |pass: &mut Pass<'_>| reads.map_or(Ok(()), |trainer| supply(trainer, snapshot, pass));
    let write = |next: &mut Next<'_>| {
        let changing = snapshot.write(disk, dir, rank)?;
        let frozen = match kept {
            _ if own.is_empty() => None,
            Some(kept) => Some(kept.again(disk, place)?),
            None => {
                let mut fill = |piece: usize, emit: &mut Emit<'_>| take(&own[piece], next, emit);
                Some(FrozenFile::write(
                    disk,
                    place,
                    rank,
                    own.clone(),
                    &mut fill,
                )?)
            }
        };
        Ok(OwnFiles { changing, frozen })
    };
    let mut patience = Patience::new(world);
    let own = patience.supply(supply, write);
    patience.finish(own)
}

// Passes on the bytes of the pieces that this rank writes.
fn supply(trainer: &Trainer, snapshot: &Snapshot, pass: &mut Pass<'_>) -> Result<()> {
    let mut pieces = snapshot.frozen.pieces.iter();
    let parameters = trainer.parameters();
    let visit = |_: &Parameter, tensor: Tensor| match pieces.next() {
        Some(Some(piece)) => {
            let elements = tensor.num_elements();
            (0..elements).step_by(MOST_ELEMENTS).try_for_each(|start| {
                let count = MOST_ELEMENTS.min(elements - start);
                let mut bytes = vec![0; count * piece.dtype.bytes()];
                copy(piece.dtype, &tensor.rows(start, count)?, &mut bytes)?;
                match is_finite(piece.dtype, &bytes) {
                    true => pass(bytes),
                    false => Err(Error::NotFinite {
                        step: snapshot.step,
                        name: piece.name.clone(),
                    }),
                }
            })
        }
        _ => Ok(()),
    };
    parameters.tensors_of::<Error>(Part::Weights, Parameter::is_frozen, visit)
}

// Gives the bytes of a piece to its file.
fn take(piece: &PieceRecord, next: &mut Next<'_>, emit: &mut Emit<'_>) -> checkpoint::Result<()> {
    let mut left = piece.index.num_elements() * piece.dtype.bytes();
    while left > 0 {
        // After a failure of the rank no more come: the file is refused as too short, and the rank reports the failure.
        let Some(bytes) = next() else {
            return Ok(());
        };
        left = left.saturating_sub(bytes.len());
        emit(&bytes)?;
    }
    Ok(())
}
