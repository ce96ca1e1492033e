//! hipBLAS: its names and numbers, in two generations.
//!
//! Up to 1.x, `hipblasGemmEx` takes the library's own data types; from 3.0 on, it takes HIP's and a compute type. 2.x
//! has both, the new one under the symbol that ends in `_v2`. All these types are integers in C, so the signature is
//! the same.
//! Source: <https://rocm.docs.amd.com/projects/hipBLAS/en/latest/reference/hipblas-api-functions.html>.

use gpu::table::{
    Blas, BlasFunctions, BlasNames, BlasTypes, BlasValues, Named, Opaque, Status, Statuses,
};
use rccl_sys::{Library, Missing, function_table};
use std::{
    ffi::{c_char, c_void},
    path::Path,
};

/// hipBLAS's names for the functions that cuBLAS has too.
pub const NAMES: BlasNames = BlasNames {
    create: "hipblasCreate",
    destroy: "hipblasDestroy",
    set_stream: "hipblasSetStream",
    set_atomics: "hipblasSetAtomicsMode",
    gemm: "hipblasGemmEx",
    gemm_batched: "hipblasGemmStridedBatchedEx",
};

/// The names in hipBLAS 2.x of those functions that take HIP's data types.
pub const NAMES_V2: BlasNames = BlasNames {
    gemm: "hipblasGemmEx_v2",
    gemm_batched: "hipblasGemmStridedBatchedEx_v2",
    ..NAMES
};

/// hipBLAS's numbers: `HIPBLAS_OP_N` and `HIPBLAS_OP_T`, `HIPBLAS_GEMM_DEFAULT` and so on.
pub const VALUES: BlasValues = BlasValues {
    operations: [111, 112],
    default_algorithm: 160,
    atomics_not_allowed: 0,
    not_supported: 7,
};

/// `HIPBLAS_STATUS_ALLOC_FAILED`.
pub const ALLOC_FAILED: Status = 2;
/// `HIPBLAS_STATUS_INVALID_VALUE`.
pub const INVALID_VALUE: Status = 3;

/// `hipblasDatatype_t`, which names the type of the sums too.
pub const LEGACY_TYPES: BlasTypes = BlasTypes {
    f16: 150,
    bf16: 168,
    f32: 151,
    f64: 152,
    compute_f32: 151,
    compute_f64: 152,
};

/// `hipDataType` and `hipblasComputeType_t`.
pub const HIP_TYPES: BlasTypes = BlasTypes {
    f16: 2,
    bf16: 14,
    f32: 0,
    f64: 1,
    compute_f32: 2,
    compute_f64: 7,
};

function_table! {
    /// hipBLAS's own functions.
    pub struct Hipblas;
    required {}
    optional {
        fn hipblasStatusToString(status: Status) -> *const c_char;
        // From 3.0 on.
        fn hipblasSetWorkspace(handle: Opaque, workspace: *mut c_void, bytes: usize) -> Status;
    }
}

/// Looks up the functions of hipBLAS, of whichever generation.
///
/// # Errors
/// [`Missing`] naming one that this version lacks.
pub(crate) fn load(library: &Library) -> Result<Blas, Missing> {
    let own = Hipblas::load(library)?;
    // SAFETY: the function returns a constant text for any status.
    let statuses = unsafe { Statuses::returned(ALLOC_FAILED, own.hipblasStatusToString) };
    let generation = generation(library.path());
    let (functions, types) = functions(library, generation)?;
    let owner = if types == HIP_TYPES {
        "HIP's data types"
    } else {
        "data types of its own"
    };
    let version = format!("hipBLAS (libhipblas.so.{generation}, {owner})");
    let set_workspace = own.hipblasSetWorkspace.map(|function| Named {
        name: "hipblasSetWorkspace",
        function,
    });
    // SAFETY: all are those of this generation; the test compares the numbers with the headers.
    Ok(unsafe {
        Blas::new(
            version,
            functions,
            statuses,
            VALUES,
            types,
            None,
            set_workspace,
        )
    })
}

// The functions of a library whose soname ends in `generation`, and the types that they take.
fn functions(library: &Library, generation: u32) -> Result<(BlasFunctions, BlasTypes), Missing> {
    // SAFETY: the names are those of the functions that the fields stand for; a test compares them with the headers.
    if let Ok(functions) = unsafe { BlasFunctions::load(library, &NAMES_V2) } {
        return Ok((functions, HIP_TYPES));
    }
    // SAFETY: as above.
    let functions = unsafe { BlasFunctions::load(library, &NAMES) }?;
    let types = if generation >= 3 {
        HIP_TYPES
    } else {
        LEGACY_TYPES
    };
    Ok((functions, types))
}

// The number that a library's name ends in.
fn generation(path: &Path) -> u32 {
    let number = path
        .extension()
        .and_then(|number| number.to_str()?.parse().ok());
    number.unwrap_or(0)
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
