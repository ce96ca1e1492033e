//! Writes a safetensors file front to back, without ever holding it in memory.
//!
//! The header comes first and lists every tensor's offset, so shapes are needed in advance and bytes only when
//! their turn comes. Length and CRC-32 are computed from the bytes as they are written.

use crate::{
    Error, Result,
    boxes::num_bytes,
    disk::{Disk, Stored},
    element::header_name,
};
use hal::DType;
use serde_json::{Map, Value, json};
use std::{
    cmp::Reverse,
    collections::BTreeMap,
    io::{self, BufWriter, Write},
    path::Path,
};

const BUFFER_BYTES: usize = 1 << 20;

/// One tensor of a file.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) dtype: DType,
    pub(crate) shape: Vec<usize>,
}

impl Entry {
    pub(crate) fn num_bytes(&self) -> usize {
        num_bytes(&self.shape, self.dtype)
            .expect("a bug: the size of a stored tensor was checked before")
    }
}

/// The facts known of a written file.
#[derive(Clone, Debug)]
pub(crate) struct Written {
    pub(crate) bytes: u64,
    pub(crate) crc32: u32,
    /// Offset of each entry's bytes in the file, in the order in which the entries were given.
    pub(crate) offsets: Vec<u64>,
}

/// Receives the next bytes of a tensor.
pub type Emit<'a> = dyn FnMut(&[u8]) -> Result<()> + 'a;

/// Writes and syncs a file; calls `fill` for each entry's bytes, by its index. A file that fails is removed.
///
/// # Panics
/// If `fill` emits a number of bytes other than the entry's.
pub(crate) fn write(
    disk: &dyn Disk,
    path: &Path,
    entries: &[Entry],
    metadata: &BTreeMap<String, String>,
    fill: &mut dyn FnMut(usize, &mut Emit<'_>) -> Result<()>,
) -> Result<Written> {
    let plan = FileLayout::new(entries, metadata);
    let file = disk
        .create(path)
        .map_err(|source| Error::writing(path, plan.total, 0, source))?;
    let written = Output::new(file, path, plan.total).write(&plan, entries, fill);
    match written {
        Ok((bytes, crc32)) => Ok(Written {
            bytes,
            crc32,
            offsets: plan.offsets,
        }),
        Err(error) => {
            // The first failure is the one to report; a file that cannot be removed now is removed with its
            // folder.
            let _ = disk.remove(path);
            Err(error)
        }
    }
}

/// The layout of the file.
struct FileLayout {
    /// The header, preceded by its length.
    header: Vec<u8>,
    /// Entries in the order of the file: wide elements first, so that each is aligned to its own size.
    order: Vec<usize>,
    offsets: Vec<u64>,
    total: u64,
}

impl FileLayout {
    fn new(entries: &[Entry], metadata: &BTreeMap<String, String>) -> FileLayout {
        let mut order: Vec<usize> = (0..entries.len()).collect();
        order.sort_by_key(|index| Reverse(entries[*index].dtype.bytes()));
        let mut offsets = vec![0; entries.len()];
        let data_bytes = order.iter().fold(0, |offset, index| {
            offsets[*index] = offset;
            offset + entries[*index].num_bytes() as u64
        });
        let header = header(entries, &offsets, metadata);
        let front = header.len() as u64;
        offsets.iter_mut().for_each(|offset| *offset += front);
        FileLayout {
            header,
            order,
            offsets,
            total: front + data_bytes,
        }
    }
}

fn header(entries: &[Entry], offsets: &[u64], metadata: &BTreeMap<String, String>) -> Vec<u8> {
    let mut fields: Map<String, Value> = entries.iter().zip(offsets).map(described).collect();
    fields.insert("__metadata__".into(), json!(metadata));
    let mut text = Value::Object(fields).to_string().into_bytes();
    // Padded with spaces to a multiple of 8, as the format asks, so that the data is aligned.
    text.resize(text.len().next_multiple_of(8), b' ');
    [&(text.len() as u64).to_le_bytes()[..], &text].concat()
}

fn described((entry, offset): (&Entry, &u64)) -> (String, Value) {
    let end = offset + entry.num_bytes() as u64;
    let fields = json!({
        "dtype": header_name(entry.dtype),
        "shape": entry.shape,
        "data_offsets": [offset, end],
    });
    (entry.key.clone(), fields)
}

/// A file with its length and checksum so far.
struct Output<'a> {
    file: BufWriter<Summed>,
    path: &'a Path,
    total: u64,
}

impl<'a> Output<'a> {
    fn new(file: Box<dyn Stored>, path: &'a Path, total: u64) -> Self {
        Output {
            file: BufWriter::with_capacity(BUFFER_BYTES, Summed::new(file)),
            path,
            total,
        }
    }

    fn write(
        mut self,
        plan: &FileLayout,
        entries: &[Entry],
        fill: &mut dyn FnMut(usize, &mut Emit<'_>) -> Result<()>,
    ) -> Result<(u64, u32)> {
        self.emit(&plan.header)?;
        for index in &plan.order {
            let mut left = entries[*index].num_bytes();
            fill(*index, &mut |bytes| {
                left = left
                    .checked_sub(bytes.len())
                    .expect("a bug: more bytes than the tensor has");
                self.emit(bytes)
            })?;
            assert_eq!(
                left, 0,
                "a bug: fewer bytes than {} has",
                entries[*index].key
            );
        }
        self.file
            .flush()
            .and_then(|()| self.file.get_mut().sync())
            .map_err(|source| self.failed(source))?;
        Ok(self.file.get_ref().written())
    }

    fn emit(&mut self, bytes: &[u8]) -> Result<()> {
        self.file
            .write_all(bytes)
            .map_err(|source| self.failed(source))
    }

    fn failed(&self, source: io::Error) -> Error {
        Error::writing(self.path, self.total, self.file.get_ref().bytes, source)
    }
}

/// A file, with the length and the CRC-32 of what was written to it.
pub(crate) struct Summed {
    file: Box<dyn Stored>,
    hasher: crc32fast::Hasher,
    bytes: u64,
}

impl Summed {
    pub(crate) fn new(file: Box<dyn Stored>) -> Summed {
        Summed {
            file,
            hasher: crc32fast::Hasher::new(),
            bytes: 0,
        }
    }

    pub(crate) fn sync(&mut self) -> io::Result<()> {
        self.file.sync()
    }

    /// The number of bytes written, and their CRC-32.
    pub(crate) fn written(&self) -> (u64, u32) {
        (self.bytes, self.hasher.clone().finalize())
    }
}

impl Write for Summed {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let taken = self.file.write(buffer)?;
        self.hasher.update(&buffer[..taken]);
        self.bytes += taken as u64;
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}
