//! Functions and values of `cublasLt.h`.
//!
//! Source: <https://docs.nvidia.com/cuda/cublas/#using-the-cublaslt-api>.

use super::blas;
use gpu::table::lt::{LtFunctions, LtValues, Named, Opaque, Status};
use rccl_sys::function_table;
use std::ffi::{c_char, c_int, c_void};

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

function_table! {
    /// cuBLASLt's functions.
    pub struct CublasLt;
    required {
        fn cublasLtCreate(handle: *mut Opaque) -> Status;
        fn cublasLtDestroy(handle: Opaque) -> Status;
        fn cublasLtMatmulDescCreate(product: *mut Opaque, compute: c_int, scale: c_int) -> Status;
        fn cublasLtMatmulDescDestroy(product: Opaque) -> Status;
        fn cublasLtMatmulDescSetAttribute(
            product: Opaque,
            attribute: c_int,
            value: *const c_void,
            bytes: usize,
        ) -> Status;
        fn cublasLtMatrixLayoutCreate(
            matrix: *mut Opaque,
            kind: c_int,
            rows: u64,
            columns: u64,
            leading: i64,
        ) -> Status;
        fn cublasLtMatrixLayoutDestroy(matrix: Opaque) -> Status;
        fn cublasLtMatmulPreferenceCreate(wishes: *mut Opaque) -> Status;
        fn cublasLtMatmulPreferenceDestroy(wishes: Opaque) -> Status;
        fn cublasLtMatmulPreferenceSetAttribute(
            wishes: Opaque,
            attribute: c_int,
            value: *const c_void,
            bytes: usize,
        ) -> Status;
        fn cublasLtMatmulAlgoGetHeuristic(
            handle: Opaque,
            product: Opaque,
            a: Opaque,
            b: Opaque,
            c: Opaque,
            d: Opaque,
            wishes: Opaque,
            most: c_int,
            results: *mut c_void,
            count: *mut c_int,
        ) -> Status;
        fn cublasLtMatmul(
            handle: Opaque,
            product: Opaque,
            alpha: *const c_void,
            a: *const c_void,
            layout_a: Opaque,
            b: *const c_void,
            layout_b: Opaque,
            beta: *const c_void,
            c: *const c_void,
            layout_c: Opaque,
            d: *mut c_void,
            layout_d: Opaque,
            algorithm: *const c_void,
            workspace: *mut c_void,
            bytes: usize,
            stream: *mut c_void,
        ) -> Status;
        fn cublasLtGetVersion() -> usize;
        fn cublasLtGetStatusString(status: Status) -> *const c_char;
    }
    optional {}
}

impl CublasLt {
    /// The functions, as crates/gpu calls them.
    pub fn functions(&self) -> LtFunctions {
        macro_rules! named {
            ($name:ident) => {
                Named { name: stringify!($name), function: self.$name }
            };
        }
        LtFunctions {
            create: named!(cublasLtCreate),
            destroy: named!(cublasLtDestroy),
            create_product: named!(cublasLtMatmulDescCreate),
            destroy_product: named!(cublasLtMatmulDescDestroy),
            set_product: named!(cublasLtMatmulDescSetAttribute),
            create_matrix: named!(cublasLtMatrixLayoutCreate),
            destroy_matrix: named!(cublasLtMatrixLayoutDestroy),
            create_wishes: named!(cublasLtMatmulPreferenceCreate),
            destroy_wishes: named!(cublasLtMatmulPreferenceDestroy),
            set_wishes: named!(cublasLtMatmulPreferenceSetAttribute),
            find: named!(cublasLtMatmulAlgoGetHeuristic),
            multiply: named!(cublasLtMatmul),
            reason: Some(self.cublasLtGetStatusString),
        }
    }
}
