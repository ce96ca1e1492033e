//! A folder with full tensors, in one safetensors file, in several with an index, or in chunks.

use super::{Distributed, listed_file};
use crate::{Error, PlainFile, Result, TensorInfo};
use grid::IndexBox;
use hal::files;
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

/// The name of a model's files without their ending.
pub const WEIGHTS_STEM: &str = "model";
/// The file of a model that lies in one.
const WEIGHTS_FILE: &str = "model.safetensors";
/// The list of the files of a model that lies in several.
const WEIGHTS_INDEX: &str = "model.safetensors.index.json";

/// The longest index: names of a million tensors.
const MOST_INDEX_BYTES: u64 = 256 << 20;

/// The tensors of a model in a folder: those of `model.safetensors`, or of the files that `model.safetensors.index.json`
/// lists, as the library transformers writes them; or those of a [distributed checkpoint](Distributed). Perhaps with those of another
/// file, and with products of low rank that are added to some.
#[derive(Debug)]
pub struct PlainFolder {
    path: PathBuf,
    files: Vec<Part>,
    places: BTreeMap<String, usize>,
    added: BTreeMap<String, LowRank>,
}

#[derive(Debug)]
enum Part {
    File(PlainFile),
    Distributed(Distributed),
}

impl Part {
    fn info(&self, name: &str) -> Result<TensorInfo> {
        match self {
            Part::File(file) => file.info(name),
            Part::Distributed(checkpoint) => checkpoint.info(name),
        }
    }

    fn read_f64(&self, name: &str, shape: &[usize], index: &IndexBox) -> Result<Vec<f64>> {
        match self {
            Part::File(file) => file.read_f64(name, shape, index),
            Part::Distributed(checkpoint) => checkpoint.read_f64(name, shape, index),
        }
    }
}

/// scale B A, which is added to a matrix: B has its rows, A its columns. The rows of the sum may get other lengths.
#[derive(Clone, Debug, PartialEq)]
pub struct LowRank {
    /// The tensor B, rows x rank.
    pub rows: String,
    /// The tensor A, rank x columns.
    pub columns: String,
    /// The factor.
    pub scale: f64,
    /// The tensor of the rows' lengths, if they have some of their own.
    pub lengths: Option<String>,
    /// Whether the matrix is stored with its rows as columns.
    pub is_turned: bool,
}

/// The index, of which only the map is ours to read.
#[derive(Serialize, Deserialize)]
pub(super) struct Index {
    #[serde(default)]
    pub(super) metadata: serde_json::Value,
    pub(super) weight_map: BTreeMap<String, String>,
}

impl PlainFolder {
    /// Opens a folder.
    ///
    /// Reads indices and headers alone; tensors are read when they are asked for.
    ///
    /// # Errors
    /// [`Error::Missing`] if there is neither of the two files, or one that the index lists is not there; [`Error::Index`]
    /// for an index that is not one, or that does not list what the files hold; those of [`PlainFile::open`].
    pub fn open(path: impl AsRef<Path>) -> Result<PlainFolder> {
        let path = path.as_ref();
        let index = path.join(WEIGHTS_INDEX);
        match index.exists() {
            true => PlainFolder::of_several(path, &index),
            false => PlainFolder::of_one(path),
        }
    }

    /// The tensors of a distributed checkpoint.
    pub fn of_distributed(checkpoint: Distributed) -> PlainFolder {
        let names = checkpoint.names().map(|name| (name.to_owned(), 0));
        PlainFolder {
            path: checkpoint.path().to_owned(),
            places: names.collect(),
            files: vec![Part::Distributed(checkpoint)],
            added: BTreeMap::new(),
        }
    }

    fn of_one(path: &Path) -> Result<PlainFolder> {
        let file = PlainFile::open(path.join(WEIGHTS_FILE))?;
        Ok(PlainFolder {
            path: path.to_owned(),
            places: file.names().into_iter().map(|name| (name, 0)).collect(),
            files: vec![Part::File(file)],
            added: BTreeMap::new(),
        })
    }

    fn of_several(path: &Path, index_path: &Path) -> Result<PlainFolder> {
        let refuse = |reason: String| Error::Index {
            path: index_path.to_owned(),
            reason,
        };
        let text =
            files::read(index_path, MOST_INDEX_BYTES).map_err(Error::io("reading", index_path))?;
        let index: Index =
            serde_json::from_slice(&text).map_err(|error| refuse(error.to_string()))?;
        let names: BTreeSet<&String> = index.weight_map.values().collect();
        let files = names.iter().map(|name| listed_file(index_path, name));
        let files = files.collect::<Result<Vec<_>>>()?;
        let mut folder = PlainFolder {
            path: path.to_owned(),
            files: Vec::new(),
            places: BTreeMap::new(),
            added: BTreeMap::new(),
        };
        for (name, file) in names.into_iter().zip(files) {
            let file = PlainFile::open(file)?;
            for tensor in file.names() {
                match index.weight_map.get(&tensor) {
                    Some(listed) if listed == name => {}
                    Some(listed) => {
                        return Err(refuse(format!(
                            "it lists {tensor} in {listed}, which {name} holds"
                        )));
                    }
                    None => return Err(refuse(format!("it lacks {tensor}, which {name} holds"))),
                }
                folder.places.insert(tensor, folder.files.len());
            }
            folder.files.push(Part::File(file));
        }
        let mut listed = index.weight_map.iter();
        match listed.find(|(tensor, _)| !folder.places.contains_key(*tensor)) {
            Some((tensor, name)) => Err(refuse(format!(
                "it lists {tensor} in {name}, which does not hold it"
            ))),
            None => Ok(folder),
        }
    }

