//! Functions and values of `cublasLt.h`.
//!
//! Source: <https://docs.nvidia.com/cuda/cublas/#using-the-cublaslt-api>.

use super::blas;
use gpu::table::lt::{LtValues, Status};
use std::ffi::c_char;

/// cuBLASLt's numbers.
pub const VALUES: LtValues = LtValues {
    operations: [blas::OP_N, blas::OP_T],
    compute_f32: blas::COMPUTE_32F,
    alloc_failed: blas::ALLOC_FAILED,
    refusals: &[15],
    transposed: [3, 4],
    epilogue: 7,
    bias: 8,
    bias_type: 26,
    sum: 11,
    sum_leading: 12,
    alignments: Some([5, 6, 7, 8]),
    // Parts of a sum are added in the type of the sums, in a workspace: not in place, and not in 16 bits.
    reduction: Some((3, 2)),
    status_offset: 72,
};

gpu::lt_table! {
    /// cuBLASLt's functions.
    pub struct CublasLt;
    create: cublasLtCreate,
    destroy: cublasLtDestroy,
    create_product: cublasLtMatmulDescCreate,
    destroy_product: cublasLtMatmulDescDestroy,
    set_product: cublasLtMatmulDescSetAttribute,
    create_matrix: cublasLtMatrixLayoutCreate,
    destroy_matrix: cublasLtMatrixLayoutDestroy,
    create_wishes: cublasLtMatmulPreferenceCreate,
    destroy_wishes: cublasLtMatmulPreferenceDestroy,
    set_wishes: cublasLtMatmulPreferenceSetAttribute,
    find: cublasLtMatmulAlgoGetHeuristic,
    multiply: cublasLtMatmul,
    besides {
        fn cublasLtGetVersion() -> usize;
        fn cublasLtGetStatusString(status: Status) -> *const c_char;
    }
}
