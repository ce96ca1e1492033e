//! Mismatched calls, and ranks that do not arrive, that leave, or that end the job: every rank learns of it,
//! and the error names the rank.

use crate::harness::{Buffer, Group, Rank};
use hal::{Collective, Counts, DType, Error, ReduceOp, Result, StreamKind};
use std::sync::Barrier;
use std::time::{Duration, Instant};

fn reduce(buffer: &Buffer) -> Collective {
    Collective::AllReduce {
        buffer: buffer.slice(),
        op: ReduceOp::Sum,
    }
}

// On rank 0 on its compute stream, on the others on their queue.
fn run_one(rank: &Rank, call: Collective, buffers: &[&Buffer]) -> Result<()> {
    let kind = if rank.rank == 0 {
        StreamKind::Compute
    } else {
        StreamKind::Communication
    };
    rank.run_now(kind, call, buffers)
}

#[test]
fn different_calls_are_named_on_every_rank() {
    let results = Group::new(3).run(|rank| {
        rank.run_now(StreamKind::Compute, Collective::Barrier, &[])
            .unwrap();
        let buffer = rank.zeros(DType::F32, if rank.rank == 2 { 5 } else { 4 });
        let result = run_one(&rank, reduce(&buffer), &[&buffer]);
        assert_eq!(
            rank.run_now(StreamKind::Compute, Collective::Barrier, &[]),
            result
        );
        result
    });
    let (one, other) = (
        (10, "all_reduce(4 x f32, sum)".into()),
        (12, "all_reduce(5 x f32, sum)".into()),
    );
    let expected = Error::Mismatch {
        group: "axis T".into(),
        sequence: 1,
        one,
        other,
    };
    assert!(
        results
            .iter()
            .all(|result| *result == Err(expected.clone())),
        "{results:?}"
    );
}

#[test]
fn every_kind_of_difference_is_found() {
    let pairs: [fn(&Rank, &Buffer) -> Collective; 5] = [
        |rank, b| Collective::Broadcast {
            buffer: b.slice(),
            root: rank.rank,
        },
        |rank, b| match rank.rank {
            0 => reduce(b),
            _ => Collective::AllReduce {
                buffer: b.slice(),
                op: ReduceOp::Min,
            },
        },
        |rank, b| match rank.rank {
            0 => Collective::Barrier,
            _ => reduce(b),
        },
        |rank, b| match rank.rank {
            0 => Collective::Send {
                buffer: b.slice(),
                to: 1,
            },
            _ => Collective::Recv {
                buffer: b.slice().part(0, 3),
                from: 0,
            },
        },
        |rank, b| {
            let counts = Counts::Uneven(if rank.rank == 0 {
                vec![1, 3]
            } else {
                vec![3, 1]
            });
            Collective::AllGather {
                send: b.slice().part(0, 1 + 2 * rank.rank),
                recv: b.slice(),
                counts,
            }
        },
    ];
    for pair in pairs {
        let results = Group::new(2).run(|rank| {
            let buffer = rank.zeros(DType::F32, 4);
            run_one(&rank, pair(&rank, &buffer), &[&buffer])
        });
        let mismatch = |result: &Result<()>| {
            matches!(
                result,
                Err(Error::Mismatch {
                    one: (10, _),
                    other: (11, _),
                    ..
                })
            )
        };
        assert!(results.iter().all(mismatch), "{results:?}");
    }
}

#[test]
fn who_does_not_come_is_named() {
    let gave_up = Barrier::new(3);
    let results = Group::new(3).timeout_ms(1000).run(|rank| {
        let buffer = rank.zeros(DType::F32, 4);
        if rank.rank == 1 {
            gave_up.wait();
        }
        let result = run_one(&rank, reduce(&buffer), &[&buffer]);
        if rank.rank != 1 {
            gave_up.wait();
        }
        assert_eq!(
            rank.run_now(StreamKind::Compute, Collective::Barrier, &[]),
            result
        );
        result
    });
    for result in results {
        let Err(Error::Timeout {
            group,
            rank,
            operation,
            sequence,
            missing,
            waited,
        }) = result
        else {
            panic!("{result:?}")
        };
        assert_eq!((group.as_str(), sequence, missing), ("axis T", 0, vec![11]));
        assert!(rank == 10 || rank == 12);
        assert_eq!(operation, "all_reduce(4 x f32, sum)");
        assert!(
            waited >= Duration::from_secs(1) && waited < Duration::from_secs(20),
            "{waited:?}"
        );
    }
}

#[test]
fn a_message_that_nobody_takes_times_out() {
    let results = Group::new(2).timeout_ms(1000).run(|rank| {
        let buffer = rank.zeros(DType::F32, 4);
        let send = Collective::Send {
            buffer: buffer.slice(),
            to: 1 - rank.rank,
        };
        run_one(&rank, send, &[&buffer])
    });
    let named = |result: &Result<()>| matches!(result, Err(Error::Timeout { missing, .. }) if missing.len() == 1);
    assert!(results.iter().all(named), "{results:?}");
}

#[test]
fn a_rank_that_does_not_join_is_named() {
    let group = Group::new(2).timeout_ms(100);
    let Err(error) = group.rank(1) else {
        panic!("joined alone")
    };
    let text = "join (collective 0 of axis T): rank 11 waited 0.1 s for rank 10";
    assert_eq!(error.to_string(), text);
}

