//! A rank that fails or stalls ends the run on a GPU vendor as on the CPU: every rank stops, one message names what
//! happened where.

use crate::{CUDA, CUDA_STAGED, ROCM, ROCM_STAGED, Way};
use grid::Degrees;
use parallel::Context;
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use testkit::{config, fixed_tokens, try_ranks_with};
use train::{config::Precision, trainer::Trainer};

const TIMEOUT: Duration = Duration::from_secs(3);

/// Trains on four ranks; in step 2 `fault` is called on rank 3. Gives the report.
fn with_fault(way: Way, fault: fn() -> train::Result<()>) -> String {
    let mut config = config(Precision::F32);
    config.parallel.grid = Degrees { x: 2, z: 2, ..Degrees::default() };
    let (shared, begun) = (Arc::new(config), Instant::now());
    let failure = try_ranks_with(TIMEOUT, 4, way.open, move |world, device| {
        let (config, rank) = (&*shared, world.rank());
        let context = Context::new(world, config.grid()?, device, config.settings())?;
        let mut trainer = Trainer::new(&context, config)?;
        for step in 0..config.training.steps {
            if (rank, step) == (3, 2) {
                fault()?;
            }
            let tokens = |range| Ok(fixed_tokens(config, step, range));
            trainer.step_on(&trainer.shares().cut(&context, step, tokens)?)?;
        }
        Ok(())
    });
    assert!(begun.elapsed() < 10 * TIMEOUT, "{}: ended after {:?}", way.vendor, begun.elapsed());
    failure.expect_err("the run fails")
}

#[test]
fn a_rank_that_fails_is_named_with_its_error() {
    for way in [CUDA, CUDA_STAGED, ROCM, ROCM_STAGED] {
        if way.is_asked("a failing rank") && way.has_devices(4) {
            let report = with_fault(way, || Err(train::Error::Config("the disk is full".into())));
            assert!(report.starts_with("rank 3 failed: the disk is full"), "{}: {report}", way.vendor);
        }
    }
}

#[test]
fn a_rank_that_stalls_is_named_by_those_that_wait() {
    for way in [CUDA, CUDA_STAGED, ROCM, ROCM_STAGED] {
        if way.is_asked("a stalling rank") && way.has_devices(4) {
            let report = with_fault(way, || {
                std::thread::sleep(20 * TIMEOUT);
                Ok(())
            });
            let first = report.lines().next().unwrap_or_default();
            assert!(first.contains("waited") && first.contains("3"), "{}: {report}", way.vendor);
        }
    }
}
