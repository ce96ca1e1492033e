//! Worlds in which a few live ranks run and stand for all others.

use fascicle_bootstrap::local::{Options, StandIns, run};
use hal::{Error, Result};
use std::time::{Duration, Instant};

/// `stages` stages of `width` ranks, the first of each live.
fn stages(stages: usize, width: usize) -> Options {
    let stand_ins = StandIns::new(stages * width, |rank| rank / width * width).unwrap();
    Options::new(stages * width)
        .with_stand_ins(stand_ins)
        .with_timeout(Duration::from_secs(5))
}

#[test]
fn a_world_of_32768_ranks_runs_as_eight_in_no_time() {
    let start = Instant::now();
    let ranks = run(stages(8, 4096).with_ranks_per_node(8), |world| {
        let (rank, stage) = (world.rank(), world.rank() / 4096);
        assert_eq!(
            (world.size(), world.node(), world.num_nodes()),
            (32_768, rank / 8, 4096)
        );
        assert_eq!((world.local_rank(), world.local_size()), (0, 8));
        let all = world.everyone().all_gather(&[stage as u8])?;
        assert_eq!(all.len(), 32_768);
        assert!(
            all.iter()
                .enumerate()
                .all(|(rank, bytes)| bytes == &[(rank / 4096) as u8])
        );
        // The groups of one rank on a grid of this size: one large axis, and its purposes.
        let members: Vec<usize> = (stage * 4096..(stage + 1) * 4096).collect();
        for purpose in 0..7 {
            let group = world.exchange(&format!("axis data {purpose}"), &members)?;
            assert_eq!((group.rank(), group.size()), (0, 4096));
            assert_eq!(group.broadcast(4000, &[7])?, [7]);
        }
        for _ in 0..100 {
            assert!(!world.everyone().any(false)?);
        }
        world.everyone().barrier()?;
        Ok::<_, Error>(rank)
    });
    assert_eq!(
        ranks.unwrap(),
        [0, 4096, 8192, 12_288, 16_384, 20_480, 24_576, 28_672]
    );
    // At most a second on an idle machine; work quadratic in the number of ranks would take minutes.
    assert!(
        start.elapsed() < Duration::from_secs(30),
        "took {:?}",
        start.elapsed()
    );
}

#[test]
fn live_ranks_meet_each_other_and_nobody_else() {
    // Two live ranks in each stage of four; the second stands for the last two.
    let stand_ins = StandIns::new(8, |rank| rank / 4 * 4 + (rank % 4).min(1)).unwrap();
    let said = run(Options::new(8).with_stand_ins(stand_ins), |world| {
        let (rank, stage) = (world.rank(), world.rank() / 4 * 4);
        let row: Vec<_> = (stage..stage + 4).rev().collect();
        let tensor = world.exchange("axis x", &row)?;
        assert_eq!((tensor.rank(), tensor.size()), (3 - rank % 4, 4));
        let line = world.exchange("axis pipeline", &[rank % 4, rank % 4 + 4])?;
        let bytes = [rank as u8];
        assert_eq!(
            line.all_gather(&bytes)?,
            [[rank as u8 % 4], [rank as u8 % 4 + 4]]
        );
        // Rank 3 of the row does not run; its stand-in sends for it.
        let told = tensor.broadcast(
            0,
            if tensor.stands_for(0) {
                b"from"
            } else {
                b"none"
            },
        )?;
        assert_eq!(told, b"from");
        assert!(tensor.any(rank % 4 == 1)? && !tensor.any(false)?);
        tensor.all_gather(&bytes)
    });
    let parts = |first: u8| {
        vec![
            vec![first + 1],
            vec![first + 1],
            vec![first + 1],
            vec![first],
        ]
    };
    assert_eq!(said.unwrap(), [parts(0), parts(0), parts(4), parts(4)]);
}

#[test]
fn any_is_answered_alike_where_every_rank_is_live() {
    for size in [1, 2, 3, 8] {
        let answers = run(Options::new(size), |world| {
            let everyone = world.everyone();
            Ok::<_, Error>((
                everyone.any(world.rank() == 0)?,
                everyone.any(false)?,
                everyone.stands_for(0),
            ))
        });
        let expected: Vec<_> = (0..size).map(|rank| (true, false, rank == 0)).collect();
        assert_eq!(answers.unwrap(), expected);
    }
}

#[test]
fn only_live_ranks_are_waited_for_and_named() {
    let options = stages(4, 16_384).with_timeout(Duration::from_millis(200));
    let failure = run(options, |world| -> Result<()> {
        while world.rank() == 32_768 {
            world.abort().check()?;
            std::thread::sleep(Duration::from_millis(5));
        }
        world.beat("waiting");
        world.everyone().barrier()
    })
    .unwrap_err();
    let Some(Error::Timeout { group, missing, .. }) = failure.error() else {
        panic!("{failure}")
    };
    assert_eq!(
        (group.as_str(), missing.as_slice()),
        ("world", &[32_768][..])
    );
    let seen: Vec<_> = failure
        .others
        .last_seen
        .iter()
        .map(|seen| seen.rank)
        .collect();
    assert_eq!(seen, [0, 16_384, 32_768, 49_152]);
}

#[test]
fn stand_ins_for_another_world_are_refused() {
    let stand_ins = StandIns::new(4, |_| 0).unwrap();
    let failure = run(Options::new(8).with_stand_ins(stand_ins), |_| {
        Ok::<_, Error>(())
    })
    .unwrap_err();
    assert!(
        failure
            .to_string()
            .ends_with("stand-ins for 4 ranks, needs those for 8"),
        "{failure}"
    );
}
