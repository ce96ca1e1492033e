//! A file as memory.

use crate::{Error, Result};
use memmap2::Mmap;
use std::{fs::File, path::Path};

/// Maps a file for reading: only the pages that are looked at are read from disk.
#[allow(unsafe_code)]
pub(crate) fn map(path: &Path) -> Result<Mmap> {
    let file = File::open(path).map_err(Error::io("opening", path))?;
    // SAFETY: a map is sound while nobody changes or shortens its file. Files of checkpoints and exports are written
    // under a hidden name, never opened for writing again, and go away only by unlink, which leaves maps alone; for a
    // file that a user brings, `PlainFile::open` states the same as its condition.
    unsafe { Mmap::map(&file) }.map_err(Error::io("mapping", path))
}
