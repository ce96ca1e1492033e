//! Functions and values of `cublas_v2.h`.
//!
//! Source: <https://docs.nvidia.com/cuda/cublas/>.

use rccl_sys::function_table;
use std::ffi::{c_char, c_int, c_void};

/// `cublasStatus_t`.
pub type Status = c_int;
/// `cublasHandle_t`.
pub type Handle = *mut c_void;

/// `CUBLAS_STATUS_SUCCESS`.
pub const SUCCESS: Status = 0;
/// `CUBLAS_STATUS_ALLOC_FAILED`.
pub const ALLOC_FAILED: Status = 3;
/// `CUBLAS_OP_N`.
pub const OP_N: c_int = 0;
/// `CUBLAS_OP_T`.
pub const OP_T: c_int = 1;
/// `CUDA_R_32F`.
pub const R_32F: c_int = 0;
/// `CUDA_R_64F`.
pub const R_64F: c_int = 1;
/// `CUDA_R_16F`.
pub const R_16F: c_int = 2;
/// `CUDA_R_16BF`.
pub const R_16BF: c_int = 14;
/// `CUBLAS_COMPUTE_32F`.
pub const COMPUTE_32F: c_int = 68;
/// `CUBLAS_COMPUTE_64F`.
pub const COMPUTE_64F: c_int = 70;
/// `CUBLAS_GEMM_DEFAULT`.
pub const GEMM_DEFAULT: c_int = -1;
/// `CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION`: parts of a 16-bit product are summed in f32.
pub const MATH_FULL_REDUCTION: c_int = 16;
/// `CUBLAS_ATOMICS_NOT_ALLOWED`.
pub const ATOMICS_NOT_ALLOWED: c_int = 0;

function_table! {
    /// cuBLAS's functions.
    pub struct Cublas;
    required {
        fn cublasCreate_v2(handle: *mut Handle) -> Status;
        fn cublasDestroy_v2(handle: Handle) -> Status;
        fn cublasGetVersion_v2(handle: Handle, version: *mut c_int) -> Status;
        fn cublasGetProperty(kind: c_int, value: *mut c_int) -> Status;
        fn cublasSetStream_v2(handle: Handle, stream: *mut c_void) -> Status;
        fn cublasSetMathMode(handle: Handle, mode: c_int) -> Status;
        fn cublasSetAtomicsMode(handle: Handle, mode: c_int) -> Status;
        fn cublasGetStatusString(status: Status) -> *const c_char;
        fn cublasGemmEx(
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
        fn cublasGemmStridedBatchedEx(
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
    optional {}
}
