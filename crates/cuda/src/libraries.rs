//! Where NVIDIA's libraries are looked for, and what is made of them.

use crate::{
    cublas::CudaBlas,
    driver::CudaDriver,
    sys::{
        blas::Cublas,
        driver::Driver,
        lt::{self, CublasLt},
    },
};
use gpu::table::{Blas, Lt, Object, Runtime, Tables};
use hal::environment::{Variable, table};
use rccl_sys::{Library, Missing, Nccl, Search};
use std::sync::{Arc, OnceLock};

/// The lowest compute capability that the kernels are written for: A100's.
const LOWEST_CAPABILITY: (u32, u32) = (8, 0);

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
    let named = [
        table::CUDA_HOME,
        table::CUDA_PATH,
        table::NVHPC_CUDA_HOME,
        table::NCCL_HOME,
    ];
    let named = named.iter().filter_map(Variable::read_os);
    let roots = named.chain(["/usr/local/cuda".into()]);
    let search = Search::of(table::CUDA_LIBRARIES.read_os(), roots, &["lib64", "lib"]);
    let mut found = Vec::new();
    let mut open = |library, names: &[&str]| {
        let opened = Library::open(library, names, &search)?;
        found.push((library.to_string(), opened.path().to_path_buf()));
        Ok::<_, Missing>(opened)
    };
    let runtime = open("CUDA driver", &["libcuda.so.1"]).and_then(|library| Driver::load(&library));
    let blas = open("cuBLAS", &["libcublas.so.13", "libcublas.so.12"])
        .and_then(|library| Cublas::load(&library));
    let lt = open("cuBLASLt", &["libcublasLt.so.13", "libcublasLt.so.12"])
        .and_then(|library| CublasLt::load(&library));
    let nccl = open("NCCL", &["libnccl.so.2"]).and_then(|library| Nccl::load(&library));
    let runtime = CudaDriver::new(runtime.map_err(|missing| missing.to_string())?);
    Ok(Tables {
        runtime: Box::new(runtime.map_err(|fault| gpu::refused(&fault, &found))?)
            as Box<dyn Runtime>,
        blas: blas.map(|table| Box::new(CudaBlas(table)) as Box<dyn Blas>),
        lt: lt
            .map(|table| epilogues(&table))
            .map_err(|missing| missing.to_string()),
        collectives: nccl.map(|table| ("NCCL".into(), table)),
        objects: gpu::objects(table::CUDA_KERNELS, embedded())?,
        found,
        visible_devices: table::CUDA_DEVICES,
    })
}

fn epilogues(table: &CublasLt) -> Lt {
    // SAFETY: the function takes nothing and gives a number.
    let version = unsafe { (table.cublasLtGetVersion)() };
    let version = format!(
        "cuBLASLt {}.{}.{}",
        version / 10_000,
        version / 100 % 100,
        version % 100
    );
    Lt {
        version,
        functions: table.functions(Some(table.cublasLtGetStatusString)),
        values: lt::VALUES,
    }
}

fn embedded() -> Vec<Object> {
    let objects = kernels_cuda::objects().iter();
    objects
        .map(|object| (object.arch.to_string(), object.bytes.into()))
        .collect()
}
