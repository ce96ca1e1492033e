//! cuBLAS: its names and numbers.
//!
//! Source: <https://docs.nvidia.com/cuda/cublas/>.

use gpu::table::{
    Blas, BlasFunctions, BlasNames, BlasTypes, BlasValues, Named, Opaque, Status, Statuses,
};
use rccl_sys::{Library, Missing, function_table};
use std::ffi::{c_char, c_int, c_void};

/// cuBLAS's names for the functions that hipBLAS has too.
pub const NAMES: BlasNames = BlasNames {
    create: "cublasCreate_v2",
    destroy: "cublasDestroy_v2",
    set_stream: "cublasSetStream_v2",
    set_atomics: "cublasSetAtomicsMode",
    gemm: "cublasGemmEx",
    gemm_batched: "cublasGemmStridedBatchedEx",
};

/// cuBLAS's numbers: `CUBLAS_OP_N` and `CUBLAS_OP_T`, `CUBLAS_GEMM_DEFAULT` and so on.
pub const VALUES: BlasValues = BlasValues {
    operations: [0, 1],
    default_algorithm: -1,
    atomics_not_allowed: 0,
    not_supported: 15,
};

/// `cudaDataType_t` and `cublasComputeType_t`.
pub const TYPES: BlasTypes = BlasTypes {
    f16: 2,
    bf16: 14,
    f32: 0,
    f64: 1,
    compute_f32: 68,
    compute_f64: 70,
};

/// `CUBLAS_STATUS_ALLOC_FAILED`.
pub const ALLOC_FAILED: Status = 3;
/// `CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION`: parts of a 16-bit GEMM are summed in f32.
pub const MATH_FULL_REDUCTION: c_int = 16;

function_table! {
    /// cuBLAS's own functions.
    pub struct Cublas;
    required {
        fn cublasGetProperty(kind: c_int, value: *mut c_int) -> Status;
        fn cublasSetMathMode(handle: Opaque, mode: c_int) -> Status;
        fn cublasSetWorkspace_v2(handle: Opaque, workspace: *mut c_void, bytes: usize) -> Status;
        fn cublasGetStatusString(status: Status) -> *const c_char;
    }
    optional {}
}

/// Looks up cuBLAS's functions.
///
/// # Errors
/// [`Missing`] naming one that this version lacks.
pub(crate) fn load(library: &Library) -> Result<Blas, Missing> {
    let own = Cublas::load(library)?;
    // SAFETY: the names are those of the functions that the fields stand for; a test compares them with the headers.
    let functions = unsafe { BlasFunctions::load(library, &NAMES) }?;
    // SAFETY: the function returns a constant text for any status.
    let statuses = unsafe { Statuses::returned(ALLOC_FAILED, Some(own.cublasGetStatusString)) };
    let set_math_mode = Named {
        name: "cublasSetMathMode",
        function: own.cublasSetMathMode,
    };
    let math_mode = Some((set_math_mode, MATH_FULL_REDUCTION));
    let set_workspace = Some(Named {
        name: "cublasSetWorkspace_v2",
        function: own.cublasSetWorkspace_v2,
    });
    let version = version(&own);
    // SAFETY: all are cuBLAS's; the test compares the numbers too.
    Ok(unsafe {
        Blas::new(
            version,
            functions,
            statuses,
            VALUES,
            TYPES,
            math_mode,
            set_workspace,
        )
    })
}

fn version(own: &Cublas) -> String {
    let [major, minor, patch] = [0, 1, 2].map(|kind| {
        let mut value = 0;
        // A part that the library refuses to name is shown as 0.
        // SAFETY: the pointer is that of a live variable.
        let _ = unsafe { (own.cublasGetProperty)(kind, &mut value) };
        value
    });
    format!("cuBLAS {major}.{minor}.{patch}")
}
