//! Parameters of which each rank of a group holds a slice.

use crate::{Error, NamedVars, Result};
use candle_core::{DType, Device, Shape, Tensor, Var};
use candle_nn::{Init, VarMap, init::NormalOrUniform};
use library::{collective::AxisGroup, grid::IndexBox, hal, train::checkpoint::PlainFile};
use std::{fmt::Display, path::Path, rc::Rc, sync::PoisonError};

/// A builder of variables that are cut over the ranks of a group, or the same on all of them.
///
/// Variables come from safetensors files, of which a rank reads its slice alone, or are drawn by an [`Init`] for the complete shape.
/// They are added to a [`VarMap`] under their names, with the shapes of this rank.
///
/// ```
/// use candle_core::DType;
/// use candle_nn::{Linear, VarMap, init::DEFAULT_KAIMING_NORMAL};
/// use fascicle_candle::{AxisGroup, Result, ShardedVarBuilder};
///
/// /// 16 inputs and 64 outputs, of which each rank has its share.
/// fn column_parallel(group: &AxisGroup, map: &VarMap) -> Result<Linear> {
///     let builder = ShardedVarBuilder::new(group, map, DType::F32).pp("up");
///     let weight = builder.sharded((64, 16), "weight", 0, DEFAULT_KAIMING_NORMAL)?;
///     Ok(Linear::new(weight, None))
/// }
/// ```
#[derive(Clone)]
pub struct ShardedVarBuilder {
    group: AxisGroup,
    map: VarMap,
    files: Rc<Vec<PlainFile>>,
    prefix: String,
    dtype: DType,
}

impl ShardedVarBuilder {
    /// A builder that draws all variables.
    pub fn new(group: &AxisGroup, map: &VarMap, dtype: DType) -> ShardedVarBuilder {
        ShardedVarBuilder {
            group: group.clone(),
            map: map.clone(),
            files: Rc::default(),
            prefix: String::new(),
            dtype,
        }
    }

    /// A builder whose variables are in safetensors files; it draws none.
    ///
    /// # Errors
    /// Those of [`PlainFile::open`].
    pub fn from_safetensors(
        group: &AxisGroup,
        map: &VarMap,
        dtype: DType,
        paths: &[impl AsRef<Path>],
    ) -> Result<ShardedVarBuilder> {
        let files = paths.iter().map(PlainFile::open);
        let files = files.collect::<std::result::Result<Vec<PlainFile>, _>>()?;
        let files = Rc::new(files);
        Ok(ShardedVarBuilder {
            files,
            ..ShardedVarBuilder::new(group, map, dtype)
        })
    }

    /// The same builder one level deeper, as candle's `VarBuilder::pp`.
    pub fn pp(&self, name: impl Display) -> ShardedVarBuilder {
        let prefix = self.path(name);
        ShardedVarBuilder {
            prefix,
            ..self.clone()
        }
    }

    /// This rank's slice of a variable of this complete shape, cut along `dim` in equal parts.
    ///
    /// # Errors
    /// [`hal::Error::Invalid`] for a dim that does not exist or does not divide by the number of ranks, and for a variable that the
    /// map has with another shape; those of reading a file.
    pub fn sharded(
        &self,
        shape: impl Into<Shape>,
        name: &str,
        dim: usize,
        init: Init,
    ) -> Result<Tensor> {
        let shape = shape.into();
        let slice = slice(&self.path(name), &self.group, shape.dims(), dim)?;
        self.tensor(&shape, slice, name, |local| {
            draw(init, &shape, local, self.dtype)
        })
    }

    /// A variable that is the same on all ranks. Collective when it is drawn.
    ///
    /// # Errors
    /// As [`sharded`](ShardedVarBuilder::sharded); those of [`AxisGroup::broadcast`].
    pub fn replicated(&self, shape: impl Into<Shape>, name: &str, init: Init) -> Result<Tensor> {
        let shape = shape.into();
        self.tensor(&shape, IndexBox::full(shape.dims()), name, |local| {
            let var = draw(init, &shape, local, self.dtype)?;
            NamedVars::new([(self.path(name), var.clone())])?.broadcast(&self.group)?;
            Ok(var)
        })
    }

    fn path(&self, name: impl Display) -> String {
        match self.prefix.is_empty() {
            true => name.to_string(),
            false => format!("{}.{name}", self.prefix),
        }
    }

    fn tensor(
        &self,
        shape: &Shape,
        slice: IndexBox,
        name: &str,
        draw: impl FnOnce(&[usize]) -> Result<Var>,
    ) -> Result<Tensor> {
        let path = self.path(name);
        if let Some(var) = self.known(&path) {
            return match var.dims() == slice.shape {
                true => Ok(var.into_inner()),
                false => {
                    let found = format!("shape {:?} in the map", var.dims());
                    Err(hal::Error::invalid(path, found, format!("{:?}", slice.shape)).into())
                }
            };
        }
        let var = match self.files.is_empty() {
            true => draw(&slice.shape)?,
            false => self.read(&path, shape.dims(), &slice)?,
        };
        let tensor = var.as_tensor().clone();
        let mut data = self
            .map
            .data()
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        data.insert(path, var);
        Ok(tensor)
    }

    fn known(&self, path: &str) -> Option<Var> {
        let data = self
            .map
            .data()
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        data.get(path).cloned()
    }

    fn read(&self, path: &str, shape: &[usize], slice: &IndexBox) -> Result<Var> {
        let Some(file) = self.files.iter().find(|file| file.contains(path)) else {
            let found = format!("no tensor {path} in {} files", self.files.len());
            return Err(hal::Error::invalid("ShardedVarBuilder", found, "one that has it").into());
        };
        let elements = file.read_f64(path, shape, slice)?;
        let tensor = Tensor::from_vec(elements, slice.shape.as_slice(), &Device::Cpu)?;
        Ok(Var::from_tensor(&tensor.to_dtype(self.dtype)?)?)
    }
}

/// The indices of this rank's part.
fn slice(name: &str, group: &AxisGroup, shape: &[usize], dim: usize) -> Result<IndexBox> {
    let Some(&size) = shape.get(dim) else {
        let found = format!("a cut of dim {dim} of {shape:?}");
        return Err(
            hal::Error::invalid(name, found, format!("a dim below {}", shape.len())).into(),
        );
    };
    let (rank, ranks) = (group.rank(), group.size());
    if !size.is_multiple_of(ranks) {
        let found = format!("{size} on dim {dim}");
        return Err(
            hal::Error::invalid(name, found, format!("a multiple of {ranks} ranks")).into(),
        );
    }
    let mut slice = IndexBox::full(shape);
    slice.shape[dim] = size / ranks;
    slice.start[dim] = rank * (size / ranks);
    Ok(slice)
}

/// Draws a slice of a variable, whose spread follows from the complete shape.
fn draw(init: Init, shape: &Shape, local: &[usize], dtype: DType) -> Result<Var> {
    let init = match init {
        Init::Kaiming {
            dist,
            fan,
            non_linearity,
        } => {
            let stdev = non_linearity.gain() / (fan.for_shape(shape) as f64).sqrt();
            let bound = 3f64.sqrt() * stdev;
            match dist {
                NormalOrUniform::Normal => Init::Randn { mean: 0.0, stdev },
                NormalOrUniform::Uniform => Init::Uniform {
                    lo: -bound,
                    up: bound,
                },
            }
        }
        other => other,
    };
    init.var(local, dtype, &Device::Cpu).map_err(Error::from)
}
