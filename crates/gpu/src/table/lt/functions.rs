//! The functions that cuBLASLt and hipBLASLt have in common.

use crate::table::{Opaque, Status, functions::functions};
use std::ffi::{c_int, c_void};

/// Destroys an object.
pub type Destroy = unsafe extern "C" fn(Opaque) -> Status;
/// Stores the library's version, of which the handle is.
pub type GetVersion = unsafe extern "C" fn(Opaque, *mut c_int) -> Status;
/// Sets an attribute: number, address and size of the value.
pub type Set = unsafe extern "C" fn(Opaque, c_int, *const c_void, usize) -> Status;

functions! {
    /// The functions of a library for GEMMs by a chosen algorithm, also with an epilogue.
    pub struct LtFunctions, named by LtNames;
    fn create(handle: *mut Opaque);
    fn destroy(handle: Opaque);
    fn create_matmul(matmul: *mut Opaque, compute: c_int, scale: c_int);
    fn destroy_matmul(matmul: Opaque);
    fn set_matmul(matmul: Opaque, attribute: c_int, value: *const c_void, bytes: usize);
    fn create_matrix(matrix: *mut Opaque, dtype: c_int, rows: u64, columns: u64, leading: i64);
    fn destroy_matrix(matrix: Opaque);
    fn create_wishes(wishes: *mut Opaque);
    fn destroy_wishes(wishes: Opaque);
    fn set_wishes(wishes: Opaque, attribute: c_int, value: *const c_void, bytes: usize);
    fn find(
        handle: Opaque,
        matmul: Opaque,
        a: Opaque,
        b: Opaque,
        c: Opaque,
        d: Opaque,
        wishes: Opaque,
        most: c_int,
        results: *mut c_void,
        count: *mut c_int,
    );
    fn multiply(
        handle: Opaque,
        matmul: Opaque,
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
    );
}
