//! Scratch memory of one stream, which its kernels use one after another.

use crate::{context::Context, table::Address};
use hal::Result;
use std::sync::Arc;

/// Blocks of growing size. The last block serves the next work.
///
/// Earlier blocks stay, because queued work may still use them. Freeing memory in the middle of a step would wait for
/// all work on the device, which may wait for a peer that waits for this rank. Each block is at least twice as large as
/// the one before, so the earlier ones together are smaller than the last.
#[derive(Debug)]
pub(super) struct Scratch {
    context: Arc<Context>,
    blocks: Vec<(Address, usize)>,
}

/// Demand grows in a few large steps.
const LEAST_BYTES: usize = 1 << 20;

impl Scratch {
    pub(super) fn new(context: &Arc<Context>) -> Scratch {
        Scratch {
            context: context.clone(),
            blocks: Vec::new(),
        }
    }

    /// The address of at least `bytes`.
    pub(super) fn reserve(&mut self, bytes: usize) -> Result<Address> {
        let (address, available) = self.blocks.last().copied().unwrap_or_default();
        if bytes <= available {
            return Ok(address);
        }
        let bytes = bytes.next_power_of_two().max(LEAST_BYTES);
        let address = self.context.allocate(bytes)?;
        self.blocks.push((address, bytes));
        Ok(address)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if !self.blocks.is_empty() {
            self.context.land();
        }
        for (address, _) in self.blocks.drain(..) {
            // SAFETY: the block came from `allocate`, and its stream has been waited for.
            unsafe { self.context.free(address) };
        }
    }
}
