//! An operation on the tape.

use crate::Tensor;
use hal::Result;
use std::{cell::RefCell, rc::Rc};

/// One gradient for each tensor, none where no gradient flows.
pub type Gradients = Vec<Option<Tensor>>;

pub(crate) type Backward = Box<dyn FnOnce(Gradients) -> Result<Gradients>>;

/// Which output of which node a tensor is.
#[derive(Clone)]
pub(crate) struct Place {
    pub(crate) node: Rc<Node>,
    pub(crate) output: usize,
}

pub(crate) struct Node {
    pub(crate) id: u64,
    pub(crate) name: &'static str,
    pub(crate) inputs: RefCell<Vec<Option<Place>>>,
    pub(crate) num_outputs: usize,
    // Taken by the backward pass, so that what it saved is freed at once.
    pub(crate) backward: RefCell<Option<Backward>>,
}
