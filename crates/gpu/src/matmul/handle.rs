//! A handle of the BLAS library for one stream, with the memory in which its GEMMs work.
//!
//! The memory is ours. A library that uses its own allocates it at the first GEMM, or anew in each recording, where no
//! vendor allows our own calls to allocate.

use crate::{
    context::{Context, vendor},
    table::{Address, Blas, Handle},
};
use hal::Result;
use std::sync::Arc;

/// A handle, destroyed when dropped.
#[derive(Debug)]
pub(super) struct LibraryHandle {
    context: Arc<Context>,
    handle: Handle,
    workspace: Option<Address>,
}

impl LibraryHandle {
    /// A new handle whose work goes to `stream`.
    ///
    /// # Errors
    /// [`hal::Error::OutOfMemory`] of the workspace; [`hal::Error::Vendor`].
    ///
    /// # Safety
    /// The stream is live as long as the handle is used.
    pub(super) unsafe fn new(
        context: &Arc<Context>,
        table: &Blas,
        stream: Handle,
    ) -> Result<LibraryHandle> {
        // SAFETY: passed on from the caller.
        let handle = context.outcome(|_| unsafe { table.create(stream) });
        let mut made = LibraryHandle {
            context: context.clone(),
            handle: handle.map_err(|fault| vendor(context.id, fault))?,
            workspace: None,
        };
        if table.takes_workspace() {
            let bytes = workspace_bytes(context);
            let address = context.allocate(bytes)?;
            made.workspace = Some(address);
            // SAFETY: the handle is live; the memory was just allocated for it, and is freed after it.
            let set =
                context.outcome(|_| unsafe { table.set_workspace(made.handle, address, bytes) });
            set.map_err(|fault| vendor(context.id, fault))?;
        }
        Ok(made)
    }

    /// The library's handle.
    pub(super) fn handle(&self) -> Handle {
        self.handle
    }
}

// What NVIDIA advises: 32 MiB from Hopper on, 4 MiB before. rocBLAS has 32 MiB of its own by default.
fn workspace_bytes(context: &Context) -> usize {
    match context.properties.capability {
        (..=8, _) => 4 << 20,
        _ => 32 << 20,
    }
}

impl Drop for LibraryHandle {
    fn drop(&mut self) {
        self.context.land();
        if let Ok(table) = &self.context.tables.blas {
            // SAFETY: the handle is live, and nothing else holds it.
            self.context
                .release(|_| unsafe { table.destroy(self.handle) });
        }
        if let Some(address) = self.workspace {
            // SAFETY: the memory came from `allocate`; the handle that used it has ended, and its stream has been waited for.
            unsafe { self.context.free(address) };
        }
    }
}
