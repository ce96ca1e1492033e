//! Tensors that do not change are stored once.

use super::{Whole, dying::Dying, grid, holds, names, save_with_frozen, sections};
use crate::{
    FileSystem, FrozenFile, PieceRecord, Reader, Result, Retention, Stored, Writer, disk::Disk,
    path_of_step, prune,
};
use grid::{IndexBox, Layout};
use hal::DType;
use std::{fs, io, os::unix::fs::MetadataExt, path::Path, sync::Arc};

const GRID: &str = "x=2";

fn frozen(seed: u64) -> Vec<Whole> {
    vec![Whole::new("frozen", DType::F32, &[4, 6], "[x | -]", seed)]
}

fn save(dir: &Path, step: u64, seed: u64, files: &mut Vec<FrozenFile>) {
    save_on(Dying::never(), dir, step, seed, files).unwrap();
}

fn save_on(
    disk: Arc<dyn Disk>,
    dir: &Path,
    step: u64,
    seed: u64,
    files: &mut Vec<FrozenFile>,
) -> Result<()> {
    let (grid, frozen) = (grid(GRID), frozen(seed));
    let frozen = (&frozen[..], files);
    let sections = sections(&grid);
    save_with_frozen(
        &disk,
        (dir, step),
        &grid,
        &super::model(step),
        frozen,
        sections,
    )
    .map(drop)
}

// Names of the frozen file of each rank.
fn num_names(dir: &Path, step: u64) -> Vec<u64> {
    let folder = path_of_step(dir, step);
    let files = names(&folder).into_iter();
    let files = files.filter(|name| name.starts_with("frozen-"));
    files
        .map(|name| fs::metadata(folder.join(name)).unwrap().nlink())
        .collect()
}

fn holds_all(dir: &Path, step: u64, seed: u64) -> bool {
    let reader = Reader::open(path_of_step(dir, step)).unwrap();
    holds(&reader, &[super::model(step), frozen(seed)].concat())
}

#[test]
fn what_is_the_same_gets_a_second_name() {
    let (dir, mut files) = (tempfile::tempdir().unwrap(), Vec::new());
    let dir = dir.path();
    for step in 1..=3 {
        save(dir, step, 9, &mut files);
    }
    assert_eq!(num_names(dir, 1), [3, 3]);
    // It outlives the checkpoints before it, and another of the same step.
    prune(&*Dying::never(), dir, &Retention::newest(1)).unwrap();
    save(dir, 3, 9, &mut files);
    assert_eq!(num_names(dir, 3), [1, 1]);
    assert!(holds_all(dir, 3, 9));
}

#[test]
fn what_has_changed_is_written() {
    let (dir, mut files) = (tempfile::tempdir().unwrap(), Vec::new());
    let dir = dir.path();
    save(dir, 1, 9, &mut files);
    // Only who has changed them knows of it.
    files.clear();
    save(dir, 2, 11, &mut files);
    assert_eq!(num_names(dir, 2), [1, 1]);
    // What was cut short is no copy, and what is gone neither.
    let path = path_of_step(dir, 2);
    fs::write(path.join("frozen-00000.safetensors"), "").unwrap();
    fs::remove_file(path.join("frozen-00001.safetensors")).unwrap();
    save(dir, 3, 11, &mut files);
    assert_eq!(num_names(dir, 3), [1, 1]);
    assert!(holds_all(dir, 1, 9) && holds_all(dir, 3, 11));
}

#[test]
fn a_complete_checkpoint_is_asked_for_its_file() {
    let (dir, mut files) = (tempfile::tempdir().unwrap(), Vec::new());
    let dir = dir.path();
    save(dir, 1, 9, &mut files);
    let reader = Reader::open(path_of_step(dir, 1)).unwrap();
    let own = |rank: usize| -> Vec<PieceRecord> {
        let pieces = files[rank].record().pieces.iter();
        let unplaced = |piece: &PieceRecord| PieceRecord {
            offset: 0,
            ..piece.clone()
        };
        pieces.map(unplaced).collect()
    };
    let found = [0, 1].map(|rank| FrozenFile::found(&reader, rank, &own(rank)).unwrap());
    for (rank, file) in found.iter().enumerate() {
        assert_eq!(file.record(), files[rank].record());
        assert!(file.holds(rank, &own(rank)));
    }
    let mut files = found.to_vec();
    save(dir, 2, 9, &mut files);
    assert_eq!(num_names(dir, 2), [2, 2]);
    assert!(holds_all(dir, 2, 9));
    // One of another rank, of wider elements, of more tensors, and of none.
    let mut wider = own(0);
    wider[0].dtype = DType::F64;
    let more = [own(0), own(1)].concat();
    for (rank, pieces) in [(1, own(0)), (2, own(1)), (0, wider), (0, more), (0, vec![])] {
        assert!(FrozenFile::found(&reader, rank, &pieces).is_none());
    }
}

/// A disk without second names.
#[derive(Debug)]
struct Nameless;

impl Disk for Nameless {
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        FileSystem.create_dir(path)
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn Stored>> {
        FileSystem.create(path)
    }

    fn link(&self, _: &Path, _: &Path) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        FileSystem.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        FileSystem.remove(path)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        FileSystem.sync_dir(path)
    }
}

#[test]
fn without_second_names_the_file_is_copied_and_damage_is_noticed() {
    let (dir, mut files) = (tempfile::tempdir().unwrap(), Vec::new());
    let dir = dir.path();
    for step in 1..=2 {
        save_on(Arc::new(Nameless), dir, step, 9, &mut files).unwrap();
    }
    assert_eq!(num_names(dir, 2), [1, 1]);
    assert!(holds_all(dir, 1, 9) && holds_all(dir, 2, 9));
    let file = path_of_step(dir, 2).join("frozen-00001.safetensors");
    let mut bytes = fs::read(&file).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&file, bytes).unwrap();
    let refused = save_on(Arc::new(Nameless), dir, 3, 9, &mut files).unwrap_err();
    assert!(refused.to_string().contains("CRC-32"), "{refused}");
    assert!(Reader::open(path_of_step(dir, 3)).is_err());
}

#[test]
fn another_number_of_bytes_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let writer = Writer::begin(dir.path(), 1).unwrap();
    let index = IndexBox {
        start: vec![2],
        shape: vec![3],
    };
    let piece = PieceRecord {
        name: "w".into(),
        dtype: DType::F32,
        global_shape: vec![8],
        layout: Layout::replicated(1),
        index,
        offset: 0,
    };
    for given in [8, 16] {
        let place = (dir.path(), 1);
        let written = FrozenFile::write(
            &FileSystem,
            place,
            0,
            vec![piece.clone()],
            &mut |_, emit| emit(&vec![0; given]),
        );
        let needed = format!("tensor w, box [2..5] of rank 0: found {given} bytes, needs 12 bytes");
        assert!(written.unwrap_err().to_string().contains(&needed));
        assert_eq!(names(writer.dir()), [""; 0]);
    }
}
