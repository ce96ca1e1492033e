//! How fast a rank's device is at the moment: a matmul and a copy, timed on all ranks at once.

use crate::Result;
use bootstrap::World;
use hal::{VendorId, random::Key};
use std::{
    fs,
    time::{Duration, Instant},
};
use tensor::{
    DType, Device, Tensor,
    ops::{self, Transpose, cast, matmul_into},
};

/// A batch of calls takes at least this long, so that the wait at its end and the start of its first call
/// hardly matter.
const SHORTEST_BATCH: Duration = Duration::from_millis(5);

/// A batch has at most this many calls.
const MOST_CALLS: usize = 4096;

/// Random numbers of an operand, which then repeat: a matmul of equal numbers takes less power than one of a training step.
const PATTERN: usize = 1 << 16;

/// What is timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Workload {
    /// Rows and columns of the matmul's matrices.
    pub size: usize,
    /// Their type.
    pub dtype: DType,
    /// Bytes of the copy.
    pub copy_bytes: usize,
    /// The time for which each of the two is repeated.
    pub time: Duration,
}

impl Workload {
    /// For a report before a job: matrices large enough for the speed of a vendor's devices, in the type in which they train.
    pub fn thorough(vendor: VendorId) -> Workload {
        let (size, dtype) = match vendor == VendorId::CPU {
            true => (512, DType::F32),
            false => (4096, DType::Bf16),
        };
        Workload {
            size,
            dtype,
            copy_bytes: 64 << 20,
            time: Duration::from_millis(40),
        }
    }

    /// Between the steps of a run: some 50 ms, and 40 MiB or less of the device's memory.
    pub fn brief(vendor: VendorId) -> Workload {
        let thorough = Workload::thorough(vendor);
        Workload {
            size: thorough.size / 2,
            copy_bytes: 8 << 20,
            time: Duration::from_millis(15),
            ..thorough
        }
    }
}

/// The speed of a device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Speed {
    /// Tflop/s of the matmul.
    pub tflops: f64,
    /// GB/s of the copy within the device's memory, read and written.
    pub copy_gbps: f64,
}

/// Times the workload on this rank's device, while all ranks of the job do. Collective.
///
/// # Cost
/// Twice [`Workload::time`] and what it takes to find how many calls fill a few milliseconds, and two barriers.
/// # Errors
/// Those of the device and of the ranks' exchange.
pub fn measure(world: &World, device: &Device, workload: &Workload) -> Result<Speed> {
    let Workload {
        size,
        dtype,
        copy_bytes,
        time,
    } = *workload;
    let everyone = world.everyone();
    // A rank that fails keeps its appointments with the others.
    let factors = || -> Result<[Tensor; 3]> {
        let operand = |name| operand(device, name, size, dtype);
        let product = Tensor::empty(device, dtype, &[size, size])?;
        Ok([operand("speed a")?, operand("speed b")?, product])
    };
    let factors = factors();
    everyone.barrier()?;
    let matmul = factors.and_then(|[a, b, product]| {
        mean(device, time, || {
            Ok(matmul_into(&a, &b, Transpose::None, &product, 1.0, 0.0)?)
        })
    });
    let full = || Ok(Tensor::full(device, DType::F32, &[copy_bytes / 4], 1.0)?);
    let buffers = full().and_then(|from| Ok((from, full()?)));
    everyone.barrier()?;
    let copy = buffers.and_then(|(from, to)| mean(device, time, || Ok(ops::copy(&from, &to)?)));
    Ok(Speed {
        tflops: 2.0 * (size as f64).powi(3) / matmul? / 1e12,
        copy_gbps: 2.0 * copy_bytes as f64 / copy? / 1e9,
    })
}

fn operand(device: &Device, name: &str, size: usize, dtype: DType) -> Result<Tensor> {
    let key = Key::new(1, name, 0);
    let pattern: Vec<f32> = (0..PATTERN.min(size * size))
        .map(|index| key.uniform(index as u64) - 0.5)
        .collect();
    let numbers: Vec<f32> = pattern.iter().copied().cycle().take(size * size).collect();
    let numbers = Tensor::from_vec(device, &[size, size], numbers)?;
    Ok(match dtype == DType::F32 {
        true => numbers,
        false => cast(&numbers, dtype)?,
    })
}

/// The name of this host.
pub fn host_name() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    match name.trim() {
        "" => "unknown".into(),
        name => name.into(),
    }
}

/// The middle value, or the mean of the two in the middle; NaN if there are none.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let half = sorted.len() / 2;
    match (sorted.len(), sorted.len() % 2) {
        (0, _) => f64::NAN,
        (_, 1) => sorted[half],
        _ => (sorted[half - 1] + sorted[half]) / 2.0,
    }
}

/// Seconds per call of each batch of calls between two waits. Batches that were too short serve as warm-up.
///
/// # Errors
/// Those of the calls and of the device.
pub fn per_call(
    device: &Device,
    repetitions: usize,
    mut call: impl FnMut() -> Result<()>,
) -> Result<Vec<f64>> {
    let calls = enough(|calls| batch(device, calls, &mut call))?;
    (0..repetitions)
        .map(|_| Ok(batch(device, calls, &mut call)?.as_secs_f64() / calls as f64))
        .collect()
}

// Seconds per call over a time, interruptions included: a device that is often interrupted is slow.
fn mean(device: &Device, time: Duration, mut call: impl FnMut() -> Result<()>) -> Result<f64> {
    let calls = enough(|calls| batch(device, calls, &mut call))?;
    let (mut spent, mut batches) = (Duration::ZERO, 0);
    while spent < time {
        spent += batch(device, calls, &mut call)?;
        batches += 1;
    }
    Ok(spent.as_secs_f64() / (calls * batches) as f64)
}

// Doubles the number of calls until a batch takes long enough.
fn enough(mut batch: impl FnMut(usize) -> Result<Duration>) -> Result<usize> {
    let mut calls = 1;
    batch(calls)?;
    while batch(calls)? < SHORTEST_BATCH && calls < MOST_CALLS {
        calls *= 2;
    }
    Ok(calls)
}

fn batch(device: &Device, calls: usize, call: &mut impl FnMut() -> Result<()>) -> Result<Duration> {
    device.compute().synchronize()?;
    let begun = Instant::now();
    (0..calls).try_for_each(|_| call())?;
    device.compute().synchronize()?;
    Ok(begun.elapsed())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_has_as_many_calls_as_it_needs() {
        let calls_of =
            |micros: u64| enough(|calls| Ok(Duration::from_micros(micros) * calls as u32)).unwrap();
        assert_eq!(
            (calls_of(9000), calls_of(700), calls_of(0)),
            (1, 8, MOST_CALLS)
        );
    }
}
