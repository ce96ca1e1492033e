//! Every collective against serial arithmetic: all types, 1 to 8 ranks, lengths that do not divide, both kinds of stream.

use crate::harness::{Group, Rank};
use crate::reference::{content, lengths, reduced};
use hal::{Collective, Counts, DType, RawSlice, ReduceOp, StreamKind};

const SIZES: [usize; 5] = [1, 2, 3, 4, 8];
const KINDS: [StreamKind; 2] = [StreamKind::Compute, StreamKind::Communication];

// Integers have no averages.
fn ops(dtype: DType) -> &'static [ReduceOp] {
    const ALL: [ReduceOp; 4] = [ReduceOp::Sum, ReduceOp::Max, ReduceOp::Min, ReduceOp::Avg];
    &ALL[..if dtype.is_float() { 4 } else { 3 }]
}

/// Runs `test` on all ranks of groups of every size.
fn everywhere(test: impl Fn(&Rank, StreamKind, DType, usize) + Sync) {
    for size in SIZES {
        Group::new(size).run(|rank| {
            for kind in KINDS {
                for dtype in DType::ALL {
                    lengths()
                        .iter()
                        .for_each(|&len| test(&rank, kind, dtype, len));
                }
            }
        });
    }
}

fn sources(rank: &Rank, dtype: DType, len: usize, salt: u64) -> Vec<Vec<u8>> {
    (0..rank.size)
        .map(|source| content(dtype, len, source, salt))
        .collect()
}

// Even and uneven parts of about `len` elements in all, some of them empty.
fn all_counts(len: usize, size: usize) -> [Counts; 2] {
    let uneven = (0..size)
        .map(|rank| if rank % 3 == 1 { 0 } else { len / size + rank })
        .collect();
    [Counts::Even(len / size), Counts::Uneven(uneven)]
}

fn part(slice: RawSlice, counts: &Counts, rank: usize) -> RawSlice {
    slice.part(counts.before(rank), counts.of(rank))
}

fn part_bytes(content: &[u8], dtype: DType, counts: &Counts, rank: usize) -> Vec<u8> {
    content[counts.before(rank) * dtype.bytes()..][..counts.of(rank) * dtype.bytes()].to_vec()
}

#[test]
fn all_reduce() {
    everywhere(|rank, kind, dtype, len| {
        for &op in ops(dtype) {
            let sources = sources(rank, dtype, len, op as u64);
            let buffer = rank.buffer(dtype, &sources[rank.rank]);
            let call = Collective::AllReduce {
                buffer: buffer.slice(),
                op,
            };
            rank.run_now(kind, call, &[&buffer]).unwrap();
            assert!(
                buffer.content() == reduced(dtype, op, &sources),
                "{op:?} of {len} {dtype} on {}",
                rank.rank
            );
        }
    });
}

#[test]
fn reduce_scatter() {
    everywhere(|rank, kind, dtype, len| {
        for counts in all_counts(len, rank.size) {
            let sources = sources(rank, dtype, counts.total(rank.size), 1);
            let both = [false, true];
            for (&op, in_place) in ops(dtype).iter().flat_map(|op| both.map(|it| (op, it))) {
                let whole = reduced(dtype, op, &sources);
                let expected = part_bytes(&whole, dtype, &counts, rank.rank);
                let (send, apart) = (
                    rank.buffer(dtype, &sources[rank.rank]),
                    rank.zeros(dtype, counts.of(rank.rank)),
                );
                let own = part(send.slice(), &counts, rank.rank);
                let recv = if in_place { own } else { apart.slice() };
                let call = Collective::ReduceScatter {
                    send: send.slice(),
                    recv,
                    counts: counts.clone(),
                    op,
                };
                rank.run_now(kind, call, &[&send, &apart]).unwrap();
                let content = if in_place {
                    part_bytes(&send.content(), dtype, &counts, rank.rank)
                } else {
                    assert!(send.content() == sources[rank.rank], "send was changed");
                    apart.content()
                };
                assert!(
                    content == expected,
                    "{len} {dtype} {counts:?} on {}",
                    rank.rank
                );
            }
        }
    });
}

