//! Functions and values of `hipblas.h`, in its two generations.
//!
//! Up to 1.x `hipblasGemmEx` takes the library's own data types, from 3.0 on HIP's and a compute type. 2.x has both: the
//! new one under the symbol that ends in `_v2`. All are integers in C, so the signatures are one.
//! Source: <https://rocm.docs.amd.com/projects/hipBLAS/en/latest/reference/hipblas-api-functions.html>.

use rccl_sys::function_table;
use std::ffi::{c_char, c_int, c_void};

/// `hipblasStatus_t`.
pub type Status = c_int;
/// `hipblasHandle_t`.
pub type Handle = *mut c_void;

/// `HIPBLAS_STATUS_SUCCESS`.
pub const SUCCESS: Status = 0;
/// `HIPBLAS_STATUS_ALLOC_FAILED`.
pub const ALLOC_FAILED: Status = 2;
/// `HIPBLAS_STATUS_INVALID_VALUE`.
pub const INVALID_VALUE: Status = 3;
/// `HIPBLAS_STATUS_NOT_SUPPORTED`.
pub const NOT_SUPPORTED: Status = 7;
/// `HIPBLAS_OP_N`.
pub const OP_N: c_int = 111;
/// `HIPBLAS_OP_T`.
pub const OP_T: c_int = 112;
/// `HIPBLAS_GEMM_DEFAULT`.
pub const GEMM_DEFAULT: c_int = 160;
/// `HIPBLAS_ATOMICS_NOT_ALLOWED`.
pub const ATOMICS_NOT_ALLOWED: c_int = 0;

/// How a generation of the library names element and compute types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Types {
    /// Half.
    pub f16: c_int,
    /// bfloat16.
    pub bf16: c_int,
    /// Single.
    pub f32: c_int,
    /// Double.
    pub f64: c_int,
    /// Sums in single.
    pub compute_f32: c_int,
    /// Sums in double.
    pub compute_f64: c_int,
}

/// `hipblasDatatype_t`, which names the type of the sums too.
pub const LEGACY_TYPES: Types = Types {
    f16: 150,
    bf16: 168,
    f32: 151,
    f64: 152,
    compute_f32: 151,
    compute_f64: 152,
};

/// `hipDataType` and `hipblasComputeType_t`.
pub const HIP_TYPES: Types = Types {
    f16: 2,
    bf16: 14,
    f32: 0,
    f64: 1,
    compute_f32: 2,
    compute_f64: 7,
};

/// `hipblasGemmEx`.
pub type GemmEx = unsafe extern "C" fn(
    Handle,
    c_int,
    c_int,
    c_int,
    c_int,
    c_int,
    *const c_void,
    *const c_void,
    c_int,
    c_int,
    *const c_void,
    c_int,
    c_int,
    *const c_void,
    *mut c_void,
    c_int,
    c_int,
    c_int,
    c_int,
) -> Status;

/// `hipblasGemmStridedBatchedEx`.
pub type GemmStridedBatchedEx = unsafe extern "C" fn(
    Handle,
    c_int,
    c_int,
    c_int,
    c_int,
    c_int,
    *const c_void,
    *const c_void,
    c_int,
    c_int,
    i64,
    *const c_void,
    c_int,
    c_int,
    i64,
    *const c_void,
    *mut c_void,
    c_int,
    c_int,
    i64,
    c_int,
    c_int,
    c_int,
) -> Status;

function_table! {
    /// hipBLAS's functions.
    pub struct Hipblas;
    required {
        fn hipblasCreate(handle: *mut Handle) -> Status;
        fn hipblasDestroy(handle: Handle) -> Status;
        fn hipblasSetStream(handle: Handle, stream: *mut c_void) -> Status;
        fn hipblasSetAtomicsMode(handle: Handle, mode: c_int) -> Status;
        fn hipblasGemmEx(
            handle: Handle,
            op_a: c_int,
            op_b: c_int,
            m: c_int,
            n: c_int,
            k: c_int,
            alpha: *const c_void,
            a: *const c_void,
            type_a: c_int,
            leading_a: c_int,
            b: *const c_void,
            type_b: c_int,
            leading_b: c_int,
            beta: *const c_void,
            c: *mut c_void,
            type_c: c_int,
            leading_c: c_int,
            compute: c_int,
            algorithm: c_int,
        ) -> Status;
        fn hipblasGemmStridedBatchedEx(
            handle: Handle,
            op_a: c_int,
            op_b: c_int,
            m: c_int,
            n: c_int,
            k: c_int,
            alpha: *const c_void,
            a: *const c_void,
            type_a: c_int,
            leading_a: c_int,
            stride_a: i64,
            b: *const c_void,
            type_b: c_int,
            leading_b: c_int,
            stride_b: i64,
            beta: *const c_void,
            c: *mut c_void,
            type_c: c_int,
            leading_c: c_int,
            stride_c: i64,
            count: c_int,
            compute: c_int,
            algorithm: c_int,
        ) -> Status;
    }
    optional {
        fn hipblasStatusToString(status: Status) -> *const c_char;
        fn hipblasGemmEx_v2(
            handle: Handle,
            op_a: c_int,
            op_b: c_int,
            m: c_int,
            n: c_int,
            k: c_int,
            alpha: *const c_void,
            a: *const c_void,
            type_a: c_int,
            leading_a: c_int,
            b: *const c_void,
            type_b: c_int,
            leading_b: c_int,
            beta: *const c_void,
            c: *mut c_void,
            type_c: c_int,
            leading_c: c_int,
            compute: c_int,
            algorithm: c_int,
        ) -> Status;
        fn hipblasGemmStridedBatchedEx_v2(
            handle: Handle,
            op_a: c_int,
            op_b: c_int,
            m: c_int,
            n: c_int,
            k: c_int,
            alpha: *const c_void,
            a: *const c_void,
            type_a: c_int,
            leading_a: c_int,
            stride_a: i64,
            b: *const c_void,
            type_b: c_int,
            leading_b: c_int,
            stride_b: i64,
            beta: *const c_void,
            c: *mut c_void,
            type_c: c_int,
            leading_c: c_int,
            stride_c: i64,
            count: c_int,
            compute: c_int,
            algorithm: c_int,
        ) -> Status;
    }
}

impl Hipblas {
    /// The functions for products and for batches of them, and their types, of a library whose soname ends in
    /// `generation`.
    pub fn gemm(&self, generation: u32) -> (GemmEx, GemmStridedBatchedEx, Types) {
        let (plain, batched) = (self.hipblasGemmEx, self.hipblasGemmStridedBatchedEx);
        match (self.hipblasGemmEx_v2, self.hipblasGemmStridedBatchedEx_v2) {
            (Some(plain), Some(batched)) => (plain, batched, HIP_TYPES),
            _ if generation >= 3 => (plain, batched, HIP_TYPES),
            _ => (plain, batched, LEGACY_TYPES),
        }
    }
}
