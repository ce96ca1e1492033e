//! Reads boxes of tensors from a checkpoint, whatever grid wrote it.

use crate::{
    Error, Fault, Result, Sections, TensorInfo,
    boxes::{check_request, copy_overlap, end_of_overlap},
    element,
    folder::{MANIFEST, resolve},
    manifest::{MOST_MANIFEST_BYTES, Manifest, TensorEntry},
    source::SourceFile,
};
use grid::IndexBox;
use hal::files;
use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::OnceLock,
};

/// A complete checkpoint, open for reading. Files are opened when they are first needed.
#[derive(Debug)]
pub struct Reader {
    path: PathBuf,
    pub(crate) manifest: Manifest,
    files: Vec<OnceLock<SourceFile>>,
}

impl Reader {
    /// Opens a checkpoint, or the newest complete one of a checkpoints folder or a run's folder.
    ///
    /// The manifest is checked completely: it is at most 256 MiB long, and its boxes tile every tensor. The other files
    /// are checked for presence and length; [`Reader::verify`] also reads them. A link in place of a file is refused,
    /// because it might lead out of the folder.
    ///
    /// # Errors
    /// [`Error::Missing`] if there is no such path; [`Error::NoCheckpoint`] for a folder without a complete
    /// checkpoint; [`Error::Damaged`] if it differs from what was written, with the name of an earlier intact one;
    /// [`Error::Io`] if the system refuses.
    pub fn open(path: impl AsRef<Path>) -> Result<Reader> {
        Reader::open_exactly(&resolve(path.as_ref())?).map_err(Error::with_offer)
    }

    /// Opens the checkpoint at exactly that path; errors offer no alternative.
    pub(crate) fn open_exactly(path: &Path) -> Result<Reader> {
        let damaged = |fault| Error::damaged(path, fault);
        let manifest = Manifest::decode(&read_manifest(path)?).map_err(damaged)?;
        let files = manifest.files.iter().map(|_| OnceLock::new()).collect();
        let reader = Reader {
            path: path.to_owned(),
            manifest,
            files,
        };
        (0..reader.manifest.files.len()).try_for_each(|file| reader.check_length(file))?;
        let tiled = reader.manifest.check_tiling();
        tiled.map_err(|(name, fault)| {
            let name = name.to_owned();
            damaged(Fault::Tiling { name, fault })
        })?;
        Ok(reader)
    }

    /// The checkpoint's folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Training steps that led to it.
    pub fn step(&self) -> u64 {
        self.manifest.step
    }

    /// Its contents besides tensors.
    pub fn sections(&self) -> &Sections {
        &self.manifest.sections
    }

    /// The names of all tensors, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.manifest.tensors.keys().map(String::as_str)
    }

    /// The description of a tensor.
    ///
    /// # Errors
    /// [`Error::UnknownTensor`].
    pub fn info(&self, name: &str) -> Result<&TensorInfo> {
        Ok(&self.tensor(name)?.info)
    }

    /// A box of a tensor of this global shape, row-major and little-endian, assembled from the pieces that hold
    /// its elements.
    ///
    /// Reads only the necessary bytes from disk. It does not verify checksums, because that would require
    /// reading everything.
    ///
    /// # Errors
    /// [`Error::UnknownTensor`]; [`Error::Shape`] if the tensor has another shape, of which the box might be a corner;
    /// [`Error::Outside`]; [`Error::Damaged`] or [`Error::Io`] if a file has disappeared or shrunk since
    /// the checkpoint was opened.
    pub fn read(&self, name: &str, global_shape: &[usize], index: &IndexBox) -> Result<Vec<u8>> {
        let TensorEntry { info, pieces } = self.tensor(name)?;
        check_request(name, &info.global_shape, global_shape, index)?;
        let element_bytes = info.dtype.bytes();
        let mut bytes = vec![0; index.num_elements() * element_bytes];
        // The pieces tile the tensor, which was checked when the checkpoint was opened.
        for piece in pieces.iter().filter(|piece| piece.index.overlaps(index)) {
            let needed = end_of_overlap(&piece.index, index) * element_bytes;
            let mut source = self.file(piece.file)?.window(piece.offset, needed);
            let target = (bytes.as_mut_slice(), index);
            let read = |from, out: &mut [u8]| source.read(from, out);
            copy_overlap(read, &piece.index, target, element_bytes)?;
        }
        Ok(bytes)
    }

    /// Like [`Reader::read`], but returns numbers, from whatever float type is stored.
    ///
    /// # Errors
    /// [`Error::Dtype`] for integers; and as [`Reader::read`].
    pub fn read_f64(
        &self,
        name: &str,
        global_shape: &[usize],
        index: &IndexBox,
    ) -> Result<Vec<f64>> {
        let dtype = self.info(name)?.dtype;
        let not_float = || Error::not_float(name, dtype);
        if !dtype.is_float() {
            return Err(not_float());
        }
        element::numbers(dtype, &self.read(name, global_shape, index)?).ok_or_else(not_float)
    }

    pub(crate) fn tensor(&self, name: &str) -> Result<&TensorEntry> {
        self.manifest
            .tensors
            .get(name)
            .ok_or_else(|| Error::UnknownTensor {
                path: self.path.clone(),
                name: name.to_owned(),
                num_tensors: self.manifest.tensors.len(),
            })
    }

    /// The name of the file that stores an element.
    pub(crate) fn file_of(&self, name: &str, index: &[usize]) -> Result<&str> {
        let pieces = &self.tensor(name)?.pieces;
        let piece = pieces
            .iter()
            .find(|piece| piece.index.contains_index(index))
            .expect("a bug: the pieces tile the tensor, which was checked when it was opened");
        Ok(&self.manifest.files[piece.file].name)
    }

    pub(crate) fn file_path(&self, file: usize) -> PathBuf {
        self.path.join(&self.manifest.files[file].name)
    }

    pub(crate) fn check_length(&self, file: usize) -> Result<()> {
        let (path, entry) = (self.file_path(file), &self.manifest.files[file]);
        let found = match own_length(&path) {
            Ok(length) => Some(length),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(Error::io("looking at", path)(error)),
        };
        entry
            .check_length(found)
            .map_err(|fault| Error::damaged(&self.path, fault))
    }

    fn file(&self, file: usize) -> Result<&SourceFile> {
        if let Some(opened) = self.files[file].get() {
            return Ok(opened);
        }
        let opened = SourceFile::open(&self.file_path(file))?;
        self.manifest.files[file]
            .check_length(Some(opened.len()))
            .map_err(|fault| Error::damaged(&self.path, fault))?;
        // If another thread was faster, this file is closed again.
        Ok(self.files[file].get_or_init(|| opened))
    }
}

/// The text of the manifest in a checkpoint's folder.
pub(crate) fn read_manifest(path: &Path) -> Result<Vec<u8>> {
    let manifest = path.join(MANIFEST);
    let read = || {
        own_length(&manifest)?;
        files::read(&manifest, MOST_MANIFEST_BYTES)
    };
    read().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => Error::damaged(path, Fault::NoManifest),
        _ => Error::io("reading", &manifest)(error),
    })
}

/// The length of a regular file that is no link.
pub(crate) fn own_length(path: &Path) -> io::Result<u64> {
    let metadata = fs::symlink_metadata(path)?;
    files::check(&metadata).map(|()| metadata.len())
}
