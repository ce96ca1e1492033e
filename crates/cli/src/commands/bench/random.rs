//! Tensors of random numbers for measurements, large ones within milliseconds.

use hal::random::Key;
use tensor::{DType, Device, Tensor, ops};

/// Numbers that are drawn; more repeat these. A prime, so that rows of few sizes repeat.
const DRAWN: usize = 1_000_003;

/// A tensor of numbers in [-0.5, 0.5), which depend on `name` alone.
///
/// # Errors
/// Those of the device.
pub(crate) fn uniform(
    device: &Device,
    dtype: DType,
    shape: &[usize],
    name: &str,
) -> train::Result<Tensor> {
    let tensor = Tensor::empty(device, dtype, shape)?;
    let count = tensor.num_elements();
    let elements = tensor.reshape(&[count, 1])?;
    let key = Key::new(1, name, 0);
    let mut filled = count.min(DRAWN);
    let drawn: Vec<f64> = (0..filled as u64)
        .map(|index| f64::from(key.uniform(index)) - 0.5)
        .collect();
    elements.rows(0, filled)?.upload_f64(&drawn)?;
    while filled < count {
        let more = filled.min(count - filled);
        ops::copy(&elements.rows(0, more)?, &elements.rows(filled, more)?)?;
        filled += more;
    }
    Ok(tensor)
}
