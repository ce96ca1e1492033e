//! A disk that writes when it is let, or is full.

use std::{
    io::{self, Write},
    path::Path,
    sync::{Arc, Condvar, Mutex},
};
use train::checkpoint::{Disk, FileSystem, Stored};

/// What happens to the bytes of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gate {
    /// They wait, and so does the creation of files: no byte of a copy is read before the gate opens.
    Closed,
    /// They are written.
    Open,
    /// The disk refuses those of the file of this rank.
    FullFor(usize),
}

/// The file system behind a gate, which all ranks share.
#[derive(Debug)]
pub struct Gated(Arc<(Mutex<Gate>, Condvar)>);

impl Gated {
    pub fn new(gate: Gate) -> Arc<Gated> {
        Arc::new(Gated(Arc::new((Mutex::new(gate), Condvar::new()))))
    }

    pub fn set(&self, gate: Gate) {
        *hal::lock(&self.0.0) = gate;
        self.0.1.notify_all();
    }
}

fn pass(gate: &(Mutex<Gate>, Condvar)) -> Gate {
    let mut now = hal::lock(&gate.0);
    while *now == Gate::Closed {
        now = gate.1.wait(now).unwrap();
    }
    *now
}

impl Disk for Gated {
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        FileSystem.create_dir(path)
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn Stored>> {
        pass(&self.0);
        Ok(Box::new(GatedFile {
            name: path.file_name().unwrap().to_string_lossy().into_owned(),
            file: FileSystem.create(path)?,
            gate: self.0.clone(),
        }))
    }

    fn link(&self, file: &Path, name: &Path) -> io::Result<()> {
        FileSystem.link(file, name)
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

struct GatedFile {
    name: String,
    file: Box<dyn Stored>,
    gate: Arc<(Mutex<Gate>, Condvar)>,
}

impl Write for GatedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let refused = match pass(&self.gate) {
            Gate::FullFor(rank) => self.name.starts_with(&format!("shard-{rank:05}")),
            Gate::Closed | Gate::Open => false,
        };
        match refused {
            true => Err(io::ErrorKind::StorageFull.into()),
            false => self.file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Stored for GatedFile {
    fn sync(&mut self) -> io::Result<()> {
        self.file.sync()
    }
}
