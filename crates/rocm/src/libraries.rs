//! Where AMD's libraries are looked for, and what is made of them.

use crate::{
    hip::HipRuntime,
    hipblas::HipBlas,
    sys::{
        blas::Hipblas,
        hip::Hip,
        lt::{self, HipblasLt},
    },
};
use gpu::table::{Blas, Lt, Object, Runtime, Tables, lt::Reason};
use hal::environment::{Variable, table};
use rccl_sys::{Library, Missing, Nccl, Search};
use std::{
    path::Path,
    sync::{Arc, OnceLock},
};

/// Before, hipBLASLt had data types of its own.
const FIRST_WITH_HIP_TYPES: (i32, i32) = (6, 1);

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
    let named = [table::ROCM_PATH, table::HIP_PATH];
    let named = named.iter().filter_map(Variable::read_os);
    let roots = named.chain(["/opt/rocm".into()]);
    let search = Search::of(table::ROCM_LIBRARIES.read_os(), roots, &["lib"]);
    let mut found = Vec::new();
    let mut open = |library, names: &[&str]| {
        let opened = Library::open(library, names, &search)?;
        found.push((library.to_string(), opened.path().to_path_buf()));
        Ok::<_, Missing>(opened)
    };
    let runtimes = ["libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5"];
    let runtime = open("HIP", &runtimes).and_then(|library| Hip::load(&library));
    let products = [
        "libhipblas.so.3",
        "libhipblas.so.2",
        "libhipblas.so.1",
        "libhipblas.so.0",
    ];
    let blas = open("hipBLAS", &products)
        .and_then(|library| Ok((Hipblas::load(&library)?, generation(library.path()))));
    let products_lt = ["libhipblaslt.so.1", "libhipblaslt.so.0"];
    let lt = open("hipBLASLt", &products_lt).and_then(|library| HipblasLt::load(&library));
    let rccl = open("RCCL", &["librccl.so.1"]).and_then(|library| Nccl::load(&library));
    let runtime = HipRuntime::new(runtime.map_err(|missing| missing.to_string())?);
    let runtime = runtime.map_err(|fault| gpu::refused(&fault, &found))?;
    let release = runtime.release().map_err(|fault| fault.to_string())?;
    let reason = blas
        .as_ref()
        .ok()
        .and_then(|(table, _)| table.hipblasStatusToString);
    let lt = match release >= FIRST_WITH_HIP_TYPES {
        true => lt
            .map(|table| epilogues(&table, reason))
            .map_err(|missing| missing.to_string()),
        false => Err(format!(
            "hipBLASLt of HIP {}.{} has other data types",
            release.0, release.1
        )),
    };
    Ok(Tables {
        runtime: Box::new(runtime) as Box<dyn Runtime>,
        blas: blas
            .map(|(table, generation)| Box::new(HipBlas::new(&table, generation)) as Box<dyn Blas>),
        lt,
        collectives: rccl.map(|table| ("RCCL".into(), table)),
        objects: gpu::objects(table::ROCM_KERNELS, embedded())?,
        found,
        visible_devices: table::ROCM_DEVICES,
    })
}

// Without a device the library does not tell its version.
fn epilogues(table: &HipblasLt, reason: Option<Reason>) -> Lt {
    Lt {
        version: "hipBLASLt".into(),
        functions: table.functions(reason),
        values: lt::VALUES,
    }
}

// The number that a library's name ends in.
fn generation(path: &Path) -> u32 {
    let number = path
        .extension()
        .and_then(|number| number.to_str()?.parse().ok());
    number.unwrap_or(0)
}

fn embedded() -> Vec<Object> {
    let objects = kernels_hip::objects().iter();
    objects
        .map(|object| (object.arch.to_string(), object.bytes.into()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generation_is_that_of_the_name() {
        assert_eq!(generation(Path::new("libhipblas.so.3")), 3);
        assert_eq!(generation(Path::new("/opt/rocm/lib/libhipblas.so.0")), 0);
    }
}
