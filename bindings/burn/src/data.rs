//! A tensor's elements as a vector, and back.

use crate::Result;
use burn::tensor::{DType, Device, Shape, Tensor, TensorData, bf16, f16};
use library::{
    collective::{GradientReducer, ParameterShards, Reduced},
    hal,
};

/// A float tensor's elements in the host's memory: on the CPU its own, if nothing else holds it.
pub(crate) enum Elements {
    F64(Vec<f64>),
    F32(Vec<f32>),
    Bf16(Vec<bf16>),
    F16(Vec<f16>),
}

/// Runs a body on the vector, whatever its type.
macro_rules! with_vector {
    ($elements:expr, |$vector:ident| $work:expr) => {
        match $elements {
            Elements::F64($vector) => $work,
            Elements::F32($vector) => $work,
            Elements::Bf16($vector) => $work,
            Elements::F16($vector) => $work,
        }
    };
}

impl Elements {
    /// Takes a tensor's elements.
    ///
    /// # Errors
    /// [`hal::Error::Invalid`] for another type of elements; that of the backend.
    pub(crate) fn take<const D: usize>(name: &str, tensor: Tensor<D>) -> Result<Elements> {
        let data = tensor.try_into_data()?;
        Ok(match data.dtype() {
            DType::F64 => Elements::F64(data.try_into_vec()?),
            DType::F32 => Elements::F32(data.try_into_vec()?),
            DType::BF16 => Elements::Bf16(data.try_into_vec()?),
            DType::F16 => Elements::F16(data.try_into_vec()?),
            other => {
                let found = format!("elements of {other:?}");
                return Err(hal::Error::invalid(name, found, "f64, f32, bf16 or f16").into());
            }
        })
    }

    /// Those of a reduced gradient.
    pub(crate) fn of(reduced: Reduced) -> Result<Elements> {
        Ok(match reduced.dtype() {
            hal::DType::F64 => Elements::F64(reduced.into_vec()?),
            hal::DType::F32 => Elements::F32(reduced.into_vec()?),
            hal::DType::Bf16 => Elements::Bf16(reduced.into_vec()?),
            hal::DType::F16 => Elements::F16(reduced.into_vec()?),
            other => unreachable!("no gradient of {other} was pushed"),
        })
    }

    /// A tensor of these elements.
    pub(crate) fn tensor<const D: usize>(self, shape: Shape, device: &Device) -> Tensor<D> {
        let (data, dtype) = match self {
            Elements::F64(vector) => (TensorData::new(vector, shape), DType::F64),
            Elements::F32(vector) => (TensorData::new(vector, shape), DType::F32),
            Elements::Bf16(vector) => (TensorData::new(vector, shape), DType::BF16),
            Elements::F16(vector) => (TensorData::new(vector, shape), DType::F16),
        };
        Tensor::from_data(data, (device, dtype))
    }

    /// Hands them to a reducer.
    pub(crate) fn push(self, reducer: &mut GradientReducer, name: &str) -> Result<()> {
        with_vector!(self, |vector| Ok(reducer.push(name, vector)?))
    }

    /// Replaces them by those of a parameter's owner.
    pub(crate) fn gather(&mut self, shards: &ParameterShards, name: &str) -> Result<()> {
        with_vector!(self, |vector| Ok(
            shards.gather(&mut [(name, vector.as_mut_slice())])?
        ))
    }

    /// Replaces them by those of rank 0.
    pub(crate) fn broadcast(&mut self, group: &crate::AxisGroup) -> Result<()> {
        with_vector!(self, |vector| Ok(group.broadcast(vector, 0)?))
    }
}
