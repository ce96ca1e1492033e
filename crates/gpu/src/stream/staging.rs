//! Copies between host memory that is not pinned and the device, through pinned blocks.
//!
//! A copy from pinned memory runs at full speed, and the caller may reuse its bytes at once. Two blocks take turns: the
//! host fills one while the device empties the other.

use crate::{
    context::Context,
    event::Point,
    table::{Address, Handle},
};
use hal::Result;
use std::{ops::Range, sync::Arc};

/// The most bytes that one block holds.
const BLOCK_BYTES: usize = 4 << 20;
const LEAST_BYTES: usize = 64 << 10;

/// The two blocks of one stream, allocated on first use.
#[derive(Debug, Default)]
pub(super) struct Staging {
    blocks: [Option<Block>; 2],
    next: usize,
    // Earlier, smaller blocks; `Scratch` explains why they stay. Together they are smaller than those in use.
    outgrown: Vec<Block>,
}

/// Pinned memory, and the event that follows its last copy.
#[derive(Debug)]
struct Block {
    context: Arc<Context>,
    pointer: *mut u8,
    bytes: usize,
    used: Point,
}

// SAFETY: pinned memory is plain host memory that any thread may use; the context is shared between threads anyway.
unsafe impl Send for Block {}

impl Staging {
    /// Queues a copy to the device. The bytes of `src` have been read when this returns.
    ///
    /// # Safety
    /// `dst` holds `src.len()` bytes and is live until the copy has run; the stream is live.
    pub(super) unsafe fn upload(
        &mut self,
        context: &Arc<Context>,
        stream: Handle,
        dst: Address,
        src: &[u8],
    ) -> Result<()> {
        for (part, offset) in src.chunks(BLOCK_BYTES).zip((dst..).step_by(BLOCK_BYTES)) {
            let index = self.turn(context, part.len())?;
            let Some(block) = &mut self.blocks[index] else {
                continue;
            };
            block.bytes_mut(part.len()).copy_from_slice(part);
            let pointer = block.pointer;
            // SAFETY: the block holds the part and is not touched before `used`; the caller vouches for the
            // destination.
            context.call(|runtime| unsafe {
                runtime.copy_to_device(offset, pointer, part.len(), stream)
            })?;
            block.used.record(stream)?;
        }
        Ok(())
    }

    /// Copies to the host, after everything queued so far.
    ///
    /// # Safety
    /// `src` is live and holds `dst.len()` bytes; the stream is live.
    pub(super) unsafe fn download(
        &mut self,
        context: &Arc<Context>,
        stream: Handle,
        dst: &mut [u8],
        src: Address,
    ) -> Result<()> {
        let mut pending: Option<(usize, Range<usize>)> = None;
        for start in (0..dst.len()).step_by(BLOCK_BYTES) {
            let part = start..dst.len().min(start + BLOCK_BYTES);
            let index = self.turn(context, part.len())?;
            let Some(block) = &mut self.blocks[index] else {
                continue;
            };
            let (pointer, from) = (block.pointer, src + start as u64);
            // SAFETY: the block holds the part and is read only after `used`; the caller vouches for the source.
            context.call(|runtime| unsafe {
                runtime.copy_to_host(pointer, from, part.len(), stream)
            })?;
            block.used.record(stream)?;
            if let Some((index, part)) = pending.replace((index, part)) {
                self.take(index, &mut dst[part])?;
            }
        }
        pending.map_or(Ok(()), |(index, part)| self.take(index, &mut dst[part]))
    }

    // The index of the next block, which is free and large enough.
    fn turn(&mut self, context: &Arc<Context>, bytes: usize) -> Result<usize> {
        let index = self.next;
        self.next = (index + 1) % self.blocks.len();
        match &self.blocks[index] {
            Some(block) if block.bytes >= bytes => block.used.synchronize()?,
            _ => {
                let larger = Block::new(context, bytes.next_power_of_two().max(LEAST_BYTES))?;
                self.outgrown.extend(self.blocks[index].replace(larger));
            }
        }
        Ok(index)
    }

    fn take(&mut self, index: usize, dst: &mut [u8]) -> Result<()> {
        let Some(block) = &mut self.blocks[index] else {
            return Ok(());
        };
        block.used.synchronize()?;
        dst.copy_from_slice(block.bytes_mut(dst.len()));
        Ok(())
    }
}

impl Block {
    fn new(context: &Arc<Context>, bytes: usize) -> Result<Block> {
        let used = Point::new(context)?;
        let pointer = context.call(|runtime| runtime.allocate_pinned(bytes))?;
        Ok(Block {
            context: context.clone(),
            pointer,
            bytes,
            used,
        })
    }

    fn bytes_mut(&mut self, len: usize) -> &mut [u8] {
        debug_assert!(len <= self.bytes);
        // SAFETY: the block holds at least `len` bytes (`turn`), and no copy uses them: `used` has been waited for.
        unsafe { std::slice::from_raw_parts_mut(self.pointer, len) }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // On a device that failed, a copy may still write here. The memory then stays allocated.
        if self.used.synchronize().is_ok() {
            // SAFETY: the memory came from `allocate_pinned`, and its last copy has ended.
            self.context
                .release(|runtime| unsafe { runtime.free_pinned(self.pointer) });
        }
    }
}
