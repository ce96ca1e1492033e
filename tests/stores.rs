//! Runs whose checkpoints are copied to a store: what comes back when their folder is lost or damaged.
#![cfg(feature = "object-store")]

use std::{
    fs,
    path::{Path, PathBuf},
};
use testkit::{config_of_bytes, digest_of, ran, ranks, run_of_bytes};
use train::{
    checkpoint::path_of_step,
    config::CheckpointConfig,
    run::{Fallback, Resume, Run, recover_stored},
};

/// A run of three steps on two ranks, each with a checkpoint, all of which are in its store.
struct Stored {
    dir: tempfile::TempDir,
    this: Run,
}

impl Stored {
    fn new() -> Stored {
        let dir = tempfile::tempdir().unwrap();
        let mut config = config_of_bytes("x=2".parse().unwrap());
        (config.training.steps, config.training.checkpoint_every) = (3, 1);
        config.checkpoint = CheckpointConfig {
            store: Some(format!("file://{}/store", dir.path().display())),
            ..CheckpointConfig::default()
        };
        let this = run_of_bytes(config, &dir.path().join("run"));
        ran(&this).unwrap();
        Stored { dir, this }
    }

    fn run_dir(&self) -> PathBuf {
        self.dir.path().join("run")
    }

    fn checkpoint(&self, step: u64) -> PathBuf {
        path_of_step(&self.run_dir().join("checkpoints"), step)
    }

    /// A file of a checkpoint.
    fn shard(&self, step: u64) -> PathBuf {
        let entries = fs::read_dir(self.checkpoint(step)).unwrap();
        let mut paths = entries.map(|entry| entry.unwrap().path());
        let is_shard = |path: &PathBuf| path.extension().is_some_and(|end| end == "safetensors");
        paths.find(is_shard).unwrap()
    }

    /// What the ranks find before they resume.
    fn recover(&self) -> Result<Option<Fallback>, String> {
        let (dir, config) = (self.run_dir(), self.this.config.checkpoint.clone());
        let mut found = ranks(2, move |world, _| {
            Ok(recover_stored(&world, &dir, &config).map_err(|error| error.to_string()))
        });
        match (found.remove(0), found.remove(0)) {
            (Ok(one), Ok(other)) => {
                assert_eq!(one, other);
                Ok(one)
            }
            (Err(one), Err(_)) => Err(one),
            found => panic!("{found:?}"),
        }
    }
}

fn spoil(path: &Path) {
    let mut bytes = fs::read(path).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(path, bytes).unwrap();
}

#[test]
fn a_whole_run_takes_nothing_from_its_store() {
    let stored = Stored::new();
    assert_eq!(stored.recover(), Ok(None));
}

#[test]
fn a_lost_folder_comes_back_and_the_run_goes_on_as_undisturbed() {
    let stored = Stored::new();
    let expected = digest_of(&stored.checkpoint(3));
    fs::remove_dir_all(stored.run_dir()).unwrap();
    // A step earlier, so that the last one is made again.
    fs::remove_dir_all(path_of_step(&stored.dir.path().join("store"), 3)).unwrap();
    let fallback = stored.recover().unwrap().unwrap();
    assert!(fallback.path.ends_with("step-00000002"), "{fallback:?}");
    assert_eq!(fallback.set_aside, None);
    let mut this = stored.this.clone();
    this.resume = Some(Resume {
        checkpoint: fallback.path,
        any_change: false,
    });
    ran(&this).unwrap();
    assert_eq!(digest_of(&stored.checkpoint(3)), expected);
}

#[test]
fn a_damaged_checkpoint_is_replaced_and_named() {
    let stored = Stored::new();
    let expected = digest_of(&stored.checkpoint(3));
    let shard = stored.shard(3);
    spoil(&shard);
    let fallback = stored.recover().unwrap().unwrap();
    let name = shard.file_name().unwrap().to_string_lossy().into_owned();
    assert!(fallback.reason.contains(&name), "{fallback:?}");
    assert_eq!(fallback.path, stored.checkpoint(3));
    assert_eq!(digest_of(&stored.checkpoint(3)), expected);
    assert_eq!(stored.recover(), Ok(None));
}

// A disk that does not read may hold everything: nothing is replaced, and nothing loses its name.
#[test]
fn a_checkpoint_that_cannot_be_read_is_not_taken_for_damaged() {
    let stored = Stored::new();
    let shard = stored.shard(3);
    let bytes = fs::read(&shard).unwrap();
    fs::remove_file(&shard).unwrap();
    fs::create_dir(&shard).unwrap();
    let refused = stored.recover().unwrap_err();
    let name = shard.file_name().unwrap().to_string_lossy().into_owned();
    assert!(refused.contains(&name), "{refused}");
    assert!(shard.is_dir());
    fs::remove_dir(&shard).unwrap();
    fs::write(&shard, bytes).unwrap();
    assert_eq!(stored.recover(), Ok(None));
}
