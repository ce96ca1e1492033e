//! Sums of rows, softmax, and selection of rows by a mask.

use super::{float, holds, launch, same_length, same_type};
use crate::{Arguments, Tensor};
use hal::{
    DType, Kernel, Result,
    kernel::{self, SelectRows},
};

/// The sum over the last dim, which keeps one element.
///
/// # Errors
/// [`Error::Invalid`](hal::Error::Invalid) for integers, and for a tensor without dims.
pub fn row_sum(x: &Tensor) -> Result<Tensor> {
    float("row_sum", x)?;
    let out = Tensor::empty(x.device(), x.dtype(), &with_columns("row_sum", x, 1)?)?;
    let mut args = Arguments::default();
    let kernel = kernel::RowSum {
        x: args.take(x),
        out: args.take(&out),
        rows: x.num_rows(),
        columns: x.columns(),
    };
    launch(&mut args, Kernel::RowSum(kernel))?;
    Ok(out)
}

/// The softmax over the last dim, or its logarithm.
///
/// # Errors
/// [`Error::Invalid`](hal::Error::Invalid) for integers.
pub fn softmax(x: &Tensor, log: bool) -> Result<Tensor> {
    float("softmax", x)?;
    let out = Tensor::empty(x.device(), x.dtype(), x.shape())?;
    let mut args = Arguments::default();
    let kernel = kernel::Softmax {
        x: args.take(x),
        out: args.take(&out),
        rows: x.num_rows(),
        columns: x.columns(),
        log,
    };
    launch(&mut args, Kernel::Softmax(kernel))?;
    Ok(out)
}

/// The gradient of [`softmax`] from its result.
///
/// # Errors
/// [`Error::Invalid`](hal::Error::Invalid) for integers, other lengths or types.
pub fn softmax_backward(out: &Tensor, d_out: &Tensor, log: bool) -> Result<Tensor> {
    float("softmax_backward", out)?;
    same_type("softmax_backward", out, &[d_out])?;
    same_length("softmax_backward", out, &[d_out])?;
    let d_x = Tensor::empty(out.device(), out.dtype(), out.shape())?;
    let mut args = Arguments::default();
    let kernel = kernel::SoftmaxBackward {
        out: args.take(out),
        d_out: args.take(d_out),
        d_x: args.take(&d_x),
        rows: out.num_rows(),
        columns: out.columns(),
        log,
    };
    launch(&mut args, Kernel::SoftmaxBackward(kernel))?;
    Ok(d_x)
}

/// The rows of `a` where `mask` is not 0, and those of `b` elsewhere; zeros for a side that is `None`.
///
/// # Shapes
/// `mask`: u32, one element for each row, which is a run of the last dim. The result: as `like`, which both sides are.
/// # Errors
/// [`Error::Invalid`](hal::Error::Invalid) for integers, for another mask, or sides of another length or type than
/// `like`.
pub fn select_rows(
    mask: &Tensor,
    a: Option<&Tensor>,
    b: Option<&Tensor>,
    like: &Tensor,
) -> Result<Tensor> {
    float("select", like)?;
    holds("select", "mask", mask, like.num_rows(), DType::U32)?;
    for side in [a, b].into_iter().flatten() {
        holds("select", "a side", side, like.num_elements(), like.dtype())?;
    }
    let out = Tensor::empty(like.device(), like.dtype(), like.shape())?;
    let mut args = Arguments::default();
    let kernel = SelectRows {
        mask: args.take(mask),
        a: args.take_some(a),
        b: args.take_some(b),
        out: args.take(&out),
        rows: like.num_rows(),
        columns: like.columns(),
    };
    launch(&mut args, Kernel::SelectRows(kernel))?;
    Ok(out)
}

/// The shape of `x` with another last dim.
pub(crate) fn with_columns(operation: &str, x: &Tensor, columns: usize) -> Result<Vec<usize>> {
    let Some((_, outer)) = x.shape().split_last() else {
        let found = format!("{x:?}");
        return Err(hal::Error::invalid(operation, found, "a last dim"));
    };
    Ok([outer, &[columns]].concat())
}
