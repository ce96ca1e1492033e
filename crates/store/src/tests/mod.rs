//! Copies to stores that fail: `faulty` is such a store.

mod faulty;

use crate::StoreFolder;
use checkpoint::{
    CheckpointStore, Error, Limit, Piece, Retention, Sections, Writer, prune_store, pull,
    write_shard,
};
use faulty::{Fault, FaultyStore};
use grid::IndexBox;
use hal::DType;
use object_store::memory::InMemory;
use proptest::prelude::*;
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

/// More than two pieces of an upload.
const LARGE: usize = 18 << 20;

fn limit() -> Limit {
    Limit::after(Duration::from_secs(60))
}

/// Writes a checkpoint of two files whose bytes depend on `seed`.
fn checkpoint(dir: &Path, step: u64, elements: [usize; 2], seed: usize) -> PathBuf {
    let writer = Writer::begin(dir, step).unwrap();
    let records = elements.iter().enumerate().map(|(rank, elements)| {
        let byte = |index: usize| ((index * 31 + index / 257 + seed) % 251) as u8;
        let bytes: Vec<u8> = (0..*elements).map(byte).collect();
        let piece = Piece {
            name: ["a", "b"][rank],
            dtype: DType::U8,
            global_shape: &[*elements],
            layout: &"[-]".parse().unwrap(),
            index: IndexBox::full(&[*elements]),
            bytes: &bytes,
        };
        write_shard(writer.dir(), rank, &[piece]).unwrap()
    });
    let records = records.collect();
    let sections = Sections {
        validation_loss: Some(10.0 - (step % 7) as f64),
        ..Sections::default()
    };
    writer.commit(records, sections).unwrap()
}

fn bytes(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(folder).unwrap().map(Result::unwrap);
    let file = |entry: fs::DirEntry| {
        let name = entry.file_name().into_string().unwrap();
        (name, fs::read(entry.path()).unwrap())
    };
    entries.map(file).collect()
}

fn over(store: &Arc<FaultyStore>) -> StoreFolder {
    StoreFolder::over(store.clone(), "some/run".into(), "test://some/run").unwrap()
}

// All that a store lists can be pulled, with the bytes of one of the checkpoints that were written.
fn check(store: &Arc<FaultyStore>, written: &[&Path]) -> Vec<u64> {
    store.heal();
    let (folder, out) = (over(store), tempfile::tempdir().unwrap());
    let steps = folder.steps(&limit()).unwrap();
    for step in &steps {
        let path = pull(&folder, Some(*step), out.path(), &limit()).unwrap();
        let pulled = bytes(&path);
        let is_one = written.iter().any(|path| bytes(path) == pulled);
        assert!(is_one, "step {step} has the bytes of no checkpoint");
    }
    steps
}

// Lets the store fail at each of its operations in turn; `work` then ends with an error, or is done.
fn at_each_operation(fault: Fault, work: impl Fn(Arc<FaultyStore>) -> bool) -> usize {
    for operation in 0.. {
        let store = Arc::new(FaultyStore::over(InMemory::new()));
        store.fail_at(operation, fault);
        if work(store) {
            return operation;
        }
    }
    unreachable!()
}

#[test]
fn a_push_that_fails_anywhere_leaves_whole_checkpoints() {
    let dir = tempfile::tempdir().unwrap();
    let first = checkpoint(&dir.path().join("a"), 3, [5, 40], 1);
    let large = checkpoint(&dir.path().join("a"), 7, [LARGE, 9], 2);
    for fault in [Fault::Refuse, Fault::Tear, Fault::Full] {
        let num_operations = at_each_operation(fault, |store| {
            let is_done = [&first, &large].map(|path| over(&store).push(path, &limit()).is_ok());
            let steps = check(&store, &[&first, &large]);
            let done: Vec<u64> = (is_done.iter().zip([3, 7]))
                .filter(|(done, _)| **done)
                .map(|(_, step)| step)
                .collect();
            assert!(
                done.iter().all(|step| steps.contains(step)),
                "{steps:?} of {done:?}"
            );
            // Another attempt completes what is missing.
            for path in [&first, &large] {
                over(&store).push(path, &limit()).unwrap();
            }
            assert_eq!(check(&store, &[&first, &large]), [3, 7]);
            is_done == [true, true]
        });
        assert!(num_operations >= 10, "{num_operations} operations");
    }
}

