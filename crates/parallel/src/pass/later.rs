//! Gradients of weights that a backward pass puts off, so that a stage can first hand on the gradients of its inputs.

use super::Pass;
use std::cell::RefCell;
use tensor::Result;

/// Work that a backward pass has put off; it holds the tensors that it needs.
pub(crate) type Later = Vec<Box<dyn FnOnce() -> Result<()>>>;

/// What the backward pass of a micro-batch puts off; `None` where nothing is.
pub(super) type List = RefCell<Option<Later>>;

impl Pass {
    /// Runs `work`, or puts it off if this is what the backward pass does.
    ///
    /// # Errors
    /// Those of `work`.
    pub(crate) fn later(&self, work: impl FnOnce() -> Result<()> + 'static) -> Result<()> {
        if let Some(list) = &mut *self.later.borrow_mut() {
            list.push(Box::new(work));
            return Ok(());
        }
        work()
    }

    /// Runs a backward pass that puts off the gradients of weights; returns what it put off, in its order.
    ///
    /// # Errors
    /// Those of `backward`.
    pub(crate) fn putting_off(&self, backward: impl FnOnce() -> Result<()>) -> Result<Later> {
        *self.later.borrow_mut() = Some(Later::new());
        let done = backward();
        let list = self.later.take().unwrap_or_default();
        done.map(|()| list)
    }
}
