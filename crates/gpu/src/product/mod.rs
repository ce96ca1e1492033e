//! Products: row-major matrices on column-major libraries.

mod layout;

use crate::{
    context::{Context, vendor},
    lock::lock,
    stream::{Core, GpuStream},
    table::{self, Handle},
};
use hal::{Blas, DType, Error, Gemm, Result, Stream};
use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex},
};

/// The device's products.
pub(crate) struct GpuBlas {
    shared: Arc<Handles>,
}

// One handle of the library for each stream: each has a workspace of its own, so that streams do not disturb each
// other, and sums are split in the same way in every run.
struct Handles {
    context: Arc<Context>,
    by_stream: Mutex<HashMap<Handle, Handle>>,
}

impl GpuBlas {
    /// Products on this device.
    ///
    /// # Errors
    /// [`Error::Invalid`] without the library, with every name and folder that was tried.
    pub(crate) fn new(context: &Arc<Context>) -> Result<GpuBlas> {
        let shared = Handles { context: context.clone(), by_stream: Mutex::default() };
        shared.table()?;
        Ok(GpuBlas { shared: Arc::new(shared) })
    }
}

impl Handles {
    fn table(&self) -> Result<&dyn table::Blas> {
        match &self.context.tables.blas {
            Ok(table) => Ok(&**table),
            Err(missing) => Err(Error::invalid("products", missing.to_string(), "the library installed")),
        }
    }

    // Queues a product.
    //
    // Safety: the three matrices are live until it has run, and hold their shapes.
    unsafe fn gemm(&self, core: &Core, gemm: &Gemm) -> Result<()> {
        let Some(product) = layout::column_major(gemm)? else { return Ok(()) };
        if !gemm.a.data.dtype.is_float() {
            return Err(self.unsupported(gemm.a.data.dtype));
        }
        let table = self.table()?;
        let mut handles = lock(&self.by_stream);
        let outcome = self.context.outcome(|_| {
            let handle = match handles.get(&core.handle()) {
                Some(handle) => *handle,
                None => {
                    // SAFETY: the stream is live, and the handle is used for its work only.
                    let handle = unsafe { table.create(core.handle()) }?;
                    handles.insert(core.handle(), handle);
                    handle
                }
            };
            // SAFETY: the handle is live and locked; the caller vouches for the matrices.
            unsafe { table.gemm(handle, &product) }
        });
        outcome.map_err(|mut fault| {
            fault.reason += &format!(" ({} x {} x {}, {})", gemm.m, gemm.n, gemm.k, gemm.a.data.dtype);
            vendor(self.context.id, fault)
        })
    }

    fn unsupported(&self, dtype: DType) -> Error {
        Error::Unsupported { operation: "gemm".into(), dtype, device: self.context.id }
    }
}

impl Drop for Handles {
    fn drop(&mut self) {
        let handles = std::mem::take(&mut *lock(&self.by_stream));
        let Ok(table) = self.table() else { return };
        self.context.release(|_| {
            // SAFETY: the handles are live and in no other hands.
            handles.into_values().try_for_each(|handle| unsafe { table.destroy(handle) })
        });
    }
}

// SAFETY: the library touches only the three matrices, and its own workspace.
unsafe impl Blas for GpuBlas {
    unsafe fn gemm(&self, stream: &dyn Stream, gemm: &Gemm) -> Result<()> {
        let stream = GpuStream::of(stream, self.shared.context.id)?;
        let shared = self.shared.clone();
        // SAFETY: the caller vouches for the three matrices until the product has run.
        stream.submit(gemm, move |core, gemm| unsafe { shared.gemm(core, gemm) })
    }
}

impl fmt::Debug for GpuBlas {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GpuBlas({})", self.shared.context.id)
    }
}
