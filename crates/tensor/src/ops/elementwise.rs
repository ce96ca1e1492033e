//! Elementwise operations.

use super::{float, launch, launch_on, same_length, same_shape, same_type};
use crate::{Arguments, Stream, Tensor};
use hal::{
    DType, Error, Kernel, Result,
    kernel::{
        AddBias, Axpby, Binary, Cast, ColumnSum, Dropout, Swiglu, SwigluBackward, Unary,
        UnaryBackward,
    },
    random::Key,
};

pub use hal::kernel::{BinaryOp, Region, UnaryOp};

/// The tensor in another float type; the same tensor if it already has that type.
///
/// # Errors
/// [`Error::Invalid`] for integers.
pub fn cast(x: &Tensor, dtype: DType) -> Result<Tensor> {
    if x.dtype() == dtype {
        return Ok(x.clone());
    }
    let out = Tensor::empty(x.device(), dtype, x.shape())?;
    cast_into(x, &out)?;
    Ok(out)
}

/// Copies `x` into `out`, rounded to its float type.
///
/// # Errors
/// [`Error::Invalid`] for integers, other lengths or overlap.
pub fn cast_into(x: &Tensor, out: &Tensor) -> Result<()> {
    cast_into_on(&x.device().compute(), x, out)
}

/// As [`cast_into`], on another stream than that of compute.
///
/// # Errors
/// As there; [`Error::Invalid`] also for a stream of another device.
pub fn cast_into_on(stream: &Stream, x: &Tensor, out: &Tensor) -> Result<()> {
    float("cast", x)?;
    float("cast", out)?;
    same_length("cast", x, &[out])?;
    let mut args = Arguments::default();
    let kernel = Kernel::Cast(Cast {
        x: args.take(x),
        out: args.take(out),
    });
    launch_on(stream, &mut args, kernel)
}

/// `y = alpha * x + beta * y`, in place; the float types may differ.
///
/// # Errors
/// [`Error::Invalid`] for integers, other lengths or overlap.
pub fn axpby(alpha: f64, x: &Tensor, beta: f64, y: &Tensor) -> Result<()> {
    axpby_on(&x.device().compute(), alpha, x, beta, y)
}

/// As [`axpby`], on another stream than that of compute.
///
/// # Errors
/// As there; [`Error::Invalid`] also for a stream of another device.
pub fn axpby_on(stream: &Stream, alpha: f64, x: &Tensor, beta: f64, y: &Tensor) -> Result<()> {
    float("axpby", x)?;
    float("axpby", y)?;
    same_length("axpby", x, &[y])?;
    let mut args = Arguments::default();
    let kernel = Kernel::Axpby(Axpby {
        x: args.take(x),
        y: args.take(y),
        alpha,
        beta,
    });
    launch_on(stream, &mut args, kernel)
}

/// `a op b`, element by element.
///
/// # Errors
/// [`Error::Invalid`] with both tensors for other shapes or types; also for integers.
pub fn binary(op: BinaryOp, a: &Tensor, b: &Tensor) -> Result<Tensor> {
    let out = Tensor::empty(a.device(), a.dtype(), a.shape())?;
    binary_into(op, a, b, &out)?;
    Ok(out)
}

/// `out = a op b`; `out` may be `a` or `b`.
///
/// # Errors
/// As [`binary`]; [`Error::Invalid`] also for an `out` that overlaps an operand without being it.
pub fn binary_into(op: BinaryOp, a: &Tensor, b: &Tensor, out: &Tensor) -> Result<()> {
    float("binary", a)?;
    same_type("binary", a, &[b, out])?;
    same_shape("binary", a, &[b, out])?;
    queue_binary(op, a, b, out)
}

/// `a op row` for every row of `a`, or `a op number` for every element, without a copy of the operand for each.
///
/// # Shapes
/// `row`: as many elements as the last dim of `a`, or one.
/// # Errors
/// [`Error::Invalid`] with both tensors for another number of elements or another type; also for integers.
pub fn binary_row(op: BinaryOp, a: &Tensor, row: &Tensor) -> Result<Tensor> {
    check_row(a, row)?;
    let out = Tensor::empty(a.device(), a.dtype(), a.shape())?;
    queue_binary(op, a, row, &out)?;
    Ok(out)
}

