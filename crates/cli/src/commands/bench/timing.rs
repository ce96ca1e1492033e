//! Times of calls queued back to back.

use crate::numbers::Spread;
use tensor::Device;
use train::speed;

/// Seconds per call, from batches of calls between two waits.
///
/// # Errors
/// Those of the calls and of the device.
pub(crate) fn batches(
    device: &Device,
    repetitions: usize,
    call: impl FnMut() -> train::Result<()>,
) -> train::Result<Spread> {
    Ok(Spread::of(&speed::per_call(device, repetitions, call)?))
}
