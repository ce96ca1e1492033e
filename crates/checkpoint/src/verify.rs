//! Whether a checkpoint is as it was written, and which other one to offer if it is not.

use crate::{
    Error, Reader, Result,
    folder::{self, FolderKind, complete},
};
use hal::{
    error::{Bytes, Counted, Grouped},
    files,
};
use serde::Serialize;
use std::{
    collections::BTreeSet,
    fmt,
    io::{self, Read},
    path::Path,
};

const BUFFER_BYTES: usize = 1 << 20;

/// The facts of an intact checkpoint.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct VerifyReport {
    /// The checkpoint's step.
    pub step: u64,
    /// Files whose length and CRC-32 match those written.
    pub num_files: usize,
    /// Their bytes.
    pub num_bytes: u64,
    /// Tensors that the files cover exactly once.
    pub num_tensors: usize,
}

impl fmt::Display for VerifyReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = Bytes(usize::try_from(self.num_bytes).unwrap_or(usize::MAX));
        write!(
            f,
            "step {} is intact: {}, ",
            Grouped(self.step),
            Counted(self.num_tensors, "tensor")
        )?;
        write!(
            f,
            "each element stored once, in {} ({bytes}) with the CRC-32 written",
            Counted(self.num_files, "file")
        )
    }
}

impl Reader {
    /// Reads every file and checks its CRC-32. That the files cover every tensor exactly once was checked by
    /// [`Reader::open`].
    ///
    /// # Errors
    /// [`Error::Damaged`] for the first fault, with the name of an earlier intact checkpoint; [`Error::Io`].
    pub fn verify(&self) -> Result<VerifyReport> {
        self.verify_exactly().map_err(Error::with_offer)
    }

    /// The part `index` of [`Reader::verify`], where `count` ranks share its files.
    ///
    /// # Errors
    /// As [`Reader::verify`].
    pub fn verify_share(&self, index: usize, count: usize) -> Result<()> {
        (index..self.manifest.files.len())
            .step_by(count.max(1))
            .try_for_each(|file| self.check_sum(file))
            .map_err(Error::with_offer)
    }

    /// Like [`Reader::verify`], but reads only the files that hold these tensors.
    ///
    /// # Errors
    /// [`Error::UnknownTensor`], and those of [`Reader::verify`].
    pub fn verify_files_for(&self, names: impl IntoIterator<Item = impl AsRef<str>>) -> Result<()> {
        let mut files = BTreeSet::new();
        for name in names {
            files.extend(
                self.tensor(name.as_ref())?
                    .pieces
                    .iter()
                    .map(|piece| piece.file),
            );
        }
        files
            .into_iter()
            .try_for_each(|file| self.check_sum(file))
            .map_err(Error::with_offer)
    }

    fn verify_exactly(&self) -> Result<VerifyReport> {
        let files = &self.manifest.files;
        (0..files.len()).try_for_each(|file| self.check_sum(file))?;
        Ok(VerifyReport {
            step: self.step(),
            num_files: files.len(),
            num_bytes: files.iter().map(|file| file.bytes).sum(),
            num_tensors: self.manifest.tensors.len(),
        })
    }

    fn check_sum(&self, file: usize) -> Result<()> {
        self.check_length(file)?;
        let (path, entry) = (self.file_path(file), &self.manifest.files[file]);
        let found = sum(&path, entry.bytes).map_err(Error::io("reading", path))?;
        entry
            .check_sum(found)
            .map_err(|fault| Error::damaged(self.path(), fault))
    }
}

/// The CRC-32 of the first bytes of a file, which another program may be making longer.
fn sum(path: &Path, bytes: u64) -> io::Result<u32> {
    let (mut file, mut hasher) = (files::open(path)?.take(bytes), crc32fast::Hasher::new());
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hasher.finalize()),
            len => hasher.update(&buffer[..len]),
        }
    }
}

impl Error {
    /// Adds to damage the name of the newest earlier checkpoint beside it that is intact.
    pub(crate) fn with_offer(self) -> Error {
        match self {
            Error::Damaged { path, fault, .. } => {
                let offer = whole_before(&path);
                Error::Damaged { path, fault, offer }
            }
            other => other,
        }
    }
}

fn whole_before(path: &Path) -> Option<String> {
    // A name such as `run/.` or `.` contains no step.
    let path = path.canonicalize().ok()?;
    let (_, step) = FolderKind::parse(folder::name(&path))?;
    let earlier = complete(path.parent()?)
        .ok()?
        .into_iter()
        .rev()
        .filter(|(other, _)| *other < step);
    let is_whole = |path: &Path| {
        Reader::open_exactly(path)
            .and_then(|reader| reader.verify_exactly())
            .is_ok()
    };
    let mut whole = earlier.filter(|(_, path)| is_whole(path));
    whole.next().map(|(_, path)| folder::name(&path).to_owned())
}
