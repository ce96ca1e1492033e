//! Matmuls: of two matrices here, of many at once ([`batched`]), and with an epilogue ([`epilogue`]).

pub mod batched;
pub mod epilogue;

pub use batched::matmul_batched;
pub use epilogue::{matmul_bias, matmul_gelu};

use super::{float, same_type};
use crate::{Arguments, Tensor, shape::product};
use hal::{Batch, Epilogue, Error, Gemm, Matrix, Result, sums};

/// Which factors a matmul takes transposed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transpose {
    /// A B.
    None,
    /// A^T B.
    First,
    /// A B^T.
    Second,
}

/// The matrix product of `a` and `b`; all dims except the last count as rows.
///
/// # Shapes
/// `None`: m x k, k x n. `First`: k x m, k x n. `Second`: m x k, n x k. The result is m x n, of the type of `a`.
/// # Errors
/// [`Error::Invalid`] for integers, and when types or contracted sizes differ.
pub fn matmul(a: &Tensor, b: &Tensor, transpose: Transpose) -> Result<Tensor> {
    let out = Tensor::empty(a.device(), a.dtype(), &shape(a, b, transpose)?)?;
    let mut args = Arguments::default();
    let gemm = single(&mut args, a, b, transpose, &out, [1.0, 0.0])?;
    run(&mut args, &gemm)?;
    Ok(out)
}

/// `out = alpha * a b + beta * out`; `out` has the type of the factors or its accumulator.
///
/// # Shapes
/// As [`matmul`](fn@matmul); `out` holds m x n elements.
/// # Errors
/// [`Error::Invalid`] for integers, and when sizes or types do not fit or `out` overlaps a factor.
pub fn matmul_into(
    a: &Tensor,
    b: &Tensor,
    transpose: Transpose,
    out: &Tensor,
    alpha: f64,
    beta: f64,
) -> Result<()> {
    let (_, _, k) = sizes(a, b, transpose)?;
    matmul_node_into(a, b, transpose, out, [alpha, beta], sums::leaf(k))
}

/// The device's word for the variant that runs this [`matmul_into`] if it is queued next: an algorithm, or a matrix that is
/// transposed first. `None` where matmuls have only one variant.
///
/// # Errors
/// As there.
pub fn matmul_variant(
    a: &Tensor,
    b: &Tensor,
    transpose: Transpose,
    out: &Tensor,
    alpha: f64,
    beta: f64,
) -> Result<Option<String>> {
    let mut args = Arguments::default();
    let gemm = single(&mut args, a, b, transpose, out, [alpha, beta])?;
    Ok(out.device().0.blas.variant(&gemm))
}

/// As [`matmul_into`], with `scales` alpha and beta, for a node of a longer sum: its leaves have `leaf` terms.
///
/// # Errors
/// As there; [`Error::Invalid`] also for leaves of no terms.
pub fn matmul_node_into(
    a: &Tensor,
    b: &Tensor,
    transpose: Transpose,
    out: &Tensor,
    scales: [f64; 2],
    leaf: usize,
) -> Result<()> {
    if leaf == 0 {
        return Err(Error::invalid("matmul", "leaves of 0 terms", "at least 1"));
    }
    let (m, n, _) = sizes(a, b, transpose)?;
    let fits = out.num_elements() == product("matmul", &[m, n])?
        && (out.dtype() == a.dtype() || out.dtype() == a.dtype().accumulator());
    if !fits {
        let needed = format!(
            "{m} x {n} elements of {} or {}",
            a.dtype(),
            a.dtype().accumulator()
        );
        return Err(Error::invalid("matmul", format!("result {out:?}"), needed));
    }
    let mut args = Arguments::default();
    let gemm = Gemm {
        leaf,
        ..single(&mut args, a, b, transpose, out, scales)?
    };
    run(&mut args, &gemm)
}

// The shape of the result: rows keep the dims that they have in `a`.
fn shape(a: &Tensor, b: &Tensor, transpose: Transpose) -> Result<Vec<usize>> {
    let (m, n, _) = sizes(a, b, transpose)?;
    Ok(match transpose {
        Transpose::First => vec![m, n],
        _ => [&a.shape()[..a.shape().len().saturating_sub(1)], &[n]].concat(),
    })
}

fn sizes(a: &Tensor, b: &Tensor, transpose: Transpose) -> Result<(usize, usize, usize)> {
    float("matmul", a)?;
    same_type("matmul", a, &[b])?;
    let (a_rows, a_columns, b_rows, b_columns) =
        (a.num_rows(), a.columns(), b.num_rows(), b.columns());
    let (m, k, n, k_of_b) = match transpose {
        Transpose::None => (a_rows, a_columns, b_columns, b_rows),
        Transpose::First => (a_columns, a_rows, b_columns, b_rows),
        Transpose::Second => (a_rows, a_columns, b_rows, b_columns),
    };
    match k == k_of_b {
        true => Ok((m, n, k)),
        false => {
            let found = format!("{a:?} and {b:?} (transpose {transpose:?})");
            Err(Error::invalid(
                "matmul",
                found,
                format!("equal contracted sizes, not {k} and {k_of_b}"),
            ))
        }
    }
}

// A matmul of two matrices, whose sizes are checked here.
fn single<'a>(
    args: &mut Arguments<'a>,
    a: &'a Tensor,
    b: &'a Tensor,
    transpose: Transpose,
    out: &'a Tensor,
    [alpha, beta]: [f64; 2],
) -> Result<Gemm> {
    let (m, n, k) = sizes(a, b, transpose)?;
    let mut matrix = |tensor: &'a Tensor, leading, transposed| Matrix {
        data: args.take(tensor),
        leading,
        transposed,
    };
    Ok(Gemm {
        m,
        n,
        k,
        leaf: sums::leaf(k),
        a: matrix(a, a.columns(), transpose == Transpose::First),
        b: matrix(b, b.columns(), transpose == Transpose::Second),
        c: matrix(out, n, false),
        alpha,
        beta,
        batch: Batch::ONE,
        epilogue: Epilogue::None,
    })
}

// Queues a GEMM made of these arguments, whose sizes and types the caller has checked.
fn run(arguments: &mut Arguments<'_>, gemm: &Gemm) -> Result<()> {
    arguments.name("matmul", |visit| gemm.operands(visit));
    arguments.check_overlap("matmul")?;
    let Some(device) = arguments.device().filter(|_| arguments.written_bytes() > 0) else {
        return Ok(());
    };
    device.compute().queue("matmul", arguments, |stream| {
        // SAFETY: the operands are the tensors of `arguments` (asserted above), live and kept by their storage;
        // what is written overlaps nothing (checked above); the callers have checked everything else.
        unsafe { device.0.blas.gemm(stream, gemm) }
    })
}
