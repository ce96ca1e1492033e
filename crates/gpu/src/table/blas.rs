//! Products, in the column-major terms of the vendors' libraries.

use super::{Address, Handle, Outcome};
use hal::DType;
use std::fmt;

/// C = alpha * op(A) op(B) + beta * C, all column-major.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ColumnMajor {
    /// Whether A and B are taken transposed.
    pub transposed: [bool; 2],
    /// Rows of C.
    pub m: i32,
    /// Columns of C.
    pub n: i32,
    /// The contracted size.
    pub k: i32,
    /// Addresses of A, B and C.
    pub addresses: [Address; 3],
    /// Elements from one stored column to the next, of A, B and C.
    pub leading: [i32; 3],
    /// Number of products.
    pub batch: i32,
    /// Elements from one A, B and C to the next.
    pub strides: [i64; 3],
    /// Element type of A and B.
    pub input: DType,
    /// Element type of C: that of the inputs, or their accumulator.
    pub output: DType,
    /// Scale of the product.
    pub alpha: f64,
    /// Scale of the old C.
    pub beta: f64,
}

/// The BLAS library of one vendor.
///
/// # Safety
/// The methods do what their C functions document, and nothing else; a handle is handed out once.
pub unsafe trait Blas: Send + Sync + fmt::Debug {
    /// Name and version, as in `cuBLAS 13.1`.
    fn version(&self) -> String;

    /// Makes a handle in the context of the calling thread, whose work goes to `stream`. Sums are held in the accumulator
    /// and do not depend on the order of arrival.
    ///
    /// # Safety
    /// The stream is live as long as the handle is used.
    unsafe fn create(&self, stream: Handle) -> Outcome<Handle>;

    /// Ends a handle.
    ///
    /// # Safety
    /// The handle is live and not used again.
    unsafe fn destroy(&self, handle: Handle) -> Outcome<()>;

    /// Queues the products of a batch, of which each element of C belongs to one.
    ///
    /// # Safety
    /// The handle is live and used by one thread at a time; the matrices are live until the products have run.
    unsafe fn gemm(&self, handle: Handle, product: &ColumnMajor) -> Outcome<()>;
}
