//! Exchanges between ranks that are threads.

use fascicle_bootstrap::local::{Options, run};
use hal::{Error, Result};
use std::{
    thread::sleep,
    time::{Duration, Instant},
};

const SIZES: [usize; 5] = [1, 2, 3, 8, 64];

/// A delay of up to 2 ms that differs between ranks and steps but not between runs.
fn delay(rank: usize, step: usize) {
    let mixed =
        (rank as u64 * 0x9e37_79b9 + step as u64 * 0x85eb_ca6b).wrapping_mul(0xc2b2_ae3d_27d4_eb4f);
    sleep(Duration::from_micros((mixed >> 40) % 2000));
}

fn part(rank: usize, step: usize) -> Vec<u8> {
    vec![rank as u8; (rank + step) % 5]
}

#[test]
fn everyone_gets_the_parts_of_all_in_the_order_of_ranks() {
    for size in SIZES {
        let sizes = run(Options::new(size), move |world| {
            let everyone = world.everyone();
            assert_eq!((everyone.rank(), everyone.size()), (world.rank(), size));
            for step in 0..20 {
                delay(world.rank(), step);
                let expected: Vec<_> = (0..size).map(|rank| part(rank, step)).collect();
                assert_eq!(
                    world.everyone().all_gather(&part(world.rank(), step))?,
                    expected
                );
            }
            Ok::<_, Error>(size)
        });
        assert_eq!(sizes.unwrap(), vec![size; size]);
    }
}

#[test]
fn broadcast_gives_the_bytes_of_its_root() {
    run(Options::new(3), |world| {
        for root in 0..3 {
            let mine = [world.rank() as u8];
            assert_eq!(world.everyone().broadcast(root, &mine)?, [root as u8]);
        }
        world.everyone().barrier()
    })
    .unwrap();
}

#[test]
fn subgroups_work_side_by_side() {
    // Rows and columns of 4 x 2 ranks. The rows are listed from the right, so that group order differs from
    // world order.
    run(Options::new(8), |world| {
        let rank = world.rank();
        let row: Vec<_> = (0..8).rev().filter(|other| other / 2 == rank / 2).collect();
        let column: Vec<_> = (0..8).filter(|other| other % 2 == rank % 2).collect();
        let (rows, columns) = (
            world.exchange("row", &row)?,
            world.exchange("column", &column)?,
        );
        assert_eq!(row[rows.rank()], rank);
        for step in 0..20 {
            delay(rank, step);
            let bytes = |members: &[usize]| {
                members
                    .iter()
                    .map(|&rank| vec![rank as u8])
                    .collect::<Vec<_>>()
            };
            assert_eq!(rows.all_gather(&[rank as u8])?, bytes(&row));
            assert_eq!(columns.all_gather(&[rank as u8])?, bytes(&column));
        }
        Ok::<_, Error>(())
    })
    .unwrap();
}

#[test]
fn exchanges_of_the_same_name_are_independent() {
    run(Options::new(2), |world| {
        let first = world.exchange("world", &[0, 1])?;
        let second = world.exchange("world", &[0, 1])?;
        // Both run at once, so that parts of one would be mistaken for the other's if they were not kept apart.
        let (first, second) = std::thread::scope(|scope| {
            let second = scope.spawn(|| second.all_gather(&[20 + world.rank() as u8]));
            (
                first.all_gather(&[10 + world.rank() as u8]),
                second.join().unwrap(),
            )
        });
        assert_eq!(
            (first?, second?),
            (vec![vec![10], vec![11]], vec![vec![20], vec![21]])
        );
        assert_eq!(world.everyone().all_gather(&[])?, vec![vec![], vec![]]);
        Ok::<_, Error>(())
    })
    .unwrap();
}

#[test]
fn a_thread_beside_a_rank_meets_the_threads_of_the_others() {
    run(Options::new(3), |world| {
        let (rank, beside) = (world.rank(), world.beside("thread")?);
        std::thread::scope(|scope| {
            let thread = scope.spawn(move || {
                for step in 0..20 {
                    delay(beside.rank(), step);
                    let all = beside.everyone().all_gather(&[beside.rank() as u8, 100])?;
                    assert_eq!(all, [[0, 100], [1, 100], [2, 100]]);
                }
                beside.everyone().any(false)
            });
            for step in 0..70 {
                delay(rank, step + 7);
                let all = world.everyone().all_gather(&[rank as u8, step as u8])?;
                assert_eq!(all, [0, 1, 2].map(|rank| [rank, step as u8]));
            }
            assert!(!thread.join().unwrap()?);
            Ok::<_, Error>(())
        })
    })
    .unwrap();
}

#[test]
fn a_rank_alone_in_its_group_does_not_wait() {
    run(Options::new(2), |world| {
        let alone = world.exchange("self", &[world.rank()])?;
        assert_eq!(alone.all_gather(&[5])?, [[5]]);
        Ok::<_, Error>(())
    })
    .unwrap();
}

#[test]
fn ranks_that_do_not_come_in_time_are_named() {
    let timeout = Duration::from_millis(200);
    let failure = run(
        Options::new(4).with_timeout(timeout),
        move |world| -> Result<()> {
            let group = world.exchange("axis Y", &[3, 2, 1, 0])?;
            group.barrier()?;
            while matches!(world.rank(), 1 | 3) {
                world.abort().check()?;
                sleep(Duration::from_millis(5));
            }
            group.barrier()
        },
    )
    .unwrap_err();
    let Some(Error::Timeout {
        group,
        rank,
        operation,
        sequence,
        missing,
        waited,
    }) = failure.error()
    else {
        panic!("{failure}");
    };
    assert_eq!(
        (group.as_str(), operation.as_str(), sequence),
        ("axis Y", "exchange", &1)
    );
    assert_eq!((rank, missing.as_slice()), (&failure.rank, &[3, 1][..]));
    assert!(matches!(failure.rank, 0 | 2) && *waited >= timeout);
}

#[test]
fn a_rank_that_returns_early_is_named_at_once() {
    let start = Instant::now();
    let failure = run(Options::new(3), |world| {
        world.everyone().barrier()?;
        if world.rank() == 1 {
            Ok(())
        } else {
            world.everyone().barrier()
        }
    })
    .unwrap_err();
    let Some(Error::Mismatch {
        group,
        sequence: 1,
        one,
        other,
    }) = failure.error()
    else {
        panic!("{failure}")
    };
    assert_eq!((group.as_str(), one.0, other.0), ("world", failure.rank, 1));
    assert!(
        start.elapsed() < Duration::from_secs(2),
        "it waited for the timeout"
    );
    let text = "calls exchange, but rank 1 calls nothing more: it has returned";
    assert!(failure.to_string().ends_with(text), "{failure}");
}
