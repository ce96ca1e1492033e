//! What the rounds need to know of a call: whether two calls agree, and how much work they make.

use super::{all_gather, all_reduce, all_to_all, broadcast, message, reduce_scatter};
use hal::{Collective, Counts, RawSlice};
use std::ops::Range;

/// Elements that one piece of work covers, in bytes: long enough to pay for taking it, short enough to share out.
const PIECE_BYTES: usize = 32 << 10;

/// Whether two members' calls are the same, addresses aside. Ranks reach into each other's memory, so this is what makes
/// the lengths that one rank knows hold for all.
pub(super) fn agree(a: &Collective, b: &Collective, size: usize) -> bool {
    use Collective::*;
    let alike = |a: &RawSlice, b: &RawSlice| a.len == b.len && a.dtype == b.dtype;
    let even = |a: &Counts, b: &Counts| (0..size).all(|rank| a.of(rank) == b.of(rank));
    match (a, b) {
        (AllReduce { buffer: a, op }, AllReduce { buffer: b, op: other }) => op == other && alike(a, b),
        (
            ReduceScatter { send: a, counts, op, .. },
            ReduceScatter { send: b, counts: others, op: other, .. },
        ) => op == other && alike(a, b) && even(counts, others),
        (AllGather { recv: a, counts, .. }, AllGather { recv: b, counts: others, .. }) => {
            alike(a, b) && even(counts, others)
        }
        (Broadcast { buffer: a, root }, Broadcast { buffer: b, root: other }) => root == other && alike(a, b),
        (AllToAll { send: a, .. }, AllToAll { send: b, .. }) => alike(a, b),
        (Send { buffer: a, .. }, Recv { buffer: b, .. }) => alike(a, b),
        (Barrier, Barrier) => true,
        _ => false,
    }
}

/// The call in words, with what distinguishes calls that do not agree.
pub(super) fn describe(call: &Collective) -> String {
    let text = call.describe();
    match call {
        Collective::ReduceScatter { counts: Counts::Uneven(counts), .. }
        | Collective::AllGather { counts: Counts::Uneven(counts), .. } => {
            format!("{text} in parts of {counts:?}")
        }
        _ => text,
    }
}

/// Elements to go through, and how many of them make a piece.
pub(super) fn work(calls: &[Collective]) -> (usize, usize) {
    let Some(buffer) = calls[0].buffer() else { return (0, 1) };
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
        // SAFETY: passed on from the caller, as in all arms.
        Collective::AllReduce { op, .. } => unsafe { all_reduce::perform(calls, *op, range) },
        Collective::ReduceScatter { counts, op, .. } => {
            // SAFETY: as above.
            unsafe { reduce_scatter::perform(calls, counts, *op, range) }
        }
        // SAFETY: as above.
        Collective::AllGather { counts, .. } => unsafe { all_gather::perform(calls, counts, range) },
        // SAFETY: as above.
        Collective::Broadcast { root, .. } => unsafe { broadcast::perform(calls, *root, range) },
        // SAFETY: as above.
        Collective::AllToAll { .. } => unsafe { all_to_all::perform(calls, range) },
        // SAFETY: as above.
        Collective::Send { .. } | Collective::Recv { .. } => unsafe { message::perform(calls, range) },
        Collective::Barrier => {}
    }
}

/// What the member gives.
pub(super) fn given(call: &Collective) -> RawSlice {
    match call {
        Collective::ReduceScatter { send, .. }
        | Collective::AllGather { send, .. }
        | Collective::AllToAll { send, .. } => *send,
        _ => in_place(call),
    }
}

/// What the member gets.
pub(super) fn taken(call: &Collective) -> RawSlice {
    match call {
        Collective::ReduceScatter { recv, .. }
        | Collective::AllGather { recv, .. }
        | Collective::AllToAll { recv, .. } => *recv,
        _ => in_place(call),
    }
}

fn in_place(call: &Collective) -> RawSlice {
    call.buffer().expect("a bug: a barrier has no buffer and no work")
}

/// Splits a range of concatenated parts: each rank whose part it meets, with the range within that part.
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
    use hal::{DType, ReduceOp};

    fn slice(len: usize, dtype: DType) -> RawSlice {
        RawSlice { addr: 64, len, dtype }
    }

    #[test]
    fn parts_cover_a_range_once() {
        for counts in [Counts::Even(5), Counts::Uneven(vec![3, 0, 7, 1])] {
            for start in 0..=counts.total(4) {
                for end in start..=counts.total(4) {
                    let covered: Vec<usize> = parts(&counts, 4, start..end)
                        .flat_map(|(rank, range)| range.map(|i| counts.before(rank) + i).collect::<Vec<_>>())
                        .collect();
                    assert_eq!(covered, (start..end).collect::<Vec<_>>());
                }
            }
        }
    }

    #[test]
    fn calls_agree_by_what_they_do() {
        let reduce = |len, dtype, op| Collective::AllReduce { buffer: slice(len, dtype), op };
        let one = reduce(4, DType::F32, ReduceOp::Sum);
        assert!(agree(&one, &one, 2));
        for other in [
            reduce(5, DType::F32, ReduceOp::Sum),
            reduce(4, DType::U32, ReduceOp::Sum),
            reduce(4, DType::F32, ReduceOp::Max),
            Collective::Barrier,
        ] {
            assert!(!agree(&one, &other, 2), "{}", describe(&other));
        }
    }

    #[test]
    fn even_and_uneven_counts_may_mean_the_same() {
        let gather =
            |counts| Collective::AllGather { send: slice(2, DType::F32), recv: slice(4, DType::F32), counts };
        let even = gather(Counts::Even(2));
        assert!(agree(&even, &gather(Counts::Uneven(vec![2, 2])), 2));
        let uneven = gather(Counts::Uneven(vec![1, 3]));
        assert!(!agree(&even, &uneven, 2));
        assert_eq!(describe(&uneven), "all_gather(4 x f32) in parts of [1, 3]");
    }
}
