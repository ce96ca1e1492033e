//! A device has what its GEMMs need before the first of them, and what steps of several ranks need before the first step. To allocate
//! or load something waits for running work, which may be a receive from a rank that waits for this one.

use crate::{CUDA, ROCM, ending, tuning::options};
use tensor::{DType, Device, Result, Tensor, ops};
use testkit::{config_of_bytes, contract::Open, dataset, ranks_with};

const SIZE: [usize; 2] = [64, 64];
/// The emulated device of this test alone, whose memory no other test takes.
pub(crate) const DEVICE: usize = ending::LAST_DEVICE + 1;

/// Bytes of the device that the first GEMM takes.
fn taken_by_first_gemm(open: Open) -> Result<usize> {
    let device = Device::new(open(DEVICE)?)?;
    let factor = Tensor::full(&device, DType::F32, &SIZE, 1.0)?;
    // Leaves a block for the result.
    drop(Tensor::zeros(&device, DType::F32, &SIZE)?);
    let free = || device.hal().memory().map(|memory| memory.free);
    let before = free()?;
    let result = ops::matmul(&factor, &factor, ops::Transpose::None)?;
    assert_eq!(result.to_vec::<f32>()?[0], SIZE[1] as f32);
    drop(result);
    // The library of fused ones has a workspace of its own.
    let bias = factor.rows(0, 1)?.reshape(&SIZE[1..])?;
    let result = ops::matmul_bias(&factor, &factor, ops::Transpose::None, &bias)?;
    assert_eq!(result.to_vec::<f32>()?[0], SIZE[1] as f32 + 1.0);
    Ok(before - free()?)
}

#[test]
fn the_first_gemm_takes_no_memory() {
    // The second one times its variants.
    let opens: [(_, [Open; 2]); 2] = [
        (
            CUDA,
            [CUDA.open, |ordinal| {
                cuda::open(options(ordinal, "first-cuda"))
            }],
        ),
        (
            ROCM,
            [ROCM.open, |ordinal| {
                rocm::open(options(ordinal, "first-rocm"))
            }],
        ),
    ];
    for (way, opens) in opens {
        if !crate::on_devices() && way.is_ready("the first GEMM") {
            let taken = opens.map(taken_by_first_gemm);
            assert_eq!(taken, [Ok(0), Ok(0)], "{}", way.vendor);
        }
    }
}

/// With several ranks, all memory is there before the first step: also what a later one needs to gather weights ahead, and the rows
/// of the next.
#[test]
fn steps_of_several_ranks_take_no_memory() {
    for way in [CUDA, ROCM] {
        if crate::on_devices() || !way.is_ready("memory of steps") {
            continue;
        }
        for (grid, schedule) in [
            ("z=2", "1f1b"),
            ("x=2,data=2", "1f1b"),
            ("z=2,pipeline=2", "interleaved:2"),
            ("pipeline=2", "zb-h1"),
        ] {
            let mut config = config_of_bytes(grid.parse().unwrap());
            config.parallel.schedule = schedule.parse().unwrap();
            config.training.micro_batches = 2;
            let num_ranks = config.grid().unwrap().world_size();
            let taken = ranks_with(num_ranks, way.open, move |world, device| {
                let mut trainer = config.trainer(&config.context(&world, &device)?)?;
                let before = device.block_sizes();
                trainer.train_until(3, &*dataset(&config, b"the quick brown fox "))?;
                Ok((before, device.block_sizes()))
            });
            for (rank, (before, after)) in taken.iter().enumerate() {
                assert_eq!(before, after, "{}, {grid}, rank {rank}", way.vendor);
            }
        }
    }
}
