//! Matrix products.

use crate::{
    Operand, RawSlice, Result, Stream,
    operand::{READ, Role, WRITE},
};
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

/// How many products of one shape are computed at once, and how far apart their matrices lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Number of products.
    pub count: usize,
    /// Elements from one A, B and C to the next.
    pub strides: [usize; 3],
}

impl Batch {
    /// A single product.
    pub const ONE: Batch = Batch {
        count: 1,
        strides: [0; 3],
    };
}

/// What is done to a product before it is stored.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Epilogue {
    /// Nothing.
    None,
    /// A row is added to every row.
    Bias {
        /// n elements of C's type.
        bias: RawSlice,
    },
    /// C = GELU(sum), by its tanh approximation, of what the product and the bias add up to.
    Gelu {
        /// n elements of C's type.
        bias: Option<RawSlice>,
        /// Takes the sum, which the gradient needs: m x n elements of C's type without gaps.
        sum: RawSlice,
    },
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
    /// How many such products.
    pub batch: Batch,
    /// What is done to the result before it is stored.
    pub epilogue: Epilogue,
}

impl Gemm {
    /// Visits what the products and their epilogue read and write, each matrix of the batch in one piece.
    pub fn operands(&self, visit: &mut dyn FnMut(Operand)) {
        visit(READ.of(self.a.data));
        visit(READ.of(self.b.data));
        visit(Role::scaled_by(self.beta).of(self.c.data));
        let (bias, sum) = match self.epilogue {
            Epilogue::None => (None, None),
            Epilogue::Bias { bias } => (Some(bias), None),
            Epilogue::Gelu { bias, sum } => (bias, Some(sum)),
        };
        bias.into_iter().for_each(|bias| visit(READ.of(bias)));
        sum.into_iter().for_each(|sum| visit(WRITE.of(sum)));
    }
}

/// A handle for matrix products.
///
/// # Safety
/// An implementation reads and writes only the memory that the arguments name.
pub unsafe trait Blas: Send + Sync + fmt::Debug {
    /// Queues a product.
    ///
    /// # Safety
    /// The matrices of the whole batch and those of the epilogue are live until the product has run, hold their shapes,
    /// and what is written overlaps nothing else. An epilogue is one that [`fuses`](Blas::fuses) has taken.
    ///
    /// # Errors
    /// [`Error::Vendor`](crate::Error::Vendor); [`Error::Unsupported`](crate::Error::Unsupported) for an element type.
    unsafe fn gemm(&self, stream: &dyn Stream, gemm: &Gemm) -> Result<()>;

    /// Whether the product's epilogue can be part of it; if not, kernels of their own do the same. Nothing is queued.
    ///
    /// # Errors
    /// [`Error::Vendor`](crate::Error::Vendor) when the library does not answer.
    fn fuses(&self, gemm: &Gemm) -> Result<bool> {
        Ok(gemm.epilogue == Epilogue::None)
    }

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
