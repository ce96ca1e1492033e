//! Checkpoints of which each node holds a part, on a disk of its own or in its memory.
//!
//! A node's folder has the manifest of the whole checkpoint, the files that the node's ranks have written, and copies of another
//! node's files. [`Writer::commit_part`] completes such a folder. What a job has lost is then copied together from the nodes that
//! are left: [`Inventory`] says which files there are, and [`Assembly`] makes one checkpoint of them.

use crate::{
    Error, Result, ShardRecord, Writer,
    disk::Disk,
    folder::{MANIFEST, complete},
    manifest::{FileEntry, Manifest},
    reader::{own_length, read_manifest},
    stream::Summed,
};
use hal::files;
use std::{
    fmt,
    io::{self, Read, Write},
    path::{Path, PathBuf},
    sync::Arc,
};

const BUFFER_BYTES: usize = 1 << 20;

/// The files of a checkpoint, whichever of them a node holds.
#[derive(Clone, Debug)]
pub struct Inventory {
    manifest: Manifest,
}

impl Inventory {
    /// The complete parts in a node's folder, by ascending step, each with its path; none if there is no folder. A part whose
    /// manifest is damaged is passed over.
    ///
    /// # Errors
    /// [`Error::Io`] if the folder cannot be listed.
    pub fn of_parts(dir: &Path) -> Result<Vec<(PathBuf, Inventory)>> {
        let found = match complete(dir) {
            Err(Error::Missing { .. }) => Vec::new(),
            found => found?,
        };
        let read = |(_, path): (u64, PathBuf)| {
            let inventory = Inventory::read(&path).ok()?;
            Some((path, inventory))
        };
        Ok(found.into_iter().filter_map(read).collect())
    }

    /// From the manifest of a part.
    ///
    /// # Errors
    /// [`Error::Damaged`] if it is not as it was written; [`Error::Io`] if it cannot be read.
    pub fn read(part: &Path) -> Result<Inventory> {
        Inventory::decode(&read_manifest(part)?)
    }

    /// From the text of a manifest.
    ///
    /// # Errors
    /// [`Error::Damaged`] if it is not as it was written.
    pub fn decode(text: &[u8]) -> Result<Inventory> {
        let manifest = Manifest::decode(text);
        let manifest = manifest.map_err(|fault| Error::damaged(Path::new(MANIFEST), fault))?;
        Ok(Inventory { manifest })
    }

    /// The text of the manifest.
    pub fn text(&self) -> Vec<u8> {
        self.manifest.encode()
    }

    /// The CRC-32 of that text, which the parts of one checkpoint share.
    pub fn crc32(&self) -> u32 {
        crc32fast::hash(&self.text())
    }

    /// Training steps that led to the checkpoint.
    pub fn step(&self) -> u64 {
        self.manifest.step
    }

    /// The loss on data that no step trains on, if the step was validated.
    pub fn validation_loss(&self) -> Option<f64> {
        self.manifest.sections.validation_loss
    }

    /// The number of its files.
    pub fn num_files(&self) -> usize {
        self.manifest.files.len()
    }

    /// The name of a file.
    pub fn file_name(&self, file: usize) -> &str {
        &self.manifest.files[file].name
    }

    /// The length of a file.
    pub fn file_bytes(&self, file: usize) -> u64 {
        self.manifest.files[file].bytes
    }

    /// The bytes of all files.
    pub fn num_bytes(&self) -> u64 {
        self.manifest.files.iter().map(|file| file.bytes).sum()
    }

    /// Compares the length and the CRC-32 of a file's bytes with those that were written.
    ///
    /// # Errors
    /// [`Error::Damaged`], at `place`, with the difference.
    pub fn check(&self, file: usize, (bytes, crc32): (u64, u32), place: &Path) -> Result<()> {
        let entry = &self.manifest.files[file];
        let checked = entry.check_length(Some(bytes));
        let checked = checked.and_then(|()| entry.check_sum(crc32));
        checked.map_err(|fault| Error::damaged(place, fault))
    }

    /// The files that a node's part has in their full length.
    pub fn files_in(&self, part: &Path) -> Vec<usize> {
        let files = self.manifest.files.iter().enumerate();
        let here = files.filter(|(_, file)| {
            own_length(&part.join(&file.name)).is_ok_and(|length| length == file.bytes)
        });
        here.map(|(index, _)| index).collect()
    }

    /// Copies a file of a node's part into the folder of an [`Assembly`], and compares its bytes with the CRC-32 that was written.
    /// Returns what is wrong with the part's file, if anything is; nothing is left of its copy then.
    ///
    /// # Errors
    /// [`Error::NoSpace`] or [`Error::Io`] if the copy cannot be written.
    pub fn copy(
        &self,
        file: usize,
        part: &Path,
        disk: &dyn Disk,
        dir: &Path,
    ) -> Result<Option<Error>> {
        let entry = &self.manifest.files[file];
        let path = part.join(&entry.name);
        let mut source = match files::open(&path) {
            Ok(source) => source.take(entry.bytes),
            Err(error) => return Ok(Some(Error::io("opening", path)(error))),
        };
        let mut copy = FileCopy::create(disk, dir, entry)?;
        let mut buffer = vec![0; BUFFER_BYTES];
        loop {
            match source.read(&mut buffer) {
                Ok(0) => break,
                Ok(len) => copy.write(&buffer[..len])?,
                Err(error) => return Ok(Some(Error::io("reading", path)(error))),
            }
        }
        match copy.finish() {
            Err(Error::Damaged { fault, .. }) => Ok(Some(Error::damaged(part, fault))),
            other => other.map(|()| None),
        }
    }
}

