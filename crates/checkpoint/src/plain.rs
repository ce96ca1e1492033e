//! Plain safetensors files from any source, for initial weights.

use crate::{
    Error, Result, TensorInfo,
    boxes::{check_request, copy_overlap},
    element,
    source::SourceFile,
};
use grid::IndexBox;
use hal::DType;
use safetensors::tensor::Metadata;
use std::path::{Path, PathBuf};

/// The element types that we support.
const KNOWN: &str = "f64, f32, bf16, f16, i32 or u32";

/// Bytes that hold the length of the header.
const LENGTH_BYTES: u64 = 8;

/// The longest header that the format allows.
const MOST_HEADER_BYTES: u64 = 100_000_000;

/// An open safetensors file with full tensors.
#[derive(Debug)]
pub struct PlainFile {
    path: PathBuf,
    file: SourceFile,
    header: Metadata,
    data_offset: u64,
}

impl PlainFile {
    /// Opens a safetensors file.
    ///
    /// Reads the header alone; tensors are read when they are asked for.
    ///
    /// # Errors
    /// [`Error::Missing`] if there is no such file; [`Error::Io`] if it cannot be read; [`Error::NotSafetensors`] for
    /// another kind of file, and for a truncated one.
    pub fn open(path: impl AsRef<Path>) -> Result<PlainFile> {
        let path = path.as_ref().to_owned();
        let file = SourceFile::find(&path)?;
        let (header, data_offset) = header(&file).map_err(|fault| match fault {
            HeaderFault::Io(error) => error,
            HeaderFault::Content(reason) => Error::NotSafetensors {
                path: path.clone(),
                bytes: file.len(),
                reason,
            },
        })?;
        Ok(PlainFile {
            path,
            file,
            header,
            data_offset,
        })
    }

    /// The file's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The names of all tensors, sorted.
    pub fn names(&self) -> Vec<String> {
        let mut names = self.header.offset_keys();
        names.sort_unstable();
        names
    }

    /// Whether a tensor with that name exists.
    pub fn contains(&self, name: &str) -> bool {
        self.header.info(name).is_some()
    }

    /// A tensor's shape.
    ///
    /// # Errors
    /// [`Error::UnknownTensor`].
    pub fn shape(&self, name: &str) -> Result<&[usize]> {
        Ok(&self.header(name)?.shape)
    }

    /// The description of a tensor; no axis cuts it.
    ///
    /// # Errors
    /// [`Error::UnknownTensor`]; [`Error::Dtype`] if we do not support its element type.
    pub fn info(&self, name: &str) -> Result<TensorInfo> {
        let header = self.header(name)?;
        let other = || Error::Dtype {
            name: name.to_owned(),
            found: header.dtype.to_string(),
            needed: KNOWN,
        };
        let dtype = element::from_header(header.dtype).ok_or_else(other)?;
        Ok(TensorInfo::whole(dtype, &header.shape))
    }

    /// A box of a tensor of this global shape, as numbers.
    ///
    /// # Errors
    /// [`Error::UnknownTensor`]; [`Error::Shape`] when the tensor has another shape, of which the box might be a corner;
    /// [`Error::Outside`]; [`Error::Dtype`] when its elements are none of our floats; [`Error::Io`].
    pub fn read_f64(
        &self,
        name: &str,
        global_shape: &[usize],
        index: &IndexBox,
    ) -> Result<Vec<f64>> {
        let (dtype, bytes) = self.read(name, global_shape, index)?;
        element::numbers(dtype, &bytes).ok_or_else(|| Error::not_float(name, dtype))
    }

    /// A full tensor of u32, such as token ids.
    ///
    /// # Errors
    /// [`Error::UnknownTensor`]; [`Error::Dtype`] if its elements are not u32; [`Error::Io`].
    pub fn read_u32(&self, name: &str) -> Result<Vec<u32>> {
        let shape = self.shape(name)?;
        match self.read(name, shape, &IndexBox::full(shape))? {
            (DType::U32, bytes) => Ok(bytes
                .as_chunks()
                .0
                .iter()
                .map(|id| u32::from_le_bytes(*id))
                .collect()),
            (other, _) => Err(Error::Dtype {
                name: name.to_owned(),
                found: other.to_string(),
                needed: "u32",
            }),
        }
    }

    fn read(
        &self,
        name: &str,
        global_shape: &[usize],
        index: &IndexBox,
    ) -> Result<(DType, Vec<u8>)> {
        let TensorInfo {
            dtype,
            global_shape: shape,
            ..
        } = self.info(name)?;
        check_request(name, &shape, global_shape, index)?;
        let (start, end) = self.header(name)?.data_offsets;
        let mut source = self
            .file
            .window(self.data_offset + start as u64, end - start);
        let mut bytes = vec![0; index.num_elements() * dtype.bytes()];
        copy_overlap(
            |from, out| source.read(from, out),
            &IndexBox::full(&shape),
            (&mut bytes, index),
            dtype.bytes(),
        )?;
        Ok((dtype, bytes))
    }

    fn header(&self, name: &str) -> Result<&safetensors::tensor::TensorInfo> {
        self.header.info(name).ok_or_else(|| Error::UnknownTensor {
            path: self.path.clone(),
            name: name.to_owned(),
            num_tensors: self.header.tensors().len(),
        })
    }
}

enum HeaderFault {
    Io(Error),
    Content(String),
}

/// The header of a safetensors file and the offset of the data behind it. The first eight bytes hold its length.
fn header(file: &SourceFile) -> std::result::Result<(Metadata, u64), HeaderFault> {
    let content = |reason: &str| HeaderFault::Content(reason.to_owned());
    if file.len() < LENGTH_BYTES {
        return Err(content("it is shorter than the length of a header"));
    }
    let mut length = [0; LENGTH_BYTES as usize];
    file.read(0, &mut length).map_err(HeaderFault::Io)?;
    let length = u64::from_le_bytes(length);
    if length > MOST_HEADER_BYTES.min(file.len() - LENGTH_BYTES) {
        return Err(HeaderFault::Content(format!(
            "its header claims {length} bytes"
        )));
    }
    let mut text = vec![0; length as usize];
    file.read(LENGTH_BYTES, &mut text)
        .map_err(HeaderFault::Io)?;
    let header: Metadata = serde_json::from_slice(&text)
        .map_err(|error| HeaderFault::Content(format!("its header is not valid: {error}")))?;
    let (data_offset, data_bytes) = (LENGTH_BYTES + length, header.data_len() as u64);
    match file.len() - data_offset == data_bytes {
        true => Ok((header, data_offset)),
        false => Err(HeaderFault::Content(format!(
            "it holds {} bytes of tensors, needs {data_bytes}",
            file.len() - data_offset
        ))),
    }
}
