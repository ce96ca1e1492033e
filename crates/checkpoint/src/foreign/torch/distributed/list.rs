//! What `.metadata` says: tensors, chunks, and where these lie.

use super::{Chunk, Cut, OpenFile, Place};
use crate::{
    Error, Result,
    boxes::num_bytes,
    foreign::{listed_file, torch::pickle::Object},
    source::SourceFile,
    tiling::{self, Tile},
};
use grid::IndexBox;
use hal::{DType, sync::OnceLock};
use std::{
    collections::{BTreeMap, HashMap},
    path::Path,
};

/// The module of the classes in a list.
const MODULE: &str = "torch.distributed.checkpoint.metadata";

/// Bounds of what a list makes, which may name one object many times: chunks of all tensors, dims of a tensor, bytes of a name.
const MOST_CHUNKS: usize = 1 << 22;
const MOST_DIMS: usize = 16;
const MOST_NAME: usize = 1024;

/// What a list says, while it is read.
pub(super) struct Listed<'a> {
    list: &'a Path,
    hidden: &'a [&'a str],
    pub(super) files: Vec<OpenFile>,
    places: HashMap<String, usize>,
    pub(super) entries: BTreeMap<String, Place>,
    num_chunks: usize,
}

// A chunk's place: the name of its tensor, and where it starts.
type Start<'a> = (&'a str, Vec<usize>);

impl<'a> Listed<'a> {
    /// Of the list at a path. Names that begin with one of `hidden` are skipped.
    pub(super) fn new(list: &'a Path, hidden: &'a [&'a str]) -> Listed<'a> {
        Listed {
            list,
            hidden,
            files: Vec::new(),
            places: HashMap::new(),
            entries: BTreeMap::new(),
            num_chunks: 0,
        }
    }

    fn refuse(&self, reason: impl Into<String>) -> Error {
        Error::Index {
            path: self.list.to_owned(),
            reason: reason.into(),
        }
    }

    fn is_shown(&self, name: &str) -> bool {
        !self.hidden.iter().any(|word| name.starts_with(word))
    }

    // A name that is no longer than any tensor's.
    fn name<'b>(&self, object: Option<Object<'b>>) -> Result<&'b str> {
        let name = object.and_then(Object::text);
        let name = name.ok_or_else(|| self.refuse("found a tensor or chunk without a name"))?;
        match name.len() <= MOST_NAME {
            true => Ok(name),
            false => Err(self.refuse(format!(
                "found a name of {} bytes, needs at most {MOST_NAME}",
                name.len()
            ))),
        }
    }

    /// The tensors that are shown, by their names; what is saved beside them goes to `entries`.
    pub(super) fn tensors(&mut self, top: Object<'_>) -> Result<BTreeMap<String, Cut>> {
        let is_metadata = top.made_by(MODULE, "Metadata").is_some();
        let attribute = |name| {
            top.attribute(name)
                .and_then(Object::pairs)
                .filter(|_| is_metadata)
        };
        let (Some(described), Some(stored)) =
            (attribute("state_dict_metadata"), attribute("storage_data"))
        else {
            return Err(self.refuse(format!(
                "found no {MODULE}.Metadata with tensors and their places"
            )));
        };
        let listed = described.len().max(stored.len());
        if listed > MOST_CHUNKS {
            return Err(self.refuse(format!(
                "found {listed} tensors or chunks, needs at most {MOST_CHUNKS}"
            )));
        }
        let mut starts = HashMap::new();
        for (index, place) in stored {
            let name = self.name(index.attribute("fqn"))?;
            if !self.is_shown(name) {
                continue;
            }
            let Some(offset) = index.attribute("offset").filter(|offset| !offset.is_none()) else {
                let place = self.place(name, place)?;
                self.entries.insert(name.to_owned(), place);
                continue;
            };
            let start = sizes(offset);
            let start = start
                .ok_or_else(|| self.refuse(format!("found a chunk of {name} without a start")))?;
            starts.insert((name, start), place);
        }
        let mut tensors = BTreeMap::new();
        for (name, tensor) in described {
            let name = self.name(Some(name))?;
            let is_tensor = tensor.made_by(MODULE, "TensorStorageMetadata").is_some();
            if is_tensor && self.is_shown(name) {
                let tensor = self.tensor(name, tensor, &starts)?;
                tensors.insert(name.to_owned(), tensor);
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
        let dtype = dtype.filter(|(module, name)| *module == "torch" && name.len() <= MOST_NAME);
        let shape = tensor.attribute("size").and_then(sizes);
        let chunks = tensor.attribute("chunks").and_then(Object::items);
        let (Some((_, dtype)), Some(shape), Some(chunks)) = (dtype, shape, chunks) else {
            return Err(self.refuse(format!("found no type, size or chunks of {name}")));
        };
        self.num_chunks += chunks.len();
        if self.num_chunks > MOST_CHUNKS {
            return Err(self.refuse(format!(
                "found more than {MOST_CHUNKS} chunks up to {name}, needs at most as many"
            )));
        }
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
                path: self.list.with_file_name(file),
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
        let file = place.attribute("relative_path");
        let file = file
            .and_then(Object::text)
            .filter(|file| file.len() <= MOST_NAME);
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
        let path = listed_file(self.list, name)?;
        self.files.push((name.to_owned(), SourceFile::find(&path)?));
        self.places.insert(name.to_owned(), self.files.len() - 1);
        Ok(self.files.len() - 1)
    }
}

// A `torch.Size`.
fn sizes(object: Object<'_>) -> Option<Vec<usize>> {
    let items = object.made_by("torch", "Size")?.item(0)?.items()?;
    match items.len() <= MOST_DIMS {
        true => items.map(Object::size).collect(),
        false => None,
    }
}
