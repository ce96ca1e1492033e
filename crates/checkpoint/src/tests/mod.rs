//! Complete checkpoints: written by one grid, read by another, damaged, and written by processes that die.

mod damage;
mod death;
mod diff;
mod digest;
mod dying;
mod frozen;
mod hostile;
mod other_tools;
mod power;
mod refusals;
mod round_trip;

use super::{
    FrozenFile, Piece, PieceRecord, Reader, Result, Sections, Writer, disk::Disk, folder::MANIFEST,
    shard::write_shard_on,
};
use dying::Dying;
use grid::{AxisOrder, Grid, IndexBox, Layout};
use hal::DType;
use serde_json::json;
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

/// A checkpoints folder with folders of these names, each with a manifest.
pub(crate) fn folder(names: &[&str]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for name in names {
        fs::create_dir(dir.path().join(name)).unwrap();
        fs::write(dir.path().join(name).join(MANIFEST), name).unwrap();
    }
    dir
}

/// What a folder holds.
pub(crate) fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// A tensor as it would be on one machine with all the memory.
#[derive(Clone, Debug, PartialEq)]
struct Whole {
    name: String,
    dtype: DType,
    shape: Vec<usize>,
    layout: Layout,
    bytes: Vec<u8>,
}

impl Whole {
    /// A tensor whose bytes depend on a seed.
    fn new(name: &str, dtype: DType, shape: &[usize], layout: &str, seed: u64) -> Whole {
        let num_bytes = shape.iter().product::<usize>() * dtype.bytes();
        let byte = |at: usize| {
            ((at as u64 + 1)
                .wrapping_mul(seed | 1)
                .wrapping_mul(0x9E37_79B9_7F4A_7C15)
                >> 56) as u8
        };
        let bytes = (0..num_bytes).map(byte).collect();
        Whole {
            name: name.into(),
            dtype,
            shape: shape.to_vec(),
            layout: layout.parse().unwrap(),
            bytes,
        }
    }

    /// The bytes of a box, element by element.
    fn cut(&self, index: &IndexBox) -> Vec<u8> {
        let width = self.dtype.bytes();
        let elements = (0..index.num_elements()).map(|at| {
            let (mut at, mut stride, mut offset) = (at, 1, 0);
            for dim in (0..self.shape.len()).rev() {
                offset += (index.start[dim] + at % index.shape[dim]) * stride;
                at /= index.shape[dim];
                stride *= self.shape[dim];
            }
            offset
        });
        elements
            .flat_map(|offset| self.bytes[offset * width..][..width].iter().copied())
            .collect()
    }
}

fn grid(degrees: &str) -> Grid {
    Grid::new(degrees.parse().unwrap(), AxisOrder::default()).unwrap()
}

/// Writes tensors as the ranks of a grid would; the first rank that has a box writes it.
fn save(
    disk: &Arc<Dying>,
    dir: &Path,
    step: u64,
    grid: &Grid,
    wholes: &[Whole],
) -> Result<PathBuf> {
    let disk: Arc<dyn Disk> = disk.clone();
    save_with(&disk, dir, step, grid, wholes, sections(grid))
}

fn save_with(
    disk: &Arc<dyn Disk>,
    dir: &Path,
    step: u64,
    grid: &Grid,
    wholes: &[Whole],
    sections: Sections,
) -> Result<PathBuf> {
    let frozen = (&[][..], &mut Vec::new());
    save_with_frozen(disk, (dir, step), grid, wholes, frozen, sections)
}

