//! A gradient in a reducer's hands: a tensor, or a small vector, which never becomes one.

use std::{any::Any, fmt, rc::Rc};
use tensor::{DType, Device, Error, Result, Scalar, Tensor};

/// A gradient after its reduction.
#[derive(Debug)]
pub struct Reduced {
    name: Rc<str>,
    elements: Elements,
}

#[derive(Debug)]
pub(crate) enum Elements {
    Tensor(Tensor),
    Vector(HostVector),
}

impl Reduced {
    pub(crate) fn new(name: Rc<str>, elements: Elements) -> Reduced {
        Reduced { name, elements }
    }

    /// The name under which it was pushed.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The type of its elements.
    pub fn dtype(&self) -> DType {
        self.elements.dtype()
    }

    /// Number of elements.
    pub fn num_elements(&self) -> usize {
        self.elements.num_elements()
    }

    /// The reduced elements in the vector that was pushed, if it was one; otherwise in a copy.
    ///
    /// # Errors
    /// [`Error::Invalid`] for another type than that of the gradient.
    pub fn into_vec<T: Scalar>(self) -> Result<Vec<T>> {
        match self.elements {
            Elements::Tensor(tensor) => tensor.into_vec(),
            Elements::Vector(vector) => vector.into_vec(),
        }
    }

    /// Waits, on the host, until the elements are reduced.
    ///
    /// # Errors
    /// The failure of the stream that reduces them.
    pub fn synchronize(&self) -> Result<()> {
        self.tensor().map_or(Ok(()), Tensor::synchronize)
    }

    pub(crate) fn shared_name(&self) -> Rc<str> {
        self.name.clone()
    }

    /// The tensor, unless it is a vector.
    pub(crate) fn tensor(&self) -> Option<&Tensor> {
        match &self.elements {
            Elements::Tensor(tensor) => Some(tensor),
            Elements::Vector(_) => None,
        }
    }

    /// Makes a vector a tensor.
    ///
    /// # Errors
    /// As [`Tensor::from_vec`].
    pub(crate) fn make_tensor(&mut self, device: &Device) -> Result<()> {
        if let Elements::Vector(vector) = &mut self.elements {
            self.elements = Elements::Tensor((vector.make_tensor)(&mut *vector.elements, device)?);
        }
        Ok(())
    }

    /// Runs `work` on the elements' bytes in memory of the host.
    ///
    /// # Errors
    /// As [`Tensor::edit_bytes`].
    pub(crate) fn edit_bytes(&mut self, work: impl FnOnce(&mut [u8])) -> Result<()> {
        match &mut self.elements {
            Elements::Tensor(tensor) => tensor.edit_bytes(|bytes| {
                work(bytes);
                Ok(())
            }),
            Elements::Vector(vector) => {
                work((vector.bytes)(&mut *vector.elements));
                Ok(())
            }
        }
    }
}

impl Elements {
    pub(crate) fn dtype(&self) -> DType {
        match self {
            Elements::Tensor(tensor) => tensor.dtype(),
            Elements::Vector(vector) => vector.dtype,
        }
    }

    pub(crate) fn num_elements(&self) -> usize {
        match self {
            Elements::Tensor(tensor) => tensor.num_elements(),
            Elements::Vector(vector) => vector.length,
        }
    }
}

/// A vector of elements of some type.
pub(crate) struct HostVector {
    elements: Box<dyn Any>,
    dtype: DType,
    length: usize,
    bytes: fn(&mut dyn Any) -> &mut [u8],
    // Takes the elements.
    make_tensor: fn(&mut dyn Any, &Device) -> Result<Tensor>,
}

impl HostVector {
    pub(crate) fn new<T: Scalar>(elements: Vec<T>) -> HostVector {
        HostVector {
            dtype: T::DTYPE,
            length: elements.len(),
            bytes: |elements| bytemuck::cast_slice_mut(of_type::<T>(elements)),
            make_tensor: |elements, device| {
                let elements = std::mem::take(of_type::<T>(elements));
                Tensor::from_vec(device, &[elements.len()], elements)
            },
            elements: Box::new(elements),
        }
    }

    fn into_vec<T: Scalar>(self) -> Result<Vec<T>> {
        match self.elements.downcast() {
            Ok(elements) => Ok(*elements),
            Err(_) => {
                let found = format!("a vector of {}", T::DTYPE);
                Err(Error::invalid(
                    "into_vec",
                    found,
                    format!("{}, the gradient's type", self.dtype),
                ))
            }
        }
    }
}

fn of_type<T: Scalar>(elements: &mut dyn Any) -> &mut Vec<T> {
    elements.downcast_mut().expect("the vector's own type")
}

impl fmt::Debug for HostVector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.length, self.dtype)
    }
}
