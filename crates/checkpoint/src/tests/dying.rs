//! A disk on which a process dies, or which becomes full, after a given number of bytes and operations.

use super::super::disk::{Disk, FileSystem, Stored};
use std::{
    fs,
    io::{self, Write},
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

/// The cost of an operation; a byte costs 1.
pub const OPERATION: u64 = 16;

/// Every byte and every operation has a cost. Once the budget is spent, every operation fails, or every write.
#[derive(Debug)]
pub struct Dying {
    left: Arc<AtomicU64>,
    full: bool,
    log: Mutex<Vec<String>>,
}

impl Dying {
    /// The process dies after this cost.
    pub fn after(budget: u64) -> Arc<Dying> {
        Arc::new(Dying {
            left: Arc::new(AtomicU64::new(budget)),
            full: false,
            log: Mutex::default(),
        })
    }

    /// The disk is full after this cost.
    pub fn full_after(budget: u64) -> Arc<Dying> {
        Arc::new(Dying {
            left: Arc::new(AtomicU64::new(budget)),
            full: true,
            log: Mutex::default(),
        })
    }

    /// A disk without limits that syncs nothing.
    pub fn never() -> Arc<Dying> {
        Dying::after(u64::MAX)
    }

    /// The part of the budget that has been spent.
    pub fn spent(&self, budget: u64) -> u64 {
        budget - self.left.load(Ordering::SeqCst)
    }

    /// The operations so far, in order.
    pub fn log(&self) -> Vec<String> {
        self.log.lock().unwrap().clone()
    }

    fn operation(&self, what: &str, path: &Path) -> io::Result<()> {
        if !self.full {
            spend(&self.left)?;
        }
        self.log.lock().unwrap().push(format!(
            "{what} {}",
            path.file_name().unwrap().to_string_lossy()
        ));
        Ok(())
    }

    /// Removes file by file, manifest last: the order that would mislead a reader longest.
    fn remove_all(&self, path: &Path) -> io::Result<()> {
        if path.is_dir() {
            let mut inside: Vec<_> = fs::read_dir(path)?
                .map(|entry| entry.unwrap().path())
                .collect();
            inside.sort();
            inside
                .iter()
                .rev()
                .try_for_each(|path| self.remove_all(path))?;
        }
        if path.exists() {
            self.operation("remove", path)?;
        }
        if path.is_dir() {
            fs::remove_dir(path)
        } else {
            FileSystem.remove(path)
        }
    }
}

impl Disk for Dying {
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.operation("make", path)?;
        FileSystem.create_dir(path)
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn Stored>> {
        self.operation("create", path)?;
        let file = fs::File::create_new(path)?;
        Ok(Box::new(DyingFile {
            file,
            left: self.left.clone(),
            full: self.full,
        }))
    }

    fn link(&self, file: &Path, name: &Path) -> io::Result<()> {
        self.operation("link", name)?;
        FileSystem.link(file, name)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.operation(
            &format!("rename {} to", from.file_name().unwrap().to_string_lossy()),
            to,
        )?;
        FileSystem.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.remove_all(path)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.operation("sync", path)
    }
}

struct DyingFile {
    file: fs::File,
    left: Arc<AtomicU64>,
    full: bool,
}

impl Write for DyingFile {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let taken = self.left.load(Ordering::SeqCst).min(buffer.len() as u64);
        if taken == 0 && !buffer.is_empty() {
            return Err(if self.full {
                io::ErrorKind::StorageFull.into()
            } else {
                killed()
            });
        }
        self.left.fetch_sub(taken, Ordering::SeqCst);
        self.file.write(&buffer[..taken as usize])
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Stored for DyingFile {
    fn sync(&mut self) -> io::Result<()> {
        if self.full { Ok(()) } else { spend(&self.left) }
    }
}

fn spend(left: &AtomicU64) -> io::Result<()> {
    let spent = left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| {
        left.checked_sub(OPERATION)
    });
    spent.map(|_| ()).map_err(|_| killed())
}

fn killed() -> io::Error {
    io::Error::other("killed")
}
