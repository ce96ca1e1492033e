//! GEMMs whose sums have the order of [`hal::sums`], by a kernel of our own: no library promises an order.

use crate::{kernels::Module, lower, stream::GpuStream};
use hal::{Blas, Epilogue, Error, Gemm, Result, Stream};
use std::sync::Arc;

/// The GEMMs of a device with canonical sums. Epilogues are kernels of their own, and there is one variant of each GEMM.
#[derive(Debug)]
pub(crate) struct CanonicalBlas {
    module: Arc<Module>,
}

impl CanonicalBlas {
    /// The GEMMs of the device that has loaded this module.
    pub(crate) fn new(module: Arc<Module>) -> CanonicalBlas {
        CanonicalBlas { module }
    }
}

// SAFETY: the kernel touches only the three matrices, and the stream's scratch memory.
unsafe impl Blas for CanonicalBlas {
    unsafe fn gemm(&self, stream: &dyn Stream, gemm: &Gemm) -> Result<()> {
        if gemm.epilogue != Epilogue::None {
            let found = format!("epilogue {:?}", gemm.epilogue);
            return Err(Error::invalid("gemm", found, "none: fuses() refused it"));
        }
        let stream = GpuStream::of(stream, self.module.device())?;
        let module = self.module.clone();
        stream.submit(gemm, move |core, gemm| {
            let room = core.scratch(lower::gemm_workspace(gemm, module.traits()))?;
            match lower::gemm(gemm, module.traits(), room)? {
                // SAFETY: the caller vouches for the three matrices until the GEMM has run; `room` is this stream's.
                Some(launch) => unsafe { module.launch_one(core, &launch) },
                None => Ok(()),
            }
        })
    }
}