/// A checkpoint that is copied together, held by rank 0. If it is dropped before [`Assembly::commit`], it removes the copies.
#[derive(Debug)]
pub struct Assembly<'a> {
    writer: Writer,
    inventory: &'a Inventory,
}

impl<'a> Assembly<'a> {
    /// Makes the folder, [`Writer::dir_of_step`], into which files are [copied](Inventory::copy).
    ///
    /// # Errors
    /// As [`Writer::begin`].
    pub fn begin(
        disk: Arc<dyn Disk>,
        checkpoints_dir: &Path,
        inventory: &'a Inventory,
    ) -> Result<Assembly<'a>> {
        let writer = Writer::begin_on(disk, checkpoints_dir, inventory.step())?;
        Ok(Assembly { writer, inventory })
    }

    /// The folder of the copies.
    pub fn dir(&self) -> &Path {
        self.writer.dir()
    }

    /// Completes the checkpoint, whose files are all there.
    ///
    /// # Errors
    /// As [`Writer::commit`].
    pub fn commit(self) -> Result<PathBuf> {
        self.writer.commit_manifest(&self.inventory.manifest)
    }
}

/// A copy of another rank's file, which arrives in pieces. If it is dropped before [`FileCopy::finish`], it is removed.
pub struct FileCopy<'a> {
    disk: &'a dyn Disk,
    file: Summed,
    dir: PathBuf,
    entry: FileEntry,
    is_whole: bool,
}

impl<'a> FileCopy<'a> {
    /// Makes an empty copy of the file that a rank has written, in the folder of another node's [`Writer`].
    ///
    /// # Errors
    /// [`Error::NoSpace`] or [`Error::Io`] if the disk refuses.
    pub fn of(disk: &'a dyn Disk, dir: &Path, record: &ShardRecord) -> Result<FileCopy<'a>> {
        FileCopy::create(disk, dir, &record.file)
    }

    /// Makes an empty copy of a file of an inventory, in the folder of an [`Assembly`].
    ///
    /// # Errors
    /// As [`of`](FileCopy::of).
    pub fn of_file(
        disk: &'a dyn Disk,
        dir: &Path,
        inventory: &Inventory,
        file: usize,
    ) -> Result<FileCopy<'a>> {
        FileCopy::create(disk, dir, &inventory.manifest.files[file])
    }

    /// The name of the file.
    pub fn name(&self) -> &str {
        &self.entry.name
    }

    /// Its length once it is whole.
    pub fn num_bytes(&self) -> u64 {
        self.entry.bytes
    }

    fn create(disk: &'a dyn Disk, dir: &Path, entry: &FileEntry) -> Result<FileCopy<'a>> {
        let path = dir.join(&entry.name);
        let file = disk
            .create(&path)
            .map_err(|source| Error::writing(&path, entry.bytes, 0, source))?;
        Ok(FileCopy {
            disk,
            file: Summed::new(file),
            dir: dir.to_owned(),
            entry: entry.clone(),
            is_whole: false,
        })
    }

    /// Adds bytes.
    ///
    /// # Errors
    /// As [`of`](FileCopy::of).
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let written = self.file.write_all(bytes);
        written.map_err(|source| self.failed(source))
    }

    /// Syncs the copy, and checks that it is the file that was written.
    ///
    /// # Errors
    /// As [`of`](FileCopy::of); [`Error::Damaged`] with the first difference.
    pub fn finish(mut self) -> Result<()> {
        let synced = self.file.sync();
        synced.map_err(|source| self.failed(source))?;
        let (length, sum) = self.file.written();
        self.entry
            .check_length(Some(length))
            .and_then(|()| self.entry.check_sum(sum))
            .map_err(|fault| Error::damaged(&self.dir, fault))?;
        self.is_whole = true;
        Ok(())
    }

    fn path(&self) -> PathBuf {
        self.dir.join(&self.entry.name)
    }

    fn failed(&self, source: io::Error) -> Error {
        Error::writing(self.path(), self.entry.bytes, self.file.written().0, source)
    }
}

impl Drop for FileCopy<'_> {
    fn drop(&mut self) {
        if !self.is_whole {
            // The failure that led here is reported; the folder goes as a whole if this is refused too.
            let _ = self.disk.remove(&self.path());
        }
    }
}

impl fmt::Debug for FileCopy<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FileCopy({})", self.entry.name)
    }
}

impl ShardRecord {
    /// The name of the rank's file in its folder.
    pub fn file_name(&self) -> &str {
        &self.file.name
    }

    /// Its length in bytes.
    pub fn num_bytes(&self) -> u64 {
        self.file.bytes
    }
}
