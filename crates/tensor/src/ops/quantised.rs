//! Quantised weights: see [`hal::quantised`].

use super::{float, launch};
use crate::{Arguments, Tensor};
use hal::{
    DType, Error, Kernel, Result,
    kernel::Dequantise,
    quantised::{ALIGNMENT, QuantisedPart},
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
    let refuse = |found: String, needed: String| Err(Error::invalid("dequantise", found, needed));
    let elements = part.checked_elements();
    if elements != Some(out.num_elements()) {
        return refuse(format!("{out:?}"), format!("the elements of {part:?}"));
    }
    if stored.dtype() != DType::U8 || stored.num_elements() != part.bytes() {
        return refuse(format!("{stored:?}"), format!("{} bytes", part.bytes()));
    }
    let mut args = Arguments::default();
    let kernel = Dequantise {
        stored: args.take(stored),
        out: args.take(out),
        part,
    };
    let past = kernel.stored.addr % ALIGNMENT as u64;
    if past != 0 {
        let found = format!("stored weights {past} bytes past a multiple of {ALIGNMENT}");
        return refuse(found, "a beginning there".into());
    }
    launch(&mut args, Kernel::Dequantise(kernel))
}
