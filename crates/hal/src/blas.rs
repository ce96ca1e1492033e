//! GEMMs: matrix products with scaling and accumulation.

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
    /// Whether the GEMM uses the transpose of the stored matrix.
    pub transposed: bool,
}

/// The number of GEMMs of one shape that are computed at once, and the distance between their matrices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Number of GEMMs.
    pub count: usize,
    /// Elements from one A, B and C to the next.
    pub strides: [usize; 3],
}

impl Batch {
    /// A single GEMM.
    pub const ONE: Batch = Batch {
        count: 1,
        strides: [0; 3],
    };
}

/// What is done to the result of a GEMM before it is stored.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Epilogue {
    /// Nothing.
    None,
    /// A row is added to every row.
    Bias {
        /// n elements of C's type.
        bias: RawSlice,
    },
    /// C = GELU(sum), by its tanh approximation, where the sum is that of GEMM and bias.
    Gelu {
        /// n elements of C's type.
        bias: Option<RawSlice>,
        /// Receives the sum, which the gradient needs: m x n elements of C's type without gaps.
        sum: RawSlice,
    },
}

/// C = alpha * op(A) op(B) + beta * C, with op(A) of m x k, op(B) of k x n and C of m x n, all row-major.
///
/// `a` and `b` have one element type; `c` has the same type or its accumulator
/// ([`DType::accumulator`](crate::DType::accumulator)). Sums over k are held in the accumulator. With `beta` 0
/// the old C is not read, so it may hold NaN.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gemm {
    /// Rows of C.
    pub m: usize,
    /// Columns of C.
    pub n: usize,
    /// The contracted size.
    pub k: usize,
    /// Terms of a leaf of the sums over k, which are added in the order of [`sums`](crate::sums) on a device with
    /// [`canonical_sums`](crate::Capabilities::canonical_sums).
    pub leaf: usize,
    /// The left factor.
    pub a: Matrix,
    /// The right factor.
    pub b: Matrix,
    /// The result; never transposed.
    pub c: Matrix,
    /// Scale of the matrix product.
    pub alpha: f64,
    /// Scale of the old C.
    pub beta: f64,
    /// The number of such GEMMs, and their strides.
    pub batch: Batch,
    /// What is done to the result before it is stored.
    pub epilogue: Epilogue,
}

impl Gemm {
    /// Visits everything that the GEMMs and their epilogue read and write, each matrix of the batch in one
    /// piece.
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

/// A handle for GEMMs.
///
/// # Safety
/// An implementation reads and writes only the memory that the arguments name.
pub unsafe trait Blas: Send + Sync + fmt::Debug {
    /// Makes what GEMMs on this stream need, so that the first one allocates nothing. Queues nothing.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) for a stream of another vendor;
    /// [`Error::OutOfMemory`](crate::Error::OutOfMemory); [`Error::Vendor`](crate::Error::Vendor).
    fn prepare(&self, _stream: &dyn Stream) -> Result<()> {
        Ok(())
    }

    /// Queues a GEMM.
    ///
    /// # Safety
    /// The matrices of the full batch and those of the epilogue are live until the GEMM has run and hold their
    /// shapes, and what is written overlaps nothing else. The epilogue is one that [`fuses`](Blas::fuses)
    /// accepted.
    ///
    /// # Errors
    /// [`Error::Unsupported`](crate::Error::Unsupported) for an element type that the library lacks;
    /// [`Error::Invalid`](crate::Error::Invalid) for a size or a combination of types that it does not take, and for a
    /// stream of another vendor; [`Error::OutOfMemory`](crate::Error::OutOfMemory) for its workspace;
    /// [`Error::Vendor`](crate::Error::Vendor); the earlier failure of the stream.
    unsafe fn gemm(&self, stream: &dyn Stream, gemm: &Gemm) -> Result<()>;

    /// Whether the epilogue can be part of the GEMM; if not, separate kernels do the same work. Queues nothing.
    ///
    /// # Errors
    /// [`Error::Vendor`](crate::Error::Vendor) if the library does not answer;
    /// [`Error::Invalid`](crate::Error::Invalid) for a size that it does not take.
    fn fuses(&self, gemm: &Gemm) -> Result<bool> {
        Ok(gemm.epilogue == Epilogue::None)
    }

    /// The vendor's word for the variant that runs this GEMM if it is queued next; `None` if it has only one.
    fn variant(&self, _gemm: &Gemm) -> Option<String> {
        None
    }

    /// The fastest variants of GEMMs that this rank has found so far, in the vendor's format, one per line;
    /// `None` if each GEMM has only one variant. Ranks exchange these lines, so that all use the same variants.
    fn choices(&self) -> Option<String> {
        None
    }

    /// Uses these variants from now on; of several lines for one GEMM, the first counts. `save` keeps them for
    /// other runs.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) for lines that are not valid choices or stand for another library, or a
    /// file that cannot be written.
    fn choose(&self, _choices: &str, _save: bool) -> Result<()> {
        Ok(())
    }
}
