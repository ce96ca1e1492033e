//! Functions and values of `hipblaslt.h`.
//!
//! Those of ROCm 6.1 and later: before, the library had data types of its own.
//! Source: <https://rocm.docs.amd.com/projects/hipBLASLt/en/latest/reference/datatypes.html>.

use super::blas::{self, HIP_TYPES};
use gpu::table::lt::{LtFunctions, LtValues, Named, Opaque, Status};
use rccl_sys::function_table;
use std::ffi::{c_char, c_int, c_void};

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

/// A status in words: hipBLAS's function.
pub type Reason = unsafe extern "C" fn(Status) -> *const c_char;

function_table! {
    /// hipBLASLt's functions.
    pub struct HipblasLt;
    required {
        fn hipblasLtCreate(handle: *mut Opaque) -> Status;
        fn hipblasLtDestroy(handle: Opaque) -> Status;
        fn hipblasLtMatmulDescCreate(product: *mut Opaque, compute: c_int, scale: c_int) -> Status;
        fn hipblasLtMatmulDescDestroy(product: Opaque) -> Status;
        fn hipblasLtMatmulDescSetAttribute(
            product: Opaque,
            attribute: c_int,
            value: *const c_void,
            bytes: usize,
        ) -> Status;
        fn hipblasLtMatrixLayoutCreate(
            matrix: *mut Opaque,
            kind: c_int,
            rows: u64,
            columns: u64,
            leading: i64,
        ) -> Status;
        fn hipblasLtMatrixLayoutDestroy(matrix: Opaque) -> Status;
        fn hipblasLtMatmulPreferenceCreate(wishes: *mut Opaque) -> Status;
        fn hipblasLtMatmulPreferenceDestroy(wishes: Opaque) -> Status;
        fn hipblasLtMatmulPreferenceSetAttribute(
            wishes: Opaque,
            attribute: c_int,
            value: *const c_void,
            bytes: usize,
        ) -> Status;
        fn hipblasLtMatmulAlgoGetHeuristic(
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
        fn hipblasLtMatmul(
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
    }
    optional {}
}

impl HipblasLt {
    /// The functions, as crates/gpu calls them.
    pub fn functions(&self, reason: Option<Reason>) -> LtFunctions {
        macro_rules! named {
            ($name:ident) => {
                Named { name: stringify!($name), function: self.$name }
            };
        }
        LtFunctions {
            create: named!(hipblasLtCreate),
            destroy: named!(hipblasLtDestroy),
            create_product: named!(hipblasLtMatmulDescCreate),
            destroy_product: named!(hipblasLtMatmulDescDestroy),
            set_product: named!(hipblasLtMatmulDescSetAttribute),
            create_matrix: named!(hipblasLtMatrixLayoutCreate),
            destroy_matrix: named!(hipblasLtMatrixLayoutDestroy),
            create_wishes: named!(hipblasLtMatmulPreferenceCreate),
            destroy_wishes: named!(hipblasLtMatmulPreferenceDestroy),
            set_wishes: named!(hipblasLtMatmulPreferenceSetAttribute),
            find: named!(hipblasLtMatmulAlgoGetHeuristic),
            multiply: named!(hipblasLtMatmul),
            reason,
        }
    }
}
