//! The few things that are asked of a disk while a checkpoint is written.
//!
//! They pass through a trait so that tests can let the process die between any two of them, or within a write.

use std::{
    fmt,
    fs::{self, File},
    io::{self, Write},
    path::Path,
};

/// Where a checkpoint is written.
pub(crate) trait Disk: fmt::Debug + Send + Sync {
    /// Makes a folder and those above it.
    fn create_dir(&self, path: &Path) -> io::Result<()>;

    /// Makes a file that must not exist yet.
    fn create(&self, path: &Path) -> io::Result<Box<dyn Stored>>;

    /// Gives a file or folder another name on the same disk; an empty folder or a file of that name is replaced.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file, or a folder with all that it holds; what is not there needs no removal.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Makes the names within a folder outlast a power cut.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;
}

/// A file that is being written.
pub(crate) trait Stored: Write {
    /// Makes what was written outlast a power cut.
    fn sync(&mut self) -> io::Result<()>;
}

impl Stored for File {
    fn sync(&mut self) -> io::Result<()> {
        self.sync_all()
    }
}

/// The machine's own file system.
#[derive(Debug)]
pub(crate) struct Local;

impl Disk for Local {
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        fs::create_dir_all(path)
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn Stored>> {
        Ok(Box::new(File::create_new(path)?))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let removed = match path.is_dir() {
            true => fs::remove_dir_all(path),
            false => fs::remove_file(path),
        };
        removed.or_else(|error| {
            if error.kind() == io::ErrorKind::NotFound {
                Ok(())
            } else {
                Err(error)
            }
        })
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        // Elsewhere a folder cannot be opened as a file, and renames are kept by the system itself.
        if cfg!(unix) {
            File::open(path)?.sync_all()
        } else {
            Ok(())
        }
    }
}
