//! Times of calls queued back to back.

use crate::numbers::Spread;
use std::time::{Duration, Instant};
use tensor::Device;

/// A batch of calls takes at least this long, so that the wait at its end and the start of its first call
/// hardly matter.
const SHORTEST_BATCH: Duration = Duration::from_millis(5);

/// A batch has at most this many calls.
const MOST_CALLS: usize = 4096;

/// Seconds per call, from batches of calls between two waits. Batches that were too short serve as warm-up.
///
/// # Errors
/// Those of the calls and of the device.
pub(crate) fn batches(
    device: &Device,
    repetitions: usize,
    mut call: impl FnMut() -> train::Result<()>,
) -> train::Result<Spread> {
    let calls = enough(|calls| batch(device, calls, &mut call))?;
    let seconds: train::Result<Vec<f64>> = (0..repetitions)
        .map(|_| Ok(batch(device, calls, &mut call)?.as_secs_f64() / calls as f64))
        .collect();
    Ok(Spread::of(&seconds?))
}

// Doubles the number of calls until a batch takes long enough.
fn enough(mut batch: impl FnMut(usize) -> train::Result<Duration>) -> train::Result<usize> {
    let mut calls = 1;
    batch(calls)?;
    while batch(calls)? < SHORTEST_BATCH && calls < MOST_CALLS {
        calls *= 2;
    }
    Ok(calls)
}

fn batch(
    device: &Device,
    calls: usize,
    call: &mut impl FnMut() -> train::Result<()>,
) -> train::Result<Duration> {
    device.compute().synchronize()?;
    let begun = Instant::now();
    (0..calls).try_for_each(|_| call())?;
    device.compute().synchronize()?;
    Ok(begun.elapsed())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_has_as_many_calls_as_it_needs() {
        let calls_of =
            |micros: u64| enough(|calls| Ok(Duration::from_micros(micros) * calls as u32)).unwrap();
        assert_eq!(
            (calls_of(9000), calls_of(700), calls_of(0)),
            (1, 8, MOST_CALLS)
        );
    }
}
