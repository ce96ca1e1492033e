//! A rank that fails or stalls ends the run on a GPU vendor as on the CPU: every rank stops, and one message names what
//! happened, and where.

use crate::{CUDA, CUDA_STAGED, ROCM, ROCM_STAGED, Way, on_devices, options};
use grid::Degrees;
use hal::SumOrder;
use parallel::Context;
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use testkit::{config, fixed_batch, try_ranks_with};
use train::config::Precision;

const TIMEOUT: Duration = Duration::from_secs(3);
const RANKS: usize = 4;
/// Emulated devices of these two tests. A rank that stalls leaves work queued, and the vendors' calls to free memory
/// wait for all work of a device: another test's, too.
const FAILING: usize = 8;
const STALLING: usize = FAILING + RANKS;
pub(crate) const LAST_DEVICE: usize = STALLING + RANKS - 1;

/// Each vendor with each kind of collectives, on emulated devices from number `FIRST` on.
fn ways<const FIRST: usize>() -> [Way; 4] {
    [
        Way {
            open: |ordinal| cuda::open(options(place(FIRST, ordinal), false, SumOrder::Device)),
            ..CUDA
        },
        Way {
            open: |ordinal| cuda::open(options(place(FIRST, ordinal), true, SumOrder::Device)),
            ..CUDA_STAGED
        },
        Way {
            open: |ordinal| rocm::open(options(place(FIRST, ordinal), false, SumOrder::Device)),
            ..ROCM
        },
        Way {
            open: |ordinal| rocm::open(options(place(FIRST, ordinal), true, SumOrder::Device)),
            ..ROCM_STAGED
        },
    ]
}

fn place(first: usize, ordinal: usize) -> usize {
    if on_devices() {
        ordinal
    } else {
        first + ordinal
    }
}

/// Trains on four ranks, and calls `fault` on rank 3 in step 2. Returns the report.
fn with_fault(way: Way, fault: fn() -> train::Result<()>) -> String {
    let mut config = config(Precision::F32);
    config.parallel.grid = Degrees {
        x: 2,
        z: 2,
        ..Degrees::default()
    };
    let (shared, begun) = (Arc::new(config), Instant::now());
    let failure = try_ranks_with(TIMEOUT, RANKS, way.open, move |world, device| {
        let (config, rank) = (&*shared, world.rank());
        let context = Context::new(world, config.grid()?, device, config.settings())?;
        let mut trainer = config.trainer(&context)?;
        for step in 0..config.training.steps {
            if (rank, step) == (3, 2) {
                fault()?;
            }
            trainer.step(&fixed_batch(&trainer, config, step)?)?;
        }
        Ok(())
    });
    assert!(
        begun.elapsed() < 10 * TIMEOUT,
        "{}: ended after {:?}",
        way.vendor,
        begun.elapsed()
    );
    failure.expect_err("the run fails")
}

#[test]
fn a_rank_that_fails_is_named_with_its_error() {
    for way in ways::<FAILING>() {
        if way.is_asked("a failing rank") && way.has_devices(RANKS) {
            let report = with_fault(
                way,
                || Err(std::io::Error::other("the disk is full").into()),
            );
            assert!(
                report.starts_with("rank 3 failed: the disk is full"),
                "{}: {report}",
                way.vendor
            );
        }
    }
}

#[test]
fn a_rank_that_stalls_is_named_by_those_that_wait() {
    for way in ways::<STALLING>() {
        if way.is_asked("a stalling rank") && way.has_devices(RANKS) {
            let report = with_fault(way, || {
                std::thread::sleep(20 * TIMEOUT);
                Ok(())
            });
            let first = report.lines().next().unwrap_or_default();
            assert!(
                first.contains("waited") && first.contains("3"),
                "{}: {report}",
                way.vendor
            );
        }
    }
}
