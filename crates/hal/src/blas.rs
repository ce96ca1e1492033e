//! Matrix products.

use crate::{RawSlice, Result, Stream};
use std::fmt;

/// A row-major matrix within memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Matrix {
    /// The elements, from the first one of the first row on.
    pub data: RawSlice,
    /// Elements from one stored row to the next; at least the stored row's length.
    pub leading: usize,
    /// Whether the product takes the transpose of what is stored.
    pub transposed: bool,
}

/// C = alpha * op(A) op(B) + beta * C, with op(A) of m x k, op(B) of k x n and C of m x n, all row-major.
///
/// `a` and `b` have one element type; `c` has the same or its accumulator ([`DType::accumulator`](crate::DType::accumulator)).
/// Sums over k are held in the accumulator. With `beta` 0 the old C is not read, so it may hold NaN.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gemm {
    /// Rows of C.
    pub m: usize,
    /// Columns of C.
    pub n: usize,
    /// The contracted size.
    pub k: usize,
    /// The left factor.
    pub a: Matrix,
    /// The right factor.
    pub b: Matrix,
    /// The result; never transposed.
    pub c: Matrix,
    /// Scale of the product.
    pub alpha: f64,
    /// Scale of the old C.
    pub beta: f64,
}

/// A handle for matrix products.
///
/// # Safety
/// An implementation reads and writes only the memory that the arguments name.
pub unsafe trait Blas: Send + Sync + fmt::Debug {
    /// Queues a product.
    ///
    /// # Safety
    /// The three matrices are live until the product has run, hold their shapes, and `c` overlaps neither input.
    ///
    /// # Errors
    /// [`Error::Vendor`](crate::Error::Vendor); [`Error::Unsupported`](crate::Error::Unsupported) for an element type.
    unsafe fn gemm(&self, stream: &dyn Stream, gemm: &Gemm) -> Result<()>;

    /// Ways to products that this rank has found the fastest so far, in the vendor's words, a line each; `None` where a
    /// product has one way only. Ranks exchange them, so that all go the same.
    fn choices(&self) -> Option<String> {
        None
    }

    /// Goes these ways from now on, of several lines for one product the first; `save` keeps them for other runs.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) for lines that are no choices, or a file that cannot be written.
    fn choose(&self, _choices: &str, _save: bool) -> Result<()> {
        Ok(())
    }
}
