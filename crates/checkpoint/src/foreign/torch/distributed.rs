//! Distributed checkpoints of PyTorch, as Megatron-Core writes them: `.metadata` says how tensors are cut into chunks, and in which file
//! each lies.
//!
//! # Source
//! `torch/distributed/checkpoint/metadata.py` and `filesystem.py` of PyTorch 2: a chunk is an archive of `torch.save` that lies at an
//! offset of a file.

mod list;

use super::{
    super::listed_file,
    archive::{attributes, stored_tensor},
    pickle::Pickle,
};
use crate::{
    Error, Result, TensorInfo,
    boxes::{check_request, copy_overlap, end_of_overlap},
    element,
    source::SourceFile,
};
use grid::IndexBox;
use hal::{DType, files, sync::OnceLock};
use list::Listed;
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

/// The greatest length of that file: a checkpoint of thousands of ranks with the state of an optimiser has tens of MiB.
const MOST_METADATA_BYTES: u64 = 256 << 20;
/// The most tensors that are shown.
const MOST_SHOWN: usize = 1 << 20;

/// An open distributed checkpoint, which shows the tensors of its model.
#[derive(Debug)]
pub struct Distributed {
    path: PathBuf,
    files: Vec<OpenFile>,
    tensors: Vec<Cut>,
    // By the names under which they are shown: the tensor, and which of the layers stacked in it.
    shown: BTreeMap<String, (usize, Option<usize>)>,
    // What is saved beside tensors.
    entries: BTreeMap<String, Place>,
}

/// A file with chunks, and its name.
type OpenFile = (String, SourceFile);

/// A tensor in chunks.
#[derive(Debug)]
struct Cut {
    // `float32` of PyTorch's types.
    dtype: String,
    shape: Vec<usize>,
    chunks: Vec<Chunk>,
}

#[derive(Debug)]
struct Chunk {
    index: IndexBox,
    file: usize,
    offset: u64,
    length: u64,
    // Where in the file its elements begin, once somebody has looked.
    elements: OnceLock<u64>,
}

/// Where something is saved.
#[derive(Debug)]
struct Place {
    file: String,
    offset: u64,
    length: u64,
}

impl Distributed {
    /// The file that lists the chunks.
    pub const METADATA_FILE: &str = ".metadata";

    /// Opens a folder.
    ///
    /// A name of `stack` and anything but a number is that of a tensor whose first dim counts layers. It is shown as one tensor per
    /// layer: with the stack `layers.`, `layers.norm` becomes `layers.0.norm`, `layers.1.norm` and so on. Tensors whose names begin
    /// with one of `hidden` are not shown.
    ///
    /// Reads `.metadata` alone; chunks are read when they are asked for.
    ///
    /// # Errors
    /// [`Error::Missing`] for a folder without `.metadata`, and for files that are not there; [`Error::Index`] for a `.metadata` that
    /// is not one, and for chunks that do not tile their tensors or lie outside their files.
    pub fn open(path: &Path, stack: &str, hidden: &[&str]) -> Result<Distributed> {
        let list = path.join(Distributed::METADATA_FILE);
        if !list.exists() {
            return Err(Error::Missing { path: list });
        }
        let refuse = |reason: String| Error::Index {
            path: list.clone(),
            reason,
        };
        let data = files::read(&list, MOST_METADATA_BYTES).map_err(Error::io("reading", &list))?;
        let pickle = Pickle::read(data);
        let pickle =
            pickle.map_err(|fault| refuse(format!("it is no pickle of data: found {fault}")))?;
        let mut listed = Listed::new(&list, hidden);
        let (names, tensors): (Vec<String>, Vec<Cut>) =
            listed.tensors(pickle.top())?.into_iter().unzip();
        let mut shown = BTreeMap::new();
        for (index, (name, tensor)) in names.into_iter().zip(&tensors).enumerate() {
            let layered = name
                .strip_prefix(stack)
                .filter(|rest| !rest.starts_with(|c: char| c.is_ascii_digit()));
            let Some((rest, &layers)) = layered.zip(tensor.shape.first()) else {
                shown.insert(name, (index, None));
                continue;
            };
            // The names of more would fill memory by themselves.
            if layers > MOST_SHOWN.saturating_sub(shown.len()) {
                return Err(refuse(format!(
                    "found {layers} layers of {name}, needs at most {MOST_SHOWN} tensors in all"
                )));
            }
            for layer in 0..layers {
                shown.insert(format!("{stack}{layer}.{rest}"), (index, Some(layer)));
            }
        }
        Ok(Distributed {
            path: path.to_owned(),
            files: listed.files,
            tensors,
            shown,
            entries: listed.entries,
        })
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The attributes of the object that an entry of bytes holds under a name, as [`saved_attributes`](super::saved_attributes).
    ///
    /// # Errors
    /// As that function; [`Error::UnknownTensor`] if there is no such entry.
    pub fn saved_attributes(
        &self,
        entry: &str,
        name: &str,
    ) -> Result<serde_json::Map<String, serde_json::Value>> {
        let place = self.entries.get(entry).ok_or_else(|| self.unknown(entry))?;
        let list = self.path.join(Distributed::METADATA_FILE);
        let path = listed_file(&list, &place.file)?;
        let file = SourceFile::find(&path)?;
        let found = attributes(&file, (place.offset, place.length), name);
        found.map_err(|reason| Error::Index {
            path,
            reason: format!("the entry {entry}: {reason}"),
        })
    }

    /// The names of all tensors that are shown, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.shown.keys().map(String::as_str)
    }

