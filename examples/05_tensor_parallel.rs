//! 3D tensor parallelism: a linear layer on x=2,y=2,z=2 gives what it gives on one rank, and moves the bytes that the
//! formulas say.
//!
//! `cargo run --release --example 05_tensor_parallel`

use fascicle::parallel::{Operation, counters::Subject};
use fascicle::prelude::*;

const ROWS: usize = 16;
const INPUTS: usize = 8;
const OUTPUTS: usize = 12;

fn forward(degrees: Degrees) -> Result<Vec<(f64, u64)>> {
    let grid = Grid::new(degrees, AxisOrder::default()).expect("degrees of at least 1");
    launch(grid, Settings::default(), |context| {
        let options = SetOptions::inference(DType::F64);
        let model = auto_parallelize(context, options, |builder| builder.linear("layer", INPUTS, OUTPUTS))?;
        // The batch is cut over z; each rank computes its own rows.
        let own = ROWS / context.degree(Axis::Z);
        let first = context.index(Axis::Z) * own;
        let numbers: Vec<f64> =
            (first * INPUTS..(first + own) * INPUTS).map(|i| (i as f64 * 0.37).sin()).collect();
        let x = DTensor::input(context, Tensor::from_slice(context.device(), &[own, INPUTS], &numbers)?);
        let y = model.module.forward(&x)?.whole("the caller")?;
        let moved = context.counted().get(Axis::Y, Operation::AllReduce, Subject::Linear).bytes;
        Ok((y.tensor().to_vec::<f64>()?.iter().sum(), moved))
    })
}

fn main() -> Result<()> {
    let serial = forward(Degrees::default())?[0].0;
    let grid = Degrees { x: 2, y: 2, z: 2, ..Degrees::default() };
    let ranks = forward(grid)?;
    // Ranks along z hold different rows; one of each two holds a sum that counts.
    let parallel = ranks[0].0 + ranks[4].0;
    assert!((serial - parallel).abs() < 1e-12, "{serial} and {parallel}");
    // The partial results are reduced over y: m n / (Gz Gx) elements of 8 bytes.
    assert_eq!(ranks[0].1, (ROWS * OUTPUTS / 4 * 8) as u64);
    println!("serial {serial:.12}, on {grid} {parallel:.12}; each rank reduced {} bytes over y", ranks[0].1);
    Ok(())
}
