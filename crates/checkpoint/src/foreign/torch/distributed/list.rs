//! What `.metadata` says: tensors, chunks, and where these lie.

use super::{Chunk, Cut, Distributed, Place};
use crate::{
    Error, Result,
    boxes::num_bytes,
    foreign::torch::pickle::Object,
    source::SourceFile,
    tiling::{self, Tile},
};
use grid::IndexBox;
use hal::{DType, sync::OnceLock};
use std::{
    collections::{BTreeMap, HashMap},
    path::{Path, PathBuf},
};

const MODULE: &str = "torch.distributed.checkpoint";

/// What a list says, while it is read.
pub(super) struct Listed<'a> {
    path: &'a Path,
    pub(super) files: Vec<(String, SourceFile)>,
    places: HashMap<String, usize>,
    pub(super) entries: BTreeMap<String, Place>,
}

// A chunk's place: the name of its tensor, and where it starts.
type Start<'a> = (&'a str, Vec<usize>);

impl<'a> Listed<'a> {
    pub(super) fn new(path: &'a Path) -> Listed<'a> {
        Listed {
            path,
            files: Vec::new(),
            places: HashMap::new(),
            entries: BTreeMap::new(),
        }
    }

    fn refuse(&self, reason: impl Into<String>) -> Error {
        Error::Index {
            path: self.path.join(Distributed::METADATA_FILE),
            reason: reason.into(),
        }
    }

    /// The tensors that are not hidden, by their names.
    pub(super) fn tensors(
        &mut self,
        top: Object<'_>,
        hidden: &[&str],
    ) -> Result<Vec<(String, Cut)>> {
        let is_metadata = top
            .made_by(&format!("{MODULE}.metadata.Metadata"))
            .is_some();
        let attribute = |name| {
            top.attribute(name)
                .and_then(Object::pairs)
                .filter(|_| is_metadata)
        };
        let (Some(described), Some(stored)) =
            (attribute("state_dict_metadata"), attribute("storage_data"))
        else {
            return Err(self.refuse(format!(
                "found no {MODULE}.metadata.Metadata with tensors and their places"
            )));
        };
        let is_shown = |name: &str| !hidden.iter().any(|word| name.starts_with(word));
        let mut starts = HashMap::new();
        for (index, place) in stored {
            let name = index.attribute("fqn").and_then(Object::text);
            let Some(name) = name else {
                return Err(self.refuse("found a chunk without a name"));
            };
            if !is_shown(name) {
                continue;
            }
            match index.attribute("offset").filter(|offset| !offset.is_none()) {
                None => {
                    let place = self.place(name, place)?;
                    self.entries.insert(name.to_owned(), place);
                }
                Some(offset) => {
                    let start = sizes(offset).ok_or_else(|| {
                        self.refuse(format!("found a chunk of {name} without a start"))
                    })?;
                    starts.insert((name, start), place);
                }
            }
        }
        let mut tensors = Vec::new();
        for (name, tensor) in described {
            let name = name
                .text()
                .ok_or_else(|| self.refuse("found a tensor without a name"))?;
            let is_tensor = tensor
                .made_by(&format!("{MODULE}.metadata.TensorStorageMetadata"))
                .is_some();
            if is_tensor && is_shown(name) {
                tensors.push((name.to_owned(), self.tensor(name, tensor, &starts)?));
            }
        }
        Ok(tensors)
    }

    fn tensor(
        &mut self,
        name: &str,
        tensor: Object<'_>,
        starts: &HashMap<Start<'_>, Object<'_>>,
    ) -> Result<Cut> {
        let properties = tensor.attribute("properties").and_then(Object::state);
        let dtype = properties.and_then(|own| own.item(0)?.global());
        let shape = tensor.attribute("size").and_then(sizes);
        let chunks = tensor.attribute("chunks").and_then(Object::items);
        let (Some(dtype), Some(shape), Some(chunks)) = (dtype, shape, chunks) else {
            return Err(self.refuse(format!("found no type, size or chunks of {name}")));
        };
        let cut = Cut {
            dtype: dtype.to_owned(),
            chunks: chunks
                .map(|chunk| self.chunk(name, chunk, starts))
                .collect::<Result<_>>()?,
            shape,
        };
        if num_bytes(&cut.shape, DType::F64).is_none() {
            return Err(self.refuse(format!(
                "{name} of shape {:?} has more bytes than a machine can count",
                cut.shape
            )));
        }
        let tiles = cut.chunks.iter().map(|chunk| Tile {
            index: &chunk.index,
            file: &self.files[chunk.file].0,
        });
        match tiling::check(&cut.shape, &tiles.collect::<Vec<_>>()) {
            Ok(()) => Ok(cut),
            Err(fault) => Err(self.refuse(format!("{name}: {fault}"))),
        }
    }

    fn chunk(
        &mut self,
        name: &str,
        chunk: Object<'_>,
        starts: &HashMap<Start<'_>, Object<'_>>,
    ) -> Result<Chunk> {
        let of = |attribute| chunk.attribute(attribute).and_then(sizes);
        let (Some(start), Some(shape)) = (of("offsets"), of("sizes")) else {
            return Err(self.refuse(format!("found a chunk of {name} without a start or sizes")));
        };
        let place = starts.get(&(name, start.clone()));
        let place = place.ok_or_else(|| {
            self.refuse(format!(
                "found no place of the chunk of {name} at {start:?}"
            ))
        })?;
        let Place {
            file,
            offset,
            length,
        } = self.place(name, *place)?;
        let index = self.file(&file)?;
        let bytes = self.files[index].1.len();
        if offset.checked_add(length).is_none_or(|end| end > bytes) {
            return Err(Error::Index {
                path: self.path.join(file),
                reason: format!(
                    "found {bytes} bytes, needs the chunk of {name} at byte {offset} of {length} bytes"
                ),
            });
        }
        Ok(Chunk {
            index: IndexBox { start, shape },
            file: index,
            offset,
            length,
            elements: OnceLock::new(),
        })
    }

    fn place(&self, name: &str, place: Object<'_>) -> Result<Place> {
        let number = |attribute| place.attribute(attribute).and_then(Object::size);
        let file = place.attribute("relative_path").and_then(Object::text);
        let (Some(file), Some(offset), Some(length)) = (file, number("offset"), number("length"))
        else {
            return Err(self.refuse(format!(
                "found no file, offset or length of a chunk of {name}"
            )));
        };
        if place
            .attribute("transform_descriptors")
            .is_some_and(|it| !it.is_none())
        {
            return Err(self.refuse(format!(
                "found a compressed chunk of {name}, needs plain ones"
            )));
        }
        Ok(Place {
            file: file.to_owned(),
            offset: offset as u64,
            length: length as u64,
        })
    }

    fn file(&mut self, name: &str) -> Result<usize> {
        if let Some(place) = self.places.get(name) {
            return Ok(*place);
        }
        let path = file_in(self.path, name)?;
        self.files.push((name.to_owned(), SourceFile::open(&path)?));
        self.places.insert(name.to_owned(), self.files.len() - 1);
        Ok(self.files.len() - 1)
    }
}

/// The file of that name in a folder. A name that leads elsewhere would read files that nobody meant.
pub(super) fn file_in(folder: &Path, name: &str) -> Result<PathBuf> {
    if Path::new(name).file_name() != Some(name.as_ref()) {
        return Err(Error::Index {
            path: folder.join(Distributed::METADATA_FILE),
            reason: format!("found the file {name:?}, needs the name of a file in this folder"),
        });
    }
    let path = folder.join(name);
    match path.exists() {
        true => Ok(path),
        false => Err(Error::Missing { path }),
    }
}

// A `torch.Size`.
fn sizes(object: Object<'_>) -> Option<Vec<usize>> {
    let items = object.made_by("torch.Size")?.item(0)?.items()?;
    items.map(Object::size).collect()
}
