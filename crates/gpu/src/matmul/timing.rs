//! Finds the fastest variant of a GEMM by timing each.

use super::{Handles, Tuning, variant::Variant};
use crate::{event::Point, stream::Core, table::Address};
use hal::{Error, Gemm, Result};

/// Runs that are timed together, after one untimed run.
const RUNS: usize = 3;
/// Another variant must be faster than the plain one by this factor: a smaller gain may be chance.
const GAIN: f64 = 0.97;
const ALIGNMENT: usize = 256;

/// The fastest variant; the plain one where there is no memory to try the others.
///
/// Results go to the stream's scratch memory and not to C, whose old contents may be needed. We do not allocate memory
/// for this, because freeing it may wait for peers.
///
/// # Safety
/// As for [`hal::Blas::gemm`].
pub(super) unsafe fn fastest(
    handles: &Handles,
    tuning: &Tuning,
    core: &Core,
    gemm: &Gemm,
) -> Result<Variant> {
    let result = (gemm.m * gemm.c.leading * gemm.c.data.dtype.bytes()).next_multiple_of(ALIGNMENT);
    let turned = Variant::ALL
        .iter()
        .filter_map(|variant| variant.turned(gemm))
        .map(|stored| stored.bytes())
        .max();
    let room = match core.scratch(result + turned.unwrap_or(0)) {
        Err(Error::OutOfMemory { .. }) => return Ok(Variant::AsStored),
        room => room?,
    };
    let mut trial = Gemm { beta: 0.0, ..*gemm };
    trial.c.data.addr = room;
    let mut times = [0.0; Variant::ALL.len()];
    for (variant, time) in Variant::ALL.into_iter().zip(&mut times) {
        // SAFETY: passed on from the caller; the result and the transposed matrix lie apart in this stream's
        // scratch memory.
        *time = unsafe {
            microseconds(
                handles,
                tuning,
                core,
                &trial,
                variant,
                room + result as Address,
            )
        }?;
    }
    let plain = times[0];
    let best = Variant::ALL
        .into_iter()
        .zip(times)
        .min_by(|(_, a), (_, b)| a.total_cmp(b));
    Ok(best
        .filter(|(_, time)| *time < GAIN * plain)
        .map_or(Variant::AsStored, |(variant, _)| variant))
}

// Safety: as for `fastest`; the transposed matrix fits behind `room`.
unsafe fn microseconds(
    handles: &Handles,
    tuning: &Tuning,
    core: &Core,
    gemm: &Gemm,
    variant: Variant,
    room: Address,
) -> Result<f64> {
    // SAFETY: passed on from the caller.
    let run = || unsafe { handles.run(tuning, core, gemm, variant, room) };
    run()?;
    let (start, end) = (Point::new(&core.context)?, Point::new(&core.context)?);
    start.record(core.handle())?;
    (0..RUNS).try_for_each(|_| run())?;
    end.record(core.handle())?;
    end.synchronize()?;
    start.until_us(&end)
}
