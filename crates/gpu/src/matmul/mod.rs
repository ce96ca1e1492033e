//! Products: row-major matrices on column-major libraries.
//!
//! Where a file of choices is named ([`choices`]), each product goes the fastest of several ways ([`variant`], [`timing`]).
//! Products that end with a bias or GELU go to another library ([`fused`]).

mod choices;
mod fused;
mod layout;
mod named;
mod timing;
mod variant;

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
use hal::lock;
use hal::{Batch, Blas, DType, Epilogue, Error, Gemm, Result, Stream};
use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex},
};
use variant::Variant;

/// The device's products.
pub(crate) struct GpuBlas {
    shared: Arc<Handles>,
}

// One handle of the library for each stream: each has a workspace of its own, so that streams do not disturb each
// other, and sums are split in the same way in every run.
struct Handles {
    context: Arc<Context>,
    by_stream: Mutex<HashMap<Handle, Handle>>,
    tuning: Option<Tuning>,
    fused: Option<FusedMatmuls>,
}

/// What choosing among ways to a product takes.
pub(crate) struct Tuning {
    /// What was chosen.
    pub(crate) choices: Choices,
    /// The kernels, of which one turns matrices over.
    pub(crate) module: Arc<Module>,
}

impl GpuBlas {
    /// Products on this device.
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
        table.map_err(|missing| {
            Error::invalid("products", missing.to_string(), "the library installed")
        })
    }

    // Queues a product, the way that was chosen for it.
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
        // Batches go as they are stored.
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
        // SAFETY: as above; `room` is this stream's scratch memory, which holds the turned matrix.
        unsafe { self.run(tuning, core, gemm, variant, room) }
    }

    // Queues a product that way, with a turned matrix at `room`.
    //
    // Safety: as for `gemm`; `room` is in no other use until the product has run.
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
        // SAFETY: as above; the stream turns the matrix over before it multiplies.
        unsafe { self.plain(core, &variant.with_turned(gemm, room)) }
    }

    // Queues a product of the matrices as they are. Safety: as for `gemm`.
    unsafe fn plain(&self, core: &Core, gemm: &Gemm) -> Result<()> {
        let Some(product) = layout::column_major(gemm)? else {
            return Ok(());
        };
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
            fault.reason += &format!(
                " ({} x {} x {}, {})",
                gemm.m, gemm.n, gemm.k, gemm.a.data.dtype
            );
            vendor(self.context.id, fault)
        })
    }

    fn unsupported(&self, dtype: DType) -> Error {
        Error::Unsupported {
            operation: "gemm".into(),
            dtype: Some(dtype),
            device: self.context.id,
        }
    }
}

impl Drop for Handles {
    fn drop(&mut self) {
        let handles = std::mem::take(&mut *lock(&self.by_stream));
        let Ok(table) = self.table() else { return };
        self.context.release(|_| {
            // SAFETY: the handles are live and in no other hands.
            handles
                .into_values()
                .try_for_each(|handle| unsafe { table.destroy(handle) })
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
