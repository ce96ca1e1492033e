//! An operation on the tape.

use crate::{Tensor, saved::SavedSegment};
use hal::{DType, Result};
use std::{
    cell::{Cell, RefCell},
    rc::Rc,
};

/// One gradient per tensor, `None` where no gradient flows.
pub type Gradients = Vec<Option<Tensor>>;

/// How a node runs back.
pub(crate) enum Backward {
    Alone(Alone),
    Adding(Adding),
}

/// From the gradients of the outputs to those of the inputs.
pub(crate) type Alone = Box<dyn FnOnce(Gradients) -> Result<Gradients>>;

/// As [`Alone`], of one output and one input. The second argument holds what has arrived for the input before; if it is taken, the
/// result includes it.
pub(crate) type Adding = Box<dyn FnOnce(Tensor, &mut Option<Tensor>) -> Result<Tensor>>;

/// The node, and the index of its output, that produced a tensor.
#[derive(Clone)]
pub(crate) struct NodeOutput {
    pub(crate) node: Rc<Node>,
    pub(crate) output: usize,
}

/// In which type a node takes the gradients of its outputs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sums {
    /// In the type of the output.
    Rounded,
    /// In the type of the output or its accumulator: what was summed in more bits stays so.
    Kept,
}

pub(crate) struct Node {
    pub(crate) id: u64,
    pub(crate) name: &'static str,
    pub(crate) inputs: RefCell<Vec<Option<NodeOutput>>>,
    pub(crate) outputs: Vec<DType>,
    pub(crate) sums: Sums,
    // What was saved beside this node, which has to be on the device when the node runs back.
    pub(crate) saved: Option<Rc<SavedSegment>>,
    // Taken by the backward pass, so that what it saved is freed at once.
    pub(crate) backward: RefCell<Option<Backward>>,
}

// What a dropped node held, until the outermost drop on this thread releases it.
type Remains = (Vec<Option<NodeOutput>>, Option<Backward>);

thread_local! {
    static REMAINS: RefCell<Vec<Remains>> = const { RefCell::new(Vec::new()) };
    static DROPPING: Cell<bool> = const { Cell::new(false) };
}

impl Drop for Node {
    /// Releases the tape behind this node iteratively, because a chain of a million nodes is deeper than the
    /// stack.
    fn drop(&mut self) {
        let mut remains = Some((self.inputs.take(), self.backward.take()));
        // While a thread ends, its store may already be gone; then `remains` is dropped here.
        let is_outermost = REMAINS.try_with(|all| {
            all.borrow_mut().extend(remains.take());
            !DROPPING.replace(true)
        });
        if is_outermost != Ok(true) {
            return;
        }
        let _reset = Reset;
        while let Some(remains) = REMAINS.with(|all| all.borrow_mut().pop()) {
            drop(remains);
        }
    }
}

// Also runs if something that an operation saved panics in its drop.
struct Reset;

impl Drop for Reset {
    fn drop(&mut self) {
        DROPPING.set(false);
    }
}
