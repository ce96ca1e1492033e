//! Maps a file into memory.

use crate::{Error, Result};
use memmap2::Mmap;
use std::{fs::File, path::Path};

/// Maps a file for reading: only the pages accessed are read from disk.
#[allow(unsafe_code)]
pub(crate) fn map(path: &Path) -> Result<Mmap> {
    let file = File::open(path).map_err(Error::io("opening", path))?;
    // SAFETY: a map is sound as long as nobody changes or shortens its file. Files of checkpoints and exports
    // are written under a hidden name and never opened for writing again. They disappear only by unlink, which
    // leaves maps intact. For a file that a user supplies, `PlainFile::open` states the same condition.
    unsafe { Mmap::map(&file) }.map_err(Error::io("mapping", path))
}
