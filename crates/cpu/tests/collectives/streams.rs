//! Two streams of one communicator, groups of calls, and ranks that arrive at arbitrary times.

use crate::harness::{Group, Rank};
use crate::reference::{content, reduced};
use hal::{Collective, DType, Kernel, ReduceOp, StreamKind, random::Key};
use std::time::Duration;

const ROUNDS: u64 = if cfg!(miri) { 4 } else { 60 };

fn nap(rank: &Rank, round: u64) {
    let word = Key {
        seed: rank.rank as u64,
        sequence: 1,
    }
    .word(round);
    if word.is_multiple_of(3) {
        std::thread::sleep(Duration::from_micros(u64::from(word >> 8) % 700));
    }
}

#[test]
fn two_streams_overlap_and_keep_their_calls_apart() {
    for size in [2, 3, 8] {
        let len = 5000;
        Group::new(size).run(|rank| {
            for round in 0..ROUNDS {
                let sources = |salt: u64| {
                    (0..size)
                        .map(|r| content(DType::F32, len, r, salt))
                        .collect::<Vec<_>>()
                };
                let (one, other) = (sources(2 * round), sources(2 * round + 1));
                let behind = rank.buffer(DType::F32, &one[rank.rank]);
                let beside = rank.buffer(DType::F32, &other[rank.rank]);
                nap(&rank, round);
                let reduce = |buffer, op| [Collective::AllReduce { buffer, op }];
                rank.run(
                    &*rank.communication,
                    &reduce(behind.slice(), ReduceOp::Sum),
                    &[&behind],
                )
                .unwrap();
                rank.run(
                    &*rank.compute,
                    &reduce(beside.slice(), ReduceOp::Max),
                    &[&beside],
                )
                .unwrap();
                let event = rank.communication.record().unwrap();
                rank.compute.wait(&*event).unwrap();
                assert!(event.is_complete().unwrap() && event.time_us().unwrap().is_some());
                assert!(behind.content() == reduced(DType::F32, ReduceOp::Sum, &one));
                assert!(beside.content() == reduced(DType::F32, ReduceOp::Max, &other));
            }
        });
    }
}

#[test]
fn ranks_may_use_different_streams_for_the_same_call() {
    Group::new(4).run(|rank| {
        for round in 0..ROUNDS {
            let kind = if (rank.rank as u64 + round).is_multiple_of(2) {
                StreamKind::Compute
            } else {
                StreamKind::Communication
            };
            let sources: Vec<_> = (0..4)
                .map(|r| content(DType::Bf16, 3000, r, round))
                .collect();
            let buffer = rank.buffer(DType::Bf16, &sources[rank.rank]);
            nap(&rank, round);
            let call = Collective::AllReduce {
                buffer: buffer.slice(),
                op: ReduceOp::Sum,
            };
            rank.run_now(kind, call, &[&buffer]).unwrap();
            assert!(buffer.content() == reduced(DType::Bf16, ReduceOp::Sum, &sources));
        }
    });
}

// Rank 0 receives and reduces in one call. The others may do the two in either order, because within one call
// nothing waits for anything else.
#[test]
fn nothing_in_one_call_waits_for_the_rest() {
    Group::new(3).timeout_ms(20_000).run(|rank| {
        for round in 0..ROUNDS {
            let sum = rank.buffer(DType::I32, &[1, 0, 0, 0]);
            let word = rank.buffer(DType::I32, &[rank.rank as u8, 0, 0, 0]);
            let other = rank.zeros(DType::I32, 1);
            let buffers = [&sum, &word, &other];
            let reduce = Collective::AllReduce {
                buffer: sum.slice(),
                op: ReduceOp::Sum,
            };
            let send = Collective::Send {
                buffer: word.slice(),
                to: 0,
            };
            nap(&rank, round);
            let recv = |buffer, from| Collective::Recv { buffer, from };
            let calls: Vec<Vec<Collective>> = match (rank.rank, round % 2) {
                (0, 0) => vec![vec![recv(word.slice(), 1), recv(other.slice(), 2), reduce]],
                (0, _) => vec![vec![reduce, recv(word.slice(), 1), recv(other.slice(), 2)]],
                (1, _) => vec![vec![reduce], vec![send]],
                _ => vec![vec![send], vec![reduce]],
            };
            for calls in calls {
                rank.run(&*rank.compute, &calls, &buffers).unwrap();
            }
            assert_eq!(sum.content(), [3, 0, 0, 0]);
            if rank.rank == 0 {
                assert_eq!((word.content()[0], other.content()[0]), (1, 2));
            }
        }
    });
}

