//! Files read by position. A file that another program cuts short is then an error, where a mapped one would end the
//! process.

use crate::{Error, Result};
use hal::files;
use std::{
    fs::File,
    io,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

/// Bytes that a [`Window`] reads at once, so that a box with short rows does not cost a system call per row.
const WINDOW_BYTES: usize = 1 << 20;

/// An open file.
#[derive(Debug)]
pub(crate) struct SourceFile {
    path: PathBuf,
    file: File,
    len: u64,
}

impl SourceFile {
    /// Opens a regular file.
    pub(crate) fn open(path: &Path) -> Result<SourceFile> {
        let open = || {
            let file = files::open(path)?;
            io::Result::Ok((file.metadata()?.len(), file))
        };
        let (len, file) = open().map_err(Error::io("opening", path))?;
        Ok(SourceFile {
            path: path.to_owned(),
            file,
            len,
        })
    }

    /// The same of a file that may not be there.
    ///
    /// # Errors
    /// [`Error::Missing`]; those of [`open`](SourceFile::open).
    pub(crate) fn find(path: &Path) -> Result<SourceFile> {
        match path.exists() {
            true => SourceFile::open(path),
            false => Err(Error::Missing {
                path: path.to_owned(),
            }),
        }
    }

    /// Its bytes when it was opened.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Fills `out` with the bytes from `start` on.
    pub(crate) fn read(&self, start: u64, out: &mut [u8]) -> Result<()> {
        let read = self.file.read_exact_at(out, start);
        read.map_err(Error::io("reading", &self.path))
    }

    /// The `len` bytes from `start` on, for reading front to back.
    pub(crate) fn window(&self, start: u64, len: usize) -> Window<'_> {
        Window {
            file: self,
            start,
            len,
            held_from: 0,
            held: Vec::new(),
        }
    }
}

/// A part of a file. Short reads go through a buffer that reads ahead; long ones go straight to their target.
pub(crate) struct Window<'a> {
    file: &'a SourceFile,
    start: u64,
    len: usize,
    held_from: usize,
    held: Vec<u8>,
}

impl Window<'_> {
    /// Fills `out` with the bytes from `from` on, counted from the start of the window.
    ///
    /// # Panics
    /// When they end past the window: the caller's bug.
    pub(crate) fn read(&mut self, from: usize, out: &mut [u8]) -> Result<()> {
        let end = from + out.len();
        assert!(
            end <= self.len,
            "a bug: {from}..{end} of {} bytes",
            self.len
        );
        if out.len() >= WINDOW_BYTES {
            return self.file.read(self.start + from as u64, out);
        }
        if from < self.held_from || end > self.held_from + self.held.len() {
            self.held.resize(WINDOW_BYTES.min(self.len - from), 0);
            self.held_from = from;
            let read = self.file.read(self.start + from as u64, &mut self.held);
            if read.is_err() {
                self.held.clear();
            }
            read?;
        }
        let at = from - self.held_from;
        out.copy_from_slice(&self.held[at..at + out.len()]);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn numbered(len: usize) -> (tempfile::NamedTempFile, Vec<u8>) {
        let bytes: Vec<u8> = (0..len).map(|at| (at * 31 % 251) as u8).collect();
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), &bytes).unwrap();
        (file, bytes)
    }

    #[test]
    fn a_window_reads_what_the_file_holds_in_any_order_and_length() {
        let (file, bytes) = numbered(3 * WINDOW_BYTES + 5);
        let source = SourceFile::open(file.path()).unwrap();
        let (start, len) = (7, 3 * WINDOW_BYTES - 10);
        let mut window = source.window(start as u64, len);
        let reads = [
            (0, 3),
            (WINDOW_BYTES - 1, 5),
            (20, WINDOW_BYTES),
            (10, 4),
            (len - 2, 2),
            (len, 0),
            (0, len),
        ];
        for (from, count) in reads {
            let mut out = vec![0; count];
            window.read(from, &mut out).unwrap();
            assert!(
                out == bytes[start + from..][..count],
                "{count} bytes from {from}"
            );
        }
    }

    #[test]
    fn a_file_that_shrinks_is_an_error() {
        let (file, _) = numbered(100);
        let source = SourceFile::open(file.path()).unwrap();
        file.as_file().set_len(50).unwrap();
        let mut window = source.window(0, 100);
        assert!(window.read(0, &mut [0; 60]).is_err());
        assert!(window.read(0, &mut [0; 40]).is_err());
        assert_eq!(source.len(), 100);
    }

    #[test]
    fn only_regular_files_are_opened() {
        let error = SourceFile::open(Path::new("/dev/zero")).unwrap_err();
        assert_eq!(
            error.to_string(),
            "checkpoint: opening /dev/zero: found a device, needs a regular file"
        );
    }
}