    /// With the tensors of a file elsewhere too.
    ///
    /// # Errors
    /// [`Error::Index`] for a tensor of a name that the folder has; those of [`PlainFile::open`].
    pub fn with_file(mut self, path: &Path) -> Result<PlainFolder> {
        let file = PlainFile::open(path)?;
        for tensor in file.names() {
            if self
                .places
                .insert(tensor.clone(), self.files.len())
                .is_some()
            {
                let reason = format!("found {tensor}, which {} has too", self.path.display());
                let path = path.to_owned();
                return Err(Error::Index { path, reason });
            }
        }
        self.files.push(Part::File(file));
        Ok(self)
    }

    /// With a product added to a matrix, and its rows' lengths changed, whenever it is read as numbers.
    #[must_use]
    pub fn adding(mut self, tensor: impl Into<String>, product: LowRank) -> PlainFolder {
        self.added.insert(tensor.into(), product);
        self
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The names of all tensors, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.places.keys().map(String::as_str)
    }

    /// Whether a tensor with that name exists.
    pub fn contains(&self, name: &str) -> bool {
        self.places.contains_key(name)
    }

    /// The description of a tensor; no axis cuts it.
    ///
    /// # Errors
    /// As [`PlainFile::info`].
    pub fn info(&self, name: &str) -> Result<TensorInfo> {
        self.file(name)?.info(name)
    }

    /// A box of a tensor of this shape, as numbers.
    ///
    /// # Errors
    /// As [`PlainFile::read_f64`].
    pub fn read_f64(&self, name: &str, shape: &[usize], index: &IndexBox) -> Result<Vec<f64>> {
        let read = |index: &IndexBox| self.file(name)?.read_f64(name, shape, index);
        let Some(product) = self.added.get(name) else {
            return read(index);
        };
        let sum = |index: &IndexBox| {
            let mut numbers = read(index)?;
            self.add(product, index, &mut numbers)?;
            Ok(numbers)
        };
        match &product.lengths {
            Some(lengths) => self.stretched(lengths, (product.is_turned, shape), index, sum),
            None => sum(index),
        }
    }

    // A box of a matrix whose rows get their lengths; `sum` reads a box of the matrix as it is without.
    fn stretched(
        &self,
        lengths: &str,
        (is_turned, shape): (bool, &[usize]),
        index: &IndexBox,
        sum: impl Fn(&IndexBox) -> Result<Vec<f64>>,
    ) -> Result<Vec<f64>> {
        let of_lengths = self.info(lengths)?.global_shape;
        let lengths = self.read_f64(lengths, &of_lengths, &IndexBox::full(&of_lengths))?;
        // The dim along which a row lies, and that which counts rows.
        let (along, across) = (usize::from(!is_turned), usize::from(is_turned));
        let mut rows = index.clone();
        (rows.start[along], rows.shape[along]) = (0, shape[along]);
        let width = rows.shape[1].max(1);
        let row_of = |line: usize, column: usize| [line, column][across];
        let whole = sum(&rows)?;
        let mut factors = vec![0.0; index.shape[across]];
        for (line, numbers) in whole.chunks(width).enumerate() {
            for (column, number) in numbers.iter().enumerate() {
                factors[row_of(line, column)] += number * number;
            }
        }
        for (row, factor) in factors.iter_mut().enumerate() {
            // A row of zeros has no direction, and stays.
            let norm = factor.sqrt().max(f64::MIN_POSITIVE);
            *factor = lengths[index.start[across] + row] / norm;
        }
        let [skipped, before] = [0, 1].map(|dim| index.start[dim] - rows.start[dim]);
        let lines = whole.chunks(width).skip(skipped).take(index.shape[0]);
        let mut numbers = Vec::with_capacity(index.num_elements());
        for (line, whole) in lines.enumerate() {
            let part = whole[before..before + index.shape[1]].iter().enumerate();
            numbers.extend(part.map(|(column, number)| number * factors[row_of(line, column)]));
        }
        Ok(numbers)
    }

    // Adds the box of a product to that of a matrix.
    fn add(&self, product: &LowRank, index: &IndexBox, out: &mut [f64]) -> Result<()> {
        let shape_of = |name: &str| self.info(name).map(|info| info.global_shape);
        let (of_b, of_a) = (shape_of(&product.rows)?, shape_of(&product.columns)?);
        let b = self.read_f64(&product.rows, &of_b, &IndexBox::full(&of_b))?;
        let a = self.read_f64(&product.columns, &of_a, &IndexBox::full(&of_a))?;
        let (rank, width) = (of_b[1], of_a[1]);
        for (at, out) in out.iter_mut().enumerate() {
            let (row, column) = (at / index.shape[1], at % index.shape[1]);
            let (mut row, mut column) = (index.start[0] + row, index.start[1] + column);
            if product.is_turned {
                std::mem::swap(&mut row, &mut column);
            }
            let terms = (0..rank).map(|k| b[row * rank + k] * a[k * width + column]);
            *out += product.scale * terms.sum::<f64>();
        }
        Ok(())
    }

    fn file(&self, name: &str) -> Result<&Part> {
        let place = self.places.get(name).ok_or_else(|| Error::UnknownTensor {
            path: self.path.clone(),
            name: name.to_owned(),
            num_tensors: self.places.len(),
        })?;
        Ok(&self.files[*place])
    }
}
