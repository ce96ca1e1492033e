//! GEMMs: row-major matrices on column-major libraries.
//!
//! Where the options name a file of choices ([`choices`]), each GEMM runs as the fastest of several variants
//! ([`variant`], [`timing`]). GEMMs that end with a bias or GELU go to another library ([`fused`]). A device with canonical
//! sums uses no library ([`canonical`]).

mod canonical;
mod choices;
mod fused;
mod handle;
mod layout;
mod named;
mod timing;
mod variant;

pub(crate) use canonical::CanonicalBlas;
pub(crate) use choices::Choices;

use crate::{
    context::{Context, vendor},
    kernels::Module,
    lower,
    stream::{Core, GpuStream},
    table::{self, Address, Handle},
};
use choices::Choice;
use fused::FusedMatmuls;
use hal::{Batch, Blas, DType, Epilogue, Error, Gemm, Result, Stream, lock};
use handle::LibraryHandle;
use std::{
    collections::{HashMap, hash_map::Entry},
    fmt,
    sync::{Arc, Mutex},
};
use variant::Variant;

/// The device's GEMMs.
pub(crate) struct GpuBlas {
    shared: Arc<Handles>,
}

// One handle of the library per stream. Each has a workspace of its own, so streams do not disturb each other, and
// every run splits sums in the same way.
struct Handles {
    context: Arc<Context>,
    by_stream: Mutex<HashMap<Handle, LibraryHandle>>,
    tuning: Option<Tuning>,
    fused: Option<FusedMatmuls>,
}

/// What the choice among variants needs.
pub(crate) struct Tuning {
    /// The choices so far.
    pub(crate) choices: Choices,
    /// The kernels, one of which transposes matrices.
    pub(crate) module: Arc<Module>,
}

impl GpuBlas {
    /// The GEMMs of this device.
    ///
    /// # Errors
    /// [`Error::Invalid`] without the library, with every name and folder that was tried.
    pub(crate) fn new(
        context: &Arc<Context>,
        tuning: Option<Tuning>,
        fuses: bool,
    ) -> Result<GpuBlas> {
        let fused = fuses.then(|| FusedMatmuls::new(context));
        let shared = Handles {
            context: context.clone(),
            by_stream: Mutex::default(),
            tuning,
            fused,
        };
        shared.table()?;
        Ok(GpuBlas {
            shared: Arc::new(shared),
        })
    }
}

impl Handles {
    fn table(&self) -> Result<&table::Blas> {
        let table = self.context.tables.blas.as_ref();
        table
            .map_err(|missing| Error::invalid("gemm", missing.to_string(), "the library installed"))
    }

    // Queues a GEMM as the variant that was chosen for it.
    //
    // Safety: the matrices are live until it has run, and hold their shapes.
    unsafe fn gemm(&self, core: &Core, gemm: &Gemm) -> Result<()> {
        if let Some(fused) = self
            .fused
            .as_ref()
            .filter(|_| gemm.epilogue != Epilogue::None)
        {
            // SAFETY: passed on from the caller, as in all calls below.
            return unsafe { fused.queue(core, gemm) };
        }
        // Batches run as stored.
        let has_ways = gemm.m * gemm.n * gemm.k > 0 && gemm.batch == Batch::ONE;
        let Some(tuning) = self
            .tuning
            .as_ref()
            .filter(|_| has_ways && gemm.a.data.dtype.is_float())
        else {
            // SAFETY: as above.
            return unsafe { self.plain(core, gemm) };
        };
        let variant = match tuning.choices.of(gemm) {
            Choice::Go(variant) => variant,
            Choice::Time => {
                // SAFETY: as above.
                let fastest = unsafe { timing::fastest(self, tuning, core, gemm) }?;
                tuning.choices.note(gemm, fastest);
                Variant::AsStored
            }
        };
        let room = core.scratch(variant.turned(gemm).map_or(0, |stored| stored.bytes()))?;
        // SAFETY: as above; `room` is this stream's scratch memory, which has room for the transposed matrix.
        unsafe { self.run(tuning, core, gemm, variant, room) }
    }

