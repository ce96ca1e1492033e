//! Norms of full rows, which are read once in each direction.

use super::{NormShape, check, check_backward, check_gradients, check_vectors};
use crate::{
    Arguments, Tensor,
    ops::{launch, same_length, same_type},
};
use hal::{
    Kernel, Result,
    kernel::{NormBackward, NormForward},
};

/// The normalised rows, with gain and bias, and the moments of the rows, in one pass over `x`. The rows must be full.
///
/// The bits are those of [`moments`](super::moments) and [`normalize`](super::normalize). If `x` is a sum and the work that was queued
/// last, one kernel makes both.
///
/// # Shapes
/// `x` and the first result: rows x columns. `gain`, `bias`: columns. The second result: rows x 2.
/// # Errors
/// [`Error::Invalid`](hal::Error::Invalid) for rows that are not full, and when a tensor has another size or type.
pub fn forward(
    shape: NormShape,
    x: &Tensor,
    gain: &Tensor,
    bias: Option<&Tensor>,
) -> Result<(Tensor, Tensor)> {
    check_full("norm_forward", shape)?;
    check(shape, x)?;
    check_vectors("norm_forward", shape, x, gain, bias)?;
    let out = Tensor::empty(x.device(), x.dtype(), x.shape())?;
    let moments = Tensor::empty(x.device(), x.dtype().accumulator(), &[shape.rows, 2])?;
    let mut args = Arguments::default();
    let kernel = NormForward {
        shape,
        addends: None,
        x: args.take(x),
        gain: args.take(gain),
        bias: args.take_some(bias),
        moments: args.take(&moments),
        out: args.take(&out),
    };
    launch(&mut args, Kernel::NormForward(kernel))?;
    Ok((out, moments))
}

/// Where [`backward`] writes.
#[derive(Clone, Copy, Debug)]
pub struct Gradients<'a> {
    /// The gradient of the input: rows x columns.
    pub d_x: &'a Tensor,
    /// The gradient of the gain: columns, of the accumulator type.
    pub d_gain: &'a Tensor,
    /// The gradient of the bias: columns, of the accumulator type.
    pub d_bias: Option<&'a Tensor>,
    /// What is added to the gradient of the input, another part of it: rows x columns, which `d_x` does not overlap.
    pub addend: Option<&'a Tensor>,
}

/// Writes the gradient of the norm's input, in one pass over `x` and `d_out`; adds to `beta` times the gradients of gain
/// and bias, which a `beta` of 0 does not read. The rows must be full.
///
/// The bits are those of [`sums`](super::sums) and [`normalize_backward`](super::normalize_backward), and of a sum with the addend.
///
/// # Shapes
/// `x`, `d_out`: rows x columns. `moments`: rows x 2. `gain`: columns.
/// # Errors
/// [`Error::Invalid`](hal::Error::Invalid) for rows that are not full, and when a tensor has another size or type.
pub fn backward(
    shape: NormShape,
    x: &Tensor,
    moments: &Tensor,
    gain: &Tensor,
    d_out: &Tensor,
    gradients: Gradients<'_>,
    beta: f64,
) -> Result<()> {
    let Gradients {
        d_x,
        d_gain,
        d_bias,
        addend,
    } = gradients;
    check_full("norm_backward", shape)?;
    check_backward(shape, x, moments, gain, d_out)?;
    check_gradients("norm_backward", shape, x, d_gain, d_bias)?;
    same_type("norm_backward", x, &[d_x])?;
    same_length("norm_backward", x, &[d_x])?;
    if let Some(addend) = addend {
        same_type("norm_backward", x, &[addend])?;
        same_length("norm_backward", x, &[addend])?;
    }
    let mut args = Arguments::default();
    let kernel = NormBackward {
        shape,
        x: args.take(x),
        moments: args.take(moments),
        gain: args.take(gain),
        d_out: args.take(d_out),
        d_gain: args.take(d_gain),
        d_bias: args.take_some(d_bias),
        beta,
        addend: args.take_some(addend),
        d_x: args.take(d_x),
    };
    launch(&mut args, Kernel::NormBackward(kernel))
}

fn check_full(operation: &str, shape: NormShape) -> Result<()> {
    match shape.columns == shape.global_columns {
        true => Ok(()),
        false => {
            let found = format!("{} of {} columns", shape.columns, shape.global_columns);
            Err(hal::Error::invalid(operation, found, "full rows"))
        }
    }
}