#[test]
fn a_rank_joins_once_and_with_the_same_members() {
    let group = Group::new(1);
    let rank = group.rank(0).unwrap();
    assert!(matches!(
        rank.device.join(group.join(0)),
        Err(Error::Invalid { .. })
    ));
    let mut other = group.join(0);
    other.members = vec![11];
    assert!(matches!(
        rank.device.join(other),
        Err(Error::Mismatch { .. })
    ));
}

#[test]
fn an_abort_ends_all_waits() {
    let group = Group::new(3);
    let start = Instant::now();
    let results = group.run(|rank| {
        let buffer = rank.zeros(DType::F32, 4);
        if rank.rank == 1 {
            std::thread::sleep(Duration::from_millis(30));
            group.abort.raise(11, "the loss is NaN");
        }
        run_one(&rank, reduce(&buffer), &[&buffer])
    });
    let expected = Err(Error::Aborted {
        rank: 11,
        reason: "the loss is NaN".into(),
    });
    assert!(
        results.iter().all(|result| *result == expected),
        "{results:?}"
    );
    assert!(start.elapsed() < Duration::from_secs(5));
}

#[test]
fn a_rank_that_leaves_ends_the_wait_for_it() {
    for early in [false, true] {
        let group = Group::new(3);
        let results = group.run(|rank| {
            let buffer = rank.zeros(DType::F32, 4);
            let sleeps = (rank.rank == 1) != early;
            if sleeps {
                std::thread::sleep(Duration::from_millis(30));
            }
            if rank.rank == 1 {
                Ok(())
            } else {
                run_one(&rank, reduce(&buffer), &[&buffer])
            }
        });
        let reason = "it left axis T while others waited for it there";
        let left = Err(Error::Aborted {
            rank: 11,
            reason: reason.into(),
        });
        assert_eq!(results, [left.clone(), Ok(()), left]);
        // Whichever rank notices first, the job ends because of the rank that left.
        assert_eq!(group.abort.raised(), Some((11, reason)));
    }
}

#[test]
fn a_rank_may_leave_with_calls_in_its_queue() {
    Group::new(2).run(|rank| {
        let Rank {
            communicator,
            communication,
            ..
        } = rank;
        if communicator.rank() == 1 {
            std::thread::sleep(Duration::from_millis(20));
        }
        for _ in 0..10 {
            // SAFETY: a barrier has no buffers.
            unsafe { communicator.run(&*communication, &[Collective::Barrier]) }.unwrap();
        }
        drop(communicator);
        communication.synchronize().unwrap();
    });
}

#[test]
fn a_stream_that_failed_fails_its_group() {
    let narrow = Group::new(2).timeout_ms(1000);
    let wide = Group::new(2);
    let results = wide.run(|rank| {
        let other = rank.device.join(narrow.join(rank.rank)).unwrap();
        if rank.rank == 0 {
            // SAFETY: a barrier has no buffers.
            unsafe { other.run(&*rank.communication, &[Collective::Barrier]) }.unwrap();
            assert!(matches!(
                rank.communication.synchronize(),
                Err(Error::Timeout { .. })
            ));
        }
        let result = rank.run_now(StreamKind::Communication, Collective::Barrier, &[]);
        drop(other);
        result
    });
    assert!(matches!(results[0], Err(Error::Timeout { .. })));
    assert!(
        matches!(results[1], Err(Error::Aborted { rank: 10, .. })),
        "{results:?}"
    );
}

#[test]
fn a_rank_that_panics_is_not_waited_for() {
    let group = Group::new(2);
    let start = Instant::now();
    std::thread::scope(|scope| {
        let panics = scope.spawn(|| {
            let rank = group.rank(0).unwrap();
            rank.run(&*rank.communication, &[Collective::Barrier], &[])
                .unwrap();
            std::panic::resume_unwind(Box::new("not printed"));
        });
        let waits = scope.spawn(|| {
            let rank = group.rank(1).unwrap();
            std::thread::sleep(Duration::from_millis(200));
            rank.run_now(StreamKind::Compute, Collective::Barrier, &[])
        });
        assert!(panics.join().is_err());
        assert!(matches!(
            waits.join().unwrap(),
            Err(Error::Aborted { rank: 10, .. })
        ));
    });
    assert!(start.elapsed() < Duration::from_secs(10));
}

#[test]
fn calls_that_name_no_rank_are_refused_without_harm() {
    let rank = Group::new(1).rank(0).unwrap();
    let buffer = rank.zeros(DType::F32, 4);
    for call in [
        Collective::Broadcast {
            buffer: buffer.slice(),
            root: 1,
        },
        Collective::Send {
            buffer: buffer.slice(),
            to: 7,
        },
        Collective::AllGather {
            send: buffer.slice(),
            recv: buffer.slice(),
            counts: Counts::Uneven(vec![2, 2]),
        },
    ] {
        let result = rank.run_now(StreamKind::Compute, call, &[&buffer]);
        assert!(matches!(result, Err(Error::Invalid { .. })), "{result:?}");
    }
    rank.run_now(StreamKind::Compute, reduce(&buffer), &[&buffer])
        .unwrap();
}