    // Queues a GEMM as that variant, with a transposed matrix at `room`.
    //
    // Safety: as for `gemm`; nothing else uses `room` until the GEMM has run.
    unsafe fn run(
        &self,
        tuning: &Tuning,
        core: &Core,
        gemm: &Gemm,
        variant: Variant,
        room: Address,
    ) -> Result<()> {
        if let Some(stored) = variant.turned(gemm) {
            // SAFETY: passed on from the caller.
            unsafe {
                tuning
                    .module
                    .launch_one(core, &lower::transpose(&stored, room))
            }?;
        }
        // SAFETY: as above; the stream transposes the matrix before it multiplies.
        unsafe { self.plain(core, &variant.with_turned(gemm, room)) }
    }

    // Queues a GEMM of the matrices as stored. Safety: as for `gemm`.
    unsafe fn plain(&self, core: &Core, gemm: &Gemm) -> Result<()> {
        let Some(matmul) = layout::column_major(gemm)? else {
            return Ok(());
        };
        if !gemm.a.data.dtype.is_float() {
            return Err(self.unsupported(gemm.a.data.dtype));
        }
        let outcome = self.with_handle(core, |table, handle| {
            // SAFETY: the handle is live and locked; the caller vouches for the matrices.
            self.context
                .outcome(|_| unsafe { table.gemm(handle, &matmul) })
        })?;
        outcome.map_err(|mut fault| {
            fault.reason += &format!(
                " ({} x {} x {}, {})",
                gemm.m, gemm.n, gemm.k, gemm.a.data.dtype
            );
            vendor(self.context.id, fault)
        })
    }

    // Calls `work` with the stream's handle, which is made at the first call.
    fn with_handle<T>(
        &self,
        core: &Core,
        work: impl FnOnce(&table::Blas, Handle) -> T,
    ) -> Result<T> {
        let table = self.table()?;
        let mut handles = lock(&self.by_stream);
        let handle = match handles.entry(core.handle()) {
            Entry::Occupied(found) => found.into_mut(),
            Entry::Vacant(place) => {
                // SAFETY: the stream is live, and the handle serves its work only.
                place.insert(unsafe { LibraryHandle::new(&self.context, table, core.handle()) }?)
            }
        };
        Ok(work(table, handle.handle()))
    }

    fn unsupported(&self, dtype: DType) -> Error {
        Error::Unsupported {
            operation: "gemm".into(),
            dtype: Some(dtype),
            device: self.context.id,
        }
    }
}

// SAFETY: the library touches only the three matrices, and the workspace of the stream's handle.
unsafe impl Blas for GpuBlas {
    fn prepare(&self, stream: &dyn Stream) -> Result<()> {
        let stream = GpuStream::of(stream, self.shared.context.id)?;
        self.shared.with_handle(stream.core(), |_, _| ())
    }

    unsafe fn gemm(&self, stream: &dyn Stream, gemm: &Gemm) -> Result<()> {
        let stream = GpuStream::of(stream, self.shared.context.id)?;
        let shared = self.shared.clone();
        // SAFETY: the caller vouches for the three matrices until the GEMM has run.
        stream.submit(gemm, move |core, gemm| unsafe { shared.gemm(core, gemm) })
    }

    fn fuses(&self, gemm: &Gemm) -> Result<bool> {
        match &self.shared.fused {
            _ if gemm.epilogue == Epilogue::None => Ok(true),
            Some(fused) => fused.takes(gemm),
            None => Ok(false),
        }
    }

    fn choices(&self) -> Option<String> {
        Some(
            self.shared
                .tuning
                .as_ref()
                .map_or_else(String::new, |tuning| tuning.choices.text()),
        )
    }

    fn choose(&self, choices: &str, save: bool) -> Result<()> {
        self.shared
            .tuning
            .as_ref()
            .map_or(Ok(()), |tuning| tuning.choices.agree(choices, save))
    }
}

impl fmt::Debug for GpuBlas {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GpuBlas({})", self.shared.context.id)
    }
}
