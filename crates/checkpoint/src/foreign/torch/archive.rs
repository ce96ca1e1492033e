//! Archives of `torch.save`: a zip file with a pickle, `data.pkl`, and the bytes of each storage, `data/KEY`, neither compressed.
//!
//! # Source
//! `torch/serialization.py` and `torch/_utils.py` (`_rebuild_tensor_v2`) of PyTorch 2.

use super::pickle::{Object, Pickle};
use crate::{Error, Result, source::SourceFile};
use hal::DType;
use std::{
    io::{self, Read, Seek, SeekFrom},
    path::Path,
};
use zip::{CompressionMethod, ZipArchive};

/// The longest pickle: one that holds a tensor is short, and settings have some thousand words.
const MOST_PICKLE_BYTES: u64 = 64 << 20;
/// The most attributes of an object.
const MOST_ATTRIBUTES: usize = 1 << 16;

/// Where the elements of a tensor lie.
#[derive(Debug)]
pub(super) struct StoredTensor {
    pub(super) dtype: DType,
    pub(super) shape: Vec<usize>,
    /// Of the first element, counted from the beginning of the file.
    pub(super) offset: u64,
}

/// The attributes of the object that a file of `torch.save` holds under a name, as JSON; in place of what JSON cannot hold, a word that
/// says what it is.
///
/// # Errors
/// [`Error::Missing`], [`Error::Io`]; [`Error::Index`] for a file that is no such archive, or has no such object.
pub fn saved_attributes(
    path: &Path,
    name: &str,
) -> Result<serde_json::Map<String, serde_json::Value>> {
    let file = SourceFile::find(path)?;
    let refuse = |reason: String| Error::Index {
        path: path.to_owned(),
        reason,
    };
    attributes(&file, (0, file.len()), name).map_err(refuse)
}

/// The same of `len` bytes of a file from `start` on.
///
/// # Errors
/// What is wrong with them.
pub(super) fn attributes(
    file: &SourceFile,
    (start, len): (u64, u64),
    name: &str,
) -> std::result::Result<serde_json::Map<String, serde_json::Value>, String> {
    let mut archive = Archive::open(Section::new(file, start, len))?;
    let pickle = archive.pickle()?;
    // A dict, or the first of a list.
    let top = pickle.top();
    let holder = top.item(0).unwrap_or(top);
    let object = holder.value(name).and_then(Object::state);
    let pairs = object.and_then(Object::pairs);
    let pairs = pairs.ok_or_else(|| format!("found no {name} with attributes in it"))?;
    if pairs.len() > MOST_ATTRIBUTES {
        return Err(format!(
            "found {} attributes of {name}, needs at most {MOST_ATTRIBUTES}",
            pairs.len()
        ));
    }
    let named = pairs.filter_map(|(key, value)| Some((key.text()?.to_owned(), value.json())));
    Ok(named.collect())
}

/// The tensor that is saved in `len` bytes of a file from `start` on.
///
/// # Errors
/// What is wrong with them.
pub(super) fn stored_tensor(
    file: &SourceFile,
    start: u64,
    len: u64,
) -> std::result::Result<StoredTensor, String> {
    let mut archive = Archive::open(Section::new(file, start, len))?;
    let pickle = archive.pickle()?;
    let parts = tensor(pickle.top()).ok_or("found an object that is no plain tensor")?;
    let entry = archive.entry(&format!("data/{}", parts.key))?;
    let end = parts
        .shape
        .iter()
        .try_fold(1, |product: usize, len| product.checked_mul(*len));
    let end = end.and_then(|count| count.checked_add(parts.first));
    let end = end.and_then(|end| end.checked_mul(parts.dtype.bytes()));
    match end {
        Some(end) if end as u64 <= entry.len => Ok(StoredTensor {
            offset: start + entry.start + (parts.first * parts.dtype.bytes()) as u64,
            dtype: parts.dtype,
            shape: parts.shape,
        }),
        _ => Err(format!(
            "found {} bytes of elements, needs those of shape {:?}",
            entry.len, parts.shape
        )),
    }
}

struct TensorParts<'a> {
    dtype: DType,
    shape: Vec<usize>,
    // The storage, and its first element that is the tensor's.
    key: &'a str,
    first: usize,
}