#[test]
fn all_gather() {
    everywhere(|rank, kind, dtype, len| {
        for counts in all_counts(len, rank.size) {
            let parts: Vec<Vec<u8>> = (0..rank.size)
                .map(|i| content(dtype, counts.of(i), i, 2))
                .collect();
            for in_place in [false, true] {
                let mut start = vec![0; counts.total(rank.size) * dtype.bytes()];
                let at = counts.before(rank.rank) * dtype.bytes();
                if in_place {
                    start[at..][..parts[rank.rank].len()].copy_from_slice(&parts[rank.rank]);
                }
                let (apart, recv) = (
                    rank.buffer(dtype, &parts[rank.rank]),
                    rank.buffer(dtype, &start),
                );
                let own = part(recv.slice(), &counts, rank.rank);
                let send = if in_place { own } else { apart.slice() };
                let call = Collective::AllGather {
                    send,
                    recv: recv.slice(),
                    counts: counts.clone(),
                };
                rank.run_now(kind, call, &[&apart, &recv]).unwrap();
                assert!(
                    recv.content() == parts.concat(),
                    "{len} {dtype} {counts:?} on {}",
                    rank.rank
                );
            }
        }
    });
}

#[test]
fn broadcast() {
    everywhere(|rank, kind, dtype, len| {
        for root in [0, rank.size - 1] {
            let buffer = rank.buffer(dtype, &content(dtype, len, rank.rank, 4));
            let call = Collective::Broadcast {
                buffer: buffer.slice(),
                root,
            };
            rank.run_now(kind, call, &[&buffer]).unwrap();
            assert!(
                buffer.content() == content(dtype, len, root, 4),
                "{len} {dtype} on {}",
                rank.rank
            );
        }
    });
}

#[test]
fn all_to_all() {
    everywhere(|rank, kind, dtype, len| {
        let part = len / rank.size;
        let (sources, len) = (sources(rank, dtype, part * rank.size, 5), part * rank.size);
        let (send, recv) = (
            rank.buffer(dtype, &sources[rank.rank]),
            rank.zeros(dtype, len),
        );
        let call = Collective::AllToAll {
            send: send.slice(),
            recv: recv.slice(),
        };
        rank.run_now(kind, call, &[&send, &recv]).unwrap();
        let mine = |source: &Vec<u8>| part_bytes(source, dtype, &Counts::Even(part), rank.rank);
        let expected: Vec<u8> = sources.iter().flat_map(mine).collect();
        assert!(recv.content() == expected, "{len} {dtype} on {}", rank.rank);
    });
}

#[test]
fn messages_in_a_ring() {
    everywhere(|rank, kind, dtype, len| {
        let (next, previous) = (
            (rank.rank + 1) % rank.size,
            (rank.rank + rank.size - 1) % rank.size,
        );
        let (send, recv) = (
            rank.buffer(dtype, &content(dtype, len, rank.rank, 6)),
            rank.zeros(dtype, len),
        );
        let give = Collective::Send {
            buffer: send.slice(),
            to: next,
        };
        let take = Collective::Recv {
            buffer: recv.slice(),
            from: previous,
        };
        let calls = if rank.rank % 2 == 0 {
            [give, take]
        } else {
            [take, give]
        };
        rank.run(rank.stream(kind), &calls, &[&send, &recv])
            .unwrap();
        rank.stream(kind).synchronize().unwrap();
        assert!(
            recv.content() == content(dtype, len, previous, 6),
            "{len} {dtype} on {}",
            rank.rank
        );
    });
}

#[test]
fn a_barrier_lets_nobody_pass_early() {
    use std::sync::atomic::{AtomicUsize, Ordering};
    for size in SIZES {
        let came = AtomicUsize::new(0);
        Group::new(size).run(|rank| {
            for round in 1..=20 {
                came.fetch_add(1, Ordering::SeqCst);
                rank.run_now(KINDS[round % 2], Collective::Barrier, &[])
                    .unwrap();
                assert!(came.load(Ordering::SeqCst) >= round * size);
            }
        });
    }
}

#[test]
fn the_same_bits_on_all_ranks_and_in_every_run() {
    let len = if cfg!(miri) { 9 } else { 50_001 };
    for size in SIZES {
        let run = || {
            Group::new(size).run(|rank| {
                let buffer = rank.buffer(DType::F32, &content(DType::F32, len, rank.rank, 7));
                let call = Collective::AllReduce {
                    buffer: buffer.slice(),
                    op: ReduceOp::Sum,
                };
                rank.run_now(StreamKind::Compute, call, &[&buffer]).unwrap();
                buffer.content()
            })
        };
        let first = run();
        assert!(first.iter().all(|content| *content == first[0]));
        assert!((0..3).all(|_| run() == first));
    }
}
