//! A sum that waits for the next work of its stream, because one kernel makes it and the norm that reads it.
//!
//! A residual's sum is read by a norm next, often in another segment than the sum. With both in one kernel, the sum is not
//! read again.

use crate::{Arguments, Device, Stream, device};
use hal::{
    Kernel, Result,
    kernel::{Binary, BinaryOp},
};
use std::{
    cell::RefCell,
    rc::{Rc, Weak},
};

/// The sum that a stream holds back, if any: everything but a norm that reads it queues it first.
#[derive(Default)]
pub(crate) struct Held(RefCell<Option<Sum>>);

struct Sum {
    kernel: Binary,
    // The device owns the stream.
    device: Weak<device::Inner>,
}

impl Held {
    /// Whether the kernel may wait, and does so from now on. Its memory is then that of the device's allocator, which passes a block on
    /// in the order of the stream, or after an event or a wait that queues what is held.
    pub(crate) fn hold(&self, kernel: &Kernel, device: &Device, arguments: &Arguments<'_>) -> bool {
        let Kernel::Binary(kernel) = kernel else {
            return false;
        };
        let is_sum = kernel.op == BinaryOp::Add && kernel.b.len == kernel.out.len;
        let is_own = || {
            let mut uses = arguments.uses();
            uses.all(|(tensor, _)| tensor.storage().is_of_allocator())
        };
        let waits = is_sum && is_own();
        if waits {
            *self.0.borrow_mut() = Some(Sum {
                kernel: kernel.clone(),
                device: Rc::downgrade(&device.0),
            });
        }
        waits
    }

    /// This kernel with the sum that is held, if it can make both; then nothing is held any more.
    pub(crate) fn joined(&self, kernel: &Kernel) -> Option<Kernel> {
        let Kernel::NormForward(norm) = kernel else {
            return None;
        };
        let mut held = self.0.borrow_mut();
        let joined = norm.with_sum(&held.as_ref()?.kernel)?;
        *held = None;
        Some(Kernel::NormForward(joined))
    }
}

impl Stream {
    /// Queues the sum that the stream holds back.
    ///
    /// # Errors
    /// [`Error::Vendor`](hal::Error::Vendor); the earlier failure of the stream, if any.
    pub(crate) fn release(&self) -> Result<()> {
        let Some(Sum { kernel, device }) = self.held().0.take() else {
            return Ok(());
        };
        // Without its device, nobody can read the sum.
        match device.upgrade().map(Device) {
            // SAFETY: `launch` has checked the kernel and ordered it after other streams. Its memory has not been used
            // otherwise since, as `hold` says.
            Some(device) => unsafe { self.run(&device, &Kernel::Binary(kernel)) },
            None => Ok(()),
        }
    }
}
