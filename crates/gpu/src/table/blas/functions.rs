//! The functions that cuBLAS and hipBLAS have in common.

use crate::table::{Opaque, Status, functions::functions};
use std::ffi::{c_int, c_void};

/// A function that sets a mode of a handle.
pub type SetMode = unsafe extern "C" fn(Opaque, c_int) -> Status;

/// A function that gives a handle memory in which its GEMMs work.
pub type SetWorkspace = unsafe extern "C" fn(Opaque, *mut c_void, usize) -> Status;

functions! {
    /// The functions that cuBLAS and hipBLAS have in common.
    pub struct BlasFunctions, named by BlasNames;
    fn create(handle: *mut Opaque);
    fn destroy(handle: Opaque);
    fn set_stream(handle: Opaque, stream: Opaque);
    fn set_atomics(handle: Opaque, mode: c_int);
    fn gemm(
        handle: Opaque,
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
    );
    fn gemm_batched(
        handle: Opaque,
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
    );
}