/// `a = a op row` for every row of `a`, or `a = a op number` for every element.
///
/// # Errors
/// As [`binary_row`]; [`Error::Invalid`] also where the two overlap.
pub fn binary_row_in_place(op: BinaryOp, a: &Tensor, row: &Tensor) -> Result<()> {
    check_row(a, row)?;
    queue_binary(op, a, row, a)
}

fn check_row(a: &Tensor, row: &Tensor) -> Result<()> {
    float("binary_row", a)?;
    same_type("binary_row", a, &[row])?;
    if row.num_elements() != a.columns() && row.num_elements() != 1 {
        return Err(Error::invalid(
            "binary_row",
            format!("{a:?} with {row:?}"),
            format!("{} elements of a row, or 1", a.columns()),
        ));
    }
    Ok(())
}

// The lengths were checked: that of `b` divides that of `a`.
fn queue_binary(op: BinaryOp, a: &Tensor, b: &Tensor, out: &Tensor) -> Result<()> {
    let mut args = Arguments::default();
    let kernel = Kernel::Binary(Binary {
        op,
        a: args.take(a),
        b: args.take(b),
        out: args.take(out),
    });
    launch(&mut args, kernel)
}

/// `a + b`.
///
/// # Errors
/// As [`binary`].
pub fn add(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    binary(BinaryOp::Add, a, b)
}

/// `op(x)`, element by element.
///
/// # Errors
/// [`Error::Invalid`] for integers.
pub fn unary(op: UnaryOp, x: &Tensor) -> Result<Tensor> {
    let out = Tensor::empty(x.device(), x.dtype(), x.shape())?;
    unary_into(op, x, &out)?;
    Ok(out)
}

/// `out = op(x)`.
///
/// # Errors
/// [`Error::Invalid`] for integers, other shapes or types, or overlap.
pub fn unary_into(op: UnaryOp, x: &Tensor, out: &Tensor) -> Result<()> {
    float("unary", x)?;
    same_type("unary", x, &[out])?;
    same_shape("unary", x, &[out])?;
    let mut args = Arguments::default();
    let kernel = Kernel::Unary(Unary {
        op,
        x: args.take(x),
        out: args.take(out),
    });
    launch(&mut args, kernel)
}

/// `d_out * op'(x)`; overwrites `d_out` if nobody else holds it.
///
/// # Errors
/// [`Error::Invalid`] for other shapes or types; [`Error::Unsupported`] for integers.
pub fn unary_backward(op: UnaryOp, x: &Tensor, d_out: Tensor) -> Result<Tensor> {
    same_type("unary_backward", x, &[&d_out])?;
    same_shape("unary_backward", x, &[&d_out])?;
    let d_x = own_or_new(&d_out)?;
    let mut args = Arguments::default();
    let kernel = Kernel::UnaryBackward(UnaryBackward {
        op,
        x: args.take(x),
        d_out: args.take(&d_out),
        d_x: args.take(&d_x),
    });
    launch(&mut args, kernel)?;
    Ok(d_x)
}

/// `silu(gate) * up`.
///
/// # Errors
/// [`Error::Invalid`] for integers, other shapes or types.
pub fn swiglu(gate: &Tensor, up: &Tensor) -> Result<Tensor> {
    float("swiglu", gate)?;
    same_type("swiglu", gate, &[up])?;
    same_shape("swiglu", gate, &[up])?;
    let out = Tensor::empty(gate.device(), gate.dtype(), gate.shape())?;
    let mut args = Arguments::default();
    let kernel = Kernel::Swiglu(Swiglu {
        gate: args.take(gate),
        up: args.take(up),
        out: args.take(&out),
    });
    launch(&mut args, kernel)?;
    Ok(out)
}

/// Gradients of [`swiglu`] with respect to gate and up.
///
/// # Errors
/// [`Error::Invalid`] for other shapes or types; [`Error::Unsupported`] for integers.
pub fn swiglu_backward(gate: &Tensor, up: &Tensor, d_out: &Tensor) -> Result<(Tensor, Tensor)> {
    same_type("swiglu_backward", gate, &[up, d_out])?;
    same_shape("swiglu_backward", gate, &[up, d_out])?;
    let d_gate = Tensor::empty(gate.device(), gate.dtype(), gate.shape())?;
    let d_up = Tensor::empty(gate.device(), gate.dtype(), gate.shape())?;
    let mut args = Arguments::default();
    let kernel = Kernel::SwigluBackward(SwigluBackward {
        gate: args.take(gate),
        up: args.take(up),
        d_out: args.take(d_out),
        d_gate: args.take(&d_gate),
        d_up: args.take(&d_up),
    });
    launch(&mut args, kernel)?;
    Ok((d_gate, d_up))
}

