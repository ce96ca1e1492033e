//! 3D tensor parallelism: a linear layer on x=2,y=2,z=2 computes the same result as on one rank, and moves exactly
//! the bytes that the formulas predict. If mpirun started another number of ranks, y takes them all.
//!
//! `cargo run --release --example 05_tensor_parallel`

use fascicle::launch;
use fascicle::parallel::{Operation, Subject};
use fascicle::prelude::*;

const ROWS: usize = 16;
const INPUTS: usize = 8;
const OUTPUTS: usize = 12;

fn forward(degrees: Degrees) -> fascicle::Result<Vec<(f64, u64)>> {
    let grid = Grid::new(degrees, AxisOrder::default())?;
    launch(grid, Settings::default(), |context| {
        let options = SetOptions::inference(DType::F64);
        let model = auto_parallelize(context, options, |builder| {
            builder.linear("layer", INPUTS, OUTPUTS)
        })?;
        // The batch is cut over z; each rank computes its own rows.
        let own = ROWS / context.degree(Axis::Z);
        let first = context.index(Axis::Z) * own;
        let numbers: Vec<f64> = (first * INPUTS..(first + own) * INPUTS)
            .map(|i| (i as f64 * 0.37).sin())
            .collect();
        let x = DTensor::input(
            &model.parameters.evaluate(ROWS).pass(first..first + own)?,
            Tensor::from_slice(context.device(), &[own, INPUTS], &numbers)?,
        )?;
        let y = model.module.forward(&x)?.whole("the caller")?;
        let moved = context
            .counters()
            .get(Axis::Y, Operation::AllReduce, Subject::Linear)
            .bytes;
        Ok((y.tensor()?.to_vec::<f64>()?.iter().sum(), moved))
    })
}

fn main() -> fascicle::Result<()> {
    let serial = forward(Degrees::default())?[0].0;
    let grid = match launch::num_processes() {
        None | Some(8) => Degrees {
            x: 2,
            y: 2,
            z: 2,
            ..Degrees::default()
        },
        Some(ranks) => Degrees {
            y: ranks,
            ..Degrees::default()
        },
    };
    let ranks = forward(grid)?;
    // Ranks along z hold different rows; those along x and y hold the same.
    let parallel = ranks.iter().map(|(sum, _)| sum).sum::<f64>() / (grid.x * grid.y) as f64;
    assert!((serial - parallel).abs() < 1e-12, "{serial} and {parallel}");
    // The partial results are reduced over y: m n / (Gz Gx) elements of 8 bytes.
    let reduced = if grid.y == 1 {
        0
    } else {
        (ROWS * OUTPUTS / (grid.z * grid.x) * 8) as u64
    };
    assert_eq!(ranks[0].1, reduced);
    launch::say(&format!(
        "serial {serial:.12}, on {grid} {parallel:.12}; each rank reduced {reduced} bytes over y"
    ));
    Ok(())
}