#[test]
fn a_replacement_that_fails_anywhere_mixes_no_files() {
    let dir = tempfile::tempdir().unwrap();
    let old = checkpoint(&dir.path().join("old"), 3, [50, 40], 1);
    let new = checkpoint(&dir.path().join("new"), 3, [50, 40], 2);
    for fault in [Fault::Refuse, Fault::Tear] {
        at_each_operation(fault, |store| {
            let operation = store.heal();
            over(&store).push(&old, &limit()).unwrap();
            store.fail_at(operation.unwrap(), fault);
            let is_done = over(&store).push(&new, &limit()).is_ok();
            let written: [&Path; 2] = [&new, if is_done { &new } else { &old }];
            let steps = check(&store, &written);
            assert!(!is_done || steps == [3]);
            is_done
        });
    }
}

#[test]
fn a_removal_that_fails_anywhere_leaves_whole_checkpoints() {
    let dir = tempfile::tempdir().unwrap();
    let paths = [1, 2, 3, 4].map(|step| checkpoint(dir.path(), step, [5, 6], step as usize));
    let retention = Retention {
        best: true,
        ..Retention::newest(1)
    };
    at_each_operation(Fault::Refuse, |store| {
        let operation = store.heal();
        for path in &paths {
            over(&store).push(path, &limit()).unwrap();
        }
        store.fail_at(operation.unwrap(), Fault::Refuse);
        let pruned = prune_store(&over(&store), &retention, &limit());
        let steps = check(&store, &paths.each_ref().map(|path| path.as_path()));
        assert!(steps.contains(&4), "{steps:?}");
        if let Ok(removed) = &pruned {
            // Losses fall with the step, so the newest is the best too.
            assert_eq!(
                (removed.as_slice(), steps.as_slice()),
                (&[1, 2, 3][..], &[4][..])
            );
            assert_eq!(store.num_objects(), 3);
        }
        pruned.is_ok()
    });
}

#[test]
fn a_fault_that_passes_is_not_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let path = checkpoint(dir.path(), 3, [LARGE, 40], 1);
    let store = Arc::new(FaultyStore::over(InMemory::new()));
    store.fail_at(4, Fault::Once);
    assert!(over(&store).push(&path, &limit()).unwrap() > LARGE as u64);
    assert_eq!(check(&store, &[&path]), [3]);
    // What is there is not copied again.
    assert_eq!(over(&store).push(&path, &limit()).unwrap(), 0);
    store.fail_at(4, Fault::Once);
    pull(&over(&store), None, &dir.path().join("out"), &limit()).unwrap();
}

#[test]
fn nothing_waits_longer_than_its_limit() {
    let dir = tempfile::tempdir().unwrap();
    let path = checkpoint(dir.path(), 3, [LARGE, 40], 1);
    let store = Arc::new(FaultyStore::over(InMemory::new()));
    over(&store).push(&path, &limit()).unwrap();
    store.fail_at(3, Fault::Hang);
    let begun = Instant::now();
    let said = |result: checkpoint::Result<()>| result.unwrap_err().to_string();
    let short = || Limit::after(Duration::from_secs(1));
    let pulled = pull(&over(&store), None, &dir.path().join("out"), &short());
    assert!(said(pulled.map(drop)).ends_with("it was not done after 1 s"));
    assert_eq!(fs::read_dir(dir.path().join("out")).unwrap().count(), 0);
    let cancelled = Limit::or(Duration::from_secs(60), move || {
        begun.elapsed().as_secs() >= 2
    });
    assert!(said(over(&store).push(&path, &cancelled).map(drop)).ends_with("it was told to end"));
    assert!(begun.elapsed() < Duration::from_secs(10));
}

