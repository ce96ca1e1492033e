//! LayerNorm and RMSNorm: [`forward`] and [`backward`] of full rows; and of rows that are cut, in steps between which
//! statistics are combined over ranks.

mod full;

pub use full::{Gradients, backward, forward};
pub use hal::kernel::{NormKind, NormShape};

use super::{float, holds, launch, same_length, same_type};
use crate::{Arguments, Tensor, shape::product};
use hal::{
    Kernel, Result,
    kernel::{CombineMoments, Moments, Normalize, NormalizeBackward, NormalizeSums},
};

/// Sizes of a norm over the last dim of `x`, which is a shard of a row of `global_columns`.
pub fn shape(kind: NormKind, x: &Tensor, global_columns: usize, epsilon: f64) -> NormShape {
    NormShape {
        kind,
        rows: x.num_rows(),
        columns: x.columns(),
        global_columns,
        epsilon,
    }
}

/// Mean and centred sum of squares of the local columns.
///
/// # Shapes
/// `x`: rows x columns. The result: rows x 2, of the accumulator type.
/// # Errors
/// [`Error::Invalid`](hal::Error::Invalid) for integers, and if the size of `x` does not match the shape.
pub fn moments(shape: NormShape, x: &Tensor) -> Result<Tensor> {
    check(shape, x)?;
    let out = Tensor::empty(x.device(), x.dtype().accumulator(), &[shape.rows, 2])?;
    let mut args = Arguments::default();
    let kernel = Kernel::Moments(Moments {
        shape,
        x: args.take(x),
        moments: args.take(&out),
    });
    launch(&mut args, kernel)?;
    Ok(out)
}

/// The moments of full rows, from those of their parts, which have `widths` columns from left to right.
///
/// A device with canonical sums gives the bits of the full rows if each part is a complete node of the tree of
/// [`hal::sums`] (the last one may be shorter).
///
/// # Shapes
/// `parts`: parts x rows x 2. The result: rows x 2.
/// # Errors
/// [`Error::Invalid`](hal::Error::Invalid) when `parts` has another size, is not of an accumulator type, or does not
/// have the columns of a full row; [`Error::Unsupported`](hal::Error::Unsupported) for parts of several widths on a
/// device without canonical sums.
pub fn combine(shape: NormShape, parts: &Tensor, widths: &[usize]) -> Result<Tensor> {
    let columns = widths
        .iter()
        .try_fold(0usize, |sum, &width| sum.checked_add(width));
    if columns != Some(shape.global_columns) {
        let found = format!("parts of {widths:?} columns");
        let needed = format!("{} columns together", shape.global_columns);
        return Err(hal::Error::invalid("norm_combine", found, needed));
    }
    let moments = product("norm_combine", &[widths.len(), shape.rows, 2])?;
    let accumulator = parts.dtype().accumulator();
    holds("norm_combine", "moments", parts, moments, accumulator)?;
    let out = Tensor::empty(parts.device(), parts.dtype(), &[shape.rows, 2])?;
    let mut args = Arguments::default();
    let kernel = CombineMoments {
        shape,
        parts: args.take(parts),
        widths: widths.to_vec(),
        moments: args.take(&out),
    };
    launch(&mut args, Kernel::CombineMoments(kernel))?;
    Ok(out)
}

/// The normalised rows, with gain and bias.
///
/// # Shapes
/// `x` and the result: rows x columns. `moments`: rows x 2. `gain`, `bias`: columns.
/// # Errors
/// [`Error::Invalid`](hal::Error::Invalid) when a tensor has another size or type.
pub fn normalize(
    shape: NormShape,
    x: &Tensor,
    moments: &Tensor,
    gain: &Tensor,
    bias: Option<&Tensor>,
) -> Result<Tensor> {
    check(shape, x)?;
    holds(
        "normalize",
        "moments",
        moments,
        shape.rows * 2,
        x.dtype().accumulator(),
    )?;
    check_vectors("normalize", shape, x, gain, bias)?;
    let out = Tensor::empty(x.device(), x.dtype(), x.shape())?;
    let mut args = Arguments::default();
    let kernel = Normalize {
        shape,
        x: args.take(x),
        moments: args.take(moments),
        gain: args.take(gain),
        bias: args.take_some(bias),
        out: args.take(&out),
    };
    launch(&mut args, Kernel::Normalize(kernel))?;
    Ok(out)
}

