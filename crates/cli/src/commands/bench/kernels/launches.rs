//! The cost of a launch, measured with the smallest kernel there is: it sets one element.

use crate::numbers::Spread;
use std::time::Instant;
use tensor::{DType, Device, Tensor};

/// Launches in a row. If there were more than the vendor's queue holds, the time would be that of the device
/// running them.
const IN_A_ROW: usize = 256;

/// Seconds the host takes to queue one kernel, and seconds from queueing a kernel until it has run, with a
/// wait after each.
///
/// # Errors
/// Those of the device.
pub(super) fn measure(device: &Device, repetitions: usize) -> train::Result<[Spread; 2]> {
    let one = Tensor::zeros(device, DType::F32, &[1])?;
    let compute = device.compute();
    let launch = || Ok(one.fill(1.0)?);
    let finish = || {
        one.fill(1.0)?;
        Ok(compute.synchronize()?)
    };
    Ok([
        spread(device, repetitions, launch)?,
        spread(device, repetitions, finish)?,
    ])
}

// The device catches up between two rows, outside the timed interval. The first row is warm-up.
fn spread(
    device: &Device,
    repetitions: usize,
    call: impl Fn() -> train::Result<()>,
) -> train::Result<Spread> {
    let mut seconds = Vec::new();
    for _ in 0..=repetitions {
        device.compute().synchronize()?;
        let begun = Instant::now();
        (0..IN_A_ROW).try_for_each(|_| call())?;
        seconds.push(begun.elapsed().as_secs_f64() / IN_A_ROW as f64);
    }
    device.compute().synchronize()?;
    Ok(Spread::of(&seconds[1..]))
}
