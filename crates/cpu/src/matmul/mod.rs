//! GEMMs, over the `gemm` crate.
//!
//! Read in this order: [`call`] is the only place that calls that crate. [`blocked`] cuts a GEMM into blocks,
//! so that transposed and 16-bit operands can be copied, block by block, into the layout that its kernel reads
//! fastest. [`stage`] does this copy. [`transpose`] is the SIMD transpose, [`convert`] converts rows between
//! element types, and [`scratch`] holds each thread's spare memory.
//!
//! The blocks depend only on the sizes, and `gemm` distributes columns and rows but never a sum over k. So a
//! GEMM has the same bits on any number of threads.

mod blocked;
mod call;
pub(crate) mod convert;
pub(crate) mod scratch;
mod stage;
pub(crate) mod transpose;

#[cfg(test)]
mod tests;

use crate::element::Element;
use crate::pool::Pool;
use blocked::{BlockedMatmul, Factor};
use call::{Strided, multiply};
use hal::{DType, Error, Gemm, Matrix, Result};
use half::{bf16, f16};

/// Computes the GEMMs of a batch, one after another.
///
/// # Safety
/// As [`hal::Blas::gemm`]: the matrices are live host memory that holds their shapes, and `c` overlaps neither input.
///
/// # Errors
/// [`Error::Invalid`] for a combination of element types that the seam does not name.
pub(crate) unsafe fn gemm(args: &Gemm, pool: &Pool) -> Result<()> {
    for index in 0..args.batch.count {
        let place = |matrix: Matrix, stride: usize| {
            let first = index * stride;
            Matrix {
                data: matrix.data.part(first, matrix.data.len - first),
                ..matrix
            }
        };
        let [a, b, c] = args.batch.strides;
        let one = Gemm {
            a: place(args.a, a),
            b: place(args.b, b),
            c: place(args.c, c),
            ..*args
        };
        // SAFETY: the caller guarantees the matrices of the full batch.
        unsafe { one_of(&one, pool) }?;
    }
    Ok(())
}

// Safety: as for `gemm`, for the single GEMM of these three matrices.
unsafe fn one_of(args: &Gemm, pool: &Pool) -> Result<()> {
    let types = (args.a.data.dtype, args.b.data.dtype, args.c.data.dtype);
    // SAFETY: the caller guarantees the matrices; each arm reads them as the types found in them.
    unsafe {
        match types {
            (DType::F64, DType::F64, DType::F64) => double(args, pool),
            (DType::F32, DType::F32, DType::F32) => single::<f32, f32>(args, pool),
            (DType::Bf16, DType::Bf16, DType::Bf16) => single::<bf16, bf16>(args, pool),
            (DType::Bf16, DType::Bf16, DType::F32) => single::<bf16, f32>(args, pool),
            (DType::F16, DType::F16, DType::F16) => single::<f16, f16>(args, pool),
            (DType::F16, DType::F16, DType::F32) => single::<f16, f32>(args, pool),
            (a, b, c) => {
                let found = format!("{a} x {b} into {c}");
                return Err(Error::invalid(
                    "gemm",
                    found,
                    "two factors of one float type, into it or its accumulator",
                ));
            }
        }
    }
    Ok(())
}

/// A GEMM of f64 matrices in their stored layout.
///
/// # Safety
/// As [`gemm()`], of f64.
unsafe fn double(args: &Gemm, pool: &Pool) {
    let [a, b] = [args.a, args.b].map(Strided::<f64>::of);
    let c = Strided::of(args.c);
    // SAFETY: the caller guarantees the three matrices.
    unsafe {
        multiply(
            [args.m, args.n, args.k],
            c,
            a,
            b,
            args.alpha,
            args.beta,
            pool,
        )
    }
}

/// A GEMM summed in f32.
///
/// # Safety
/// As [`gemm()`], of factors of type `T` and a result of type `C`.
unsafe fn single<T: Element<Acc = f32>, C: Element<Acc = f32>>(args: &Gemm, pool: &Pool) {
    let matmul = BlockedMatmul::<T, C> {
        sizes: [args.m, args.n, args.k],
        a: Factor::left(args.a, args.n),
        b: Factor::right(args.b, args.m),
        c: Strided::of(args.c),
        alpha: args.alpha as f32,
        beta: args.beta as f32,
    };
    // SAFETY: the caller guarantees the three matrices.
    unsafe { matmul.run(pool) }
}
