//! The disk operations that a file of pieces needs. They go through a trait, so that tests can let a disk be full or return
//! wrong bytes.

use rustix::fs::{FallocateFlags, fallocate};
use std::{
    fmt,
    fs::{self, File},
    io,
    os::unix::fs::FileExt,
    path::Path,
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
    /// Makes the file this long, filled with zeros, and takes the space for it from the disk at once.
    ///
    /// # Errors
    /// The system's; [`io::ErrorKind::StorageFull`] if the disk has no room for it.
    fn reserve(&self, bytes: u64) -> io::Result<()>;

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

/// Bytes of zeros that are written at a time where a file system cannot reserve space.
const BLOCK_BYTES: usize = 1 << 20;

impl Scratch for File {
    fn reserve(&self, bytes: u64) -> io::Result<()> {
        match fallocate(self, FallocateFlags::empty(), 0, bytes) {
            Err(rustix::io::Errno::OPNOTSUPP) => fill_with_zeros(self, bytes),
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

fn fill_with_zeros(file: &File, bytes: u64) -> io::Result<()> {
    let zeros = vec![0; BLOCK_BYTES];
    let mut offset = 0;
    while offset < bytes {
        let len = (bytes - offset).min(BLOCK_BYTES as u64);
        file.write_all_at(&zeros[..len as usize], offset)?;
        offset += len;
    }
    Ok(())
}
