//! hipBLASLt: its names and numbers, from ROCm 6.1 on. Earlier versions have data types of their own.
//!
//! Source: <https://rocm.docs.amd.com/projects/hipBLASLt/en/latest/reference/datatypes.html>.

use crate::hipblas;
use gpu::table::{
    Lt, Named, Opaque, Status, Statuses,
    lt::{LtFunctions, LtNames, LtValues},
};
use rccl_sys::{Library, Missing, function_table};
use std::ffi::c_int;

/// hipBLASLt's names for the functions that cuBLASLt has too.
pub const NAMES: LtNames = LtNames {
    create: "hipblasLtCreate",
    destroy: "hipblasLtDestroy",
    create_matmul: "hipblasLtMatmulDescCreate",
    destroy_matmul: "hipblasLtMatmulDescDestroy",
    set_matmul: "hipblasLtMatmulDescSetAttribute",
    create_matrix: "hipblasLtMatrixLayoutCreate",
    destroy_matrix: "hipblasLtMatrixLayoutDestroy",
    create_wishes: "hipblasLtMatmulPreferenceCreate",
    destroy_wishes: "hipblasLtMatmulPreferenceDestroy",
    set_wishes: "hipblasLtMatmulPreferenceSetAttribute",
    find: "hipblasLtMatmulAlgoGetHeuristic",
    multiply: "hipblasLtMatmul",
};

/// hipBLASLt's numbers.
pub const VALUES: LtValues = LtValues {
    operations: hipblas::VALUES.operations,
    compute_f32: hipblas::HIP_TYPES.compute_f32,
    // The library may also call a GEMM invalid if no kernel serves it.
    refusals: &[hipblas::VALUES.not_supported, hipblas::INVALID_VALUE],
    transposed: [0, 1],
    epilogue: 2,
    bias: 3,
    bias_type: 4,
    sum: 10,
    sum_leading: 11,
    alignments: None,
    reduction: None,
    result_bytes: 56,
    status_offset: 32,
};

function_table! {
    /// hipBLASLt's own functions.
    pub struct HipblasLt;
    required {
        fn hipblasLtGetVersion(handle: Opaque, version: *mut c_int) -> Status;
    }
    optional {}
}

/// Looks up hipBLASLt's functions. Their statuses are hipBLAS's.
///
/// # Errors
/// [`Missing`] naming one that this version lacks.
pub(crate) fn load(library: &Library, statuses: Statuses) -> Result<Lt, Missing> {
    let own = HipblasLt::load(library)?;
    // SAFETY: the names are those of the functions that the fields stand for; a test compares them with the headers.
    let functions = unsafe { LtFunctions::load(library, &NAMES) }?;
    // A handle knows the version, and only a device has one.
    let get_version = Named {
        name: "hipblasLtGetVersion",
        function: own.hipblasLtGetVersion,
    };
    let name = "hipBLASLt".into();
    // SAFETY: all are hipBLASLt's; the test compares the numbers too.
    Ok(unsafe { Lt::new(name, Some(get_version), functions, statuses, VALUES) })
}