    /// The description of a tensor; no axis cuts it.
    ///
    /// # Errors
    /// [`Error::UnknownTensor`]; [`Error::Dtype`] if we do not support its element type.
    pub fn info(&self, name: &str) -> Result<TensorInfo> {
        let (tensor, layer) = self.find(name)?;
        let shape = tensor.shape_of(layer);
        Ok(TensorInfo::whole(tensor.dtype(name)?, shape))
    }

    /// A box of a tensor of this global shape, as numbers. Reads the chunks that overlap it, and of each its elements alone.
    ///
    /// # Errors
    /// As [`PlainFile::read_f64`](crate::PlainFile::read_f64); [`Error::Index`] for a chunk that is no tensor of its shape and type.
    pub fn read_f64(
        &self,
        name: &str,
        global_shape: &[usize],
        index: &IndexBox,
    ) -> Result<Vec<f64>> {
        let (tensor, layer) = self.find(name)?;
        let dtype = tensor.dtype(name)?;
        check_request(name, tensor.shape_of(layer), global_shape, index)?;
        let mut whole = index.clone();
        if let Some(layer) = layer {
            whole.start.insert(0, layer);
            whole.shape.insert(0, 1);
        }
        let mut bytes = vec![0; index.num_elements() * dtype.bytes()];
        for chunk in tensor
            .chunks
            .iter()
            .filter(|chunk| chunk.index.overlaps(&whole))
        {
            let start = self.elements(name, chunk, dtype)?;
            let end = end_of_overlap(&chunk.index, &whole) * dtype.bytes();
            let mut source = self.files[chunk.file].1.window(start, end);
            let read = |from: usize, out: &mut [u8]| source.read(from, out);
            copy_overlap(read, &chunk.index, (&mut bytes, &whole), dtype.bytes())?;
        }
        element::numbers(dtype, &bytes).ok_or_else(|| Error::not_float(name, dtype))
    }

    // Where the elements of a chunk begin, which has the type and shape that the list says.
    fn elements(&self, name: &str, chunk: &Chunk, dtype: DType) -> Result<u64> {
        if let Some(known) = chunk.elements.get() {
            return Ok(*known);
        }
        let (file_name, file) = &self.files[chunk.file];
        let refuse = |reason: String| Error::Index {
            path: self.path.join(file_name),
            reason: format!("the chunk of {name} at byte {}: {reason}", chunk.offset),
        };
        let stored = stored_tensor(file, chunk.offset, chunk.length).map_err(refuse)?;
        if stored.dtype != dtype || stored.shape != chunk.index.shape {
            let (found, needed) = (&stored.shape, &chunk.index.shape);
            return Err(refuse(format!(
                "found {found:?} of {}, needs {needed:?} of {dtype}",
                stored.dtype
            )));
        }
        Ok(*chunk.elements.get_or_init(|| stored.offset))
    }

    fn find(&self, name: &str) -> Result<(&Cut, Option<usize>)> {
        let (index, layer) = self.shown.get(name).ok_or_else(|| self.unknown(name))?;
        Ok((&self.tensors[*index], *layer))
    }

    fn unknown(&self, name: &str) -> Error {
        Error::UnknownTensor {
            path: self.path.clone(),
            name: name.to_owned(),
            num_tensors: self.shown.len(),
        }
    }
}

impl Cut {
    // That of all layers, or of one.
    fn shape_of(&self, layer: Option<usize>) -> &[usize] {
        &self.shape[usize::from(layer.is_some())..]
    }

    fn dtype(&self, name: &str) -> Result<DType> {
        let known = match self.dtype.as_str() {
            "float64" => Some(DType::F64),
            "float32" => Some(DType::F32),
            "bfloat16" => Some(DType::Bf16),
            "float16" => Some(DType::F16),
            "int32" => Some(DType::I32),
            _ => None,
        };
        known.ok_or_else(|| Error::Dtype {
            name: name.to_owned(),
            found: format!("torch.{}", self.dtype),
            needed: "f64, f32, bf16, f16 or i32",
        })
    }
}
