//! The functions that cuBLASLt and hipBLASLt share, and how a library's table is declared under its own names.

use super::{Opaque, Status};
use std::ffi::{c_char, c_int, c_void};

/// A function with its C name.
#[derive(Clone, Copy, Debug)]
pub struct Named<F> {
    /// As the library exports it.
    pub name: &'static str,
    /// Where it lies.
    pub function: F,
}

/// Makes an object.
pub type Create = unsafe extern "C" fn(*mut Opaque) -> Status;
/// Ends an object.
pub type Destroy = unsafe extern "C" fn(Opaque) -> Status;
/// Makes the description of a product: type of the sums, type of the scales.
pub type CreateMatmulDesc = unsafe extern "C" fn(*mut Opaque, c_int, c_int) -> Status;
/// Makes the description of a matrix: type, rows, columns, leading dimension.
pub type CreateMatrix = unsafe extern "C" fn(*mut Opaque, c_int, u64, u64, i64) -> Status;
/// Sets an attribute: its number, its value's address and size.
pub type Set = unsafe extern "C" fn(Opaque, c_int, *const c_void, usize) -> Status;
/// Finds algorithms: handle, product, A, B, C, D, wishes, how many at most, where they go, how many there are.
pub type Find = unsafe extern "C" fn(
    Opaque,
    Opaque,
    Opaque,
    Opaque,
    Opaque,
    Opaque,
    Opaque,
    c_int,
    *mut c_void,
    *mut c_int,
) -> Status;
/// Queues a product: handle, description, alpha, A, B, beta, C, D (each with its layout), algorithm, workspace with its
/// size, stream.
pub type Multiply = unsafe extern "C" fn(
    Opaque,
    Opaque,
    *const c_void,
    *const c_void,
    Opaque,
    *const c_void,
    Opaque,
    *const c_void,
    *const c_void,
    Opaque,
    *mut c_void,
    Opaque,
    *const c_void,
    *mut c_void,
    usize,
    *mut c_void,
) -> Status;

/// Tells a status in words.
pub type Reason = unsafe extern "C" fn(Status) -> *const c_char;

/// The functions.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "the types say what they do")]
pub struct LtFunctions {
    pub create: Named<Create>,
    pub destroy: Named<Destroy>,
    pub create_product: Named<CreateMatmulDesc>,
    pub destroy_product: Named<Destroy>,
    pub set_product: Named<Set>,
    pub create_matrix: Named<CreateMatrix>,
    pub destroy_matrix: Named<Destroy>,
    pub create_wishes: Named<Create>,
    pub destroy_wishes: Named<Destroy>,
    pub set_wishes: Named<Set>,
    pub find: Named<Find>,
    pub multiply: Named<Multiply>,
    /// A status in words, where a library says it.
    pub reason: Option<Reason>,
}

