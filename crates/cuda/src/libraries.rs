//! Finds NVIDIA's libraries and fills crates/gpu's tables from them.

use crate::{cublas, cublaslt, driver::CudaDriver};
use gpu::table::Tables;
use hal::environment::table;
use rccl_sys::Nccl;
use std::sync::{Arc, OnceLock};

/// The lowest compute capability that the kernels are written for: A100's.
const LOWEST_CAPABILITY: (u32, u32) = (8, 0);

/// Containers mount the driver in `/usr/local/nvidia`; the wheels of PyTorch bring cuBLAS and NCCL.
const PLACES: gpu::Places<'_> = gpu::Places {
    first: table::CUDA_LIBRARIES,
    roots: &[
        table::CUDA_HOME,
        table::CUDA_PATH,
        table::NVHPC_CUDA_HOME,
        table::NCCL_HOME,
    ],
    below: &["lib64", "lib"],
    usual: &[
        "/usr/local/cuda/lib64",
        "/usr/local/cuda/lib",
        "/usr/local/cuda-*/lib64",
        "/usr/local/nvidia/lib64",
        "/usr/local/nvidia/lib",
    ],
    packages: &["nvidia/*/lib"],
};

/// Opens one of NVIDIA's devices.
///
/// # Errors
/// [`hal::Error::Invalid`] in one sentence where there is no library, no such device, or one below compute capability
/// 8.0; [`hal::Error::Vendor`].
pub fn open(options: gpu::Options) -> hal::Result<Arc<dyn hal::Device>> {
    let tables = tables().map_err(|reason| gpu::no_device("CUDA", &reason))?;
    gpu::open(tables, options, |properties| {
        let (major, minor) = properties.capability;
        let reason = format!("compute capability {major}.{minor}");
        if properties.capability >= LOWEST_CAPABILITY {
            Ok(())
        } else {
            Err((reason, "8.0 or higher (A100)".into()))
        }
    })
}

/// The libraries of this process, opened at the first call.
///
/// # Errors
/// Why there is no driver, with every name and folder that was tried.
pub fn tables() -> Result<Arc<Tables>, String> {
    static TABLES: OnceLock<Result<Arc<Tables>, String>> = OnceLock::new();
    TABLES.get_or_init(|| load().map(Arc::new)).clone()
}

fn load() -> Result<Tables, String> {
    let mut libraries = gpu::Libraries::new(&PLACES);
    let driver = libraries.open("CUDA driver", &["libcuda.so.1"]);
    // First, because cuBLAS needs it, and the loader may not find it in the folder where cuBLAS lies.
    let lt = libraries.open("cuBLASLt", &["libcublasLt.so.13", "libcublasLt.so.12"]);
    let blas = libraries.open("cuBLAS", &["libcublas.so.13", "libcublas.so.12"]);
    let nccl = libraries.open("NCCL", &["libnccl.so.2"]);
    let driver = driver
        .and_then(|library| CudaDriver::load(&library))
        .map_err(|missing| missing.to_string())?;
    let kernels = kernels_cuda::objects().iter();
    Ok(Tables {
        runtime: libraries.initialise(driver)?,
        blas: blas.and_then(|library| cublas::load(&library)),
        lt: lt
            .and_then(|library| cublaslt::load(&library))
            .map_err(|missing| missing.to_string()),
        collectives: nccl.and_then(|library| Ok(("NCCL".into(), Nccl::load(&library)?))),
        objects: gpu::objects(
            table::CUDA_KERNELS,
            kernels.map(|object| (object.arch, object.bytes)),
        )?,
        found: libraries.found(),
        visible_devices: table::CUDA_DEVICES,
        // CUDA C++ Programming Guide, environment variables.
        queues: (table::CUDA_QUEUES, 8),
    })
}