/// As [`save_with`], with tensors that do not change, whose files the last call may have written.
fn save_with_frozen(
    disk: &Arc<dyn Disk>,
    (dir, step): (&Path, u64),
    grid: &Grid,
    wholes: &[Whole],
    (frozen, files): (&[Whole], &mut Vec<FrozenFile>),
    sections: Sections,
) -> Result<PathBuf> {
    let writer = Writer::begin_on(disk.clone(), dir, step)?;
    let (mut records, mut written) = (Vec::new(), Vec::new());
    let [wholes, frozen] = [wholes, frozen].map(|wholes| of_ranks(grid, wholes));
    for (rank, (own, frozen)) in wholes.iter().zip(&frozen).enumerate() {
        records.push(write_shard_on(&**disk, writer.dir(), rank, &pieces(own))?);
        if !frozen.is_empty() {
            let (place, pieces) = ((dir, step), pieces(frozen));
            let described: Vec<_> = pieces.iter().map(PieceRecord::from).collect();
            let earlier = files.get(rank);
            let file = match earlier.filter(|file| file.holds(rank, &described)) {
                Some(earlier) => earlier.again(&**disk, place)?,
                None => {
                    let disk = &**disk;
                    FrozenFile::write(disk, place, rank, described, &mut |piece, emit| {
                        // In two parts.
                        let (front, back) = pieces[piece].bytes.split_at(3);
                        emit(front).and_then(|()| emit(back))
                    })?
                }
            };
            records.push(file.record().clone());
            written.push(file);
        }
    }
    // Serialised and back, as between ranks.
    let records = serde_json::from_str(&serde_json::to_string(&records).unwrap()).unwrap();
    let path = writer.commit(records, sections)?;
    *files = written;
    Ok(path)
}

/// Boxes of tensors, and their bytes.
type Cuts<'a> = Vec<(&'a Whole, IndexBox, Vec<u8>)>;

/// What each rank of a grid writes: the first that has a box does.
fn of_ranks<'a>(grid: &Grid, wholes: &'a [Whole]) -> Vec<Cuts<'a>> {
    let mut written = BTreeSet::new();
    let mut of_rank = |rank: usize| {
        let local = |whole: &Whole| {
            whole
                .layout
                .local_box(&whole.shape, grid, &grid.coordinates(rank))
        };
        let boxes = wholes.iter().map(|whole| (whole, local(whole)));
        let own = boxes.filter(|(whole, index)| {
            written.insert((&whole.name, index.start.clone(), index.shape.clone()))
        });
        own.map(|(whole, index)| {
            let bytes = whole.cut(&index);
            (whole, index, bytes)
        })
        .collect()
    };
    (0..grid.world_size()).map(&mut of_rank).collect()
}

fn pieces<'a>(cuts: &'a Cuts<'_>) -> Vec<Piece<'a>> {
    cuts.iter()
        .map(|(whole, index, bytes)| piece(whole, index, bytes))
        .collect()
}

fn piece<'a>(whole: &'a Whole, index: &IndexBox, bytes: &'a [u8]) -> Piece<'a> {
    let Whole {
        name,
        dtype,
        shape,
        layout,
        ..
    } = whole;
    Piece {
        name,
        dtype: *dtype,
        global_shape: shape,
        layout,
        index: index.clone(),
        bytes,
    }
}

fn sections(grid: &Grid) -> Sections {
    let grid = serde_json::to_value(grid).unwrap();
    Sections {
        trainer: json!({"cursor": u64::MAX, "scale": 0.1}),
        model: json!({"layers": 2}),
        grid,
        ..Default::default()
    }
}

/// Two tensors that grids cut in different ways.
fn model(seed: u64) -> Vec<Whole> {
    vec![
        Whole::new("w", DType::F32, &[3, 2], "[z | x]", seed),
        Whole::new("b", DType::Bf16, &[5], "[x]", seed),
        Whole::new("count", DType::U32, &[], "[]", seed),
    ]
}

/// Whether a checkpoint holds exactly these tensors and all its checksums match.
fn holds(reader: &Reader, wholes: &[Whole]) -> bool {
    let whole = |whole: &Whole| {
        reader
            .read(&whole.name, &whole.shape, &IndexBox::full(&whole.shape))
            .unwrap()
            == whole.bytes
    };
    reader.verify().is_ok() && reader.names().count() == wholes.len() && wholes.iter().all(whole)
}
