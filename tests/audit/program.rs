//! The program, and runs of a small model.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};
use tempfile::TempDir;

/// How a command ended.
#[derive(Debug)]
pub struct Ended {
    pub status: u8,
    pub stdout: String,
    pub stderr: String,
}

/// Runs the program, which leaves no temporary file.
pub fn fascicle(arguments: &[&str]) -> Ended {
    let temporary = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_fascicle"))
        .args(arguments)
        .env("TMPDIR", temporary.path())
        .output()
        .unwrap();
    let left = fs::read_dir(&temporary).unwrap().count();
    assert_eq!(left, 0, "{arguments:?} left temporary files");
    Ended {
        status: output.status.code().unwrap_or(255) as u8,
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

/// Runs in a folder of their own, with a checkpoint after each step.
pub struct Runs {
    dir: TempDir,
    data: PathBuf,
}

const SMALL: &str = "--batch 8 --micro-batches 2 --set model.hidden=32 --set model.layers=2 --set model.heads=2 --set \
                     model.context=16 --set training.validation_batches=1 --set training.checkpoint_every=1 --set \
                     training.keep_checkpoints=9 --set training.warmup_steps=2 --set model.dropout=0.1";

impl Runs {
    pub fn new() -> Runs {
        let dir = tempfile::tempdir().unwrap();
        let mut runs = Runs {
            data: PathBuf::new(),
            dir,
        };
        runs.data = runs.text("text.txt", "the quick brown fox jumps over the lazy dog\n");
        runs
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A file with this line many times.
    pub fn text(&self, name: &str, line: &str) -> PathBuf {
        fs::write(self.path(name), line.repeat(400)).unwrap();
        self.path(name)
    }

    /// Trains a new run; returns its folder.
    pub fn train(&self, name: &str, steps: u64, flags: &[&str]) -> PathBuf {
        let (dir, steps) = (self.path(name), steps.to_string());
        let own = [
            "--out",
            dir.to_str().unwrap(),
            "--steps",
            &steps,
            "--data",
            self.data.to_str().unwrap(),
            "--grid",
            "x=1",
        ];
        let small: Vec<&str> = SMALL.split_whitespace().collect();
        let ended = fascicle(&[&["train"], &own[..], &small, flags].concat());
        assert_eq!(ended.status, 0, "{ended:?}");
        dir
    }

    /// Copies a checkpoint of a run into a new run, and resumes that.
    pub fn resume(&self, run: &str, name: &str, step: u64, flags: &[&str]) -> PathBuf {
        let (from, dir) = (self.checkpoint(run, step), self.path(name));
        let to = self.checkpoint(name, step);
        fs::create_dir_all(&to).unwrap();
        for entry in fs::read_dir(&from).unwrap() {
            let path = entry.unwrap().path();
            fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
        }
        let ended = fascicle(&[&["train", "--resume", dir.to_str().unwrap()], flags].concat());
        assert_eq!(ended.status, 0, "{ended:?}");
        dir
    }

    pub fn checkpoint(&self, run: &str, step: u64) -> PathBuf {
        train::checkpoint::path_of_step(&self.path(run).join("checkpoints"), step)
    }

    pub fn root(&self) -> &Path {
        self.dir.path()
    }
}
