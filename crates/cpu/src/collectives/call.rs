//! The work of a call: how much there is, and how a part of it is done.

use super::{all_gather, all_reduce, all_to_all, broadcast, message, reduce_scatter};
use hal::{Collective, Counts, RawSlice};
use std::ops::Range;

/// Bytes that one piece of work covers: long enough to pay for taking it, short enough to distribute.
const PIECE_BYTES: usize = 32 << 10;

/// Number of elements to process, and how many of them make a piece.
pub(super) fn work(calls: &[Collective]) -> (usize, usize) {
    let Some(buffer) = calls[0].buffer() else {
        return (0, 1);
    };
    let elements = match calls[0] {
        Collective::AllToAll { .. } => buffer.len * calls.len(),
        _ => buffer.len,
    };
    (elements, PIECE_BYTES / buffer.dtype.bytes())
}

/// Does the work on a range of the elements.
///
/// # Safety
/// The calls are those of all members and agree; their buffers are live and have the lengths that the operation asks for;
/// nobody else accesses what belongs to this range.
pub(super) unsafe fn perform(calls: &[Collective], range: Range<usize>) {
    match &calls[0] {
        // SAFETY: guaranteed by the caller, as in all arms.
        Collective::AllReduce { op, .. } => unsafe { all_reduce::perform(calls, *op, range) },
        Collective::ReduceScatter { counts, op, .. } => {
            // SAFETY: as above.
            unsafe { reduce_scatter::perform(calls, counts, *op, range) }
        }
        // SAFETY: as above.
        Collective::AllGather { counts, .. } => unsafe {
            all_gather::perform(calls, counts, range)
        },
        // SAFETY: as above.
        Collective::Broadcast { root, .. } => unsafe { broadcast::perform(calls, *root, range) },
        // SAFETY: as above.
        Collective::AllToAll { .. } => unsafe { all_to_all::perform(calls, range) },
        // SAFETY: as above.
        Collective::Send { .. } | Collective::Recv { .. } => unsafe {
            message::perform(calls, range)
        },
        Collective::Barrier => {}
    }
}

/// The member's input.
pub(super) fn given(call: &Collective) -> RawSlice {
    match call {
        Collective::ReduceScatter { send, .. }
        | Collective::AllGather { send, .. }
        | Collective::AllToAll { send, .. } => *send,
        _ => in_place(call),
    }
}

/// The member's output.
pub(super) fn taken(call: &Collective) -> RawSlice {
    match call {
        Collective::ReduceScatter { recv, .. }
        | Collective::AllGather { recv, .. }
        | Collective::AllToAll { recv, .. } => *recv,
        _ => in_place(call),
    }
}

fn in_place(call: &Collective) -> RawSlice {
    call.buffer()
        .expect("a bug: a barrier has no buffer and no work")
}

/// Splits a range of concatenated parts: each rank whose part the range overlaps, with the range within that
/// part.
pub(super) fn parts(
    counts: &Counts,
    size: usize,
    range: Range<usize>,
) -> impl Iterator<Item = (usize, Range<usize>)> {
    let mut first = 0;
    (0..size).filter_map(move |rank| {
        let start = first;
        first += counts.of(rank);
        let (from, to) = (range.start.max(start), range.end.min(first));
        (from < to).then(|| (rank, from - start..to - start))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_cover_a_range_once() {
        for counts in [Counts::Even(5), Counts::Uneven(vec![3, 0, 7, 1])] {
            for start in 0..=counts.total(4) {
                for end in start..=counts.total(4) {
                    let covered: Vec<usize> = parts(&counts, 4, start..end)
                        .flat_map(|(rank, range)| {
                            range.map(|i| counts.before(rank) + i).collect::<Vec<_>>()
                        })
                        .collect();
                    assert_eq!(covered, (start..end).collect::<Vec<_>>());
                }
            }
        }
    }
}
