//! More than 2^31 elements in one call, with every element checked. Needs 4.3 GB per process.

use crate::{collectives, run};
use bootstrap::{Processes, World};
use half::bf16;
use tensor::{DType, Device, ReduceOp, Result, Tensor};

/// A prime, so that no split of a message coincides with the end of a row.
const COLUMNS: usize = 4099;
/// This many rows have just over 2^31 elements.
const ROWS: usize = (1 << 31) / COLUMNS + 1;
/// Number of rows that are made and checked together.
const AT_A_TIME: usize = 4096;

/// Checks a broadcast and an all-reduce, and returns a description of what was checked.
pub(crate) fn check(processes: &'static dyn Processes) -> std::result::Result<String, String> {
    run(processes, 300, |world, device| {
        let members: Vec<usize> = (0..world.size()).collect();
        let group = collectives::join(world, device, "large", &members)?;
        let tensor = filled(world, device)?;
        group.broadcast(&device.compute(), &tensor, world.size() - 1)?;
        every_row_is(&tensor, 1)?;
        group.all_reduce(&device.compute(), &tensor, ReduceOp::Sum)?;
        every_row_is(&tensor, world.size())
    })?;
    Ok(format!(
        "a broadcast and an all_reduce of {} x bf16 are right",
        ROWS * COLUMNS
    ))
}

// The rows' numbers on the last rank, zeros on the others.
fn filled(world: &World, device: &Device) -> Result<Tensor> {
    if world.rank() + 1 < world.size() {
        return Tensor::zeros(device, DType::Bf16, &[ROWS, COLUMNS]);
    }
    let tensor = Tensor::empty(device, DType::Bf16, &[ROWS, COLUMNS])?;
    for start in (0..ROWS).step_by(AT_A_TIME) {
        let count = AT_A_TIME.min(ROWS - start);
        let numbers: Vec<bf16> = (start..start + count)
            .flat_map(|row| [number(row, 1); COLUMNS])
            .collect();
        tensor.rows(start, count)?.upload(&numbers)?;
    }
    Ok(tensor)
}

// A row's number, multiplied by `times`. The result is an integer below 256, so that sums over a few ranks have
// no more bits than a bf16 holds.
fn number(row: usize, times: usize) -> bf16 {
    bf16::from_f32((row % 61 * times) as f32)
}

fn every_row_is(tensor: &Tensor, times: usize) -> Result<()> {
    for start in (0..ROWS).step_by(AT_A_TIME) {
        let numbers = tensor
            .rows(start, AT_A_TIME.min(ROWS - start))?
            .to_vec::<bf16>()?;
        for (row, numbers) in (start..).zip(numbers.chunks(COLUMNS)) {
            let wanted = number(row, times);
            assert!(
                numbers.iter().all(|found| *found == wanted),
                "row {row} of {ROWS}, needs {wanted}"
            );
        }
    }
    Ok(())
}
