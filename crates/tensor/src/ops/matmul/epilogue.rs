//! Matmuls with an epilogue: a bias, an activation.
//!
//! If the device's library can apply the epilogue within the GEMM, the result passes through memory once.
//! Otherwise kernels do the same work.

use super::{Transpose, run, shape, single};
use crate::{
    Arguments, Tensor,
    ops::{UnaryOp, add_bias, holds, unary_into},
};
use hal::{Epilogue, Gemm, Result};

/// [`matmul`](super::matmul()), with `bias` added to every row.
///
/// # Shapes
/// As there; `bias`: n, of the type of `a`.
/// # Errors
/// [`Error::Invalid`](hal::Error::Invalid) for integers, and when sizes or types do not fit.
pub fn matmul_bias(a: &Tensor, b: &Tensor, transpose: Transpose, bias: &Tensor) -> Result<Tensor> {
    let out = Tensor::empty(a.device(), a.dtype(), &shape(a, b, transpose)?)?;
    holds("matmul_bias", "bias", bias, out.columns(), a.dtype())?;
    let mut args = Arguments::default();
    let gemm = single(&mut args, a, b, transpose, &out, [1.0, 0.0])?;
    let fused = Gemm {
        epilogue: Epilogue::Bias {
            bias: args.take(bias),
        },
        ..gemm
    };
    if fuses(&out, &fused)? {
        run(&mut args, &fused)?;
    } else {
        plain(a, b, transpose, &out)?;
        add_bias(&out, bias)?;
    }
    Ok(out)
}

/// GELU (by its tanh approximation) of [`matmul`](super::matmul()) plus `bias`, together with that sum, which
/// the gradient needs.
///
/// # Shapes
/// As there; `bias`: n, of the type of `a`.
/// # Errors
/// As [`matmul_bias`].
pub fn matmul_gelu(
    a: &Tensor,
    b: &Tensor,
    transpose: Transpose,
    bias: Option<&Tensor>,
) -> Result<(Tensor, Tensor)> {
    let shape = shape(a, b, transpose)?;
    let sum = Tensor::empty(a.device(), a.dtype(), &shape)?;
    if let Some(bias) = bias {
        holds("matmul_gelu", "bias", bias, sum.columns(), a.dtype())?;
    }
    let out = Tensor::empty(a.device(), a.dtype(), &shape)?;
    let mut args = Arguments::default();
    let gemm = single(&mut args, a, b, transpose, &out, [1.0, 0.0])?;
    let epilogue = Epilogue::Gelu {
        bias: args.take_some(bias),
        sum: args.take(&sum),
    };
    let fused = Gemm { epilogue, ..gemm };
    if fuses(&out, &fused)? {
        run(&mut args, &fused)?;
    } else {
        plain(a, b, transpose, &sum)?;
        bias.map_or(Ok(()), |bias| add_bias(&sum, bias))?;
        unary_into(UnaryOp::Gelu, &sum, &out)?;
    }
    Ok((out, sum))
}

// The matmul alone, into `out`.
fn plain(a: &Tensor, b: &Tensor, transpose: Transpose, out: &Tensor) -> Result<()> {
    let mut args = Arguments::default();
    let gemm = single(&mut args, a, b, transpose, out, [1.0, 0.0])?;
    run(&mut args, &gemm)
}

fn fuses(out: &Tensor, gemm: &Gemm) -> Result<bool> {
    out.device().0.blas.fuses(gemm)
}