#[test]
fn damage_is_found_on_both_ways() {
    let dir = tempfile::tempdir().unwrap();
    let path = checkpoint(dir.path(), 3, [50, 40], 1);
    let store = Arc::new(FaultyStore::over(InMemory::new()));
    over(&store).push(&path, &limit()).unwrap();
    store.flip("some/run/step-00000003/shard-00001.safetensors");
    let pulled = pull(&over(&store), None, &dir.path().join("out"), &limit());
    assert!(matches!(pulled, Err(Error::Damaged { .. })), "{pulled:?}");
    assert_eq!(fs::read_dir(dir.path().join("out")).unwrap().count(), 0);
    let mut shard = fs::read(path.join("shard-00000.safetensors")).unwrap();
    *shard.last_mut().unwrap() ^= 1;
    fs::write(path.join("shard-00000.safetensors"), shard).unwrap();
    store.clear();
    let pushed = over(&store).push(&path, &limit());
    assert!(matches!(pushed, Err(Error::Damaged { .. })), "{pushed:?}");
    assert!(check(&store, &[]).is_empty());
}

#[test]
fn what_is_not_there_is_named() {
    let store = Arc::new(FaultyStore::over(InMemory::new()));
    let dir = tempfile::tempdir().unwrap();
    let said = |step| {
        pull(&over(&store), step, dir.path(), &limit())
            .unwrap_err()
            .to_string()
    };
    assert_eq!(
        said(None),
        "checkpoint store test://some/run: found no complete checkpoint, needs one"
    );
    let path = checkpoint(dir.path(), 3, [50, 40], 1);
    over(&store).push(&path, &limit()).unwrap();
    let text = "checkpoint store test://some/run: found no step 4; its newest is 3, needs step 4";
    assert_eq!(said(Some(4)), text);
}

#[test]
fn a_folder_is_a_store_too() {
    let dir = tempfile::tempdir().unwrap();
    let path = checkpoint(&dir.path().join("run"), 3, [LARGE, 40], 1);
    let url = format!("file://{}/a store", dir.path().display());
    let store = StoreFolder::open(&url).unwrap();
    store.push(&path, &limit()).unwrap();
    let pulled = pull(&store, None, &dir.path().join("out"), &limit()).unwrap();
    assert_eq!(bytes(&pulled), bytes(&path));
    assert_eq!(
        bytes(&dir.path().join("a store/step-00000003")),
        bytes(&path)
    );
    store.remove(3, &limit()).unwrap();
    assert!(store.steps(&limit()).unwrap().is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn any_history_of_faults_leaves_whole_checkpoints(
        faults in prop::collection::vec((0_usize..24, 0_usize..3, 1_u64..5, 0_usize..3, any::<bool>()), 1..8)
    ) {
        let dir = tempfile::tempdir().unwrap();
        let mut paths = Vec::new();
        let store = Arc::new(FaultyStore::over(InMemory::new()));
        for (operation, fault, step, seed, prunes) in faults {
            let path = checkpoint(&dir.path().join(seed.to_string()), step, [30, 40], seed);
            store.fail_at(operation, [Fault::Refuse, Fault::Tear, Fault::Full][fault]);
            let is_done = over(&store).push(&path, &limit()).is_ok();
            if prunes {
                let _ = prune_store(&over(&store), &Retention::newest(2), &limit());
            }
            paths.push(path);
            let all: Vec<&Path> = paths.iter().map(PathBuf::as_path).collect();
            let steps = check(&store, &all);
            prop_assert!(!is_done || prunes || steps.contains(&step));
        }
    }
}
