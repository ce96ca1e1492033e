//! Scratch memory of one stream, which its kernels use one after another.

use crate::{context::Context, table::Address};
use hal::Result;
use std::sync::Arc;

/// A block that grows to the largest need.
#[derive(Debug)]
pub(super) struct Scratch {
    context: Arc<Context>,
    address: Address,
    bytes: usize,
}

/// Need grows in a few large steps, because each waits for the stream.
const LEAST_BYTES: usize = 1 << 20;

impl Scratch {
    pub(super) fn new(context: &Arc<Context>) -> Scratch {
        Scratch { context: context.clone(), address: 0, bytes: 0 }
    }

    /// The address of at least `bytes`, 0 where none are needed; `idle` waits for the block's earlier uses.
    pub(super) fn reserve(&mut self, bytes: usize, idle: impl FnOnce() -> Result<()>) -> Result<Address> {
        if bytes > self.bytes {
            idle()?;
            self.free();
            let bytes = bytes.next_power_of_two().max(LEAST_BYTES);
            self.address = self.context.allocate(bytes)?;
            self.bytes = bytes;
        }
        Ok(self.address)
    }

    fn free(&mut self) {
        if self.bytes > 0 {
            self.bytes = 0;
            // SAFETY: the block came from `allocate`; its stream has been waited for, or the vendor waits as it frees.
            self.context.release(|runtime| unsafe { runtime.free(self.address) });
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        self.free();
    }
}
