//! What a reducer returns.

use std::rc::Rc;
use tensor::{Result, Scalar, Tensor};

/// A gradient after its reduction.
#[derive(Debug)]
pub struct Reduced {
    name: Rc<str>,
    tensor: Tensor,
}

impl Reduced {
    pub(crate) fn new(name: Rc<str>, tensor: Tensor) -> Reduced {
        Reduced { name, tensor }
    }

    /// The name under which it was pushed.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn shared_name(&self) -> Rc<str> {
        self.name.clone()
    }

    /// The reduced elements.
    pub fn tensor(&self) -> &Tensor {
        &self.tensor
    }

    /// The reduced elements in the vector that was pushed, if it was one; otherwise in a copy.
    ///
    /// # Errors
    /// [`Error::Invalid`](tensor::Error::Invalid) for another type than that of the gradient.
    pub fn into_vec<T: Scalar>(self) -> Result<Vec<T>> {
        self.tensor.into_vec()
    }
}
