//! Tensors that do not change are stored once.

use super::{Whole, dying::Dying, grid, holds, names, save_with_frozen, sections};
use crate::{FrozenFile, Reader, Retention, disk::Disk, path_of_step, prune};
use hal::DType;
use std::{fs, os::unix::fs::MetadataExt, path::Path, sync::Arc};

const GRID: &str = "x=2";

fn frozen(seed: u64) -> Vec<Whole> {
    vec![Whole::new("frozen", DType::F32, &[4, 6], "[x | -]", seed)]
}

fn save(dir: &Path, step: u64, seed: u64, files: &mut Vec<FrozenFile>) {
    let disk: Arc<dyn Disk> = Dying::never();
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
    .unwrap();
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
