//! Functions and values of `hipblaslt.h`.
//!
//! Those of ROCm 6.1 and later: before, the library had data types of its own.
//! Source: <https://rocm.docs.amd.com/projects/hipBLASLt/en/latest/reference/datatypes.html>.

use super::blas::{self, HIP_TYPES};
use gpu::table::lt::LtValues;

/// hipBLASLt's numbers.
pub const VALUES: LtValues = LtValues {
    operations: [blas::OP_N, blas::OP_T],
    compute_f32: HIP_TYPES.compute_f32,
    alloc_failed: blas::ALLOC_FAILED,
    // What no kernel serves may be called invalid too.
    refusals: &[blas::NOT_SUPPORTED, blas::INVALID_VALUE],
    transposed: [0, 1],
    epilogue: 2,
    bias: 3,
    bias_type: 4,
    sum: 10,
    sum_leading: 11,
    alignments: None,
    reduction: None,
    status_offset: 32,
};

gpu::lt_table! {
    /// hipBLASLt's functions.
    pub struct HipblasLt;
    create: hipblasLtCreate,
    destroy: hipblasLtDestroy,
    create_product: hipblasLtMatmulDescCreate,
    destroy_product: hipblasLtMatmulDescDestroy,
    set_product: hipblasLtMatmulDescSetAttribute,
    create_matrix: hipblasLtMatrixLayoutCreate,
    destroy_matrix: hipblasLtMatrixLayoutDestroy,
    create_wishes: hipblasLtMatmulPreferenceCreate,
    destroy_wishes: hipblasLtMatmulPreferenceDestroy,
    set_wishes: hipblasLtMatmulPreferenceSetAttribute,
    find: hipblasLtMatmulAlgoGetHeuristic,
    multiply: hipblasLtMatmul,
    besides {}
}
