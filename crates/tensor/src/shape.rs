//! Sizes of shapes, computed without overflow.

use hal::{DType, Error, Result};

/// The number of elements in a tensor of that shape, which must be addressable.
///
/// A dim of size 0 counts as 1 for this limit, so the product of any dims of an accepted shape fits a `usize`:
/// a stride, a number of rows, an offset.
///
/// # Errors
/// [`Error::Invalid`] for a shape of 2^63 bytes or more.
pub(crate) fn num_elements(operation: &str, shape: &[usize], dtype: DType) -> Result<usize> {
    let bytes = shape
        .iter()
        .try_fold(dtype.bytes(), |bytes, &size| bytes.checked_mul(size.max(1)));
    match bytes {
        Some(bytes) if bytes <= isize::MAX as usize => Ok(shape.iter().product()),
        _ => Err(Error::invalid(
            operation,
            format!("shape {shape:?} of {dtype}"),
            "fewer than 2^63 bytes, an empty dim counted as 1",
        )),
    }
}

/// The product of sizes passed to an operation.
///
/// # Errors
/// [`Error::Invalid`] if it overflows.
pub(crate) fn product(operation: &str, sizes: &[usize]) -> Result<usize> {
    let product = sizes
        .iter()
        .try_fold(1usize, |product, &size| product.checked_mul(size));
    product.ok_or_else(|| {
        Error::invalid(
            operation,
            format!("a size of {sizes:?} elements"),
            "fewer than 2^64",
        )
    })
}
