//! The disk operations that a file of pieces needs. They go through a trait, so that tests can let a disk be full or return
//! wrong bytes.

use rustix::fs::{FallocateFlags, fallocate};
use std::{
    fmt,
    fs::{self, File},
    io,
    ops::Range,
    os::unix::fs::FileExt,
    path::Path,
    sync::{Arc, LazyLock},
};

/// Where files of pieces are made.
pub trait Disk: fmt::Debug + Send + Sync {
    /// Makes a file in this folder, and the folder where it does not exist. The file has no name: no other run can meet it, and
    /// the system frees its space when the process ends, however it ends.
    ///
    /// # Errors
    /// The system's.
    fn create(&self, folder: &Path) -> io::Result<Box<dyn Scratch>>;
}

/// A file of pieces. It is read and written by position, from several threads at a time.
pub trait Scratch: fmt::Debug + Send + Sync {
    /// Appends this range of zeros, which starts at the file's end, and takes the space for it from the disk at once.
    ///
    /// # Errors
    /// The system's; [`io::ErrorKind::StorageFull`] if the disk has no room for it.
    fn reserve(&self, range: Range<u64>) -> io::Result<()>;

    /// Fills `bytes` with those from `offset` on.
    ///
    /// # Errors
    /// The system's.
    fn read(&self, bytes: &mut [u8], offset: u64) -> io::Result<()>;

    /// Writes `bytes` from `offset` on.
    ///
    /// # Errors
    /// The system's.
    fn write(&self, bytes: &[u8], offset: u64) -> io::Result<()>;
}

/// The file system.
#[derive(Debug)]
pub struct FileSystem;

impl Disk for FileSystem {
    fn create(&self, folder: &Path) -> io::Result<Box<dyn Scratch>> {
        fs::create_dir_all(folder)?;
        Ok(Box::new(tempfile::tempfile_in(folder)?))
    }
}

/// A disk of which several values speak: the file system, or one that a program brings. Two are equal if they are the same one.
#[derive(Clone, Debug)]
pub struct SharedDisk(pub Arc<dyn Disk>);

impl Default for SharedDisk {
    fn default() -> Self {
        static FILE_SYSTEM: LazyLock<Arc<dyn Disk>> = LazyLock::new(|| Arc::new(FileSystem));
        SharedDisk(FILE_SYSTEM.clone())
    }
}

impl PartialEq for SharedDisk {
    fn eq(&self, other: &SharedDisk) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for SharedDisk {}

/// Bytes of zeros that are written at a time where a file system cannot reserve space.
const BLOCK_BYTES: usize = 1 << 20;

impl Scratch for File {
    fn reserve(&self, range: Range<u64>) -> io::Result<()> {
        let len = range.end - range.start;
        match fallocate(self, FallocateFlags::empty(), range.start, len) {
            Err(rustix::io::Errno::OPNOTSUPP) => fill_with_zeros(self, range),
            other => Ok(other?),
        }
    }

    fn read(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        self.read_exact_at(bytes, offset)
    }

    fn write(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.write_all_at(bytes, offset)
    }
}

fn fill_with_zeros(file: &File, range: Range<u64>) -> io::Result<()> {
    let zeros = vec![0; BLOCK_BYTES];
    let mut offset = range.start;
    while offset < range.end {
        let len = (range.end - offset).min(BLOCK_BYTES as u64);
        file.write_all_at(&zeros[..len as usize], offset)?;
        offset += len;
    }
    Ok(())
}
