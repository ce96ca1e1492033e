//! Rewrites a checkpoint for another grid.

use crate::{
    Error, Reader, Result, Sections, Writer,
    boxes::slabs,
    disk::{Disk, FileSystem},
    shard::{PieceRecord, write_records},
    stream::Emit,
};
use grid::{Axis, Coordinates, Grid, IndexBox};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

/// The most bytes of a tensor held at a time during a copy.
pub(crate) const SLAB_BYTES: usize = 16 << 20;

/// The most ranks that may write a file each.
const MOST_OWNERS: usize = 1 << 16;

/// Writes a checkpoint of the same step as the ranks of another grid would write it: one file per rank that
/// owns elements, with its boxes by the tensors' layouts.
///
/// Among ranks with the same elements, the owner is the one at coordinate 0 of the axes that replicate them. A
/// tensor lives on the pipeline stage that `stage_of` returns for its name. Memory holds one slab of 16 MiB at
/// a time. The source is verified first, because its damage would otherwise receive new, valid checksums. The
/// section `grid` becomes the new grid's, and the other sections are copied. `checkpoints_dir` may be the
/// source's own folder: the new checkpoint then replaces the source.
///
/// # Errors
/// [`Error::Stage`] if `stage_of` names a stage that the grid does not have; [`Error::Owners`] if more than 65536 ranks
/// would own elements; those of [`Reader::verify`],
/// [`Writer::begin`] and [`Writer::commit`]; [`Error::NoSpace`] or [`Error::Io`] if a shard cannot be written.
pub fn reshard(
    reader: &Reader,
    checkpoints_dir: &Path,
    grid: &Grid,
    stage_of: &dyn Fn(&str) -> usize,
) -> Result<PathBuf> {
    reshard_on(
        Arc::new(FileSystem),
        reader,
        checkpoints_dir,
        grid,
        stage_of,
    )
}

pub(crate) fn reshard_on(
    disk: Arc<dyn Disk>,
    reader: &Reader,
    checkpoints_dir: &Path,
    grid: &Grid,
    stage_of: &dyn Fn(&str) -> usize,
) -> Result<PathBuf> {
    check_stages(reader, grid, stage_of)?;
    let owners = owners(reader, grid)?;
    reader.verify()?;
    let writer = Writer::begin_on(disk.clone(), checkpoints_dir, reader.step())?;
    let mut records = Vec::new();
    for at in owners {
        let (rank, pieces) = (grid.rank(&at), owned(reader, grid, &at, stage_of));
        if !pieces.is_empty() {
            let sources: Vec<_> = pieces
                .iter()
                .map(|piece| (piece.name.clone(), piece.index.clone()))
                .collect();
            records.push(write_records(
                &*disk,
                writer.dir(),
                rank,
                pieces,
                &mut |piece, emit| copy(reader, &sources[piece].0, &sources[piece].1, emit),
            )?);
        }
    }
    let new_grid = serde_json::to_value(grid).expect("a bug: a grid is plain values");
    writer.commit(
        records,
        Sections {
            grid: new_grid,
            ..reader.sections().clone()
        },
    )
}

/// The positions of the ranks that may own elements, in the order of ranks: those at coordinate 0 of every axis that
/// cuts no tensor. Each of them writes a file.
fn owners(reader: &Reader, grid: &Grid) -> Result<Vec<Coordinates>> {
    let cuts = |axis: &Axis| {
        let mut tensors = reader.manifest.tensors.values();
        *axis == Axis::Pipeline || tensors.any(|tensor| tensor.info.layout.cuts(*axis).is_some())
    };
    let axes: Vec<Axis> = Axis::ALL.into_iter().filter(cuts).collect();
    let found = axes
        .iter()
        .map(|axis| grid.degree(*axis))
        .product::<usize>();
    if found > MOST_OWNERS {
        return Err(Error::Owners {
            found,
            needed: MOST_OWNERS,
        });
    }
    let mut owners = vec![Coordinates::default()];
    for axis in axes {
        let along = |at: &Coordinates| {
            let at = *at;
            (0..grid.degree(axis)).map(move |index| at.with(axis, index))
        };
        owners = owners.iter().flat_map(along).collect();
    }
    owners.sort_by_key(|at| grid.rank(at));
    Ok(owners)
}

/// Copies a box of a tensor, slab by slab.
pub(crate) fn copy(
    reader: &Reader,
    name: &str,
    index: &IndexBox,
    emit: &mut Emit<'_>,
) -> Result<()> {
    let info = reader.info(name)?;
    let max_elements = SLAB_BYTES / info.dtype.bytes();
    slabs(index, max_elements)
        .iter()
        .try_for_each(|slab| emit(&reader.read(name, &info.global_shape, slab)?))
}

fn check_stages(reader: &Reader, grid: &Grid, stage_of: &dyn Fn(&str) -> usize) -> Result<()> {
    let num_stages = grid.degree(Axis::Pipeline);
    let placed = reader.names().map(|name| (name, stage_of(name)));
    match placed.into_iter().find(|(_, stage)| *stage >= num_stages) {
        None => Ok(()),
        Some((name, stage)) => Err(Error::Stage {
            name: name.to_owned(),
            stage,
            num_stages,
        }),
    }
}

/// The pieces that the rank at these coordinates owns.
fn owned(
    reader: &Reader,
    grid: &Grid,
    at: &Coordinates,
    stage_of: &dyn Fn(&str) -> usize,
) -> Vec<PieceRecord> {
    let pieces = reader.manifest.tensors.iter().filter_map(|(name, tensor)| {
        let info = &tensor.info;
        let is_first = Axis::ALL
            .into_iter()
            .filter(|axis| info.layout.cuts(*axis).is_none())
            .all(|axis| {
                let owner = if axis == Axis::Pipeline {
                    stage_of(name)
                } else {
                    0
                };
                at[axis] == owner
            });
        let index = info.layout.local_box(&info.global_shape, grid, at);
        // A tensor without elements is still recorded; an empty shard of a tensor with elements is not.
        let holds = !index.is_empty() || info.global_shape.contains(&0);
        (is_first && holds).then(|| PieceRecord {
            name: name.clone(),
            dtype: info.dtype,
            global_shape: info.global_shape.clone(),
            layout: info.layout.clone(),
            index,
            offset: 0,
        })
    });
    pieces.collect()
}