/// Adds `bias` to every row of `x`, in place.
///
/// # Errors
/// [`Error::Invalid`] for integers, and if the bias is not as long as a row, or has another type.
pub fn add_bias(x: &Tensor, bias: &Tensor) -> Result<()> {
    float("add_bias", x)?;
    super::holds("add_bias", "bias", bias, x.columns(), x.dtype())?;
    let mut args = Arguments::default();
    let kernel = AddBias {
        x: args.take(x),
        bias: args.take(bias),
        rows: x.num_rows(),
        columns: x.columns(),
    };
    launch(&mut args, Kernel::AddBias(kernel))
}

/// `out = beta * out + ` the sum of all rows of `x`; a `beta` of 0 does not read `out`.
///
/// # Errors
/// [`Error::Invalid`] for integers, and when `out` is not as long as a row, or of neither the type of `x` nor its
/// accumulator.
pub fn column_sum_into(x: &Tensor, out: &Tensor, beta: f64) -> Result<()> {
    float("column_sum", x)?;
    if out.num_elements() != x.columns()
        || (out.dtype() != x.dtype() && out.dtype() != x.dtype().accumulator())
    {
        let needed = format!(
            "{} elements of {} or {}",
            x.columns(),
            x.dtype(),
            x.dtype().accumulator()
        );
        return Err(Error::invalid("column_sum", format!("{out:?}"), needed));
    }
    let mut args = Arguments::default();
    let kernel = ColumnSum {
        x: args.take(x),
        out: args.take(out),
        beta,
        rows: x.num_rows(),
        columns: x.columns(),
    };
    launch(&mut args, Kernel::ColumnSum(kernel))
}

/// Drops elements according to the draws for their global indices, and scales the others. With the same key, it
/// is its own gradient.
/// # Errors
/// [`Error::Invalid`] for integers, when the region has other sizes than `x`, or when the probability is not in [0,
/// 1).
pub fn dropout(x: &Tensor, probability: f64, key: Key, region: Region) -> Result<Tensor> {
    let out = Tensor::empty(x.device(), x.dtype(), x.shape())?;
    dropout_into(x, probability, key, region, &out)?;
    Ok(out)
}

/// As [`dropout`], into a tensor of its own.
///
/// # Errors
/// As there; [`Error::Invalid`] also when `out` holds another number of elements or another type.
pub fn dropout_into(
    x: &Tensor,
    probability: f64,
    key: Key,
    region: Region,
    out: &Tensor,
) -> Result<()> {
    float("dropout", x)?;
    same_type("dropout", x, &[out])?;
    same_length("dropout", x, &[out])?;
    if !(0.0..1.0).contains(&probability) {
        return Err(Error::invalid(
            "dropout",
            format!("probability {probability}"),
            "one in [0, 1)",
        ));
    }
    if !is_numbered(&region, x.num_elements()) {
        return Err(Error::invalid(
            "dropout",
            format!("{region:?}"),
            format!("a region of the size of {x:?}, with fewer than 2^64 global elements"),
        ));
    }
    let mut args = Arguments::default();
    let kernel = Dropout {
        x: args.take(x),
        out: args.take(out),
        probability,
        key,
        region,
    };
    launch(&mut args, Kernel::Dropout(kernel))
}

// Whether the region holds that many elements, all with a global index.
fn is_numbered(region: &Region, elements: usize) -> bool {
    let columns = region.first_column.checked_add(region.columns);
    let rows = region.first_row.checked_add(region.rows);
    region.rows.checked_mul(region.columns) == Some(elements)
        && columns.is_some_and(|columns| columns <= region.global_columns)
        && rows.is_some_and(|rows| rows.checked_mul(region.global_columns).is_some())
}

// A gradient that nobody else holds may be overwritten by the next one.
fn own_or_new(gradient: &Tensor) -> Result<Tensor> {
    match gradient.is_unshared() {
        true => Ok(gradient.clone()),
        false => Tensor::empty(gradient.device(), gradient.dtype(), gradient.shape()),
    }
}
