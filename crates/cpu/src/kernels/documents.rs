//! Where the documents of sequences start.

use super::memory::Shared;
use crate::pool::Pool;
use hal::kernel::Documents;

/// # Safety
/// As for [`execute`](super::execute).
pub(super) unsafe fn documents(args: &Documents, pool: &Pool) {
    // SAFETY: guaranteed by the caller, which passes both as u32.
    let [ids, out] = unsafe { Shared::<u32>::all([args.ids, args.out]) };
    pool.split(args.sequences, 1, |sequences| {
        for sequence in sequences {
            let tokens = sequence * args.sequence..(sequence + 1) * args.sequence;
            // SAFETY: nothing writes to the ids during the launch.
            let ids = unsafe { ids.part(tokens.clone()) };
            // SAFETY: the output overlaps nothing, and each sequence is one thread's.
            let out = unsafe { out.part_mut(tokens) };
            let mut start = 0;
            for (place, (id, out)) in (0..).zip(ids.iter().zip(out)) {
                *out = if args.places { place - start } else { start };
                if *id == args.end {
                    start = place + 1;
                }
            }
        }
    });
}
