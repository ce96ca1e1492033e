//! GEMMs: row-major matrices on column-major libraries.
//!
//! Where the options name a file of choices ([`choices`]), each GEMM runs as the fastest of several variants
//! ([`variant`], [`timing`]). GEMMs that end with a bias or GELU, and those by a chosen algorithm, go to another library
//! ([`lt`]). A device with canonical sums uses no library ([`canonical`]).

mod canonical;
mod choices;
mod handle;
mod layout;
mod listing;
mod lt;
mod named;
mod timing;
mod variant;

pub(crate) use canonical::CanonicalBlas;

use crate::{
    context::{Context, vendor},
    kernels::Module,
    lower,
    stream::{Core, GpuStream},
    table::{self, Address, Handle},
};
use choices::{Choice, Choices};
use hal::{Batch, Blas, DType, Epilogue, Error, Gemm, Result, Stream, lock};
use handle::LibraryHandle;
use lt::LtMatmuls;
use std::{
    collections::{HashMap, hash_map::Entry},
    fmt,
    path::Path,
    sync::{Arc, Mutex},
};
use variant::{MOST_ALGORITHMS, Variant};

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
    lt: LtMatmuls,
    // Whether GEMMs may have an epilogue.
    fuses: bool,
}

/// What the choice among variants needs.
struct Tuning {
    /// The choices so far.
    choices: Choices,
    /// The kernels, one of which transposes matrices.
    module: Arc<Module>,
}

impl GpuBlas {
    /// The GEMMs of this device. Given a file of choices and the kernels, each runs as the fastest of its variants.
    ///
    /// # Errors
    /// [`Error::Invalid`] without the library, with every name and folder that was tried, and for a file of choices that
    /// does not fit; [`Error::Vendor`].
    pub(crate) fn new(
        context: &Arc<Context>,
        choices: Option<(&Path, Arc<Module>)>,
        fuses: bool,
    ) -> Result<GpuBlas> {
        // Without choices, the algorithm that the library expects to be fastest runs.
        let lt = LtMatmuls::new(context, choices.as_ref().map_or(1, |_| MOST_ALGORITHMS));
        let tuning = choices.map(|(path, module)| {
            Ok(Tuning {
                choices: Choices::open(path, lt.library()?)?,
                module,
            })
        });
        let shared = Handles {
            context: context.clone(),
            by_stream: Mutex::default(),
            tuning: tuning.transpose()?,
            lt,
            fuses,
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
        // SAFETY: passed on from the caller.
        let variant = unsafe { self.chosen(core, gemm) }?;
        let room = core.scratch(variant.room_bytes(gemm))?;
        // SAFETY: as above; `room` is this stream's scratch memory, whose work uses it in turn.
        unsafe { self.run(core, gemm, variant, room) }
    }

    // The variant that was chosen for a GEMM, which is timed first if the choice is to come.
    //
    // Safety: as for `gemm`.
    unsafe fn chosen(&self, core: &Core, gemm: &Gemm) -> Result<Variant> {
        let Some(tuning) = self.tuning_of(gemm) else {
            return Ok(Variant::default_of(gemm));
        };
        let choice = tuning.choices.of(gemm);
        if choice == Choice::Time {
            // SAFETY: passed on from the caller.
            let fastest = unsafe { timing::fastest(self, core, gemm) }?;
            tuning.choices.note(gemm, fastest);
        }
        let variant = choice.variant(gemm);
        let is_algorithm = matches!(variant, Variant::Algorithm(_));
        // The library needs aligned addresses, which the GEMM that was timed had.
        let is_refused = is_algorithm && self.lt.num_algorithms(gemm)? == 0;
        Ok(match is_refused {
            true => Variant::default_of(gemm),
            false => variant,
        })
    }

    // What the choice among the variants of a GEMM needs, if it has several. Batches run as stored.
    fn tuning_of(&self, gemm: &Gemm) -> Option<&Tuning> {
        let has_variants = gemm.m * gemm.n * gemm.k > 0
            && gemm.batch == Batch::ONE
            && gemm.a.data.dtype.is_float();
        self.tuning.as_ref().filter(|_| has_variants)
    }

    // Queues a GEMM as that variant, with what the variant needs at `room`.
    //
    // Safety: as for `gemm`; nothing else uses the variant's bytes at `room` until the GEMM has run.
    unsafe fn run(&self, core: &Core, gemm: &Gemm, variant: Variant, room: Address) -> Result<()> {
        if let Variant::Algorithm(index) = variant {
            // SAFETY: passed on from the caller, as in all calls below.
            return unsafe { self.lt.queue(core, gemm, index, room) };
        }
        if let Some((stored, tuning)) = variant.turned(gemm).zip(self.tuning.as_ref()) {
            let transpose = lower::transpose(&stored, room);
            // SAFETY: as above.
            unsafe { tuning.module.launch_one(core, &transpose) }?;
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
        let shared = &self.shared;
        if shared.tuning.is_some() || (shared.fuses && shared.context.tables.lt.is_ok()) {
            match stream.core().scratch(lt::WORKSPACE_BYTES) {
                // The GEMM that needs it will say so.
                Ok(_) | Err(Error::OutOfMemory { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        self.shared.with_handle(stream.core(), |_, _| ())
    }

    unsafe fn gemm(&self, stream: &dyn Stream, gemm: &Gemm) -> Result<()> {
        let stream = GpuStream::of(stream, self.shared.context.id)?;
        let shared = self.shared.clone();
        // SAFETY: the caller vouches for the three matrices until the GEMM has run.
        stream.submit(gemm, move |core, gemm| unsafe { shared.gemm(core, gemm) })
    }

    fn fuses(&self, gemm: &Gemm) -> Result<bool> {
        match self.shared.fuses {
            _ if gemm.epilogue == Epilogue::None => Ok(true),
            true => Ok(self.shared.lt.num_algorithms(gemm)? > 0),
            false => Ok(false),
        }
    }

    fn variant(&self, gemm: &Gemm) -> Option<String> {
        let tuning = self.shared.tuning_of(gemm)?;
        Some(tuning.choices.of(gemm).variant(gemm).to_string())
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
