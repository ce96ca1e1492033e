//! Finds the fastest variant of a GEMM by timing each.

use super::{Handles, variant::Variant};
use crate::{event::Point, stream::Core, table::Address};
use hal::{Error, Gemm, Result};

/// Runs that are timed together, after one untimed run.
const RUNS: usize = 3;
/// Times that each variant is timed, in turns; the shortest counts, because whatever else the device does only adds to it.
const ROUNDS: usize = 3;
/// Another variant must be faster than the default by this factor: a smaller gain may be chance.
const GAIN: f64 = 0.97;
const ALIGNMENT: usize = 256;

/// The fastest variant; the default where there is no memory to try the others.
///
/// The GEMM will overwrite C, and so may trials. But if it adds to the old C, trials do that in the stream's scratch memory,
/// at the same cost. We do not allocate other memory for this, because freeing it may wait for peers.
///
/// # Safety
/// As for [`hal::Blas::gemm`].
pub(super) unsafe fn fastest(handles: &Handles, core: &Core, gemm: &Gemm) -> Result<Variant> {
    let variants = Variant::all_of(gemm, handles.lt.num_algorithms(gemm)?);
    let room = variants.iter().map(|variant| variant.room_bytes(gemm));
    let room = room.max().unwrap_or(0).next_multiple_of(ALIGNMENT);
    let result = match gemm.beta {
        0.0 => 0,
        _ => gemm.m * gemm.c.leading * gemm.c.data.dtype.bytes(),
    };
    let address = match core.scratch(room + result) {
        Err(Error::OutOfMemory { .. }) => return Ok(Variant::default_of(gemm)),
        address => address?,
    };
    let mut trial = *gemm;
    if result > 0 {
        trial.c.data.addr = address + room as Address;
    }
    let mut times = vec![f64::INFINITY; variants.len()];
    for _ in 0..ROUNDS {
        for (variant, time) in variants.iter().zip(&mut times) {
            // SAFETY: passed on from the caller; what the variant needs and the result lie apart in this stream's
            // scratch memory.
            let measured = unsafe { microseconds(handles, core, &trial, *variant, address) }?;
            *time = time.min(measured);
        }
    }
    let best = (1..variants.len()).min_by(|a, b| times[*a].total_cmp(&times[*b]));
    let faster = best.filter(|best| times[*best] < GAIN * times[0]);
    Ok(variants[faster.unwrap_or(0)])
}

// Safety: as for `fastest`; what the variant needs fits at `room`.
unsafe fn microseconds(
    handles: &Handles,
    core: &Core,
    gemm: &Gemm,
    variant: Variant,
    room: Address,
) -> Result<f64> {
    // SAFETY: passed on from the caller.
    let run = || unsafe { handles.run(core, gemm, variant, room) };
    run()?;
    let (start, end) = (Point::new(&core.context)?, Point::new(&core.context)?);
    start.record(core.handle())?;
    (0..RUNS).try_for_each(|_| run())?;
    end.record(core.handle())?;
    end.synchronize()?;
    start.until_us(&end)
}