// Of a tensor whose elements lie one after another.
fn tensor(object: Object<'_>) -> Option<TensorParts<'_>> {
    let arguments = object.made_by("torch._utils", "_rebuild_tensor_v2")?;
    let storage = arguments.item(0)?.persistent()?;
    let is_storage = storage.item(0)?.text() == Some("storage");
    let dtype = of_storage(storage.item(1)?.global()?).filter(|_| is_storage)?;
    let sizes = |index: usize| {
        let items = arguments.item(index)?.items()?;
        items.map(Object::size).collect::<Option<Vec<usize>>>()
    };
    let (shape, strides) = (sizes(2)?, sizes(3)?);
    let mut step = 1usize;
    for (&len, &stride) in shape.iter().zip(&strides).rev() {
        if len > 1 && stride != step {
            return None;
        }
        step = step.checked_mul(len)?;
    }
    Some(TensorParts {
        dtype,
        key: storage.item(2)?.text()?,
        first: arguments.item(1)?.size()?,
        shape,
    })
}

fn of_storage(class: (&str, &str)) -> Option<DType> {
    Some(match class {
        ("torch", "DoubleStorage") => DType::F64,
        ("torch", "FloatStorage") => DType::F32,
        ("torch", "BFloat16Storage") => DType::Bf16,
        ("torch", "HalfStorage") => DType::F16,
        ("torch", "IntStorage") => DType::I32,
        _ => return None,
    })
}

struct Archive<'a> {
    section: Section<'a>,
    zip: ZipArchive<Section<'a>>,
}

// The bytes of a file in an archive, counted from the beginning of that.
struct Entry {
    start: u64,
    len: u64,
}

impl<'a> Archive<'a> {
    fn open(section: Section<'a>) -> std::result::Result<Archive<'a>, String> {
        let zip = ZipArchive::new(section.clone());
        let zip = zip.map_err(|error| format!("it is no archive of torch.save: {error}"))?;
        Ok(Archive { section, zip })
    }

    // All files lie in one folder, whose name differs.
    fn entry(&mut self, name: &str) -> std::result::Result<Entry, String> {
        let is_it = |path: &[u8]| {
            let path = std::str::from_utf8(path)
                .ok()
                .and_then(|path| path.split_once('/'));
            path.is_some_and(|(_, rest)| rest == name)
        };
        let place = self.zip.file_names_raw().position(is_it);
        let place = place.ok_or_else(|| format!("it has no {name}"))?;
        // Not to be decompressed, so that its length is that of its bytes.
        let file = self.zip.by_index_raw(place);
        let file = file.map_err(|error| format!("{name}: {error}"))?;
        let is_plain = file.compression() == CompressionMethod::Stored && !file.encrypted();
        let start = file.data_start().filter(|_| is_plain);
        let start = start.ok_or_else(|| format!("{name} is compressed"))?;
        let len = file.size();
        match start.checked_add(len) {
            Some(end) if end <= self.section.len => Ok(Entry { start, len }),
            _ => Err(format!("{name} ends beyond the archive")),
        }
    }

    fn bytes(&self, entry: &Entry, most: u64) -> std::result::Result<Vec<u8>, String> {
        if entry.len > most {
            return Err(format!("found {} bytes, needs at most {most}", entry.len));
        }
        let mut bytes = vec![0; entry.len as usize];
        let (file, start) = (self.section.file, self.section.start + entry.start);
        let read = file.read(start, &mut bytes);
        read.map_err(|error| error.to_string())?;
        Ok(bytes)
    }

    fn pickle(&mut self) -> std::result::Result<Pickle, String> {
        // Older archives do not state the order, and are little-endian.
        if let Ok(order) = self.entry("byteorder") {
            let order = self.bytes(&order, 16)?;
            if order != b"little" {
                return Err("it is big-endian".to_owned());
            }
        }
        let entry = self.entry("data.pkl")?;
        let bytes = self.bytes(&entry, MOST_PICKLE_BYTES)?;
        Pickle::read(bytes).map_err(|fault| format!("data.pkl is no pickle of data: found {fault}"))
    }
}

/// Some bytes of a file, as a file of their own.
#[derive(Clone)]
struct Section<'a> {
    file: &'a SourceFile,
    start: u64,
    len: u64,
    position: u64,
}

impl<'a> Section<'a> {
    fn new(file: &'a SourceFile, start: u64, len: u64) -> Section<'a> {
        Section {
            file,
            start,
            len,
            position: 0,
        }
    }
}

impl Read for Section<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let left = self.len.saturating_sub(self.position);
        let count = left.min(out.len() as u64) as usize;
        // Nothing is read from behind the end, where the sum could be beyond any file.
        if count > 0 {
            let start = self.start + self.position;
            let read = self.file.read(start, &mut out[..count]);
            read.map_err(io::Error::other)?;
            self.position += count as u64;
        }
        Ok(count)
    }
}

impl Seek for Section<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let target = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::End(by) => self.len.checked_add_signed(by),
            SeekFrom::Current(by) => self.position.checked_add_signed(by),
        };
        self.position = target.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.position)
    }
}
