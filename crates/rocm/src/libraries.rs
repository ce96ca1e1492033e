//! Finds AMD's libraries and fills crates/gpu's tables from them.

use crate::{hip::HipRuntime, hipblas, hipblaslt};
use gpu::table::{Lt, Runtime, Statuses, Tables};
use hal::environment::table;
use rccl_sys::{Library, Missing, Nccl};
use std::sync::{Arc, OnceLock};

/// The first version of HIP whose hipBLASLt takes HIP's data types.
const FIRST_WITH_HIP_TYPES: (i32, i32) = (6, 1);

const PLACES: gpu::Places<'_> = gpu::Places {
    first: table::ROCM_LIBRARIES,
    roots: &[table::ROCM_PATH, table::HIP_PATH],
    below: &["lib"],
    usual: &["/opt/rocm/lib", "/opt/rocm-*/lib"],
    packages: &[],
};

/// Opens one of AMD's devices.
///
/// # Errors
/// [`hal::Error::Invalid`] in one sentence where there is no library or no such device; [`hal::Error::Vendor`].
pub fn open(options: gpu::Options) -> hal::Result<Arc<dyn hal::Device>> {
    let tables = tables().map_err(|reason| gpu::no_device("ROCm", &reason))?;
    gpu::open(tables, options, |_| Ok(()))
}

/// The libraries of this process, opened at the first call.
///
/// # Errors
/// Why there is no runtime, with every name and folder that was tried.
pub fn tables() -> Result<Arc<Tables>, String> {
    static TABLES: OnceLock<Result<Arc<Tables>, String>> = OnceLock::new();
    TABLES.get_or_init(|| load().map(Arc::new)).clone()
}

fn load() -> Result<Tables, String> {
    let mut libraries = gpu::Libraries::new(&PLACES);
    let runtimes = ["libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5"];
    let runtime = libraries.open("HIP", &runtimes);
    let generations = [3, 2, 1, 0].map(|generation| format!("libhipblas.so.{generation}"));
    let blas = libraries.open("hipBLAS", &generations.each_ref().map(|name| &name[..]));
    let lt = libraries.open("hipBLASLt", &["libhipblaslt.so.1", "libhipblaslt.so.0"]);
    let rccl = libraries.open("RCCL", &["librccl.so.1"]);
    let runtime = runtime
        .and_then(|library| HipRuntime::load(&library))
        .map_err(|missing| missing.to_string())?;
    let runtime = libraries.initialise(runtime)?;
    let blas = blas.and_then(|library| hipblas::load(&library));
    let statuses = blas.as_ref().map(|blas| blas.statuses());
    let kernels = kernels_hip::objects().iter();
    Ok(Tables {
        lt: epilogues(&*runtime, lt, statuses.ok()),
        runtime,
        blas,
        collectives: rccl.and_then(|library| Ok(("RCCL".into(), Nccl::load(&library)?))),
        objects: gpu::objects(
            table::ROCM_KERNELS,
            kernels.map(|object| (object.arch, object.bytes)),
        )?,
        found: libraries.found(),
        visible_devices: table::ROCM_DEVICES,
        // HIP documentation, environment variables.
        queues: (table::HIP_QUEUES, 4),
    })
}

fn epilogues(
    runtime: &dyn Runtime,
    library: Result<Library, Missing>,
    statuses: Option<Statuses>,
) -> Result<Lt, String> {
    let (major, minor) = runtime.release().map_err(|fault| fault.to_string())?;
    if (major, minor) < FIRST_WITH_HIP_TYPES {
        return Err(format!(
            "hipBLASLt of HIP {major}.{minor} has other data types"
        ));
    }
    let statuses = statuses.ok_or("hipBLASLt needs hipBLAS, which was not found")?;
    library
        .and_then(|library| hipblaslt::load(&library, statuses))
        .map_err(|missing| missing.to_string())
}
