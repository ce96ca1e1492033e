//! GEMMs, whose elements are summed in one order whatever the sizes, the layouts and the number of threads.
//!
//! Read in this order: [`hal::sums`] defines the order of the sums. [`kernel`] computes leaves of a tile's sums in
//! registers, with a [`multiplier`]: the vectors of [`portable`], or of [`dot`] for pairs of bf16.
//! [`format`](mod@format) lists the forms of factors that they read, [`pack`] brings a block of a factor into such a form,
//! and [`transpose`] is the SIMD transpose. [`product`](mod@product) gives threads their parts, which [`cuts`] makes;
//! [`block`] walks over the leaves and tiles of a block, and [`finish`] turns sums into elements of the result; [`rows`]
//! computes products with few rows, by [`row_leaves`]. Their [`source`] is memory or codes; [`right`] computes blocks of a factor that is stored as codes. [`convert`] converts rows between element types, and [`scratch`] holds each thread's
//! spare memory.

mod block;
pub(crate) mod convert;
mod cuts;
#[cfg(target_arch = "x86_64")]
mod dot;
mod finish;
mod format;
pub(crate) mod kernel;
mod multiplier;
mod pack;
mod portable;
mod product;
mod right;
mod row_leaves;
mod rows;
pub(crate) mod scratch;
mod source;
mod strided;
pub(crate) mod transpose;

#[cfg(test)]
mod tests;

use crate::{
    codes::Codes,
    element::{Element, Real},
    pool::Pool,
};
use finish::Finish;
use format::{Format, Widened};
use hal::{DType, Error, Gemm, Matrix, Result, kernel::QuantisedMatmul};
use half::{bf16, f16};
use product::Product;
use right::Right;
use strided::Strided;

/// A product, before the types of its matrices are known.
#[derive(Clone, Copy, Debug)]
struct Call {
    sizes: [usize; 3],
    leaf: usize,
    a: Matrix,
    b: Factor,
    c: Matrix,
    alpha: f64,
    beta: f64,
}

/// The right factor of a product.
#[derive(Clone, Copy, Debug)]
enum Factor {
    Elements(Matrix),
    /// Of the left factor's type.
    Codes(Codes),
}

impl Factor {
    fn of<T>(self) -> Right<T> {
        match self {
            Factor::Elements(matrix) => Right::Elements(Strided::of(matrix)),
            Factor::Codes(codes) => Right::Codes(codes),
        }
    }
}

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
        let one = Call {
            sizes: [args.m, args.n, args.k],
            leaf: args.leaf,
            a: place(args.a, a),
            b: Factor::Elements(place(args.b, b)),
            c: place(args.c, c),
            alpha: args.alpha,
            beta: args.beta,
        };
        // SAFETY: the caller guarantees the matrices of the full batch.
        unsafe { one_of(&one, args.b.data.dtype, pool) }?;
    }
    Ok(())
}

/// Computes the product of few rows and a matrix that is stored as codes, with the bits of one with what they stand for.
///
/// # Safety
/// As [`hal::Kernels::launch`].
///
/// # Errors
/// As [`gemm()`].
pub(crate) unsafe fn quantised(args: &QuantisedMatmul, pool: &Pool) -> Result<()> {
    let matrix = |data, leading| Matrix {
        data,
        leading,
        transposed: false,
    };
    let (k, n) = (args.part.rows, args.part.columns);
    let call = Call {
        sizes: [args.rows, n, k],
        leaf: args.leaf,
        a: matrix(args.a, k),
        // SAFETY: guaranteed by the caller.
        b: Factor::Codes(unsafe { Codes::new(args.stored, args.part) }),
        c: matrix(args.out, n),
        alpha: 1.0,
        beta: 0.0,
    };
    // SAFETY: guaranteed by the caller.
    unsafe { one_of(&call, args.a.dtype, pool) }
}

// Safety: as for `gemm`, for the single product of these three matrices.
unsafe fn one_of(args: &Call, right: DType, pool: &Pool) -> Result<()> {
    let types = (args.a.data.dtype, right, args.c.data.dtype);
    let arch = pulp::Arch::new();
    // SAFETY: the caller guarantees the matrices; each arm reads them as the types found in them.
    unsafe {
        match types {
            (DType::F64, DType::F64, DType::F64) => {
                product::<_, f64>(Widened::<f64>::on(arch), args, pool)
            }
            (DType::F32, DType::F32, DType::F32) => {
                product::<_, f32>(Widened::<f32>::on(arch), args, pool)
            }
            (DType::Bf16, DType::Bf16, DType::Bf16) => of_bf16::<bf16>(arch, args, pool),
            (DType::Bf16, DType::Bf16, DType::F32) => of_bf16::<f32>(arch, args, pool),
            (DType::F16, DType::F16, DType::F16) => {
                product::<_, f16>(Widened::<f16>::on(arch), args, pool)
            }
            (DType::F16, DType::F16, DType::F32) => {
                product::<_, f32>(Widened::<f16>::on(arch), args, pool)
            }
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

/// A GEMM of bf16 factors, in pairs where the processor can.
///
/// # Safety
/// As [`gemm()`], of factors of bf16 and a result of type `C`.
unsafe fn of_bf16<C: Element<Acc = f32>>(arch: pulp::Arch, args: &Call, pool: &Pool) {
    #[cfg(target_arch = "x86_64")]
    if let Some(pairs) = dot::Pairs::detect() {
        // SAFETY: the caller guarantees the three matrices.
        return unsafe { product::<_, C>(pairs, args, pool) };
    }
    // SAFETY: as above.
    unsafe { product::<_, C>(Widened::<bf16>::on(arch), args, pool) }
}

/// A GEMM in a format of its factors.
///
/// # Safety
/// As [`gemm()`], of factors of the format's type and a result of type `C`.
unsafe fn product<F: Format, C: Element<Acc = F::Sum>>(format: F, args: &Call, pool: &Pool) {
    let product = Product::<F, C> {
        format,
        sizes: args.sizes,
        leaf: args.leaf,
        a: Strided::of(args.a),
        b: args.b.of(),
        c: Strided::of(args.c),
        finish: Finish {
            alpha: F::Sum::of(args.alpha),
            beta: F::Sum::of(args.beta),
        },
    };
    // SAFETY: the caller guarantees the three matrices.
    unsafe { product.run(pool) }
}