#[test]
fn messages_keep_their_order_in_each_pair() {
    let len = 20_000;
    Group::new(2).run(|rank| {
        let messages: Vec<_> = (0..10).map(|m| content(DType::U32, len, 0, m)).collect();
        let buffers: Vec<_> = messages
            .iter()
            .map(|m| {
                if rank.rank == 0 {
                    rank.buffer(DType::U32, m)
                } else {
                    rank.zeros(DType::U32, len)
                }
            })
            .collect();
        for (index, buffer) in buffers.iter().enumerate() {
            let call = match rank.rank {
                0 => Collective::Send {
                    buffer: buffer.slice(),
                    to: 1,
                },
                _ => Collective::Recv {
                    buffer: buffer.slice(),
                    from: 0,
                },
            };
            nap(&rank, index as u64);
            rank.run(&*rank.communication, &[call], &[buffer]).unwrap();
        }
        rank.communication.synchronize().unwrap();
        assert!(
            buffers
                .iter()
                .zip(&messages)
                .all(|(buffer, message)| buffer.content() == *message)
        );
    });
}

#[test]
fn a_message_to_oneself_arrives() {
    let rank = Group::new(1).rank(0).unwrap();
    let (from, to) = (
        rank.buffer(DType::F32, &content(DType::F32, 500, 0, 0)),
        rank.zeros(DType::F32, 500),
    );
    let send = Collective::Send {
        buffer: from.slice(),
        to: 0,
    };
    let recv = Collective::Recv {
        buffer: to.slice(),
        from: 0,
    };
    rank.run(&*rank.compute, &[send, recv], &[&from, &to])
        .unwrap();
    assert_eq!(from.content(), to.content());
}

#[test]
fn queues_wait_for_each_other() {
    let rank = Group::new(1).rank(0).unwrap();
    let kernels = rank.device.kernels().unwrap();
    let streams: Vec<_> = (0..3)
        .map(|_| {
            rank.device
                .create_stream(StreamKind::Communication)
                .unwrap()
        })
        .collect();
    let buffer = rank.zeros(DType::F32, 1 << 16);
    for value in 0..ROUNDS {
        for (index, stream) in streams.iter().enumerate() {
            let fill = hal::kernel::Fill {
                out: buffer.slice(),
                value: (value * 3 + index as u64) as f64,
            };
            // SAFETY: the buffer is live until the last stream has passed.
            unsafe { kernels.launch(&**stream, &Kernel::Fill(fill)) }.unwrap();
            let event = stream.record().unwrap();
            streams[(index + 1) % 3].wait(&*event).unwrap();
        }
    }
    streams[0].synchronize().unwrap();
    let last = (ROUNDS * 3 - 1) as f32;
    assert!(buffer.content().chunks(4).all(|x| x == last.to_ne_bytes()));
}

#[test]
fn groups_do_not_disturb_each_other() {
    let (all, pairs) = (Group::new(4), [Group::new(2), Group::new(2)]);
    all.run(|rank| {
        let pair = &pairs[rank.rank / 2];
        let other = rank.device.join(pair.join(rank.rank % 2)).unwrap();
        for round in 0..ROUNDS {
            let (wide, narrow) = (
                rank.buffer(DType::I32, &[1, 0, 0, 0]),
                rank.buffer(DType::I32, &[1, 0, 0, 0]),
            );
            let reduce = |buffer| Collective::AllReduce {
                buffer,
                op: ReduceOp::Sum,
            };
            nap(&rank, round);
            rank.run(&*rank.communication, &[reduce(wide.slice())], &[&wide])
                .unwrap();
            // SAFETY: the buffer is live, and the call has run when it returns.
            unsafe { other.run(&*rank.compute, &[reduce(narrow.slice())]) }.unwrap();
            rank.communication.synchronize().unwrap();
            assert_eq!((wide.content()[0], narrow.content()[0]), (4, 2));
        }
    });
}
