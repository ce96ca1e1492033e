//! Many matmuls of one shape in one call.

use super::{Transpose, run};
use crate::{
    Arguments, Tensor,
    ops::{float, same_type},
};
use hal::{Batch, Epilogue, Error, Gemm, Matrix, Result, sums};

/// The matmuls of the matrices in the last two dims of `a` and `b`, one for each index of the leading dims.
///
/// # Shapes
/// `None`: .. x m x k, .. x k x n. `First`: .. x k x m, .. x k x n. `Second`: .. x m x k, .. x n x k. The result is
/// .. x m x n, of the type of `a`.
/// # Errors
/// [`Error::Invalid`] for integers, when types, leading dims or contracted sizes differ, and for fewer than two dims.
pub fn matmul_batched(a: &Tensor, b: &Tensor, transpose: Transpose) -> Result<Tensor> {
    float("matmul_batched", a)?;
    same_type("matmul_batched", a, &[b])?;
    let (outer, [a_rows, a_columns]) = split(a)?;
    let (outer_of_b, [b_rows, b_columns]) = split(b)?;
    let (m, k) = if transpose == Transpose::First {
        (a_columns, a_rows)
    } else {
        (a_rows, a_columns)
    };
    let (k_of_b, n) = if transpose == Transpose::Second {
        (b_columns, b_rows)
    } else {
        (b_rows, b_columns)
    };
    if outer != outer_of_b || k != k_of_b {
        let found = format!("{a:?} and {b:?} (transpose {transpose:?})");
        return Err(Error::invalid(
            "matmul_batched",
            found,
            "equal leading dims and contracted sizes",
        ));
    }
    let out = Tensor::empty(a.device(), a.dtype(), &[outer, &[m, n]].concat())?;
    let mut args = Arguments::default();
    let mut matrix = |tensor, leading, transposed| Matrix {
        data: args.take(tensor),
        leading,
        transposed,
    };
    let gemm = Gemm {
        m,
        n,
        k,
        leaf: sums::leaf(k),
        a: matrix(a, a_columns, transpose == Transpose::First),
        b: matrix(b, b_columns, transpose == Transpose::Second),
        c: matrix(&out, n, false),
        alpha: 1.0,
        beta: 0.0,
        batch: Batch {
            count: outer.iter().product(),
            strides: [m * k, k * n, m * n],
        },
        epilogue: Epilogue::None,
    };
    run(&mut args, &gemm)?;
    Ok(out)
}

// The dims that count matrices, and those of one matrix.
fn split(tensor: &Tensor) -> Result<(&[usize], [usize; 2])> {
    match tensor.shape() {
        [outer @ .., rows, columns] => Ok((outer, [*rows, *columns])),
        _ => Err(Error::invalid(
            "matmul_batched",
            format!("{tensor:?}"),
            "at least two dims",
        )),
    }
}
