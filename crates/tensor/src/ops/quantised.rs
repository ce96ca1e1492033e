//! Quantised weights: see [`hal::quantised`].

use super::{float, launch};
use crate::{Arguments, Tensor, shape::product};
use hal::{
    DType, Error, Kernel, RawSlice, Result,
    kernel::{Dequantise, QuantisedMatmul},
    quantised::{ALIGNMENT, MOST_ROWS, QuantisedPart},
};

/// Sets `out` to what the stored weights of a part of a matrix stand for.
///
/// # Shapes
/// `stored`: the part's bytes, u8, which begin at a multiple of [`ALIGNMENT`] bytes. `out`: the part's elements, of any float type.
/// # Ordering
/// Queued on the compute stream; the host does not wait.
/// # Errors
/// [`Error::Invalid`] when lengths, types or the beginning do not fit.
pub fn dequantise(stored: &Tensor, part: QuantisedPart, out: &Tensor) -> Result<()> {
    float("dequantise", out)?;
    let elements = part.checked_elements();
    if elements != Some(out.num_elements()) {
        let needed = format!("the elements of {part:?}");
        return Err(Error::invalid("dequantise", format!("{out:?}"), needed));
    }
    let mut args = Arguments::default();
    let kernel = Dequantise {
        stored: take(&mut args, "dequantise", stored, part)?,
        out: args.take(out),
        part,
    };
    launch(&mut args, Kernel::Dequantise(kernel))
}

/// Sets `out` to the product of few rows and what the stored weights of a part of a matrix stand for in the type of `a`. No memory
/// holds these weights. On a device with [`canonical_sums`](hal::Capabilities::canonical_sums) the result has the bits of a
/// [matmul with them](super::matmul::matmul_node_into).
///
/// # Shapes
/// `a`: rows x the part's rows, at most [`MOST_ROWS`]; all dims except the last count as rows. `stored`: as for [`dequantise`]. `out`:
/// rows x the part's columns, of the type of `a` or its accumulator. `leaf`: the terms of a leaf of the sums.
/// # Ordering
/// As for [`dequantise`].
/// # Errors
/// [`Error::Invalid`] when lengths, types or the beginning do not fit, and for leaves of no terms.
pub fn quantised_matmul_into(
    a: &Tensor,
    (stored, part): (&Tensor, QuantisedPart),
    out: &Tensor,
    leaf: usize,
) -> Result<()> {
    const NAME: &str = "quantised_matmul";
    float(NAME, a)?;
    let refuse = |found: String, needed: String| Err(Error::invalid(NAME, found, needed));
    let rows = a.num_rows();
    if part.checked_elements().is_none() || a.columns() != part.rows {
        return refuse(
            format!("{a:?}"),
            format!("rows that meet those of {part:?}"),
        );
    }
    if rows > MOST_ROWS {
        return refuse(format!("{rows} rows"), format!("at most {MOST_ROWS}"));
    }
    if leaf == 0 {
        return refuse("leaves of 0 terms".into(), "at least 1".into());
    }
    let types = [a.dtype(), a.dtype().accumulator()];
    if out.num_elements() != product(NAME, &[rows, part.columns])? || !types.contains(&out.dtype())
    {
        let needed = format!(
            "{rows} x {} elements of {} or {}",
            part.columns, types[0], types[1]
        );
        return refuse(format!("result {out:?}"), needed);
    }
    let mut args = Arguments::default();
    let kernel = QuantisedMatmul {
        a: args.take(a),
        stored: take(&mut args, NAME, stored, part)?,
        out: args.take(out),
        part,
        rows,
        leaf,
    };
    launch(&mut args, Kernel::QuantisedMatmul(kernel))
}

// The stored weights as an argument.
fn take<'a>(
    args: &mut Arguments<'a>,
    operation: &str,
    stored: &'a Tensor,
    part: QuantisedPart,
) -> Result<RawSlice> {
    if stored.dtype() != DType::U8 || stored.num_elements() != part.bytes() {
        let needed = format!("{} bytes", part.bytes());
        return Err(Error::invalid(operation, format!("{stored:?}"), needed));
    }
    let taken = args.take(stored);
    match taken.addr % ALIGNMENT as u64 {
        0 => Ok(taken),
        past => {
            let found = format!("stored weights {past} bytes past a multiple of {ALIGNMENT}");
            Err(Error::invalid(operation, found, "a beginning there"))
        }
    }
}
