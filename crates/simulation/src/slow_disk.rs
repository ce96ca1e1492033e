//! The disk of a simulated machine: its operations take virtual time.

use crate::pace::Pace;
use crate::power::disk::CutDisk;
use checkpoint::{Disk, Stored};
use hal::sync::{Mutex, Random, thread};
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// A disk that takes its time for each operation.
#[derive(Clone, Debug)]
pub struct SlowDisk {
    disk: CutDisk,
    pace: Arc<Mutex<Pace>>,
}

impl SlowDisk {
    /// A disk each of whose operations takes up to `longest`.
    pub fn new(disk: CutDisk, random: Random, longest: Duration) -> SlowDisk {
        SlowDisk {
            disk,
            pace: Arc::new(Mutex::new(Pace::new(random, longest))),
        }
    }

    /// The time of all operations.
    pub fn spent(&self) -> Duration {
        hal::lock(&self.pace).spent()
    }

    fn work(&self) {
        // The lock is free before the wait.
        let time = hal::lock(&self.pace).next();
        thread::sleep(time);
    }
}

impl Disk for SlowDisk {
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.work();
        self.disk.create_dir(path)
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn Stored>> {
        self.work();
        Ok(Box::new(SlowFile {
            disk: self.clone(),
            file: self.disk.create(path)?,
        }))
    }

    fn link(&self, file: &Path, name: &Path) -> io::Result<()> {
        self.work();
        self.disk.link(file, name)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.work();
        self.disk.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.work();
        self.disk.remove(path)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.work();
        self.disk.sync_dir(path)
    }
}

struct SlowFile {
    disk: SlowDisk,
    file: Box<dyn Stored>,
}

impl Write for SlowFile {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.disk.work();
        self.file.write(buffer)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Stored for SlowFile {
    fn sync(&mut self) -> io::Result<()> {
        self.disk.work();
        self.file.sync()
    }
}