/// The row sums that the gradient needs, still to be summed over shards; adds to `beta` times the gradients of gain and
/// bias, which a `beta` of 0 does not read.
///
/// # Shapes
/// `d_out`: rows x columns. `d_gain`, `d_bias`: columns, of the accumulator type. The result: rows x 2.
/// # Errors
/// [`Error::Invalid`](hal::Error::Invalid) when a tensor has another size or type.
pub fn sums(
    shape: NormShape,
    x: &Tensor,
    moments: &Tensor,
    gain: &Tensor,
    d_out: &Tensor,
    (d_gain, d_bias): (&Tensor, Option<&Tensor>),
    beta: f64,
) -> Result<Tensor> {
    check_backward(shape, x, moments, gain, d_out)?;
    check_gradients("normalize_sums", shape, x, d_gain, d_bias)?;
    let out = Tensor::empty(x.device(), x.dtype().accumulator(), &[shape.rows, 2])?;
    let mut args = Arguments::default();
    let kernel = NormalizeSums {
        shape,
        x: args.take(x),
        moments: args.take(moments),
        gain: args.take(gain),
        d_out: args.take(d_out),
        sums: args.take(&out),
        d_gain: args.take(d_gain),
        d_bias: args.take_some(d_bias),
        beta,
    };
    launch(&mut args, Kernel::NormalizeSums(kernel))?;
    Ok(out)
}

/// The gradient of the norm's input, from sums over the full rows.
///
/// # Shapes
/// As [`sums`]; `sums` is summed over the shards. The result: rows x columns.
/// # Errors
/// [`Error::Invalid`](hal::Error::Invalid) when a tensor has another size or type.
pub fn normalize_backward(
    shape: NormShape,
    x: &Tensor,
    moments: &Tensor,
    gain: &Tensor,
    d_out: &Tensor,
    sums: &Tensor,
) -> Result<Tensor> {
    check_backward(shape, x, moments, gain, d_out)?;
    holds(
        "normalize_backward",
        "sums",
        sums,
        shape.rows * 2,
        x.dtype().accumulator(),
    )?;
    let d_x = Tensor::empty(x.device(), x.dtype(), x.shape())?;
    let mut args = Arguments::default();
    let kernel = NormalizeBackward {
        shape,
        x: args.take(x),
        moments: args.take(moments),
        gain: args.take(gain),
        d_out: args.take(d_out),
        sums: args.take(sums),
        d_x: args.take(&d_x),
    };
    launch(&mut args, Kernel::NormalizeBackward(kernel))?;
    Ok(d_x)
}

fn check_vectors(
    operation: &str,
    shape: NormShape,
    x: &Tensor,
    gain: &Tensor,
    bias: Option<&Tensor>,
) -> Result<()> {
    let holds = |what, vector| holds(operation, what, vector, shape.columns, x.dtype());
    holds("gain", gain)?;
    bias.map_or(Ok(()), |bias| holds("bias", bias))
}

fn check_gradients(
    operation: &str,
    shape: NormShape,
    x: &Tensor,
    d_gain: &Tensor,
    d_bias: Option<&Tensor>,
) -> Result<()> {
    let accumulator = x.dtype().accumulator();
    let holds = |what, vector| holds(operation, what, vector, shape.columns, accumulator);
    holds("gradient of gain", d_gain)?;
    d_bias.map_or(Ok(()), |bias| holds("gradient of bias", bias))
}

fn check(shape: NormShape, x: &Tensor) -> Result<()> {
    float("norm", x)?;
    let elements = product("norm", &[shape.rows, shape.columns])?;
    product("norm", &[shape.rows, 2])?;
    holds("norm", "input", x, elements, x.dtype())
}

fn check_backward(
    shape: NormShape,
    x: &Tensor,
    moments: &Tensor,
    gain: &Tensor,
    d_out: &Tensor,
) -> Result<()> {
    check(shape, x)?;
    same_type("norm", x, &[gain, d_out])?;
    same_length("norm", x, &[d_out])?;
    holds(
        "norm",
        "moments",
        moments,
        shape.rows * 2,
        x.dtype().accumulator(),
    )?;
    holds("norm", "gain", gain, shape.columns, x.dtype())
}
