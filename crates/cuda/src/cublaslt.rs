//! cuBLASLt: its names and numbers.
//!
//! Source: <https://docs.nvidia.com/cuda/cublas/#using-the-cublaslt-api>.

use crate::cublas;
use gpu::table::{
    Lt, Status, Statuses,
    lt::{LtFunctions, LtNames, LtValues},
};
use rccl_sys::{Library, Missing, function_table};
use std::ffi::c_char;

/// cuBLASLt's names for the functions that hipBLASLt has too.
pub const NAMES: LtNames = LtNames {
    create: "cublasLtCreate",
    destroy: "cublasLtDestroy",
    create_matmul: "cublasLtMatmulDescCreate",
    destroy_matmul: "cublasLtMatmulDescDestroy",
    set_matmul: "cublasLtMatmulDescSetAttribute",
    create_matrix: "cublasLtMatrixLayoutCreate",
    destroy_matrix: "cublasLtMatrixLayoutDestroy",
    create_wishes: "cublasLtMatmulPreferenceCreate",
    destroy_wishes: "cublasLtMatmulPreferenceDestroy",
    set_wishes: "cublasLtMatmulPreferenceSetAttribute",
    find: "cublasLtMatmulAlgoGetHeuristic",
    multiply: "cublasLtMatmul",
};

/// cuBLASLt's numbers.
pub const VALUES: LtValues = LtValues {
    operations: cublas::VALUES.operations,
    compute_f32: cublas::TYPES.compute_f32,
    refusals: &[cublas::VALUES.not_supported],
    transposed: [3, 4],
    epilogue: 7,
    bias: 8,
    bias_type: 26,
    sum: 11,
    sum_leading: 12,
    alignments: Some([5, 6, 7, 8]),
    // Parts of a sum are added in the type of the sums, in a workspace; not in place, and not in 16 bits.
    reduction: Some((3, 2)),
    result_bytes: 96,
    status_offset: 72,
};

function_table! {
    /// cuBLASLt's own functions.
    pub struct CublasLt;
    required {
        fn cublasLtGetVersion() -> usize;
        fn cublasLtGetStatusString(status: Status) -> *const c_char;
    }
    optional {}
}

/// Looks up cuBLASLt's functions.
///
/// # Errors
/// [`Missing`] naming one that this version lacks.
pub(crate) fn load(library: &Library) -> Result<Lt, Missing> {
    let own = CublasLt::load(library)?;
    // SAFETY: the names are those of the functions that the fields stand for; a test compares them with the headers.
    let functions = unsafe { LtFunctions::load(library, &NAMES) }?;
    let describe = Some(own.cublasLtGetStatusString);
    // SAFETY: the function returns a constant text for any status.
    let statuses = unsafe { Statuses::returned(cublas::ALLOC_FAILED, describe) };
    // SAFETY: the function takes nothing and returns a number.
    let version = unsafe { (own.cublasLtGetVersion)() };
    let (major, minor, patch) = (version / 10_000, version / 100 % 100, version % 100);
    let version = format!("cuBLASLt {major}.{minor}.{patch}");
    // SAFETY: all are cuBLASLt's; the test compares the numbers too.
    Ok(unsafe { Lt::new(version, None, functions, statuses, VALUES) })
}
