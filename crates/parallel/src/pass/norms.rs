//! Norms of weights, computed once for all micro-batches of a batch.

use super::Pass;
use crate::Parameter;
use tensor::{Result, Tensor};

impl Pass {
    /// The norms of a weight's columns in this batch, which `compute` finds the first time.
    ///
    /// # Errors
    /// Those of `compute`.
    pub(crate) fn norms_of(
        &self,
        weight: &Parameter,
        compute: impl FnOnce() -> Result<Tensor>,
    ) -> Result<Tensor> {
        let index = weight.settled().map_or(0, |home| home.index);
        if let Some(known) = self.shared.norms.borrow().get(&index) {
            return Ok(known.clone());
        }
        let norms = compute()?;
        let mut all = self.shared.norms.borrow_mut();
        Ok(all.entry(index).or_insert(norms).clone())
    }
}
