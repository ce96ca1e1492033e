//! A rank that panics, fails or stalls ends the run: every rank stops, and one message names what happened where.

use std::{sync::Arc, time::Duration};

use grid::Degrees;
use parallel::Context;
use testkit::{config, fixed_batch, try_ranks_within};
use train::{Config, config::Precision};

const TIMEOUT: Duration = Duration::from_millis(1500);

/// Trains on eight ranks; in step 2 `fault` is called on rank 5.
fn with_fault(fault: fn() -> train::Result<()>) -> String {
    let mut config: Config = config(Precision::F32);
    config.parallel.grid = Degrees {
        x: 2,
        y: 1,
        z: 2,
        context: 1,
        data: 1,
        pipeline: 2,
    };
    let shared = Arc::new(config);
    let failure = try_ranks_within(TIMEOUT, 8, move |world, device| {
        let config = &*shared;
        let rank = world.rank();
        let context = Context::new(world, config.grid()?, device, config.settings())?;
        let mut trainer = config.trainer(&context)?;
        for step in 0..config.training.steps {
            if (rank, step) == (5, 2) {
                fault()?;
            }
            trainer.step(&fixed_batch(&trainer, config, step)?)?;
        }
        Ok(())
    });
    failure.expect_err("the run fails")
}

#[test]
fn a_rank_that_fails_is_named_with_its_error() {
    let report = with_fault(|| Err(std::io::Error::other("the disk is full").into()));
    assert!(
        report.starts_with("rank 5 failed: the disk is full"),
        "{report}"
    );
}

#[test]
fn a_rank_that_panics_is_named_with_its_place() {
    let report = with_fault(|| panic!("a bug of ours"));
    let first = report.lines().next().unwrap();
    assert!(
        first.starts_with("rank 5") && first.contains("a bug of ours"),
        "{report}"
    );
    assert!(first.contains("failing.rs"), "the place is named: {report}");
}

#[test]
fn a_rank_that_stalls_is_named_with_the_collective_that_waits_for_it() {
    let report = with_fault(|| {
        std::thread::sleep(20 * TIMEOUT);
        Ok(())
    });
    let first = report.lines().next().unwrap();
    assert!(
        first.contains("waited") && first.contains("rank 5 is stuck"),
        "{report}"
    );
    assert!(first.contains("axis"), "the axis is named: {report}");
    assert!(
        first.contains("collective"),
        "so is the collective's number: {report}"
    );
}

#[test]
fn numbers_that_are_lost_end_the_run_with_the_tensor() {
    let mut config: Config = config(Precision::F32);
    config.parallel.grid = Degrees {
        x: 2,
        y: 2,
        z: 1,
        context: 1,
        data: 1,
        pipeline: 2,
    };
    config.training.learning_rate = 1e30;
    config.training.clip_norm = 0.0;
    let shared = Arc::new(config);
    let report = try_ranks_within(Duration::from_secs(20), 8, move |world, device| {
        let config = &*shared;
        let context = Context::new(world, config.grid()?, device, config.settings())?;
        let mut trainer = config.trainer(&context)?;
        for step in 0..20 {
            trainer.step(&fixed_batch(&trainer, config, step)?)?;
        }
        Ok(())
    });
    let report = report.expect_err("the run fails");
    for word in ["step ", "micro-batch", "first bad tensor:"] {
        assert!(report.contains(word), "`{word}` in: {report}");
    }
}