/// Declares a library's table, under its own names for the functions that both libraries have and with what it has besides,
/// and how crates/gpu calls it.
#[macro_export]
macro_rules! lt_table {
    (
        $(#[$meta:meta])*
        pub struct $table:ident;
        create: $create:ident,
        destroy: $destroy:ident,
        create_product: $create_product:ident,
        destroy_product: $destroy_product:ident,
        set_product: $set_product:ident,
        create_matrix: $create_matrix:ident,
        destroy_matrix: $destroy_matrix:ident,
        create_wishes: $create_wishes:ident,
        destroy_wishes: $destroy_wishes:ident,
        set_wishes: $set_wishes:ident,
        find: $find:ident,
        multiply: $multiply:ident,
        besides { $($besides:tt)* }
    ) => {
        ::rccl_sys::function_table! {
            $(#[$meta])*
            pub struct $table;
            required {
                fn $create(handle: *mut $crate::table::lt::Opaque) -> $crate::table::lt::Status;
                fn $destroy(handle: $crate::table::lt::Opaque) -> $crate::table::lt::Status;
                fn $create_product(product: *mut $crate::table::lt::Opaque, compute: ::std::ffi::c_int, scale: ::std::ffi::c_int) -> $crate::table::lt::Status;
                fn $destroy_product(product: $crate::table::lt::Opaque) -> $crate::table::lt::Status;
                fn $set_product(
                    product: $crate::table::lt::Opaque,
                    attribute: ::std::ffi::c_int,
                    value: *const ::std::ffi::c_void,
                    bytes: usize,
                ) -> $crate::table::lt::Status;
                fn $create_matrix(
                    matrix: *mut $crate::table::lt::Opaque,
                    kind: ::std::ffi::c_int,
                    rows: u64,
                    columns: u64,
                    leading: i64,
                ) -> $crate::table::lt::Status;
                fn $destroy_matrix(matrix: $crate::table::lt::Opaque) -> $crate::table::lt::Status;
                fn $create_wishes(wishes: *mut $crate::table::lt::Opaque) -> $crate::table::lt::Status;
                fn $destroy_wishes(wishes: $crate::table::lt::Opaque) -> $crate::table::lt::Status;
                fn $set_wishes(
                    wishes: $crate::table::lt::Opaque,
                    attribute: ::std::ffi::c_int,
                    value: *const ::std::ffi::c_void,
                    bytes: usize,
                ) -> $crate::table::lt::Status;
                fn $find(
                    handle: $crate::table::lt::Opaque,
                    product: $crate::table::lt::Opaque,
                    a: $crate::table::lt::Opaque,
                    b: $crate::table::lt::Opaque,
                    c: $crate::table::lt::Opaque,
                    d: $crate::table::lt::Opaque,
                    wishes: $crate::table::lt::Opaque,
                    most: ::std::ffi::c_int,
                    results: *mut ::std::ffi::c_void,
                    count: *mut ::std::ffi::c_int,
                ) -> $crate::table::lt::Status;
                fn $multiply(
                    handle: $crate::table::lt::Opaque,
                    product: $crate::table::lt::Opaque,
                    alpha: *const ::std::ffi::c_void,
                    a: *const ::std::ffi::c_void,
                    layout_a: $crate::table::lt::Opaque,
                    b: *const ::std::ffi::c_void,
                    layout_b: $crate::table::lt::Opaque,
                    beta: *const ::std::ffi::c_void,
                    c: *const ::std::ffi::c_void,
                    layout_c: $crate::table::lt::Opaque,
                    d: *mut ::std::ffi::c_void,
                    layout_d: $crate::table::lt::Opaque,
                    algorithm: *const ::std::ffi::c_void,
                    workspace: *mut ::std::ffi::c_void,
                    bytes: usize,
                    stream: *mut ::std::ffi::c_void,
                ) -> $crate::table::lt::Status;
                $($besides)*
            }
            optional {}
        }

        impl $table {
            /// The functions, as crates/gpu calls them, with what tells a status in words.
            pub fn functions(&self, reason: Option<$crate::table::lt::Reason>) -> $crate::table::lt::LtFunctions {
                $crate::table::lt::LtFunctions {
                    create: $crate::table::lt::Named { name: stringify!($create), function: self.$create },
                    destroy: $crate::table::lt::Named { name: stringify!($destroy), function: self.$destroy },
                    create_product: $crate::table::lt::Named { name: stringify!($create_product), function: self.$create_product },
                    destroy_product: $crate::table::lt::Named { name: stringify!($destroy_product), function: self.$destroy_product },
                    set_product: $crate::table::lt::Named { name: stringify!($set_product), function: self.$set_product },
                    create_matrix: $crate::table::lt::Named { name: stringify!($create_matrix), function: self.$create_matrix },
                    destroy_matrix: $crate::table::lt::Named { name: stringify!($destroy_matrix), function: self.$destroy_matrix },
                    create_wishes: $crate::table::lt::Named { name: stringify!($create_wishes), function: self.$create_wishes },
                    destroy_wishes: $crate::table::lt::Named { name: stringify!($destroy_wishes), function: self.$destroy_wishes },
                    set_wishes: $crate::table::lt::Named { name: stringify!($set_wishes), function: self.$set_wishes },
                    find: $crate::table::lt::Named { name: stringify!($find), function: self.$find },
                    multiply: $crate::table::lt::Named { name: stringify!($multiply), function: self.$multiply },
                    reason,
                }
            }
        }
    };
}
